"""The strict poset over two indexes of boxes: covering relations with none between, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.covering.graph import NOBODY, Departure, IndexPair
from rankcast.covering.kernels import checks
from rankcast.covering.kernels.buckets import COVERED, FORWARDED, GONE, LEAVING, World
from rankcast.covering.kernels.order import containers_first
from rankcast.papers.covering import poset_kernels
from rankcast.papers.covering.poset_kernels import FIELDS, FREE, LIVE, META, NONE, OUT, WANTED, Poset
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Rows


class PosetGraph(IndexPair):
    """The strict poset. Memory: 8 bytes a row, 24 an edge, and the indexes (see `BoxIndex`)."""

    kernels: ClassVar[Any] = poset_kernels

    def __init__(self, kind: str, attributes: int) -> None:
        super().__init__(kind, attributes, both=True)
        self._edge = np.full((0, FIELDS), NONE, np.int32)
        self._first = np.full((0, 2), NONE, np.int32)
        self._meta = np.zeros(META, np.int64)
        self._meta[FREE] = NONE

    def unsubscribe(self, world: World, rows: Rows) -> Departure:
        """Remove rows, net: whoever is left without a cover is forwarded."""
        below = poset_kernels.dependants(self.graph(), world, rows)
        self.run(poset_kernels.take_out, world, rows)
        return self._resettle(world, rows, below[world.standing[below] == COVERED])

    def release(self, world: World, row: int, limit: int) -> Departure:
        """Go on removing one row, forwarding no more than `limit` of those it covers."""
        rows = np.array([row], np.int32)
        if world.standing[row] == COVERED:
            return self.unsubscribe(world, rows)
        world.standing[row] = LEAVING
        graph = self.graph()
        bare = poset_kernels.exposed(graph, world, poset_kernels.dependants(graph, world, rows))
        told = self._resettle(world, NOBODY, bare, limit)
        if bare.size > limit:
            return told
        self.run(poset_kernels.take_out, world, rows)
        return told._replace(gone=rows)

    def amend(self, world: World, rows: Rows, write: Callable[[], None]) -> Departure:
        """Give rows other boxes, which `write` writes, net."""
        below = poset_kernels.dependants(self.graph(), world, rows)
        self.run(poset_kernels.take_out, world, rows)
        below = below[world.standing[below] == COVERED]
        write()
        self.run(poset_kernels.enter, world, rows)
        return self._resettle(world, NOBODY, np.concatenate([below, rows]))._replace(freed=below.size)

    def graph(self) -> Poset:
        """The graph as kernels take it."""
        return Poset(self.front.index, self.back.index, self._edge, self._first, self._meta)

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`."""
        if rows > len(self._first):
            self._first = grown(self._first, rows, NONE)

    def make_room(self, world: World) -> None:
        """Let the indexes take the next row, and the edges as many as are wanted."""
        super().make_room(world)
        least = int(self._meta[LIVE] + self._meta[WANTED])
        if least > len(self._edge):
            self._edge = grown(self._edge, max(least, len(self._edge) * 5 // 4), NONE)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The edges and both indexes."""
        header, arrays = super().state()
        return header, {**arrays, "edge": self._edge, "first": self._first, "poset": self._meta}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        super().restore(header, arrays)
        self._edge, self._first = np.array(arrays["edge"]), np.array(arrays["first"])
        self._meta = np.array(arrays["poset"])
        return self

    def _forms(self) -> dict[str, integrity.Form]:
        own = {"edge": integrity.like(self._edge), "first": integrity.like(self._first)}
        return {**own, "poset": integrity.like(self._meta, length=META)}

    def check_restored(self, world: World) -> None:
        """Refuse a state from a snapshot that is not that of the owner's rows; see `integrity`."""
        super().check_restored(world)
        integrity.within(self._meta[WANTED : WANTED + 1], 0, len(self._edge) + 1, "poset")
        found = checks.poset(self._edge, self._first, self._meta, world.standing)
        integrity.need(found == checks.FITS, "edge", "does not link rows to those next to them")

    def check(self, world: World) -> None:
        """Assert that the edges are the pairs of rows with none between. Cost: O(n^3)."""
        super().check(world)
        live = np.flatnonzero(world.standing != GONE)
        lo, hi, sequence = world.lo[live], world.hi[live], world.sequence[live]
        around = (lo[:, None] <= lo[None]).all(axis=2) & (hi[:, None] >= hi[None]).all(axis=2)
        above = around & (~around.T | (sequence[:, None] < sequence[None]))
        near = above & ~((above.astype(np.float32) @ above.astype(np.float32)) > 0)
        expected = {(int(live[one]), int(live[other])) for one, other in np.argwhere(near)}
        below = [poset_kernels.ends(self.graph(), row, OUT).tolist() for row in live.tolist()]
        told = {(row, other) for row, others in zip(live.tolist(), below, strict=True) for other in others}
        assert told == expected
        assert self._meta[LIVE] == len(expected)

    def _resettle(self, world: World, gone: Rows, rows: Rows, limit: int | None = None) -> Departure:
        """Let covered rows, containers first and no more than the limit, find a cover or be forwarded."""
        tried = containers_first(world, rows)[:limit]
        self.run(poset_kernels.resettle, world, tried)
        forwarded = tried[world.standing[tried] == FORWARDED]
        return Departure(gone, forwarded[np.argsort(world.sequence[forwarded])], tried.size)
