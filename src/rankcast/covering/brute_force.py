"""Covering by comparing every box with every forwarded one.

Two facts keep it short. Containment is transitive, so it is enough to look at forwarded boxes: whatever lies
in a covered box lies in the one that covers it. And sorted by `containers_first` no box comes before one that
contains it, so taking boxes in that order one at a time gives the same as looking at all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.covering.graph import NO_ROWS, Outcome, SequenceOutcome, follow_by_calls
from rankcast.covering.kernels.containment import COVERED, FORWARDED, GONE, LEAVING, QueryBoxes, Subscriptions
from rankcast.structures import integrity
from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import Bools, Floats, Rows


class Scan:
    """Relations by brute force: nothing is remembered, every forwarded box is looked at."""

    def __init__(self) -> None:
        self._comparisons = 0

    def subscribe(self, subs: Subscriptions, rows: Rows) -> Rows:
        """Register rows one after the other; returns for each one that covers it, or -1."""
        known = rows_with(subs, FORWARDED)
        found, comparisons = take_in_turn(boxes_of(subs, rows), boxes_of(subs, known))
        self._comparisons += comparisons
        subs.status[rows] = np.where(found < 0, FORWARDED, COVERED)
        return np.where(found < 0, -1, np.concatenate([known, rows, rows[:0]])[found]).astype(np.int32)

    def unsubscribe(self, subs: Subscriptions, rows: Rows) -> Outcome:
        """Remove rows, net: whoever is left without a cover is forwarded."""
        lost = rows[subs.status[rows] != COVERED]
        subs.status[rows] = GONE
        exposed, freed = self._exposed(subs, boxes_of(subs, lost), NO_ROWS)
        subs.status[exposed] = FORWARDED
        return Outcome(rows, exposed, freed)

    def follow(self, subs: Subscriptions, removals: Bools, rows: Rows) -> SequenceOutcome:
        """Follow commands in turn: add a row, or where `removals` says so remove it."""
        return follow_by_calls(self, subs, removals, rows)

    def release(self, subs: Subscriptions, row: int, limit: int) -> Outcome:
        """Go on removing one row, forwarding no more than `limit` of those it covers."""
        rows = np.array([row], np.int32)
        if subs.status[row] == COVERED:
            return self.unsubscribe(subs, rows)
        subs.status[row] = LEAVING
        exposed, freed = self._exposed(subs, boxes_of(subs, rows), NO_ROWS)
        subs.status[exposed[:limit]] = FORWARDED
        if exposed.size > limit:
            return Outcome(NO_ROWS, exposed[:limit], freed)
        subs.status[row] = GONE
        return Outcome(rows, exposed, freed)

    def amend(self, subs: Subscriptions, rows: Rows, write: Callable[[], None]) -> Outcome:
        """Give rows other boxes, which `write` writes, net."""
        lost = boxes_of(subs, rows[subs.status[rows] == FORWARDED])
        write()
        subs.status[rows] = COVERED
        exposed, freed = self._exposed(subs, lost, rows)
        subs.status[exposed] = FORWARDED
        return Outcome(NO_ROWS, exposed, freed)

    def coverers(self, subs: Subscriptions, rows: Rows) -> Rows:
        """For each row the forwarded one registered first that contains it, -1 for a forwarded one."""
        covered = subs.status[rows] == COVERED
        found = np.full(rows.size, -1, np.int32)
        known = np.concatenate([rows_with(subs, FORWARDED), rows_with(subs, LEAVING)])
        places = first_containing(boxes_of(subs, rows[covered]), boxes_of(subs, known))
        found[covered] = known[places] if known.size else places
        return found

    def covers(self, subs: Subscriptions, boxes: QueryBoxes, k: int) -> Rows:
        """For each box up to k live rows that contain it, forwarded ones first, filled up with -1."""
        live = np.concatenate([rows_with(subs, each) for each in (FORWARDED, LEAVING, COVERED)])
        held = boxes_of(subs, live)
        found = np.full((boxes.lo.shape[0], k), -1, np.int32)
        for place, (low, high) in enumerate(zip(boxes.lo, boxes.hi, strict=True)):
            inside = live[((held.lo <= low) & (high <= held.hi)).all(axis=1)][:k]
            found[place, : inside.size] = inside
        self._comparisons += live.size * boxes.lo.shape[0]
        return found

    def stab(self, subs: Subscriptions, boxes: QueryBoxes) -> tuple[Rows, NDArray[np.int64]]:
        """Rows that neighbours know and that contain each box, as registered, and where each list ends."""
        known = np.concatenate([rows_with(subs, FORWARDED), rows_with(subs, LEAVING)])
        known = known[np.argsort(subs.sequence[known])]
        held = boxes_of(subs, known)
        found = [
            known[((held.lo <= low) & (high <= held.hi)).all(axis=1)]
            for low, high in zip(boxes.lo, boxes.hi, strict=True)
        ]
        self._comparisons += known.size * boxes.lo.shape[0]
        return np.concatenate([NO_ROWS, *found]), np.cumsum([each.size for each in found], dtype=np.int64)

    def tally(self) -> tuple[int, int]:
        """No node is visited; boxes compared since the last call."""
        comparisons, self._comparisons = self._comparisons, 0
        return 0, comparisons

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Nothing: all there is to know is in the status of rows."""
        return {}, {}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over nothing."""
        integrity.forms(arrays, {})
        return self

    def check_restored(self, subs: Subscriptions) -> None:
        """Nothing is kept that could be wrong."""

    def complete(self, subs: Subscriptions) -> None:
        """Nothing is kept that could be missing."""

    def _exposed(self, subs: Subscriptions, lost: Boxes, moved: Rows) -> tuple[Rows, int]:
        """Covered rows that nothing covers: of those that moved, and those that lay in a lost box.

        `lost` are boxes that were forwarded; a covered one that lay in none of them lies in a forwarded one
        that is still there. Also returns how many lay in lost boxes.
        """
        known, covered = rows_with(subs, FORWARDED), rows_with(subs, COVERED)
        has_moved = np.isin(covered, moved)
        open_ = covered[has_moved | within_any(boxes_of(subs, covered), lost)]
        places, comparisons = maximal(boxes_of(subs, open_), boxes_of(subs, known))
        self._comparisons += comparisons
        return open_[places], open_.size - int(has_moved.sum())


def rows_with(subs: Subscriptions, status: int) -> Rows:
    """The rows of one status, as registered."""
    rows = np.flatnonzero(subs.status == status).astype(np.int32)
    return rows[np.argsort(subs.sequence[rows], kind="stable")]


def boxes_of(subs: Subscriptions, rows: Rows) -> Boxes:
    """The boxes of rows."""
    return Boxes(subs.lo[rows], subs.hi[rows])


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
