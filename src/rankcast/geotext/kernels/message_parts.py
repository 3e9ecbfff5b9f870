"""Parts of the lists of messages as a search meets them: what each allows at best, the most promising first.

A part is a region of the list of a word, a cell or a block. It has a number, in the order in which parts are
met, and a key in a heap. Cost: O(log n) for each of n parts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.geo_bounds import Bits, Floats32, alikeness, best_score, nearness
from rankcast.geotext.kernels.message_lists import BOX, MOST, MOST_REST, slot_of
from rankcast.geotext.kernels.term_order import Texts
from rankcast.geotext.kernels.word_lists import BLOCK, Lists
from rankcast.structures.arrays import prefetch
from rankcast.structures.jit import EXACT

FINE, NUMBER = 2.0**30, 32
LIMIT = np.float32(1.5)  # beyond all scores, and a key has room for it
MASK = (1 << NUMBER) - 1
FACTS, LINE = 8, 64  # numbers of an entry; bytes of a cache line

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]


class Wish(NamedTuple):
    """What a subscription asks of a message by the term at hand: weight, length of the rest; place, alpha."""

    weight: np.float32
    rest: np.float32
    x: np.float32
    y: np.float32
    z: np.float32
    alpha: np.float32
    reach: np.float32


class Parts(NamedTuple):
    """Parts of lists met in a search: term, entries; and a heap of keys, best first.

    A key is the best score that a part allows, in units of 1 / `FINE` rounded up, before the part's number.
    """

    term: Rows
    start: Ints
    end: Ints
    key: Ints


@njit(**EXACT)
def room_for(lists: Lists, texts: Texts, rows: Rows) -> int:
    """How many parts of lists may be met for one of some subscriptions: less than twice the blocks."""
    begins, sizes, terms, _ = texts
    most, lengths = 0, lists.size
    for row in rows:
        room = 0
        for at in range(begins[row], begins[row] + sizes[row]):
            room += 2 * (lengths[terms[at]] // BLOCK + 1)
        most = max(most, room)
    return most


@njit(**EXACT)
def pop(keys: Ints, size: int) -> None:
    """Take the first of a heap of `size` keys."""
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
def ask_for(rows: Rows, fact: Bits, start: int) -> None:
    """Ask for the memory of a block of entries."""
    for offset in range(0, BLOCK * FACTS, LINE // 2):
        prefetch(fact, start * FACTS + offset)
    for offset in range(0, BLOCK, LINE // 4):
        prefetch(rows, start + offset)


@njit(**EXACT)
def _best(node: Floats32, at: int, wish: Wish) -> np.float32:
    """The best score that a node allows."""
    square, spot = np.float32(0.0), (wish.x, wish.y, wish.z)
    for axis in range(3):
        short = max(node[at, BOX + axis] - spot[axis], spot[axis] - node[at, BOX + 3 + axis])
        short = max(short, np.float32(0.0))
        square += short * short
    alike = alikeness(node[at, MOST], node[at, MOST_REST], wish.weight, wish.rest)
    return best_score(wish.alpha, nearness(wish.reach, square), alike)


@njit(**EXACT)
def push_parts(
    node: Floats32, start: int, end: int, step: int, place: int, wish: Wish, parts: Parts, size: int,
    used: int, least: float,
) -> tuple[int, int]:  # fmt: skip
    """Push the parts of a stretch, `step` entries each, that may score `least`.

    Returns the size of the heap and how many parts were met.
    """
    terms, starts, ends, keys = parts
    for first in range(start, end, step):
        after = min(first + step, end)
        best = _best(node, slot_of(first, after), wish)
        if best >= least:
            terms[used], starts[used], ends[used] = place, first, after
            fine = np.int64(min(max(best, -LIMIT), LIMIT) * FINE)  # of infinity there is no whole number
            key, at = ((fine + 1) << NUMBER) | used, size
            while at > 0 and keys[(at - 1) // 2] < key:
                keys[at] = keys[(at - 1) // 2]
                at = (at - 1) // 2
            keys[at] = key
            size, used = size + 1, used + 1
    return size, used
