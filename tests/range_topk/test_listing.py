"""Boards kept by tiles, their net deltas, and first results, against brute force."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rankcast.range_topk import size_classes
from rankcast.range_topk.interval import IntervalLists
from rankcast.range_topk.painter import Painter
from rankcast.structures import diff, topk_lists
from rankcast.structures.arrays import Names
from rankcast.structures.topk_lists import ENTER, LEAVE, UPDATE, Deltas
from rankcast.tables import deltas

from .world import World, event_arrays, histories, worlds

Scored = list[tuple[int, float]]
Pairs = list[tuple[list[int], list[int]]]
ITEMS = st.lists(st.integers(0, 5), max_size=3, unique=True)


def scored(world: World, span: tuple[float, float], k: int) -> Scored:
    return [(row, y) for y, row, _ in world.listing(span, k)]


def net(old: Scored, new: Scored) -> list[tuple[int, int, int, float | None]]:
    """The rows (op, item, rank, score) of one result's change, in the order of the contract."""
    before = dict(old)
    rows: list[tuple[int, int, int, float | None]] = [
        (LEAVE, item, 0, None) for item, _ in old if item not in dict(new)
    ]
    for rank, (item, score) in enumerate(new, 1):
        if item not in before:
            rows.append((ENTER, item, rank, score))
        elif before[item] != score:
            rows.append((UPDATE, item, rank, score))
    return rows


def rows_of(deltas: Deltas, subscription: int) -> list[tuple[int, int, int, float | None]]:
    mine = np.flatnonzero(deltas.subscription == subscription)
    return [
        (
            int(deltas.op[i]),
            int(deltas.item[i]),
            int(deltas.rank[i]),
            None if deltas.rank[i] == 0 else float(deltas.score[i]),
        )
        for i in mine
    ]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_batch_gives_the_net_change_of_every_list(data: st.DataObject) -> None:
    world = data.draw(worlds(dense=data.draw(st.booleans())))
    count = len(world.ranges)
    ks = np.array(data.draw(st.lists(st.sampled_from([1, 2, 5]), min_size=count, max_size=count)), np.int64)
    lo, hi = np.array(world.ranges).reshape(-1, 2).T
    listings = IntervalLists(world.object_index())
    painter = Painter(listings.objects)
    listings.refill(ks.take)
    listings.add(np.arange(count, dtype=np.int32), lo.copy(), hi.copy(), ks)
    place = np.array(data.draw(st.permutations(range(count))), np.int64)
    for _ in range(2):
        events = data.draw(histories(world, size=8))
        before = [scored(world, span, int(k)) for span, k in zip(world.ranges, ks, strict=True)]
        for event in events:
            world.apply(*event)
        if count == 0:
            return
        batch = event_arrays(events)
        found = listings.apply(painter.paint(batch, listings.ks), np.unique(batch.row))
        changes = found[0] if len(found) == 1 else size_classes.joined(found)
        deltas = size_classes.delta_columns(int(topk_lists.count_rows(changes)))
        order = topk_lists.in_order(changes, place, count)
        topk_lists.spread(changes, order, listings.objects.tree.y, deltas)
        for s, (span, k) in enumerate(zip(world.ranges, ks, strict=True)):
            after = scored(world, span, int(k))
            board = listings.boards(np.array([s], np.int32), int(k))[0]
            assert board[board >= 0].tolist() == [item for item, _ in after]
            assert rows_of(deltas, s) == sorted(
                net(before[s], after), key=lambda row: (row[0] != LEAVE, row[2])
            )
        assert np.all(np.diff(place[deltas.subscription]) >= 0)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_first_results_in_bulk_and_one_by_one(data: st.DataObject) -> None:
    world = data.draw(worlds(dense=True))
    lo, hi = np.array(world.ranges).T
    rows = np.arange(len(lo), dtype=np.int32)
    ks = np.full(len(lo), world.k)
    bulk, single = IntervalLists(world.object_index()), IntervalLists(world.object_index())
    bulk.add(rows, lo.copy(), hi.copy(), ks)
    for at in range(len(rows)):
        single.add(rows[at : at + 1], lo[at : at + 1], hi[at : at + 1], ks[:1])
    for listings in (bulk, single):
        for row, board in enumerate(listings.boards(rows, world.k)):
            assert board[board >= 0].tolist() == [
                item for item, _ in scored(world, world.ranges[row], world.k)
            ]


def test_affected_counts_each_subscription_once_an_event() -> None:
    world = World(2, [(0.0, 9.0), (0.0, 2.0), (5.0, 6.0)])
    world.objects = {0: (1.0, 1.0), 1: (2.0, 2.0), 2: (8.0, 3.0)}
    listings = IntervalLists(world.object_index())
    listings.refill(np.full(3, 2).take)
    lo, hi = np.array(world.ranges).T
    listings.add(np.arange(3, dtype=np.int32), lo.copy(), hi.copy(), np.full(3, 2))
    painter = Painter(listings.objects)
    batch = event_arrays([(0, float("nan"), 5.0), (1, 5.5, float("nan"))])
    listings.apply(painter.paint(batch, listings.ks), np.array([0, 1], np.int32))
    assert listings.affected == 2 + 3


def lines_of(pairs: Pairs, which: int) -> NDArray[np.int32]:
    """The lists of one side as boards."""
    lists = [pair[which] + [-1] * (3 - len(pair[which])) for pair in pairs]
    return np.array(lists, np.int32).reshape(-1, 3)


def exchanges(rows: list[int], pairs: Pairs) -> list[tuple[int, int, int, float | None, int]]:
    """What turns one side into the other; an item scores half its number."""
    expected: list[tuple[int, int, int, float | None, int]] = []
    for row, (before, after) in zip(rows, pairs, strict=True):
        expected += [(row, LEAVE, item, None, 0) for item in before if item not in after]
        ranked = [(item, rank) for rank, item in enumerate(after, 1) if item not in before]
        expected += [(row, ENTER, item, item * 0.5, rank) for item, rank in ranked]
    return expected


@given(st.lists(st.tuples(ITEMS, ITEMS), max_size=5))
def test_other_ranges_tell_what_leaves_and_what_enters(pairs: Pairs) -> None:
    rows, values = np.arange(len(pairs), dtype=np.int32)[::-1].copy(), np.arange(6) * 0.5
    start = np.arange(0, 3 * len(pairs) + 1, 3).astype(np.uint64)
    old, new = lines_of(pairs, 0).ravel(), lines_of(pairs, 1).ravel()
    told = Deltas(*(np.empty(6 * len(pairs) + 1, kind) for kind in ("i4", "i1", "i4", "f8", "i8")))
    seen = np.zeros(6, np.int32)
    size = diff.write_replacement(
        rows, diff.ListSnapshot(start, old), diff.ListSnapshot(start, new), values, seen, told
    )
    lines = list(zip(*(column[:size].tolist() for column in told), strict=True))
    assert [(*line[:3], None if np.isnan(line[3]) else line[3], line[4]) for line in lines] == exchanges(
        rows.tolist(), pairs
    )


@given(st.lists(st.tuples(ITEMS, ITEMS), max_size=5), st.permutations(range(5)))
def test_lists_that_replace_boards_tell_the_same(pairs: Pairs, places: list[int]) -> None:
    rows, slots = np.arange(len(pairs), dtype=np.int32)[::-1].copy(), np.array(places, np.int32)
    board = np.full((5, 3), 9, np.int32)
    board[slots[rows]] = lines_of(pairs, 0)
    told = diff.empty_delta_columns(6 * len(pairs) + 1)
    names = Names(10 * np.arange(5), 100 * np.arange(6), np.linspace(0, 2.5, 6))
    seen = np.full(6, 8, np.int32)  # the last of eight stamps
    size = diff.replace_boards(board, slots, rows, lines_of(pairs, 1), names, seen, 8, told)
    lines = deltas.exchanged(told, size).to_pylist()
    assert np.array_equal(board[slots[rows]], lines_of(pairs, 1))
    assert (np.delete(board, slots[rows], axis=0) == 9).all()
    assert [tuple(line.values()) for line in lines] == [
        (10 * row, deltas.OPS[op], 100 * item, score, rank or None)
        for row, op, item, score, rank in exchanges(rows.tolist(), pairs)
    ]


def test_deltas_that_are_told_at_once_are_those_of_their_rows() -> None:
    rng = np.random.default_rng(5)
    for size in (0, 1, 7, 8, 9, 64, 1000):
        stops = np.sort(rng.integers(0, size + 1, 20))
        stops[-1] = size
        starts = np.r_[0, stops[:-1]]
        group = np.stack([rng.permutation(20), starts, stops], axis=1).astype(np.int32)
        item, mark = (rng.integers(low, 4, size).astype(np.int32) for low in (0, -3))
        changes = topk_lists.BoardChanges(group, item, mark, np.array([20, size, 0, 0]))
        place = rng.permutation(20) * 2
        names = Names(10 * np.arange(20), 100 * np.arange(6), np.linspace(0, 2.5, 6))
        ordered = topk_lists.in_order(changes, place, 40)
        told, rows = diff.empty_delta_columns(size), size_classes.delta_columns(size)
        diff.tell(changes, ordered, names, told)
        topk_lists.spread(changes, ordered, names.value, rows)
        plain = deltas.Changes(*rows[:5], rows.score)
        subscription, items = names.subscription[rows.subscription], names.item[rows.item]
        expected = deltas.to_table(plain, pa.array(subscription), pa.array(items))
        assert deltas.exchanged(told, size).to_pylist() == expected.to_pylist()
