"""The baselines answer right: a slow contender that is wrong would flatter everybody."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.bench.baselines import geotext
from rankcast.bench.baselines.covering import NumpyCovering
from rankcast.bench.baselines.matching import NumpyMatching
from rankcast.bench.baselines.moving import NumpySkyline, NumpyTopK
from rankcast.bench.baselines.range_topk import NumpyLists, ThresholdScan
from rankcast.bench.workloads import Columns, covering

SMALL = st.integers(0, 4).map(float)


@given(
    objects=st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=8),
    ranges=st.lists(st.tuples(SMALL, SMALL).map(sorted), min_size=1, max_size=5),
    events=st.lists(st.tuples(st.integers(0, 7), SMALL), max_size=12),
    k=st.integers(1, 3),
)
def test_the_threshold_scan_keeps_lists_and_counts_the_affected(
    objects: list[tuple[float, float]], ranges: list[list[float]], events: list[tuple[int, float]], k: int
) -> None:
    x, y = (np.array(each) for each in zip(*objects, strict=True))
    lo, hi = (np.array(each) for each in zip(*ranges, strict=True))
    rows, ends = {"id": np.arange(len(x)), "x": x, "y": y}, {"id": np.arange(len(lo)), "x_lo": lo, "x_hi": hi}
    board, plain = ThresholdScan(rows, ends, k), NumpyLists(rows, ends, k)

    def lists() -> list[list[tuple[int, float]]]:
        inside = [np.flatnonzero((x >= low) & (x <= high)) for low, high in zip(lo, hi, strict=True)]
        best = [rows[np.lexsort((rows, y[rows]))][:k].tolist() for rows in inside]
        return [[(row, y[row]) for row in rows] for rows in best]

    y, touched = y.copy(), 0
    for key, value in events:
        which, before = key % len(x), lists()
        y[which] = value
        changed = [row for row, (one, other) in enumerate(zip(before, lists(), strict=True)) if one != other]
        touched += len(changed)
        assert set(changed) <= set(plain.publish(which, value).tolist())
        board.publish({"id": np.array([which]), "y": np.array([value])})
    expected = [[item for item, _ in each] for each in lists()]
    assert [board.items(row) for row in range(len(lo))] == expected
    assert [plain.items(row) for row in range(len(lo))] == expected
    assert board.affected == touched


@given(
    count=st.integers(0, 60),
    p=st.floats(0.0, 0.49),
    bits=st.integers(1, 3),
    width=st.integers(1, 2),
    seed=st.integers(0, 999),
)
def test_numpy_covering_forwards_what_is_contained_in_nothing_forwarded(
    count: int, p: float, bits: int, width: int, seed: int
) -> None:
    over = covering.attributes(width)
    made = covering.commands(count, over, np.random.default_rng(seed), p=p, bits=bits)
    boxes = [
        [(made.boxes[f"{name}_lo"][row], made.boxes[f"{name}_hi"][row]) for name in over]
        for row in range(len(made.boxes["id"]))
    ]

    def contains(outer: int, inner: int) -> bool:
        return all(a <= c and d <= b for (a, b), (c, d) in zip(boxes[outer], boxes[inner], strict=True))

    def covers(outer: int, inner: int) -> bool:
        return outer != inner and contains(outer, inner) and (outer < inner or not contains(inner, outer))

    table, live, known = NumpyCovering(over, len(boxes)), set[int](), set[int]()
    for call, rows in covering.steps(made):
        getattr(table, call)(rows)
        if call == "unsubscribe":
            live -= set(rows)
            known -= set(rows)
        for row in [] if call == "unsubscribe" else rows["id"].tolist():
            known |= {row} if not any(contains(other, row) for other in live) else set()
            live.add(row)
        known |= {row for row in live if not any(covers(other, row) for other in live)}
        assert table.forwarded() == sorted(known)


@given(
    rows=st.lists(st.tuples(SMALL, SMALL, st.sampled_from([0.25, 0.5, 1.0])), min_size=1, max_size=9),
    points=st.lists(SMALL, min_size=1, max_size=4),
    k=st.integers(1, 3),
    mode=st.sampled_from(["exact", "relaxed"]),
)
def test_numpy_matching_gives_the_best_matches(
    rows: list[tuple[float, float, float]], points: list[float], k: int, mode: str
) -> None:
    boxes = [(min(a, b), max(a, b), score) for a, b, score in rows]
    lo, hi, score = (np.array(each) for each in zip(*boxes, strict=True))
    subscriptions = {"id": np.arange(len(lo)), "a0_lo": lo, "a0_hi": hi}
    subscriptions["score" if mode == "exact" else "a0_weight"] = score
    found = NumpyMatching(subscriptions, ["a0"], k).publish(
        {"id": np.arange(len(points)), "a0": np.array(points)}
    )
    for point, (ids, scores) in zip(points, found, strict=True):
        hits = sorted((-worth, row) for row, (low, high, worth) in enumerate(boxes) if low <= point <= high)[
            :k
        ]
        assert list(zip((-scores).tolist(), ids.tolist(), strict=True)) == hits


def test_plain_geotext_scores_by_the_definition() -> None:
    subscription = {"x": 0.0, "y": 0.0, "terms": ["a", "b"], "alpha": 0.25}
    near = {"x": 3.0, "y": 4.0, "terms": ["a", "a", "b", "c"]}
    expected = 0.25 * (1 - 5 / 10) + 0.75 * 3 / (2**0.5 * 6**0.5)
    assert geotext.score(subscription, near, 10.0) == pytest.approx(expected)
    assert geotext.score(subscription, {**near, "terms": ["c"]}, 10.0) is None
    window = [near, {**near, "terms": ["c"]}, {**near, "x": 0.0, "y": 0.0}]
    best = geotext.best_scores(subscription, window, 5, 10.0)
    assert best == pytest.approx([expected + 0.25 * 0.5, expected])
    assert geotext.best_scores(subscription, window, 1, 10.0) == best[:1]


@given(
    rows=st.lists(st.tuples(SMALL, SMALL, SMALL, SMALL), min_size=1, max_size=10),
    place=st.tuples(SMALL, SMALL),
    k=st.integers(1, 10),
)
def test_numpy_moving_gives_top_k_and_skyline(
    rows: list[tuple[float, ...]], place: tuple[float, float], k: int
) -> None:
    objects: Columns = {"id": np.arange(len(rows))}
    for name, column in zip(("x", "y", "a0", "a1"), zip(*rows, strict=True), strict=True):
        objects[name] = np.array(column)
    at = {"id": np.array([5]), "x": np.array(place[:1]), "y": np.array(place[1:])}
    away = [float(np.hypot(row[0] - place[0], row[1] - place[1])) for row in rows]
    values = [(*row[2:], distance) for row, distance in zip(rows, away, strict=True)]

    top = NumpyTopK(objects, ["a0", "a1"], [1.0, 2.0, 0.5], min(k, len(rows)))
    top.publish(at)
    ranked = sorted((a + 2 * b + 0.5 * distance, row) for row, (a, b, distance) in enumerate(values))[:k]
    assert top.found[5][0].tolist() == [row for _, row in ranked]

    plain = NumpySkyline(objects, ["a0", "a1"])
    plain.publish(at)
    best = [
        row
        for row, mine in enumerate(values)
        if not any(all(np.less_equal(other, mine)) and any(np.less(other, mine)) for other in values)
    ]
    assert plain.found[5][0].tolist() == sorted(best, key=lambda row: (away[row], row))
