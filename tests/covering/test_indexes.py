"""The indexes over boxes and the relation graphs: invariants, and longer histories than the laws draw."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import CoveringTable
from rankcast.bench.workloads import covering
from rankcast.covering import brute_force, calls, maxima
from rankcast.covering.index import ContainmentIndex
from rankcast.covering.kernels import index as index_kernels
from rankcast.covering.kernels import zcurve
from rankcast.covering.kernels.codes import encode, lanes_for, levels_for, quantile_cuts, words_for
from rankcast.covering.kernels.containment import (
    BUCKET,
    CUT,
    FORWARDED,
    GENERATION,
    NO_ROW,
    WASTED,
    Query,
    QueryBoxes,
    Subscriptions,
    filter_bucket,
)
from rankcast.covering.kernels.index import containers_first, first_containers
from rankcast.tables.boxes import Boxes

GRAPHS = [
    ("kdtree", 1),
    ("kdtree", 2),
    ("zcurve", 1),
    ("zcurve", 3),
    ("kdtree", "full"),
    ("kdtree", "poset"),
    ("zcurve", "full"),
]
SHAPES = [(1, 50), (3, 30), (5, 1000), (8, 6), (16, 4)]
DIMENSIONS = [2, 6, 8, 10, 12, 16, 18, 32]
LEVELS = levels_for(8)
lanes_of = lanes_for.py_func  # whose words stay words of 64 bits
CODES = st.lists(st.integers(0, LEVELS - 1), min_size=8, max_size=8)


def subscriptions_of(lo: Any, hi: Any) -> Subscriptions:
    return Subscriptions(lo, hi, np.full(len(lo), FORWARDED, np.int8), np.arange(len(lo)))


def some_boxes(rng: np.random.Generator, count: int, attributes: int, top: int) -> Boxes:
    """Boxes with many equal ends, some of them unbounded."""
    one, other = rng.integers(0, top, (2, count, attributes)).astype(np.float64)
    lo, hi = np.minimum(one, other), np.maximum(one, other)
    lo[rng.random(lo.shape) < 0.05], hi[rng.random(hi.shape) < 0.05] = -np.inf, np.inf
    return Boxes(lo, hi)


def packed(codes: list[int], bits: int = 8) -> np.uint64:
    return np.uint64(sum(code << (bits * place) for place, code in enumerate(codes)))


@given(st.sampled_from(DIMENSIONS), st.data())
def test_the_codes_of_a_word_are_compared_at_once(dimensions: int, data: st.DataObject) -> None:
    lanes, top = lanes_of(dimensions), levels_for(dimensions) - 1
    codes = st.lists(
        st.integers(0, top) | st.sampled_from([0, top]), min_size=lanes.number, max_size=lanes.number
    )
    one, other = data.draw(codes), data.draw(codes)
    assert lanes.number * words_for(dimensions) >= dimensions
    words, passed = np.zeros((1, 1, BUCKET), np.uint64), np.empty(BUCKET, np.uint64)
    words[0, 0, 5] = packed(one, lanes.bits)
    filter_bucket(words, 0, np.array([packed(other, lanes.bits)]), passed, lanes.high)
    expected = all(x >= y for x, y in zip(one, other, strict=True))
    assert (passed[5] == lanes.high) == expected


@given(st.integers(0, 99), st.sampled_from(SHAPES), st.integers(1, 300))
@settings(max_examples=30)
def test_codes_never_fall_when_a_box_grows(seed: int, shape: tuple[int, int], count: int) -> None:
    boxes = some_boxes(np.random.default_rng(seed), count, *shape)
    values = np.stack([-boxes.lo, boxes.hi], axis=2).reshape(count, -1)
    cuts = np.empty((values.shape[1], levels_for(values.shape[1]) - 1))
    quantile_cuts(values, cuts)
    words, high = words_for(values.shape[1]), lanes_of(values.shape[1]).high
    keys, passed = np.empty((count, words), np.uint64), np.empty(BUCKET, np.uint64)
    for row in range(count):
        encode(cuts, values[row], keys[row])
    bucket = np.zeros((1, words, BUCKET), np.uint64)
    bucket[0, :, : min(count, BUCKET)] = keys[:BUCKET].T
    for inner in range(min(count, 8)):
        filter_bucket(bucket, 0, keys[inner], passed, high)
        inside = (values[:BUCKET] >= values[inner]).all(axis=1)
        assert (passed[: inside.size][inside] == high).all()


@given(CODES, CODES)
def test_a_leap_finds_the_last_place_in_the_region(floor: list[int], least: list[int]) -> None:
    small = [code % 4 for code in floor[:2]], [code % 4 for code in least[:2]]
    floor_bits, least_bits = (np.array(codes, np.uint64) for codes in small)
    codes = np.empty((3, 2), np.uint64)
    found = zcurve.leap(floor_bits, least_bits, codes)
    before = curve()[: morton(*small[0])]
    places = [at for at in before if at[0] >= small[1][0] and at[1] >= small[1][1]]
    assert found == bool(places)
    if places:
        assert tuple(codes[0].tolist()) == places[-1]


@cache
def curve() -> list[tuple[int, int]]:
    """All places in their order on the curve."""
    return sorted(product(range(LEVELS), range(LEVELS)), key=lambda at: morton(*at))


def morton(one: int, other: int) -> int:
    """The place on the curve; the first dimension counts more."""
    place = 0
    for level in range(6, -1, -1):
        place = 4 * place + 2 * (one >> level & 1) + (other >> level & 1)
    return place


@pytest.mark.parametrize("kind", ["kdtree", "zcurve"])
@pytest.mark.parametrize(("attributes", "top"), SHAPES)
def test_an_index_finds_all_boxes_around_a_box(kind: str, attributes: int, top: int) -> None:
    rng = np.random.default_rng(attributes)
    boxes = some_boxes(rng, 900, attributes, top)
    subs, index, live = subscriptions_of(*boxes), ContainmentIndex(kind, attributes), set[int]()
    for row in range(900):
        index.prepare(subs)
        index_kernels.insert(index.index, subs, row)
        live.add(row)
        if rng.random() < 0.4:
            gone = sorted(live)[int(rng.integers(len(live)))]
            index_kernels.remove(index.index, subs, gone)
            live.discard(gone)
        if row % 60 == 0:
            index.check(subs)
            found = np.empty(1000, np.int32)
            count = index_kernels.find(
                index.index, subs, Query(QueryBoxes(*boxes), int(rng.integers(900)), NO_ROW), found, 0
            )
            assert len(set(found[:count].tolist())) == count
    for place in range(0, 900, 90):
        count = index_kernels.find(index.index, subs, Query(QueryBoxes(*boxes), place, NO_ROW), found, 0)
        around = (boxes.lo <= boxes.lo[place]).all(axis=1) & (boxes.hi >= boxes.hi[place]).all(axis=1)
        assert set(found[:count].tolist()) == set(np.flatnonzero(around).tolist()) & live
    for row in sorted(live):
        index_kernels.remove(index.index, subs, row)
    index.check(subs)
    assert len(index) == 0


@pytest.mark.parametrize("kind", ["kdtree", "zcurve"])
def test_any_number_of_equal_boxes_can_be_kept(kind: str) -> None:
    subs, index = subscriptions_of(np.zeros((500, 2)), np.ones((500, 2))), ContainmentIndex(kind, 2)
    for row in range(500):
        index.prepare(subs)
        index_kernels.insert(index.index, subs, row)
    index.check(subs)
    found = np.empty(600, np.int32)
    assert (
        index_kernels.find(index.index, subs, Query(QueryBoxes(subs.lo, subs.hi), 0, NO_ROW), found, 0) == 500
    )
    for row in range(499):
        index_kernels.remove(index.index, subs, row)
    index.check(subs)


ARRIVALS = ["ascending", "descending", "growing", "shrinking", "drifting", "random"]


@pytest.mark.parametrize("kind", ["kdtree", "zcurve"])
@pytest.mark.parametrize("attributes", [1, 3])
@pytest.mark.parametrize("order", ARRIVALS)
def test_no_order_of_arrival_makes_a_search_look_at_many(kind: str, attributes: int, order: Any) -> None:
    over = covering.attributes(attributes)
    rows = covering.ordered(6_000, over, np.random.default_rng(7), order)
    lo, hi = (np.stack([rows[f"{name}_{end}"] for name in over], axis=1) for end in ("lo", "hi"))
    subs, index = subscriptions_of(lo, hi), ContainmentIndex(kind, attributes)
    index.insert_rows(subs, np.arange(4_000, dtype=np.int32))
    index.tally()
    # The oldest go while new ones come: the number stays the same.
    for row in range(4_000, 6_000):
        query, found = Query(QueryBoxes(lo, hi), row, NO_ROW), np.empty(1, np.int32)
        index_kernels.find(index.index, subs, query, found, 0)
        index.prepare(subs)
        index_kernels.insert(index.index, subs, row)
        index_kernels.remove(index.index, subs, row - 4_000)
        if row % 500 == 0:
            index.check(subs)
    nodes, compared = index.tally()
    # In random order in one attribute the curve has many buckets whose stretch enters the region.
    assert compared / 2_000 < (400 if kind == "kdtree" else 2_000)
    assert nodes / 2_000 < (100 if kind == "kdtree" else 200)


def test_codes_are_cut_anew_a_few_buckets_at_a_time() -> None:
    rng = np.random.default_rng(3)
    lo = np.sort(rng.random((9_000, 2)), axis=0)
    hi = lo + rng.random((9_000, 2)) * 1e-3
    subs, index = subscriptions_of(lo, hi), ContainmentIndex("kdtree", 2)
    index.insert_rows(subs, np.arange(6_000, dtype=np.int32))
    cuts, found, changes = index.index.cuts.copy(), np.empty(2, np.int32), []
    for row in range(6_000, 9_000):
        for place in rng.integers(0, row, 8).tolist():
            index_kernels.find(index.index, subs, Query(QueryBoxes(lo, hi), place, NO_ROW), found, 0)
        words = index.index.words.copy()
        index.prepare(subs)
        index_kernels.insert(index.index, subs, row)
        changed = (index.index.words[: len(words)] != words).any(axis=(1, 2))
        changes.append(int(changed.sum()))
    index.check(subs)
    assert not np.array_equal(cuts, index.index.cuts)
    assert 3 < max(changes) + 2 < 12  # two that take over codes, and those of a split


@pytest.mark.parametrize("kind", ["kdtree", "zcurve"])
def test_a_bucket_that_is_empty_while_codes_are_cut_anew_takes_them_over(kind: str) -> None:
    table = CoveringTable(over=["x"], index=kind)
    front = table._relations.front

    def publish() -> list[Any]:
        found: list[Any] = table.publish({"id": [0], "x": [4.5]})["subscription"].to_pylist()
        return found

    table.subscribe({"id": [1], "x_lo": [4], "x_hi": [5]})
    front.index.meta[WASTED] = 1 << 20
    for name in (2, 3, 4):
        table.subscribe({"id": [name], "x_lo": [name / 2], "x_hi": [5 + name]})
        table._relations.check(table._table())
        table.unsubscribe([name - 1])
        table._relations.check(table._table())
        assert publish() == [name]
        table.unsubscribe([name])
        table.subscribe({"id": [name], "x_lo": [name / 2], "x_hi": [5 + name]})
        table._relations.check(table._table())
        assert publish() == [name]
    # As a former version could leave it: what is loaded is looked through again.
    front.index.row[1, CUT] = 1 - front.index.meta[GENERATION]
    assert not front._is_recoded()
    other = ContainmentIndex(kind, 1).restore(*front.state())
    assert other._is_recoded()


def test_what_covers_no_longer_makes_place_for_what_does() -> None:
    lo = np.arange(400, dtype=np.float64)[:, None] * 10.0
    subs, index = subscriptions_of(lo, lo + 9.0), ContainmentIndex("kdtree", 1)
    index.insert_rows(subs, np.arange(400, dtype=np.int32))
    found = np.empty(1, np.int32)

    def nodes_for(place: int) -> int:
        index.tally()
        box = QueryBoxes(lo[place : place + 1] + 1.0, lo[place : place + 1] + 2.0)
        assert index_kernels.find(index.index, subs, Query(box, 0, NO_ROW), found, 0) == 1
        assert found[0] == place
        return index.tally()[0]

    for place in range(64):
        assert nodes_for(place) > 0
        assert nodes_for(place) == 0
    for _ in range(8):
        for place in range(300, 340):
            nodes_for(place)
    assert all(nodes_for(place) == 0 for place in range(300, 340))
    index_kernels.remove(index.index, subs, 320)
    box = QueryBoxes(lo[320:321] + 1.0, lo[320:321] + 2.0)
    assert index_kernels.find(index.index, subs, Query(box, 0, NO_ROW), found, 0) == 0
    index.check(subs)


@given(st.integers(0, 99), st.sampled_from(SHAPES), st.integers(0, 200))
@settings(max_examples=30)
def test_no_box_comes_before_one_that_contains_it(seed: int, shape: tuple[int, int], count: int) -> None:
    boxes = some_boxes(np.random.default_rng(seed), count, *shape)
    order = containers_first(subscriptions_of(*boxes), np.arange(count, dtype=np.int32))
    assert sorted(order.tolist()) == list(range(count))
    lo, hi = boxes.lo[order], boxes.hi[order]
    for place in range(count):
        around = (lo <= lo[place]).all(axis=1) & (hi >= hi[place]).all(axis=1)
        same = (lo == lo[place]).all(axis=1) & (hi == hi[place]).all(axis=1)
        assert not (around & ~same)[place:].any()
        assert (np.diff(order[same]) > 0).all()


@given(st.integers(0, 99), st.sampled_from(SHAPES), st.integers(1, 200), st.integers(1, 200))
@settings(max_examples=60)
def test_the_first_containers_are_those_of_the_whole_order(
    seed: int, shape: tuple[int, int], count: int, first: int
) -> None:
    rng = np.random.default_rng(seed)
    boxes = some_boxes(rng, count, *shape)
    if rng.random() < 0.5:  # all equally wide
        boxes = Boxes(np.nan_to_num(boxes.lo, neginf=0), np.nan_to_num(boxes.lo, neginf=0) + 1)
    subs, rows = subscriptions_of(*boxes), rng.permutation(count).astype(np.int32)
    assert first_containers(subs, rows, first).tolist() == containers_first(subs, rows)[:first].tolist()


@given(st.integers(0, 99), st.sampled_from(SHAPES), st.integers(0, 400), st.sampled_from([4, 30, 4096]))
@settings(max_examples=40)
def test_maxima_equal_brute_force(seed: int, shape: tuple[int, int], count: int, sample: int) -> None:
    boxes = some_boxes(np.random.default_rng(seed), count, *shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maxima, "SAMPLE", sample)
        found = maxima.maximal(boxes).tolist()
    assert found == brute_force.maximal(boxes, boxes.at(slice(0)))[0].tolist()


@pytest.mark.parametrize(("index", "graph"), GRAPHS)
@pytest.mark.parametrize(("attributes", "top"), SHAPES)
def test_long_histories_equal_brute_force(index: str, graph: Any, attributes: int, top: int) -> None:
    rng = np.random.default_rng(top)
    over = [f"a{number}" for number in range(attributes)]
    engine = CoveringTable(over=over, index=index, graph=graph)
    oracle = CoveringTable(over=over, index="scan")
    live: list[int] = []
    for step in range(25):
        call, rows = "subscribe", {"id": list(range(1000 * step, 1000 * step + int(rng.integers(1, 90))))}
        if step % 3 == 1:
            call, rows = "unsubscribe", {"id": rng.choice(live, len(live) // 3, replace=False).tolist()}
            live = [name for name in live if name not in rows["id"]]
        elif step % 5 == 2:
            call, rows = "amend", {"id": rng.choice(live, min(6, len(live)), replace=False).tolist()}
        else:
            live += rows["id"]
        given_rows: Any = rows["id"] if call == "unsubscribe" else _with_boxes(rows, over, rng, top)
        answers = [getattr(each, call)(given_rows).drop(["covered_by"]) for each in (engine, oracle)]
        assert answers[0].equals(answers[1])
        assert engine.forwarded() == oracle.forwarded()
        engine._relations.check(engine._table())


@pytest.mark.parametrize("graph", [1, 2])
@pytest.mark.parametrize(("attributes", "top"), SHAPES)
def test_long_sequences_are_followed_like_calls(
    graph: int, attributes: int, top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MOST", 130)
    rng = np.random.default_rng(top)
    over = [f"a{number}" for number in range(attributes)]
    engine, oracle = CoveringTable(over=over, graph=graph), CoveringTable(over=over, index="scan")
    live: list[int] = []
    op, names = [], []
    for name in range(1500):
        removals = bool(live) and rng.random() < 0.4
        op.append("unsubscribe" if removals else "subscribe")
        names.append(live.pop(int(rng.integers(len(live)))) if removals else name)
        if not removals:
            live.append(name)
    commands = _with_boxes({"id": names}, over, rng, top) | {"op": op}
    for start in range(0, 1500, 500):
        part = {name: column[start : start + 500] for name, column in commands.items()}
        answer, expected = (each.follow(part).drop(["covered_by"]) for each in (engine, oracle))
        assert answer.equals(expected)
        engine._relations.check(engine._table())
    assert engine.forwarded() == oracle.forwarded()


def test_an_unsubscribe_that_frees_more_than_there_is_room_for_is_followed() -> None:
    rows: dict[str, Any] = {"op": ["subscribe"] * 3001 + ["unsubscribe"], "id": [*range(3001), 0]}
    rows |= {"x_lo": [-1.0, *range(3000), None], "x_hi": [9999.0, *range(3000), None]}
    engine = CoveringTable(over=["x"])
    answer = engine.follow(rows)
    assert answer["action"].to_pylist()[3001:] == ["withdraw", *["forward"] * 3000]
    assert answer["subscription"].to_pylist()[3002:] == list(range(1, 3001))
    assert engine.stats()["freed_most"] == 3000
    engine._relations.check(engine._table())


def _with_boxes(rows: dict[str, Any], over: list[str], rng: np.random.Generator, top: int) -> dict[str, Any]:
    boxes = some_boxes(rng, len(rows["id"]), len(over), top)
    for place, name in enumerate(over):
        for end, values in (("lo", boxes.lo), ("hi", boxes.hi)):
            column = values[:, place]
            rows[f"{name}_{end}"] = [None if np.isinf(value) else value for value in column]
    return rows
