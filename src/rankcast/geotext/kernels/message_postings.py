"""Posting lists of messages by term, in blocks with bounds: under every term a small tree over places.

The list of a term is a stretch of the entry arrays. What bounds need to know of an entry is in 16 bits each,
in tiles of `STEP` entries, so that a tile is tested at once: the weight of the term in the message, the
length of the terms after it, their signature, the place, and the stamp. By the signature a subscription
knows which of its other terms a message cannot have.

A block of `BLOCK` entries has a node: the largest weight and rest, and the box of its places. So has a cell
(neighbours on the Z-curve with the heaviest first) and a region of cells. Invariant: a node bounds
everything below it. A new entry goes to the end and widens the node of the last block. An entry is live as
long as its stamp is that of its message, so expiry costs nothing in the lists. New entries are put in order
when they fill a cell, again when cells fill a region, and when regions fill a district; the whole list when
half of it is new or a quarter is void. So an entry is arranged a few times in its life.

Stretches begin at multiples of `STEP`. The node of a block stands at its first entry divided by `STEP`; the
free places after it and after the second block have those of a cell and of a region.

A search meets nodes best first: `Frontier` is its heap. Cost: O(log n) for each of n nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.score import (
    SHARE,
    Bits,
    Floats32,
    Frame,
    TermVectors,
    alikeness,
    best_score,
    embed,
    nearness,
    rarest_first,
    round_nearest,
    round_up,
    signatures,
)
from rankcast.geotext.kernels.subscription_postings import BLOCK, STEP, Postings, radix_sort, spread_bits
from rankcast.structures.arrays import prefetch
from rankcast.structures.jit import EXACT

CELL, REGION, DISTRICT = 256, 4096, 65536
WEIGHT, REST, LOW, HIGH, X, Y, Z, STAMP = range(8)
MOST, MOST_REST, BOX, NODE = 0, 1, 2, 8
OF_CELL, OF_REGION = 1, 3  # where their nodes stand, from that of their first block

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class PlaceColumns(NamedTuple):
    """By message: its place and its stamp."""

    x: Floats
    y: Floats
    stamp: Bits


@njit(**EXACT)
def slot_of(start: int, end: int) -> int:
    """Where the node of a block, a cell or a region stands, or of the first part of one."""
    length = end - start
    return start // STEP + (OF_REGION if length > CELL else OF_CELL if length > BLOCK else 0)


@njit(**EXACT)
def _clear(node: Floats32, at: int) -> None:
    """Empty a node."""
    node[at, MOST], node[at, MOST_REST] = 0.0, 0.0
    for axis in range(3):
        node[at, BOX + axis], node[at, BOX + 3 + axis] = np.inf, -np.inf


@njit(**EXACT)
def _widen(node: Floats32, at: int, fact: Bits, entry: int) -> None:
    """Widen a node by one more entry."""
    tile, lane = entry // STEP, entry % STEP
    node[at, MOST] = max(node[at, MOST], fact[tile, WEIGHT, lane] * SHARE)
    node[at, MOST_REST] = max(node[at, MOST_REST], fact[tile, REST, lane] * SHARE)
    for axis in range(3):
        place = fact[tile, X + axis, lane] * SHARE
        node[at, BOX + axis] = min(node[at, BOX + axis], place)
        node[at, BOX + 3 + axis] = max(node[at, BOX + 3 + axis], place)


@njit(**EXACT)
def _join(node: Floats32, at: int, other: int) -> None:
    """Widen a node by another node."""
    for i in range(BOX):
        node[at, i] = max(node[at, i], node[other, i])
    for axis in range(3):
        node[at, BOX + axis] = min(node[at, BOX + axis], node[other, BOX + axis])
        node[at, BOX + 3 + axis] = max(node[at, BOX + 3 + axis], node[other, BOX + 3 + axis])


@njit(**EXACT)
def append(
    lists: Postings, rows: Rows, texts: TermVectors, idf: Floats, places: PlaceColumns, frame: Frame
) -> None:
    """Add messages to the lists of all their terms; there is room."""
    begins, _, _, sizes, _, _, listed, fact, node = lists
    x, y, stamps = places
    for row in rows:
        term, weight, rest = rarest_first(texts, row, idf)
        spot, sign = embed(frame, x[row], y[row]), signatures(term)
        for i in range(term.size):
            offset = sizes[term[i]]
            sizes[term[i]] = offset + 1
            at = begins[term[i]] + offset
            tile, lane = at // STEP, at % STEP
            listed[at] = row
            fact[tile, WEIGHT, lane], fact[tile, REST, lane] = round_up(weight[i]), round_up(rest[i])
            fact[tile, LOW, lane], fact[tile, HIGH, lane] = sign[i] & 65535, sign[i] >> 16
            fact[tile, STAMP, lane] = stamps[row]
            for axis in range(3):
                fact[tile, X + axis, lane] = round_nearest(spot[axis])
            block = (at - offset % BLOCK) // STEP
            if offset % BLOCK == 0:
                _clear(node, block)
            _widen(node, block, fact, at)


@njit(**EXACT)
def due(lists: Postings, words: Rows) -> tuple[Rows, Rows]:
    """Which of some distinct terms have lists that should be put in order, and from which entry on."""
    found, first, count = np.empty(words.size, np.int32), np.empty(words.size, np.int32), 0
    _, mains, joints, sizes, _, deads, _, _, _ = lists
    for word in words:
        size, main = sizes[word], mains[word]
        if deads[word] > STEP + size // 4 or size - joints[word] > BLOCK + size // 2:
            found[count], first[count] = word, 0
            count += 1
        elif size - main > min(BLOCK + size // 4, CELL):
            step = CELL
            if size // REGION > main // REGION:
                step = DISTRICT if size // DISTRICT > main // DISTRICT else REGION
            found[count], first[count] = word, main // step * step
            count += 1
    return found[:count], first[:count]


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
def arrange(lists: Postings, words: Rows, firsts: Rows, stamps: Bits) -> None:
    """Put lists in order, each from one of its entries on, without what is gone. Cost: O(n) a list."""
    begins, mains, joints, sizes, _, deads, row, fact, _ = lists
    for i in range(words.size):
        word, first = words[i], firsts[i]
        begin, end = begins[word] + first, begins[word] + sizes[word]
        order = _in_order(lists, begin, end, stamps)
        deads[word] -= end - begin - order.size
        rows, facts = row[begin:end][order], np.empty((order.size, 8), np.uint16)
        for j in range(order.size):
            at = begin + order[j]
            for column in range(8):
                facts[j, column] = fact[at // STEP, column, at % STEP]
        row[begin : begin + order.size] = rows
        for j in range(order.size):
            at = begin + j
            for column in range(8):
                fact[at // STEP, column, at % STEP] = facts[j, column]
        sizes[word] = mains[word] = first + order.size
        if first == 0:
            joints[word] = order.size
        _bound(fact, lists.node, begins[word], first, first + order.size)


@njit(**EXACT)
def _bound(fact: Bits, node: Floats32, begin: int, first: int, size: int) -> None:
    """Make the nodes of a list that begins at `begin` from one of its entries on, the first of a cell."""
    for start in range(begin + first, begin + size, BLOCK):
        _clear(node, start // STEP)
        for at in range(start, min(start + BLOCK, begin + size)):
            _widen(node, start // STEP, fact, at)
    for span, part in ((CELL, BLOCK), (REGION, CELL)):
        for start in range(begin + first // span * span, begin + size, span):
            end = min(start + span, begin + size)
            if end - start > part:
                slot = slot_of(start, end)
                _clear(node, slot)
                for at in range(start, end, part):
                    _join(node, slot, slot_of(at, min(at + part, end)))


KEY_UNIT, KEY_SHIFT = 2.0**30, 32
LIMIT = np.float32(1.5)  # above all scores, and it fits a key
KEY_MASK = (1 << KEY_SHIFT) - 1
FACTS, LINE = 8, 64  # numbers of an entry; bytes of a cache line


class SearchTerm(NamedTuple):
    """One term of the subscription searched for: its weight, the length of the rest; place, alpha, reach."""

    weight: np.float32
    rest: np.float32
    x: np.float32
    y: np.float32
    z: np.float32
    alpha: np.float32
    reach: np.float32


class Frontier(NamedTuple):
    """Nodes met in a search: term and entries of each; and a max-heap of keys.

    A key packs two numbers: the upper bound of the node in units of 1 / `KEY_UNIT`, rounded up, above
    `KEY_SHIFT` bits with the node's number in the order in which nodes were met.
    """

    term: Rows
    start: Ints
    end: Ints
    key: Ints


@njit(**EXACT)
def frontier_size(lists: Postings, texts: TermVectors, rows: Rows) -> int:
    """How many nodes a search may meet for one of some subscriptions: less than twice the blocks."""
    begins, sizes, terms, _ = texts
    most, lengths = 0, lists.size
    for row in rows:
        room = 0
        for at in range(begins[row], begins[row] + sizes[row]):
            room += 2 * (lengths[terms[at]] // BLOCK + 1)
        most = max(most, room)
    return most


@njit(**EXACT)
def pop_node(keys: Ints, size: int) -> None:
    """Remove the largest key from a heap of `size` keys."""
    last, at, child = keys[size - 1], 0, 1
    while child < size - 1:
        if keys[child + 1] > keys[child] and child + 1 < size - 1:
            child += 1
        if last >= keys[child]:
            break
        keys[at] = keys[child]
        at, child = child, 2 * child + 1
    keys[at] = last


@njit(**EXACT)
def prefetch_block(rows: Rows, fact: Bits, start: int) -> None:
    """Prefetch the facts (8 numbers of 2 bytes an entry) and the rows of a block, line by line."""
    for offset in range(0, BLOCK * FACTS, LINE // 2):
        prefetch(fact, start * FACTS + offset)
    for offset in range(0, BLOCK, LINE // 4):
        prefetch(rows, start + offset)


@njit(**EXACT)
def _node_bound(node: Floats32, at: int, target: SearchTerm) -> np.float32:
    """The best score that a node allows."""
    square, spot = np.float32(0.0), (target.x, target.y, target.z)
    for axis in range(3):
        short = max(node[at, BOX + axis] - spot[axis], spot[axis] - node[at, BOX + 3 + axis])
        short = max(short, np.float32(0.0))
        square += short * short
    alike = alikeness(node[at, MOST], node[at, MOST_REST], target.weight, target.rest)
    return best_score(target.alpha, nearness(target.reach, square), alike)


@njit(**EXACT)
def push_nodes(
    node: Floats32, start: int, end: int, step: int, place: int, target: SearchTerm, frontier: Frontier,
    size: int, used: int, least: float,
) -> tuple[int, int]:  # fmt: skip
    """Push the nodes of a stretch, `step` entries each, whose upper bounds reach `least`.

    Returns the size of the heap and how many nodes were met so far.
    """
    terms, starts, ends, keys = frontier
    for first in range(start, end, step):
        after = min(first + step, end)
        best = _node_bound(node, slot_of(first, after), target)
        if best >= least:
            terms[used], starts[used], ends[used] = place, first, after
            fine = np.int64(min(max(best, -LIMIT), LIMIT) * KEY_UNIT)  # clamped: an infinity has no int64
            key, at = ((fine + 1) << KEY_SHIFT) | used, size
            while at > 0 and keys[(at - 1) // 2] < key:
                keys[at] = keys[(at - 1) // 2]
                at = (at - 1) // 2
            keys[at] = key
            size, used = size + 1, used + 1
    return size, used
