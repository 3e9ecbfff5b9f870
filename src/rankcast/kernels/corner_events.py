"""Events change the boards of boxes, one after the other.

An event concerns a subscription if its box holds the object and the better of the old and the new value is
not behind the last item of its board: an improved object enters or rises, a worsened one falls, or leaves
when another of the box has become better. Whom it concerns is found on the way down the tree of corners: a
node is opened if its lowest corner holds the object and its `top` is not better than the value. A list that
needs another item asks for it together with its neighbours of the same bucket.

Boards are in step with the objects after every event, so `value`, one array by object row, orders them all.
What a board was at the start of a batch is kept in a log when it is first touched.

Cost: the buckets that may be concerned, O(k) a board that is, one search a bucket whose lists lose an item.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.board import ahead, receive, take_out, write_entries, write_leaves
from rankcast.kernels.changes import DELTAS, GROUPS, Changes
from rankcast.kernels.corner_cover import Post
from rankcast.kernels.corner_edit import put_in, set_weight
from rankcast.kernels.corner_edit import take_out as remove
from rankcast.kernels.corner_post import (
    AFFECTED,
    EVENT,
    NOW,
    SEARCHES,
    SINCE,
    TOUCHED,
    TRIED,
    Log,
    Mail,
    Values,
    send,
)
from rankcast.kernels.corner_search import find_next
from rankcast.kernels.corner_tree import CAPACITY, DEPTH, CornerTree, Floats, Rows, spare_buckets
from rankcast.kernels.options import EXACT


class Events(NamedTuple):
    """Updates in order: places (n, d) and values after the event; +inf: the object goes."""

    row: Rows
    x: Floats
    y: Floats


@njit(**EXACT)
def _touch(
    slots: Rows, kept: Rows, heard: NDArray[np.int64], tally: NDArray[np.int64], boards: Rows, slot: int
) -> None:
    """Note that the moment at hand changes a board; keep it as it was if it is the first to do so."""
    if heard[slot] < tally[SINCE]:
        at = tally[TOUCHED]
        slots[at] = slot
        for place in range(boards.shape[1]):
            kept[at, place] = boards[slot, place]
        tally[TOUCHED] += 1
    tally[AFFECTED] += heard[slot] < tally[EVENT]
    heard[slot] = tally[NOW]


@njit(**EXACT)
def _concerned(
    tree: CornerTree,
    node: int,
    corner: Floats,
    value: float,
    mine: int,
    label: NDArray[np.int64],
    lanes: Rows,
) -> int:
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
    tree: CornerTree, lanes: Rows, count: int, row: int, old: float, objects: CornerTree, values: Values
) -> None:
    """Let a worsened object leave full boards of one bucket; another one or itself takes the last place."""
    board, value, label, last = tree.board, values.value, values.label, tree.board.shape[1] - 1
    corners, after = np.empty((count, tree.point.shape[1])), np.empty(count)
    after_label, found = np.empty(count, np.int64), np.empty(count, np.int32)
    for i in range(count):
        end = board[lanes[i], last]
        corners[i], after_label[i] = tree.point[lanes[i]], label[end]
        after[i] = old if end == row else value[end]
    find_next(objects, label, corners, after, after_label, found, value[row], label[row])
    for i in range(count):
        slot, other = lanes[i], found[i]
        if other < 0 and value[row] < np.inf:
            other = row
        take_out(board, slot, row)
        board[slot, last] = other
        tree.weight[slot] = value[other] if other >= 0 else np.inf


@njit(**EXACT)
def _open(top: Floats, low: Floats, node: int, corner: Floats, value: float) -> bool:
    """Whether somebody below a node may be concerned."""
    if top[node] < value:
        return False
    for axis in range(corner.shape[0]):
        if low[node, axis] > corner[axis]:
            return False
    return True


@njit(**EXACT)
def tell(tree: CornerTree, objects: CornerTree, row: int, old: float, values: Values, log: Log) -> None:
    """Bring all boards from an object's old value to the one it has now; +inf: it is not there.

    The object tree still has its place.
    """
    known, label, board, weight, tally = values.value, values.label, tree.board, tree.weight, log.tally
    top, low, bucket, child, last = tree.top, tree.low, tree.bucket, tree.child, tree.board.shape[1] - 1
    slots, kept, heard, visited, opened = log.slot, log.board, log.heard, log.node, 0
    now, corner = known[row], _corner_at(objects, row)
    value, lanes = min(old, now), np.empty(tree.meta[CAPACITY], np.int32)
    stack, depth = np.empty(DEPTH, np.int32), 1
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if not _open(top, low, node, corner, value):
            continue
        visited[opened] = node
        opened += 1
        if bucket[node] < 0:
            stack[depth], stack[depth + 1] = child[node, 0], child[node, 1]
            depth += 2
            continue
        tally[TRIED] += tree.size[node]
        count, left = _concerned(tree, node, corner, value, label[row], label, lanes), 0
        for i in range(count):
            slot = lanes[i]
            _touch(slots, kept, heard, tally, board, slot)
            if now < old:
                receive(board, slot, row, known, label)
                weight[slot] = known[board[slot, last]] if board[slot, last] >= 0 else np.inf
            elif not _falls_inside(board, slot, row, known, label):
                lanes[left] = slot
                left += 1
        if left > 0:
            tally[SEARCHES] += 1
            _replace(tree, lanes, left, row, old, objects, values)
    _set_tops(tree, visited, opened)


@njit(**EXACT)
def _corner_at(objects: CornerTree, row: int) -> Floats:
    """The highest corner whose box holds an object."""
    slot, width = objects.slot_of[row], objects.point.shape[1]
    corner = np.empty(2 * width)
    for axis in range(width):
        corner[2 * axis], corner[2 * axis + 1] = objects.point[slot, axis], -objects.point[slot, axis]
    return corner


@njit(**EXACT)
def _set_tops(tree: CornerTree, visited: Rows, opened: int) -> None:
    """Set the tops of nodes anew, children before parents."""
    weight, top, child, capacity = tree.weight, tree.top, tree.child, tree.meta[CAPACITY]
    bucket, sizes = tree.bucket, tree.size
    for i in range(opened - 1, -1, -1):
        node = visited[i]
        if bucket[node] < 0:
            top[node] = max(top[child[node, 0]], top[child[node, 1]])
        else:
            most, first = -np.inf, bucket[node] * capacity
            for slot in range(first, first + sizes[node]):
                most = max(most, weight[slot])
            top[node] = most


@njit(**EXACT)
def moved(objects: CornerTree, row: int, x: Floats) -> bool:
    """Whether an object that is there gets another place."""
    for axis in range(x.shape[0]):
        if objects.point[objects.slot_of[row], axis] != x[axis]:
            return True
    return False


@njit(**EXACT)
def _pass_on(
    tree: CornerTree,
    objects: CornerTree,
    row: int,
    old: float,
    values: Values,
    log: Log,
    post: Post,
    mail: Mail,
) -> Post:
    """Tell the boards of one moment; where messages are wanted, append them and begin the log anew."""
    log.tally[NOW] += 1
    tell(tree, objects, row, old, values, log)
    if mail.wanted:
        post = send(tree, objects, row, old, values, log, post, mail)
        log.tally[TOUCHED], log.tally[SINCE] = 0, log.tally[NOW] + 1
    return post


@njit(**EXACT)
def play(
    tree: CornerTree, objects: CornerTree, events: Events, values: Values, log: Log, post: Post, mail: Mail,
    start: int,
) -> tuple[int, Post]:  # fmt: skip
    """Apply events from `start` on; return the first that needs more room for objects, and the messages."""
    value, tally = values.value, log.tally
    for event in range(start, events.row.shape[0]):
        row, y, rows = events.row[event], events.y[event], events.row[event : event + 1]
        present, old = objects.slot_of[row] >= 0, value[row]
        if not present and spare_buckets(objects) < 8:
            return event, post
        if present and (y == np.inf or moved(objects, row, events.x[event])):
            value[row] = np.inf
            post = _pass_on(tree, objects, row, old, values, log, post, mail)
            remove(objects, rows)
            present, old = False, np.inf
        if y != old:
            if present:
                set_weight(objects, row, -y)
            elif put_in(objects, rows, events.x[event : event + 1], np.array([-y]), 0) == 0:
                return event, post
            value[row] = y
            post = _pass_on(tree, objects, row, old, values, log, post, mail)
        tally[EVENT] = tally[NOW] + 1
    return events.row.shape[0], post


@njit(**EXACT)
def write_changes(tree: CornerTree, log: Log, moved: NDArray[np.bool_], changes: Changes) -> None:
    """Append the net changes of all boards that a batch has touched."""
    size, groups, board = changes.tally[DELTAS], changes.tally[GROUPS], tree.board
    for i in range(log.tally[TOUCHED]):
        slot, start = log.slot[i], size
        size = write_leaves(log.board, i, board, slot, changes.item, size)
        changes.mark[start:size] = 0
        size = write_entries(log.board, i, board, slot, moved, changes.item, changes.mark, size)
        if size > start:
            changes.group[groups, 0], changes.group[groups, 1] = tree.row[slot], start
            changes.group[groups, 2] = size
            groups += 1
    changes.tally[GROUPS], changes.tally[DELTAS] = groups, size
