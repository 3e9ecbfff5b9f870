"""Objects shared by several servers along the diagonal of subscription space, and the walks that takes.

Objects stand in the order of x. Every server holds as many as the others, those of one stretch of x: server s
has those from start[s] to start[s + 1] - 1 and knows its left and right neighbour, nothing else. It may
publish messages of its own: an update goes to the server of its object, which asks its neighbours, and they
theirs, only as long as the answer to `firstk` or `miny` may lie beyond. Distinct x; equal y go to the smaller
label. Walks are counted by the borders they cross: border b lies between the servers b and b + 1.
[Range App. C]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.errors import SettingError
from rankcast.structures.jit import EXACT
from rankcast.tables import schema

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Places = NDArray[np.int64]

FIRSTK, MINY, FIRSTK_STEPS, MINY_STEPS, EXPOSED = range(5)
TALLIES = 5


@njit(**EXACT)
def _better(y: Floats, label: Ints, one: int, value: float, than: int) -> bool:
    """Whether the object at place `one` comes before a value with a label."""
    return y[one] < value or (y[one] == value and label[one] < than)


@njit(**EXACT)
def _server_of(start: Ints, place: int) -> int:
    """The server that holds a place. O(log servers)."""
    return int(np.searchsorted(start, place, side="right")) - 1


@njit(**EXACT)
def firstk(
    start: Ints, y: Floats, label: Ints, place: int, value: float, step: int, found: Places, crossed: Ints
) -> tuple[int, int]:
    """Note the nearest places on one side of an object that are better than its value [Range Alg. 1].

    Walks from the object's server by `step` (-1 or +1) until `found` is full or the servers are at an end.
    Returns how many were found, and how many neighbours were asked; `crossed` adds up the borders.
    """
    server = _server_of(start, place)
    size, asked, at = 0, 0, place + step
    while True:
        while start[server] <= at < start[server + 1] and size < found.shape[0]:
            if _better(y, label, at, value, label[place]):
                found[size] = at
                size += 1
            at += step
        server += step
        if size == found.shape[0] or server < 0 or server + 1 >= start.shape[0]:
            return size, asked
        crossed[server if step < 0 else server - 1] += 1
        asked += 1


@njit(**EXACT)
def _local_miny(y: Floats, label: Ints, begin: int, end: int, value: float, than: int, best: int) -> int:
    """The best place of begin..end-1 that is worse than a value with a label, or `best` if that is better."""
    for at in range(begin, end):
        worse = y[at] > value or (y[at] == value and label[at] > than)
        if worse and (best < 0 or _better(y, label, at, y[best], label[best])):
            best = at
    return best


@njit(**EXACT)
def miny(
    start: Ints, y: Floats, label: Ints, place: int, after: int, before: int, above: int, crossed: Ints
) -> tuple[int, int]:
    """The best place strictly between two that is worse than the one at `above` [Range Alg. 2].

    Begins at the server of `place`; a neighbour is asked if the stretch goes on beyond the last object of a
    server. Returns -1 if there is none, and how many neighbours were asked; `crossed` adds up the borders.
    """
    server = _server_of(start, place)
    value, than = y[above], label[above]
    best = _local_miny(
        y, label, max(start[server], after + 1), min(start[server + 1], before), value, than, -1
    )
    left, right = server, server
    while left > 0 and after + 1 < start[left]:
        left -= 1
        crossed[left] += 1
        best = _local_miny(y, label, max(start[left], after + 1), start[left + 1], value, than, best)
    while right + 2 < start.shape[0] and before > start[right + 1]:
        crossed[right] += 1
        right += 1
        best = _local_miny(y, label, start[right], min(start[right + 1], before), value, than, best)
    return best, int(right - left)


@njit(**EXACT)
def _put(places: Places, size: int, place: int, middle: int) -> int:
    """Put a place among the nearest of one side; the farthest of a full list goes. The new size."""
    at = min(size, places.shape[0] - 1)
    while at > 0 and abs(places[at - 1] - middle) > abs(place - middle):
        places[at] = places[at - 1]
        at -= 1
    places[at] = place
    return min(size + 1, places.shape[0])


@njit(**EXACT)
def update(
    start: Ints, y: Floats, label: Ints, place: int, value: float, k: int, tally: Ints, crossed: Ints
) -> None:
    """Give an object another value, asking what a server asks for it.

    Two `firstk` for the region of its better value; if it falls behind, a sweep of `miny` up to the new one,
    each in the stretch between the k-th better object on either side. `tally` adds up questions, the
    neighbours asked, and the objects that the update exposes.
    """
    better, total = min(y[place], value), start[-1]
    falls = value > y[place] and total > k  # with k objects or fewer no list is full: nobody waits behind
    left, right = np.empty(k, np.int64), np.empty(k, np.int64)
    lefts, walked = firstk(start, y, label, place, better, -1, left, crossed)
    rights, further = firstk(start, y, label, place, better, 1, right, crossed)
    tally[FIRSTK] += 2
    tally[FIRSTK_STEPS] += walked + further
    above = place
    while falls:
        after = left[k - 1] if lefts == k else -1
        before = right[k - 1] if rights == k else total
        best, walked = miny(start, y, label, place, after, before, above, crossed)
        tally[MINY] += 1
        tally[MINY_STEPS] += walked
        if best < 0 or not _better(y, label, best, value, label[place]):
            break
        if best < place:
            lefts = _put(left, lefts, best, place)
        else:
            rights = _put(right, rights, best, place)
        above = best
        tally[EXPOSED] += 1
    y[place] = value


@njit(**EXACT)
def follow(
    start: Ints, y: Floats, label: Ints, places: Places, values: Floats, k: int, tally: Ints, crossed: Ints
) -> None:
    """Apply updates in turn; `tally` and `crossed` have a line each."""
    for at in range(places.shape[0]):
        update(start, y, label, places[at], values[at], k, tally[at], crossed[at])


class Walks(NamedTuple):
    """What updates asked, a line each."""

    firstk: Ints  # questions
    miny: Ints
    firstk_steps: Ints  # neighbours asked for them
    miny_steps: Ints
    exposed: Ints  # objects that an update exposed
    crossed: Ints  # (updates, servers - 1): how often a question crossed each border


class Diagonal:
    """Servers with their objects; ids are 0, 1, ... Equal x are walked in the order of ids.

    >>> servers = Diagonal(np.array([0.1, 0.2, 0.3, 0.4]), np.array([4.0, 1.0, 2.0, 3.0]), 2)
    >>> walks = servers.follow(np.array([1]), np.array([5.0]), k=1)
    >>> walks.exposed.tolist(), walks.firstk_steps.tolist(), walks.miny_steps.tolist()
    ([2], [1], [1])
    """

    def __init__(self, x: Floats, y: Floats, servers: int) -> None:
        count = schema.whole("servers", servers)
        if count > len(x):
            raise SettingError(f"servers is {count}", expected=f"at most the {len(x)} objects")
        order = np.argsort(x, kind="stable")
        self._label = order.astype(np.int64)
        self._place = np.empty(len(x), np.int64)
        self._place[order] = np.arange(len(x))
        self._y = y[order].astype(np.float64)
        self.start: Ints = np.linspace(0, len(x), count + 1).astype(np.int64)
        self.middle: Floats = x[order][(self.start[:-1] + self.start[1:]) // 2]

    def server_of(self, ids: Ints) -> Ints:
        """Which server holds each object."""
        return np.searchsorted(self.start, self._place[ids], side="right") - 1

    def follow(self, ids: Ints, values: Floats, k: int) -> Walks:
        """Apply updates of y in turn; what they asked."""
        tally = np.zeros((len(ids), TALLIES), np.int64)
        crossed = np.zeros((len(ids), len(self.start) - 2), np.int64)
        places = self._place[ids]
        follow(self.start, self._y, self._label, places, values.astype(np.float64), k, tally, crossed)
        firstk, miny, firstk_steps, miny_steps, exposed = tally.T
        return Walks(firstk, miny, firstk_steps, miny_steps, exposed, crossed)
