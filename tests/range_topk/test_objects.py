"""The object index against sorted lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.range_topk.state import FEW_OBJECTS, ObjectIndex

SMALL = st.integers(0, 12).map(float)
STEPS = st.lists(
    st.tuples(st.integers(0, 60), SMALL, SMALL, st.sampled_from(["put", "put", "delete", "move"])),
    max_size=120,
)


def apply(
    index: ObjectIndex, objects: dict[int, tuple[float, float]], step: tuple[int, float, float, str]
) -> None:
    row, x, y, verb = step
    if row not in objects:
        index.set_labels(np.array([row], np.int32), np.array([label_of(row)]))
        index.insert(row, x, y)
        objects[row] = (x, y)
    elif verb == "delete":
        index.delete(row)
        del objects[row]
    elif verb == "move":
        index.move(row, x)
        objects[row] = (x, objects[row][1])
    else:
        index.set_value(row, y)
        objects[row] = (objects[row][0], y)


def label_of(row: int) -> int:
    return (row * 37) % 101


def best(index: ObjectIndex, lo: float, hi: float, k: int) -> list[int]:
    """The best k objects of one range."""
    board = np.empty((1, k), np.int32)
    index.best(np.array([lo]), np.array([hi]), board)
    return [row for row in board[0].tolist() if row >= 0]


def better_than(
    objects: dict[int, tuple[float, float]], y: float, label: int
) -> list[tuple[float, float, int, int]]:
    return [
        (x, oy, label_of(row), row) for row, (x, oy) in objects.items() if (oy, label_of(row)) < (y, label)
    ]


@settings(max_examples=60, deadline=None)
@given(STEPS, SMALL, SMALL, st.integers(0, 101), st.integers(1, 5), SMALL, SMALL)
def test_questions_match_sorted_lists(
    steps: list[tuple[int, float, float, str]], x: float, y: float, label: int, k: int, one: float, two: float
) -> None:
    index, objects = ObjectIndex(), dict[int, tuple[float, float]]()
    for step in steps:
        apply(index, objects, step)
    index.check()
    better = better_than(objects, y, label)
    assert (
        index.firstk(x, y, label, "left", k).tolist()
        == sorted((b[0] for b in better if b[0] < x), reverse=True)[:k]
    )
    assert index.firstk(x, y, label, "right", k).tolist() == sorted(b[0] for b in better if b[0] > x)[:k]
    lo, hi = min(one, two), max(one, two)
    worse = sorted(
        (oy, label_of(r), r)
        for r, (ox, oy) in objects.items()
        if lo < ox < hi and (oy, label_of(r)) > (y, label)
    )
    assert index.miny(lo, hi, y, label) == (worse[0][2] if worse else -1)
    inside = sorted((oy, label_of(r), r) for r, (ox, oy) in objects.items() if lo <= ox <= hi)
    assert best(index, lo, hi, k) == [row for _, _, row in inside[:k]]


def test_many_objects_come_and_go_in_bounded_memory() -> None:
    rng = np.random.default_rng(3)
    index = ObjectIndex()
    rows = np.arange(3000, dtype=np.int32)
    index.set_labels(rows, rows.astype(np.int64))
    index.load(rows, rng.random(3000), rng.random(3000))
    index.check()
    full = len(index.tree.filled)
    for row in rows[:2990]:
        index.delete(int(row))
    index.tidy()
    index.check()
    assert len(index.tree.filled) < full // 2
    for row in rows[:2990]:
        index.insert(int(row), float(rng.random()), 0.5)
    index.check()
    for row in rows:
        index.delete(int(row))
    index.check()
    assert len(index) == 0
    assert best(index, -np.inf, np.inf, 3) == []


def test_a_restored_index_goes_on_as_before() -> None:
    index = ObjectIndex()
    rows = np.arange(200, dtype=np.int32)
    index.set_labels(rows, rows.astype(np.int64))
    index.load(rows, np.repeat(np.arange(40.0), 5), np.tile(np.arange(8.0), 25))
    other = ObjectIndex()
    other.restore({name: array.copy() for name, array in index.arrays().items()})
    for each in (index, other):
        each.delete(7)
        each.move(9, 3.5)
        each.check()
    assert best(other, 0.0, 20.0, 50) == best(index, 0.0, 20.0, 50)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 150), st.sampled_from([2, 9, 40, 10**6]), st.integers(1, 40))
def test_many_ranges_at_once_have_the_lists_of_each(seed: int, size: int, spread: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    index, rows = ObjectIndex(), rng.permutation(size).astype(np.int32)
    index.set_labels(rows, rng.permutation(1000)[:size])
    index.load(rows, *rng.integers(0, spread, (2, size)).astype(np.float64))
    lo, hi = np.sort(rng.integers(-1, spread + 1, (FEW_OBJECTS + 40, 2))).T.astype(np.float64, order="C")
    lo[rng.random(len(lo)) < 0.1], hi[rng.random(len(hi)) < 0.1] = -np.inf, np.inf
    boards = np.empty((len(lo), k), np.int32)
    index.best(lo, hi, boards)
    for board, low, high in zip(boards, lo.tolist(), hi.tolist(), strict=True):
        assert [row for row in board.tolist() if row >= 0] == best(index, low, high, k)
        assert (board[len(best(index, low, high, k)) :] == -1).all()


def test_lists_follow_objects_that_change_between_two_calls() -> None:
    index, rng = ObjectIndex(), np.random.default_rng(3)
    index.set_labels(np.arange(40, dtype=np.int32), np.arange(40)[::-1].copy())
    index.load(np.arange(30, dtype=np.int32), *rng.integers(0, 9, (2, 30)).astype(np.float64))
    lo, hi = np.sort(rng.integers(-1, 10, (FEW_OBJECTS + 10, 2))).T.astype(np.float64, order="C")
    changes = [("set_value", 3, 0.0), ("move", 3, 8.0), ("delete", 3), ("insert", 35, 4.0, 1.0)]
    for call, *given_to_it in changes:
        getattr(index, str(call))(*given_to_it)
        for k in (2, 5):
            boards = np.empty((len(lo), k), np.int32)
            index.best(lo, hi, boards)
            lists = [[row for row in board if row >= 0] for board in boards.tolist()]
            assert lists == [best(index, low, high, k) for low, high in zip(lo, hi, strict=True)]
