"""The subscription index against a plain list of points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rankcast.range_topk import subscriptions
from rankcast.range_topk.kernels import points_edit
from rankcast.range_topk.subscriptions import SlotMap, SubscriptionIndex
from rankcast.structures.arrays import Names
from rankcast.tables import deltas

INF = np.inf
ENDS = st.sampled_from([-INF, 0.0, 1.0, 1.0, 2.0, 3.0, 4.0, INF])
BOXES = st.tuples(ENDS, ENDS, ENDS, ENDS)
Floats = NDArray[np.float64]


def inside(box: Floats, lo: Floats, hi: Floats) -> NDArray[np.bool_]:
    return np.asarray((box[0] <= lo) & (lo <= box[1]) & (box[2] <= hi) & (hi <= box[3]), bool)


def lists(rows: NDArray[np.int32], k: int, since: int = 0) -> NDArray[np.int32]:
    """Boards that tell whose they are, and since when."""
    return np.asarray(1000 * since + rows[:, None] + np.arange(k) * 10**6, np.int32)


def both(ends: Floats) -> tuple[Floats, Floats]:
    """Lower and upper ends."""
    return ends[:, 0].copy(), ends[:, 1].copy()


def assert_same(index: SubscriptionIndex, live: dict[int, tuple[float, float]], box: Floats) -> None:
    rows = np.array(sorted(live), np.int32)
    lo, hi = np.array([live[int(row)] for row in rows]).reshape(-1, 2).T
    hit = inside(box, lo, hi)
    assert sorted(index.rows_in(box).tolist()) == rows[hit].tolist()
    assert index.count(box) == hit.sum()
    found = index.snap(box)
    if not hit.any():
        assert found is None
    else:
        assert found is not None
        assert found.tolist() == [lo[hit].min(), lo[hit].max(), hi[hit].min(), hi[hit].max()]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), ENDS, ENDS), max_size=300),
    st.lists(st.integers(0, 400), max_size=200),
    BOXES,
)
def test_points_come_and_go(
    points: list[tuple[int, float, float]], gone: list[int], corners: tuple[float, float, float, float]
) -> None:
    index, live = SubscriptionIndex(2, SlotMap()), dict[int, tuple[float, float]]()
    for row, one, two in points:
        if row not in live:
            live[row] = (min(one, two), max(one, two))
            one_row = np.array([row], np.int32)
            index.insert(one_row, np.array([live[row][0]]), np.array([live[row][1]]), lists(one_row, 2))
    index.check()
    for row in gone:
        if row in live:
            del live[row]
            index.delete(np.array([row], np.int32))
    index.check()
    assert_same(
        index, live, np.array([min(corners[:2]), max(corners[:2]), min(corners[2:]), max(corners[2:])])
    )


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2, 9]), st.lists(st.tuples(st.integers(0, 4), BOXES))
)
def test_many_come_go_and_move_at_once(
    seed: int, spread: int, steps: list[tuple[int, tuple[float, float, float, float]]]
) -> None:
    rng = np.random.default_rng(seed)
    index, live = SubscriptionIndex(2, SlotMap()), dict[int, tuple[float, float]]()
    boards = np.zeros((900, 2), np.int32)

    def ranges(count: int) -> tuple[Floats, Floats]:
        ends = np.sort(
            rng.integers(0, spread + 1, (count, 2)) * 0.5 if spread < 9 else rng.random((count, 2))
        )
        return ends[:, 0].copy(), ends[:, 1].copy()

    for step, (kind, corners) in enumerate(steps):
        known = np.array(sorted(live), np.int32)
        free = np.setdiff1d(np.arange(900, dtype=np.int32), known)
        come = rng.permutation(free)[: rng.integers(0, 300)] if kind in (0, 2) else free[:0]
        gone = rng.permutation(known)[: rng.integers(0, len(known) + 1)] if kind in (1, 2) else known[:0]
        if gone.size:
            index.delete(gone)
        live = {row: ends for row, ends in live.items() if row not in gone}
        rows = rng.permutation(known)[: rng.integers(0, len(known) + 1)] if kind > 2 else come
        lo, hi = ranges(len(rows))
        if kind == 4:
            lo, hi = (np.array([live[row][end] for row in rows.tolist()]) for end in range(2))
            lo, hi = lo + rng.uniform(-0.05, 0.05, len(rows)), hi + 0.05 + rng.uniform(-0.05, 0.05, len(rows))
        boards[rows] = lists(rows, 2, step)
        (index.move if kind > 2 else index.insert)(rows, lo, hi, boards[rows])
        live |= {int(row): (lo[i], hi[i]) for i, row in enumerate(rows)}
        assert (index.board[index.tree.slot_of[rows]] == boards[rows]).all()
        if kind > 2 and step % 3:
            continue  # moves may pile up
        index.check()
        known = np.array(sorted(live), np.int32)
        assert (index.board[index.tree.slot_of[known]] == boards[known]).all()
        box = np.array([min(corners[:2]), max(corners[:2]), min(corners[2:]), max(corners[2:])])
        assert_same(index, live, box)


def test_boards_stay_with_their_subscriptions() -> None:
    rng = np.random.default_rng(8)
    index = SubscriptionIndex(2, SlotMap())
    ends, rows = np.sort(rng.random((8000, 2))), np.arange(8000, dtype=np.int32)
    index.insert(rows[:5000], *both(ends[:5000]), lists(rows[:5000], 2))
    moved = rows[3000:4000]
    index.delete(rows[4000:5000])
    index.move(moved[:500], *both(ends[:500]), lists(moved[:500], 2, 7))
    index.move(moved[500:], *both(ends[3500:4000] + 1e-5), lists(moved[500:], 2, 7))
    index.insert(rows[5000:], *both(ends[5000:]), lists(rows[5000:], 2))
    index.check()
    others = np.concatenate([rows[:3000], rows[5000:]])
    assert (index.board[index.tree.slot_of[others]] == lists(others, 2)).all()
    assert (index.board[index.tree.slot_of[moved]] == lists(moved, 2, 7)).all()


def test_moves_wait_until_the_tree_is_asked_for_but_not_for_ever() -> None:
    rng = np.random.default_rng(8)
    index = SubscriptionIndex(1, SlotMap())
    ends, rows = np.sort(rng.random((3000, 2))), np.arange(3000, dtype=np.int32)
    index.insert(rows, *both(ends), lists(rows, 1))
    before = index.tree.slot_of.copy()
    for turn in range(1, 4):
        some, there = rows[:1200], np.sort(rng.random((1200, 2)))
        index.move(some, *both(there), lists(some, 1, turn))
        ends[:1200] = there
        waits = (index._slots.slot_of == before).all()
        assert waits == (turn < 3)
    index.move(rows[:10], *both(ends[10:20]), lists(rows[:10], 1))
    ends[:10] = ends[10:20]
    assert_same(index, {int(row): (ends[row, 0], ends[row, 1]) for row in rows}, np.array([0, 0.5, 0.3, 0.9]))


def test_stamps_of_what_was_seen_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MOST_STAMPS", 10)
    rng, rows, names = np.random.default_rng(8), np.arange(3, dtype=np.int32), np.arange(5)
    index, now = SubscriptionIndex(2, SlotMap()), np.array([[0, 1], [2, 3], [4, -1]], np.int32)
    index.insert(rows, np.zeros(3), np.ones(3), now)
    for _ in range(6):
        before, now = now, np.array([rng.permutation(5)[:2] for _ in rows], np.int32)
        told, size = index.replace(
            rows, np.zeros(3), np.ones(3), now, Names(names, names, np.linspace(0, 2, 5))
        )
        lines = deltas.exchanged(told, size).select(["subscription", "op", "item"]).to_pylist()
        expected = []
        for row, old, new in zip(rows.tolist(), before.tolist(), now.tolist(), strict=True):
            expected += [(row, "leave", item) for item in old if item >= 0 and item not in new]
            expected += [(row, "enter", item) for item in new if item not in old]
        assert [tuple(line.values()) for line in lines] == expected
    assert index._stamps == 6


@pytest.mark.parametrize(("shift", "stay"), [(1e-6, True), (0.5, False)])
def test_a_point_that_stays_in_its_bucket_keeps_its_slot(shift: float, stay: bool) -> None:
    rng = np.random.default_rng(4)
    ends, rows = np.sort(rng.random((3000, 2))), np.arange(3000, dtype=np.int32)
    index = SubscriptionIndex(1, SlotMap())
    index.insert(rows, *both(ends), lists(rows, 1))
    before = index.tree.slot_of.copy()
    index.move(rows, *both(ends + shift), lists(rows, 1))
    index.check()
    kept = np.mean(index.tree.slot_of == before)
    assert kept > 0.8 if stay else kept < 0.2


def test_a_point_at_the_border_takes_the_box_along() -> None:
    rng = np.random.default_rng(4)
    ends, rows = np.sort(rng.random((200, 2))), np.arange(200, dtype=np.int32)
    index = SubscriptionIndex(1, SlotMap())
    index.insert(rows, *both(ends), lists(rows, 1))
    for row in rows:
        for shift in (0.001, -0.002):
            ends[row] += shift
            index.move(rows[row : row + 1], *both(ends[row : row + 1]), lists(rows[row : row + 1], 1))
            index.check()


@pytest.mark.parametrize("kind", ["uniform", "ascending", "equal", "few"])
def test_any_order_and_any_duplicates_stay_balanced(kind: str) -> None:
    rng = np.random.default_rng(5)
    m = 6000
    one, two = {
        "uniform": (rng.random(m), rng.random(m)),
        "ascending": (np.arange(m) / m, np.arange(m) / m + 0.1),
        "equal": (np.full(m, -INF), np.full(m, INF)),
        "few": (rng.integers(0, 3, m) * 1.0, rng.integers(0, 3, m) * 1.0),
    }[kind]
    lo, hi = np.minimum(one, two), np.maximum(one, two)
    rows = np.arange(m, dtype=np.int32)
    index = SubscriptionIndex(3, SlotMap())
    boards = lists(rows, 3)
    index.insert(rows[:3000], lo[:3000], hi[:3000], boards[:3000])
    index.check()
    for start in range(3000, m, 50):
        some = slice(start, start + 50)
        index.insert(rows[some], lo[some], hi[some], boards[some])
    index.check()
    live = {int(row): (lo[row], hi[row]) for row in rows}
    boxes = [np.array([-INF, 0.5, 0.5, INF]), np.array([0.2, 0.3, 0.3, 0.4]), np.array([1.0, 1.0, 1.0, 2.0])]
    for box in boxes:
        assert_same(index, live, box)
    for start in range(0, 5000, 40):
        index.delete(rows[start : start + 40])
    index.check()
    live = {int(row): (lo[row], hi[row]) for row in rows[5000:]}
    for box in boxes:
        assert_same(index, live, box)
    index.delete(rows[5000:])
    index.check()
    assert len(index) == 0


def test_a_restored_index_goes_on_as_before() -> None:
    rng = np.random.default_rng(6)
    lo = rng.random(500)
    slots, others = SlotMap(), SlotMap()
    index = SubscriptionIndex(2, slots)
    rows = np.arange(500, dtype=np.int32)
    index.insert(rows, lo, lo + 0.5, lists(rows, 2))
    index.delete(np.arange(0, 100, dtype=np.int32))
    other = SubscriptionIndex(2, others)
    others.slot_of = slots.slot_of.copy()
    other.restore({name: array.copy() for name, array in index.arrays().items()})
    other.check()
    for each in (index, other):
        each.insert(rows[7:8], np.array([0.5]), np.array([0.75]), lists(rows[7:8], 2))
        each.check()
    everything = np.array([-INF, INF, -INF, INF])
    assert other.rows_in(everything).tolist() == index.rows_in(everything).tolist()


def test_room_may_run_out_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    grow = points_edit.grow

    def watched(*given: Any) -> int:
        left.append(int(grow(*given)))
        return left[-1]

    monkeypatch.setattr(points_edit, "grow", watched)
    rng = np.random.default_rng(9)
    ends, rows = np.sort(rng.random((6000, 2))), np.arange(6000, dtype=np.int32)
    index = SubscriptionIndex(1, SlotMap())
    index.insert(rows[:4900], *both(ends[:4900]), lists(rows[:4900], 1))
    index.insert(rows[4900:], *both(ends[4900:]), lists(rows[4900:], 1))
    assert max(left) > 0
    index.check()
    live = {int(row): (ends[row, 0], ends[row, 1]) for row in rows}
    assert_same(index, live, np.array([0.1, 0.6, 0.4, 0.9]))


@pytest.mark.parametrize("count", [4096, 8192])
def test_a_sample_that_misleads_loses_nobody(count: int) -> None:
    rng = np.random.default_rng(count)
    lo = 1 + rng.random(count)
    lo[8::16] = rng.random(len(lo[8::16])) * 1e-3  # among them all points that a division looks at first
    hi, rows = lo + rng.random(count), np.arange(count, dtype=np.int32)
    index = SubscriptionIndex(2, SlotMap())
    index.load(rng.permutation(rows) if count > 4096 else rows, lo, hi)
    index.check()
    assert sorted(index.rows_in(np.array([-INF, INF, -INF, INF])).tolist()) == rows.tolist()
