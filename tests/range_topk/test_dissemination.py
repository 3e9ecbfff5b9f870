"""What is disseminated reaches exactly those who must hear it, and their lists follow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import RangeTopK, SubscriberList
from rankcast.range_topk.engine import METHODS
from rankcast.range_topk.state import APPROXIMATE, Slack
from tests.laws.range_topk import happen, records, workloads

EVERYTHING = 10**7  # a k that nobody asks for
EXACT = [method for method in METHODS if method != "relax"]
exact = pytest.mark.parametrize("method", EXACT)
by_batch = pytest.mark.parametrize("batch", [False, True], ids=["event by event", "net"])


def examples(method: str, most: int) -> settings:
    """So many examples for methods that paint, a third for those that look at every subscription."""
    return settings(max_examples=most if method in APPROXIMATE else most // 3)


def reaches(tile: dict[str, Any], subscription: dict[str, Any], over: list[str]) -> bool:
    """Whether a message goes to a subscription, as the contract says it; `k` there is the one it wants."""
    if tile.get("k") is not None and tile["k"] != subscription["k"]:
        return False
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
            wanted = self.ranges.setdefault(name, {"k": self.k})
            wanted.update(given)
            wanted["k"] = wanted["k"] or self.k
            self.lists[name] = SubscriberList(wanted["k"], self.order)
            for row in engine.results([name]).to_pylist():
                self.lists[name].receive(row["item"], row["score"])

    def deliver(self, tiles: pa.Table, by: str, *, to_nobody: bool = False) -> None:
        self.heard = {name: [] for name in self.ranges}
        for tile in tiles.to_pylist():
            found = [name for name in self.ranges if reaches(tile, self.ranges[name], self.over)]
            assert found or to_nobody, f"{tile} reaches nobody"
            for name in found:
                self.heard[name].append(tile["item"])
                self.lists[name].receive(tile["item"], tile[by])


def lists_of(engine: RangeTopK, places: dict[Any, Any]) -> dict[Any, list[tuple[Any, ...]]]:
    """Each subscription's list of (item, place, score)."""
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for row in engine.results().to_pylist():
        found.setdefault(row["subscription"], []).append((row["item"], places[row["item"]], row["score"]))
    return found


def register(engine: RangeTopK, audience: Audience, call: str, rows: Any) -> None:
    """Play a call about subscriptions."""
    getattr(engine, call)(rows)
    audience.register(call, rows, engine)


def calls_of(workload: Any) -> list[tuple[str, Any]]:
    """The steps of a workload, objects removed by events: only those are disseminated."""
    return [
        ("publish", {"id": rows, "op": ["remove"] * len(rows)}) if call == "remove" else (call, rows)
        for call, rows in workload.steps
    ]


def one_by_one(rows: dict[str, list[Any]]) -> list[dict[str, list[Any]]]:
    """A batch as batches of one."""
    return [{n: [v[i]] for n, v in rows.items()} for i in range(len(rows["id"]))]


@exact
@by_batch
def test_lists_follow_and_only_the_affected_hear(method: str, batch: bool) -> None:
    epsilons = [None, 0.5] if batch and method in APPROXIMATE else [None]  # in one attribute alone

    @examples(method, 60)
    @given(workloads(), st.sampled_from(epsilons))
    def law(workload: Any, epsilon: float | None) -> None:
        over = workload.settings["over"]
        names = [over] if isinstance(over, str) else over
        engine = RangeTopK(**workload.settings, method=method if len(names) == 1 else "scan")
        audience = Audience(names, workload.settings["k"], workload.settings["order"])
        places: dict[Any, dict[str, Any]] = {}
        for call, rows in calls_of(workload):
            if call != "publish":
                register(engine, audience, call, rows)
                continue
            for part in [rows] if batch else one_by_one(rows):
                before = lists_of(engine, {item: dict(place) for item, place in places.items()})
                told = engine.disseminate(part, epsilon=epsilon if len(names) == 1 else None, batch=batch)
                audience.deliver(told, "y", to_nobody=method == "dense")
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
            k, sign = audience.ranges[name]["k"], 1 if audience.order == "asc" else -1
            _check_spare(k, sign, heard, before.get(name, []), after.get(name, []))


def _check_spare(k: int, sign: int, heard: list[Any], before: list[Any], after: list[Any]) -> None:
    """In a batch: nothing twice (a moved item: at most twice), and nothing that need not be told."""
    old, new = {entry[0]: entry for entry in before}, {entry[0]: entry for entry in after}
    for item in heard:
        if item in new:
            assert old.get(item) != new[item], f"{item} is neither new nor changed"
        else:
            stale = (sign * old[item][2], item)
            stays = len(after) < k or stale < (sign * after[-1][2], after[-1][0])
            assert stays, f"the old score of {item} would not have kept it"
        moved = item in old and (item not in new or old[item][1] != new[item][1])
        assert heard.count(item) <= (2 if moved else 1), f"{item} is told too often: {heard}"


@exact
@pytest.mark.parametrize("plan", ["online", "coalesce"])
def test_lists_follow_when_a_call_has_several_events(method: str, plan: str) -> None:
    @examples(method, 60)
    @given(workloads(narrow=True))
    def law(workload: Any) -> None:
        engine = RangeTopK(**workload.settings, method=method)
        audience = Audience(["x"], workload.settings["k"], workload.settings["order"])
        for call, rows in calls_of(workload):
            if call != "publish":
                register(engine, audience, call, rows)
                continue
            audience.deliver(
                engine._disseminate(rows, method, Slack(), plan), "y", to_nobody=method == "dense"
            )
            after = lists_of(engine, dict.fromkeys(engine.results()["item"].to_pylist()))
            for name, mine in audience.lists.items():
                assert mine.items() == [(item, score) for item, _, score in after.get(name, [])]

    law()


@by_batch
def test_whoever_counts_the_affected_and_sends_one_by_one_agrees_with_the_scan(batch: bool) -> None:
    @settings(max_examples=100)
    @given(workloads(narrow=True))
    def law(workload: Any) -> None:
        engines = {m: RangeTopK(**workload.settings, method=m) for m in ("scan", "unicast", "sparse")}
        for call, rows in calls_of(workload):
            if call != "publish":
                for engine in engines.values():
                    getattr(engine, call)(rows)
                continue
            for part in [rows] if batch else one_by_one(rows):
                told = {name: engine.disseminate(part, batch=batch) for name, engine in engines.items()}
                assert _messages(told["unicast"]) == _messages(told["scan"])
                counts = {name: engine.stats()["affected"] for name, engine in engines.items()}
                assert len(set(counts.values())) == 1, counts

    law()


def _messages(tiles: pa.Table) -> list[str]:
    """Messages in a comparable order; of a moved object's two the scan sends one if one will do."""
    rows = tiles.to_pylist()
    names = ("x_lo_inner", "x_hi_inner", "item", "k")
    whole = {tuple(row.get(name) for name in names) for row in rows if row["y"] is not None}
    kept = [
        row for row in rows if row["y"] is not None or tuple(row.get(name) for name in names) not in whole
    ]
    return sorted(str(row) for row in kept)


@by_batch
@pytest.mark.parametrize("method", METHODS)
def test_relax_reaches_every_range_that_holds_the_object(method: str, batch: bool) -> None:
    """Whatever the engine's method, and for boxes too: a receiver that keeps all it hears has its list."""

    @examples(method, 40)
    @given(workloads())
    def law(workload: Any) -> None:
        over = workload.settings["over"]
        names = [over] if isinstance(over, str) else over
        engine = RangeTopK(**workload.settings, method=method)
        hoard = Audience(names, EVERYTHING, workload.settings["order"])
        places: dict[Any, dict[str, Any]] = {}
        for call, rows in calls_of(workload):
            if call != "publish":
                register(engine, hoard, call, rows)
                for name in hoard.ranges:
                    hoard.lists[name] = _everything(engine, hoard, name, places)
                continue
            for part in [rows] if batch else one_by_one(rows):
                before = {item: dict(place) for item, place in places.items()}
                told = engine.disseminate(part, method="relax", batch=batch)
                hoard.deliver(told, "y", to_nobody=True)
                _apply(places, part, workload.settings["nulls"])
                assert told.num_rows <= 2 * len(set(part["id"])) if batch else told.num_rows <= 2
                for name, span in hoard.ranges.items():
                    held = {
                        item
                        for item in set(part["id"])
                        if any(_inside(span, at[item], names) for at in (before, places) if item in at)
                        and (not batch or before.get(item) != places.get(item))
                    }
                    assert set(hoard.heard[name]) == held
        after = lists_of(engine, dict.fromkeys(places))
        for name, mine in hoard.lists.items():
            own = hoard.ranges[name]["k"]
            k = workload.settings["k"] if own == EVERYTHING else own
            assert mine.items()[:k] == [(i, s) for i, _, s in after.get(name, [])]

    law()


def _inside(span: dict[str, Any], place: dict[str, Any], over: list[str]) -> bool:
    ends = [(span.get(f"{name}_lo"), place[name], span.get(f"{name}_hi")) for name in over]
    return all((low is None or low <= at) and (high is None or at <= high) for low, at, high in ends)


def _everything(engine: RangeTopK, hoard: Audience, name: Any, places: dict[Any, Any]) -> SubscriberList:
    """All objects in a range: what a receiver of `relax` starts with."""
    mine = SubscriberList(hoard.k, hoard.order)
    for item, place in places.items():
        if _inside(hoard.ranges[name], place, hoard.over):
            mine.receive(item, float(place["y"]))
    return mine


def _apply(places: dict[Any, Any], rows: dict[str, list[Any]], nulls: str) -> None:
    """Follow events: unlike `_place`, with scores and deletions."""
    for values in records(rows):
        happen(places, values, nulls)


@pytest.mark.parametrize("method", ["dense", "sparse"])
@pytest.mark.parametrize("epsilon", [0.3, 0.5, 1.0])
def test_epsilon_leaves_lists_exact_and_tells_nothing_far_beyond_k(method: str, epsilon: float) -> None:
    @settings(max_examples=60)
    @given(workloads(narrow=True))
    def law(workload: Any) -> None:
        sign = 1 if workload.settings["order"] == "asc" else -1
        engine = RangeTopK(**workload.settings, method=method, epsilon=epsilon)
        audience = Audience(["x"], workload.settings["k"], workload.settings["order"])
        places: dict[Any, dict[str, Any]] = {}
        for call, rows in calls_of(workload):
            if call != "publish":
                register(engine, audience, call, rows)
                continue
            for part in one_by_one(rows):
                moments = [{item: dict(place) for item, place in places.items()}]
                audience.deliver(engine.disseminate(part), "y", to_nobody=method == "dense")
                moments.append({item: p for item, p in moments[0].items() if item != part["id"][0]})
                _apply(places, part, workload.settings["nulls"])
                moments.append(places)
                after = lists_of(engine, dict.fromkeys(places))
                for name, mine in audience.lists.items():
                    assert mine.items() == [(item, score) for item, _, score in after.get(name, [])]
                    for item in audience.heard[name]:
                        ranks = [_rank(at, item, audience.ranges[name], sign) for at in moments]
                        assert min(ranks) <= (1 + epsilon) * audience.ranges[name]["k"]

    law()


def _rank(places: dict[Any, Any], item: Any, span: dict[str, Any], sign: int) -> float:
    """The rank of an object among those in a range."""
    inside = [(sign * at["y"], name) for name, at in places.items() if _inside(span, at, ["x"])]
    names = [name for _, name in sorted(inside)]
    return names.index(item) + 1 if item in names else float("inf")
