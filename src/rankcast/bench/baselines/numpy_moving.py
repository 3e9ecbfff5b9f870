"""Moving queries by NumPy: every object at every position, nothing remembered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankcast.bench.workloads import Columns, Floats, Integers


class NumpyMoving(ABC):
    """Answers one position after the other; `found` has the last answer of each query: ids and scores."""

    def __init__(self, objects: Columns, over: Sequence[str]) -> None:
        self._objects = objects
        self._attributes = np.stack([objects[name] for name in over], axis=1)
        self.found: dict[Any, tuple[Integers, Floats]] = {}

    def publish(self, positions: Columns) -> None:
        """Answer every position."""
        for key, x, y in zip(positions["id"].tolist(), positions["x"], positions["y"], strict=True):
            distance = np.hypot(self._objects["x"] - x, self._objects["y"] - y)
            rows, scores = self._answer(distance)
            self.found[key] = self._objects["id"][rows], scores

    @abstractmethod
    def _answer(self, distance: Floats) -> tuple[Integers, Floats]:
        """Give rows, best first, and scores for one position."""


class NumpyTopK(NumpyMoving):
    """The k objects of smallest weighted sum of attributes and distance, ties to the smaller id."""

    def __init__(self, objects: Columns, over: Sequence[str], weights: Sequence[float], k: int) -> None:
        super().__init__(objects, over)
        self._static = self._attributes @ np.asarray(weights[:-1])
        self._weight, self._k = weights[-1], k

    def _answer(self, distance: Floats) -> tuple[Integers, Floats]:
        score = self._static + self._weight * distance
        near = np.flatnonzero(score <= np.partition(score, self._k - 1)[self._k - 1])
        rows = near[np.lexsort((self._objects["id"][near], score[near]))][: self._k]
        return rows, score[rows]


class NumpySkyline(NumpyMoving):
    """The objects that none beats in one attribute or distance and equals in the rest; smaller is better."""

    def _answer(self, distance: Floats) -> tuple[Integers, Floats]:
        values = np.column_stack([self._attributes, distance])
        left = np.lexsort((self._objects["id"], distance))
        kept: list[int] = []
        while len(left):
            row, left = left[0], left[1:]
            kept.append(int(row))
            left = left[~_beaten(values[left], values[row])]
        rows = np.array(kept, np.int64)
        own = ~np.array([_beaten(values[row][None, :], values[rows]).any() for row in kept], np.bool_)
        return rows[own], distance[rows[own]]


def _beaten(values: Floats, by: Floats) -> Any:
    """Which rows are nowhere better and somewhere worse than the other row (or each of several rows)."""
    return np.all(values >= by, axis=-1) & np.any(values > by, axis=-1)
