"""The full relation graph G* over two indexes of boxes: every covering relation counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.covering.graph import NOBODY, Departure, IndexPair
from rankcast.covering.kernels import full
from rankcast.covering.kernels.buckets import COVERED, FORWARDED, GONE, LEAVING, World
from rankcast.covering.kernels.full import FullGraph
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Rows

NO_ROW = -1


class FullRelationGraph(IndexPair):
    """G*: how many rows cover each covered one. Memory: 4 bytes a row and the indexes (see `BoxIndex`)."""

    kernels: ClassVar[Any] = full

    def __init__(self, kind: str, attributes: int) -> None:
        super().__init__(kind, attributes, both=True)
        self._degree = np.zeros(0, np.int32)

    def unsubscribe(self, world: World, rows: Rows) -> Departure:
        """Remove rows, net: whoever is left without a cover is forwarded."""
        full.take_out(self.graph(), world, rows, GONE)
        return self._forward(world, rows, NO_ROW, None)

    def release(self, world: World, row: int, limit: int) -> Departure:
        """Go on removing one row, forwarding no more than `limit` of those it covers."""
        rows = np.array([row], np.int32)
        if world.standing[row] == COVERED:
            return self.unsubscribe(world, rows)
        if world.standing[row] == FORWARDED:
            full.count_in(self.graph(), world, row, -1)
            world.standing[row] = LEAVING
        told = self._forward(world, rows, row, limit)
        if told.gone.size:
            full.take_out(self.graph(), world, rows, GONE)
        return told

    def amend(self, world: World, rows: Rows, write: Callable[[], None]) -> Departure:
        """Give rows other boxes, which `write` writes, net."""
        full.take_out(self.graph(), world, rows, COVERED)
        self._degree[rows] = 1  # not free while they have no box
        write()
        self.run(full.enter, world, rows)
        full.recount(self.graph(), world, rows)
        return self._forward(world, NOBODY, NO_ROW, None)

    def graph(self) -> FullGraph:
        """The graph as kernels take it."""
        return FullGraph(self.front.index, self.back.index, self._degree)

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`."""
        if rows > self._degree.size:
            self._degree = grown(self._degree, rows, 0)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The degrees and both indexes."""
        header, arrays = super().state()
        return header, {**arrays, "degree": self._degree}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        super().restore(header, arrays)
        self._degree = np.array(arrays["degree"])
        return self

    def _forms(self) -> dict[str, integrity.Form]:
        return {"degree": integrity.like(self._degree)}

    def check_restored(self, world: World) -> None:
        """Refuse a state from a snapshot that is not that of the owner's rows; see `integrity`."""
        super().check_restored(world)
        live = np.flatnonzero(world.standing != GONE)
        integrity.need(live.max(initial=-1) < self._degree.size, "degree", "is too short")

    def check(self, world: World) -> None:
        """Assert that the degree of every covered row is the number of rows that cover it."""
        super().check(world)
        covered = np.flatnonzero(world.standing == COVERED).astype(np.int32)
        fresh = np.zeros_like(self._degree)
        full.recount(self.graph()._replace(degree=fresh), world, covered)
        assert np.array_equal(self._degree[covered], fresh[covered])

    def _forward(self, world: World, gone: Rows, row: int, limit: int | None) -> Departure:
        """Forward free rows, no more than the limit; nobody is gone before the last of them."""
        free = full.free_rows(self.graph(), world, row)
        free = free[np.argsort(world.sequence[free])]
        told = free[:limit]
        self.run(full.forward, world, told)
        return Departure(gone if told.size == free.size else NOBODY, told, told.size)
