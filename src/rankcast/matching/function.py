"""Relaxed matching by a user's function: rows in the order of their best possible score.

A row scores at most the function of all its weights, because the function never falls when a weight grows.
Rows are in descending order of that. A round scores the next rows of the order for an event, twice as many as
the previous round; the search ends when the k-th score is above the best possible score of the next row.

The Threshold Algorithm [Ranked §4] over lists of weights would read more. When it has read r entries of each
of d lists, the rest is bounded by the function of their heads. But a row above that bound has a weight
above a head, so it is among the d r entries read: in this order at most d r rows exceed that bound.

New and changed rows are kept apart and scored for every event, until they are a 16th of all; then the
order is recomputed. Cost of that: O(n log n).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.matching import brute_force
from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.kernels.matches import weights_met
from rankcast.matching.search import Found
from rankcast.structures import integrity
from rankcast.structures.ids import Slots
from rankcast.tables.schema import Bools, Floats, Rows

FIRST = 1024
GROWTH = 2


class FunctionIndex:
    """The best rows for an event under a monotone function of the weights that meet it."""

    def __init__(self, slots: Slots, combine: Callable[[Floats], Floats]) -> None:
        self._slots, self._combine = slots, combine
        self._order = self._fresh = np.empty(0, np.int32)
        self._most = np.empty(0)  # what the rows of the order give at best
        self._stale: NDArray[np.bool_] = np.zeros(0, np.bool_)  # rows that the order holds in vain

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Keep some rows apart from the order."""
        self._forget(columns, rows)
        self._fresh = np.union1d(self._fresh, rows)

    rescore = insert

    def remove(self, columns: Columns, rows: Rows) -> None:
        """Drop some rows."""
        self._forget(columns, rows)
        self._fresh = np.setdiff1d(self._fresh, rows)

    def search(self, columns: Columns, below: Floats, above: Floats, k: int, threads: int = 1) -> Found:
        """The k best rows for each event, on one core."""
        if 16 * self._fresh.size > self._order.size:
            live = self._slots.live()
            self._order = live[np.argsort(-columns.score[live], kind="stable")]
            self._most, self._fresh = columns.score[self._order], self._fresh[:0]
            self._stale = np.zeros(columns.lo.shape[0], np.bool_)
        number, tried = np.zeros(len(below), np.int64), 0
        rows, scores = [self._order[:0]], [np.empty(0)]
        for event, ends in enumerate(zip(below, above, strict=True)):
            row, score, more = self._best(columns, *ends, k)
            rows.append(row)
            scores.append(score)
            number[event], tried = row.size, tried + more
        return Found(number, np.concatenate(rows), np.concatenate(scores), tried, tried)

    def _forget(self, columns: Columns, rows: Rows) -> None:
        """Remove some rows from the order."""
        if columns.lo.shape[0] > self._stale.size:
            self._stale = np.concatenate(
                [self._stale, np.zeros(columns.lo.shape[0] - self._stale.size, np.bool_)]
            )
        self._stale[rows] = True

    def _best(self, columns: Columns, below: Floats, above: Floats, k: int) -> tuple[Rows, Floats, int]:
        """The best rows for one event, their scores, and how many were scored."""
        order, start, size, tried = self._order, 0, FIRST, 0
        part, row, score = self._fresh, self._order[:0], np.empty(0)
        while True:
            if part.size:
                given = brute_force.combined(weights_met(columns, part, below, above), self._combine)
                row, score = np.concatenate([row, part]), np.concatenate([score, given])
                least = np.partition(score, -k)[-k] if score.size > k else 0.0
                best = brute_force.ranked(score, (score > 0) & (score >= least), columns.label[row])[:k]
                row, score, tried = row[best], score[best], tried + part.size
            if start >= order.size or (row.size == k and score[-1] > self._most[start]):
                return row, score, tried
            part = order[start : start + size]
            part, start, size = part[~self._stale[part]], start + size, GROWTH * size

    def stats(self) -> dict[str, Any]:
        """The name of this index, which replaces any other index."""
        return {"index": "score-order"}

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Nothing."""
        return {}, {}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over nothing; the order must be recomputed."""
        integrity.forms(arrays, {})
        self._fresh = self._slots.live()
        return self

    def check_restored(self, columns: Columns, wanted: Bools) -> None:
        """There is no state that could be wrong."""
