"""Ranked matching by comparing every subscription with every event."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import no_nan, own_numbers
from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.kernels.candidate_filter import (
    CONTAINS,
    HIGH,
    INSIDE,
    LIST,
    LOW,
    NORMAL,
    OVERLAP,
    PER_OWNER,
    SPAN,
    Wants,
)
from rankcast.matching.search import Found
from rankcast.structures import integrity
from rankcast.structures.ids import Slots
from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import Bools, Floats, Ints, Rows

Combine: TypeAlias = "str | Callable[[Floats], Floats]"


def meets(boxes: Boxes, below: Floats, above: Floats) -> Bools:
    """Which intervals (n, d) meet an event whose values reach from `above` to `below` (d,).

    An unknown value reaches from +inf to -inf, so that only an interval without bounds meets it.
    """
    within: Bools = (boxes.lo <= below) & (boxes.hi >= above)
    return within


def shares(boxes: Boxes, rows: Rows, below: Floats, above: Floats, wants: Wants, event: int) -> Floats:
    """The probability (n, d) that each interval, and each set, of some rows contains an event's value."""
    met = meets(boxes, below, above)
    lo, hi, known = boxes.lo, boxes.hi, above <= below
    number = np.flatnonzero(known & (wants.category == SPAN))
    if wants.rule[OVERLAP] == INSIDE:
        met[:, number] &= (lo <= above)[:, number] & (hi >= below)[:, number]
    elif wants.rule[OVERLAP] == CONTAINS:
        open_ = (lo == -np.inf) & (hi == np.inf)
        met[:, number] &= (open_ | ((above <= lo) & (hi <= below)))[:, number]
    for j in np.flatnonzero(wants.category >= 0):
        for word, wanted in ((0, True), (1, False)):
            given, holds = _in_sets(wants, rows, 2 * wants.category[j] + word, below[j])
            met[:, j] &= ~given | (holds == wanted)
    share = met.astype(np.float64)
    if wants.error.shape[1]:
        for j in np.flatnonzero(wants.error[event] > 0):
            value, error = wants.value[event, j], wants.error[event, j]
            chance = _normal if wants.rule[NORMAL] else _uniform
            share[:, j] *= [chance(value, error, *ends) for ends in zip(lo[:, j], hi[:, j], strict=True)]
    return share


def _in_sets(wants: Wants, rows: Rows, number: int, code: float) -> tuple[Bools, Bools]:
    """Which rows have a list of that number, and whose list has a code."""
    given, holds = np.zeros(rows.size, np.bool_), np.zeros(rows.size, np.bool_)
    for place, row in enumerate(rows.tolist()):
        if row < wants.set_size.size:
            first = wants.set_first[row]
            mine = wants.entries[first : first + wants.set_size[row]]
            mine = mine[mine[:, LIST] == number]
            given[place] = len(mine) > 0
            holds[place] = ((mine[:, LOW] <= code) & (code <= mine[:, HIGH])).any()
    return given, holds


def _uniform(value: float, error: float, lo: float, hi: float) -> float:
    """The share of [value - error, value + error] in [lo, hi]."""
    first, last = value - error, value + error
    if lo <= first and hi >= last:
        return 1.0
    return max(0.0, (min(hi, last) - max(lo, first)) / (last - first))


def _normal(value: float, error: float, lo: float, hi: float) -> float:
    """The probability of [lo, hi] under a normal distribution; in a tail by its complement."""
    a, b = (lo - value) / (error * math.sqrt(2.0)), (hi - value) / (error * math.sqrt(2.0))
    if a > 0.0:
        share = 0.5 * (math.erfc(a) - math.erfc(b))
    elif b < 0.0:
        share = 0.5 * (math.erfc(-b) - math.erfc(-a))
    else:
        share = 1.0 - 0.5 * (math.erfc(-a) + math.erfc(b))
    return min(max(share, 0.0), 1.0)


def combined(weights: Floats, combine: Combine) -> Floats:
    """The sum or the maximum of each row of weights (n, d), or the result of a function.

    The sum is computed attribute by attribute, in their order, from 0; so equal weights give equal sums
    however they are computed.
    """
    if not isinstance(combine, str):
        if not len(weights):
            return np.empty(0)
        found = own_numbers("combine", lambda: combine(weights.copy()), len(weights))
        return no_nan("combine", found)
    total = np.zeros(weights.shape[0])
    with np.errstate(over="ignore"):
        for column in weights.T:
            total = total + column if combine == "sum" else np.maximum(total, column)
    return total


def weigh(boxes: Boxes, weights: Floats, below: Floats, above: Floats, combine: Combine) -> Floats:
    """The relaxed score of each box (n, d) with weights (n, d) for an event."""
    return combined(np.where(meets(boxes, below, above), weights, 0.0), combine)


def ranked(score: Floats, matches: Bools, label: Ints) -> Rows:
    """The positions of all matches, best score first, ties by the smaller label. O(n log n)."""
    places = np.flatnonzero(matches)
    return places[np.lexsort((label[places], -score[places]))].astype(np.int32)


class Scan:
    """Every subscription for every event; `combine` is None in exact matching."""

    def __init__(self, slots: Slots, combine: Combine | None) -> None:
        self._slots, self._combine = slots, combine

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Nothing is kept."""

    remove = rescore = insert

    def rank(
        self,
        columns: Columns,
        rows: Rows,
        below: Floats,
        above: Floats,
        wants: Wants | None = None,
        event: int = 0,
    ) -> tuple[Rows, Floats]:
        """The positions in `rows` of all matches of an event, best first, and the score of each row."""
        boxes = Boxes(columns.lo[rows], columns.hi[rows])
        if wants is not None:
            return self._wanted(columns, rows, boxes, below, above, wants, event)
        if self._combine is None:
            score, matches = columns.score[rows], np.all(meets(boxes, below, above), axis=1)
        else:
            score = weigh(boxes, columns.weight[rows], below, above, self._combine)
            matches = score > 0
        return ranked(score, matches, columns.label[rows]), score

    def _wanted(
        self,
        columns: Columns,
        rows: Rows,
        boxes: Boxes,
        below: Floats,
        above: Floats,
        wants: Wants,
        event: int,
    ) -> tuple[Rows, Floats]:
        """As `rank`, for conditions besides boxes."""
        share = shares(boxes, rows, below, above, wants, event)
        with np.errstate(over="ignore"):
            if self._combine is None:
                chance = np.ones(rows.size)
                for column in share.T:
                    chance = chance * column
                score, matches = columns.score[rows] * chance * wants.boost[event], chance > 0
            else:
                factor = wants.factor[event] if wants.factor.shape[1] else 1.0
                weights = np.where(share > 0, columns.weight[rows] * share * factor, 0.0)
                score = combined(weights, self._combine) * wants.boost[event]
                matches = score > 0
        unwanted = wants.excluded[wants.first[event] : wants.first[event + 1]]
        matches &= (score >= wants.least[event]) & ~np.isin(rows, unwanted)
        if wants.name.size:
            matches &= ~np.isin(~wants.name[rows].astype(np.int64), unwanted)
        return _together(ranked(score, matches, wants.tie[rows]), rows, wants), score

    def search(
        self,
        columns: Columns,
        below: Floats,
        above: Floats,
        k: int,
        threads: int = 1,
        wants: Wants | None = None,
    ) -> Found:
        """The k best for each event. O(n log n) per event, on one core."""
        live, count = self._slots.live(), np.zeros(len(below), np.int64)
        row, scores = [live[:0]], [np.empty(0)]
        for event in range(len(below)):
            places, score = self.rank(columns, live, below[event], above[event], wants, event)
            places = places[: k if wants is None else wants.k[event]]
            row.append(live[places])
            scores.append(score[places])
            count[event] = row[-1].size
        tried = len(below) * live.size
        return Found(count, np.concatenate(row), np.concatenate(scores), tried, tried)

    def stats(self) -> dict[str, Any]:
        """Nothing beside the name."""
        return {}

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Nothing."""
        return {}, {}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over nothing."""
        integrity.forms(arrays, {})
        return self

    def check_restored(self, columns: Columns, wanted: Bools) -> None:
        """There is no state that could be wrong."""


def _together(places: Rows, rows: Rows, wants: Wants) -> Rows:
    """The positions of the rows that may be listed together: the best of a name, the best few of an owner."""
    if not wants.name.size and not wants.owner.size:
        return places
    names, owners, kept = set[int](), dict[int, int](), []
    for place, row in zip(places.tolist(), rows[places].tolist(), strict=True):
        name = int(wants.name[row]) if wants.name.size else ~row
        owner = int(wants.owner[row]) if row < wants.owner.size else -1
        if name in names or (owner >= 0 and owners.get(owner, 0) >= wants.rule[PER_OWNER]):
            continue
        names.add(name)
        owners[owner] = owners.get(owner, 0) + 1
        kept.append(place)
    return np.array(kept, np.int32)
