"""The tree of corners: its invariants under edits, and what it answers, against brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.range_topk.boxes import corners_of
from rankcast.range_topk.corners import BoxObjects, CornerIndex
from rankcast.range_topk.kernels import corners_search
from rankcast.range_topk.subscriptions import SlotMap

INF = float("inf")
SPOT = st.integers(0, 5).map(float)


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Inserts of so many new rows, and deletions of so many of the oldest."""
    return draw(
        st.lists(st.tuples(st.sampled_from(["insert", "insert", "delete"]), st.integers(1, 40)), max_size=8)
    )


@settings(max_examples=40)
@given(edits(), st.integers(1, 6), st.integers(0, 1000))
def test_edits_keep_the_tree_right(steps: list[tuple[str, int]], values: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = CornerIndex(4, 2, 16, SlotMap())
    live: dict[int, tuple[float, ...]] = {}
    rows = 0
    for step, count in steps:
        if step == "insert":
            names = np.arange(rows, rows + count, dtype=np.int32)
            points = rng.integers(0, values, (count, 4)).astype(float)
            points[rng.random((count, 4)) < 0.2] = -INF
            index.insert(names, points, rng.random(count))
            live |= dict(zip(names.tolist(), map(tuple, points.tolist()), strict=True))
            rows += count
        else:
            names = np.array(list(live)[:count], np.int32)
            index.delete(names)
            live = {row: point for row, point in live.items() if row not in set(names.tolist())}
        index.check()
        assert len(index) == len(live)
        tree = index.tree
        assert {row: tuple(tree.point[tree.slot_of[row]].tolist()) for row in live} == live


@st.composite
def objects(draw: st.DrawFn) -> list[tuple[float, float, float]]:
    return draw(st.lists(st.tuples(SPOT, SPOT, SPOT), max_size=40))


@settings(max_examples=60)
@given(objects(), st.lists(st.tuples(SPOT, SPOT, SPOT, SPOT), min_size=1, max_size=5), st.data())
def test_questions_are_answered_as_by_looking_at_everything(
    placed: list[tuple[float, float, float]],
    boxes: list[tuple[float, float, float, float]],
    data: st.DataObject,
) -> None:
    held = BoxObjects(2)
    rows = np.arange(len(placed), dtype=np.int32)
    table = np.array(placed).reshape(-1, 3)
    held.set_labels(rows, (rows * 7 % 41).astype(np.int64))
    held.settle(rows, table[:, :2], table[:, 2].copy())
    ends = np.array([(min(a, b), max(a, b), min(c, d), max(c, d)) for a, b, c, d in boxes])
    corners = corners_of(ends[:, [0, 2]], ends[:, [1, 3]])
    ranked = []
    for lo, hi, bottom, top in ends:
        inside = [
            (y, int(held.label[row]), row)
            for row, (x, z, y) in enumerate(placed)
            if lo <= x <= hi and bottom <= z <= top
        ]
        ranked.append(sorted(inside))
    board = np.empty(3, np.int32)
    after = data.draw(st.tuples(st.one_of(SPOT, st.just(-INF)), st.integers(-1, 41)))
    limit = data.draw(st.tuples(st.one_of(SPOT, st.just(INF)), st.integers(-1, 41)))
    for corner, best in zip(corners, ranked, strict=True):
        corners_search.best(held.index.tree, held.label, corner, after, limit, board)
        between = [row for y, label, row in best if after < (y, label) < limit]
        assert board.tolist() == (between + [-1] * 3)[:3]
    found = np.empty(len(corners), np.int32)
    corners_search.find_next(
        held.index.tree,
        held.label,
        corners,
        np.full(len(corners), after[0]),
        np.full(len(corners), after[1]),
        found,
        limit[0],
        limit[1],
    )
    expected = [next((row for y, label, row in best if after < (y, label) < limit), -1) for best in ranked]
    assert found.tolist() == expected
