"""Covering by comparing every box with every forwarded one.

Two facts keep it short. Containment is transitive, so it is enough to look at forwarded boxes: whatever lies
in a covered box lies in the one that covers it. And sorted by `containers_first` no box comes before one that
contains it, so taking boxes in that order one at a time gives the same as looking at all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.covering.graph import NO_ROWS, Outcome, SequenceOutcome, follow_by_calls
from rankcast.covering.kernels.containment import COVERED, FORWARDED, GONE, LEAVING, QueryBoxes, Subscriptions
from rankcast.structures import integrity
from rankcast.structures.code_sets import HIGH, LIST, LOW, NO_SETS, NOBODY, NOWHERE, CodeSets
from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import Bools, Floats, Rows


class Scan:
    """Relations by brute force: nothing is remembered, every forwarded box is looked at.

    Sets of categories are boxes here, too: for each code at which some set begins or ends, and for a value
    that is unknown, an attribute that says whether it is accepted (`Memberships`).
    """

    def __init__(self) -> None:
        self._comparisons = 0

    def subscribe(self, subs: Subscriptions, rows: Rows) -> Rows:
        """Register rows one after the other; returns for each one that covers it, or -1."""
        known, held = rows_with(subs, FORWARDED), Memberships(subs)
        found, comparisons = take_in_turn(held.boxes(rows), held.boxes(known))
        self._comparisons += comparisons
        subs.status[rows] = np.where(found < 0, FORWARDED, COVERED)
        return np.where(found < 0, -1, np.concatenate([known, rows, rows[:0]])[found]).astype(np.int32)

    def unsubscribe(self, subs: Subscriptions, rows: Rows) -> Outcome:
        """Remove rows, net: whoever is left without a cover is forwarded."""
        held, lost = Memberships(subs), rows[subs.status[rows] != COVERED]
        subs.status[rows] = GONE
        exposed, freed = self._exposed(subs, held, held.boxes(lost), NO_ROWS)
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
        subs.status[row], held = LEAVING, Memberships(subs)
        exposed, freed = self._exposed(subs, held, held.boxes(rows), NO_ROWS)
        subs.status[exposed[:limit]] = FORWARDED
        if exposed.size > limit:
            return Outcome(NO_ROWS, exposed[:limit], freed)
        subs.status[row] = GONE
        return Outcome(rows, exposed, freed)

    def amend(self, subs: Subscriptions, rows: Rows, write: Callable[[], Subscriptions]) -> Outcome:
        """Give rows other boxes, which `write` writes, net."""
        lost = subs.status[rows] == FORWARDED
        before = QueryBoxes(subs.lo[rows[lost]], subs.hi[rows[lost]], _copied(subs, rows[lost]))
        subs = write()
        subs.status[rows], held = COVERED, Memberships(subs, before)
        exposed, freed = self._exposed(subs, held, held.queries(), rows)
        subs.status[exposed] = FORWARDED
        return Outcome(NO_ROWS, exposed, freed)

    def coverers(self, subs: Subscriptions, rows: Rows) -> Rows:
        """For each row the forwarded one registered first that contains it, -1 for a forwarded one."""
        covered = subs.status[rows] == COVERED
        found = np.full(rows.size, -1, np.int32)
        known = np.concatenate([rows_with(subs, FORWARDED), rows_with(subs, LEAVING)])
        held = Memberships(subs)
        places = first_containing(held.boxes(rows[covered]), held.boxes(known))
        found[covered] = known[places] if known.size else places
        return found

    def covers(self, subs: Subscriptions, boxes: QueryBoxes, k: int) -> Rows:
        """For each box up to k live rows that contain it, forwarded ones first, filled up with -1."""
        live = np.concatenate([rows_with(subs, each) for each in (FORWARDED, LEAVING, COVERED)])
        members = Memberships(subs, boxes)
        held = members.boxes(live)
        found = np.full((boxes.lo.shape[0], k), -1, np.int32)
        for place, (low, high) in enumerate(zip(*members.queries(), strict=True)):
            inside = live[((held.lo <= low) & (high <= held.hi)).all(axis=1)][:k]
            found[place, : inside.size] = inside
        self._comparisons += live.size * boxes.lo.shape[0]
        return found

    def stab(self, subs: Subscriptions, boxes: QueryBoxes) -> tuple[Rows, NDArray[np.int64]]:
        """Rows that neighbours know and that contain each box, as registered, and where each list ends."""
        known = np.concatenate([rows_with(subs, FORWARDED), rows_with(subs, LEAVING)])
        known = known[np.argsort(subs.sequence[known])]
        members = Memberships(subs, boxes)
        held = members.boxes(known)
        found = [
            known[((held.lo <= low) & (high <= held.hi)).all(axis=1)]
            for low, high in zip(*members.queries(), strict=True)
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
        """There is no state that could be wrong."""

    def complete(self, subs: Subscriptions) -> None:
        """There is no state that could be missing."""

    def _exposed(self, subs: Subscriptions, held: Memberships, lost: Boxes, moved: Rows) -> tuple[Rows, int]:
        """Covered rows that nothing covers: of those that moved, and those that lay in a lost box.

        `lost` are boxes that were forwarded; a covered one that lay in none of them lies in a forwarded one
        that is still there. Also returns how many lay in lost boxes.
        """
        known, covered = rows_with(subs, FORWARDED), rows_with(subs, COVERED)
        has_moved = np.isin(covered, moved)
        open_ = covered[has_moved | within_any(held.boxes(covered), lost)]
        places, comparisons = maximal(held.boxes(open_), held.boxes(known))
        self._comparisons += comparisons
        return open_[places], open_.size - int(has_moved.sum())


def rows_with(subs: Subscriptions, status: int) -> Rows:
    """The rows of one status, as registered."""
    rows = np.flatnonzero(subs.status == status).astype(np.int32)
    return rows[np.argsort(subs.sequence[rows], kind="stable")]


class Memberships:
    """Boxes of rows and of queries, each with what it accepts of categories as further attributes."""

    def __init__(self, subs: Subscriptions, queries: QueryBoxes | None = None) -> None:
        self._subs, self._queries = subs, queries
        used = [_lists(subs.sets, row) for row in np.flatnonzero(subs.sets.size).tolist()]
        if queries is not None and queries.sets.size.size:
            used += [_lists(queries.sets, place) for place in range(len(queries.lo))]
        lists = np.concatenate([np.empty((0, 4), np.int64), *used])
        self._codes: list[NDArray[np.int64]] = []
        for a in range(int(lists[:, LIST].max(initial=-1)) // 2 + 1):
            mine = lists[(lists[:, LIST] // 2 == a) & (lists[:, LOW] != NOBODY)]
            self._codes.append(np.unique(np.concatenate([[NOWHERE], mine[:, LOW], mine[:, HIGH] + 1])))

    def boxes(self, rows: Rows) -> Boxes:
        """The boxes of rows."""
        return self._wide(Boxes(self._subs.lo[rows], self._subs.hi[rows]), self._subs.sets, rows.tolist())

    def queries(self) -> Boxes:
        """The boxes of the queries."""
        assert self._queries is not None
        return self._wide(Boxes(*self._queries[:2]), self._queries.sets, range(len(self._queries.lo)))

    def _wide(self, held: Boxes, sets: CodeSets, rows: Iterable[int]) -> Boxes:
        if not self._codes:
            return held
        accepted = np.array([self._accepted(_lists(sets, row)) for row in rows], np.float64)
        accepted = accepted.reshape(len(held.lo), sum(each.size + 1 for each in self._codes))
        return Boxes(np.hstack([held.lo, np.zeros_like(accepted)]), np.hstack([held.hi, accepted]))

    def _accepted(self, lists: NDArray[np.int64]) -> list[bool]:
        """For each code in question, and for what is unknown, whether lists accept it."""
        found: list[bool] = []
        for a, codes in enumerate(self._codes):
            some, but = (lists[lists[:, LIST] == 2 * a + word] for word in (0, 1))
            for code in codes.tolist():
                wanted = not some.size or ((some[:, LOW] <= code) & (code <= some[:, HIGH])).any()
                found.append(bool(wanted and not ((but[:, LOW] <= code) & (code <= but[:, HIGH])).any()))
            found.append(not some.size and not but.size)
        return found


def _lists(sets: CodeSets, row: int) -> NDArray[np.int64]:
    """The entries of a row."""
    first = int(sets.first[row])
    return sets.entries[first : first + int(sets.size[row])].astype(np.int64)


def _copied(subs: Subscriptions, rows: Rows) -> CodeSets:
    """The sets of rows as they are now, by place."""
    if not subs.sets.size.size:
        return NO_SETS
    size = subs.sets.size[rows]
    lists = [np.empty((0, 4), np.int32), *(_lists(subs.sets, row).astype(np.int32) for row in rows.tolist())]
    return CodeSets(np.cumsum(size, dtype=np.int64) - size, size, np.concatenate(lists))


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
