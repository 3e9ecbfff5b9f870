"""Covering by comparing every box with every forwarded one.

Two facts keep it short. Containment is transitive, so it is enough to look at forwarded boxes: whatever lies
in a covered box lies in the one that covers it. And sorted by `containers_first` no box comes before one that
contains it, so taking boxes in that order one at a time gives the same as looking at all of them at once.
"""

from __future__ import annotations

import numpy as np

from rankcast.boxes import Boxes
from rankcast.columns import Bools, Floats, Rows


def first_containing(inner: Boxes, outer: Boxes) -> Rows:
    """For each inner box the place of the first outer box that contains it, -1 if none does. O(n m d)."""
    return np.array([_first(low, high, outer) for low, high in zip(*inner, strict=True)], np.int32)


def take_in_turn(boxes: Boxes, held: Boxes) -> tuple[Rows, int]:
    """Boxes come one at a time; one that is contained in nothing so far joins the held ones.

    Returns for each the place of the first that contains it, -1 if it joins, and the number of comparisons.
    Places count the held boxes first, then all of `boxes`. Cost: O(n m d) for n boxes and m held in the end.
    """
    known = Boxes(np.concatenate([held.lo, boxes.lo]), np.concatenate([held.hi, boxes.hi]))
    first_own = count = held.lo.shape[0]
    owner = np.arange(known.lo.shape[0], dtype=np.int32)
    found = np.full(boxes.lo.shape[0], -1, np.int32)
    comparisons = 0
    for place, (low, high) in enumerate(zip(*boxes, strict=True)):
        first = _first(low, high, known.at(slice(count)))
        comparisons += count
        if first >= 0:
            found[place] = owner[first]
        else:
            known.lo[count], known.hi[count], owner[count] = low, high, first_own + place
            count += 1
    return found, comparisons


def maximal(boxes: Boxes, held: Boxes) -> tuple[Rows, int]:
    """The places, ascending, of boxes that no held and no other box contains; of equal ones the first.

    Also returns the number of comparisons.
    """
    order = containers_first(boxes)
    found, comparisons = take_in_turn(boxes.at(order), held)
    return np.sort(order[found < 0]), comparisons


def containers_first(boxes: Boxes) -> Rows:
    """An order in which a box comes after every box that contains it; equal boxes keep their order.

    By lower ends ascending, then by upper ends descending: a box that contains another is at most equal to it
    in each of these keys.
    """
    return np.lexsort(np.vstack([-boxes.hi.T, boxes.lo.T])).astype(np.int32)


def within_any(inner: Boxes, outer: Boxes) -> Bools:
    """Which inner boxes lie in some outer box. O(n m d)."""
    found = np.zeros(inner.lo.shape[0], np.bool_)
    for low, high in zip(*outer, strict=True):
        found |= ((low <= inner.lo) & (inner.hi <= high)).all(axis=1)
    return found


def _first(low: Floats, high: Floats, outer: Boxes) -> int:
    """The place of the first outer box that contains [low, high], -1 if none does."""
    contains = ((outer.lo <= low) & (high <= outer.hi)).all(axis=1)
    return int(np.argmax(contains)) if contains.any() else -1
