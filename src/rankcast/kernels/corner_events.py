"""Steps of a batch change the boards of boxes: all steps meet one bucket after the other.

A step concerns a subscription if its box holds the object and the better of the old and the new value is not
behind the last item of its board: an improved object enters or rises, a worsened one falls, or leaves when
another of the box has become better. The steps go down the tree of corners together: a node keeps, in order,
those whose place its lowest corner holds and whose value its `top` is not better than; behind a step that may
let lists sink, values are no longer compared. At a leaf the steps that got there are applied one by one, on
data in the first cache. Lists of a bucket that need another item ask for it together.

What a leaf compares values with: `known` holds every object's value before the batch; a step sets its
object's entry while the leaf is worked on, and afterwards it is set back. What a board was at the start is
kept in a log when it is first touched.

Cost: O(steps) a level at most; O(k) a board that is concerned; one search a step and bucket whose lists lose
an item.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.board import ahead, receive, take_out
from rankcast.kernels.changes import DELTAS, GROUPS, Changes
from rankcast.kernels.corner_search import find_next, holds
from rankcast.kernels.corner_steps import Spells, Steps
from rankcast.kernels.corner_tree import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.kernels.options import EXACT

AFFECTED, TRIED, SEARCHES, TOUCHED, SINCE, EVENT = range(6)
FIRST_LABEL = np.iinfo(np.int64).min
MOVED, LISTED = 1, 2
NEAR, FAR = 4.0, 32.0  # gaps between the values of a list


class Log(NamedTuple):
    """What has been touched since a moment: slots in order, and their boards as they were then.

    Moments are numbered on over all batches. `heard[slot]` is the last one that touched a slot. `tally`
    counts, and holds the moments SINCE which the log is kept and of the steps' time 0, EVENT. `node` is room
    for nodes, `lent` for one spell more than there are.
    """

    slot: Rows
    board: Rows
    heard: NDArray[np.int64]
    node: Rows
    lent: Rows
    tally: NDArray[np.int64]


class Values(NamedTuple):
    """Values and tie labels of objects by row."""

    value: Floats
    label: NDArray[np.int64]


@njit(**EXACT)
def _touch(
    slots: Rows, kept: Rows, heard: NDArray[np.int64], tally: NDArray[np.int64], boards: Rows, slot: int,
    time: int,
) -> None:  # fmt: skip
    """Note that a step changes a board; keep it as it was if it is the first to do so."""
    if heard[slot] < tally[SINCE]:
        at = tally[TOUCHED]
        slots[at] = slot
        for place in range(boards.shape[1]):
            kept[at, place] = boards[slot, place]
        tally[TOUCHED] += 1
    tally[AFFECTED] += heard[slot] < tally[EVENT] + (time & ~1)
    heard[slot] = tally[EVENT] + time


@njit(**EXACT)
def _concerned(
    tree: CornerTree, node: int, corner: Floats, value: float, mine: int, label: NDArray[np.int64],
    lanes: Rows,
) -> int:  # fmt: skip
    """Write the slots of a leaf whose box holds the object and whose last item is not ahead of its pair."""
    point, weight, board, last = tree.point, tree.weight, tree.board, tree.board.shape[1] - 1
    first, width, count = tree.bucket[node] * tree.meta[CAPACITY], tree.point.shape[1], 0
    for slot in range(first, first + tree.size[node]):
        if weight[slot] < value:
            continue
        inside = True
        for axis in range(width):
            inside &= point[slot, axis] <= corner[axis]
        if inside:
            if weight[slot] == value and value < np.inf and label[board[slot, last]] < mine:
                continue
            lanes[count] = slot
            count += 1
    return count


@njit(**EXACT)
def _falls_inside(board: Rows, slot: int, row: int, value: Floats, label: NDArray[np.int64]) -> bool:
    """Let a worsened object fall in a board, or leave one that is not full; False if it leaves a full one."""
    end = board[slot, board.shape[1] - 1]
    if end < 0 and value[row] == np.inf:
        take_out(board, slot, row)
        return True
    if end < 0 or (end != row and ahead(value, label, row, end)):
        receive(board, slot, row, value, label)
        return True
    return False


@njit(**EXACT)
def _ask_spells(
    spells: Spells, time: int, corners: Floats, after: Floats, after_label: NDArray[np.int64],
    values: Values, found: Rows, lent: Rows,
) -> None:  # fmt: skip
    """Let objects of the batch, as they are at a moment, answer where they come before what was found.

    What they are worth becomes known, and is noted to be forgotten again.
    """
    value, row, point, begin, end = spells.value, spells.row, spells.point, spells.begin, spells.end
    known, label = values.value, values.label
    for j in range(np.searchsorted(value, after.min()), value.shape[0]):
        mine, which, open_ = value[j], row[j], False
        if time < begin[j] or time >= end[j]:
            continue
        for i in range(found.shape[0]):
            best = known[found[i]] if found[i] >= 0 else np.inf
            open_ |= mine <= best
            if mine < after[i] or mine > best or (mine == after[i] and label[which] <= after_label[i]):
                continue
            if mine == best and found[i] >= 0 and label[which] > label[found[i]]:
                continue
            if holds(corners[i], point, j):
                found[i] = which
                if known[which] != mine:
                    lent[0] += 1
                    known[which], lent[lent[0]] = mine, j
        if not open_:
            break


@njit(**EXACT)
def _ask_near(
    objects: CornerTree, label: NDArray[np.int64], corners: Floats, after: Floats,
    after_label: NDArray[np.int64], found: Rows, gap: float,
) -> None:  # fmt: skip
    """Find what comes next in boxes, first among values a few gaps beyond, where it mostly is."""
    todo, most = np.arange(found.shape[0]), after.max()
    for limit in (most + NEAR * gap, most + FAR * gap, np.inf):
        part = np.empty(todo.shape[0], np.int32)
        find_next(objects, label, corners[todo], after[todo], after_label[todo], part, limit, FIRST_LABEL)
        found[todo] = part
        todo = todo[part < 0]
        if todo.shape[0] == 0:
            break


@njit(**EXACT)
def _replace(
    tree: CornerTree, lanes: Rows, steps: Steps, s: int, spells: Spells, objects: CornerTree, values: Values,
    lent: Rows,
) -> None:  # fmt: skip
    """Let a worsened object leave full boards of one bucket; another one or itself takes the last place."""
    board, known, label, last = tree.board, values.value, values.label, tree.board.shape[1] - 1
    row, count, gap = steps.row[s], lanes.shape[0], 0.0
    corners, after = np.empty((count, tree.point.shape[1])), np.empty(count)
    after_label, found = np.empty(count, np.int64), np.empty(count, np.int32)
    for i in range(count):
        end, best = board[lanes[i], last], board[lanes[i], 0]
        corners[i], after_label[i] = tree.point[lanes[i]], label[end]
        after[i] = steps.old[s] if end == row else known[end]
        gap = max(gap, (after[i] - (steps.old[s] if best == row else known[best])) / (last + 1))
    _ask_near(objects, label, corners, after, after_label, found, gap)
    _ask_spells(spells, steps.time[s], corners, after, after_label, values, found, lent)
    for i in range(count):
        slot, other = lanes[i], found[i]
        take_out(board, slot, row)
        board[slot, last] = other
        tree.weight[slot] = known[other] if other >= 0 else np.inf


@njit(**EXACT)
def _top_of(tree: CornerTree, node: int) -> float:
    """The largest weight in a leaf."""
    weight, most, first = tree.weight, -np.inf, tree.bucket[node] * tree.meta[CAPACITY]
    for slot in range(first, first + tree.size[node]):
        most = max(most, weight[slot])
    return most


@njit(**EXACT)
def _replay(
    tree: CornerTree, node: int, queue: Rows, steps: Steps, spells: Spells, objects: CornerTree,
    values: Values, log: Log,
) -> None:  # fmt: skip
    """Apply the queued steps to the boards of a leaf."""
    known, label, board, weight, tally = values.value, values.label, tree.board, tree.weight, log.tally
    slots, kept, heard, last, top = log.slot, log.board, log.heard, board.shape[1] - 1, tree.top[node]
    lanes, lent = np.empty(tree.size[node], np.int32), log.lent
    for i in range(queue.shape[0]):
        s = queue[i]
        row, old, now = steps.row[s], steps.old[s], steps.new[s]
        if min(old, now) > top:
            continue
        tally[TRIED] += tree.size[node]
        count, left = _concerned(tree, node, steps.corner[s], min(old, now), label[row], label, lanes), 0
        if count == 0:
            continue
        known[row] = now
        for lane in range(count):
            slot = lanes[lane]
            _touch(slots, kept, heard, tally, board, slot, steps.time[s])
            if now < old:
                receive(board, slot, row, known, label)
                weight[slot] = known[board[slot, last]] if board[slot, last] >= 0 else np.inf
            elif not _falls_inside(board, slot, row, known, label):
                lanes[left] = slot
                left += 1
        if left > 0:
            tally[SEARCHES] += 1
            _replace(tree, lanes[:left], steps, s, spells, objects, values, lent)
        top = _top_of(tree, node)
    for i in range(queue.shape[0]):
        known[steps.row[queue[i]]] = steps.start[queue[i]]
    for i in range(1, lent[0] + 1):
        known[spells.row[lent[i]]] = spells.start[lent[i]]
    lent[0], tree.top[node] = 0, top


@njit(**EXACT)
def _sift(tree: CornerTree, node: int, steps: Steps, queue: Rows, start: int, end: int) -> int:
    """Append to the queue those of its steps start..end-1 that may concern somebody below a node."""
    low, corner, old, new, top, size, sunk = (
        tree.low,
        steps.corner,
        steps.old,
        steps.new,
        tree.top[node],
        end,
        False,
    )
    for i in range(start, end):
        s = queue[i]
        if not sunk and min(old[s], new[s]) > top:
            continue
        inside = True
        for axis in range(low.shape[1]):
            inside &= low[node, axis] <= corner[s, axis]
        if inside:
            queue[size] = s
            size += 1
            sunk |= new[s] > old[s]
    return size


@njit(**EXACT)
def tell(
    tree: CornerTree, objects: CornerTree, steps: Steps, spells: Spells, values: Values, log: Log
) -> None:
    """Bring all boards through the steps; `values` are those of before the batch, and stay so."""
    bucket, child, visited, opened, total = tree.bucket, tree.child, log.node, 0, steps.row.shape[0]
    queue, stack = np.empty(64 + 32 * total, np.int32), np.empty((DEPTH, 3), np.int64)
    queue[:total] = np.arange(total)
    stack[0, 0], stack[0, 1], stack[0, 2], depth = 0, 0, total, 1
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if 2 * end - start > queue.shape[0]:
            queue = np.append(queue, queue)
        size = _sift(tree, node, steps, queue, start, end)
        if size == end:
            continue
        if bucket[node] >= 0:
            _replay(tree, node, queue[end:size], steps, spells, objects, values, log)
            continue
        visited[opened] = node
        opened += 1
        for side in range(2):
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = child[node, side], end, size
            depth += 1
    for i in range(opened - 1, -1, -1):
        node = visited[i]
        tree.top[node] = max(tree.top[child[node, 0]], tree.top[child[node, 1]])


@njit(**EXACT)
def _write_change(
    old: Rows,
    i: int,
    new: Rows,
    slot: int,
    mark: NDArray[np.int8],
    changes: Changes,
    entered: Rows,
    size: int,
) -> int:
    """Append what a board has become: leaves, then entries and updates by rank; return the new size.

    `mark` is 0 for every item, 1 for one that has another value than before. It is left so.
    """
    items, marks, k, count = changes.item, changes.mark, old.shape[1], 0
    for place in range(k):
        if old[i, place] >= 0:
            mark[old[i, place]] |= LISTED
    for place in range(k):
        item = new[slot, place]
        if item >= 0:
            was = mark[item]
            mark[item] = was & MOVED
            entered[count] = place + 1 if was < LISTED else -(place + 1)
            count += was != LISTED
    for place in range(k):
        item = old[i, place]
        if item >= 0 and mark[item] >= LISTED:
            mark[item] &= MOVED
            items[size], marks[size] = item, 0
            size += 1
    for at in range(count):
        items[size], marks[size] = new[slot, abs(entered[at]) - 1], entered[at]
        size += 1
    return size


@njit(**EXACT)
def write_changes(tree: CornerTree, log: Log, moved: NDArray[np.bool_], changes: Changes) -> None:
    """Append the net changes of all boards that a batch has touched."""
    size, groups, board = changes.tally[DELTAS], changes.tally[GROUPS], tree.board
    mark, entered = moved.astype(np.int8), np.empty(board.shape[1], np.int32)
    for i in range(log.tally[TOUCHED]):
        slot, start = log.slot[i], size
        size = _write_change(log.board, i, board, slot, mark, changes, entered, size)
        if size > start:
            changes.group[groups, 0], changes.group[groups, 1] = tree.row[slot], start
            changes.group[groups, 2] = size
            groups += 1
    changes.tally[GROUPS], changes.tally[DELTAS] = groups, size
