"""The messages of events over several attributes: who is reached, and which items they must hear of.

Steps of a batch go down the tree of corners together and change boards, as in `kernels.replay`; in addition
the board of every subscription is kept in a log when it is first touched.

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
from rankcast.range_topk.kernels.replay import AFFECTED, SEARCHES, TRIED, sift, top_of
from rankcast.range_topk.kernels.steps import (
    BoxEvents,
    ObjectValues,
    Steps,
    Versions,
    differs,
    search_near,
    search_versions,
    single,
)
from rankcast.structures.boards import ahead, receive, take_out
from rankcast.structures.jit import EXACT

TOUCHED, SINCE, EVENT = range(3, 6)  # what the tally of a log holds behind that of `replay`


class TouchLog(NamedTuple):
    """What has been touched since a moment: slots in order, and their boards as they were then.

    Moments are numbered on over all batches. `heard[slot]` is the last one that touched a slot. `tally`
    counts, and holds the moments SINCE which the log is kept and of the steps' time 0, EVENT. `node` is room
    for nodes, `assigned` for one version more than there are.
    """

    slot: Rows
    board: Rows
    heard: NDArray[np.int64]
    node: Rows
    assigned: Rows
    tally: NDArray[np.int64]


@njit(**EXACT)
def _touch(
    slots: Rows,
    kept: Rows,
    heard: NDArray[np.int64],
    tally: NDArray[np.int64],
    boards: Rows,
    slot: int,
    time: int,
) -> None:
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
    tree: CornerTree,
    lanes: Rows,
    steps: Steps,
    s: int,
    versions: Versions,
    objects: CornerTree,
    values: ObjectValues,
    assigned: Rows,
) -> None:
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
    search_near(objects, label, corners, after, after_label, found, gap)
    search_versions(versions, steps.time[s], corners, after, after_label, values, found, assigned)
    for i in range(count):
        slot, other = lanes[i], found[i]
        take_out(board, slot, row)
        board[slot, last] = other
        tree.weight[slot] = known[other] if other >= 0 else np.inf


@njit(**EXACT)
def _replay(
    tree: CornerTree,
    node: int,
    queue: Rows,
    steps: Steps,
    versions: Versions,
    objects: CornerTree,
    values: ObjectValues,
    log: TouchLog,
) -> None:
    """Apply the queued steps to the boards of a leaf."""
    known, label, board, weight, tally = values.value, values.label, tree.board, tree.weight, log.tally
    slots, kept, heard, last, top = log.slot, log.board, log.heard, board.shape[1] - 1, tree.top[node]
    lanes, assigned = np.empty(tree.size[node], np.int32), log.assigned
    first, size = tree.bucket[node] * tree.meta[CAPACITY], np.int64(tree.size[node])
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
            _replace(tree, lanes[:left], steps, s, versions, objects, values, assigned)
        top = top_of(weight, first, size)
    for i in range(queue.shape[0]):
        known[steps.row[queue[i]]] = steps.start[queue[i]]
    for i in range(1, assigned[0] + 1):
        known[versions.row[assigned[i]]] = versions.start[assigned[i]]
    assigned[0], tree.top[node] = 0, top


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
    queue[:total] = np.arange(total)
    # an entry of the stack: a node, and where its part of the queue begins and ends
    stack[0, 0], stack[0, 1], stack[0, 2], depth = 0, 0, total, 1
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if 2 * end - start > queue.shape[0]:
            queue = np.append(queue, queue)
        size = sift(tree.low, node, tree.top[node], steps, queue, start, end)
        if size == end:
            continue
        if bucket[node] >= 0:
            _replay(tree, node, queue[end:size], steps, versions, objects, values, log)
            continue
        visited[opened] = node
        opened += 1
        for side in range(2):
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = child[node, side], end, size
            depth += 1
    for i in range(opened - 1, -1, -1):
        node = visited[i]
        tree.top[node] = max(tree.top[child[node, 0]], tree.top[child[node, 1]])


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
    log.tally[TOUCHED], log.tally[SINCE] = 0, log.tally[EVENT] + steps.time[0]
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
