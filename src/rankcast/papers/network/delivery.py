"""What messages cost on their way through zones, who receives them, and what receivers make of them.

A message is a closed box of subscription space; whoever lies in it, in a zone that it touches, receives it.
Subscriptions stand zone by zone, in the order of their first coordinate. They, or some of them, are
listeners: a zone that is not reached leaves its listeners behind.

A listener keeps a list by the protocol of [Range §II-A], by what it has heard alone. One that has to keep
every object in its range (CN-Relax) would need much space; it keeps a digest of the updates it heard, in
their order. Who has heard exactly the updates of the objects in its range knows their values, hence the best
of them; so comparing digests is enough, and `must_hear` gives what they have to be from ranges and updates.

A digest is turned by one bit and joined with the word of each update in turn: it differs if one is missing,
comes twice, is another or comes at another time, but for a chance of 2^-64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.papers.network.zones import (
    Cells,
    Space,
    ZoneArrays,
    forward,
    list_touched,
    owner,
    root_cell,
    teller,
)
from rankcast.structures.jit import EXACT

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


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Links = NDArray[np.int32]  # between the brokers of two zones
Ways = NDArray[np.int32]  # hops and links, along the last axis

# Columns of the sums, a line an event.
MESSAGES, HOPS, LINKS, TOUCHED, RECEIVED, OWN, LAST_LINKS = range(7)
SUMS = 7


class Subscribers(NamedTuple):
    """Subscriptions by zone: their points, the links between them and their broker, and sums of these."""

    start: Ints
    point: Floats  # (subscriptions, axes)
    links: NDArray[np.int32]
    zone_links: Ints
    low: Floats  # (zones, axes): the tightest box around a zone's points
    high: Floats


class Messages(NamedTuple):
    """Boxes in sending order with the item and score they tell, of which event, and whether it is its own."""

    low: Floats  # (messages, axes), closed
    high: Floats
    bottom: Cells
    top: Cells
    item: NDArray[np.int32]
    score: Floats  # NaN: the item is gone
    event: NDArray[np.int32]
    own: NDArray[np.bool_]
    word: Words  # of item and score, for digests
    aim: Floats  # the point of the box nearest to the source, scaled as zones are
    aim_cell: Cells


@njit(**EXACT)
def count_in(subscribers: Subscribers, zone: int, low: Floats, high: Floats) -> tuple[int, int]:
    """How many subscriptions of a zone lie in a box, and the links to them all. O(log + those in lo)."""
    begin, end = subscribers.start[zone], subscribers.start[zone + 1]
    whole = True
    for d in range(low.shape[0]):
        whole = whole and low[d] <= subscribers.low[zone, d] and subscribers.high[zone, d] <= high[d]
    if whole:
        return end - begin, subscribers.zone_links[zone]
    point, links, count, far = subscribers.point, subscribers.links, 0, 0
    end = bisect(point, high[0], begin, end, True)
    for place in range(bisect(point, low[0], begin, end, False), end):
        if inside(point[place], low, high):
            count += 1
            far += links[place]
    return count, far


@njit(**EXACT)
def _deliver(
    subscribers: Subscribers, listeners: Listeners, messages: Messages, at: int, zone: int, total: Ints
) -> int:
    """Hand a message to everybody in its box who belongs to a zone; add up and return how many they are."""
    low, high = messages.low[at], messages.high[at]
    count, far = count_in(subscribers, zone, low, high)
    total[RECEIVED] += count
    total[LAST_LINKS] += far
    if messages.own[at]:
        total[OWN] += count
    hear(listeners, zone, low, high, messages.item[at], messages.score[at], messages.word[at])
    return count


@njit(**EXACT)
def multicast(
    space: Space, links: Links, subscribers: Subscribers, listeners: Listeners, messages: Messages,
    source: ZoneArrays, sums: Ints,
) -> None:  # fmt: skip
    """Send each message from the source zone of its event to every zone it touches, and deliver it there.

    A message goes greedily towards its aim, and from the first zone that it touches along the tree of
    `teller`. `links[one, two]` are the links between the brokers of two zones; `sums` has a line an event.
    Cost: O(depth) a touched zone, and the deliveries.
    """
    path, zones = np.empty(space.first.shape[0], np.int32), np.empty(space.first.shape[0], np.int32)
    root, near = np.empty(space.first.shape[1], np.int32), np.empty(space.first.shape[1], np.int32)
    for at in range(messages.item.shape[0]):
        event, cell = messages.event[at], messages.aim_cell[at]
        bottom, top, total = messages.bottom[at], messages.top[at], sums[event]
        steps = forward(space, source[event], messages.aim[at], cell, bottom, top, path)
        for step in range(steps):
            total[LINKS] += links[path[step], path[step + 1]]
        root_cell(space, path[steps], cell, bottom, top, root)
        touched = list_touched(space, bottom, top, zones)
        for place in range(touched):
            before = teller(space, zones[place], root, bottom, top, near)
            if before >= 0:
                total[LINKS] += links[before, zones[place]]
            _deliver(subscribers, listeners, messages, at, zones[place], total)
        total[MESSAGES] += 1
        total[TOUCHED] += touched
        total[HOPS] += steps + touched - 1


@njit(**EXACT)
def unicast(
    space: Space, ways: Ways, subscribers: Subscribers, listeners: Listeners, messages: Messages,
    source: ZoneArrays, sums: Ints,
) -> None:  # fmt: skip
    """Send each message, the box of one range, to the zone of that range once for each subscription there.

    `ways[source, zone]` are the hops and links from a source to a zone. What an event tells of its own
    object is sent; what else it tells the same subscription comes along in that message.
    """
    for at in range(messages.item.shape[0]):
        total = sums[messages.event[at]]
        zone = owner(space, messages.bottom[at])
        count = _deliver(subscribers, listeners, messages, at, zone, total)
        if messages.own[at]:
            total[MESSAGES] += count
            total[TOUCHED] += count
            total[HOPS] += count * ways[source[messages.event[at]], zone, 0]
            total[LINKS] += count * ways[source[messages.event[at]], zone, 1]


@njit(**EXACT)
def find_ways(space: Space, links: Links, source: ZoneArrays, aim: Floats, cell: Cells) -> Ways:
    """Hops and links of the greedy way from each zone to the owner of a cell: (n, 2)."""
    path = np.empty(space.first.shape[0], np.int32)
    ways = np.zeros((source.shape[0], 2), np.int32)
    for at in range(source.shape[0]):
        ways[at, 0] = forward(space, source[at], aim[at], cell[at], cell[at], cell[at], path)
        for step in range(ways[at, 0]):
            ways[at, 1] += links[path[step], path[step + 1]]
    return ways


@njit(**EXACT)
def shrink(space: Space, subscribers: Subscribers, messages: Messages) -> NDArray[np.bool_]:
    """Shrink the box of each message to the subscriptions in it; whether there are any."""
    zones, kept = np.empty(space.first.shape[0], np.int32), np.zeros(messages.item.shape[0], np.bool_)
    axes, point = space.first.shape[1], subscribers.point
    low, high = np.empty(axes), np.empty(axes)
    for at in range(messages.item.shape[0]):
        for d in range(axes):
            low[d], high[d] = np.inf, -np.inf
        for place in range(list_touched(space, messages.bottom[at], messages.top[at], zones)):
            begin, end = subscribers.start[zones[place]], subscribers.start[zones[place] + 1]
            end = bisect(point, messages.high[at, 0], begin, end, True)
            for one in range(bisect(point, messages.low[at, 0], begin, end, False), end):
                if inside(point[one], messages.low[at], messages.high[at]):
                    kept[at] = True
                    for d in range(axes):
                        low[d], high[d] = min(low[d], point[one, d]), max(high[d], point[one, d])
        for d in range(axes):
            messages.low[at, d], messages.high[at, d] = low[d], high[d]
    return kept
