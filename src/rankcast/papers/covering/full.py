"""The full relation graph G*: every covering relation counts [Covering §III-A].

Its edges are all pairs in which one box covers another, so they need not be stored: what matters is how many
lead to a covered row, `degree`. A row that comes or goes changes the degree of every row in its box; a
covered row whose degree falls to 0 is free. One that is leaving counts no more, but what lies in it is not
free yet.

Cost: O(n d) for each row that comes or goes. That is what makes G* the expensive graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.graph import NO_ROWS, IndexedGraph, Outcome
from rankcast.covering.kernels.containment import (
    COVERED,
    FORWARDED,
    GONE,
    LEAVING,
    NO_ROW,
    POINTS,
    IndexArrays,
    Subscriptions,
    covers,
    own_boxes,
    query_for,
)
from rankcast.covering.kernels.index import find, insert, remove, unprepared
from rankcast.covering.kernels.relation import index_covered
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.structures.jit import EXACT
from rankcast.tables.schema import Rows

NONE = -1


class FullGraph(NamedTuple):
    """The degrees by row, and the indexes over forwarded and over covered boxes."""

    front: IndexArrays
    back: IndexArrays
    degree: Rows


@njit(**EXACT)
def _all_coverers(graph: FullGraph, subs: Subscriptions, row: int) -> Rows:
    """All rows that cover a row."""
    found = np.empty(graph.front.meta[POINTS] + graph.back.meta[POINTS] + 1, np.int32)
    query = query_for(own_boxes(subs), row, row)
    count = find(graph.front, subs, query, found, np.int64(0))
    return found[: find(graph.back, subs, query, found, count)]


@njit(**EXACT)
def count_in(graph: FullGraph, subs: Subscriptions, row: int, change: int) -> None:
    """Change the degree of every covered row that a row covers."""
    box = own_boxes(subs)
    for other in range(min(graph.degree.shape[0], subs.status.shape[0])):
        if subs.status[other] == COVERED and covers(subs, row, box, other, other):
            graph.degree[other] += change


@njit(**EXACT)
def needs_room(graph: FullGraph) -> bool:
    """Whether the owner must make room before the next row."""
    return unprepared(graph.front) or unprepared(graph.back)


@njit(**EXACT)
def subscribe(graph: FullGraph, subs: Subscriptions, rows: Rows, covered_by: Rows, start: int) -> int:
    """Register rows from `start` on and tell who covers each; return how far, less if room must be made."""
    for i in range(start, rows.shape[0]):
        if needs_room(graph):
            return i
        row = rows[i]
        found = _all_coverers(graph, subs, row)
        graph.degree[row] = found.shape[0]
        subs.status[row] = COVERED if found.shape[0] > 0 else FORWARDED
        covered_by[i] = found[0] if found.shape[0] > 0 else NONE
        count_in(graph, subs, row, 1)
        insert(graph.back if found.shape[0] > 0 else graph.front, subs, row)
    return rows.shape[0]


@njit(**EXACT)
def unlink_rows(graph: FullGraph, subs: Subscriptions, rows: Rows, status: int) -> None:
    """Remove rows from the indexes, count them out unless that is done, and set their status."""
    for row in rows:
        if subs.status[row] != LEAVING:
            count_in(graph, subs, row, -1)
        remove(graph.back if subs.status[row] == COVERED else graph.front, subs, row)
        subs.status[row] = status


@njit(**EXACT)
def recount(graph: FullGraph, subs: Subscriptions, rows: Rows) -> None:
    """Count entered rows in, and what covers them."""
    for row in rows:
        count_in(graph, subs, row, 1)
    for row in rows:
        graph.degree[row] = _all_coverers(graph, subs, row).shape[0]


@njit(**EXACT)
def free_rows(graph: FullGraph, subs: Subscriptions, row: int) -> Rows:
    """Covered rows that nothing covers and that lie in no leaving row, unless that is the given one."""
    rows = np.arange(min(graph.degree.shape[0], subs.status.shape[0])).astype(np.int32)
    status = subs.status[: rows.shape[0]]
    leaving = rows[status == LEAVING]
    free = rows[(status == COVERED) & (graph.degree[: rows.shape[0]] == 0)]
    box, count = own_boxes(subs), 0
    for each in free:
        held = False
        for other in leaving:
            held = held or (other != row and covers(subs, other, box, each, NO_ROW))
        if not held:
            free[count] = each
            count += 1
    return free[:count]


@njit(**EXACT)
def forward(graph: FullGraph, subs: Subscriptions, rows: Rows, start: int) -> int:
    """Forward covered rows; return how far."""
    for i in range(start, rows.shape[0]):
        if needs_room(graph):
            return i
        remove(graph.back, subs, rows[i])
        subs.status[rows[i]] = FORWARDED
        insert(graph.front, subs, rows[i])
    return rows.shape[0]


class FullRelationGraph(IndexedGraph):
    """G*: how many rows cover each covered one.

    Memory: 4 bytes per row and the indexes (see `ContainmentIndex`).
    """

    _subscribe = staticmethod(subscribe)

    def __init__(self, kind: str, attributes: int) -> None:
        super().__init__(kind, attributes, both=True)
        self._degree = np.zeros(0, np.int32)

    def unsubscribe(self, subs: Subscriptions, rows: Rows) -> Outcome:
        """Remove rows, net: whoever is left without a cover is forwarded."""
        unlink_rows(self.graph(), subs, rows, GONE)
        return self._forward(subs, rows, NONE, None)

    def release(self, subs: Subscriptions, row: int, limit: int) -> Outcome:
        """Go on removing one row, forwarding no more than `limit` of those it covers."""
        rows = np.array([row], np.int32)
        if subs.status[row] == COVERED:
            return self.unsubscribe(subs, rows)
        if subs.status[row] == FORWARDED:
            count_in(self.graph(), subs, row, -1)
            subs.status[row] = LEAVING
        change = self._forward(subs, rows, row, limit)
        if change.gone.size:
            unlink_rows(self.graph(), subs, rows, GONE)
        return change

    def amend(self, subs: Subscriptions, rows: Rows, write: Callable[[], Subscriptions]) -> Outcome:
        """Give rows other boxes, which `write` writes, net."""
        unlink_rows(self.graph(), subs, rows, COVERED)
        self._degree[rows] = 1  # not free while they have no box
        subs = write()
        self.run(index_covered, subs, rows)
        recount(self.graph(), subs, rows)
        return self._forward(subs, NO_ROWS, NONE, None)

    def graph(self) -> FullGraph:
        """The graph as kernels take it."""
        return FullGraph(self.front.index, self.back.index, self._degree)

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`."""
        super().reserve(rows)
        if rows > self._degree.size:
            self._degree = grown(self._degree, rows, 0)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The degrees and both indexes."""
        header, arrays = super().state()
        return header, {**arrays, "degree": self._degree}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        super().restore(header, arrays)
        self._degree = np.array(arrays["degree"])
        return self

    def _forms(self) -> dict[str, integrity.Form]:
        return {"degree": integrity.like(self._degree)}

    def check_restored(self, subs: Subscriptions) -> None:
        """Refuse a state from a snapshot that does not belong to the owner's rows; see `integrity`."""
        super().check_restored(subs)
        live = np.flatnonzero(subs.status != GONE)
        integrity.need(live.max(initial=-1) < self._degree.size, "degree", "is too short")

    def check(self, subs: Subscriptions) -> None:
        """Assert that the degree of every covered row is the number of rows that cover it."""
        super().check(subs)
        covered = np.flatnonzero(subs.status == COVERED).astype(np.int32)
        fresh = np.zeros_like(self._degree)
        recount(self.graph()._replace(degree=fresh), subs, covered)
        assert np.array_equal(self._degree[covered], fresh[covered])

    def _forward(self, subs: Subscriptions, gone: Rows, row: int, limit: int | None) -> Outcome:
        """Forward free rows, no more than the limit; nobody is gone before the last of them."""
        free = free_rows(self.graph(), subs, row)
        free = free[np.argsort(subs.sequence[free])]
        change = free[:limit]
        self.run(forward, subs, change)
        return Outcome(gone if change.size == free.size else NO_ROWS, change, change.size)
