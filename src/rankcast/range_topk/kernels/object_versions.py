"""A batch of events as steps in time, and which object comes next in the boxes of lists that lose an item.

In a step an object goes from one value to another at one place. A move is two steps of one event, a deletion
and an insertion; event e has the moments 2e and 2e + 1. A version is what an object of the batch is worth
from one moment to another. While boards follow, the objects of the batch have no weight in their tree: a
search asks the tree for those that do not change, and the versions, which are in the order of values, for
those that do. So all steps can meet one bucket after the other.

What comes next is asked for together by the lists of one bucket. A list ends where k objects of its box have
been met, so what follows its last item is met soon when objects are taken by value, in whatever order they
lie: after 1 / (share of the objects in the box) of them in the mean. A walk through the tree of objects
passes all better ones in the box again. Boxes that meet nothing for long, which are small, ask the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corners import CornerTree, Floats, Rows
from rankcast.range_topk.kernels.corners_search import find_next, holds
from rankcast.structures.jit import EXACT

FOREVER = np.iinfo(np.int64).max
Moments = NDArray[np.int64]


class BoxEvents(NamedTuple):
    """Updates in order: places (n, d) and values after the event; +inf: the object goes."""

    row: Rows
    x: Floats
    y: Floats


class Steps(NamedTuple):
    """Steps by time: the highest corner whose box holds the place, values before and after; +inf: not there.

    `start` is the value before the batch.
    """

    row: Rows
    corner: Floats
    old: Floats
    new: Floats
    start: Floats
    time: Moments


class Versions(NamedTuple):
    """Versions by value: object, place, value, value before the batch; valid while begin <= time < end."""

    row: Rows
    point: Floats
    value: Floats
    start: Floats
    begin: Moments
    end: Moments


@njit(**EXACT)
def _empty(steps: int, versions: int, width: int) -> tuple[Steps, Versions]:
    """Room for steps and versions; times and ends are FOREVER."""
    return (
        Steps(
            np.empty(steps, np.int32),
            np.empty((steps, 2 * width)),
            np.empty(steps),
            np.empty(steps),
            np.empty(steps),
            np.full(steps, FOREVER),
        ),
        Versions(
            np.empty(versions, np.int32),
            np.empty((versions, width)),
            np.empty(versions),
            np.empty(versions),
            np.empty(versions, np.int64),
            np.full(versions, FOREVER),
        ),
    )


@njit(**EXACT)
def _write_step(
    steps: Steps, at: int, row: int, place: Floats, old: float, new: float, start: float, time: int
) -> None:
    steps.row[at], steps.old[at], steps.new[at], steps.start[at] = row, old, new, start
    steps.time[at] = time
    for axis in range(place.shape[0]):
        steps.corner[at, 2 * axis], steps.corner[at, 2 * axis + 1] = place[axis], -place[axis]


@njit(**EXACT)
def _write_version(
    versions: Versions, at: int, row: int, place: Floats, value: float, start: float, begin: int
) -> None:
    versions.row[at], versions.value[at], versions.start[at], versions.begin[at] = row, value, start, begin
    for axis in range(place.shape[0]):
        versions.point[at, axis] = place[axis]


@njit(**EXACT)
def single(row: int, place: Floats, old: float, new: float, time: int) -> tuple[Steps, Versions]:
    """One step, alone."""
    steps, versions = _empty(1, np.int64(new < np.inf), place.shape[0])
    _write_step(steps, 0, row, place, old, new, old, time)
    if new < np.inf:
        _write_version(versions, 0, row, place, new, old, time)
    return steps, versions


@njit(**EXACT)
def differs(place: Floats, other: Floats) -> bool:
    """Whether two places are not the same."""
    for axis in range(place.shape[0]):
        if place[axis] != other[axis]:
            return True
    return False


@njit(**EXACT)
def steps_of(events: BoxEvents, objects: CornerTree, value: Floats) -> tuple[Steps, Versions]:
    """All steps of a batch whose objects are still as they were. O(n log n)."""
    count, width = events.x.shape
    steps, versions = _empty(2 * count, 2 * count, width)
    order, size, opened, place = np.argsort(events.row, kind="mergesort"), 0, -1, np.empty(width)
    there, old, start = False, np.inf, np.inf
    for i in range(count):
        e = order[i]
        row, y = events.row[e], events.y[e]
        if i == 0 or row != events.row[order[i - 1]]:
            there, start, opened = objects.slot_of[row] >= 0, value[row], -1
            old = start
            if there:
                place[:] = objects.point[objects.slot_of[row]]
                _write_version(versions, size, row, place, start, start, -1)
                opened, size = size, size + 1
        if there and (y == np.inf or differs(place, events.x[e])):
            _write_step(steps, 2 * e, row, place, old, np.inf, start, 2 * e)
            versions.end[opened] = 2 * e
            there, old, opened = False, np.inf, -1
        if y != old:
            place[:] = events.x[e]
            _write_step(steps, 2 * e + 1, row, place, old, y, start, 2 * e + 1)
            if opened >= 0:
                versions.end[opened] = 2 * e + 1
            _write_version(versions, size, row, place, y, start, 2 * e + 1)
            there, old, opened, size = True, y, size, size + 1
    return _in_order(steps, versions, size)


@njit(**EXACT)
def _in_order(steps: Steps, versions: Versions, size: int) -> tuple[Steps, Versions]:
    """The steps that happen, and the first `size` versions by value."""
    s, t = np.flatnonzero(steps.time < FOREVER), np.argsort(versions.value[:size], kind="mergesort")
    return (
        Steps(steps.row[s], steps.corner[s], steps.old[s], steps.new[s], steps.start[s], steps.time[s]),
        Versions(
            versions.row[t],
            versions.point[t],
            versions.value[t],
            versions.start[t],
            versions.begin[t],
            versions.end[t],
        ),
    )


FIRST_LABEL = np.iinfo(np.int64).min
NEAR, FAR = 4.0, 32.0  # gaps between the values of a list


class ObjectValues(NamedTuple):
    """Values and tie labels of objects by row."""

    value: Floats
    label: NDArray[np.int64]


@njit(**EXACT)
def search_near(
    objects: CornerTree, label: NDArray[np.int64], corners: Floats, after: Floats,
    after_label: NDArray[np.int64], found: Rows, gap: float,
) -> None:  # fmt: skip
    """Find what comes next in boxes, first among values a few gaps beyond, where it mostly is."""
    todo, most = np.arange(found.shape[0]), after.max()
    for limit in (most + NEAR * gap, most + FAR * gap, np.inf):
        part = np.empty(todo.shape[0], np.int32)
        find_next(objects, label, corners[todo], after[todo], after_label[todo], part, limit, FIRST_LABEL)
        found[todo] = part
        todo = todo[part < 0]
        if todo.shape[0] == 0:
            break


@njit(**EXACT)
def search_versions(
    versions: Versions, time: int, corners: Floats, after: Floats, after_label: NDArray[np.int64],
    values: ObjectValues, found: Rows, assigned: Rows,
) -> None:  # fmt: skip
    """Let objects of the batch, as they are at a moment, answer where they come before what was found.

    What they are worth becomes known, and is noted to be forgotten again.
    """
    value, row, point, begin, end = versions.value, versions.row, versions.point, versions.begin, versions.end
    known, label = values.value, values.label
    for j in range(np.searchsorted(value, after.min()), value.shape[0]):
        mine, which, open_ = value[j], row[j], False
        if time < begin[j] or time >= end[j]:
            continue
        for i in range(found.shape[0]):
            best = known[found[i]] if found[i] >= 0 else np.inf
            open_ |= mine <= best
            if mine < after[i] or mine > best or (mine == after[i] and label[which] <= after_label[i]):
                continue
            if mine == best and found[i] >= 0 and label[which] > label[found[i]]:
                continue
            if holds(corners[i], point, j):
                found[i] = which
                if known[which] != mine:
                    assigned[0] += 1
                    known[which], assigned[assigned[0]] = mine, j
        if not open_:
            break


FAR_VALUES = 1024  # objects passed before the tree is queries


class Order(NamedTuple):
    """Objects by value and label, with their places; all that have a weight in their tree, or none."""

    row: Rows
    point: Floats
    value: Floats
    label: NDArray[np.int64]


class NextQueries(NamedTuple):
    """Boxes as corners, the value and the label of the item behind which each looks, and what it found."""

    corner: Floats
    after: Floats
    label: NDArray[np.int64]
    found: Rows
    open: Rows


@njit(**EXACT)
def _pass_by(order: Order, queries: NextQueries, count: int, hull: Floats, start: int, end: int) -> np.int64:
    """Let objects start..end-1 answer the open boxes, all inside the hull; return how many stay open."""
    point, value, label, row = order.point, order.value, order.label, order.row
    corner, after, after_label, found, waits = (
        queries.corner,
        queries.after,
        queries.label,
        queries.found,
        queries.open,
    )
    # unsigned indexes: Numba need not test whether they count from the end
    left, j, width = np.uint64(count), np.uint64(start), np.uint64(point.shape[1])
    while left > np.uint64(0) and j < np.uint64(end):
        inside = True
        for axis in range(width):
            x = point[j, axis]
            inside &= (hull[np.uint64(2) * axis] <= x) & (hull[np.uint64(2) * axis + np.uint64(1)] <= -x)
        i = np.uint64(0) if inside else left
        while i < left:
            lane = np.uint32(waits[i])
            fits = value[j] > after[lane] or (value[j] == after[lane] and label[j] > after_label[lane])
            for axis in range(width):
                x = point[j, axis]
                fits &= corner[lane, np.uint64(2) * axis] <= x
                fits &= corner[lane, np.uint64(2) * axis + np.uint64(1)] <= -x
            if fits:
                found[lane] = row[j]
                left -= np.uint64(1)
                waits[i] = waits[left]
            else:
                i += np.uint64(1)
        j += np.uint64(1)
    return np.int64(left)


@njit(**EXACT)
def search_in_order(
    order: Order, objects: CornerTree, label: NDArray[np.int64], queries: NextQueries, count: int, gap: float
) -> None:
    """Find the best object in each of the first `count` boxes that is worse than its pair, or -1.

    The boxes are those of neighbours. `gap` is how far the values of their lists lie apart.
    """
    corner, after, hull, least = queries.corner, queries.after, queries.corner[0].copy(), np.inf
    for i in range(count):
        queries.found[i], queries.open[i], least = -1, i, min(least, after[i])
        for side in range(hull.shape[0]):
            hull[side] = min(hull[side], corner[i, side])
    total = order.value.shape[0]
    start = np.searchsorted(order.value, least)
    end = min(start + FAR_VALUES, total)
    left = _pass_by(order, queries, count, hull, start, end)
    if left == 0 or (end == total and total > 0):
        return
    lanes = queries.open[:left]
    part = np.empty(left, np.int32)
    search_near(objects, label, corner[lanes], after[lanes], queries.label[lanes], part, gap)
    queries.found[lanes] = part
