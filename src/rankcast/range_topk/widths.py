"""How wide lists are held: room for k if that is little, else as much as a list needs and some more.

A list of a small k has a board of k places. A list of a large one mostly holds fewer objects than k, and a
board of k places would cost what nobody lists. So it begins as an open list: its board has a width, a power
of two, that it does not fill. Such a list holds all objects in its range, so nothing waits behind its last
one, and an event changes it exactly if the object is in the range. Before objects come that might fill its
board it moves to a wider one, and from a width that k does not exceed on to one of k places.

Shelves have keys: k for boards of k places, minus the width for open ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.objects import Floats, Rows
from rankcast.structures import arrays, integrity
from rankcast.structures.arrays import grown

Ints: TypeAlias = NDArray[np.int64]
Wanted: TypeAlias = Callable[[Rows], Ints]  # the k of subscriptions

NARROW = 128  # the k up to which a list has room for all of it from the start
LEAST = 64  # the narrowest open board
OPEN = "open"  # what names of open shelves begin with
LONG = 1024  # places of a board from which sorting what is in a range is better than a search for the best


class Widths:
    """Which lists are open, how wide, and when a shelf of them must be looked through.

    Invariant: no list of an open shelf has more items than `most` of its key says, which is at most the
    width; so none is full. Cost: a shelf is counted after as many arrivals as a quarter of its width, or
    departures as twice of it, so O(1) a subscription and arrival at worst.
    """

    def __init__(self) -> None:
        self.most: dict[int, int] = {}  # by key: items that no list has more of
        self.gone: dict[int, int] = {}  # by key: objects that went since lists were counted
        self._open: Ints = np.zeros(0, np.int64)  # by row: the width of an open list, else 0

    def keys(self, rows: Rows, k: Ints) -> Ints:
        """The keys of the shelves that subscriptions with these k are in."""
        if not self.most:
            return k
        self._reserve(rows)
        width = self._open[rows]
        return np.where(width > 0, -width, k)

    def wanted(self, need: Ints, k: Ints) -> Ints:
        """The keys of shelves for lists with so many items that want k."""
        least = np.maximum(need + need // 3, LEAST)
        width = np.left_shift(1, np.ceil(np.log2(least)).astype(np.int64))
        return np.where((k <= NARROW) | (width >= k), k, -width)

    def enter(self, key: int, rows: Rows, most: int) -> None:
        """Note that subscriptions with so many items at most are in a shelf."""
        if key < 0 or self.most:
            self._reserve(rows)
            self._open[rows] = max(-key, 0)
        if key < 0:
            self.most[key] = max(self.most.get(key, 0), most)

    def drop(self, key: int) -> None:
        """Forget a shelf."""
        self.gone.pop(key, None)
        if self.most.pop(key, None) is not None and not self.most:
            self._open[:] = 0  # nobody looks at them before the next open shelf

    def due(self, keys: list[int], arrivals: int, departures: int) -> Iterator[int]:
        """Of the keys of all shelves those whose lists must be counted before objects come and go."""
        for key in keys:
            if 0 < key <= NARROW:
                continue
            self.gone[key] = self.gone.get(key, 0) + departures
            if key < 0:
                self.most[key] += arrivals
            if self.gone[key] > 2 * abs(key) or (key < 0 and self.most[key] > -key):
                yield key

    def moving(self, key: int, length: Ints, need: Ints, k: Ints) -> Ints:
        """Where lists of a shelf belong that may come to need so much room: their keys."""
        width = abs(key)
        leaves = length < width // 8
        if key < 0:
            leaves |= (need > width) | (length > width // 4 * 3)
        return np.where(leaves, self.wanted(need, k), key)

    def counted(self, key: int, most: int) -> None:
        """Note that the lists of a shelf were counted: none that stays will have more than so many items."""
        self.gone[key] = 0
        if key < 0:
            self.most[key] = most

    def _reserve(self, rows: Rows) -> None:
        most = int(rows.max(initial=-1)) + 1
        if most > len(self._open):
            self._open = grown(self._open, max(most, len(self._open) * 5 // 4), 0)

    def state(self) -> dict[str, list[int]]:
        """What a snapshot must hold beside the shelves."""
        keys = sorted({*self.most, *self.gone})
        return {str(key): [self.most.get(key, 0), self.gone.get(key, 0)] for key in keys}

    def restore(self, state: Mapping[str, Any], shelves: Mapping[int, Rows]) -> None:
        """Take over what `state` gave; `shelves` are the rows of each, by key.

        What is not told of a shelf is taken for the worst: any list of an open one may be full.
        """
        names = {str(key): key for key in shelves}
        integrity.need(
            isinstance(state, Mapping) and state.keys() <= names.keys(), "rooms", "are not of shelves"
        )
        for name, room in state.items():
            key = names[name]
            fits = isinstance(room, list) and len(room) == 2 and all(type(each) is int for each in room)
            integrity.need(fits and min(room) >= 0, "rooms", "are no counts")
            self.gone[key] = room[1]
            if key < 0:
                integrity.need(room[0] <= -key, "rooms", "are wider than their shelf")
                self.most[key] = room[0]
        for key, rows in shelves.items():
            if key < 0:
                self.enter(key, rows, self.most.get(key, -key))


def lengths(board: Rows, slots: Rows) -> Ints:
    """How many items the boards at some slots list."""
    found = np.empty(len(slots), np.int64)
    arrays.count_each(board, slots, found)
    return found


def arrivals_in(lo: Floats, hi: Floats, places: Floats) -> Ints:
    """For each box a bound on how many of some places, (n, d), it holds: the least of its attributes."""
    found = np.full(len(lo), len(places), np.int64)
    for axis in range(places.shape[1] if len(places) else 0):
        along = np.sort(places[:, axis])
        inside = np.searchsorted(along, hi[:, axis], "right") - np.searchsorted(along, lo[:, axis], "left")
        np.minimum(found, inside, out=found)
    return found


def widened(boards: Rows, width: int) -> Rows:
    """The same lists, which fit, on boards of another width."""
    other = np.full((len(boards), width), -1, np.int32)
    both = min(width, boards.shape[1])
    other[:, :both] = boards[:, :both]
    return other


def best_of(rows: Rows, value: Floats, label: Any, most: int) -> Rows:
    """Rows by value and label, best first, at most so many."""
    return rows[np.lexsort((label[rows], value[rows]))[:most]]


def name_of(key: int) -> str:
    """How a snapshot names a shelf."""
    return str(key) if key > 0 else f"{OPEN}{-key}"


def key_of(name: str) -> int:
    """The key of a shelf that a snapshot names."""
    return -int(name.removeprefix(OPEN)) if name.startswith(OPEN) else int(name)
