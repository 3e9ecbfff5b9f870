"""What subscribers make of the messages that reach them: lists, and digests of all that was heard.

A listener keeps a list by the protocol of [Range §II-A], by what it has heard alone. One that has to keep
every object in its range (CN-Relax) would need much space; it keeps a digest of the updates it heard, in
their order. Who has heard exactly the updates of the objects in its range knows their values, hence the best
of them; so comparing digests is enough, and `must_hear` tells what they have to be from ranges and updates.

A digest is turned by one bit and joined with the word of each update in turn: it differs if one is missing,
comes twice, is another or comes at another time, but for a chance of 2^-64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

LEFT, RIGHT = np.uint64(1), np.uint64(63)
NO_LIST = -1


class Listeners(NamedTuple):
    """Some subscriptions by zone, in the order of their first coordinate; `item` and `score` are lists.

    A list is best first, with item -1 behind its end. `digest` has a word a listener.
    """

    start: Ints
    point: Floats
    slot: NDArray[np.int32]  # the line of a listener's list, or -1
    item: NDArray[np.int32]
    score: Floats
    digest: Words


def words(items: NDArray[np.int32], scores: Floats) -> Words:
    """A word for each update, of its item and the bits of its score, well mixed."""
    bits = (scores + 0.0).view(np.uint64)  # 0 and -0 are one value
    mixed = (bits ^ (items.astype(np.uint64) << np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)


@njit(**EXACT)
def inside(point: Floats, low: Floats, high: Floats) -> bool:
    """Whether a point lies in a closed box."""
    for d in range(point.shape[0]):
        if not low[d] <= point[d] <= high[d]:
            return False
    return True


@njit(**EXACT)
def bisect(point: Floats, value: float, begin: int, end: int, beyond: bool) -> int:
    """The first place in begin..end-1 whose first coordinate is >= value (`beyond`: > value), or end."""
    while begin < end:
        middle = (begin + end) // 2
        here = point[middle, 0]
        if here < value or (beyond and here == value):
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(**EXACT)
def receive(items: NDArray[np.int32], scores: Floats, item: int, score: float) -> None:
    """Let one list hear of an item: take it out, then put it where its score belongs, if there is room.

    A list that holds the item gives up its old place first, so a full one never drops another for it. O(k).
    """
    size, width = 0, items.shape[0]
    kept = 0
    while size < width and items[size] >= 0:
        items[kept], scores[kept] = items[size], scores[size]
        if items[size] != item:
            kept += 1
        size += 1
    if kept < size:
        items[kept] = -1
    if np.isnan(score):
        return
    place = kept
    while place > 0 and (
        score < scores[place - 1] or (score == scores[place - 1] and item < items[place - 1])
    ):
        place -= 1
    if place == width:
        return
    for at in range(min(kept, width - 1), place, -1):
        items[at], scores[at] = items[at - 1], scores[at - 1]
    items[place], scores[place] = item, score


@njit(**EXACT)
def hear(
    listeners: Listeners, zone: int, low: Floats, high: Floats, item: int, score: float, word: int
) -> None:
    """Let the listeners of a zone that lie in a box hear of an item."""
    point, slot, digest = listeners.point, listeners.slot, listeners.digest
    begin, end = listeners.start[zone], listeners.start[zone + 1]
    end = bisect(point, high[0], begin, end, True)
    for place in range(bisect(point, low[0], begin, end, False), end):
        if inside(point[place], low, high):
            digest[place] = ((digest[place] << LEFT) | (digest[place] >> RIGHT)) ^ word
            if slot[place] >= 0:
                receive(listeners.item[slot[place]], listeners.score[slot[place]], item, score)


@njit(**EXACT)
def must_hear(point: Floats, at: Floats, word: Words) -> Words:
    """The digest of everybody who hears of each update of an object in his range, and of no other.

    `point` has lo and hi of each attribute, `at` (updates, attributes) where the objects are. O(n updates).
    """
    digest = np.zeros(point.shape[0], np.uint64)
    for one in range(point.shape[0]):
        total = np.uint64(0)
        for update in range(word.shape[0]):
            holds = True
            for d in range(at.shape[1]):
                holds &= point[one, 2 * d] <= at[update, d] <= point[one, 2 * d + 1]
            total = ((total << LEFT) | (total >> RIGHT)) ^ word[update] if holds else total
        digest[one] = total
    return digest
