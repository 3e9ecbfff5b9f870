"""Scored interval indexes that cannot change in place, kept live all the same: `StaticIntervalIndex`.

| kind | what stands in a list | which lists an event reads |
| --- | --- | --- |
| `sopt-r-tree` | all intervals in the order of `arrangement`, under a b-way R-tree | the only one |
| `segment-tree` | the intervals that cover one node by score | a path of nodes |

[Ranked §2.2.1, §3.2]. One row more may change the whole arrangement, and its ends cut segments again. So rows
that come later, or with another score, stand in a box tree beside what is built (`fresh`), and of what is
built they and removed ones are passed over. When both together are more than a 64th of all, everything is
rebuilt: O(64 log n) amortised a change. Events that are intervals meet ones that lie apart, whose order an
arrangement leaves open: for these the SOPT-R-tree has a second order, by score, which the first such event
makes of what is built, and which is good until the next time that everything is built.

The arrangement of the SOPT-R-tree leaves few leaves that an event opens for nothing. The constraint graph has
an edge from an interval to a worse one if they overlap at a point where no interval of a rank between them
lies. Seen from below, the intervals taken so far (best first) show a row of visible blocks; the next one gets
an edge from the owner of every block that it overlaps, and then hides them. Each interval adds at most three
blocks, so there are at most 3n edges. The arrangement takes, again and again, the interval with the smallest
left end among those without an edge from one that is not taken yet. Cost: O(n log n). Blocks live on 2m + 1
slots (see `trees`); a Fenwick tree over their first slots finds the block of a slot.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.matching.boxes import BoxTreeIndex
from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.search import MODES, Found, merged
from rankcast.papers.matching import trees
from rankcast.papers.matching.intervals import ScoredLists, by_score, search_forest
from rankcast.papers.matching.scored_blocks import Entries
from rankcast.papers.matching.threshold import ONE_LIST, SEGMENTS, Forest
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.structures.jit import EXACT
from rankcast.tables.schema import Bools, Rows

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@njit(**EXACT)
def _mark(tree: Longs, slot: int, change: int) -> None:
    slot += 1
    while slot < tree.shape[0]:
        tree[slot] += change
        slot += slot & -slot


@njit(**EXACT)
def _block_at(tree: Longs, slot: int) -> int:
    """The last marked slot that is at most `slot`; slot 0 is always marked."""
    rank, at = 0, slot + 1
    while at > 0:
        rank += tree[at]
        at -= at & -at
    step, found = 1, 0
    while 2 * step < tree.shape[0]:
        step *= 2
    while step > 0:
        if found + step < tree.shape[0] and tree[found + step] < rank:
            found += step
            rank -= tree[found]
        step //= 2
    return found


@njit(**EXACT)
def constraint_graph(first_slot: Longs, last_slot: Longs, slots: int) -> tuple[Longs, Longs]:
    """The edges (from, to) among intervals that come best first, given by their slots."""
    total, edges = first_slot.shape[0], 0
    source, target = np.empty(3 * total, np.int64), np.empty(3 * total, np.int64)
    tree, owner, behind = np.zeros(slots + 1, np.int64), np.full(slots + 1, -1), np.full(slots + 1, slots)
    _mark(tree, 0, 1)
    for each in range(total):
        left, right = first_slot[each], last_slot[each]
        start = _block_at(tree, left)
        block, last = start, start
        while block <= right:
            if owner[block] >= 0:
                source[edges], target[edges] = owner[block], each
                edges += 1
            if block > left:
                _mark(tree, block, -1)
            last, block = block, behind[block]
        if block > right + 1:
            _mark(tree, right + 1, 1)
            owner[right + 1], behind[right + 1] = owner[last], block
        if start < left:
            _mark(tree, left, 1)
            behind[start] = left
        owner[left], behind[left] = each, min(right + 1, slots)
    return source[:edges], target[:edges]


@njit(**EXACT)
def arrange(lo: Floats, source: Longs, target: Longs) -> Longs:
    """The arrangement of intervals that come best first, from their constraint graph."""
    total, waiting = lo.shape[0], np.zeros(lo.shape[0], np.int64)
    first, successor = np.zeros(total + 2, np.int64), np.empty(source.shape[0], np.int64)
    for edge in range(source.shape[0]):
        first[source[edge] + 2] += 1
        waiting[target[edge]] += 1
    first = np.cumsum(first)
    for edge in range(source.shape[0]):
        successor[first[source[edge] + 1]] = target[edge]
        first[source[edge] + 1] += 1
    heap = [(lo[each], each) for each in range(total) if waiting[each] == 0]
    arranged = np.empty(total, np.int64)
    heapq.heapify(heap)
    for place in range(total):
        _, each = heapq.heappop(heap)
        arranged[place] = each
        for at in range(first[each], first[each + 1]):
            waiting[successor[at]] -= 1
            if waiting[successor[at]] == 0:
                heapq.heappush(heap, (lo[successor[at]], successor[at]))
    return arranged


KINDS = {"sopt-r-tree": ONE_LIST, "segment-tree": SEGMENTS}
SMALL = 64


class StaticIntervalIndex:
    """The best boxes for an event, by one index of intervals in each dimension.

    `combine` is None for exact matching, "sum" or "max" for relaxed matching by the Threshold Algorithm.
    """

    def __init__(self, kind: str, dimensions: int, *, combine: str | None, branching: int) -> None:
        self._kind, self._dimensions, self._branching = kind, dimensions, branching
        self._mode, self._combine = MODES[combine], combine
        self._lists = self._new_lists()
        self._by_score: ScoredLists | None = None
        self._packed: NDArray[np.bool_] = np.zeros(1, np.bool_)  # never empty: then all rows would count
        self._size = self._removed = 0  # rows that count in what is built, and those that do no more
        self._fresh = BoxTreeIndex(dimensions, combine=combine)
        self._routes = _routes([(np.empty(0), 0, np.empty(0, np.int32))] * dimensions)

    def __len__(self) -> int:
        return self._size + len(self._fresh)

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Add absent rows."""
        if columns.lo.shape[0] > self._packed.size:
            self._packed = grown(self._packed, columns.lo.shape[0])
        if self._too_many(rows.size):
            self._rebuild(columns, np.concatenate([self._present(), rows]))
        else:
            self._fresh.insert(columns, rows)

    def remove(self, columns: Columns, rows: Rows) -> None:
        """Take present rows out."""
        self._fresh.remove(columns, rows[~self._forget(rows)])
        if self._too_many(0):
            self._rebuild(columns, self._present())

    def rescore(self, columns: Columns, rows: Rows) -> None:
        """Follow scores or weights that have changed."""
        built = self._forget(rows)
        self._fresh.rescore(columns, rows[~built])
        self._fresh.insert(columns, rows[built])
        if self._too_many(0):
            self._rebuild(columns, self._present())

    def search(self, columns: Columns, below: Floats, above: Floats, k: int, threads: int = 1) -> Found:
        """The k best rows for each event with the ends `above` to `below`."""
        lists, most = self._lists, max(1, min(k, len(self)))
        if self._kind == "sopt-r-tree" and not np.all(above >= below):
            if self._by_score is None:
                self._by_score = self._lists_by_score(columns)
            lists = self._by_score
        forest = Forest(
            lists.blocks,
            self._packed,
            centre=np.empty(0),
            child=np.empty((0, 2), np.int32),
            **self._routes,
            kind=KINDS[self._kind],
            leaps=True,
        )
        found = search_forest(forest, columns, (below, above), most, self._mode, threads)
        if len(self._fresh) == 0:
            return found
        return merged(columns.label, found, self._fresh.search(columns, below, above, k, threads), most)

    def stats(self) -> dict[str, Any]:
        """Nothing beside the name."""
        return {}

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        header, beside = self._fresh.state()
        fresh = {f"fresh_{name}": array for name, array in beside.items()}
        arrays = {**self._lists.state(), **fresh, "packed": self._packed, **self._routes}
        return {"removed": self._removed, "size": self._size, "fresh": header}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        self._removed, self._size = integrity.whole(header, "removed"), integrity.whole(header, "size")
        own = {name: a for name, a in arrays.items() if not name.startswith(("lists_", "fresh_"))}
        d = self._dimensions
        lengths = {"top": d, "end_first": d + 1, "leaves": d}
        routes = {name: integrity.like(a, length=lengths.get(name)) for name, a in self._routes.items()}
        integrity.forms(own, routes | {"packed": integrity.like(self._packed)})
        self._lists.restore(arrays)
        fresh = {name[6:]: a for name, a in arrays.items() if name.startswith("fresh_")}
        self._fresh.restore(header.get("fresh", {}), fresh)
        self._packed = own.pop("packed")
        self._routes, self._by_score = own, None
        return self

    def check_restored(self, columns: Columns, wanted: Bools) -> None:
        """Refuse a state from a snapshot that does not belong to the `wanted` rows; see `integrity`."""
        packed = np.zeros_like(wanted)
        fits = 1 <= self._packed.size <= wanted.size
        integrity.need(fits, "packed", f"has {self._packed.size} entries")
        packed[: self._packed.size] = self._packed
        integrity.need(not (packed & ~wanted).any(), "packed", "names rows that are not live")
        integrity.need(self._size == np.count_nonzero(packed), "size", "is not the number of packed rows")
        self._fresh.check_restored(columns, wanted & ~packed)
        number = np.zeros(max(1, int(np.diff(self._spans()).max(initial=1))), np.int64)
        self._lists.check_restored(columns, self._packed, number)

    def _spans(self) -> NDArray[np.int64]:
        """Where the lists of each dimension begin, which must follow from the ends."""
        routes, d = self._routes, self._dimensions
        first, leaves = routes["end_first"], routes["leaves"]
        fits = first[0] == 0 and (first[1:] >= first[:-1]).all() and first[-1] == routes["ends"].size
        integrity.need(fits, "end_first", "does not divide the ends")
        integrity.no_nan(routes["ends"], "ends")
        segments = self._kind == "segment-tree" and routes["number"].size > 0
        sizes = [1 << (2 * size + 1).bit_length() if segments else 0 for size in np.diff(first).tolist()]
        integrity.need(leaves.tolist() == sizes, "leaves", "does not fit the ends")
        starts = np.cumsum([0, *(2 * size for size in sizes)])
        integrity.need(routes["number"].size == starts[-1], "number", f"has not {starts[-1]} entries")
        integrity.need(np.array_equal(routes["top"], starts[:d]), "top", "does not divide the lists")
        return starts

    def entries(self) -> int:
        """How many entries the lists and the R-trees over them hold."""
        return self._lists.entries()

    # Building

    def _new_lists(self) -> ScoredLists:
        ends, bounds = self._kind != "segment-tree", self._combine is not None
        return ScoredLists(self._dimensions, self._branching, ends=ends, bounds=bounds, live=False)

    def _too_many(self, coming: int) -> bool:
        """Whether too much stands beside what is built, with so many rows that come."""
        beside = self._removed + len(self._fresh) + coming
        return 64 * beside > len(self) + coming + 64 * SMALL

    def _forget(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of some rows are built; they count there no more."""
        built = self._packed[rows]
        self._packed[rows] = False
        gone = int(np.count_nonzero(built))
        self._removed, self._size = self._removed + gone, self._size - gone
        return built

    def _present(self) -> Rows:
        return np.concatenate([np.flatnonzero(self._packed).astype(np.int32), self._fresh.present()])

    def _rebuild(self, columns: Columns, rows: Rows) -> None:
        """Build everything again from the rows that are there."""
        self._packed[rows] = True
        self._size, self._removed, self._by_score = rows.size, 0, None
        self._fresh = BoxTreeIndex(self._dimensions, combine=self._combine)
        make = self._segments if self._kind == "segment-tree" else self._arranged
        parts = [make(columns, np.sort(rows), j) for j in range(self._dimensions)]
        self._lists.lay([part[0] for part in parts], columns.score)
        self._routes = _routes([part[1] for part in parts])

    def _arranged(self, columns: Columns, rows: Rows, j: int) -> tuple[Entries, tuple[Any, ...]]:
        """The entries of dimension j as the SOPT-R-tree arranges them."""
        listed, row, key, lo, hi = _one_list(columns, rows, j)
        order = arrangement(lo, hi)
        entries = Entries(listed, row[order], key[order], lo[order], hi[order])
        return entries, (np.empty(0), 0, np.empty(0, np.int32))

    def _segments(self, columns: Columns, rows: Rows, j: int) -> tuple[Entries, tuple[Any, ...]]:
        """The entries of dimension j by the nodes of a segment tree, and the way to them."""
        listed, row, key, lo, hi = _one_list(columns, rows, j)
        ends, leaves = ends_of(lo, hi)
        first, order = trees.segment_tree(lo, hi, ends, leaves)
        number = np.diff(first).astype(np.int32)
        listed = np.repeat(np.arange(number.size, dtype=np.int32), number)
        return Entries(listed, row[order], key[order], np.empty(0), np.empty(0)), (ends, leaves, number)

    def _lists_by_score(self, columns: Columns) -> ScoredLists:
        """The second order, over what is built and counts."""
        rows, lists = np.flatnonzero(self._packed).astype(np.int32), self._new_lists()
        lists.lay([_one_list(columns, rows, j) for j in range(self._dimensions)], columns.score)
        return lists


def _one_list(columns: Columns, rows: Rows, j: int) -> Entries:
    """Some rows as one list of dimension j."""
    ranked, key = by_score(columns, rows, j)
    return Entries(np.zeros(rows.size, np.int32), ranked, key, columns.lo[ranked, j], columns.hi[ranked, j])


def _routes(parts: list[tuple[Any, ...]]) -> dict[str, NDArray[Any]]:
    """The ways to the lists of all dimensions: ends, leaves and the number of entries by node, of each."""
    ends, leaves, number = zip(*parts, strict=True)
    sizes = [each.size for each in number]
    return {
        "number": np.concatenate(number),
        "top": np.cumsum([0, *sizes[:-1]]).astype(np.int32),
        "ends": np.concatenate(ends),
        "end_first": np.cumsum([0, *(each.size for each in ends)]).astype(np.int64),
        "leaves": np.array(leaves, np.int64),
    }


def ends_of(lo: Floats, hi: Floats) -> tuple[Floats, int]:
    """The distinct finite ends, and a power of two of leaves for their slots."""
    ends = np.unique(np.concatenate([lo, hi]))
    ends = ends[np.isfinite(ends)]
    return ends, 1 << int(2 * ends.size + 1).bit_length()


def arrangement(lo: Floats, hi: Floats) -> NDArray[np.int64]:
    """The arrangement of the SOPT-R-tree for intervals that come best first."""
    ends, _ = ends_of(lo, hi)
    slots = 2 * ends.size + 1
    first, last = slots_of(ends, lo), slots_of(ends, hi)
    source, target = constraint_graph(first, last, slots)
    return np.asarray(arrange(lo, source, target), np.int64)


def slots_of(ends: Floats, values: Floats) -> NDArray[np.int64]:
    """The slots of values that are ends or infinite."""
    place = 2 * np.searchsorted(ends, values).astype(np.int64)
    return np.where(np.isinf(values), place, place + 1)
