"""The baselines answer right: a slow contender that is wrong would flatter everybody."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankcast.bench.baselines.numpy_covering import NumpyCovering
from rankcast.bench.baselines.threshold_scan import ThresholdScan
from rankcast.bench.workloads import covering

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
    board = ThresholdScan(
        {"id": np.arange(len(x)), "x": x, "y": y}, {"id": np.arange(len(lo)), "x_lo": lo, "x_hi": hi}, k
    )

    def lists() -> list[list[tuple[int, float]]]:
        inside = [np.flatnonzero((x >= low) & (x <= high)) for low, high in zip(lo, hi, strict=True)]
        best = [rows[np.lexsort((rows, y[rows]))][:k].tolist() for rows in inside]
        return [[(row, y[row]) for row in rows] for rows in best]

    y, touched = y.copy(), 0
    for key, value in events:
        which, before = key % len(x), lists()
        y[which] = value
        touched += sum(one != other for one, other in zip(before, lists(), strict=True))
        board.publish({"id": np.array([which]), "y": np.array([value])})
    assert [board.items(row) for row in range(len(lo))] == [[item for item, _ in each] for each in lists()]
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
