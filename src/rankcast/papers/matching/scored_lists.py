"""The lists of scored interval indexes, one tree of blocks a dimension: `ScoredLists` keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.matching.boxes import grown
from rankcast.matching.kernels import checks
from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.search import Found, search_all
from rankcast.papers.matching import scored_blocks, threshold
from rankcast.papers.matching.centre_tree import DEPTH, SPARE
from rankcast.papers.matching.scored_blocks import BLOCKS, Blocks, Entries
from rankcast.papers.matching.threshold import Forest, Limits
from rankcast.structures import integrity
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
        """Lay out the entries of all dimensions anew; `score` by row is what bounds them."""
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
        """Refuse lists from a snapshot that do not hang together or, if live, hold just the `wanted` rows.

        `number` is raised by the entries of each list.
        """
        found = checks.scored_lists(self.blocks, columns, wanted, self._live, number)
        integrity.need(found == checks.FITS, "lists_link", "does not lead to the intervals it should")
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
    forest: Forest, columns: Columns, ends: tuple[Floats, Floats], k: int, mode: int, threads: int
) -> Found:
    """The k best rows for each event with the ends (below, above)."""
    below, above = ends
    room = DEPTH  # enough for a point, which reads a path of lists
    if not np.all(above >= below):
        room += int(np.count_nonzero(forest.number)) + forest.centre.size
    limits, order = Limits(k, room, mode), np.argsort(below[:, 0], kind="stable")
    return search_all(
        lambda part: threshold.search(forest, columns, below, above, part, limits), order, threads
    )
