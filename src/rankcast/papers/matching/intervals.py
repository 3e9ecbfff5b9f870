"""One scored interval index a dimension, live in place: `IntervalIndex`.

| kind | what stands in a list | which lists an event reads |
| --- | --- | --- |
| `r-tree` | all intervals by score, under a b-way R-tree | the only one |
| `interval-tree` | the intervals around one centre by score | a path of centres |
| `ir-tree` | the same, under b-way R-trees | a path of centres |

[Ranked §2.2, §3.1]. `static_intervals` has the other two kinds. All five keep their lists in `ScoredLists`,
one tree of blocks a dimension, and search them by `search_forest`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.matching.boxes import SMALL
from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.search import MODES, Found, search_all
from rankcast.papers.matching import scored_blocks, threshold, trees
from rankcast.papers.matching.scored_blocks import BLOCKS, DEPTH, MERGES, SPLITS, Blocks, Entries
from rankcast.papers.matching.threshold import CENTRES, ONE_LIST, Forest, Limits
from rankcast.papers.matching.trees import FREE, NODES, REBUILT, SPARE, USED, Centres
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Bools, Floats, Rows

_BY_BLOCK = ("lo", "hi", "key", "bound", "listed", "link", "size", "height", "parent")


class ScoredLists:
    """Blocks of up to `branching` entries, with room to grow; see `rankcast.papers.matching.scored_blocks`.

    Memory: 32 bytes an entry (without ends 16), 4 more with bounds (relaxed matching), 4 more if live, an
    eighth to twice as much where blocks are not full, and 1 / (branching - 1) for inner blocks.
    """

    def __init__(
        self, dimensions: int, branching: int, *, ends: bool = True, bounds: bool, live: bool
    ) -> None:
        self._branching, self._live = branching, live
        width = {"ends": branching if ends else 0, "bounds": branching if bounds else 0}
        self.blocks = Blocks(
            lo=np.empty((0, width["ends"])),
            hi=np.empty((0, width["ends"])),
            key=np.empty((0, branching)),
            bound=np.empty((0, width["bounds"]), np.float32),
            listed=np.empty((0, branching), np.int32),
            link=np.empty((0, branching), np.int32),
            size=np.empty(0, np.int32),
            height=np.empty(0, np.int32),
            parent=np.empty(0, np.int32),
            root=np.empty(dimensions, np.int32),
            leaf=np.empty((0, dimensions), np.int32),
            meta=np.zeros(5, np.int64),
        )
        self.lay([], np.empty(0))

    def lay(self, dimensions: list[Entries], score: Floats) -> None:
        """Lay out the entries of all dimensions again; `score` by row is what bounds them."""
        fill = self._branching - (self._branching // 8 if self._live else 0)
        needed = self.blocks.root.size
        for entries in dimensions:
            level = entries.row.size
            while level > 1:
                level = -(-level // fill)
                needed += level
        counts = self.blocks.meta.copy()
        self._resize(0)
        self._resize(needed)
        if self._live:
            self.reserve_rows(score.size)
        scored_blocks.clear(self.blocks)
        self.blocks.meta[BLOCKS + 1 :] = counts[BLOCKS + 1 :]
        for j, entries in enumerate(dimensions):
            scored_blocks.pack(self.blocks, entries, score, j, fill)

    def reserve(self) -> None:
        """Make room for what an insertion may need."""
        capacity = self.blocks.size.size
        if capacity - self.blocks.meta[BLOCKS] < SPARE:
            self._resize(capacity + SPARE + capacity // 8)

    def reserve_rows(self, rows: int) -> None:
        """Make room for so many rows."""
        held = self.blocks.leaf
        if rows > held.shape[0]:
            leaf = np.full((rows, held.shape[1]), -1, np.int32)
            leaf[: held.shape[0]] = held
            self.blocks = self.blocks._replace(leaf=leaf)

    def entries(self) -> int:
        """How many entries the leaves and the blocks over them hold."""
        return int(self.blocks.size.sum())

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays."""
        return {f"lists_{name}": array for name, array in self.blocks._asdict().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over arrays that `state` gave."""
        mine = self.blocks._asdict()
        given = {name[6:]: array for name, array in arrays.items() if name.startswith("lists_")}
        blocks = len(given["size"]) if "size" in given and given["size"].ndim else 0
        lengths = {name: blocks if name in _BY_BLOCK else len(array) for name, array in mine.items()}
        wanted = {name: integrity.like(array, length=lengths[name]) for name, array in mine.items()}
        integrity.forms(
            given, wanted | {"leaf": integrity.like(mine["leaf"], length=None if self._live else 0)}
        )
        self.blocks = Blocks(**given)
        return self

    def check_restored(self, columns: Columns, wanted: Bools, number: NDArray[np.int64]) -> None:
        """Refuse lists from a snapshot that are inconsistent or, if live, do not hold just the `wanted` rows.

        `number` is raised by the entries of each list.
        """
        fits = scored_blocks.fits(self.blocks, columns, wanted, self._live, number)
        integrity.need(fits, "lists_link", "does not lead to the intervals it should")
        counts = self.blocks.meta[BLOCKS + 1 :]
        integrity.within(counts, 0, integrity.MOST, "lists_meta")

    def check(self, label: NDArray[np.int64]) -> None:
        """Assert the invariants of blocks that are live."""
        blocks, seen = self.blocks, 0
        for j in range(blocks.root.size):
            assert blocks.parent[blocks.root[j]] == -1 - j
            stack, ordered = [int(blocks.root[j])], []
            while stack:
                block, seen = stack.pop(), seen + 1
                links = blocks.link[block, : blocks.size[block]].tolist()
                if blocks.height[block] == 0:
                    assert (blocks.leaf[links, j] == block).all()
                    ordered += [(block, i) for i in range(len(links))]
                    continue
                assert len(links) > 0
                for i, child in enumerate(links):
                    assert (blocks.parent[child], blocks.height[child]) == (block, blocks.height[block] - 1)
                    assert not scored_blocks.summarise(blocks, child, block, i)
                stack += links[::-1]
            place = tuple(np.array(ordered, np.int64).reshape(-1, 2).T)
            order = np.lexsort((label[blocks.link[place]], -blocks.key[place], blocks.listed[place]))
            assert np.array_equal(order, np.arange(order.size))
            assert order.size == np.count_nonzero(blocks.leaf[:, j] >= 0)
        assert seen == blocks.meta[BLOCKS]

    def _resize(self, length: int) -> None:
        held = self.blocks
        self.blocks = held._replace(
            **{name: grown(getattr(held, name)[:length], length) for name in _BY_BLOCK}
        )


def by_score(columns: Columns, rows: Rows, j: int) -> tuple[Rows, Floats]:
    """Some rows in the order in which dimension j ranks them, and their keys: weights, or scores."""
    key = columns.weight[:, j] if columns.weight.shape[1] else columns.score
    ranked = rows[np.lexsort((columns.label[rows], -key[rows]))]
    return ranked, key[ranked]


def search_forest(
    forest: Forest,
    columns: Columns,
    ends: tuple[Floats, Floats],
    k: int,
    mode: int,
    threads: int,
    *,
    plain: bool = False,
) -> Found:
    """The k best rows for each event with the ends (below, above); see `threshold.Limits` for `plain`."""
    below, above = ends
    room = DEPTH  # enough for a point, which reads a path of lists
    if not np.all(above >= below):
        room += int(np.count_nonzero(forest.number)) + forest.centre.size
    limits = Limits(k, room, mode, plain)
    return search_all(threshold.search, (forest, columns, limits), below, above, threads)


KINDS = {"r-tree": ONE_LIST, "interval-tree": CENTRES, "ir-tree": CENTRES}
_BY_NODE = ("centre", "child", "number", "weight")


class IntervalIndex:
    """The best boxes for an event, by one index of intervals in each dimension.

    `combine` is None for exact matching, "sum" or "max" for relaxed matching by the Threshold Algorithm.
    Rows come, go and change their scores one by one, in place. Everything is laid out again where more than
    half come at once, and, to give memory back, where half are gone.
    """

    plain = False  # True: the Threshold Algorithm as first published, for comparison

    def __init__(self, kind: str, dimensions: int, *, combine: str | None, branching: int) -> None:
        self._kind, self._dimensions, self._mode = kind, dimensions, MODES[combine]
        self._lists = ScoredLists(dimensions, branching, bounds=combine is not None, live=True)
        self._centres = _centres(0, dimensions if KINDS[kind] == CENTRES else 0)
        self._size = self._built = 0

    def __len__(self) -> int:
        return self._size

    def present(self) -> Rows:
        """The rows that are there, in ascending order."""
        return np.flatnonzero(self._lists.blocks.leaf[:, 0] >= 0).astype(np.int32)

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Add absent rows."""
        if 2 * rows.size > self._size:
            self._build(columns, np.concatenate([self.present(), rows]))
        else:
            self._size += rows.size
            self._lists.reserve_rows(columns.lo.shape[0])
            self._edit(trees.insert, columns, rows)

    def remove(self, columns: Columns, rows: Rows) -> None:
        """Take present rows out."""
        self._edit(trees.remove, columns, rows)
        self._size -= rows.size
        if self._built > max(SMALL, 2 * self._size):
            self._build(columns, self.present())

    def rescore(self, columns: Columns, rows: Rows) -> None:
        """Follow scores or weights that have changed."""
        for j in range(self._dimensions):
            self._move(columns, rows, np.empty(0, np.int32), j)

    def search(self, columns: Columns, below: Floats, above: Floats, k: int, threads: int = 1) -> Found:
        """The k best rows for each event with the ends `above` to `below`."""
        most = max(1, min(k, self._size))
        return search_forest(
            self._forest(), columns, (below, above), most, self._mode, threads, plain=self.plain
        )

    def stats(self) -> dict[str, Any]:
        """How often blocks were split or joined, and subtrees of centres rebuilt."""
        meta, rebuilt = self._lists.blocks.meta, self._centres.meta[REBUILT]
        return {
            "index_splits": int(meta[SPLITS]),
            "index_merges": int(meta[MERGES]),
            "index_rebuilt": int(rebuilt),
        }

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        return {"built": self._built, "size": self._size}, {**self._lists.state(), **self._centres._asdict()}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        mine = self._centres._asdict()
        given = {name: array for name, array in arrays.items() if not name.startswith("lists_")}
        nodes = len(given["number"]) if "number" in given and given["number"].ndim else 0
        lengths = {name: nodes if name in _BY_NODE else len(array) for name, array in mine.items()}
        integrity.forms(given, {n: integrity.like(array, length=lengths[n]) for n, array in mine.items()})
        self._lists.restore(arrays)
        self._centres = Centres(**given)
        self._built, self._size = integrity.whole(header, "built"), integrity.whole(header, "size")
        return self

    def check_restored(self, columns: Columns, wanted: Bools) -> None:
        """Refuse a state from a snapshot that does not belong to the `wanted` rows; see `integrity`."""
        rows = np.flatnonzero(wanted).astype(np.int32)
        integrity.need(self._size == rows.size, "size", f"is {self._size}, not {rows.size}")
        by_centres = KINDS[self._kind] == CENTRES
        number = np.zeros(max(1, self._centres.number.size if by_centres else 1), np.int64)
        self._lists.check_restored(columns, wanted, number)
        leaf = self._lists.blocks.leaf
        integrity.need(rows.max(initial=-1) < len(leaf), "lists_leaf", "is too short")
        integrity.need((leaf[rows] >= 0).all(), "lists_leaf", "lacks a live row")
        if by_centres:
            fits = trees.centres_fit(self._centres, self._lists.blocks, columns, rows, number)
            integrity.need(fits, "child", "does not lead to the lists it should")
        integrity.within(self._centres.meta[REBUILT:], 0, integrity.MOST, "meta")

    def check(self, columns: Columns) -> None:
        """Assert the invariants."""
        self._lists.check(columns.label)
        blocks, centres = self._lists.blocks, self._centres
        assert self._size == self.present().size
        nodes = 0
        for j, top in enumerate(centres.top.tolist()):
            stack = [(top, 0)] if top >= 0 else []
            while stack:
                (node, depth), nodes = stack.pop(), nodes + 1
                below = [int(each) for each in centres.child[node] if each >= 0]
                weights = [int(centres.weight[each]) for each in below]
                assert centres.weight[node] == centres.number[node] + sum(weights) > 0
                assert depth < DEPTH
                assert all(4 * weight <= 3 * centres.weight[node] + 8 for weight in weights)
                stack += [(each, depth + 1) for each in below]
            for row in self.present().tolist():
                node = top
                while not columns.lo[row, j] <= centres.centre[node] <= columns.hi[row, j]:
                    node = int(centres.child[node, int(columns.lo[row, j] > centres.centre[node])])
                leaf = blocks.leaf[row, j]
                assert blocks.listed[leaf, blocks.link[leaf].tolist().index(row)] == node
        assert nodes == centres.meta[NODES]

    # Building and editing

    def _build(self, columns: Columns, rows: Rows) -> None:
        """Lay out everything again."""
        self._size = self._built = rows.size
        dimensions: list[Entries] = []
        planted, used = [], 0
        for j in range(self._dimensions):
            ranked, key = by_score(columns, rows, j)
            lo, hi = columns.lo[ranked, j], columns.hi[ranked, j]
            listed, order = np.zeros(rows.size, np.int32), np.arange(rows.size)
            if KINDS[self._kind] == CENTRES and rows.size:
                centre, child, first, order = trees.centre_tree(lo, hi)
                number = np.diff(first).astype(np.int32)
                listed = np.repeat(np.arange(used, used + centre.size, dtype=np.int32), number)
                child, weight = np.where(child >= 0, child + used, -1), trees.weigh(child, first)
                planted.append((centre, child, number, weight))
                used += centre.size
            dimensions.append(Entries(listed, ranked[order], key[order], lo[order], hi[order]))
        self._lists.lay(dimensions, columns.score)
        self._plant(planted, used)

    def _plant(self, planted: list[Any], used: int) -> None:
        """Let trees of centres, one after the other, be those of the dimensions."""
        rebuilt = self._centres.meta[REBUILT]
        self._centres, place = _centres(used, self._centres.top.size), 0
        for j, tree in enumerate(planted):
            self._centres.top[j] = place
            for name, array in zip(_BY_NODE, tree, strict=True):
                getattr(self._centres, name)[place : place + len(array)] = array
            place += len(tree[0])
        self._centres.meta[[USED, NODES, REBUILT]] = used, used, rebuilt

    def _edit(self, kernel: Any, columns: Columns, rows: Rows) -> None:
        """Run an editing kernel to its end, giving it room and balance where it stops for that."""
        step, steps = 0, rows.size * self._dimensions
        while step < steps:
            self._lists.reserve()
            self._reserve_nodes(1)
            step, heavy = kernel(self._centres, self._lists.blocks, columns, rows, step)
            if heavy >= 0:
                self._reserve_nodes(int(self._centres.weight[heavy]))
                j = (step - 1) % self._dimensions
                moved, lists = trees.rebuild(self._centres, self._lists.blocks, columns, heavy, j)
                self._move(columns, moved, lists, j)

    def _move(self, columns: Columns, rows: Rows, lists: Rows, j: int) -> None:
        """Let rows stand in other lists of dimension j, or under other keys."""
        step = 0
        while step < rows.size:
            self._lists.reserve()
            step = trees.move(self._lists.blocks, columns, rows, lists, j, step)

    def _reserve_nodes(self, nodes: int) -> None:
        """Make room for so many further nodes."""
        capacity = self._centres.number.size
        if capacity - self._centres.meta[NODES] < nodes:
            length = capacity + max(nodes, capacity // 8)
            self._centres = self._centres._replace(
                **{name: grown(getattr(self._centres, name), length) for name in _BY_NODE}
            )

    def _forest(self) -> Forest:
        centres = self._centres
        return Forest(
            self._lists.blocks,
            np.empty(0, np.bool_),
            centres.number,
            centres.centre,
            centres.child,
            centres.top,
            ends=np.empty(0),
            end_first=np.empty(0, np.int64),
            leaves=np.empty(0, np.int64),
            kind=KINDS[self._kind],
            leaps=self._kind != "interval-tree",
        )


def _centres(nodes: int, dimensions: int) -> Centres:
    """Room for so many nodes and some more."""
    room = nodes + 16 + nodes // 8
    meta = np.zeros(4, np.int64)
    meta[FREE] = -1
    return Centres(
        centre=np.zeros(room),
        child=np.full((room, 2), -1, np.int32),
        number=np.zeros(room, np.int32),
        weight=np.zeros(room, np.int32),
        top=np.full(dimensions, -1, np.int32),
        meta=meta,
    )
