"""Numbers by zone: a receiver of one zone alone notices all it must, also that the last part was lost."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from rankcast import Gateway, InputError, RangeTopK, ZoneNumbers
from rankcast.gateway import Lists, answer
from rankcast.zone_numbers import lists_digest

WEST, EAST = [(0.0, 0.5, 0.0, 1.0)], [(0.5, 1.0, 0.0, 1.0)]


class Server:
    """An engine whose messages go to two zones, and a gateway in each."""

    def __init__(self) -> None:
        random = np.random.default_rng(4)
        self.engine = RangeTopK(k=3)
        self.numbers = ZoneNumbers([WEST, EAST])
        ends = np.sort(random.random((40, 2)), axis=1)
        self.rows: list[dict[str, Any]] = [
            {"id": i, "x_lo": float(lo), "x_hi": float(hi)} for i, (lo, hi) in enumerate(ends)
        ]
        self.engine.subscribe(self.rows)
        self.engine.publish({"id": range(30), "x": random.random(30), "y": random.random(30)})
        self.random, self.gateways = random, [self.gateway(0), self.gateway(1)]

    def gateway(self, zone: int) -> Gateway:
        def ask(ranges: list[dict[str, Any]]) -> Lists:
            return answer(ranges, lambda rows: self.engine.preview(rows).to_pylist(), self.numbers.last(zone))

        made = Gateway(ask, k=3)
        made.subscribe([row for row in self.rows if (row["x_lo"] >= 0.5) == bool(zone)])
        made.resynchronise(self.numbers.last(zone))
        return made

    def batch(self) -> list[Any]:
        """What a few updates and moves are told as, by zone."""
        size = int(self.random.integers(1, 5))
        ids = self.random.choice(30, size, replace=False)
        rows = {"id": ids, "x": self.random.random(size), "y": self.random.random(size)}
        return self.numbers.number(self.engine.disseminate(rows, batch=True).to_pylist())

    def deliver(self, zone: int, part: Any) -> None:
        self.gateways[zone].receive(part.rows, sequence=part.sequence, after=part.after)

    def right(self, zone: int) -> bool:
        lists: dict[Any, list[tuple[Any, float]]] = {}
        for row in self.engine.results().to_pylist():
            lists.setdefault(row["subscription"], []).append((row["item"], row["score"]))
        mine = [row["id"] for row in self.rows if (row["x_lo"] >= 0.5) == bool(zone)]
        return all(self.gateways[zone].items(name) == lists.get(name, []) for name in mine)


def test_zones_follow_without_asking() -> None:
    server = Server()
    asked = [gateway.stats()["asked"] for gateway in server.gateways]
    for _ in range(30):
        for zone, part in server.batch():
            server.deliver(zone, part)
        assert server.right(0)
        assert server.right(1)
    assert [gateway.stats()["asked"] for gateway in server.gateways] == asked
    assert [gateway.stats()["gaps"] for gateway in server.gateways] == [0, 0]


def test_loss_doubling_and_another_order_are_noticed_and_mended() -> None:
    server = Server()
    kept: list[Any] = []
    for _ in range(60):
        parts = kept + server.batch()
        kept = []
        for zone, part in parts:
            fate = server.random.random()
            if fate < 0.15:
                continue
            if fate < 0.3:
                kept.append((zone, part))  # it comes after the next ones
                continue
            for _ in range(2 if fate < 0.45 else 1):
                server.deliver(zone, part)
    for zone, part in server.numbers.signs_of_life():
        server.deliver(zone, part)
    counts = [gateway.stats() for gateway in server.gateways]
    assert server.right(0)
    assert server.right(1)
    assert all(count["gaps"] > 0 and count["doubled"] > 0 for count in counts)


def test_a_sign_of_life_shows_that_the_last_part_was_lost() -> None:
    server = Server()
    touched: set[int] = set()
    while 0 not in touched or server.right(0):
        touched = {zone for zone, _ in server.batch()}  # nobody hears of it
    assert not server.right(0)
    for zone, part in server.numbers.signs_of_life():
        server.deliver(zone, part)
    assert server.right(0)
    assert server.gateways[0].stats()["gaps"] == 1
    before = server.gateways[0].stats()
    for zone, part in server.numbers.signs_of_life():
        server.deliver(zone, part)
    assert server.gateways[0].stats() == before


def test_a_receiver_that_comes_back_asks_for_its_zone_alone() -> None:
    server = Server()
    asked = server.gateways[1].stats()["asked"]
    server.batch()
    server.gateways[0] = Gateway(server.gateways[0]._ask, k=3)
    server.gateways[0].subscribe([row for row in server.rows if row["x_lo"] < 0.5])
    assert server.gateways[0].sequence is None
    for zone, part in server.numbers.signs_of_life():
        if zone == 0:
            server.deliver(zone, part)
    assert server.right(0)
    assert server.gateways[1].stats()["asked"] == asked


def test_a_zone_must_have_all_attributes() -> None:
    with pytest.raises(InputError, match="zone 1 has 1 attributes"):
        ZoneNumbers([[(0, 1, 0, 1), (0, 1, 0, 1)], [(0, 1, 0, 1)]], over=["x", "z"])


def test_numbering_needs_no_numpy() -> None:
    script = "import json, sys, rankcast.zone_numbers\nprint(json.dumps([n in sys.modules for n in NAMES]))"
    script = script.replace("NAMES", "('numpy', 'pyarrow')")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [False, False]


def test_a_part_that_was_damaged_counts_as_lost() -> None:
    """Whatever is changed in it: the gateway is as before, and the next part makes it ask."""
    server = Server()
    server.numbers = ZoneNumbers([WEST, EAST], by="y")
    gateway = server.gateways[0] = server.gateway(0)
    damaged = 0
    for turn in range(40):
        for zone, part in server.batch():
            if zone:
                continue
            sent = json.loads(json.dumps(part.rows))
            row, mode = sent[turn % len(sent)], turn % 5
            given = {"sequence": part.sequence, "after": part.after, "digest": part.digest}
            if mode == 1:
                row["y"] = (row["y"] or 0.0) + 1e-12
            elif mode == 2:
                row["item"] += 1
            elif mode == 3:
                row["x_lo_inner"] = 0.25 if row["x_lo_inner"] != 0.25 else 0.5
            elif mode == 4:
                del row["item"]
            before = [gateway.items(each["id"]) for each in server.rows if each["x_lo"] < 0.5]
            gateway.receive(sent, **given)
            if mode:
                damaged += 1
                assert [gateway.items(each["id"]) for each in server.rows if each["x_lo"] < 0.5] == before
            else:
                assert server.right(0)
    assert gateway.stats()["damaged"] == damaged > 15
    assert 3 < gateway.stats()["gaps"] <= damaged
    for zone, part in server.numbers.signs_of_life():
        if not zone:
            gateway.receive([], sequence=part.sequence, after=part.after, digest=part.digest)
    assert server.right(0)


def test_a_list_that_silently_differs_is_noticed_by_the_digest_of_its_zone() -> None:
    server = Server()
    gateway = server.gateways[0]
    mine = [row for row in server.rows if row["x_lo"] < 0.5]

    def sign() -> list[Any]:
        digest = lists_digest(mine, server.engine.preview(mine).to_pylist())
        part = server.numbers.signs_of_life({0: digest})[0].part
        assert server.numbers.signs_of_life({0: digest})[1].part.lists is None
        return next(iter(gateway.follow([part])))

    for _ in range(5):
        for zone, part in server.batch():
            server.deliver(zone, part)
        assert sign() == []
        wrong = mine[int(server.random.integers(len(mine)))]
        kept = gateway._kept[wrong["x_lo"], wrong["x_hi"]]
        assert kept.list is not None
        held = kept.list.items()
        kept.list.receive("nobody" if not held else held[0][0], 1e9)  # a bug of somebody's
        assert not server.right(0)
        assert sign() == [wrong["id"]]
        assert server.right(0)
    assert gateway.stats()["mended"] == 5
    assert gateway.stats()["gaps"] == 0
    # no comparison out of step: the part was not heard yet
    (_, part), *_ = [each for each in server.batch() if each.zone == 0] or [server.numbers.signs_of_life()[0]]
    gateway.receive([], sequence=part.sequence - 1, after=part.sequence - 1, lists="0" * 16)
    server.deliver(0, part)
    assert server.right(0)
