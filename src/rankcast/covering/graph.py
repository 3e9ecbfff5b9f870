"""The relation graph G_k over two indexes of boxes: what is forwarded, what is covered and by whom.

What every relation graph has: an index over forwarded boxes and one over covered boxes.

What commands do to a table of covering relations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.covering.index import BoxIndex
from rankcast.covering.kernels import calls, checks, full, relation, sequence
from rankcast.covering.kernels import index as covering_index
from rankcast.covering.kernels.buckets import (
    COMPARISONS,
    COVERED,
    FORWARDED,
    GONE,
    LEAVING,
    NODES_VISITED,
    Box,
    World,
)
from rankcast.covering.kernels.relation import FIELDS, LIVE, NONE, SOURCE, TARGET, Graph
from rankcast.covering.kernels.sequence import ACTION, BY, COVER, DROP, FORWARD, NODES, ROW, WITHDRAW
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Bools, Rows

NOBODY: Rows = np.empty(0, np.int32)


class Departure(NamedTuple):
    """Who is gone, who is forwarded now as registered, and how many had to look for another cover."""

    gone: Rows
    forwarded: Rows
    freed: int


class Story(NamedTuple):
    """What a sequence of commands came to.

    `told` has a line for each action in turn: row, action, and who covers it or -1. Unsubscribes made `freed`
    rows look for another cover, one of them `freed_most`. Nodes visited and points compared for both kinds.
    """

    told: Rows
    freed: int
    freed_most: int
    subscribing: tuple[int, int]
    unsubscribing: tuple[int, int]


class Relations(Protocol):
    """What keeps the standing of rows: brute force, or one of the relation graphs.

    The owner passes the `World` of all rows with every call; the relations set `standing` in it.
    """

    def subscribe(self, world: World, rows: Rows) -> Rows:
        """Register rows one after the other; returns for each one that covers it, or -1."""

    def unsubscribe(self, world: World, rows: Rows) -> Departure:
        """Remove rows, net: whoever is left without a cover is forwarded."""

    def follow(self, world: World, leaves: Bools, rows: Rows) -> Story:
        """Follow commands in turn: a row comes, or where `leaves` says so goes."""

    def release(self, world: World, row: int, limit: int) -> Departure:
        """Go on removing one row, looking at no more than `limit` of those it covers."""

    def amend(self, world: World, rows: Rows, write: Callable[[], None]) -> Departure:
        """Give rows other boxes, which `write` writes, net; they may be among the forwarded in the answer."""

    def coverers(self, world: World, rows: Rows) -> Rows:
        """For each row one that covers it, -1 for a forwarded one."""

    def covers(self, world: World, boxes: Box, k: int) -> Rows:
        """For each box up to k live rows that contain it, a line each, filled up with -1."""

    def stab(self, world: World, boxes: Box) -> tuple[Rows, NDArray[np.int64]]:
        """Rows that neighbours know and that contain each box, as registered, and where each list ends."""

    def tally(self) -> tuple[int, int]:
        """Nodes visited and points compared since the last call."""


def follow_by_calls(relations: Relations, world: World, leaves: Bools, rows: Rows) -> Story:
    """Follow commands by a call for each unsubscribe and each run of subscribes."""
    told, freed, searched = [lines(NOBODY, FORWARD, NOBODY)], [0], np.zeros((2, 2), np.int64)
    borders = np.flatnonzero(np.r_[leaves.size > 0, leaves[1:] | leaves[:-1], True])
    for start, stop in pairwise(borders.tolist()):
        run = rows[start:stop]
        if leaves[start]:
            action = DROP if world.standing[run[0]] == COVERED else WITHDRAW
            gone = relations.unsubscribe(world, run)
            told += [lines(run, action, -1), lines(gone.forwarded, FORWARD, -1)]
            freed.append(gone.freed)
        else:
            by = relations.subscribe(world, run)
            told.append(lines(run, np.where(by < 0, FORWARD, COVER), by))
        searched[int(leaves[start])] += relations.tally()
    came, went = ((int(nodes), int(points)) for nodes, points in searched)
    return Story(np.concatenate(told), sum(freed), max(freed), came, went)


def lines(rows: Rows, action: Any, by: Any) -> Rows:
    """Lines of a story."""
    made = np.empty((rows.size, 3), np.int32)
    made[:, ROW], made[:, ACTION], made[:, BY] = rows, action, by
    return made


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


class RelationGraph(IndexPair):
    """G_k: each covered row remembers up to k rows that cover it.

    Rows are those of the owner, who passes the `World` of their boxes and standing with every call; the graph
    sets the standing. Memory: 4 bytes a row (k > 1: 8), 16 k bytes a covered row, and the indexes (see
    `BoxIndex`), over forwarded rows only if k is 1.
    """

    kernels: ClassVar[Any] = relation

    def __init__(self, kind: str, attributes: int, k: int) -> None:
        super().__init__(kind, attributes, both=k > 1)
        self._k = k
        self._edge = np.full((0, FIELDS), NONE, np.int32)
        self._first = self._block = np.full(0, NONE, np.int32)
        self._meta = np.array([0, NONE, 0])

    def unsubscribe(self, world: World, rows: Rows) -> Departure:
        """Remove rows, net: whoever is left without a cover is forwarded."""
        return self.resettle(world, rows, calls.depart(self.plain(), tuple(world), rows, GONE))

    def follow(self, world: World, leaves: Bools, rows: Rows) -> Story:
        """Follow commands in turn, in one call of a kernel as long as nobody must make room."""
        self.reserve(world.standing.size)
        told, totals = np.empty((rows.size + 16, 3), np.int32), np.zeros(4, np.int64)
        done = count = 0
        while done < rows.size:
            done, told, count, alone, settled = sequence.follow(
                self.graph(), world, leaves, rows, done, told, count, totals
            )
            if settled < alone.size:
                before = self._searched()
                forwarded = self.resettle(world, NOBODY, alone, settled).forwarded
                totals[NODES:] += self._searched() - before
                told = np.concatenate([told[:count], lines(forwarded, FORWARD, NONE), told[count:]])
                count += forwarded.size
            elif done < rows.size:
                self.make_room(world)
        freed, most, *went = totals.tolist()
        nodes, points = self.tally()
        return Story(told[:count], freed, most, (nodes - went[0], points - went[1]), (went[0], went[1]))

    def release(self, world: World, row: int, limit: int) -> Departure:
        """Go on removing one row: look at up to `limit` of those it covers.

        The row is gone with the last of them. Until then neighbours know it, and it covers those it covered.
        """
        rows = np.array([row], np.int32)
        if world.standing[row] == COVERED:
            return self.unsubscribe(world, rows)
        world.standing[row] = LEAVING
        relation.arrange(self.graph(), world, row, limit)
        told = self.resettle(world, NOBODY, relation.orphans(self.graph(), rows, limit))
        if self._first[row] != NONE:
            return told
        relation.take_out(self.graph(), world, rows, GONE)
        return told._replace(gone=rows)

    def amend(self, world: World, rows: Rows, write: Callable[[], None]) -> Departure:
        """Give rows other boxes, which `write` writes; all of them may find a cover or be forwarded."""
        alone = calls.depart(self.plain(), tuple(world), rows, COVERED)
        write()
        if self._k > 1:
            self.run(full.enter, world, rows)
        both = calls.in_order(tuple(world), np.concatenate([alone, rows]))
        return self.resettle(world, NOBODY, both)._replace(freed=alone.size)

    def coverers(self, world: World, rows: Rows) -> Rows:
        """For each row one that covers it, -1 for a forwarded one."""
        found: Rows = calls.coverers(self.plain(), tuple(world), rows)
        return found

    def covers(self, world: World, boxes: Box, k: int) -> Rows:
        """For each box up to k live rows that contain it, a line each, filled up with -1."""
        if self._k > 1:
            return super().covers(world, boxes, k)
        found = np.full((boxes.lo.shape[0], k), -1, np.int32)
        relation.containing(self.graph(), world, boxes, found)
        return found

    def graph(self) -> Graph:
        """The graph as kernels take it."""
        return Graph(self.front.index, self.back.index, *self._own())

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`."""
        if rows > self._first.size:
            self._first = grown(self._first, rows, NONE)
            self._block = grown(self._block, rows, NONE) if self._k > 1 else self._first

    def make_room(self, world: World) -> None:
        """Let the indexes take the next row, and a block of edges be taken."""
        super().make_room(world)
        live = int(self._meta[LIVE])
        if self._k * live == len(self._edge):
            self._edge = grown(self._edge, self._k * (live + live // 16 + 16), NONE)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The edges and both indexes."""
        header, arrays = super().state()
        mine = {"edge": self._edge, "first": self._first, "blocks": self._meta}
        return header, {**arrays, **mine, **({"block": self._block} if self._k > 1 else {})}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        super().restore(header, arrays)
        self._edge, self._first, self._meta = (np.array(arrays[name]) for name in ("edge", "first", "blocks"))
        self._block = np.array(arrays["block"]) if self._k > 1 else self._first
        return self

    def _forms(self) -> dict[str, integrity.Form]:
        own = {"edge": integrity.like(self._edge), "first": integrity.like(self._first)}
        own["blocks"] = integrity.like(self._meta, length=self._meta.size)
        return {**own, **({"block": integrity.like(self._block)} if self._k > 1 else {})}

    def check_restored(self, world: World) -> None:
        """Refuse a state from a snapshot that is not that of the owner's rows; see `integrity`."""
        super().check_restored(world)
        edge, first, block, meta, k = self._own()
        integrity.need(first.size == block.size, "block", f"has not {first.size} entries")
        integrity.need(len(edge) % k == 0, "edge", f"is not blocks of {k} edges")
        found = checks.edges(edge, first, block, meta, k, world.standing)
        integrity.need(found == checks.FITS, "edge", "does not link covered rows to their covers")

    def check(self, world: World) -> None:
        """Assert that every covered row remembers live rows that cover it, and forwarded ones none."""
        super().check(world)
        covered = np.flatnonzero(world.standing == COVERED)
        blocks = self._block[covered]
        assert np.unique(blocks).size == covered.size == self._meta[LIVE]
        edges = self._edge.reshape(-1, self._k, FIELDS)[blocks]
        assert (edges[:, :, TARGET] == covered[:, None]).all()
        known = edges[:, :, SOURCE] >= 0
        assert known.any(axis=1).all()
        place = np.nonzero(known)[0]
        above, target = edges[known][:, SOURCE], covered[place]
        assert (world.standing[above] != GONE).all()
        assert (world.lo[above] <= world.lo[target]).all()
        assert (world.hi[above] >= world.hi[target]).all()

    def _own(self) -> tuple[Any, ...]:
        """The edges as the fields of a `Graph`."""
        return self._edge, self._first, self._block, self._meta, self._k

    def plain(self) -> tuple[Any, ...]:
        """The graph as `relation_calls` takes it."""
        return tuple(self.front.index), tuple(self.back.index), *self._own()

    def _searched(self) -> NDArray[np.int64]:
        """Nodes visited and points compared since the last tally."""
        total: NDArray[np.int64] = (self.front.index.meta + self.back.index.meta)[
            [NODES_VISITED, COMPARISONS]
        ]
        return total

    def resettle(self, world: World, gone: Rows, alone: Rows, settled: int = 0) -> Departure:
        """Let rows that are alone, containers first, find a cover or be forwarded, if they have not yet."""
        if not alone.size:
            return Departure(gone, NOBODY, 0)
        while settled < alone.size:
            settled = calls.resettle(self.plain(), tuple(world), alone, settled)
            if settled < alone.size:
                self.make_room(world)
        forwarded = alone[world.standing[alone] == FORWARDED]
        return Departure(gone, forwarded[np.argsort(world.sequence[forwarded])], alone.size)
