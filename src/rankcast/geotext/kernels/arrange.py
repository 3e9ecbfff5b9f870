"""How posting lists are put in order, with the nodes of their blocks: a small tree under every term.

Subscriptions: new entries are put in order at the end by themselves, a cell at a time; the whole list when
an eighth of it is new or a quarter is void. The order: cells of neighbours on the Z-curve, in a cell groups
by how much of its own terms a subscription needs, in a group by threshold [Geo §5.1, §5.3]. (The paper groups
by alpha, on which that depends; by the need itself a third fewer blocks are opened.) An entry is arranged
some ten times in its life.

Messages: a cell (neighbours on the Z-curve with the heaviest first) and a region of cells have nodes, too.
New entries are put in order when they fill a cell, again when cells fill a region, and when regions fill a
district; the whole list when half of it is new or a quarter is void. So an entry is arranged a few times in
its life. The free places after the node of a block and after that of the second one have those of a cell and
of a region.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.geotext.kernels.postings import (
    ALPHA,
    BLOCK,
    CELL,
    FACTS,
    LEAST_NEED,
    MESSAGE_BOX,
    MESSAGE_FACTS,
    REGION,
    REST,
    STAMP,
    STEP,
    THRESHOLD,
    WEIGHT,
    Ints,
    Postings,
    Rows,
    X,
    clear_message_node,
    clear_node,
    radix_sort,
    widen_message_node,
    widen_node,
)
from rankcast.geotext.kernels.score import SHARE, Bits, Floats, Floats32, nearness_within, needed_alike
from rankcast.structures.jit import EXACT

CURVE, NEED = -1, -2  # what entries may be sorted by beside a fact
OF_CELL, OF_REGION = 1, 3  # where their nodes stand, from that of their first block


class Shape(NamedTuple):
    """How a list is cut when it is put in order: owners a cell, a multiple of `BLOCK`; groups a cell."""

    cell: int
    groups: int


@njit(**EXACT)
def spread_bits(value: int) -> int:
    """The lower 10 bits of a number, two zeros before each."""
    value = (value | (value << 16)) & 0x030000FF
    value = (value | (value << 8)) & 0x0300F00F
    value = (value | (value << 4)) & 0x030C30C3
    return (value | (value << 2)) & 0x09249249


@njit(**EXACT)
def _on_curve(fact: Bits, entry: int) -> int:
    """The place of an entry on the Z-curve through the cube."""
    code, tile, lane = 0, entry // STEP, entry % STEP
    for axis in range(3):
        code |= spread_bits(np.int64(fact[tile, X + axis, lane]) >> 6) << axis
    return code


@njit(**EXACT)
def _need(fact: Bits, entry: int) -> int:
    """How much of what an entry's terms can give its subscription needs, in 16 bits."""
    tile, lane = entry // STEP, entry % STEP
    weight, rest = fact[tile, WEIGHT, lane] * SHARE, fact[tile, REST, lane] * SHARE
    need = needed_alike(fact[tile, ALPHA, lane] * SHARE, fact[tile, THRESHOLD, lane] * SHARE)
    return int(
        min(65535.0, 16384.0 * max(need, 0.0) / max(math.sqrt(weight * weight + rest * rest), LEAST_NEED))
    )


@njit(**EXACT)
def _current(lists: Postings, begin: int, end: int, stamps: Bits) -> Rows:
    """The live entries of a stretch, as offsets from its begin."""
    found, count = np.empty(end - begin, np.int32), 0
    fact, row = lists.fact, lists.row
    for at in range(begin, end):
        if fact[at // STEP, STAMP, at % STEP] == stamps[row[at]]:
            found[count] = at - begin
            count += 1
    return found[:count]


@njit(**EXACT)
def _keys(fact: Bits, begin: int, size: int, column: int, order: Rows) -> Rows:
    """What entries are sorted by, by place: a fact, the place on the curve, or what is needed."""
    keys = np.empty(size, np.int32)
    for i in order:
        at = begin + i
        if column == CURVE:
            keys[i] = _on_curve(fact, at)
        elif column == NEED:
            keys[i] = _need(fact, at)
        else:
            keys[i] = fact[at // STEP, column, at % STEP]
    return keys


@njit(**EXACT)
def _order(lists: Postings, begin: int, end: int, order: Rows, shape: Shape) -> None:
    """Put entries in order: by cell, by group of needs, by threshold."""
    fact, spare, size = lists.fact, np.empty(order.size, np.int32), end - begin
    if order.size > shape.cell:
        radix_sort(order, _keys(fact, begin, size, CURVE, order), spare, 30)
    need, bar = _keys(fact, begin, size, NEED, order), _keys(fact, begin, size, THRESHOLD, order)
    for first in range(0, order.size, shape.cell):
        cell = order[first : first + shape.cell]
        groups = min(shape.groups, (cell.size + BLOCK - 1) // BLOCK)
        if groups > 1:
            radix_sort(cell, need, spare, 16)
        length = (cell.size + groups - 1) // groups
        length = (length + BLOCK - 1) // BLOCK * BLOCK
        for start in range(0, cell.size, length):
            radix_sort(cell[start : start + length], bar, spare, 16)


@njit(**EXACT)
def _bound(lists: Postings, word: int, first: int, radii: Floats, scale: float) -> None:
    """Make the nodes of a list from one of its entries on, the first of a block."""
    begin, size, fact, node, row = lists.begin[word], lists.size[word], lists.fact, lists.node, lists.row
    for offset in range(first, size):
        at = begin + offset
        block = (at - offset % BLOCK) // STEP
        if offset % BLOCK == 0:
            clear_node(node, block)
        radius = radii[row[at]] if radii.size > 0 else np.inf
        widen_node(node, block, fact, at, nearness_within(radius, scale))


@njit(**EXACT)
def arrange_subscriptions(
    lists: Postings, words: Rows, firsts: Ints, stamps: Bits, shape: Shape, radii: Floats, scale: float
) -> None:
    """Put lists in order, each from one of its entries on, without what is gone. Cost: O(n) a list.

    `radii` are those of owners, if they have any.
    """
    begins, mains, joints, sizes, _, deads, row, fact, _ = lists
    for i in range(words.size):
        word, first = words[i], firsts[i]
        begin, end = begins[word] + first, begins[word] + sizes[word]
        order = _current(lists, begin, end, stamps)
        deads[word] -= end - begin - order.size
        _order(lists, begin, end, order, shape)
        rows, facts = row[begin:end][order], np.empty((FACTS, order.size), np.uint16)
        for j in range(order.size):
            at = begin + order[j]
            for column in range(FACTS):
                facts[column, j] = fact[at // STEP, column, at % STEP]
        row[begin : begin + order.size] = rows
        for j in range(order.size):
            at = begin + j
            for column in range(FACTS):
                fact[at // STEP, column, at % STEP] = facts[column, j]
        sizes[word] = mains[word] = first + order.size
        if first == 0:
            joints[word] = order.size
        _bound(lists, word, first, radii, scale)


@njit(**EXACT)
def slot_of(start: int, end: int) -> int:
    """Where the node of a block, a cell or a region stands, or of the first part of one."""
    length = end - start
    return start // STEP + (OF_REGION if length > CELL else OF_CELL if length > BLOCK else 0)


@njit(**EXACT)
def _join(node: Floats32, at: int, other: int) -> None:
    """Widen a node by another node."""
    for i in range(MESSAGE_BOX):
        node[at, i] = max(node[at, i], node[other, i])
    for axis in range(3):
        node[at, MESSAGE_BOX + axis] = min(node[at, MESSAGE_BOX + axis], node[other, MESSAGE_BOX + axis])
        node[at, MESSAGE_BOX + 3 + axis] = max(
            node[at, MESSAGE_BOX + 3 + axis], node[other, MESSAGE_BOX + 3 + axis]
        )


@njit(**EXACT)
def _in_order(lists: Postings, begin: int, end: int, stamps: Bits) -> Rows:
    """The entries of a stretch that count: along the Z-curve, but in a cell the heaviest first."""
    row, fact = lists.row, lists.fact
    order, count = np.empty(end - begin, np.int32), 0
    curve, light = np.empty(end - begin, np.int32), np.empty(end - begin, np.int32)
    for at in range(begin, end):
        tile, lane, i = at // STEP, at % STEP, at - begin
        if fact[tile, STAMP, lane] == stamps[row[at]]:
            order[count], light[i], curve[i] = i, 65535 - fact[tile, WEIGHT, lane], 0
            for axis in range(3):
                curve[i] |= spread_bits(np.int64(fact[tile, X + axis, lane]) >> 6) << axis
            count += 1
    order, spare = order[:count], np.empty(count, np.int32)
    if count > CELL:
        radix_sort(order, curve, spare, 30)
    for first in range(0, count, CELL):
        radix_sort(order[first : first + CELL], light, spare, 16)
    return order


@njit(**EXACT)
def _bound_messages(fact: Bits, node: Floats32, begin: int, first: int, size: int) -> None:
    """Make the nodes of a list that begins at `begin` from one of its entries on, the first of a cell."""
    for start in range(begin + first, begin + size, BLOCK):
        clear_message_node(node, start // STEP)
        for at in range(start, min(start + BLOCK, begin + size)):
            widen_message_node(node, start // STEP, fact, at)
    for span, part in ((CELL, BLOCK), (REGION, CELL)):
        for start in range(begin + first // span * span, begin + size, span):
            end = min(start + span, begin + size)
            if end - start > part:
                slot = slot_of(start, end)
                clear_message_node(node, slot)
                for at in range(start, end, part):
                    _join(node, slot, slot_of(at, min(at + part, end)))


@njit(**EXACT)
def arrange_messages(lists: Postings, words: Rows, firsts: Ints, stamps: Bits) -> None:
    """Put lists in order, each from one of its entries on, without what is gone. Cost: O(n) a list."""
    begins, mains, joints, sizes, _, deads, row, fact, _ = lists
    for i in range(words.size):
        word, first = words[i], firsts[i]
        begin, end = begins[word] + first, begins[word] + sizes[word]
        order = _in_order(lists, begin, end, stamps)
        deads[word] -= end - begin - order.size
        rows, facts = row[begin:end][order], np.empty((order.size, MESSAGE_FACTS), np.uint16)
        for j in range(order.size):
            at = begin + order[j]
            for column in range(MESSAGE_FACTS):
                facts[j, column] = fact[at // STEP, column, at % STEP]
        row[begin : begin + order.size] = rows
        for j in range(order.size):
            at = begin + j
            for column in range(MESSAGE_FACTS):
                fact[at // STEP, column, at % STEP] = facts[j, column]
        sizes[word] = mains[word] = first + order.size
        if first == 0:
            joints[word] = order.size
        _bound_messages(fact, lists.node, begins[word], first, first + order.size)
