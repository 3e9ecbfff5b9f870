"""Messages picked from blocks of lists: those that may be good enough, by what the lists know of them.

What is known of a message lies anywhere in memory. So it is asked for when the message is picked, and read
when there are several. Cost: O(1) an entry, `STEP` of them at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.geo_bounds import Bits, Floats32, alikeness, best_score, nearness, part
from rankcast.geotext.kernels.igpt import Posts
from rankcast.geotext.kernels.message_lists import LOW, REST, STAMP, WEIGHT, X, Y, Z
from rankcast.geotext.kernels.message_parts import Wish
from rankcast.geotext.kernels.word_lists import BLOCK, STEP
from rankcast.structures.arrays import prefetch
from rankcast.structures.jit import EXACT

ROOM = 2 * BLOCK
LATER = 8  # weights of a cache line

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]


class Picks(NamedTuple):
    """Entries that may be good enough, what they may score, messages, where their terms are."""

    entry: Ints
    best: Floats32
    item: Rows
    begin: Ints
    end: Ints
    spare: Floats32


@njit(**EXACT)
def no_picks() -> Picks:
    """Room for the picks of a block, and for as many from before."""
    entries, bests = np.empty(ROOM + 1, np.int64), np.empty(ROOM + 1, np.float32)
    items, begins = np.empty(ROOM + 1, np.int32), np.empty(ROOM + 1, np.int64)
    return Picks(entries, bests, items, begins, np.empty_like(begins), np.empty(STEP, np.float32))


@njit(**EXACT)
def pick(
    fact: Bits, start: int, end: int, wish: Wish, bits: Rows, squares: Floats32, place: int, least: float,
    picks: Picks, count: int,
) -> int:  # fmt: skip
    """Add the entries of a block that may score `least` to `count` picks; returns how many there are.

    `bits` and `squares` are of the subscription's terms: where in a sign they are, and their weights.
    """
    entries, bests, _, _, _, spare = picks
    own, rest, x, y, z, alpha, reach = wish
    for first in range(start, end, STEP):
        tile = first // STEP
        for lane in range(STEP):
            spare[lane] = np.float32(0.0)
        for j in range(place + 1, bits.size):
            column, bit, square = LOW + bits[j] // 16, np.uint16(1 << bits[j] % 16), squares[j]
            for lane in range(STEP):
                spare[lane] += square if fact[tile, column, lane] & bit != 0 else np.float32(0.0)
        for lane in range(STEP):
            others = min(rest, np.sqrt(spare[lane]))
            alike = alikeness(part(fact[tile, WEIGHT, lane]), part(fact[tile, REST, lane]), own, others)
            east, north = part(fact[tile, X, lane]) - x, part(fact[tile, Y, lane]) - y
            up = part(fact[tile, Z, lane]) - z
            near = nearness(reach, east * east + north * north + up * up)
            spare[lane] = best_score(alpha, near, alike)
        for lane in range(min(STEP, end - first)):
            entries[count], bests[count] = first + lane, spare[lane]
            count += spare[lane] >= least
    return count


@njit(**EXACT)
def ask_for_messages(rows: Rows, current: Bits, posts: Posts, picks: Picks, first: int, count: int) -> None:
    """Say which messages picks are, from one of them on, and ask for what is known of them."""
    entries, _, items, _, _, _ = picks
    _, x, y, (begins, sizes, _, _), _, _ = posts
    for i in range(first, count):
        item = rows[entries[i]]
        items[i] = item
        prefetch(begins, item)
        prefetch(sizes, item)
        prefetch(current, item)
        prefetch(x, item)
        prefetch(y, item)


@njit(**EXACT)
def ask_for_terms(fact: Bits, current: Bits, posts: Posts, picks: Picks, picked: int) -> int:
    """Leave the picks that count, and ask for their terms; returns how many."""
    entries, bests, items, firsts, ends, _ = picks
    begins, sizes, terms, weights = posts.texts
    count = 0
    for i in range(picked):
        at, item = entries[i], items[i]
        begin = begins[item]
        items[count], bests[count] = item, bests[i]
        firsts[count], ends[count] = begin, begin + sizes[item]
        count += fact[at // STEP, STAMP, at % STEP] == current[item]
        prefetch(terms, begin)
        prefetch(terms, begin + LATER)
        prefetch(weights, begin)
        prefetch(weights, begin + LATER)
    return count


@njit(**EXACT)
def take_all(items: Rows, posts: Posts, picks: Picks) -> None:
    """Let the picks be some messages, at most `ROOM`, and ask for their terms."""
    _, bests, picked, firsts, ends, _ = picks
    begins, sizes, terms, weights = posts.texts
    for i in range(items.size):
        begin = begins[items[i]]
        picked[i], bests[i], firsts[i], ends[i] = items[i], np.inf, begin, begin + sizes[items[i]]
        prefetch(terms, begin)
        prefetch(terms, begin + LATER)
        prefetch(weights, begin)
        prefetch(weights, begin + LATER)
