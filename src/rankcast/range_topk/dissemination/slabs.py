"""Slabs: the influence polygon of an object in 1.5 dimensions (a second attribute bounded on one side).

A plane is swept over the second attribute, upwards from the object. Between two heights at which a better
object comes in, a slab, the better objects nearest to the left and right are the same; so the object's region
there is the staircase of one attribute (`kernels.paint`) times that stretch of heights. All slabs together
are the influence polygon: the intervals only shrink upwards. [Range App. D, Alg. 6, 7]

The objects that bound the polygon are found by two walks along the first attribute. `sign` is 1 if the second
attribute is bounded from above, -1 if from below; `height` is that attribute times the sign. Only objects
better than a pair (value, label) count. One of them bounds the polygon unless k others, nearer on the same
side and not higher, are better too: whoever holds it holds those. So a walk keeps the k lowest heights it has
met, skips whatever is not lower than the last of them, and ends when nothing can be. [Range App. D, Alg. 7]
asks for the nearest first, then for one object after the other upwards.

Cost: the walk of `object_tree.firstk` until k objects not above the apex are met.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.corners import BoxObjects
from rankcast.range_topk.kernels.corners import Floats, Rows
from rankcast.range_topk.kernels.object_tree import ObjectTree, better, locate, place_of
from rankcast.range_topk.kernels.paint import LEFT, RIGHT, SAME, Stairs, expose, reach, room_of
from rankcast.range_topk.state import ObjectIndex
from rankcast.structures.arrays import grown
from rankcast.structures.jit import EXACT

FEW = 64  # objects that room is made for at first
AT_APEX, LISTED = range(2)


class ObjectsByFirst(NamedTuple):
    """Objects by the first attribute, and the second one by row."""

    tree: ObjectTree
    second: Floats


@njit(**EXACT)
def _lower(lows: Floats, height: float) -> None:
    """Let a height that is below the last of the lowest ones take its place among them."""
    at = lows.shape[0] - 1
    while at > 0 and lows[at - 1] > height:
        lows[at] = lows[at - 1]
        at -= 1
    lows[at] = height


@njit(**EXACT)
def _walk(
    along: ObjectsByFirst,
    row: int,
    pair: tuple[float, int],
    sign: float,
    step: int,
    lows: Floats,
    found: Floats,
    size: NDArray[np.int64],
) -> Floats:
    """Append the x and heights of the objects that bound a polygon on one side, and at x on that side.

    Heights are those of the apex at least; who stands at x and not above the apex is only counted.
    """
    tree, second, (y, label) = along.tree, along.second, pair
    low, best, child, labels = tree.low, tree.best, tree.child, tree.label
    key, filled, parents = tree.key, tree.filled, tree.parent
    node, level, x, apex = np.int64(tree.leaf_of[row]), 0, tree.x[row], sign * second[row]
    j, last = place_of(child, node, row) + step, lows.shape[0] - 1
    while lows[last] > apex:
        end = filled[node]
        while 0 <= j < end and not (
            low[node, j] <= y and better(low[node, j], y, labels, best[node, j], label)
        ):
            j += step
        if j < 0 or j >= end:
            parent = np.int64(parents[node])
            if parent < 0:
                break
            j = place_of(child, parent, node) + step
            node = parent
            level += 1
        elif level > 0:
            node = np.int64(child[node, j])
            level -= 1
            j = np.int64(0) if step > 0 else np.int64(filled[node]) - 1
        else:
            height, at = max(sign * second[child[node, j]], apex), key[node, j]
            if height < lows[last]:
                _lower(lows, height)
                if size[LISTED] == found.shape[0]:
                    found = np.concatenate((found, found))
                found[size[LISTED], 0], found[size[LISTED], 1] = at, height
                shared = at == x and height == apex
                size[AT_APEX] += shared
                size[LISTED] += not shared
            j += step
    return found


@njit(**EXACT)
def surround(along: ObjectsByFirst, row: int, value: float, k: int, sign: float) -> tuple[Floats, int]:
    """The x and heights of the objects that bound the polygon of a row with a value; who they all hold.

    The first are those on the left, near to far, then come those on the right; the number is of those at x
    and not above the apex, whom everybody in the polygon holds and who are not listed. Objects at x itself
    count on the side where they happen to stand, so a few more may be listed than bound the polygon.
    """
    pair, size, found = (value, along.tree.label[row]), np.zeros(2, np.int64), np.empty((FEW, 2))
    lows = np.full(k, np.inf)
    found = _walk(along, row, pair, sign, -1, lows, found, size)
    lows[:] = np.inf
    found = _walk(along, row, pair, sign, 1, lows, found, size)
    return found[: size[LISTED]], size[AT_APEX]


@njit(**EXACT)
def _rank_in(found: Rows, value: Floats, size: int, row: int, y: float, labels: NDArray[np.int64]) -> None:
    """Put a row that belongs there into a list of so many, best first, dropping the last of a full one."""
    at = min(size, found.shape[0] - 1)
    while at > 0 and (value[at - 1] > y or (value[at - 1] == y and labels[found[at - 1]] > labels[row])):
        found[at], value[at] = found[at - 1], value[at - 1]
        at -= 1
    found[at], value[at] = row, y


@njit(**EXACT)
def list_between(
    along: ObjectsByFirst,
    box: tuple[float, float, float],
    after: tuple[float, int],
    limit: tuple[float, int],
    sign: float,
    found: Rows,
    value: Floats,
) -> int:
    """Write the best objects worse than one pair and better than another, best first; return how many.

    A pair is a value and a label. `box` is a range, ends included, and a height that none is above.
    """
    tree, second, (lo, hi, top), (least, mine), (most, other) = along.tree, along.second, box, after, limit
    low, child, labels = tree.low, tree.child, tree.label
    key, filled, parents, size, level = tree.key, tree.filled, tree.parent, 0, 0
    node, j = locate(tree, lo, False)
    while True:
        end = filled[node]
        while j < end and (low[node, j] > most or (level == 0 and low[node, j] < least)):
            j += 1
        if j >= end:
            parent = np.int64(parents[node])
            if parent < 0:
                return size
            j = place_of(child, parent, node) + 1
            node = parent
            level += 1
        elif key[node, j] > hi:
            return size
        elif level > 0:
            node = np.int64(child[node, j])
            level -= 1
            j = np.int64(0)
        else:
            row, y = child[node, j], low[node, j]
            passed = y > least or labels[row] > mine
            if passed and (y < most or labels[row] < other) and sign * second[row] <= top:
                _rank_in(found, value, size, row, y, labels)
                size = min(size + 1, found.shape[0])
                if size == found.shape[0]:
                    most, other = value[size - 1], labels[found[size - 1]]
            j += 1


UNKNOWN, NONE = -2, -1
FIRSTK, MIN, SNAP = range(3)  # questions, as they are counted


class Slabs(NamedTuple):
    """Slabs upwards: where each begins, its staircase, its next object; `size[0]` of them.

    Nobody whom the object matters to reaches outside the `window` of a slab, from lo to hi.
    """

    height: Floats
    left: Floats
    right: Floats
    stairs: NDArray[np.int64]
    next: Rows
    window: Floats
    size: NDArray[np.int64]


@njit(**EXACT)
def empty_slabs(capacity: int, k: int) -> Slabs:
    """Room for slabs."""
    return Slabs(
        np.empty(capacity),
        np.empty((capacity, k)),
        np.empty((capacity, k)),
        np.zeros((capacity, 3), np.int64),
        np.empty(capacity, np.int32),
        np.empty((capacity, 2)),
        np.zeros(1, np.int64),
    )


@njit(**EXACT)
def stairs_of(slabs: Slabs, at: int) -> Stairs:
    """The staircase of a slab."""
    return Stairs(slabs.left[at], slabs.right[at], slabs.stairs[at])


@njit(**EXACT)
def _shift(slabs: Slabs, first: int, end: int, step: int) -> None:
    """Copy slabs, one by one from `first` to before `end`, each to the place `step` further."""
    height, left, right, stairs = slabs.height, slabs.left, slabs.right, slabs.stairs
    later, window = slabs.next, slabs.window
    for source in range(first, end, -step):
        target = source + step
        height[target], later[target] = height[source], later[source]
        window[target, 0], window[target, 1] = window[source, 0], window[source, 1]
        for side in range(3):
            stairs[target, side] = stairs[source, side]
        for i in range(left.shape[1]):
            left[target, i], right[target, i] = left[source, i], right[source, i]


@njit(**EXACT)
def part(slabs: Slabs, at: int, height: float) -> Slabs:
    """Part a slab at a height: its upper part is a copy behind it."""
    size = slabs.size[0]
    if size == slabs.height.shape[0]:
        wider = empty_slabs(2 * size, slabs.left.shape[1])
        wider.height[:size], wider.left[:size], wider.right[:size] = slabs.height, slabs.left, slabs.right
        wider.stairs[:size], wider.next[:size], wider.window[:size] = slabs.stairs, slabs.next, slabs.window
        wider.size[0] = size
        slabs = wider
    _shift(slabs, size - 1, at - 1, 1)
    slabs.height[at + 1], slabs.size[0] = height, size + 1
    return slabs


@njit(**EXACT)
def drop(slabs: Slabs, at: int) -> None:
    """Take a slab out: the one before it goes on."""
    _shift(slabs, at + 1, slabs.size[0], -1)
    slabs.size[0] -= 1


@njit(**EXACT)
def alike(slabs: Slabs, one: int, two: int) -> bool:
    """Whether two slabs have the same staircase."""
    for side in range(3):
        if slabs.stairs[one, side] != slabs.stairs[two, side]:
            return False
    for i in range(slabs.stairs[one, LEFT]):
        if slabs.left[one, i] != slabs.left[two, i]:
            return False
    for i in range(slabs.stairs[one, RIGHT]):
        if slabs.right[one, i] != slabs.right[two, i]:
            return False
    return True


@njit(**EXACT)
def above(slabs: Slabs, at: int) -> float:
    """Where a slab ends: the next one begins there."""
    return slabs.height[at + 1] if at + 1 < slabs.size[0] else np.inf


@njit(**EXACT)
def slab_at(starts: Floats, count: int, height: float) -> int:
    """The slab that a bound not below the first one lies in, of so many that start there."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if starts[middle] <= height else (low, middle - 1)
    return low


@njit(**EXACT)
def count_questions(better: Floats, apex: float, same: int, k: int, tally: NDArray[np.int64]) -> None:
    """Count what the sweep upwards asks: the nearest on both sides, each next object, that there is none."""
    tally[FIRSTK] += 2
    if same < k:
        tally[MIN] += np.sum(better[:, 1] > apex) + 1


@njit(**EXACT)
def outline(better: Floats, same: int, x: float, apex: float, k: int) -> Slabs:
    """The slabs of an object, from the objects that bound its polygon [Range App. D, Alg. 7]."""
    slabs, order = empty_slabs(16, k), np.argsort(better[:, 1], kind="mergesort")
    slabs.height[0], slabs.next[0], slabs.size[0] = apex, UNKNOWN, 1
    slabs.window[0, 0], slabs.window[0, 1] = -np.inf, np.inf
    slabs.stairs[0, LEFT], slabs.stairs[0, RIGHT], slabs.stairs[0, SAME] = 0, 0, min(same, k)
    height, stairs = apex, stairs_of(slabs, 0)
    for i in range(order.shape[0]):
        there, above = better[order[i], 0], better[order[i], 1]
        after, before = reach(stairs, x, k)
        if room_of(stairs, k) <= 0 or not after < there < before:
            continue
        if above > height:
            height = above
            slabs = part(slabs, slabs.size[0] - 1, height)
            stairs = stairs_of(slabs, slabs.size[0] - 1)
        expose(stairs, x, there)
    return slabs


class FirstIndex:
    """Objects in dense rows in the order of the first attribute; kernels keep them in step with their tree.

    Nothing of it is kept on disk: it follows from the objects.
    """

    def __init__(self, rows: Rows, places: Floats, values: Floats, label: NDArray[np.int64]) -> None:
        self._index = ObjectIndex()
        self._second: Floats = np.zeros(len(label))
        self._index.set_labels(rows, label[rows])
        self.load(rows, places, values)

    def load(self, rows: Rows, places: Floats, values: Floats) -> None:
        """Insert absent rows. O(n log n)."""
        if int(rows.max(initial=-1)) >= len(self._second):
            self._second = grown(self._second, int(rows.max()) + 1, 0.0)
        self._index.load(rows, places[:, 0].copy(), values)
        self._second[rows] = places[:, 1]

    def fetch(self, label: NDArray[np.int64]) -> ObjectsByFirst:
        """The objects as kernels take them, with these labels and room for some more inserts."""
        self._index.reserve(len(label))
        self._index.tree = self._index.tree._replace(label=label)
        if len(label) > len(self._second):
            self._second = grown(self._second, len(label), 0.0)
        return ObjectsByFirst(self._index.tree, self._second)

    def tidy(self) -> None:
        """Give back room that is no longer needed."""
        self._index.tidy()


def _first_index(objects: BoxObjects) -> FirstIndex:
    if objects.derived is None:
        rows = np.flatnonzero(objects.value < np.inf).astype(np.int32)
        places = objects.index.tree.point[objects.slots.slot_of[rows]]
        objects.derived = FirstIndex(rows, places, objects.value[rows], objects.label)
    found: FirstIndex = objects.derived
    return found


def by_first(objects: BoxObjects) -> ObjectsByFirst:
    """The objects along the first of two attributes: whoever changes the tree of objects changes these too.

    With room for some inserts; to be fetched anew after `reserve`, `settle` and when the room is used up.
    """
    return _first_index(objects).fetch(objects.label)


def by_first_with(objects: BoxObjects, rows: Rows, places: Floats) -> ObjectsByFirst:
    """The same, with absent rows standing at places who are better than nobody; for this time."""
    index, objects.derived = _first_index(objects), None
    index.load(rows, places, np.full(len(rows), np.inf))
    return index.fetch(objects.label)


def tidy_first(objects: BoxObjects) -> None:
    """Give back room along the first attribute that is no longer needed."""
    if objects.derived is not None:
        objects.derived.tidy()
