"""Relaxed matching by a function of one's own: the Threshold Algorithm in rounds of NumPy calls.

The weights of each attribute stand in descending order. A round reads the next entries of every list, twice
as many as the round before; rows that the event meets there are scored by the function, each once, unless all
their weights together give less than the k-th score. What no round has read yet has no weight above those at
the heads of the lists, so a function that never falls when a weight grows gives it no more than it gives the
heads: the search ends when the k-th score is above that [Ranked §4].

Nothing is kept beyond the order of weights, which is found again after a change: O(n log n), d times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.boxes import Boxes
from rankcast.columns import Floats, Rows
from rankcast.engines.brute_force import matching
from rankcast.indexes.scored_matches import Found
from rankcast.indexes.slots import Slots
from rankcast.kernels.box_tree_pack import Columns

FIRST = 256


class FunctionIndex:
    """The best rows for an event under a monotone function of the weights that meet it."""

    def __init__(self, slots: Slots, combine: Callable[[Floats], Floats]) -> None:
        self._slots, self._combine = slots, combine
        self._lists: list[Rows] | None = None

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Forget the order of weights."""
        self._lists = None

    remove = rescore = insert

    def search(self, columns: Columns, below: Floats, above: Floats, k: int, threads: int = 1) -> Found:
        """The k best rows for each event, on one core."""
        live = self._slots.live()
        if self._lists is None:
            self._lists = [live[np.argsort(-columns.weight[live, j])] for j in range(below.shape[1])]
        number, tried = np.zeros(len(below), np.int64), 0
        rows, scores = [live[:0]], [np.empty(0)]
        for event, ends in enumerate(zip(below, above, strict=True)):
            row, score, more = self._best(columns, self._lists, *ends, k)
            rows.append(row)
            scores.append(score)
            number[event], tried = row.size, tried + more
        return Found(number, np.concatenate(rows), np.concatenate(scores), tried, tried)

    def _best(
        self, columns: Columns, lists: list[Rows], below: Floats, above: Floats, k: int
    ) -> tuple[Rows, Floats, int]:
        """The best rows for one event, their scores, and how many were scored."""
        total, start, size, tried = lists[0].size, 0, FIRST, 0
        seen, row, score = np.zeros(columns.lo.shape[0], np.bool_), lists[0][:0], np.empty(0)
        while start < total:
            met = [
                part[(columns.lo[part, j] <= below[j]) & (columns.hi[part, j] >= above[j])]
                for j, part in enumerate(each[start : start + size] for each in lists)
            ]
            fresh = np.unique(np.concatenate(met))
            fresh = fresh[~seen[fresh]]
            seen[fresh] = True
            if row.size == k:
                fresh = fresh[columns.score[fresh] >= score[-1]]
            boxes = Boxes(columns.lo[fresh], columns.hi[fresh])
            given = matching.weigh(boxes, columns.weight[fresh], below, above, self._combine)
            row, score = np.concatenate([row, fresh]), np.concatenate([score, given])
            best = matching.ranked(score, score > 0, columns.label[row])[:k]
            row, score, tried, start = row[best], score[best], tried + fresh.size, start + size
            most = self._possible(columns, lists, start)
            if most <= 0 or (row.size == k and score[-1] > most):
                break
            size *= 2
        return row, score, tried

    def _possible(self, columns: Columns, lists: list[Rows], start: int) -> float:
        """What the function gives to the heads of the lists."""
        if start >= lists[0].size:
            return 0.0
        heads = [columns.weight[each[start], j] for j, each in enumerate(lists)]
        return float(matching.combined(np.array([heads]), self._combine)[0])

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Nothing."""
        return {}, {}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over nothing."""
        return self
