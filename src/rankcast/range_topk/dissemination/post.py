"""What boards have heard, as messages: which items a subscriber must be told of, and in what order.

After one moment everybody touched hears of the object itself, then those who lost it hear of what took its
place, the best first, or it would find none in the list. For the net change of a batch, going from a list A
to a list B, a subscriber hears of every item that is new or changed in B, and of every item of A that is not
in B but whose old value would keep it there; what got worse or left comes first. [Range §III, §IV-A]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.cover import Message, Post, cover
from rankcast.range_topk.kernels.corners import CornerTree, Floats, Rows, put_in, set_weight, spare_buckets
from rankcast.range_topk.kernels.corners import take_out as remove
from rankcast.range_topk.kernels.events import AFFECTED, EVENT, SINCE, TOUCHED, Log, tell
from rankcast.range_topk.kernels.steps import Events, Values, differs, single
from rankcast.structures.boards import ahead
from rankcast.structures.jit import EXACT

WORSE, BETTER, GONE = range(3)


class Mail(NamedTuple):
    """How messages are made: marks by slot, and what `Message` takes."""

    mark: NDArray[np.int64]
    most: int
    one_by_one: bool


class Former(NamedTuple):
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
def _gains(board: Rows, log: Log, row: int, items: Rows, slots: Rows) -> int:
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
    values: Values,
    log: Log,
    post: Post,
    mail: Mail,
) -> Post:
    """Append the messages of one moment, in which an object came from an old value to the one it has."""
    value, label, touched = values.value, values.label, log.tally[TOUCHED]
    if touched == 0:
        return post
    x = objects.point[objects.slot_of[row]]
    told = Message(row, value[row], x, min(old, value[row]), mail.most, mail.one_by_one)
    post = cover(tree, objects, label, log.slot[:touched], mail.mark, told, post)
    if value[row] < old:
        return post
    items, slots, start = np.empty(touched, np.int32), np.empty(touched, np.int32), 0
    count = _gains(tree.board, log, row, items, slots)
    while start < count:
        end, item = _take_best(items, slots, start, count, value, label), items[start]
        x = objects.point[objects.slot_of[item]]
        told = Message(item, value[item], x, value[item], mail.most, mail.one_by_one)
        post = cover(tree, objects, label, slots[start:end], mail.mark, told, post)
        start = end
    return post


@njit(**EXACT)
def _stays(former: Former, objects: CornerTree, item: int) -> bool:
    """Whether an object is where it was."""
    slot = objects.slot_of[item]
    if slot < 0:
        return False
    for axis in range(former.x.shape[1]):
        if objects.point[slot, axis] != former.x[item, axis]:
            return False
    return True


@njit(**EXACT)
def pair(
    tree: CornerTree, objects: CornerTree, values: Values, log: Log, former: Former, pairs: Pairs
) -> int:
    """Write who must hear of what after a batch; return how many pairs. Counts the affected anew."""
    value, label, board, last = values.value, values.label, tree.board, tree.board.shape[1] - 1
    size, affected = 0, 0
    for i in range(log.tally[TOUCHED]):
        slot, before, end = log.slot[i], size, board[log.slot[i], last]
        for place in range(last + 1):
            item = board[slot, place]
            if item < 0:
                break
            was = _lists(log.board, i, item)
            if not was or former.changed[item]:
                worse = was and value[item] > former.y[item]
                pairs.item[size], pairs.slot[size], pairs.kind[size] = item, slot, WORSE if worse else BETTER
                size += 1
        for place in range(last + 1):
            item = log.board[i, place]
            if item < 0:
                break
            if _lists(board, slot, item):
                continue
            y = former.y[item]
            kept = end < 0 or y < value[end] or (y == value[end] and label[item] < label[end])
            if kept:
                stays = _stays(former, objects, item)
                pairs.item[size], pairs.slot[size], pairs.kind[size] = item, slot, WORSE if stays else GONE
                size += 1
        affected += size > before
    log.tally[AFFECTED] = affected
    return size


@njit(**EXACT)
def send_pairs(
    tree: CornerTree,
    objects: CornerTree,
    values: Values,
    former: Former,
    pairs: Pairs,
    post: Post,
    mail: Mail,
) -> Post:
    """Append the messages of pairs that are in sending order."""
    start, total, value, label = 0, pairs.item.shape[0], values.value, values.label
    while start < total:
        item, kind, end = pairs.item[start], pairs.kind[start], start + 1
        while end < total and pairs.item[end] == item and pairs.kind[end] == kind:
            end += 1
        worth = np.inf if kind == GONE else value[item]
        x = former.x[item] if kind == GONE else objects.point[objects.slot_of[item]]
        told = Message(item, worth, x, worth, mail.most, mail.one_by_one)
        post = cover(tree, objects, label, pairs.slot[start:end], mail.mark, told, post)
        start = end
    return post


@njit(**EXACT)
def _pass_on(
    tree: CornerTree, objects: CornerTree, event: Events, old: float, values: Values, log: Log, post: Post,
    mail: Mail,
) -> Post:  # fmt: skip
    """Bring the boards through a step of an object that has no weight at the moment; append the messages."""
    row, new = event.row[0], event.y[0]
    steps, spells = single(row, event.x[0], old, new, np.int64(new < np.inf))
    log.tally[TOUCHED], log.tally[SINCE] = 0, log.tally[EVENT] + steps.time[0]
    tell(tree, objects, steps, spells, values, log)
    values.value[row] = new
    return send(tree, objects, row, old, values, log, post, mail)


@njit(**EXACT)
def play(
    tree: CornerTree, objects: CornerTree, events: Events, values: Values, log: Log, post: Post, mail: Mail,
    start: int,
) -> tuple[int, Post]:  # fmt: skip
    """Apply events one by one from `start` on; return the first that needs more room, and the messages."""
    value, tally = values.value, log.tally
    for at in range(start, events.row.shape[0]):
        event = Events(events.row[at : at + 1], events.x[at : at + 1], events.y[at : at + 1])
        row, y = event.row[0], event.y[0]
        present, old = objects.slot_of[row] >= 0, value[row]
        if not present and spare_buckets(objects) < 8:
            return at, post
        if present and (y == np.inf or differs(objects.point[objects.slot_of[row]], event.x[0])):
            place = objects.point[objects.slot_of[row]].reshape((1, -1)).copy()
            set_weight(objects, row, -np.inf)
            gone = Events(event.row, place, np.full(1, np.inf))
            post = _pass_on(tree, objects, gone, old, values, log, post, mail)
            remove(objects, event.row)
            present, old = False, np.inf
        if y != old:
            if present:
                set_weight(objects, row, -np.inf)
            elif put_in(objects, event.row, event.x, np.full(1, -np.inf), 0) == 0:
                return at, post
            post = _pass_on(tree, objects, event, old, values, log, post, mail)
            set_weight(objects, row, -y)
        tally[EVENT] += 2
    return events.row.shape[0], post
