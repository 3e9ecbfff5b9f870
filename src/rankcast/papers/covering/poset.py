"""The strict poset: covering relations with none between, for comparison [Covering §III-D, figure 4].

Rows are ordered by containment, equal boxes by registration. Of all pairs only those are edges that have no
row between them; every other relation is a path. An edge stands in two chains: of those that leave its source
(OUT) and of those that enter its target (IN).

A row that goes frees no others than those right below it, and equal ones that it covered because it was
forwarded first; these look for a forwarded row around them, containers first, as for G_1.

Cost: O(n d) and the square of the relations of a row, for each row that comes or goes. That is what makes the
poset the most expensive graph.
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
    same_box,
)
from rankcast.covering.kernels.index import containers_first, find, insert, remove
from rankcast.papers.covering.full import needs_room
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.structures.jit import EXACT
from rankcast.tables.schema import Rows

NONE = -1
OUT, IN = range(2)
SOURCE, TARGET, AFTER, BEFORE, FIELDS = 0, 1, 2, 4, 6  # AFTER + OUT, AFTER + IN, BEFORE + OUT, BEFORE + IN
USED, FREE, LIVE, WANTED, META = range(5)


class Poset(NamedTuple):
    """The indexes over forwarded and over covered boxes, the edges, and the first of each row's chains."""

    front: IndexArrays
    back: IndexArrays
    edge: Rows
    first: Rows
    meta: NDArray[np.int64]


@njit(**EXACT)
def _above(subs: Subscriptions, one: int, other: int) -> bool:
    """Whether a row stands above another: it contains it and, if equal, was registered before."""
    if one == other or not covers(subs, one, own_boxes(subs), other, NO_ROW):
        return False
    return not same_box(subs.lo, subs.hi, one, other) or subs.sequence[one] < subs.sequence[other]


@njit(**EXACT)
def _link(poset: Poset, source: int, target: int) -> None:
    edge, edges, first = poset.meta[FREE], poset.edge, poset.first
    if edge != NONE:
        poset.meta[FREE] = edges[edge, AFTER]
    else:
        edge = poset.meta[USED]
        poset.meta[USED] += 1
    poset.meta[LIVE] += 1
    edges[edge, SOURCE], edges[edge, TARGET] = source, target
    for chain in range(2):
        follower = first[edges[edge, chain], chain]
        edges[edge, AFTER + chain], edges[edge, BEFORE + chain] = follower, NONE
        first[edges[edge, chain], chain] = edge
        if follower != NONE:
            edges[follower, BEFORE + chain] = edge


@njit(**EXACT)
def _unlink(poset: Poset, edge: int) -> None:
    edges, first = poset.edge, poset.first
    for chain in range(2):
        after, before = edges[edge, AFTER + chain], edges[edge, BEFORE + chain]
        if before != NONE:
            edges[before, AFTER + chain] = after
        else:
            first[edges[edge, chain], chain] = after
        if after != NONE:
            edges[after, BEFORE + chain] = before
    edges[edge, AFTER], poset.meta[FREE] = poset.meta[FREE], edge
    poset.meta[LIVE] -= 1


@njit(**EXACT)
def ends(poset: Poset, row: int, chain: int) -> Rows:
    """The rows right below a row (OUT) or right above it (IN)."""
    count, edge = 0, poset.first[row, chain]
    while edge != NONE:
        count += 1
        edge = poset.edge[edge, AFTER + chain]
    found, edge = np.empty(count, np.int32), poset.first[row, chain]
    for i in range(count):
        found[i] = poset.edge[edge, 1 - chain]
        edge = poset.edge[edge, AFTER + chain]
    return found


@njit(**EXACT)
def _all_above(poset: Poset, subs: Subscriptions, row: int) -> Rows:
    """All rows that stand above a row."""
    found = np.empty(poset.front.meta[POINTS] + poset.back.meta[POINTS] + 1, np.int32)
    query, kept = query_for(own_boxes(subs), row, NO_ROW), 0
    count = find(poset.back, subs, query, found, find(poset.front, subs, query, found, np.int64(0)))
    for i in range(count):
        if _above(subs, found[i], row):
            found[kept] = found[i]
            kept += 1
    return found[:kept]


@njit(**EXACT)
def _all_below(poset: Poset, subs: Subscriptions, row: int) -> Rows:
    """All rows that stand below a row. Cost: O(n d)."""
    found, count = np.empty(min(poset.first.shape[0], subs.status.shape[0]), np.int32), 0
    for other in range(found.shape[0]):
        if subs.status[other] != GONE and _above(subs, row, other):
            found[count] = other
            count += 1
    return found[:count]


@njit(**EXACT)
def _nearest(subs: Subscriptions, rows: Rows, chain: int) -> Rows:
    """Of rows above (IN) or below (OUT) one row those with none of the others between."""
    near, count = np.empty(rows.shape[0], np.int32), 0
    for one in rows:
        between = False
        for other in rows:
            if _above(subs, one, other) if chain == IN else _above(subs, other, one):
                between = True
                break
        if not between:
            near[count] = one
            count += 1
    return near[:count]


@njit(**EXACT)
def _has_room(poset: Poset, edges: int) -> bool:
    """Whether so many edges can be added; if not, notes how many are wanted."""
    poset.meta[WANTED] = edges
    return poset.edge.shape[0] - poset.meta[LIVE] >= edges


@njit(**EXACT)
def _attach(poset: Poset, subs: Subscriptions, row: int) -> bool:
    """Enter a row between its nearest rows, edges past it becoming paths; False if there is no room."""
    parents = _nearest(subs, _all_above(poset, subs, row), IN)
    children = _nearest(subs, _all_below(poset, subs, row), OUT)
    if not _has_room(poset, parents.shape[0] + children.shape[0]):
        return False
    poset.first[row, OUT], poset.first[row, IN] = NONE, NONE
    for parent in parents:
        edge = poset.first[parent, OUT]
        while edge != NONE:
            after = poset.edge[edge, AFTER + OUT]
            if _above(subs, row, poset.edge[edge, TARGET]):
                _unlink(poset, edge)
            edge = after
        _link(poset, parent, row)
    for child in children:
        _link(poset, row, child)
    return True


@njit(**EXACT)
def _detach(poset: Poset, subs: Subscriptions, row: int) -> bool:
    """Take a row out, its parents and children being neighbours now unless another way leads there."""
    parents, children = ends(poset, row, IN), ends(poset, row, OUT)
    if not _has_room(poset, parents.shape[0] * children.shape[0]):
        return False
    for chain in range(2):
        while poset.first[row, chain] != NONE:
            _unlink(poset, poset.first[row, chain])
    for parent in parents:
        others = ends(poset, parent, OUT)
        for child in children:
            apart = True
            for other in others:
                if _above(subs, other, child):
                    apart = False
                    break
            if apart:
                _link(poset, parent, child)
    return True


@njit(**EXACT)
def subscribe(poset: Poset, subs: Subscriptions, rows: Rows, covered_by: Rows, start: int) -> int:
    """Register rows from `start` on and tell who covers each; return how far, less if room must be made."""
    found, box = np.empty(1, np.int32), own_boxes(subs)
    for i in range(start, rows.shape[0]):
        row = rows[i]
        if needs_room(poset) or not _attach(poset, subs, row):
            return i
        if find(poset.front, subs, query_for(box, row, row), found, np.int64(0)) == 0:
            subs.status[row], covered_by[i] = FORWARDED, NONE
            insert(poset.front, subs, row)
        else:
            subs.status[row], covered_by[i] = COVERED, found[0]
            insert(poset.back, subs, row)
    return rows.shape[0]


@njit(**EXACT)
def enter(poset: Poset, subs: Subscriptions, rows: Rows, start: int) -> int:
    """Enter rows as covered ones; return how far."""
    for i in range(start, rows.shape[0]):
        if needs_room(poset) or not _attach(poset, subs, rows[i]):
            return i
        subs.status[rows[i]] = COVERED
        insert(poset.back, subs, rows[i])
    return rows.shape[0]


@njit(**EXACT)
def unlink_rows(poset: Poset, subs: Subscriptions, rows: Rows, start: int) -> int:
    """Remove rows; return how far."""
    for i in range(start, rows.shape[0]):
        if not _detach(poset, subs, rows[i]):
            return i
        remove(poset.back if subs.status[rows[i]] == COVERED else poset.front, subs, rows[i])
        subs.status[rows[i]] = GONE
    return rows.shape[0]


@njit(**EXACT)
def dependants(poset: Poset, subs: Subscriptions, rows: Rows) -> Rows:
    """Covered rows that may need another cover if rows go: right below them, or above them and equal."""
    touched = np.zeros(poset.first.shape[0], np.bool_)
    for row in rows:
        for other in ends(poset, row, OUT):
            touched[other] = True
        for other in _all_above(poset, subs, row):
            touched[other] |= same_box(subs.lo, subs.hi, other, row)
    found = np.flatnonzero(touched).astype(np.int32)
    return found[subs.status[found] == COVERED]


@njit(**EXACT)
def exposed(poset: Poset, subs: Subscriptions, rows: Rows) -> Rows:
    """Those of covered rows that no forwarded row covers."""
    bare, count, one, box = np.empty_like(rows), 0, np.empty(1, np.int32), own_boxes(subs)
    for row in rows:
        if find(poset.front, subs, query_for(box, row, row), one, np.int64(0)) == 0:
            bare[count] = row
            count += 1
    return bare[:count]


@njit(**EXACT)
def resettle(poset: Poset, subs: Subscriptions, rows: Rows, start: int) -> int:
    """Forward those of covered rows, containers first, that no forwarded row covers; return how far."""
    one, box = np.empty(1, np.int32), own_boxes(subs)
    for i in range(start, rows.shape[0]):
        if needs_room(poset):
            return i
        if find(poset.front, subs, query_for(box, rows[i], rows[i]), one, np.int64(0)) == 0:
            remove(poset.back, subs, rows[i])
            subs.status[rows[i]] = FORWARDED
            insert(poset.front, subs, rows[i])
    return rows.shape[0]


@njit(**EXACT)
def edges_fit(edge: Rows, first: Rows, meta: NDArray[np.int64], status: NDArray[np.int8]) -> bool:
    """Whether the edges of a poset are consistent."""
    used, rows = meta[USED], status.size
    if not (0 <= meta[LIVE] <= used <= edge.shape[0]):
        return False
    seen, known = np.zeros(used, np.int8), 0
    for chain in range(2):
        known = 0
        for row in range(rows):
            if status[row] == GONE:
                continue
            if row >= first.shape[0]:
                return False
            here, before = np.int64(first[row, chain]), np.int64(NONE)
            while here != NONE:
                if here < 0 or here >= used or seen[here] != chain or edge[here, chain] != row:
                    return False
                other = np.int64(edge[here, 1 - chain])
                if other < 0 or other >= rows or status[other] == GONE:
                    return False
                if edge[here, BEFORE + chain] != before:
                    return False
                seen[here], known = chain + 1, known + 1
                before, here = here, np.int64(edge[here, AFTER + chain])
        if known != meta[LIVE]:
            return False
    free = meta[FREE]
    while free != NONE:
        if free < 0 or free >= used or seen[free] != 0:
            return False
        seen[free], known = 1, known + 1
        free = np.int64(edge[free, AFTER])
    return known == used


class PosetGraph(IndexedGraph):
    """The strict poset. Memory: 8 bytes per row, 24 an edge, and the indexes (see `ContainmentIndex`)."""

    _subscribe = staticmethod(subscribe)

    def __init__(self, kind: str, attributes: int) -> None:
        super().__init__(kind, attributes, both=True)
        self._edge = np.full((0, FIELDS), NONE, np.int32)
        self._first = np.full((0, 2), NONE, np.int32)
        self._meta = np.zeros(META, np.int64)
        self._meta[FREE] = NONE

    def unsubscribe(self, subs: Subscriptions, rows: Rows) -> Outcome:
        """Remove rows, net: whoever is left without a cover is forwarded."""
        below = dependants(self.graph(), subs, rows)
        self.run(unlink_rows, subs, rows)
        return self._resettle(subs, rows, below[subs.status[below] == COVERED])

    def release(self, subs: Subscriptions, row: int, limit: int) -> Outcome:
        """Go on removing one row, forwarding no more than `limit` of those it covers."""
        rows = np.array([row], np.int32)
        if subs.status[row] == COVERED:
            return self.unsubscribe(subs, rows)
        subs.status[row] = LEAVING
        graph = self.graph()
        bare = exposed(graph, subs, dependants(graph, subs, rows))
        change = self._resettle(subs, NO_ROWS, bare, limit)
        if bare.size > limit:
            return change
        self.run(unlink_rows, subs, rows)
        return change._replace(gone=rows)

    def amend(self, subs: Subscriptions, rows: Rows, write: Callable[[], Subscriptions]) -> Outcome:
        """Give rows other boxes, which `write` writes, net."""
        below = dependants(self.graph(), subs, rows)
        self.run(unlink_rows, subs, rows)
        below = below[subs.status[below] == COVERED]
        subs = write()
        self.run(enter, subs, rows)
        return self._resettle(subs, NO_ROWS, np.concatenate([below, rows]))._replace(freed=below.size)

    def graph(self) -> Poset:
        """The graph as kernels take it."""
        return Poset(self.front.index, self.back.index, self._edge, self._first, self._meta)

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`."""
        super().reserve(rows)
        if rows > len(self._first):
            self._first = grown(self._first, rows, NONE)

    def make_room(self, subs: Subscriptions) -> None:
        """Let the indexes take the next row, and the edges as many as are wanted."""
        super().make_room(subs)
        least = int(self._meta[LIVE] + self._meta[WANTED])
        if least > len(self._edge):
            self._edge = grown(self._edge, max(least, len(self._edge) * 5 // 4), NONE)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The edges and both indexes."""
        header, arrays = super().state()
        return header, {**arrays, "edge": self._edge, "first": self._first, "poset": self._meta}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        super().restore(header, arrays)
        self._edge, self._first = np.array(arrays["edge"]), np.array(arrays["first"])
        self._meta = np.array(arrays["poset"])
        return self

    def _forms(self) -> dict[str, integrity.Form]:
        own = {"edge": integrity.like(self._edge), "first": integrity.like(self._first)}
        return {**own, "poset": integrity.like(self._meta, length=META)}

    def check_restored(self, subs: Subscriptions) -> None:
        """Refuse a state from a snapshot that does not belong to the owner's rows; see `integrity`."""
        super().check_restored(subs)
        integrity.within(self._meta[WANTED : WANTED + 1], 0, len(self._edge) + 1, "poset")
        fit = edges_fit(self._edge, self._first, self._meta, subs.status)
        integrity.need(fit, "edge", "does not link rows to those next to them")

    def check(self, subs: Subscriptions) -> None:
        """Assert that the edges are the pairs of rows with none between. Cost: O(n^3)."""
        super().check(subs)
        live = np.flatnonzero(subs.status != GONE)
        lo, hi, sequence = subs.lo[live], subs.hi[live], subs.sequence[live]
        around = (lo[:, None] <= lo[None]).all(axis=2) & (hi[:, None] >= hi[None]).all(axis=2)
        above = around & (~around.T | (sequence[:, None] < sequence[None]))
        near = above & ~((above.astype(np.float32) @ above.astype(np.float32)) > 0)
        expected = {(int(live[one]), int(live[other])) for one, other in np.argwhere(near)}
        below = [ends(self.graph(), row, OUT).tolist() for row in live.tolist()]
        held = {(row, other) for row, others in zip(live.tolist(), below, strict=True) for other in others}
        assert held == expected
        assert self._meta[LIVE] == len(expected)

    def _resettle(self, subs: Subscriptions, gone: Rows, rows: Rows, limit: int | None = None) -> Outcome:
        """Let covered rows, containers first and no more than the limit, find a cover or be forwarded."""
        tried = containers_first(subs, rows)[:limit]
        self.run(resettle, subs, tried)
        forwarded = tried[subs.status[tried] == FORWARDED]
        return Outcome(gone, forwarded[np.argsort(subs.sequence[forwarded])], tried.size)
