"""Relation graphs over indexes of boxes: which rows are forwarded, which are covered and by which others.

`Relations` is what a `CoveringTable` needs of whatever keeps the covering relations. `IndexedGraph` is what
all relation graphs share: an index over forwarded boxes and one over covered boxes. `RelationGraph` is the
default, G_k [Covering §III-B]. The graphs of the paper that remember more are in `rankcast.papers.covering`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.covering.index import ContainmentIndex
from rankcast.covering.kernels import calls, relation
from rankcast.covering.kernels import index as index_kernels
from rankcast.covering.kernels.calls import (
    ACTION,
    BY,
    COVER,
    DROP,
    FORWARD,
    ROW,
    SEQUENCE_NODES,
    WITHDRAW,
)
from rankcast.covering.kernels.containment import (
    COMPARISONS,
    COVERED,
    FORWARDED,
    GONE,
    LEAVING,
    NODES_VISITED,
    QueryBoxes,
    Subscriptions,
)
from rankcast.covering.kernels.relation import FIELDS, LIVE, NONE, SOURCE, TARGET, Graph
from rankcast.errors import SettingError, shown
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables import schema
from rankcast.tables.schema import Bools, Rows

NO_ROWS: Rows = np.empty(0, np.int32)
MOST = 65_536  # the largest k of G_k: a megabyte a covered subscription
# Graphs of the paper that exist to compare with: loaded when named.
GRAPHS = {
    "full": "rankcast.papers.covering.full:FullRelationGraph",
    "poset": "rankcast.papers.covering.poset:PosetGraph",
}


def known_graph(graph: object) -> int | str:
    """The setting `graph`: a whole number or a word."""
    if isinstance(graph, str) and graph in GRAPHS:
        return graph
    if isinstance(graph, str):
        raise SettingError(
            f"graph is {shown(graph)}", expected=f"a whole number or one of: {', '.join(GRAPHS)}"
        )
    if isinstance(graph, int) and graph > MOST:
        raise SettingError(
            f"graph is {shown(graph)}",
            expected=f'a whole number from 1 to {MOST}, or "full"',
            detail="Each covered subscription has room for as many that cover it.",
        )
    return schema.whole("graph", graph)


def plain_subscriptions(subs: Subscriptions) -> tuple[Any, ...]:
    """Subscriptions as `kernels.calls` takes them."""
    return (*subs[:4], *subs.sets)


class Outcome(NamedTuple):
    """What a change came to: rows removed, rows now forwarded, as registered, and how many lost a cover."""

    gone: Rows
    forwarded: Rows
    freed: int


class SequenceOutcome(NamedTuple):
    """What a sequence of commands came to.

    `actions` has a line for each action in turn: row, action, and who covers it or -1. Unsubscribes made
    `freed` rows look for another cover, one of them `freed_most`. Nodes visited and points compared for both
    kinds of commands.
    """

    actions: Rows
    freed: int
    freed_most: int
    subscribing: tuple[int, int]
    unsubscribing: tuple[int, int]


class Relations(Protocol):
    """What keeps the status of rows: brute force, or one of the relation graphs.

    The owner passes the `Subscriptions` of all rows with every call; the relations set their `status`.
    """

    def subscribe(self, subs: Subscriptions, rows: Rows) -> Rows:
        """Register rows one after the other; returns for each one that covers it, or -1."""

    def unsubscribe(self, subs: Subscriptions, rows: Rows) -> Outcome:
        """Remove rows, net: whoever is left without a cover is forwarded."""

    def follow(self, subs: Subscriptions, removals: Bools, rows: Rows) -> SequenceOutcome:
        """Follow commands in turn: add a row, or where `removals` says so remove it."""

    def release(self, subs: Subscriptions, row: int, limit: int) -> Outcome:
        """Go on removing one row, looking at no more than `limit` of those it covers."""

    def amend(self, subs: Subscriptions, rows: Rows, write: Callable[[], Subscriptions]) -> Outcome:
        """Give rows other boxes, which `write` writes, net; they may be among the forwarded in the answer.

        `write` returns the subscriptions as they are then.
        """

    def coverers(self, subs: Subscriptions, rows: Rows) -> Rows:
        """For each row one that covers it, -1 for a forwarded one."""

    def covers(self, subs: Subscriptions, boxes: QueryBoxes, k: int) -> Rows:
        """For each box up to k live rows that contain it, a line each, filled up with -1."""

    def stab(self, subs: Subscriptions, boxes: QueryBoxes) -> tuple[Rows, NDArray[np.int64]]:
        """Rows that neighbours know and that contain each box, as registered, and where each list ends."""

    def tally(self) -> tuple[int, int]:
        """Nodes visited and points compared since the last call."""


def follow_by_calls(
    relations: Relations, subs: Subscriptions, removals: Bools, rows: Rows
) -> SequenceOutcome:
    """Follow commands by a call for each unsubscribe and each run of subscribes."""
    actions, freed, searched = [action_lines(NO_ROWS, FORWARD, NO_ROWS)], [0], np.zeros((2, 2), np.int64)
    borders = np.flatnonzero(np.r_[removals.size > 0, removals[1:] | removals[:-1], True])
    for start, stop in pairwise(borders.tolist()):
        run = rows[start:stop]
        if removals[start]:
            action = DROP if subs.status[run[0]] == COVERED else WITHDRAW
            gone = relations.unsubscribe(subs, run)
            actions += [action_lines(run, action, -1), action_lines(gone.forwarded, FORWARD, -1)]
            freed.append(gone.freed)
        else:
            by = relations.subscribe(subs, run)
            actions.append(action_lines(run, np.where(by < 0, FORWARD, COVER), by))
        searched[int(removals[start])] += relations.tally()
    came, went = ((int(nodes), int(points)) for nodes, points in searched)
    return SequenceOutcome(np.concatenate(actions), sum(freed), max(freed), came, went)


def action_lines(rows: Rows, action: Any, by: Any) -> Rows:
    """Lines (row, action, by) of a `SequenceOutcome`."""
    made = np.empty((rows.size, 3), np.int32)
    made[:, ROW], made[:, ACTION], made[:, BY] = rows, action, by
    return made


class IndexedGraph(Relations):
    """`front` holds the rows that neighbours know; `back`, if it is used, the covered ones.

    A subclass names the kernel of its `subscribe`.
    """

    _subscribe: ClassVar[Any]

    def __init__(self, kind: str, attributes: int, *, both: bool) -> None:
        self.front, self.back = ContainmentIndex(kind, attributes), ContainmentIndex(kind, attributes)
        self._both = both

    @abstractmethod
    def graph(self) -> Any:
        """The graph as kernels take it."""

    def subscribe(self, subs: Subscriptions, rows: Rows) -> Rows:
        """Register rows one after the other; returns for each one that covers it, or -1."""
        self.reserve(subs.status.size)
        covered_by = np.empty(rows.size, np.int32)
        self.run(self._subscribe, subs, rows, covered_by)
        return covered_by

    def follow(self, subs: Subscriptions, removals: Bools, rows: Rows) -> SequenceOutcome:
        """Follow commands in turn: add a row, or where `removals` says so remove it."""
        return follow_by_calls(self, subs, removals, rows)

    def coverers(self, subs: Subscriptions, rows: Rows) -> Rows:
        """For each row one that covers it, -1 for a forwarded one."""
        found: Rows = index_kernels.coverers(self.front.index, subs, rows)
        return found

    def covers(self, subs: Subscriptions, boxes: QueryBoxes, k: int) -> Rows:
        """For each box up to k live rows that contain it, a line each, filled up with -1."""
        found = np.full((boxes.lo.shape[0], k), -1, np.int32)
        index_kernels.containing(self.front.index, self.back.index, subs, boxes, found)
        return found

    def stab(self, subs: Subscriptions, boxes: QueryBoxes) -> tuple[Rows, NDArray[np.int64]]:
        """Rows that neighbours know and that contain each box, as registered, and where each list ends."""
        rows, ends = index_kernels.stab(self.front.index, subs, boxes)
        return rows, ends

    def tally(self) -> tuple[int, int]:
        """Nodes visited and points compared since the last call."""
        if not self._both:
            return self.front.tally()
        one, other = self.front.tally(), self.back.tally()
        return one[0] + other[0], one[1] + other[1]

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`."""
        self.front.reserve(rows)
        if self._both:
            self.back.reserve(rows)

    def make_room(self, subs: Subscriptions) -> None:
        """Let the indexes take the next row."""
        self.front.prepare(subs)
        if self._both:
            self.back.prepare(subs)

    def run(self, kernel: Callable[..., int], subs: Subscriptions, rows: Rows, *out: Rows) -> None:
        """Run a kernel over rows, making room whenever it stops for that."""
        done = kernel(self.graph(), subs, rows, *out, 0)
        while done < rows.size:
            self.make_room(subs)
            done = kernel(self.graph(), subs, rows, *out, done)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Both indexes."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, index in (("front", self.front), ("back", self.back)):
            arrays |= {f"{name}.{array}": values for array, values in index.state()[1].items()}
        return {}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
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

    def check_restored(self, subs: Subscriptions) -> None:
        """Refuse a state from a snapshot that does not belong to the owner's rows; see `integrity`."""
        self.complete(subs)
        self.front.check_restored(subs, subs.status >= FORWARDED, "front")
        covered = subs.status == COVERED
        self.back.check_restored(subs, covered if self._both else np.zeros_like(covered), "back")

    def complete(self, subs: Subscriptions) -> None:
        """Rebuild indexes that a former version has written."""
        self.front.complete(subs, subs.status >= FORWARDED)
        if self._both:
            self.back.complete(subs, subs.status == COVERED)

    def check(self, subs: Subscriptions) -> None:
        """Assert that the indexes hold what they should."""
        self.front.check(subs)
        self.back.check(subs)
        assert np.array_equal(self.front.rows(), np.flatnonzero(subs.status >= FORWARDED))
        covered = np.flatnonzero(subs.status == COVERED) if self._both else NO_ROWS
        assert np.array_equal(self.back.rows(), covered)


class RelationGraph(IndexedGraph):
    """G_k: each covered row remembers up to k rows that cover it.

    Rows are those of the owner, who passes their boxes and status with every call; the graph sets the status.
    Memory: 4 bytes per row (k > 1: 8), 16 k bytes a covered row, and the indexes (see `ContainmentIndex`),
    over forwarded rows only if k is 1.
    """

    _subscribe = staticmethod(relation.subscribe)

    def __init__(self, kind: str, attributes: int, k: int) -> None:
        super().__init__(kind, attributes, both=k > 1)
        self._k = k
        self._edge = np.full((0, FIELDS), NONE, np.int32)
        self._first = self._block = np.full(0, NONE, np.int32)
        self._meta = np.array([0, NONE, 0])

    def unsubscribe(self, subs: Subscriptions, rows: Rows) -> Outcome:
        """Remove rows, net: whoever is left without a cover is forwarded."""
        return self.resettle(
            subs, rows, calls.remove_rows(self.plain(), plain_subscriptions(subs), rows, GONE)
        )

    def follow(self, subs: Subscriptions, removals: Bools, rows: Rows) -> SequenceOutcome:
        """Follow commands in turn, in one call of a kernel as long as there is room."""
        self.reserve(subs.status.size)
        actions, totals = np.empty((rows.size + 16, 3), np.int32), np.zeros(4, np.int64)
        done = count = 0
        while done < rows.size:
            done, actions, count, orphaned, settled = calls.follow(
                self.graph(), subs, removals, rows, done, actions, count, totals
            )
            if settled < orphaned.size:
                before = self._searched()
                forwarded = self.resettle(subs, NO_ROWS, orphaned, settled).forwarded
                totals[SEQUENCE_NODES:] += self._searched() - before
                fresh = action_lines(forwarded, FORWARD, NONE)
                actions = np.concatenate([actions[:count], fresh, actions[count:]])
                count += forwarded.size
            elif done < rows.size:
                self.make_room(subs)
        freed, most, *went = totals.tolist()
        nodes, points = self.tally()
        return SequenceOutcome(
            actions[:count], freed, most, (nodes - went[0], points - went[1]), (went[0], went[1])
        )

    def release(self, subs: Subscriptions, row: int, limit: int) -> Outcome:
        """Go on removing one row: look at up to `limit` of those it covers.

        The row is gone with the last of them. Until then neighbours know it, and it covers those it covered.
        """
        rows = np.array([row], np.int32)
        if subs.status[row] == COVERED:
            return self.unsubscribe(subs, rows)
        subs.status[row] = LEAVING
        relation.arrange(self.graph(), subs, row, limit)
        change = self.resettle(subs, NO_ROWS, relation.orphans(self.graph(), rows, limit))
        if self._first[row] != NONE:
            return change
        relation.unlink_rows(self.graph(), subs, rows, GONE)
        return change._replace(gone=rows)

    def amend(self, subs: Subscriptions, rows: Rows, write: Callable[[], Subscriptions]) -> Outcome:
        """Give rows other boxes, which `write` writes; all of them may find a cover or be forwarded."""
        orphaned = calls.remove_rows(self.plain(), plain_subscriptions(subs), rows, COVERED)
        subs = write()
        if self._k > 1:
            self.run(relation.index_covered, subs, rows)
        both = calls.in_order(plain_subscriptions(subs), np.concatenate([orphaned, rows]))
        return self.resettle(subs, NO_ROWS, both)._replace(freed=orphaned.size)

    def coverers(self, subs: Subscriptions, rows: Rows) -> Rows:
        """For each row one that covers it, -1 for a forwarded one."""
        found: Rows = calls.coverers(self.plain(), plain_subscriptions(subs), rows)
        return found

    def covers(self, subs: Subscriptions, boxes: QueryBoxes, k: int) -> Rows:
        """For each box up to k live rows that contain it, a line each, filled up with -1."""
        if self._k > 1:
            return super().covers(subs, boxes, k)
        found = np.full((boxes.lo.shape[0], k), -1, np.int32)
        relation.containing(self.graph(), subs, boxes, found)
        return found

    def graph(self) -> Graph:
        """The graph as kernels take it."""
        return Graph(self.front.index, self.back.index, *self._own())

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`."""
        super().reserve(rows)
        if rows > self._first.size:
            self._first = grown(self._first, rows, NONE)
            self._block = grown(self._block, rows, NONE) if self._k > 1 else self._first

    def make_room(self, subs: Subscriptions) -> None:
        """Let the indexes take the next row, and a block of edges be taken."""
        super().make_room(subs)
        live = int(self._meta[LIVE])
        if self._k * live == len(self._edge):
            self._edge = grown(self._edge, self._k * (live + live // 16 + 16), NONE)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The edges and both indexes."""
        header, arrays = super().state()
        mine = {"edge": self._edge, "first": self._first, "blocks": self._meta}
        return header, {**arrays, **mine, **({"block": self._block} if self._k > 1 else {})}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        super().restore(header, arrays)
        self._edge, self._first, self._meta = (np.array(arrays[name]) for name in ("edge", "first", "blocks"))
        self._block = np.array(arrays["block"]) if self._k > 1 else self._first
        return self

    def _forms(self) -> dict[str, integrity.Form]:
        own = {"edge": integrity.like(self._edge), "first": integrity.like(self._first)}
        own["blocks"] = integrity.like(self._meta, length=self._meta.size)
        return {**own, **({"block": integrity.like(self._block)} if self._k > 1 else {})}

    def check_restored(self, subs: Subscriptions) -> None:
        """Refuse a state from a snapshot that does not belong to the owner's rows; see `integrity`."""
        super().check_restored(subs)
        edge, first, block, meta, k = self._own()
        integrity.need(first.size == block.size, "block", f"has not {first.size} entries")
        integrity.need(len(edge) % k == 0, "edge", f"is not blocks of {k} edges")
        fit = relation.edges_fit(edge, first, block, meta, k, subs.status)
        integrity.need(fit, "edge", "does not link covered rows to their covers")

    def check(self, subs: Subscriptions) -> None:
        """Assert that every covered row remembers live rows that cover it, and forwarded ones none."""
        super().check(subs)
        covered = np.flatnonzero(subs.status == COVERED)
        blocks = self._block[covered]
        assert np.unique(blocks).size == covered.size == self._meta[LIVE]
        edges = self._edge.reshape(-1, self._k, FIELDS)[blocks]
        assert (edges[:, :, TARGET] == covered[:, None]).all()
        known = edges[:, :, SOURCE] >= 0
        assert known.any(axis=1).all()
        place = np.nonzero(known)[0]
        above, target = edges[known][:, SOURCE], covered[place]
        assert (subs.status[above] != GONE).all()
        assert (subs.lo[above] <= subs.lo[target]).all()
        assert (subs.hi[above] >= subs.hi[target]).all()

    def _own(self) -> tuple[Any, ...]:
        """The edges as the fields of a `Graph`."""
        return self._edge, self._first, self._block, self._meta, self._k

    def plain(self) -> tuple[Any, ...]:
        """The graph as `kernels.calls` takes it."""
        return tuple(self.front.index), tuple(self.back.index), *self._own()

    def _searched(self) -> NDArray[np.int64]:
        """Nodes visited and points compared since the last tally."""
        total: NDArray[np.int64] = (self.front.index.meta + self.back.index.meta)[
            [NODES_VISITED, COMPARISONS]
        ]
        return total

    def resettle(self, subs: Subscriptions, gone: Rows, orphaned: Rows, settled: int = 0) -> Outcome:
        """Let orphaned rows, containers first, find a cover or be forwarded, from place `settled` on."""
        if not orphaned.size:
            return Outcome(gone, NO_ROWS, 0)
        while settled < orphaned.size:
            settled = calls.resettle(self.plain(), plain_subscriptions(subs), orphaned, settled)
            if settled < orphaned.size:
                self.make_room(subs)
        forwarded = orphaned[subs.status[orphaned] == FORWARDED]
        return Outcome(gone, forwarded[np.argsort(subs.sequence[forwarded])], orphaned.size)
