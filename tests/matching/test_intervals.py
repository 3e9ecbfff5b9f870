"""The scored interval indexes against the paper's example and lemmas."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rankcast import RankedMatcher
from rankcast.matching.kernels.box_tree import Columns
from rankcast.papers.matching import static_intervals, trees
from rankcast.papers.matching.intervals import KINDS as LIVE
from rankcast.papers.matching.intervals import IntervalIndex
from rankcast.papers.matching.static_intervals import KINDS as STATIC
from rankcast.papers.matching.static_intervals import StaticIntervalIndex, arrangement, ends_of, slots_of
from tests.matching.histories import best, follow
from tests.matching.histories import columns as columns_of
from tests.matching.histories import events as events_of

# Ten intervals, best first, with everything that [Ranked §2, §3] says of its figures 2 to 5: nine ends, the
# sets at the centre 50, the visible blocks of the first seven, the edges (1, 3), (1, 9), (3, 10).
TEN = [
    *[(30, 55), (75, 90), (45, 55), (65, 90), (10, 30)],
    *[(0, 30), (75, 100), (65, 100), (10, 45), (10, 90)],
]

KINDS = [*LIVE, *STATIC]
Intervals = list[tuple[float, float]]
ENDS = st.one_of(st.integers(0, 12), st.integers(0, 200)).map(float)
INTERVALS = st.tuples(ENDS, ENDS).map(lambda pair: (min(pair), max(pair)))
OPEN = st.sampled_from([(-np.inf, 5.0), (5.0, np.inf), (-np.inf, np.inf)])
SETS = st.lists(st.one_of(INTERVALS, INTERVALS, OPEN), min_size=1, max_size=60)


def ends(intervals: Intervals) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    lo, hi = np.array(intervals, dtype=np.float64).T.copy()
    return lo, hi


def edges(intervals: Intervals) -> list[tuple[int, int]]:
    lo, hi = ends(intervals)
    values, _ = ends_of(lo, hi)
    slots = 2 * values.size + 1
    graph = static_intervals.constraint_graph(slots_of(values, lo), slots_of(values, hi), slots)
    return list(zip(*(each.tolist() for each in graph), strict=True))


def probes(intervals: Intervals) -> list[float]:
    """Every end, every gap between two ends, and beyond."""
    values = sorted({end for interval in intervals for end in interval if np.isfinite(end)} or {0.0})
    gaps = [(a + b) / 2 for a, b in pairwise(values)]
    return [values[0] - 1, *values, *gaps, values[-1] + 1]


def index_of(kind: str, dimensions: int, combine: str | None, branching: int) -> Any:
    """An empty index."""
    made = IntervalIndex if kind in LIVE else StaticIntervalIndex
    return made(kind, dimensions, combine=combine, branching=branching)


def stabbed(intervals: Intervals, q: float) -> list[int]:
    return [place for place, (lo, hi) in enumerate(intervals) if lo <= q <= hi]


@pytest.mark.parametrize("index", ["scan", "box-tree", *KINDS])
def test_the_ten_intervals_of_the_paper(index: str) -> None:
    engine = RankedMatcher(over="x", k=10, index=index, tuning={"branching": 4})
    lo, hi = ends([(float(a), float(b)) for a, b in TEN])
    engine.subscribe({"id": list(range(1, 11)), "x_lo": lo, "x_hi": hi, "score": list(range(10, 0, -1))})
    for q, expected in {80: [2, 4, 7, 8, 10], 50: [1, 3, 10], 20: [5, 6, 9, 10], 35: [1, 9, 10]}.items():
        assert engine.publish({"id": [0], "x": [q]})["subscription"].to_pylist() == expected


def test_the_centre_of_the_ten_intervals_parts_them_as_the_paper_says() -> None:
    lo, hi = ends([(float(a), float(b)) for a, b in TEN])
    centre, child, first, listed = trees.centre_tree(lo, hi)
    lists = [(listed[a:b] + 1).tolist() for a, b in pairwise(first)]
    root = [each for each in range(1, 11) if TEN[each - 1][0] <= centre[0] <= TEN[each - 1][1]]
    assert lists[0] == root
    assert sorted(each for some in lists for each in some) == list(range(1, 11))
    assert child.shape == (centre.size, 2)


def test_the_constraint_graph_of_the_ten_intervals() -> None:
    found = {(a + 1, b + 1) for a, b in edges([(float(a), float(b)) for a, b in TEN])}
    assert {(1, 3), (1, 9), (3, 10)} <= found
    assert (1, 10) not in found


@given(SETS)
def test_the_graph_is_what_its_definition_says_and_has_at_most_3n_edges(intervals: Intervals) -> None:
    found = edges(intervals)
    expected = set()
    for q in probes(intervals):
        here = stabbed(intervals, q)
        expected |= set(pairwise(here))
    assert set(found) == expected
    assert len(found) <= 3 * len(intervals)


@given(SETS, st.integers(2, 5), st.integers(1, 6))
def test_a_query_opens_at_most_k_leaves_in_vain(intervals: Intervals, branching: int, k: int) -> None:
    order = arrangement(*ends(intervals)).tolist()
    assert sorted(order) == list(range(len(intervals)))
    leaves = [order[start : start + branching] for start in range(0, len(order), branching)]
    for q in probes(intervals):
        hits: list[int] = []
        holes = 0
        for leaf in leaves:
            boxes = [intervals[each] for each in leaf]
            if len(hits) < k and min(lo for lo, _ in boxes) <= q <= max(hi for _, hi in boxes):
                mine = [each for each in leaf if intervals[each][0] <= q <= intervals[each][1]]
                holes += not mine
                hits += mine
        assert holes <= k
        assert hits[:k] == stabbed(intervals, q)[:k]


@pytest.mark.parametrize("branching", [2, 4, 50])
def test_the_sopt_r_tree_takes_little_more_than_its_intervals(branching: int) -> None:
    rng = np.random.default_rng(5)
    lo = rng.random((3000, 1))
    columns = Columns(lo, lo + 0.1, rng.random(3000), np.empty((3000, 0)), np.arange(3000))
    index = index_of("sopt-r-tree", 1, None, branching)
    index.insert(columns, np.arange(3000, dtype=np.int32))
    assert 3000 < index.entries() <= (1 + 2 / (branching - 1)) * 3000


@pytest.mark.parametrize("kind", KINDS)
@given(SETS, st.integers(2, 5), st.data())
def test_cursors_are_the_stabbed_intervals_in_order(
    kind: str, intervals: Intervals, branching: int, data: Any
) -> None:
    lo, hi = ends(intervals)
    score = np.array([float(data.draw(st.integers(0, 3))) for _ in intervals])
    label = np.arange(len(intervals))
    columns = Columns(lo[:, None], hi[:, None], score, np.empty((lo.size, 0)), label)
    index = index_of(kind, 1, None, branching)
    index.insert(columns, label.astype(np.int32))
    points = np.array(probes(intervals))[:, None]
    found = index.search(columns, points, points, lo.size)
    lists = np.split(found.row, np.cumsum(found.number)[:-1])
    for q, rows in zip(points[:, 0], lists, strict=True):
        assert rows.tolist() == sorted(stabbed(intervals, q), key=lambda each: (-score[each], each))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("dimensions", "combine"),
    [
        *[(1, None), (2, None), (4, None), (5, None), (8, None)],
        *[(1, "sum"), (2, "max"), (3, "sum"), (6, "sum"), (7, "max"), (8, "sum")],
    ],
)
def test_a_long_history_matches_brute_force(kind: str, dimensions: int, combine: str | None) -> None:
    rng = np.random.default_rng(7)
    index, columns = index_of(kind, dimensions, combine, 4), columns_of(dimensions, combine, rng, ties=True)
    follow(index, columns, combine, rng, steps=10)
    if kind in LIVE:
        index.check(columns)


@pytest.mark.parametrize("kind", LIVE)
def test_rows_come_and_go_in_place_and_depth_stays_logarithmic(kind: str) -> None:
    rng, total = np.random.default_rng(3), 1500
    lo = np.arange(total, dtype=np.float64)[:, None]  # each behind all before it: a chain, left to itself
    columns = Columns(
        lo, lo + 0.5, np.round(rng.random(total), 1), np.empty((total, 0)), rng.permutation(total)
    )
    index, rows = index_of(kind, 1, None, 4), np.arange(total, dtype=np.int32)
    index.insert(columns, rows[:64])
    for start in range(64, total, 20):
        index.insert(columns, rows[start : start + 20])
    index.check(columns)
    points = lo[::100] + 0.25
    assert index.search(columns, points, points, 3).row.tolist() == rows[::100].tolist()
    index.remove(columns, rows[: total // 2 - 10])  # one side of the root
    index.check(columns)
    stats = index.stats()
    assert stats["index_splits"] > 0
    assert stats["index_merges"] > 0
    assert (stats["index_rebuilt"] > 0) == (kind != "r-tree")
    index.remove(columns, rows[total // 2 - 10 :])
    assert len(index) == 0
    assert index.search(columns, points, points, 3).row.size == 0
    index.check(columns)


def test_events_that_are_intervals_sort_a_static_tree_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    index, c, sorts = index_of("sopt-r-tree", 2, None, 4), columns_of(2, None, rng, ties=True), list[int]()
    plain = StaticIntervalIndex._lists_by_score

    def counted(self: StaticIntervalIndex, given: Columns) -> Any:
        sorts.append(1)
        return plain(self, given)

    monkeypatch.setattr(StaticIntervalIndex, "_lists_by_score", counted)
    rows = np.arange(2000, dtype=np.int32)
    index.insert(c, rows)
    alive = np.ones(2000, np.bool_)
    for step in range(12):
        index.remove(c, rows[step : step + 1])
        alive[step] = False
        below, above = events_of(6, 2, rng)
        found = index.search(c, below, above, 5)
        live = np.flatnonzero(alive).astype(np.int32)
        expected = [row for ends in zip(below, above, strict=True) for row in best(c, live, *ends, 5, None)]
        assert found.row.tolist() == expected
    assert len(sorts) == 1


@pytest.mark.parametrize("index", ["r-tree", "interval-tree", "ir-tree"])
@pytest.mark.parametrize("k", [1, 7, 10_000])
def test_the_plain_threshold_algorithm_finds_the_same(index: str, k: int) -> None:
    rng = np.random.default_rng(k)
    count, over = 400, ["a", "b", "c"]
    rows: dict[str, Any] = {"id": np.arange(count)}
    for name in over:
        low = rng.integers(0, 50, count)
        rows[f"{name}_lo"], rows[f"{name}_hi"] = low, low + rng.integers(0, 20, count)
        rows[f"{name}_weight"] = rng.integers(1, 6, count).astype(float)
    events = {"id": np.arange(60), **{name: rng.integers(0, 70, 60) for name in over}}
    engines = [RankedMatcher(over=over, k=k, mode="relaxed", index=index) for _ in range(2)]
    for engine in engines:
        engine.subscribe(rows)
    engines[1]._index.plain = True  # type: ignore[attr-defined]
    one, other = (engine.publish(events) for engine in engines)
    assert one.equals(other)
    candidates = [engine.stats()["candidates"] for engine in engines]
    assert candidates[0] <= candidates[1]
