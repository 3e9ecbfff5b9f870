"""Messages picked from a block of a list: those that may be good enough, by what the list knows of them.

Cost: O(1) an entry, `STEP` of them at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.geo_bounds import Bits, Floats32, alikeness, best_score, nearness, part
from rankcast.kernels.igpt import Posts
from rankcast.kernels.message_lists import LOW, REST, STAMP, WEIGHT, X, Y, Z
from rankcast.kernels.message_parts import Wish
from rankcast.kernels.options import EXACT
from rankcast.kernels.word_lists import BLOCK, STEP

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]


class Picks(NamedTuple):
    """Of a block: entries that may be good enough, what they may score, messages, where their terms are."""

    entry: Ints
    best: Floats32
    item: Rows
    begin: Ints
    end: Ints
    spare: Floats32


@njit(**EXACT)
def no_picks() -> Picks:
    """Room for the picks of a block."""
    entries, bests = np.empty(BLOCK + 1, np.int64), np.empty(BLOCK + 1, np.float32)
    items, begins = np.empty(BLOCK + 1, np.int32), np.empty(BLOCK + 1, np.int64)
    return Picks(entries, bests, items, begins, np.empty_like(begins), np.empty(STEP, np.float32))


@njit(**EXACT)
def pick(
    fact: Bits, start: int, end: int, wish: Wish, bits: Rows, squares: Floats32, place: int, least: float,
    picks: Picks,
) -> int:  # fmt: skip
    """Find the entries of a block that may score `least`; returns how many.

    `bits` and `squares` are of the subscription's terms: where in a sign they are, and their weights.
    """
    entries, bests, _, _, _, spare = picks
    own, rest, x, y, z, alpha, reach = wish
    count = 0
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
def _touch(posts: Posts, picks: Picks, count: int) -> None:
    """Read the first of what is known of messages.

    No branch waits for what is read, so that one message does not wait for the one before.
    """
    _, _, items, firsts, _, spare = picks
    _, x, y, (_, _, terms, weights), _, _ = posts
    touched, last = 0.0, terms.size - 1
    for i in range(count):
        touched += terms[firsts[i]] + weights[firsts[i]] + weights[min(firsts[i] + 8, last)]
        touched += x[items[i]] + y[items[i]]
    spare[0] = touched  # means nothing, but without it nothing would be read


@njit(**EXACT)
def fetch(rows: Rows, fact: Bits, current: Bits, posts: Posts, picks: Picks, picked: int) -> int:
    """Leave the picks that count, and read the first of what is known of them; returns how many."""
    entries, bests, items, firsts, ends, _ = picks
    begins, sizes, _, _ = posts.texts
    count = 0
    for i in range(picked):
        at = entries[i]
        item = rows[at]
        items[count], bests[count] = item, bests[i]
        firsts[count], ends[count] = begins[item], begins[item] + sizes[item]
        count += fact[at // STEP, STAMP, at % STEP] == current[item]
    _touch(posts, picks, count)
    return count


@njit(**EXACT)
def fetch_all(items: Rows, posts: Posts, picks: Picks) -> None:
    """Let the picks be some messages, at most `BLOCK`, and read the first of what is known of them."""
    _, bests, picked, firsts, ends, _ = picks
    begins, sizes, _, _ = posts.texts
    for i in range(items.size):
        picked[i], bests[i] = items[i], np.inf
        firsts[i], ends[i] = begins[items[i]], begins[items[i]] + sizes[items[i]]
    _touch(posts, picks, items.size)
