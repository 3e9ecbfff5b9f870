"""What is disseminated reaches exactly those who must hear it, and their lists follow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import RangeTopK, SubscriberList
from rankcast.engines.range_topk import METHODS
from tests.laws.range_topk import workloads

exact = pytest.mark.parametrize("method", [method for method in METHODS if method != "relax"])


def reaches(tile: dict[str, Any], subscription: dict[str, Any], over: list[str]) -> bool:
    """Whether a message goes to a subscription, as the contract says it."""
    for name in over:
        low, high = subscription.get(f"{name}_lo"), subscription.get(f"{name}_hi")
        low = float("-inf") if low is None else low
        high = float("inf") if high is None else high
        outer, inner = tile[f"{name}_lo_outer"], tile[f"{name}_lo_inner"]
        if not ((outer is None or outer < low) and low <= inner):
            return False
        inner, outer = tile[f"{name}_hi_inner"], tile[f"{name}_hi_outer"]
        if not (inner <= high and (outer is None or high < outer)):
            return False
    return True


class Audience:
    """Every subscriber with its list, and what each has heard since the last look."""

    def __init__(self, over: list[str], k: int, order: str) -> None:
        self.over, self.k, self.order = over, k, order
        self.ranges: dict[Any, dict[str, Any]] = {}
        self.lists: dict[Any, SubscriberList] = {}
        self.heard: dict[Any, list[Any]] = {}

    def register(self, call: str, rows: Any, engine: RangeTopK) -> None:
        if call == "unsubscribe":
            for name in rows:
                del self.ranges[name], self.lists[name]
            return
        for values in zip(*rows.values(), strict=True):
            given = dict(zip(rows, values, strict=True))
            name = given["id"]
            self.ranges.setdefault(name, {}).update(given)
            self.lists[name] = SubscriberList(self.k, self.order)
            for row in engine.results([name]).to_pylist():
                self.lists[name].receive(row["item"], row["score"])

    def deliver(self, tiles: pa.Table, by: str) -> None:
        self.heard = {name: [] for name in self.ranges}
        for tile in tiles.to_pylist():
            found = [name for name in self.ranges if reaches(tile, self.ranges[name], self.over)]
            assert found, f"{tile} reaches nobody"
            for name in found:
                self.heard[name].append(tile["item"])
                self.lists[name].receive(tile["item"], tile[by])


def lists_of(engine: RangeTopK, places: dict[Any, Any]) -> dict[Any, list[tuple[Any, ...]]]:
    """Each subscription's list of (item, place, score)."""
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for row in engine.results().to_pylist():
        found.setdefault(row["subscription"], []).append((row["item"], places[row["item"]], row["score"]))
    return found


@exact
@pytest.mark.parametrize("batch", [False, True], ids=["event by event", "net"])
def test_lists_follow_and_only_the_affected_hear(method: str, batch: bool) -> None:
    @settings(max_examples=150)
    @given(workloads(), st.data())
    def law(workload: Any, data: st.DataObject) -> None:
        over = workload.settings["over"]
        names = [over] if isinstance(over, str) else over
        engine = RangeTopK(**workload.settings, method=method if len(names) == 1 else "scan")
        audience = Audience(names, workload.settings["k"], workload.settings["order"])
        places: dict[Any, dict[str, Any]] = {}
        for call, rows in workload.steps:
            if call != "publish":
                plain = {n: v for n, v in rows.items() if n != "k"} if isinstance(rows, dict) else rows
                getattr(engine, call)(plain)
                audience.register(call, plain, engine)
                continue
            parts = (
                [rows] if batch else [{n: [v[i]] for n, v in rows.items()} for i in range(len(rows["id"]))]
            )
            for part in parts:
                before = lists_of(engine, {item: dict(place) for item, place in places.items()})
                audience.deliver(engine.disseminate(part, batch=batch), "y")
                _place(places, part, names)
                after = lists_of(engine, {item: dict(place) for item, place in places.items()})
                _check(audience, before, after, part, batch=batch)

    law()


def _place(places: dict[Any, Any], rows: dict[str, list[Any]], over: list[str]) -> None:
    for i, item in enumerate(rows["id"]):
        known = places.setdefault(item, {})
        known.update({name: rows[name][i] for name in over if name in rows and rows[name][i] is not None})


def _check(audience: Audience, before: Any, after: Any, part: Any, *, batch: bool) -> None:
    for name in audience.ranges:
        expected = [(item, score) for item, _, score in after.get(name, [])]
        assert audience.lists[name].items() == expected, f"{name} after {part}"
        heard = audience.heard[name]
        affected = before.get(name) != after.get(name)
        assert bool(heard) == affected, f"{name} hears {heard} of {part}; affected: {affected}"
        if batch:
            _check_spare(audience, heard, before.get(name, []), after.get(name, []))


def _check_spare(audience: Audience, heard: list[Any], before: list[Any], after: list[Any]) -> None:
    """In a batch: nothing twice (a moved item: at most twice), and nothing that need not be told."""
    old, new = {entry[0]: entry for entry in before}, {entry[0]: entry for entry in after}
    sign = 1 if audience.order == "asc" else -1
    for item in heard:
        if item in new:
            assert old.get(item) != new[item], f"{item} is neither new nor changed"
        else:
            stale = (sign * old[item][2], item)
            stays = len(after) < audience.k or stale < (sign * after[-1][2], after[-1][0])
            assert stays, f"the old score of {item} would not have kept it"
        moved = item in old and (item not in new or old[item][1] != new[item][1])
        assert heard.count(item) <= (2 if moved else 1), f"{item} is told too often: {heard}"
