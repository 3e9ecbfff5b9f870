"""What every relation graph has: an index over forwarded boxes and one over covered boxes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.covering.departures import NOBODY, Departure, Story, follow_by_calls
from rankcast.covering.index import BoxIndex
from rankcast.covering.kernels import full
from rankcast.covering.kernels import index as covering_index
from rankcast.covering.kernels.covering_buckets import COVERED, FORWARDED, Box, World
from rankcast.structures import integrity
from rankcast.tables.schema import Bools, Rows


class IndexPair(ABC):
    """`front` holds the rows that neighbours know; `back`, if it is used, the covered ones.

    A subclass names the module of `kernels` that has its `subscribe`.
    """

    kernels: ClassVar[Any]

    def __init__(self, kind: str, attributes: int, *, both: bool) -> None:
        self.front, self.back = BoxIndex(kind, attributes), BoxIndex(kind, attributes)
        self._both = both

    @abstractmethod
    def graph(self) -> Any:
        """The graph as kernels take it."""

    def subscribe(self, world: World, rows: Rows) -> Rows:
        """Register rows one after the other; returns for each one that covers it, or -1."""
        self.reserve(world.standing.size)
        covered_by = np.empty(rows.size, np.int32)
        self.run(self.kernels.subscribe, world, rows, covered_by)
        return covered_by

    @abstractmethod
    def unsubscribe(self, world: World, rows: Rows) -> Departure:
        """Remove rows, net: whoever is left without a cover is forwarded."""

    @abstractmethod
    def release(self, world: World, row: int, limit: int) -> Departure:
        """Go on removing one row, telling of no more than `limit` of those it covers."""

    @abstractmethod
    def amend(self, world: World, rows: Rows, write: Callable[[], None]) -> Departure:
        """Give rows other boxes, which `write` writes, net; they may be among the forwarded in the answer."""

    def follow(self, world: World, leaves: Bools, rows: Rows) -> Story:
        """Follow commands in turn: a row comes, or where `leaves` says so goes."""
        return follow_by_calls(self, world, leaves, rows)

    def coverers(self, world: World, rows: Rows) -> Rows:
        """For each row one that covers it, -1 for a forwarded one."""
        found: Rows = full.coverers(self.front.index, world, rows)
        return found

    def covers(self, world: World, boxes: Box, k: int) -> Rows:
        """For each box up to k live rows that contain it, a line each, filled up with -1."""
        found = np.full((boxes.lo.shape[0], k), -1, np.int32)
        full.containing(self.front.index, self.back.index, world, boxes, found)
        return found

    def stab(self, world: World, boxes: Box) -> tuple[Rows, NDArray[np.int64]]:
        """Rows that neighbours know and that contain each box, as registered, and where each list ends."""
        rows, ends = covering_index.stab(self.front.index, world, boxes)
        return rows, ends

    def tally(self) -> tuple[int, int]:
        """Nodes visited and points compared since the last call."""
        if not self._both:
            return self.front.tally()
        one, other = self.front.tally(), self.back.tally()
        return one[0] + other[0], one[1] + other[1]

    @abstractmethod
    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`."""

    def make_room(self, world: World) -> None:
        """Let the indexes take the next row."""
        self.front.ready(world)
        if self._both:
            self.back.ready(world)

    def run(self, kernel: Callable[..., int], world: World, rows: Rows, *told: Rows) -> None:
        """Run a kernel over rows, making room whenever it stops for that."""
        done = kernel(self.graph(), world, rows, *told, 0)
        while done < rows.size:
            self.make_room(world)
            done = kernel(self.graph(), world, rows, *told, done)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Both indexes."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, index in (("front", self.front), ("back", self.back)):
            arrays |= {f"{name}.{array}": values for array, values in index.state()[1].items()}
        return {}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        for name, index in (("front", self.front), ("back", self.back)):
            prefix = f"{name}."
            mine = {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}
            index.restore(header, mine)
        own = {name: array for name, array in arrays.items() if not name.startswith(("front.", "back."))}
        integrity.forms(own, self._forms())
        return self

    @abstractmethod
    def _forms(self) -> dict[str, integrity.Form]:
        """The forms of the arrays beside those of the indexes."""

    def check_restored(self, world: World) -> None:
        """Refuse a state from a snapshot that is not that of the owner's rows; see `integrity`."""
        self.front.check_restored(world, world.standing >= FORWARDED, "front")
        covered = world.standing == COVERED
        self.back.check_restored(world, covered if self._both else np.zeros_like(covered), "back")

    def check(self, world: World) -> None:
        """Assert that the indexes hold what they should."""
        self.front.check(world)
        self.back.check(world)
        assert np.array_equal(self.front.rows(), np.flatnonzero(world.standing >= FORWARDED))
        covered = np.flatnonzero(world.standing == COVERED) if self._both else NOBODY
        assert np.array_equal(self.back.rows(), covered)
