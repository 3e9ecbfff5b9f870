"""A batch of events changes the boards of boxes, and their net changes are written, bucket by bucket.

A step concerns a subscription if its box holds the object and the better of the old and the new value is not
behind the last item of its board: an improved object enters or rises, a worsened one falls, or leaves when
another of the box has become better. The steps go down the tree of corners together: a node keeps, in order,
those whose place its lowest corner holds and whose value its `top` is not better than; behind a step that may
let lists sink, values are no longer compared. At a leaf the steps that got there are applied one by one, on
data in the first cache; lists of a bucket that need another item ask for it together. Nearly all boards that
a batch touches are touched once; what that came to is noted, and is their net change. The others are compared
with what they were.

`known` holds every object's value before the batch; a step sets its object's entry while the leaf is worked
on, and afterwards it is set back.

Cost: O(steps) a level at most; O(k) a board that is concerned; one search a step and bucket whose lists lose
an item.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corners import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.range_topk.kernels.object_versions import (
    NextQueries,
    ObjectValues,
    Order,
    Steps,
    Versions,
    search_in_order,
    search_versions,
)
from rankcast.structures.jit import EXACT
from rankcast.structures.topk_lists import (
    DELTAS,
    GROUPS,
    BoardChanges,
    ahead,
    take_out,
    write_entries,
    write_leaves,
)

AFFECTED, TRIED, SEARCHES = range(3)  # what a tally counts


class BucketWork(NamedTuple):
    """Room for the work on one bucket: by slot there, by slot touched, by version (one more than there are).

    `place` tells where a slot stands among those touched, or -1; `board` is what its board was, `heard` when
    it was touched last, `touches` how often, `note` what the last touch came to.
    """

    lane: Rows
    place: Rows
    slot: Rows
    board: Rows
    touches: Rows
    heard: NDArray[np.int64]
    note: Rows
    queries: NextQueries
    assigned: Rows


@njit(**EXACT)
def new_work(capacity: int, width: int, k: int, versions: int) -> BucketWork:
    """A work for buckets of so many slots."""
    queries = NextQueries(
        np.empty((capacity, width)),
        np.empty(capacity),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
    )
    return BucketWork(
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty((capacity, k), np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int64),
        np.empty((capacity, 3), np.int32),
        queries,
        np.zeros(versions + 1, np.int32),
    )


@njit(**EXACT)
def touch(
    lanes: Rows,
    count: int,
    first: int,
    touched: int,
    time: int,
    board: Rows,
    work: BucketWork,
    tally: NDArray[np.int64],
) -> int:
    """Keep boards that are to change, as they were before the batch; return how many are kept."""
    place, slots, kept, heard, touches = work.place, work.slot, work.board, work.heard, work.touches
    # unsigned indexes: Numba need not test whether they count from the end
    k, event = np.uint64(board.shape[1]), time & ~1
    for lane in range(np.uint64(count)):
        slot = np.uint64(lanes[lane])
        if place[slot - np.uint64(first)] < 0:
            at = np.uint64(touched)
            place[slot - np.uint64(first)], slots[at], heard[at], touches[at] = at, slot, -1, 0
            for j in range(k):
                kept[at, j] = board[slot, j]
            touched += 1
        at = np.uint64(place[slot - np.uint64(first)])
        tally[AFFECTED] += heard[at] < event
        heard[at] = time
        touches[at] += 1
    return touched


@njit(**EXACT)
def improve(
    board: Rows, slot: int, row: int, value: Floats, label: NDArray[np.int64], note: Rows, at: int
) -> None:
    """Let an improved object rise in a board, or enter it; the last item of a full one leaves.

    Where it stood and where it comes to are found, and items moved, without a branch that could be guessed
    wrong.
    """
    # unsigned indexes: Numba need not test whether they count from the end
    line, which, mine, one = np.uint64(slot), np.uint64(at), value[row], np.uint64(1)
    last, rank = np.uint64(board.shape[1]) - one, np.uint64(0)
    former = last
    for j in range(last + one):
        item = board[line, j]
        worth = value[np.uint64(max(item, 0))]
        before = (item >= 0) & (worth < mine)
        if worth == mine and item >= 0:
            before = label[item] < label[row]
        rank += np.uint64(before)
        former = np.uint64(j) if item == row else former
    left = board[line, former]
    for back in range(last):
        here = last - np.uint64(back)
        item, other = board[line, here], board[line, here - one]
        board[line, here] = other if (rank < here) & (here <= former) else item
    board[line, rank] = row
    place = np.int64(rank) + 1
    note[which, 0], note[which, 1] = -1 if left == row else left, row
    note[which, 2] = -place if left == row else place


@njit(**EXACT)
def worsen(
    board: Rows, slot: int, row: int, value: Floats, label: NDArray[np.int64], note: Rows, at: int
) -> bool:
    """Let a worsened object fall in a board, or leave one that is not full; False if it leaves a full one."""
    last, j = board.shape[1] - 1, 0
    end = board[slot, last]
    if end >= 0 and (end == row or not ahead(value, label, row, end)):
        return False
    while board[slot, j] != row:
        j += 1
    gone = value[row] == np.inf
    while j < last and board[slot, j + 1] >= 0 and (gone or ahead(value, label, board[slot, j + 1], row)):
        board[slot, j] = board[slot, j + 1]
        j += 1
    board[slot, j] = -1 if gone else row
    note[at, 0], note[at, 1], note[at, 2] = row if gone else -1, row, 0 if gone else -(j + 1)
    return True


@njit(**EXACT)
def with_room(changes: BoardChanges, groups: int, deltas: int) -> BoardChanges:
    """The same changes with room for more."""
    group, item, mark, tally = changes
    if tally[GROUPS] + groups > group.shape[0]:
        group = np.concatenate((group, np.empty((group.shape[0] + groups, 3), np.int32)))
    if tally[DELTAS] + deltas > item.shape[0]:
        more = np.empty(item.shape[0] + deltas, np.int32)
        item, mark = np.concatenate((item, more)), np.concatenate((mark, more))
    return BoardChanges(group, item, mark, tally)


@njit(**EXACT)
def write_changes(
    rows: Rows, board: Rows, work: BucketWork, touched: int, moved: NDArray[np.bool_], changes: BoardChanges
) -> None:
    """Append what the boards touched have become."""
    group, item, mark, tally = changes
    kept, slots, size, groups = work.board, work.slot, tally[DELTAS], tally[GROUPS]
    touches, note = work.touches, work.note
    for at in range(touched):
        slot, start = slots[at], size
        if touches[at] == 1:
            item[size], mark[size] = note[at, 0], 0
            size += note[at, 0] >= 0
            item[size], mark[size] = note[at, 1], note[at, 2]
            size += note[at, 2] != 0
        else:
            size = write_leaves(kept, at, board, slot, item, size)
            mark[start:size] = 0
            size = write_entries(kept, at, board, slot, moved, item, mark, size)
        if size > start:
            group[groups, 0], group[groups, 1], group[groups, 2] = rows[slot], start, size
            groups += 1
    tally[DELTAS], tally[GROUPS] = size, groups


class ReplayBatch(NamedTuple):
    """The steps of a batch, what its objects are worth when, and all other objects by value."""

    steps: Steps
    versions: Versions
    order: Order


@njit(**EXACT)
def _concerned(
    point: Floats, weight: Floats, first: int, size: int, corner: Floats, s: int, value: float, lanes: Rows
) -> np.int64:
    """Write the slots of a bucket whose box holds the place of a step and whose weight is not below it."""
    # unsigned indexes: Numba need not test whether they count from the end
    count, width, at = np.uint64(0), np.uint64(point.shape[1]), np.uint64(s)
    if width == np.uint64(2):
        a, b = corner[at, 0], corner[at, 1]
        for slot in range(np.uint64(first), np.uint64(first + size)):
            inside = (weight[slot] >= value) & (point[slot, 0] <= a) & (point[slot, 1] <= b)
            lanes[count] = slot
            count += np.uint64(inside)
        return np.int64(count)
    a, b, c, d = corner[at, 0], corner[at, 1], corner[at, 2], corner[at, 3]
    for slot in range(np.uint64(first), np.uint64(first + size)):
        inside = (weight[slot] >= value) & (point[slot, 0] <= a) & (point[slot, 1] <= b)
        inside &= (point[slot, 2] <= c) & (point[slot, 3] <= d)
        for axis in range(np.uint64(4), width):
            inside &= point[slot, axis] <= corner[at, axis]
        lanes[count] = slot
        count += np.uint64(inside)
    return np.int64(count)


@njit(**EXACT)
def _replace(
    tree: CornerTree,
    count: int,
    batch: ReplayBatch,
    s: int,
    objects: CornerTree,
    values: ObjectValues,
    work: BucketWork,
    first: int,
) -> float:
    """Let a worsened object leave full boards of one bucket; another one or itself takes the last place.

    Returns the largest weight that comes of it.
    """
    board, point, weight, known, label = tree.board, tree.point, tree.weight, values.value, values.label
    lanes, queries, last, gap, top = work.lane, work.queries, board.shape[1] - 1, 0.0, -np.inf
    row, old, note, place = batch.steps.row[s], batch.steps.old[s], work.note, work.place
    corner, after, after_label, found = queries.corner, queries.after, queries.label, queries.found
    for i in range(count):
        slot = lanes[i]
        end, best = board[slot, last], board[slot, 0]
        for side in range(point.shape[1]):
            corner[i, side] = point[slot, side]
        after[i], after_label[i] = old if end == row else known[end], label[end]
        gap = max(gap, (after[i] - (old if best == row else known[best])) / (last + 1))
    search_in_order(batch.order, objects, label, queries, count, gap)
    time, some = batch.steps.time[s], slice(0, count)
    search_versions(
        batch.versions, time, corner[some], after[some], after_label[some], values, found[some], work.assigned
    )
    for i in range(count):
        slot, other, at = lanes[i], found[i], place[lanes[i] - first]
        take_out(board, slot, row)
        board[slot, last] = other
        weight[slot] = known[other] if other >= 0 else np.inf
        top = max(top, weight[slot])
        note[at, 0], note[at, 1] = -1 if other == row else row, other
        note[at, 2] = 0 if other < 0 else -(last + 1) if other == row else last + 1
    return top


@njit(**EXACT)
def replay_bucket(
    tree: CornerTree,
    node: int,
    queue: Rows,
    batch: ReplayBatch,
    objects: CornerTree,
    values: ObjectValues,
    work: BucketWork,
    tally: NDArray[np.int64],
) -> int:
    """Apply the queued steps to the boards of a leaf; return how many were touched."""
    known, label, board, weight, point = values.value, values.label, tree.board, tree.weight, tree.point
    rows, olds, news, corner = batch.steps.row, batch.steps.old, batch.steps.new, batch.steps.corner
    times, lanes, place, note = batch.steps.time, work.lane, work.place, work.note
    first, size, top = tree.bucket[node] * tree.meta[CAPACITY], tree.size[node], tree.top[node]
    last, touched = board.shape[1] - 1, 0
    place[:] = -1
    for i in range(queue.shape[0]):
        s = queue[i]
        row, old, now = rows[s], olds[s], news[s]
        value = min(old, now)
        if value > top:
            continue
        tally[TRIED] += size
        count, left = _concerned(point, weight, first, size, corner, s, value, lanes), 0
        known[row] = now
        for lane in range(count):
            slot = lanes[lane]
            lanes[left] = slot
            left += weight[slot] > value or value == np.inf or label[board[slot, last]] >= label[row]
        touched, count = touch(lanes, left, first, touched, times[s], board, work, tally), left
        left = 0
        for lane in range(count):
            slot = lanes[lane]
            at = place[slot - first]
            if now < old:
                improve(board, slot, row, known, label, note, at)
                weight[slot] = known[board[slot, last]] if board[slot, last] >= 0 else np.inf
            elif not worsen(board, slot, row, known, label, note, at):
                lanes[left] = slot
                left += 1
        if left > 0:
            tally[SEARCHES] += 1
            top = max(top, _replace(tree, left, batch, s, objects, values, work, first))
    return touched


@njit(**EXACT)
def forget(known: Floats, queue: Rows, batch: ReplayBatch, assigned: Rows) -> None:
    """Let all values be known again as they were before the batch."""
    row, start = batch.steps.row, batch.steps.start
    for i in range(queue.shape[0]):
        known[row[queue[i]]] = start[queue[i]]
    row, start = batch.versions.row, batch.versions.start
    for i in range(1, assigned[0] + 1):
        known[row[assigned[i]]] = start[assigned[i]]
    assigned[0] = 0


@njit(**EXACT)
def top_of(weight: Floats, first: int, size: int) -> float:
    """The largest weight in a bucket."""
    most = -np.inf
    for slot in range(first, first + size):
        most = max(most, weight[slot])
    return most


@njit(**EXACT)
def sift(low: Floats, node: int, top: float, steps: Steps, queue: Rows, start: int, end: int) -> np.int64:
    """Append to the queue those of its steps start..end-1 that may concern somebody below a node."""
    corner, old, new, size, sunk, here = (
        steps.corner,
        steps.old,
        steps.new,
        np.uint64(end),
        False,
        np.uint64(node),
    )
    # unsigned indexes: Numba need not test whether they count from the end
    for i in range(np.uint64(start), np.uint64(end)):
        s = np.uint32(queue[i])
        if not sunk and min(old[s], new[s]) > top:
            continue
        inside = True
        for axis in range(np.uint64(low.shape[1])):
            inside &= low[here, axis] <= corner[s, axis]
        if inside:
            queue[size] = s
            size += np.uint64(1)
            sunk |= new[s] > old[s]
    return np.int64(size)


@njit(**EXACT)
def replay(
    tree: CornerTree,
    objects: CornerTree,
    batch: ReplayBatch,
    values: ObjectValues,
    moved: NDArray[np.bool_],
    changes: BoardChanges,
    tally: NDArray[np.int64],
) -> BoardChanges:
    """Bring all boards through the steps, and append their net changes; the changes, in arrays long enough.

    `values` are those of before the batch, and stay so; `moved` marks objects that have others afterwards.
    """
    bucket, child, low, tops, total = tree.bucket, tree.child, tree.low, tree.top, batch.steps.row.shape[0]
    queue, stack = np.empty(64 + 32 * total, np.int32), np.empty((DEPTH, 3), np.int64)
    visited, opened = np.empty(tree.parent.shape[0], np.int32), 0
    capacity, k = tree.meta[CAPACITY], tree.board.shape[1]
    work = new_work(capacity, tree.point.shape[1], k, batch.versions.row.shape[0])
    queue[:total] = np.arange(total)
    # an entry of the stack: a node, and where its part of the queue begins and ends
    stack[0, 0], stack[0, 1], stack[0, 2], depth = 0, 0, total, 1
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if 2 * end - start > queue.shape[0]:
            queue = np.append(queue, queue)
        size = sift(low, node, tops[node], batch.steps, queue, start, end)
        if size == end:
            continue
        if bucket[node] < 0:
            visited[opened] = node
            opened += 1
            for side in range(2):
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = child[node, side], end, size
                depth += 1
            continue
        touched = replay_bucket(tree, node, queue[end:size], batch, objects, values, work, tally)
        forget(values.value, queue[end:size], batch, work.assigned)
        if touched > 0:
            tops[node] = top_of(tree.weight, bucket[node] * capacity, np.int64(tree.size[node]))
            changes = with_room(changes, touched, (2 * k + 1) * touched)
            write_changes(tree.row, tree.board, work, touched, moved, changes)
    for i in range(opened - 1, -1, -1):
        node = visited[i]
        tops[node] = max(tops[child[node, 0]], tops[child[node, 1]])
    return changes
