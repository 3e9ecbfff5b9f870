"""The order of lists of subscriptions by word.

Cells of neighbours on the Z-curve, in a cell groups by how much of its own words a subscription must find,
in a group by threshold [Geo §5.1, §5.3]. (The paper groups by alpha, on which that depends; by the need
itself a third fewer blocks are opened.) An entry is arranged some ten times in its life.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.geo_bounds import SHARE, Bits, needed_alike
from rankcast.geotext.kernels.list_order import sort_places, spread_bits
from rankcast.geotext.kernels.word_lists import (
    ALPHA,
    BAR,
    BLOCK,
    FACTS,
    LEAST,
    REST,
    STAMP,
    STEP,
    WEIGHT,
    Lists,
    Shape,
    X,
    clear,
    widen,
)
from rankcast.structures.jit import EXACT

CURVE, NEED = -1, -2  # what entries may be sorted by beside a fact

Rows = NDArray[np.int32]


@njit(**EXACT)
def _on_curve(fact: Bits, entry: int) -> int:
    """The place of an entry on the Z-curve through the cube."""
    code, tile, lane = 0, entry // STEP, entry % STEP
    for axis in range(3):
        code |= spread_bits(np.int64(fact[tile, X + axis, lane]) >> 6) << axis
    return code


@njit(**EXACT)
def _need(fact: Bits, entry: int) -> int:
    """How much of what an entry's words can give its subscription needs, in 16 bits."""
    tile, lane = entry // STEP, entry % STEP
    weight, rest = fact[tile, WEIGHT, lane] * SHARE, fact[tile, REST, lane] * SHARE
    need = needed_alike(fact[tile, ALPHA, lane] * SHARE, fact[tile, BAR, lane] * SHARE)
    return int(min(65535.0, 16384.0 * max(need, 0.0) / max(math.sqrt(weight * weight + rest * rest), LEAST)))


@njit(**EXACT)
def _current(lists: Lists, begin: int, end: int, stamps: Bits) -> Rows:
    """The entries of a stretch that count, from its begin on."""
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
def _order(lists: Lists, begin: int, end: int, order: Rows, shape: Shape) -> None:
    """Put entries in order: by cell, by group of needs, by threshold."""
    fact, spare, size = lists.fact, np.empty(order.size, np.int32), end - begin
    if order.size > shape.cell:
        sort_places(order, _keys(fact, begin, size, CURVE, order), spare, 30)
    need, bar = _keys(fact, begin, size, NEED, order), _keys(fact, begin, size, BAR, order)
    for first in range(0, order.size, shape.cell):
        cell = order[first : first + shape.cell]
        groups = min(shape.groups, (cell.size + BLOCK - 1) // BLOCK)
        if groups > 1:
            sort_places(cell, need, spare, 16)
        length = (cell.size + groups - 1) // groups
        length = (length + BLOCK - 1) // BLOCK * BLOCK
        for start in range(0, cell.size, length):
            sort_places(cell[start : start + length], bar, spare, 16)


@njit(**EXACT)
def _bound(lists: Lists, word: int, first: int) -> None:
    """Make the nodes of a list from one of its entries on, the first of a block."""
    begin, size, fact, node = lists.begin[word], lists.size[word], lists.fact, lists.node
    for offset in range(first, size):
        at = begin + offset
        block = (at - offset % BLOCK) // STEP
        if offset % BLOCK == 0:
            clear(node, block)
        widen(node, block, fact, at)


@njit(**EXACT)
def arrange(lists: Lists, words: Rows, firsts: Rows, stamps: Bits, shape: Shape) -> None:
    """Put lists in order, each from one of its entries on, without what is gone. Cost: O(n) a list."""
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
        _bound(lists, word, first)
