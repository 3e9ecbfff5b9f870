"""Ranked matching by looking at every subscription for every event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import no_nan, own_numbers
from rankcast.matching.kernels.box_tree import Columns
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


def combined(weights: Floats, combine: Combine) -> Floats:
    """The sum or the maximum of each row of weights (n, d), or what a function makes of it.

    The sum is taken attribute by attribute, in their order, from 0; so equal weights are equal sums on any
    way to compute them.
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
    """The places of all matches, best score first, ties by the smaller label. O(n log n)."""
    places = np.flatnonzero(matches)
    return places[np.lexsort((label[places], -score[places]))].astype(np.int32)


class Scan:
    """Every subscription for every event; `combine` is None in exact matching."""

    def __init__(self, slots: Slots, combine: Combine | None) -> None:
        self._slots, self._combine = slots, combine

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Nothing is kept."""

    remove = rescore = insert

    def rank(self, columns: Columns, rows: Rows, below: Floats, above: Floats) -> tuple[Rows, Floats]:
        """The places in `rows` of all matches of one event, best first, and the score of each row."""
        boxes = Boxes(columns.lo[rows], columns.hi[rows])
        if self._combine is None:
            score, matches = columns.score[rows], np.all(meets(boxes, below, above), axis=1)
        else:
            score = weigh(boxes, columns.weight[rows], below, above, self._combine)
            matches = score > 0
        return ranked(score, matches, columns.label[rows]), score

    def search(self, columns: Columns, below: Floats, above: Floats, k: int, threads: int = 1) -> Found:
        """The k best for each event. O(n log n) an event, on one core."""
        live, count = self._slots.live(), np.zeros(len(below), np.int64)
        row, scores = [live[:0]], [np.empty(0)]
        for event in range(len(below)):
            places, score = self.rank(columns, live, below[event], above[event])
            row.append(live[places[:k]])
            scores.append(score[places[:k]])
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
        """Nothing is kept that could be wrong."""
