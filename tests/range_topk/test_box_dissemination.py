"""Messages for boxes over two and three attributes: the affected and nobody else, each message once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import RangeTopK
from rankcast.errors import InputError, SettingError
from rankcast.range_topk.state import RangeState, Subscriptions
from rankcast.structures.ids import Slots
from tests.laws.range_topk import LARGE
from tests.range_topk.test_dissemination import (
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
        if self.rng.random() < 0.5:
            own = [None, 1, 3, 4, *LARGE]
            rows["k"] = [own[i] for i in self.rng.integers(0, len(own), len(rows["id"]))]
        register(self.engine, self.audience, "subscribe", rows)
        self.there: set[int] = set()
        self.places: dict[Any, dict[str, Any]] = {}
        self.values_at: dict[Any, dict[str, Any]] = {}

    def parts(self, *, batch: bool) -> list[Rows]:
        rows = _events(self.rng, self.over, self.values, self.there)
        return [rows] if batch else one_by_one(rows)

    def lists(self) -> Any:
        return lists_of(self.engine, {item: dict(place) for item, place in self.places.items()})


METHODS = [
    *[(1.5, method) for method in ("sparse", "unicast", "dense")],
    *[(attributes, method) for attributes in (2, 3) for method in ("sparse", "unicast")],
]


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
                    _check_tiles(play, told.to_pylist(), before, one_by_one=method == "unicast")
        assert method == "dense" or play.engine.stats()["affected"] == affected

    law()


def _check_tiles(play: Play, tiles: list[dict[str, Any]], before: Any, *, one_by_one: bool) -> None:
    """Nobody is in two tiles of a message; no two tiles of one could be one without reaching others.

    Those for whom an item got worse and stays hear first: after a move these are a message of their own.
    """
    ranges = play.audience.ranges
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for tile in tiles:
        item, y = tile["item"], tile["y"]
        scores = {n: next((each[2] for each in before.get(n, []) if each[0] == item), None) for n in ranges}
        hears = [scores[n] for n in ranges if reaches(tile, ranges[n], play.over)]
        worse = {y is not None and was is not None and play.sign * was < play.sign * y for was in hears}
        assert len(worse) == 1
        groups.setdefault((item, y, tile.get("k"), *worse), []).append(tile)
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
    both: dict[str, Any] = {"k": one.get("k")}
    for name in over:
        for end, pick in (("lo_outer", min), ("lo_inner", max), ("hi_inner", min), ("hi_outer", max)):
            values = [tile[f"{name}_{end}"] for tile in (one, two)]
            both[f"{name}_{end}"] = None if None in values else pick(values)
    return both


@pytest.mark.parametrize(
    ("attributes", "method"), [(1.5, "sparse"), (1.5, "dense"), (2, "sparse"), (3, "sparse")]
)
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
                _apply(at, part, "delete")
                moments.append(at)
                after = play.lists()
                for name, mine in play.audience.lists.items():
                    assert mine.items() == [(item, score) for item, _, score in after.get(name, [])]
                    for item in play.audience.heard[name]:
                        assert (
                            min(_rank(play, name, item, m) for m in moments)
                            <= (1 + epsilon) * play.audience.ranges[name]["k"]
                        )

    law()


@pytest.mark.parametrize("half", [False, True], ids=["boxes", "1.5-d"])
def test_epsilon_saves_messages(half: bool) -> None:
    rng = np.random.default_rng(3)
    ends, place = np.sort(rng.random((2, 3000, 2)), axis=2), rng.random((3, 300))
    rows = {"id": np.arange(3000), "a_lo": ends[0, :, 0], "a_hi": ends[0, :, 1], "b_hi": ends[1, :, 1]}
    told = []
    for epsilon in (None, 0.1, 0.5, 1.0):
        engine = RangeTopK(over=["a", "b"], k=10)
        engine.publish({"id": np.arange(300), "a": place[0], "b": place[1], "y": place[2]})
        engine.subscribe(rows if half else {**rows, "b_lo": ends[1, :, 0]})
        told.append(
            sum(len(engine.disseminate({"id": [i], "y": [0.01 * i]}, epsilon=epsilon)) for i in range(30))
        )
    assert told[0] >= told[1] > told[2] > told[3]


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


def _hearers(tiles: pa.Table, lo: Any, hi: Any, top: Any) -> list[tuple[int, Any]]:
    """Who hears of which item, once a message; subscriptions have ends over a and an upper bound over b."""
    heard: list[tuple[int, Any]] = []
    for tile in tiles.to_pylist():
        mine = (lo <= tile["a_lo_inner"]) & (hi >= tile["a_hi_inner"]) & (top >= tile["b_hi_inner"])
        for ends, end, sign in ((lo, "a_lo_outer", -1), (hi, "a_hi_outer", 1), (top, "b_hi_outer", 1)):
            mine &= tile[end] is None or sign * ends < sign * (tile[end] or 0.0)
        heard += [(int(name), tile["item"]) for name in np.flatnonzero(mine)]
    return sorted(heard)


@pytest.mark.parametrize(
    ("k", "values", "kind"), [(3, 30, "none"), (10, 60, "none"), (10, 40, "short"), (3, 60, "open")]
)
def test_many_on_a_grid_are_told_once_and_like_one_by_one(k: int, values: int, kind: str) -> None:
    """Regions with many tiles and thousands of members, among them equal ones; with epsilon all are told."""
    rng = np.random.default_rng(k)
    ends, top = np.sort(rng.integers(0, values, (4000, 2)), axis=1), rng.integers(0, values, 4000)
    ends, top = ends.astype(float), top.astype(float)
    if kind == "short":
        ends[:, 1] = ends[:, 0] + rng.integers(0, 3, 4000)
    if kind == "open":  # nodes of the tree with nothing but members reach to infinity
        ends[rng.random(4000) < 0.5, 0], ends[rng.random(4000) < 0.5, 1] = -np.inf, np.inf
        top[rng.random(4000) < 0.3] = np.inf
    place = rng.integers(0, values, (3, 300))
    events: list[Rows] = [
        {"id": [i], "y": [int(y)]} for i, y in enumerate(values * (np.arange(20) / 20) ** 3)
    ]
    events += [{"id": [i], "a": [int(place[1, i])], "y": [i]} for i in range(4)]
    events += [{"id": [i], "y": [None]} for i in range(2)]
    told = []
    for method, epsilon in (("unicast", None), ("sparse", None), ("sparse", 0.5)):
        engine = RangeTopK(over=["a", "b"], k=k, method=method)
        engine.publish({"id": np.arange(300), "a": place[0], "b": place[1], "y": place[2]})
        rows = {"id": np.arange(4000), "a_lo": ends[:, 0], "a_hi": ends[:, 1], "b_hi": top}
        engine.subscribe({name: pa.array(column, mask=np.isinf(column)) for name, column in rows.items()})
        tiles = [engine.disseminate(row, epsilon=epsilon) for row in events]
        told.append([_hearers(part, ends[:, 0], ends[:, 1], top) for part in tiles])
        for end in ("a_lo_outer", "a_hi_outer", "b_hi_outer"):
            assert np.isfinite(pa.concat_tables(tiles)[end].drop_null().to_numpy()).all()
    assert told[0] == told[1]
    for exact, more in zip(told[0], told[2], strict=True):
        assert Counter(exact) <= Counter(more)


Said = tuple[Any, tuple[Any, ...], Any]


def _must_hear(play: Play, name: Any, old: dict[Any, Any], new: dict[Any, Any]) -> Counter[Said]:
    """What a subscriber must hear of a batch: item, place and value, computed directly.

    Of what is new or changed in its list, and of what left its place in it although its old value would keep
    it; of a move both parts, each if it is so.
    """
    lists: list[set[Said]] = []
    k = play.audience.ranges[name]["k"]
    for objects in (old, new):
        inside = [
            (play.sign * at["y"], i)
            for i, at in objects.items()
            if _inside(play.audience.ranges[name], at, play.over)
        ]
        lists.append({(i, _spot(play, objects, i), objects[i]["y"]) for _, i in sorted(inside)[:k]})
    before, after = lists
    said = Counter(entry for entry in after if entry not in before)
    last = max(((play.sign * y, item) for item, _, y in after), default=None)
    kept = {(item, place) for item, place, _ in after}
    for item, place, y in before:
        stale = (play.sign * y, item)
        if (item, place) not in kept and (len(after) < k or last is None or stale <= last):
            stays = item in new and _spot(play, new, item) == place
            said[item, place, new[item]["y"] if stays else None] += 1
    return said


def _spot(play: Play, objects: dict[Any, Any], item: Any) -> tuple[Any, ...]:
    return tuple(objects[item][name] for name in play.over)


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_a_dense_batch_tells_what_must_be_told_and_nothing_else(seed: int) -> None:
    play = Play(seed, 1.5, "dense")
    for _ in range(3):
        old = {item: dict(place) for item, place in play.values_at.items()}
        (part,) = play.parts(batch=True)
        told = play.engine.disseminate(part, batch=True).to_pylist()
        _apply(play.values_at, part, "delete")
        for name, span in play.audience.ranges.items():
            heard = Counter(
                (tile["item"], tuple(tile[o] for o in play.over), tile["y"])
                for tile in told
                if reaches(tile, span, play.over)
            )
            assert heard == _must_hear(play, name, old, play.values_at), f"{name} of {part}"
    kept: Any = play.engine._kept
    kept.store.objects.index.check()
    assert len(kept.store.objects.index) == len(play.values_at)


by_batch = pytest.mark.parametrize("batch", [False, True], ids=["event by event", "net"])


@by_batch
def test_dense_tiles_that_fit_together_are_one(batch: bool) -> None:
    """No two tiles of a message are together a box, across slabs neither."""

    @settings(max_examples=25)
    @given(st.integers(0, 10**6))
    def law(seed: int) -> None:
        play = Play(seed, 1.5, "dense")
        for _ in range(3):
            for part in play.parts(batch=batch):
                groups: dict[Any, list[dict[str, Any]]] = {}
                for tile in play.engine.disseminate(part, batch=batch).to_pylist():
                    groups.setdefault((tile["item"], tile["y"], tile.get("k")), []).append(tile)
                for group in groups.values():
                    for i, one in enumerate(group):
                        assert not any(_fit(one, two, play.over) for two in group[:i]), (one, group)

    law()


def _fit(one: dict[str, Any], two: dict[str, Any], over: list[str]) -> bool:
    """Whether two tiles are together a box: the same but for one stretch, where they meet."""
    differ = [
        [(tile[f"{name}_{end}_outer"], tile[f"{name}_{end}_inner"]) for tile in (one, two)]
        for name in over
        for end in ("lo", "hi")
        if any(one[f"{name}_{end}_{side}"] != two[f"{name}_{end}_{side}"] for side in ("outer", "inner"))
    ]
    if len(differ) != 1:
        return False
    (outer, inner), (other_outer, other_inner) = differ[0]
    return bool(outer == other_inner or other_outer == inner)


def _story(count: int, side: str, batch: bool, *, method: str = "dense", hidden: bool = False) -> pa.Table:
    """The tiles of some updates, moves and deletions while so many have subscribed."""
    rng = np.random.default_rng(4)
    engine = RangeTopK(over=["a", "b"], k=3, method=method, sides={"hi": "upper", "lo": "lower"}[side])
    place = rng.random((50, 3)).T.tolist()
    engine.publish({"id": list(range(50)), "a": place[0], "b": place[1], "y": place[2]})
    ends = np.sort(rng.random((count, 2)), axis=1).T.tolist()
    engine.subscribe({"id": list(range(count)), "a_lo": ends[0], "a_hi": ends[1], f"b_{side}": ends[1]})
    rows = {
        "id": list(range(24)),
        "a": [None] * 20 + place[2][:4],
        "y": [*place[0][:16], *[None] * 4, *place[1][:4]],
    }
    if not hidden:
        return engine.disseminate(rows, batch=batch)
    kept: Any = engine._kept
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept.store.classed, "indexes", Unreadable())
        patch.setattr(RangeState, "boxes", lambda state, rows: pytest.fail("it looked"))
        patch.setattr(Subscriptions, "__getitem__", _without_boxes)
        told = engine.disseminate(rows, batch=batch)
    scan = RangeTopK(over=["a", "b"], k=3, method="scan")
    scan.publish({"id": list(range(50)), "a": place[0], "b": place[1], "y": place[2]})
    scan.publish(rows)
    scan.subscribe({"id": list(range(count)), "a_lo": ends[0], "a_hi": ends[1], f"b_{side}": ends[1]})
    assert engine.results().equals(scan.results())
    return told


class Unreadable:
    """What fails the test when it is looked at."""

    def __getattribute__(self, name: str) -> Any:
        pytest.fail("it looked")


def _without_boxes(slots: Subscriptions, name: str) -> Any:
    """Columns of subscriptions but their boxes: who has a k of its own is asked before anything is told."""
    if name in ("lo", "hi"):
        pytest.fail("it looked")
    return Slots.__getitem__(slots, name)


@by_batch
def test_dense_tiles_do_not_depend_on_who_subscribes(batch: bool) -> None:
    told = [_story(count, "hi", batch) for count in (0, 3, 40)]
    assert told[0].num_rows > 20
    assert told[0].equals(told[1])
    assert told[0].equals(told[2])


@by_batch
@pytest.mark.parametrize(("method", "side"), [("dense", "lo"), ("dense", "hi"), ("relax", "lo")])
def test_dense_and_relax_never_look_at_a_subscription(method: str, side: str, batch: bool) -> None:
    told = _story(40, side, batch, method=method, hidden=True)
    assert told.num_rows > 20
    assert told.equals(_story(1, side, batch, method=method))


@by_batch
def test_a_k_beyond_all_objects_counts_as_just_that(batch: bool) -> None:
    told = []
    for k in (60, 10**6):
        engine = RangeTopK(over=["a", "b"], k=k, method="dense", sides="upper")
        rows = {"id": list(range(20)), "a": list(range(20)), "b": [i % 5 for i in range(20)], "y": [1] * 20}
        engine.publish(rows)
        told.append(engine.disseminate({"id": [3, 4, 5], "a": [3, 9, 5], "y": [2, 0, None]}, batch=batch))
    assert told[0].num_rows > 0
    assert told[0].equals(told[1])


def test_large_dense_batches_leave_the_objects_right() -> None:
    """Hundreds of insertions, moves and deletions at once grow and shrink the tree; nobody is left over."""
    rng = np.random.default_rng(8)
    engine, scan = (RangeTopK(over=["a", "b"], k=2, method=method) for method in ("dense", "scan"))
    ends = np.sort(rng.random((20, 2)), axis=1).T.tolist()
    there: set[int] = set()
    for each in (engine, scan):
        each.subscribe({"id": list(range(20)), "a_lo": ends[0], "a_hi": ends[1], "b_hi": ends[1]})
    for _ in range(3):
        ids = rng.permutation(400)[:300].tolist()
        gone = [item in there and rng.random() < 0.5 for item in ids]
        place = rng.random((3, 300)).tolist()
        y = [None if out else value for out, value in zip(gone, place[2], strict=True)]
        rows = {"id": ids, "a": place[0], "b": place[1], "y": y}
        there = (there | set(ids)) - {item for item, out in zip(ids, gone, strict=True) if out}
        engine.disseminate(rows, batch=True)
        scan.publish(rows)
        assert engine.results().equals(scan.results())
        kept: Any = engine._kept
        kept.store.objects.index.check()
        assert len(kept.store.objects.index) == len(there)


def test_a_loaded_engine_paints_on_the_same_side(tmp_path: Path) -> None:
    engine = RangeTopK(over=["a", "b"], k=1, method="dense")
    engine.publish({"id": [1, 2], "a": [0, 1], "b": [0, 1], "y": [1, 2]})
    engine.subscribe({"id": [1], "a_lo": [0], "a_hi": [1], "b_lo": [0]})
    engine.save(tmp_path / "state")
    again = RangeTopK.load(tmp_path / "state")
    told = engine.disseminate({"id": [1], "y": [3]}, batch=True)
    assert told["b_hi_inner"].to_pylist() == [float("inf")] * told.num_rows
    assert again.disseminate({"id": [1], "y": [3]}, batch=True).equals(told)


def _hearing(play: Play, part: Rows) -> list[tuple[Any, Any, Any]]:
    """Apply an event; who hears of what."""
    ranges = play.audience.ranges
    told = play.engine.disseminate(part).to_pylist()
    return sorted(
        (tile["item"], str(tile["y"]), n)
        for tile in told
        for n in ranges
        if reaches(tile, ranges[n], play.over)
    )


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_asking_what_the_published_server_asks_changes_only_the_counts(seed: int) -> None:
    """Snaps are not compared: tiles made from members may be cut where several objects share a place."""
    plays = [Play(seed, 1.5, "sparse") for _ in range(2)]
    kept: Any = plays[1].engine._kept
    kept.sender.sparse.asking = True
    for _ in range(3):
        heard = [[_hearing(play, part) for part in play.parts(batch=False)] for play in plays]
        assert heard[0] == heard[1]
    fewer, more = (play.engine.stats() for play in plays)
    assert fewer["affected"] == more["affected"]
    assert fewer["miny"] <= more["miny"]


def test_without_a_subscription_dense_must_be_told_the_side() -> None:
    rows = {"id": [1, 2], "a": [0, 1], "b": [0, 1], "y": [1, 2]}
    engine = RangeTopK(over=["a", "b"], k=1, method="dense")
    with pytest.raises(SettingError, match='sides="lower" or sides="upper"'):
        engine.disseminate(rows)
    assert engine.stats()["events"] == 0
    engine.subscribe({"id": [1], "b_lo": [0]})
    low = engine.disseminate(rows)
    for side, inner in (("lower", "b_hi_inner"), ("upper", "b_lo_inner")):
        told = RangeTopK(over=["a", "b"], k=1, method="dense", sides=side).disseminate(rows)
        assert {abs(end) for end in told[inner].to_pylist()} == {float("inf")}
        assert told.equals(low) == (side == "lower")


def test_subscriptions_that_bound_the_other_side_are_refused(tmp_path: Path) -> None:
    engine = RangeTopK(over=["a", "b"], sides="upper")
    engine.subscribe({"id": [1], "b_hi": [3]})
    engine.save(tmp_path / "state")
    for each in (engine, RangeTopK.load(tmp_path / "state")):
        for call, rows in (
            ("subscribe", {"id": [2, 3], "b_lo": [None, 1]}),
            ("amend", {"id": [1], "b_lo": [1]}),
        ):
            with pytest.raises(InputError, match=r'"b_lo".*sides="upper"') as refused:
                getattr(each, call)(rows)
            assert refused.value.row == (1 if call == "subscribe" else 0)
        assert len(each) == 1
    for wrong in ({"over": "a", "sides": "upper"}, {"over": ["a", "b"], "sides": "both"}):
        with pytest.raises(SettingError, match="sides"):
            RangeTopK(**wrong)


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_lists_of_a_large_k_stand_together_for_messages(seed: int) -> None:
    """Lists of one large k in several size classes, and of several k in one: nobody hears for another."""
    rng = np.random.default_rng(seed)
    places: dict[Any, dict[str, Any]] = {}
    engine, ks = RangeTopK(over=["a", "b"], k=3), [None, 130, 140, 200, 10**6]
    ends = np.sort(rng.integers(0, 20, (2, 40, 2)), axis=2)
    names = ("a_lo", "a_hi", "b_lo", "b_hi")
    rows: Rows = {"id": list(range(40)), "k": [ks[i] for i in rng.integers(0, 5, 40)]}
    rows |= dict(zip(names, (*ends[0].T.tolist(), *ends[1].T.tolist()), strict=True))
    audience = Audience(["a", "b"], 3, "asc")
    register(engine, audience, "subscribe", rows)
    for batch in (False, True, False):
        count = int(rng.integers(20, 300))
        part: Rows = {"id": rng.integers(0, 400, count).tolist(), "y": rng.integers(0, 50, count).tolist()}
        part |= {name: rng.integers(0, 20, count).tolist() for name in ("a", "b")}
        audience.deliver(engine.disseminate(part, batch=batch), "y")
        _apply(places, part, "delete")
        after = lists_of(engine, dict.fromkeys(places))
        for name, mine in audience.lists.items():
            assert mine.items() == [(item, score) for item, _, score in after.get(name, [])]
