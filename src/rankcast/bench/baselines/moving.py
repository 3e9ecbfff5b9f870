"""Moving queries without zones: a search at every position.

`BestFirst` searches the same R-tree as the engine does. `NumpyTopK` and `NumpySkyline` look at every object
at every position and remember nothing. `scores_of_members` is the least that following a query inside its
zone can cost: the scores of its members, in a bare loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers
from rankcast.moving.kernels.rtree import Rtree
from rankcast.moving.kernels.rtree_search import (
    BOARD,
    NODES,
    Queries,
    SearchBuffers,
    best_first,
    search_buffers,
)
from rankcast.moving.kernels.scores import ScoreForm, value
from rankcast.moving.kernels.zone_follow import ZoneColumns
from rankcast.moving.topk import MovingTopK
from rankcast.moving.topk_zones import TopKZones
from rankcast.structures.distance import distance
from rankcast.structures.jit import EXACT


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _search(
    form: ScoreForm, tree: Rtree, label: Integers, queries: Queries, space: SearchBuffers
) -> tuple[Any, Floats, int]:
    """The best objects of every query, as many as the room has a board for; and blocks opened."""
    k = space.row.size
    space.size[:] = 0
    rows, scores = np.full((queries.x.size, k), -1, np.int32), np.full((queries.x.size, k), np.inf)
    for i in range(queries.x.size):
        best_first(form, tree, label, space, queries, i)
        size = space.size[BOARD]
        rows[i, :size], scores[i, :size] = space.row[:size], space.score[:size]
    return rows, scores, space.size[NODES]


@njit(**EXACT)  # type: ignore[untyped-decorator]
def scores_of_members(
    form: ScoreForm,
    record: Floats,
    held: ZoneColumns,
    rows: NDArray[np.int32],
    x: Floats,
    y: Floats,
    out: Floats,
) -> None:
    """Write the scores (n, members) of the members of zones at new places."""
    start, count, member = held.start, held.count, held.member
    for i in range(rows.size):
        row = rows[i]
        for j in range(count[row]):
            o = member[start[row] + j]
            d = distance(form.metric, x[i], y[i], record[o, 0], record[o, 1])
            out[i, j] = value(form, record[o, 2], record[o, 3], d)


def zones_of(engine: MovingTopK) -> TopKZones:
    """What an engine with `method="zone"` keeps."""
    return cast(TopKZones, engine._zones)


class BestFirst:
    """Answers every position by a search; `found` has the last answer of each query: ids and scores."""

    def __init__(self, objects: Columns, over: Sequence[str], score: Any, k: int) -> None:
        engine = MovingTopK(over=list(over), k=k, score=score)
        engine.upsert(objects)
        self._zones = zones_of(engine)
        self._ids, self._k = objects["id"], k
        self._last: tuple[Any, Any, Any] = (np.empty(0), np.empty(0), np.empty(0))
        self._space: SearchBuffers | None = None
        self.nodes = 0

    def search(self, x: Floats, y: Floats) -> tuple[Any, Floats]:
        """The rows and scores (n, k) of the best objects from places."""
        none = np.empty((x.size, 0))
        queries = Queries(x, y, np.full(x.size, self._k), none, none, filtered=False)
        zoned = self._zones
        self._space = search_buffers(zoned.places.tree, self._k, self._space)
        rows, scores, nodes = _search(
            zoned.form, zoned.places.tree, zoned.objects.label, queries, self._space
        )
        self.nodes += nodes
        return rows, scores

    def publish(self, positions: Columns) -> None:
        """Answer every position."""
        self._last = (positions["id"], *self.search(positions["x"], positions["y"]))

    @property
    def found(self) -> dict[Any, tuple[Any, Floats]]:
        """The last answers by query."""
        ids, rows, scores = self._last
        return {key: (self._ids[rows[i]], scores[i]) for i, key in enumerate(ids.tolist())}


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
