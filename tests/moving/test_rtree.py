"""The packed R-tree that changes: invariants after any history, and best-first search against sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.moving.index import PointIndex
from rankcast.moving.kernels import rtree
from rankcast.tables.schema import Floats

COLUMNS = 3
values = st.sampled_from([-2.0, 0.0, 0.5, 1.0, 7.0])
SIZES = st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 250, 257])


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Inserts and removals: what, how many, a seed."""
    steps = st.tuples(st.sampled_from(["insert", "insert", "remove"]), SIZES, st.integers(0, 99))
    return draw(st.lists(steps, min_size=1, max_size=6))


def play(index: PointIndex, history: list[tuple[str, int, int]]) -> dict[int, Floats]:
    """Apply a history; returns the live points by row. Rows of removed points are used again."""
    live: dict[int, Floats] = {}
    for what, size, seed in history:
        rng = np.random.default_rng(seed)
        if what == "insert":
            free = [row for row in range(len(live) + size) if row not in live][:size]
            points = rng.integers(-2, 3, (size, COLUMNS)) / 2
            index.insert(np.array(free, np.int32), points)
            live.update(zip(free, points, strict=True))
        else:
            gone = rng.permutation(sorted(live))[:size].astype(np.int32)
            index.remove(gone)
            for row in gone.tolist():
                del live[row]
    return live


@settings(max_examples=40)
@given(histories())
def test_every_history_keeps_the_invariants(history: list[tuple[str, int, int]]) -> None:
    index = PointIndex([None, None, 1.0])
    live = play(index, history)
    by_row = np.full((max(live, default=-1) + 1, COLUMNS), np.nan)
    for row, point in live.items():
        by_row[row] = point
    index.check(by_row)
    assert len(index) == len(live)
    box = rtree.bounds(index.tree)
    for point in live.values():
        assert (box[0] <= point).all()
        assert (point <= box[1]).all()


def test_a_state_goes_on_where_it_stopped() -> None:
    history = [("insert", 100, 1), ("remove", 30, 2), ("insert", 20, 3)]
    one, other = PointIndex([None, None, 0.0]), PointIndex([None, None, 0.0])
    play(one, history)
    header, arrays = one.state()
    other.restore(header, {name: array.copy() for name, array in arrays.items()})
    for index in (one, other):
        index.remove(np.arange(40, 60, dtype=np.int32))
        index.insert(np.arange(40, 50, dtype=np.int32), np.ones((10, COLUMNS)))
    for name, array in one.state()[1].items():
        assert np.array_equal(array, other.state()[1][name]), name


def test_memory_follows_what_is_live() -> None:
    index = PointIndex([1.0, 1.0, 0.0])
    sizes = []
    for round_ in range(60):
        rows = np.arange(200, dtype=np.int32)
        index.insert(rows, np.random.default_rng(round_).random((200, COLUMNS)))
        index.remove(rows)
        sizes.append(sum(array.nbytes for array in index.state()[1].values()))
    assert max(sizes[30:]) == max(sizes[:30])


def test_blocks_are_full_but_the_last_of_a_level() -> None:
    index = PointIndex([None, None, 0.0])
    points = np.random.default_rng(0).random((1000, COLUMNS))
    index.insert(np.arange(1000, dtype=np.int32), points)
    layer = int(np.flatnonzero(index.tree.count)[0])
    leaves = index.tree.row[rtree.LEAF_BASE[layer] :][:63]
    filled = (leaves >= 0).sum(axis=1)
    assert filled.tolist() == [16] * 62 + [8]


def spread_of_boxes(index: PointIndex) -> Any:
    root = int(rtree.root_of(index.tree, int(np.flatnonzero(index.tree.count)[0])))
    width = int(index.tree.width[root])
    return (index.tree.high[root] - index.tree.low[root])[:, :width].mean(axis=1)


def test_a_column_that_counts_more_is_split_more() -> None:
    points = np.random.default_rng(0).random((4096, COLUMNS))
    rows = np.arange(4096, dtype=np.int32)
    flat, deep = PointIndex([1.0, 1.0, 0.0]), PointIndex([1.0, 1.0, 100.0])
    flat.insert(rows, points)
    deep.insert(rows, points)
    assert spread_of_boxes(flat)[0] < 0.3
    assert spread_of_boxes(flat)[2] > 0.9
    assert spread_of_boxes(deep)[0] > 0.9
    assert spread_of_boxes(deep)[2] < 0.1
