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

from rankcast.range_topk.kernels.corners import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.range_topk.kernels.steps import Spells, Steps, Values, ask_near, ask_spells
from rankcast.structures.boards import ahead, receive, take_out
from rankcast.structures.jit import EXACT

AFFECTED, TRIED, SEARCHES, TOUCHED, SINCE, EVENT = range(6)


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
    ask_near(objects, label, corners, after, after_label, found, gap)
    ask_spells(spells, steps.time[s], corners, after, after_label, values, found, lent)
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
