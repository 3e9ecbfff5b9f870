"""Messages for boxes over two and three attributes: the affected and nobody else, each message once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import RangeTopK
from rankcast.errors import SettingError
from tests.engines.test_dissemination import (
    Audience,
    _apply,
    _check,
    _inside,
    _place,
    lists_of,
    one_by_one,
    reaches,
    register,
)

OVER = ["a", "b", "c"]
Rows = dict[str, list[Any]]


def _boxes(rng: np.random.Generator, over: list[str], values: int, *, half: bool) -> Rows:
    """Boxes with many equal ends, some unbounded; `half`: the second attribute has one bound."""
    count, side = int(rng.integers(1, 60)), ["b_lo", "b_hi"][rng.integers(2)]
    rows: Rows = {"id": list(range(count))}
    for name in over:
        ends = np.sort(rng.integers(0, values, (count, 2)), axis=1).tolist()
        rows[f"{name}_lo"] = [None if rng.random() < 0.3 else end[0] for end in ends]
        rows[f"{name}_hi"] = [None if rng.random() < 0.2 else end[1] for end in ends]
    if half:
        rows[side] = [None] * count
    return rows


def _events(rng: np.random.Generator, over: list[str], values: int, there: set[int]) -> Rows:
    rows: Rows = {"id": [], **{name: [] for name in over}, "y": []}
    for _ in range(int(rng.integers(1, 10))):
        item = int(rng.integers(0, 20))
        gone = item in there and rng.random() < 0.2
        rows["id"].append(item)
        for name in over:
            keep = item in there and rng.random() < 0.7
            rows[name].append(None if keep else int(rng.integers(0, values)))
        rows["y"].append(None if gone else int(rng.integers(0, 10)))
        there.discard(item) if gone else there.add(item)
    return rows


class Play:
    """An engine over several attributes, its audience, and where the objects are."""

    def __init__(self, seed: int, attributes: float, method: str) -> None:
        self.rng = np.random.default_rng(seed)
        self.over = OVER[: 2 if attributes == 1.5 else int(attributes)]
        self.values = int(self.rng.integers(2, 9))
        self.k, order = int(self.rng.integers(1, 5)), ["asc", "desc"][self.rng.integers(2)]
        self.sign = 1 if order == "asc" else -1
        self.engine = RangeTopK(over=self.over, k=self.k, order=order, method=method)
        self.audience = Audience(self.over, self.k, order)
        rows = _boxes(self.rng, self.over, self.values, half=attributes == 1.5)
        register(self.engine, self.audience, "subscribe", rows)
        self.there: set[int] = set()
        self.places: dict[Any, dict[str, Any]] = {}
        self.values_at: dict[Any, dict[str, Any]] = {}

    def parts(self, *, batch: bool) -> list[Rows]:
        rows = _events(self.rng, self.over, self.values, self.there)
        return [rows] if batch else one_by_one(rows)

    def lists(self) -> Any:
        return lists_of(self.engine, {item: dict(place) for item, place in self.places.items()})


METHODS = [(1.5, "sparse"), (1.5, "unicast"), (1.5, "dense"), (2, "sparse"), (2, "unicast"), (3, "sparse")]


@pytest.mark.parametrize("batch", [False, True], ids=["event by event", "net"])
@pytest.mark.parametrize(("attributes", "method"), METHODS)
def test_lists_follow_and_only_the_affected_hear(attributes: float, method: str, batch: bool) -> None:
    @settings(max_examples=15)
    @given(st.integers(0, 10**6))
    def law(seed: int) -> None:
        play = Play(seed, attributes, method)
        affected = 0
        for _ in range(3):
            for part in play.parts(batch=batch):
                before = play.lists()
                told = play.engine.disseminate(part, batch=batch)
                play.audience.deliver(told, "y", to_nobody=method == "dense")
                _place(play.places, part, play.over)
                _check(play.audience, before, play.lists(), part, batch=batch)
                affected += sum(bool(heard) for heard in play.audience.heard.values())
                if not batch and method != "dense":  # in a batch an item may have two messages
                    _check_tiles(play, told.to_pylist(), one_by_one=method == "unicast")
        assert method == "dense" or play.engine.stats()["affected"] == affected

    law()


def _check_tiles(play: Play, tiles: list[dict[str, Any]], *, one_by_one: bool) -> None:
    """Nobody is in two tiles of a message; no two tiles of one could be one without reaching others."""
    ranges = play.audience.ranges
    groups: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for tile in tiles:
        groups.setdefault((tile["item"], tile["y"]), []).append(tile)
    for group in groups.values():
        reached = [{n for n in ranges if reaches(tile, ranges[n], play.over)} for tile in group]
        assert sum(map(len, reached)) == len(set().union(*reached))
        if one_by_one:
            boxes = [{tuple(ranges[n].get(f"{o}_{e}") for o in play.over for e in ("lo", "hi")) for n in mine}
                     for mine in reached]  # fmt: skip
            assert all(len(box) == 1 for box in boxes)
            continue
        for i, one in enumerate(group):
            for j in range(i):
                both = _around(one, group[j], play.over)
                held = {n for n in ranges if reaches(both, ranges[n], play.over)}
                assert held != reached[i] | reached[j], "two tiles could be one"


def _around(one: dict[str, Any], two: dict[str, Any], over: list[str]) -> dict[str, Any]:
    """The box around two tiles."""
    both: dict[str, Any] = {}
    for name in over:
        for end, pick in (("lo_outer", min), ("lo_inner", max), ("hi_inner", min), ("hi_outer", max)):
            values = [tile[f"{name}_{end}"] for tile in (one, two)]
            both[f"{name}_{end}"] = None if None in values else pick(values)
    return both


@pytest.mark.parametrize(("attributes", "method"), [(1.5, "sparse"), (1.5, "dense"), (2, "sparse")])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_epsilon_leaves_lists_exact_and_tells_nothing_far_beyond_k(
    attributes: float, method: str, epsilon: float
) -> None:
    @settings(max_examples=15)
    @given(st.integers(0, 10**6))
    def law(seed: int) -> None:
        play = Play(seed, attributes, method)
        at = play.values_at
        for _ in range(3):
            for part in play.parts(batch=False):
                moments = [{item: dict(place) for item, place in at.items()}]
                told = play.engine.disseminate(part, epsilon=epsilon)
                play.audience.deliver(told, "y", to_nobody=method == "dense")
                moments.append({item: place for item, place in moments[0].items() if item != part["id"][0]})
                _place(play.places, part, play.over)
                _apply(at, part, play.over)
                moments.append(at)
                after = play.lists()
                for name, mine in play.audience.lists.items():
                    assert mine.items() == [(item, score) for item, _, score in after.get(name, [])]
                    for item in play.audience.heard[name]:
                        assert min(_rank(play, name, item, m) for m in moments) <= (1 + epsilon) * play.k

    law()


def _rank(play: Play, name: Any, item: Any, objects: dict[Any, Any]) -> float:
    span = play.audience.ranges[name]
    inside = sorted((play.sign * at["y"], i) for i, at in objects.items() if _inside(span, at, play.over))
    names = [i for _, i in inside]
    return names.index(item) + 1 if item in names else float("inf")


def test_dense_tiles_of_boxes_are_refused_by_name_and_change_nothing() -> None:
    engine = RangeTopK(over=["a", "b"], k=1)
    engine.subscribe({"id": [1], "a_lo": [0], "a_hi": [1], "b_lo": [0], "b_hi": [1]})
    with pytest.raises(SettingError, match="dense"):
        engine.disseminate({"id": [1], "a": [0], "b": [0], "y": [1]}, method="dense")
    assert engine.results().num_rows == 0
    assert engine.publish({"id": [1], "a": [0], "b": [0], "y": [1]}).num_rows == 1


def test_dense_tiles_do_not_depend_on_who_subscribes() -> None:
    told = []
    for count in (0, 3, 40):
        rng = np.random.default_rng(4)
        engine = RangeTopK(over=["a", "b"], k=3, method="dense")
        place = rng.random((50, 3)).T.tolist()
        engine.publish({"id": list(range(50)), "a": place[0], "b": place[1], "y": place[2]})
        ends = np.sort(rng.random((count, 2)), axis=1).T.tolist()
        engine.subscribe({"id": list(range(count)), "a_lo": ends[0], "a_hi": ends[1], "b_hi": ends[1]})
        told.append(engine.disseminate({"id": list(range(20)), "y": place[0][:20]}))
    assert told[0].num_rows > 20
    assert told[0].equals(told[1])
    assert told[0].equals(told[2])


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_asking_what_the_published_server_asks_changes_only_the_counts(seed: int) -> None:
    plays = [Play(seed, 1.5, "sparse") for _ in range(2)]
    way: Any = plays[1].engine._way
    way._listings.asking = True
    for _ in range(3):
        told = [[play.engine.disseminate(part) for part in play.parts(batch=False)] for play in plays]
        assert all(one.equals(two) for one, two in zip(*told, strict=True))
    fewer, more = (play.engine.stats() for play in plays)
    assert fewer["affected"] == more["affected"]
    assert fewer["miny"] <= more["miny"]
    assert fewer["snap"] <= more["snap"]
