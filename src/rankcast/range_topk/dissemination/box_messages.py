"""The messages of events over several attributes: who is reached, and which items they must hear of.

Steps of a batch go down the tree of corners together and change boards, by `kernels.replay`; the board of
every subscription that is touched is kept in a log as it was.

After one step everybody touched hears of the object itself; then those who lost it hear of what took its
place, the best first, or it would find no place in the list. For the net change of a batch, from a list A to
a list B, a subscriber hears of every item that is new or changed in B, and of every item of A that is not in
B but whose old value would keep it there; what got worse or left comes first. [Range §III, §IV-A]

Cost: O(steps) a level of the tree at most; O(k) a board that is touched; one search a step and bucket whose
lists lose an item; and what `cover` takes for the tiles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.cover import BoxMessage, BoxTiles, cover
from rankcast.range_topk.kernels.apply_events import (
    AFFECTED,
    SEARCHES,
    TRIED,
    BucketWork,
    ReplayBatch,
    forget,
    new_work,
    replay_bucket,
    sift,
    top_of,
)
from rankcast.range_topk.kernels.corners import (
    CAPACITY,
    DEPTH,
    CornerTree,
    Floats,
    Rows,
    put_in,
    set_weight,
    spare_buckets,
)
from rankcast.range_topk.kernels.corners import take_out as remove
from rankcast.range_topk.kernels.object_versions import (
    BoxEvents,
    ObjectValues,
    Order,
    Steps,
    Versions,
    differs,
    single,
)
from rankcast.structures.jit import EXACT
from rankcast.structures.topk_lists import ahead

TOUCHED, EVENT = range(3, 5)  # what the tally of a log holds behind that of `replay`


class TouchLog(NamedTuple):
    """What one call of `apply_steps` has touched: slots in order, and their boards as they were before.

    Moments are numbered on over all batches. `heard[slot]` is the last event that touched a slot. `tally`
    counts, and holds the moment of the steps' time 0, EVENT. `node` is room for nodes, `work` for a bucket.
    """

    slot: Rows
    board: Rows
    heard: NDArray[np.int64]
    node: Rows
    work: BucketWork
    tally: NDArray[np.int64]


def new_log(tree: CornerTree, size: int, versions: int, heard: NDArray[np.int64], now: int) -> TouchLog:
    """An empty log from a moment on for so many subscriptions of a tree, and so many versions."""
    (_, width), k = tree.point.shape, tree.board.shape[1]
    work, tally = new_work(int(tree.meta[CAPACITY]), width, k, versions), np.zeros(5, np.int64)
    tally[EVENT] = now
    boards = np.empty((size, k), np.int32)
    return TouchLog(
        np.empty(size, np.int32), boards, heard, np.empty(len(tree.parent), np.int32), work, tally
    )


@njit(**EXACT)
def _note(log: TouchLog, touched: int) -> None:
    """Note the slots of a bucket that were touched, with their former boards; each counts once an event."""
    work, tally, heard = log.work, log.tally, log.heard
    for at in range(touched):
        slot, last = work.slot[at], tally[TOUCHED]
        log.slot[last], log.board[last] = slot, work.board[at]
        tally[AFFECTED] += heard[slot] < tally[EVENT]
        heard[slot], tally[TOUCHED] = tally[EVENT], last + 1


@njit(**EXACT)
def apply_steps(
    tree: CornerTree,
    objects: CornerTree,
    steps: Steps,
    versions: Versions,
    values: ObjectValues,
    log: TouchLog,
) -> None:
    """Bring all boards through the steps; `values` are those of before the batch, and stay so."""
    bucket, child, visited, opened, total = tree.bucket, tree.child, log.node, 0, steps.row.shape[0]
    queue, stack = np.empty(64 + 32 * total, np.int32), np.empty((DEPTH, 3), np.int64)
    labels, width = np.empty(0, np.int64), objects.point.shape[1]
    order = Order(np.empty(0, np.int32), np.empty((0, width)), np.empty(0), labels)  # the tree answers alone
    batch, counted = ReplayBatch(steps, versions, order), np.zeros(3, np.int64)
    queue[:total] = np.arange(total)
    # an entry of the stack: a node, and where its part of the queue begins and ends
    stack[0, 0], stack[0, 1], stack[0, 2], depth = 0, 0, total, 1
    log.tally[TOUCHED] = 0
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if 2 * end - start > queue.shape[0]:
            queue = np.append(queue, queue)
        size = sift(tree.low, node, tree.top[node], steps, queue, start, end)
        if size == end:
            continue
        if bucket[node] >= 0:
            touched = replay_bucket(tree, node, queue[end:size], batch, objects, values, log.work, counted)
            forget(values.value, queue[end:size], batch, log.work.assigned)
            first = bucket[node] * tree.meta[CAPACITY]
            tree.top[node] = top_of(tree.weight, first, np.int64(tree.size[node]))
            _note(log, touched)
            continue
        visited[opened] = node
        opened += 1
        for side in range(2):
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = child[node, side], end, size
            depth += 1
    for i in range(opened - 1, -1, -1):
        node = visited[i]
        tree.top[node] = max(tree.top[child[node, 0]], tree.top[child[node, 1]])
    log.tally[TRIED] += counted[TRIED]
    log.tally[SEARCHES] += counted[SEARCHES]


WORSE, BETTER, GONE = range(3)


class MessageRoom(NamedTuple):
    """How messages are made: marks by slot, and what `Message` takes."""

    mark: NDArray[np.int64]
    most: int
    one_by_one: bool


class ObjectsBefore(NamedTuple):
    """Objects before a batch, by row: places, values (NaN: not there) and whether they have changed."""

    x: Floats
    y: Floats
    changed: NDArray[np.bool_]


class Pairs(NamedTuple):
    """Who hears of what, in no order: an item, WORSE, BETTER or GONE, and a slot."""

    item: Rows
    kind: Rows
    slot: Rows


@njit(**EXACT)
def _lists(boards: Rows, at: int, item: int) -> bool:
    """Whether a board lists an item."""
    for place in range(boards.shape[1]):
        if boards[at, place] == item:
            return True
    return False


@njit(**EXACT)
def _gains(board: Rows, log: TouchLog, row: int, items: Rows, slots: Rows) -> int:
    """Write who has got another item in the last place, and which; return how many."""
    count, last = 0, board.shape[1] - 1
    for i in range(log.tally[TOUCHED]):
        item = board[log.slot[i], last]
        if item >= 0 and item != row and not _lists(log.board, i, item):
            items[count], slots[count] = item, log.slot[i]
            count += 1
    return count


@njit(**EXACT)
def _take_best(
    items: Rows, slots: Rows, start: int, count: int, value: Floats, label: NDArray[np.int64]
) -> int:
    """Move the pairs of the best item behind `start` to the front; return where the others begin."""
    best = items[start]
    for i in range(start + 1, count):
        if ahead(value, label, items[i], best):
            best = items[i]
    left = start
    for i in range(start, count):
        if items[i] == best:
            items[left], items[i] = items[i], items[left]
            slots[left], slots[i] = slots[i], slots[left]
            left += 1
    return left


@njit(**EXACT)
def send(
    tree: CornerTree,
    objects: CornerTree,
    row: int,
    old: float,
    values: ObjectValues,
    log: TouchLog,
    out: BoxTiles,
    room: MessageRoom,
) -> BoxTiles:
    """Append the messages of one moment, in which an object came from an old value to the one it has."""
    value, label, touched = values.value, values.label, log.tally[TOUCHED]
    if touched == 0:
        return out
    x = objects.point[objects.slot_of[row]]
    message = BoxMessage(row, value[row], x, min(old, value[row]), room.most, room.one_by_one)
    out = cover(tree, objects, label, log.slot[:touched], room.mark, message, out)
    if value[row] < old:
        return out
    items, slots, start = np.empty(touched, np.int32), np.empty(touched, np.int32), 0
    count = _gains(tree.board, log, row, items, slots)
    while start < count:
        end, item = _take_best(items, slots, start, count, value, label), items[start]
        x = objects.point[objects.slot_of[item]]
        message = BoxMessage(item, value[item], x, value[item], room.most, room.one_by_one)
        out = cover(tree, objects, label, slots[start:end], room.mark, message, out)
        start = end
    return out


@njit(**EXACT)
def _stays(before: ObjectsBefore, objects: CornerTree, item: int) -> bool:
    """Whether an object is where it was."""
    slot = objects.slot_of[item]
    if slot < 0:
        return False
    for axis in range(before.x.shape[1]):
        if objects.point[slot, axis] != before.x[item, axis]:
            return False
    return True


@njit(**EXACT)
def pair(
    tree: CornerTree,
    objects: CornerTree,
    values: ObjectValues,
    log: TouchLog,
    before: ObjectsBefore,
    pairs: Pairs,
) -> int:
    """Write who must hear of what after a batch; return how many pairs. Counts the affected anew."""
    value, label, board, last = values.value, values.label, tree.board, tree.board.shape[1] - 1
    size, affected = 0, 0
    for i in range(log.tally[TOUCHED]):
        slot, first, end = log.slot[i], size, board[log.slot[i], last]
        for place in range(last + 1):
            item = board[slot, place]
            if item < 0:
                break
            was = _lists(log.board, i, item)
            if not was or before.changed[item]:
                worse = was and value[item] > before.y[item]
                pairs.item[size], pairs.slot[size], pairs.kind[size] = item, slot, WORSE if worse else BETTER
                size += 1
        for place in range(last + 1):
            item = log.board[i, place]
            if item < 0:
                break
            if _lists(board, slot, item):
                continue
            y = before.y[item]
            kept = end < 0 or y < value[end] or (y == value[end] and label[item] < label[end])
            if kept:
                stays = _stays(before, objects, item)
                pairs.item[size], pairs.slot[size], pairs.kind[size] = item, slot, WORSE if stays else GONE
                size += 1
        affected += size > first
    log.tally[AFFECTED] = affected
    return size


@njit(**EXACT)
def send_pairs(
    tree: CornerTree,
    objects: CornerTree,
    values: ObjectValues,
    before: ObjectsBefore,
    pairs: Pairs,
    out: BoxTiles,
    room: MessageRoom,
) -> BoxTiles:
    """Append the messages of pairs that are in sending order."""
    start, total, value, label = 0, pairs.item.shape[0], values.value, values.label
    while start < total:
        item, kind, end = pairs.item[start], pairs.kind[start], start + 1
        while end < total and pairs.item[end] == item and pairs.kind[end] == kind:
            end += 1
        worth = np.inf if kind == GONE else value[item]
        x = before.x[item] if kind == GONE else objects.point[objects.slot_of[item]]
        message = BoxMessage(item, worth, x, worth, room.most, room.one_by_one)
        out = cover(tree, objects, label, pairs.slot[start:end], room.mark, message, out)
        start = end
    return out


@njit(**EXACT)
def _pass_on(
    tree: CornerTree,
    objects: CornerTree,
    event: BoxEvents,
    old: float,
    values: ObjectValues,
    log: TouchLog,
    out: BoxTiles,
    room: MessageRoom,
) -> BoxTiles:
    """Bring the boards through a step of an object that has no weight at the moment; append the messages."""
    row, new = event.row[0], event.y[0]
    steps, versions = single(row, event.x[0], old, new, np.int64(new < np.inf))
    apply_steps(tree, objects, steps, versions, values, log)
    values.value[row] = new
    return send(tree, objects, row, old, values, log, out, room)


@njit(**EXACT)
def play(
    tree: CornerTree,
    objects: CornerTree,
    events: BoxEvents,
    values: ObjectValues,
    log: TouchLog,
    out: BoxTiles,
    room: MessageRoom,
    start: int,
) -> tuple[int, BoxTiles]:
    """Apply events one by one from `start` on; return the first that needs more room, and the messages."""
    value, tally = values.value, log.tally
    for at in range(start, events.row.shape[0]):
        event = BoxEvents(events.row[at : at + 1], events.x[at : at + 1], events.y[at : at + 1])
        row, y = event.row[0], event.y[0]
        present, old = objects.slot_of[row] >= 0, value[row]
        if not present and spare_buckets(objects) < 8:
            return at, out
        if present and (y == np.inf or differs(objects.point[objects.slot_of[row]], event.x[0])):
            place = objects.point[objects.slot_of[row]].reshape((1, -1)).copy()
            set_weight(objects, row, -np.inf)
            gone = BoxEvents(event.row, place, np.full(1, np.inf))
            out = _pass_on(tree, objects, gone, old, values, log, out, room)
            remove(objects, event.row)
            present, old = False, np.inf
        if y != old:
            if present:
                set_weight(objects, row, -np.inf)
            elif put_in(objects, event.row, event.x, np.full(1, -np.inf), 0) == 0:
                return at, out
            out = _pass_on(tree, objects, event, old, values, log, out, room)
            set_weight(objects, row, -y)
        tally[EVENT] += 2
    return events.row.shape[0], out
