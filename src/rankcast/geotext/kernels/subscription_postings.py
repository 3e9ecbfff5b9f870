"""Posting lists of subscriptions by term, in blocks with bounds: a quadtree under every term.

The list of a term is a stretch of the entry arrays. What bounds need to know of an entry is in 16 bits each,
in tiles of `STEP` entries, so that a tile is tested at once; its signature has a bit for each of the terms
after its own (several terms share one), by which terms are known not to be common. A block of `BLOCK`
entries has a node: the box of its places, the largest weights, and what the least demanding subscription in
it needs. Invariant: a node bounds everything in its block. A new entry goes to the end and widens the last
node. An entry is live as long as its stamp is that of its subscription, so leaving, moving and changing cost
nothing in the lists.

New entries are put in order at the end by themselves, a cell at a time; the whole list when an eighth of it
is new or a quarter is void. The order: cells of neighbours on the Z-curve, in a cell groups by how much of
its own terms a subscription needs, in a group by threshold [Geo §5.1, §5.3]. (The paper groups by alpha, on
which that depends; by the need itself a third fewer blocks are opened.) An entry is arranged some ten times
in its life.

Stretches begin at multiples of `STEP`, and the node of a block stands at its first entry divided by `STEP`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.score import (
    SHARE,
    SLACK,
    STEEP,
    Bits,
    Floats32,
    Frame,
    TermVectors,
    embed,
    needed_alike,
    needed_near,
    rarest_first,
    round_down,
    round_nearest,
    round_up,
    signatures,
)
from rankcast.structures.jit import EXACT

BLOCK, STEP = 32, 16
WEIGHT, REST, ALPHA, THRESHOLD, X, Y, Z, STAMP, LOW_SIGN, HIGH_SIGN, FACTS = range(11)
# Of a node: the largest weight and rest, and the largest by what is needed of terms at the same place; the
# largest alpha; how far away a message may be for its weight, for its rest, without terms; the least needed
# by place, and more of terms for a distance; the least alpha; the box.
MOST, MOST_REST, PULL, PULL_REST, HIGH_ALPHA, FAR, FAR_REST, FAR_ALONE, NEAR, AWAY, LOW_ALPHA, BOX = range(12)
NODE = 17
LAST_STAMP = 65535
LEAST_NEED = 1e-6  # a smaller need bounds nothing

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Postings(NamedTuple):
    """Posting lists by term, their entries, tiles and nodes.

    By term: where its list begins; how many entries are in order (`main`), were ordered together (`joint`),
    are there in all (`size`), fit (`room`), are void (`dead`). By entry: its owner. By tile: 16-bit facts. By
    block: its node.
    """

    begin: Ints
    main: Rows
    joint: Rows
    size: Rows
    room: Rows
    dead: Rows
    row: Rows
    fact: Bits
    node: Floats32


class ListedColumns(NamedTuple):
    """Subscriptions by row: place, alpha, threshold in the lists, and the stamp of live entries."""

    x: Floats
    y: Floats
    alpha: Floats
    threshold: Floats
    stamp: Bits


class Shape(NamedTuple):
    """How a list is cut when it is put in order: owners a cell, a multiple of `BLOCK`; groups a cell."""

    cell: int
    groups: int


@njit(**EXACT)
def clear_node(node: Floats32, at: int) -> None:
    """Empty a node."""
    for i in range(NEAR):
        node[at, i] = 0.0
    node[at, FAR_ALONE] = -np.inf
    for i in range(NEAR, BOX):
        node[at, i] = np.inf
    for axis in range(3):
        node[at, BOX + axis], node[at, BOX + 3 + axis] = np.inf, -np.inf


@njit(**EXACT)
def widen_node(node: Floats32, at: int, fact: Bits, entry: int) -> None:
    """Widen a node by one more entry.

    An entry wants `weight * own + rest * others >= need + distance * alpha / (1 - alpha)`. Divided by its
    need, what is on the left and what is on the right are bounded apart [Geo Theorem 3]; solved for the
    distance, its frontier are bounded apart once more, which tells something also where nothing is needed.
    """
    tile, lane = entry // STEP, entry % STEP
    weight, rest = fact[tile, WEIGHT, lane] * SHARE, fact[tile, REST, lane] * SHARE
    alpha, bar = fact[tile, ALPHA, lane] * SHARE, fact[tile, THRESHOLD, lane] * SHARE
    need, pull, away = needed_alike(alpha, bar), 1e30, 0.0
    if need > LEAST_NEED:
        pull, away = 1.000001 / need, 0.99999 * alpha / ((1.0 - alpha) * need)
    node[at, MOST], node[at, MOST_REST] = max(node[at, MOST], weight), max(node[at, MOST_REST], rest)
    node[at, PULL] = max(node[at, PULL], weight * pull)
    node[at, PULL_REST] = max(node[at, PULL_REST], rest * pull)
    share, alone = (1.000001 - alpha) / max(alpha, STEEP), np.inf
    if alpha > STEEP:
        alone = (alpha - bar + 1.5 * float(SLACK)) / alpha
    node[at, FAR], node[at, FAR_REST] = (
        max(node[at, FAR], weight * share),
        max(node[at, FAR_REST], rest * share),
    )
    node[at, FAR_ALONE] = max(node[at, FAR_ALONE], alone)
    node[at, NEAR], node[at, AWAY] = min(node[at, NEAR], needed_near(alpha, bar)), min(node[at, AWAY], away)
    node[at, LOW_ALPHA] = min(node[at, LOW_ALPHA], alpha)
    node[at, HIGH_ALPHA] = max(node[at, HIGH_ALPHA], alpha)
    for axis in range(3):
        place = fact[tile, X + axis, lane] * SHARE
        node[at, BOX + axis] = min(node[at, BOX + axis], place)
        node[at, BOX + 3 + axis] = max(node[at, BOX + 3 + axis], place)


@njit(**EXACT)
def append(
    lists: Postings, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns, frame: Frame
) -> None:
    """Add owners to the lists of all their terms; there is room."""
    begins, _, _, sizes, _, _, listed, fact, node = lists
    x, y, alphas, thresholds, stamps = owners
    for row in rows:
        term, weight, rest = rarest_first(texts, row, idf)
        spot, sign = embed(frame, x[row], y[row]), signatures(term)
        alpha, bar = round_nearest(alphas[row]), round_down(thresholds[row])
        for i in range(term.size):
            offset = sizes[term[i]]
            sizes[term[i]] = offset + 1
            at = begins[term[i]] + offset
            listed[at] = row
            tile, lane = at // STEP, at % STEP
            fact[tile, WEIGHT, lane], fact[tile, REST, lane] = round_up(weight[i]), round_up(rest[i])
            fact[tile, ALPHA, lane], fact[tile, THRESHOLD, lane], fact[tile, STAMP, lane] = (
                alpha,
                bar,
                stamps[row],
            )
            fact[tile, LOW_SIGN, lane], fact[tile, HIGH_SIGN, lane] = sign[i] & 65535, sign[i] >> 16
            for axis in range(3):
                fact[tile, X + axis, lane] = round_nearest(spot[axis])
            block = (at - offset % BLOCK) // STEP
            if offset % BLOCK == 0:
                clear_node(node, block)
            widen_node(node, block, fact, at)


@njit(**EXACT)
def distinct_terms(texts: TermVectors, rows: Rows, seen: Rows) -> tuple[Rows, Ints]:
    """The distinct terms of some texts, as they come, and how often each does; `seen` is 0 throughout."""
    begin, size, term, _ = texts
    total, count = 0, 0
    for row in rows:
        total += size[row]
    words = np.empty(total, np.int32)
    for row in rows:
        for i in range(begin[row], begin[row] + size[row]):
            words[count] = term[i]
            count += seen[term[i]] == 0
            seen[term[i]] += 1
    counts = np.empty(count, np.int64)
    for i in range(count):
        counts[i], seen[words[i]] = seen[words[i]], 0
    return words[:count], counts


@njit(**EXACT)
def count_dead(dead: Rows, rows: Rows, texts: TermVectors, stamps: Bits) -> bool:
    """Count the entries of owners as void; returns whether an owner had the last stamp."""
    begin, size, term, _ = texts
    last = False
    for row in rows:
        last |= stamps[row] == LAST_STAMP
        for i in range(begin[row], begin[row] + size[row]):
            dead[term[i]] += 1
    return last


@njit(**EXACT)
def due(lists: Postings, words: Rows, cell: int) -> tuple[Rows, Rows]:
    """Which of some distinct terms have lists that should be put in order, and from which entry on."""
    found, first, count = np.empty(words.size, np.int32), np.empty(words.size, np.int32), 0
    _, mains, joints, sizes, _, deads, _, _, _ = lists
    for word in words:
        size, main = sizes[word], mains[word]
        all_of_it = deads[word] > STEP + size // 4 or size - joints[word] > BLOCK + size // 8
        if all_of_it or size - main > min(BLOCK + size // 4, 8 * BLOCK):
            found[count], first[count] = word, 0 if all_of_it else main // cell * cell
            count += 1
    return found[:count], first[:count]


@njit(**EXACT)
def move(old: Postings, new: Postings, words: Rows, rooms: Rows, used: int) -> int:
    """Move the lists of terms to new stretches, from `used` on; return where they end.

    `old` and `new` have the same arrays by term; by entry they may be the same or not. Rooms and `used` are
    multiples of `STEP`.
    """
    for i in range(words.size):
        word = words[i]
        begin, size = old.begin[word], old.size[word]
        new.row[used : used + size] = old.row[begin : begin + size]
        source, target, tiles = begin // STEP, used // STEP, (size + STEP - 1) // STEP
        new.fact[target : target + tiles] = old.fact[source : source + tiles]
        new.node[target : target + tiles] = old.node[source : source + tiles]
        new.begin[word], new.room[word] = used, rooms[i]
        used += rooms[i]
    return used


FEW = 64  # up to this many places are sorted by insertion
CURVE, NEED = -1, -2  # what entries may be sorted by beside a fact


@njit(**EXACT)
def spread_bits(value: int) -> int:
    """The lower 10 bits of a number, two zeros before each."""
    value = (value | (value << 16)) & 0x030000FF
    value = (value | (value << 8)) & 0x0300F00F
    value = (value | (value << 4)) & 0x030C30C3
    return (value | (value << 2)) & 0x09249249


@njit(**EXACT)
def radix_sort(order: Rows, keys: Rows, spare: Rows, bits: int) -> None:
    """Sort places stably by keys of `bits` bits: by radix of 8 bits, or by insertion if they are few."""
    if order.size <= FEW:
        for i in range(1, order.size):
            place, j = order[i], i
            while j > 0 and keys[order[j - 1]] > keys[place]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = place
        return
    for shift in range(0, bits, 8):
        ends = np.zeros(257, np.int64)
        for i in range(order.size):
            ends[((keys[order[i]] >> shift) & 255) + 1] += 1
        for i in range(256):
            ends[i + 1] += ends[i]
        for i in range(order.size):
            digit = (keys[order[i]] >> shift) & 255
            spare[ends[digit]] = order[i]
            ends[digit] += 1
        order[:] = spare[: order.size]


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
def _bound(lists: Postings, word: int, first: int) -> None:
    """Make the nodes of a list from one of its entries on, the first of a block."""
    begin, size, fact, node = lists.begin[word], lists.size[word], lists.fact, lists.node
    for offset in range(first, size):
        at = begin + offset
        block = (at - offset % BLOCK) // STEP
        if offset % BLOCK == 0:
            clear_node(node, block)
        widen_node(node, block, fact, at)


@njit(**EXACT)
def arrange(lists: Postings, words: Rows, firsts: Rows, stamps: Bits, shape: Shape) -> None:
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
