"""Moving top-k without zones: best-first search at every position, and what the lower bounds do.

`BestFirst` searches the same R-tree as the engine does. `scores_of_members` is the least that following a
query inside its zone can cost: the scores of its members, in a bare loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers
from rankcast.moving.kernels.rtree import Rtree
from rankcast.moving.kernels.rtree_search import BOARD, NODES, Queries, Space, best_first, space_for
from rankcast.moving.kernels.scores import Form, value
from rankcast.moving.kernels.zone_follow import Held
from rankcast.moving.topk import MovingTopK
from rankcast.moving.topk_zones import ZoneMethod
from rankcast.structures.distance import distance
from rankcast.structures.jit import EXACT


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _search(
    form: Form, tree: Rtree, label: Integers, queries: Queries, space: Space
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
    form: Form, record: Floats, held: Held, rows: NDArray[np.int32], x: Floats, y: Floats, out: Floats
) -> None:
    """Write the scores (n, members) of the members of zones at new places."""
    start, count, member = held.start, held.count, held.member
    for i in range(rows.size):
        row = rows[i]
        for j in range(count[row]):
            o = member[start[row] + j]
            d = distance(form.metric, x[i], y[i], record[o, 0], record[o, 1])
            out[i, j] = value(form, record[o, 2], record[o, 3], d)


def zones_of(engine: MovingTopK) -> ZoneMethod:
    """What an engine with `method="zone"` keeps."""
    return cast(ZoneMethod, engine._zoned)


class BestFirst:
    """Answers every position by a search; `found` has the last answer of each query: ids and scores."""

    def __init__(self, objects: Columns, over: Sequence[str], score: Any, k: int) -> None:
        engine = MovingTopK(over=list(over), k=k, score=score)
        engine.upsert(objects)
        self._zoned = zones_of(engine)
        self._ids, self._k = objects["id"], k
        self._last: tuple[Any, Any, Any] = (np.empty(0), np.empty(0), np.empty(0))
        self._space: Space | None = None
        self.nodes = 0

    def search(self, x: Floats, y: Floats) -> tuple[Any, Floats]:
        """The rows and scores (n, k) of the best objects from places."""
        none = np.empty((x.size, 0))
        queries = Queries(x, y, np.full(x.size, self._k), none, none, filtered=False)
        zoned = self._zoned
        self._space = space_for(zoned.places.tree, self._k, self._space)
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
