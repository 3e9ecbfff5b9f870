"""A batch of events as steps in time: an object goes from one value to another at one place.

A move is two steps of one event, a deletion and an insertion; event e has the moments 2e and 2e + 1. A spell
is what an object of the batch is worth from one moment to another. While boards follow, the objects of the
batch have no weight in their tree: a search asks the tree for those that do not change, and the spells, which
are in the order of values, for those that do. So all steps can meet one bucket after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corner_tree import CornerTree, Floats, Rows
from rankcast.structures.jit import EXACT

FOREVER = np.iinfo(np.int64).max
Moments = NDArray[np.int64]


class Events(NamedTuple):
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


class Spells(NamedTuple):
    """Spells by value: the object, its place, its value, its value before the batch; begin <= time < end."""

    row: Rows
    point: Floats
    value: Floats
    start: Floats
    begin: Moments
    end: Moments


@njit(**EXACT)
def _empty(steps: int, spells: int, width: int) -> tuple[Steps, Spells]:
    """Room for steps and spells; times and ends are FOREVER."""
    return (
        Steps(
            np.empty(steps, np.int32),
            np.empty((steps, 2 * width)),
            np.empty(steps),
            np.empty(steps),
            np.empty(steps),
            np.full(steps, FOREVER),
        ),
        Spells(
            np.empty(spells, np.int32),
            np.empty((spells, width)),
            np.empty(spells),
            np.empty(spells),
            np.empty(spells, np.int64),
            np.full(spells, FOREVER),
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
def _write_spell(
    spells: Spells, at: int, row: int, place: Floats, value: float, start: float, begin: int
) -> None:
    spells.row[at], spells.value[at], spells.start[at], spells.begin[at] = row, value, start, begin
    for axis in range(place.shape[0]):
        spells.point[at, axis] = place[axis]


@njit(**EXACT)
def single(row: int, place: Floats, old: float, new: float, time: int) -> tuple[Steps, Spells]:
    """One step, alone."""
    steps, spells = _empty(1, np.int64(new < np.inf), place.shape[0])
    _write_step(steps, 0, row, place, old, new, old, time)
    if new < np.inf:
        _write_spell(spells, 0, row, place, new, old, time)
    return steps, spells


@njit(**EXACT)
def differs(place: Floats, other: Floats) -> bool:
    """Whether two places are not the same."""
    for axis in range(place.shape[0]):
        if place[axis] != other[axis]:
            return True
    return False


@njit(**EXACT)
def steps_of(events: Events, objects: CornerTree, value: Floats) -> tuple[Steps, Spells]:
    """All steps of a batch whose objects are still as they were. O(n log n)."""
    count, width = events.x.shape
    steps, spells = _empty(2 * count, 2 * count, width)
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
                _write_spell(spells, size, row, place, start, start, -1)
                opened, size = size, size + 1
        if there and (y == np.inf or differs(place, events.x[e])):
            _write_step(steps, 2 * e, row, place, old, np.inf, start, 2 * e)
            spells.end[opened] = 2 * e
            there, old, opened = False, np.inf, -1
        if y != old:
            place[:] = events.x[e]
            _write_step(steps, 2 * e + 1, row, place, old, y, start, 2 * e + 1)
            if opened >= 0:
                spells.end[opened] = 2 * e + 1
            _write_spell(spells, size, row, place, y, start, 2 * e + 1)
            there, old, opened, size = True, y, size, size + 1
    return _in_order(steps, spells, size)


@njit(**EXACT)
def _in_order(steps: Steps, spells: Spells, size: int) -> tuple[Steps, Spells]:
    """The steps that happen, and the first `size` spells by value."""
    s, t = np.flatnonzero(steps.time < FOREVER), np.argsort(spells.value[:size], kind="mergesort")
    return (
        Steps(steps.row[s], steps.corner[s], steps.old[s], steps.new[s], steps.start[s], steps.time[s]),
        Spells(
            spells.row[t], spells.point[t], spells.value[t], spells.start[t], spells.begin[t], spells.end[t]
        ),
    )
