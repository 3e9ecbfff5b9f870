"""Scored boxes in any number of dimensions, live: `BoxTreeIndex` over the arrays of `kernels.box_tree`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.matching.kernels import box_edit, box_search, box_tree, drift, filtered_search
from rankcast.matching.kernels.box_tree import (
    BLOCKS,
    BUILT,
    CELLS,
    LAYERS,
    MOST_LAYERS,
    SIZE,
    WIDTH,
    BoxTree,
    Columns,
)
from rankcast.matching.search import MODES, KernelIndex
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Bools, Floats, Rows

SMALL = 256
LAYER_SIZE = getattr(box_tree.layer_size, "py_func", box_tree.layer_size)  # importing compiles nothing
SIZES = np.array([LAYER_SIZE(layer) for layer in range(MOST_LAYERS)])
SAMPLED = 50_000
FARTHEST = float(np.finfo(np.float64).max)
_BY_BLOCK = ("low", "high", "weight", "top", "link", "size", "height", "parent")


class BoxTreeIndex(KernelIndex):
    """The best boxes for an event.

    - Changing: `insert`, `remove`, `rescore`; the caller owns the rows and the columns by row.
    - Searching: `search`.
    - Snapshots: `state`, `restore`, `check_restored`.

    With `combine` ("sum" or "max") matching is relaxed: rows have weights, and their best possible score.

    A layer that has grown to twice its size is rebuilt together with those above it. Everything is rebuilt,
    with new codes, when the number of rows has doubled or halved, or when values have drifted: half as many
    rows as there are have arrived with ends beyond those that codes were made for (`outside`).
    Cost: O(log n) amortised per change.
    Memory: 4 d + 16 bytes per row (one dimension: 24), an eighth to a half more for blocks that are not full;
    with weights 4 d more.
    """

    _kernels = box_search.search, filtered_search.search_boxes

    def __init__(self, dimensions: int, *, combine: str | None = None) -> None:
        self._mode, self._outside = MODES[combine], 0
        weights = 0 if combine is None else dimensions
        self.tree = _empty_tree(dimensions, weights, blocks=16, rows=0)
        box_tree.clear(self.tree)

    def __len__(self) -> int:
        return int(self.tree.meta[SIZE])

    def _arrays(self) -> tuple[Any, ...]:
        return tuple(self.tree)

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Add absent rows."""
        self._reserve_rows(columns.lo.shape[0])
        self._outside += outside(self.tree.cuts, columns, rows)
        size = len(self) + rows.size
        if rows.size and (size > 2 * self.tree.meta[BUILT] or 2 * self._outside > max(SMALL, size)):
            self._rebuild(columns, np.concatenate([self.present(), rows]))
        else:
            self._edit(box_edit.insert, columns, rows)

    def remove(self, columns: Columns, rows: Rows) -> None:
        """Remove present rows."""
        box_edit.remove(self.tree, rows)
        if self.tree.meta[BUILT] > max(SMALL, 2 * len(self)):
            self._rebuild(columns, self.present())

    def rescore(self, columns: Columns, rows: Rows) -> None:
        """Update after scores or weights have changed."""
        self._edit(box_edit.rescore, columns, rows)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        return {"outside": self._outside}, dict(self.tree._asdict())

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        mine = self.tree._asdict()
        blocks = len(arrays["size"]) if "size" in arrays and arrays["size"].ndim else 0
        lengths = {name: blocks if name in _BY_BLOCK else len(array) for name, array in mine.items()}
        wanted = {name: integrity.like(array, length=lengths[name]) for name, array in mine.items()}
        integrity.forms(arrays, wanted | {"place": integrity.like(self.tree.place)})
        self.tree = BoxTree(**{name: arrays[name] for name in mine})
        self._outside = integrity.whole({"outside": 0, **header}, "outside")
        return self

    def check_restored(self, columns: Columns, wanted: Bools) -> None:
        """Refuse a tree from a snapshot that is inconsistent or does not hold exactly the `wanted` rows."""
        check_cuts(self.tree.cuts)
        integrity.need(
            box_tree.fits(self.tree, columns, wanted), "link", "does not lead to the boxes it should"
        )

    def check(self, columns: Columns) -> None:
        """Assert the invariants of the tree."""
        tree, most = self.tree, box_tree.most_of(self.tree)
        present = self.present()
        assert np.array_equal(np.flatnonzero(tree.place >= 0), np.sort(present))
        assert len(self) == present.size == int(tree.members.sum())
        blocks = 0
        for layer in range(MOST_LAYERS):
            if tree.root[layer] >= 0:
                assert layer < tree.meta[LAYERS]
                assert tree.parent[tree.root[layer]] == -1 - layer
                blocks += self._check_block(columns, int(tree.root[layer]), layer, most)
        assert blocks == tree.meta[BLOCKS]

    def _check_block(self, columns: Columns, block: int, layer: int, most: int) -> int:
        tree, size, blocks = self.tree, int(self.tree.size[block]), 1
        assert 0 < size <= WIDTH
        assert (tree.low[block, :, size:] == most + 1).all()
        assert (tree.high[block, :, size:] == -most - 1).all()
        entry = box_tree.new_entry(tree)
        for i in range(size):
            link = int(tree.link[block, i])
            if tree.height[block] == 0:
                box_tree.read_row(tree, columns, link, entry)
                assert tree.place[link] == block * WIDTH + i
                assert tree.top[block, i] == columns.score[link]
                assert box_tree.layer_for(tree, columns.score[link]) <= layer
                assert columns.score[link] <= tree.edge[layer]
                edge_row = tree.edge_row[layer]
                if columns.score[link] == tree.edge[layer] and edge_row >= 0:
                    assert columns.label[edge_row] <= columns.label[link]
                same = entry.low == tree.low[block, :, i], entry.high == tree.high[block, :, i]
                assert all(each.all() for each in same)
                assert (entry.weight == tree.weight[block, :, i]).all()
            else:
                assert (tree.parent[link], tree.height[link]) == (block, tree.height[block] - 1)
                top = box_tree.summarise(tree, link, entry)
                assert (tree.low[block, :, i] <= entry.low).all()
                assert (tree.high[block, :, i] >= entry.high).all()
                assert (tree.weight[block, :, i] >= entry.weight).all()
                assert tree.top[block, i] >= top
                blocks += self._check_block(columns, link, layer, most)
        return blocks

    # Growing and laying out anew

    def _edit(self, kernel: Any, columns: Columns, rows: Rows) -> None:
        """Run an editing kernel to its end, making room where it stops for that."""
        place = 0
        while place < rows.size:
            self._reserve_blocks(16)
            place, overfull = kernel(self.tree, columns, rows, place)
            if overfull >= 0:
                self._relayer(columns, overfull)

    def _relayer(self, columns: Columns, last: int) -> None:
        """Redistribute the rows of the layers 0 to `last`, over more layers if there are too many."""
        rows, room = np.cumsum(self.tree.members), np.cumsum(SIZES)
        while last < self.tree.meta[LAYERS] and rows[last] > room[last]:
            last += 1
        if last >= self.tree.meta[LAYERS]:
            self._rebuild(columns, self.present())
            return
        floor = self.tree.floor[last]
        parts = [box_edit.release(self.tree, layer) for layer in range(last + 1)]
        self._lay(columns, np.concatenate(parts), floor)

    def _lay(self, columns: Columns, rows: Rows, floor: float) -> None:
        """Fill the first layers, which are empty, with rows; the last of them takes scores from `floor`."""
        ranked = rows[np.lexsort((columns.label[rows], -columns.score[rows]))]
        self._reserve_blocks(box_edit.blocks_for(rows.size) + 12 * MOST_LAYERS)
        start, layer = 0, 0
        while start < ranked.size:
            part = ranked[start : start + box_tree.layer_size(layer)]
            box_edit.pack(self.tree, columns, part, layer)
            self.tree.floor[layer] = columns.score[part[-1]]
            start, layer = start + part.size, layer + 1
        self.tree.floor[max(layer - 1, 0)] = floor

    def _rebuild(self, columns: Columns, rows: Rows) -> None:
        """Rebuild everything, with new codes."""
        old = self.tree
        dimensions, weights = old.low.shape[1], old.weight.shape[1]
        blocks = box_edit.blocks_for(rows.size) + 12 * MOST_LAYERS
        self.tree = _empty_tree(dimensions, weights, blocks=blocks, rows=old.place.size)
        box_tree.clear(self.tree)
        self.tree.meta[LAYERS] = 1 + np.searchsorted(np.cumsum(SIZES), rows.size)
        self.tree.meta[BUILT], self._outside = rows.size, 0
        sample = rows[:: rows.size // SAMPLED + 1]
        self.tree.cuts[:] = quantiles(columns.lo[sample], columns.hi[sample], CELLS + 1)
        self._lay(columns, rows, -np.inf)

    def present(self) -> Rows:
        """The present rows, in ascending order."""
        return np.flatnonzero(self.tree.place >= 0).astype(np.int32)

    def _reserve_rows(self, rows: int) -> None:
        if rows > self.tree.place.size:
            place = np.full(rows, -1, np.int32)
            place[: self.tree.place.size] = self.tree.place
            self.tree = self.tree._replace(place=place)

    def _reserve_blocks(self, blocks: int) -> None:
        """Make room for so many further blocks."""
        capacity = self.tree.size.shape[0]
        if capacity - self.tree.meta[BLOCKS] < blocks:
            length = capacity + max(blocks, capacity // 8)
            self.tree = self.tree._replace(
                **{name: grown(getattr(self.tree, name), length) for name in _BY_BLOCK}
            )


MARGIN = 16  # one in so many cuts lies before all ends, and as many behind them


def quantiles(lo: Floats, hi: Floats, number: int) -> Floats:
    """So many cuts in each dimension, (d, number): quantiles of the finite ends, and some on either side.

    Values drift: those of future rows may lie beyond all current ones. Half of the margin divides
    evenly a stretch as wide as the ends, the other half doubles outwards.
    """
    margin = number // MARGIN
    widths = np.concatenate([np.ones(margin // 2), 2.0 ** np.arange(1, margin - margin // 2 + 1)])
    cuts = np.zeros((lo.shape[1], number))
    for j in range(lo.shape[1]):
        ends = np.concatenate([lo[:, j], hi[:, j]])
        ends = np.sort(ends[np.isfinite(ends)])
        if ends.size:
            inner = ends[np.linspace(0, ends.size - 1, number - 2 * margin).astype(np.int64)]
            with np.errstate(over="ignore"):
                span = min(ends[-1] - ends[0], FARTHEST) or max(abs(ends[0]), 1.0)
                way = np.cumsum(widths) * (span / (margin // 2))
                found = np.concatenate([inner[0] - way[::-1], inner, inner[-1] + way])
            cuts[j] = np.clip(found, -FARTHEST, FARTHEST)
    return np.maximum.accumulate(cuts, axis=1)


def outside(cuts: Floats, columns: Columns, rows: Rows) -> int:
    """How many rows have an end in the margins of `quantiles`, or beyond."""
    return int(drift.outside(cuts, columns.lo, columns.hi, rows, cuts.shape[1] // MARGIN))


def check_cuts(cuts: Floats) -> None:
    """Refuse cuts that do not ascend."""
    integrity.finite(cuts, "cuts")
    integrity.need((cuts[:, 1:] >= cuts[:, :-1]).all(), "cuts", "does not ascend")


def _empty_tree(dimensions: int, weights: int, *, blocks: int, rows: int) -> BoxTree:
    code = np.int32 if dimensions == 1 else np.int16
    return BoxTree(
        low=np.zeros((blocks, dimensions, WIDTH), code),
        high=np.zeros((blocks, dimensions, WIDTH), code),
        weight=np.zeros((blocks, weights, WIDTH), np.float32),
        top=np.zeros((blocks, WIDTH)),
        link=np.zeros((blocks, WIDTH), np.int32),
        size=np.zeros(blocks, np.int32),
        height=np.zeros(blocks, np.int32),
        parent=np.zeros(blocks, np.int32),
        place=np.full(rows, -1, np.int32),
        root=np.zeros(MOST_LAYERS, np.int32),
        members=np.zeros(MOST_LAYERS, np.int64),
        floor=np.zeros(MOST_LAYERS),
        edge=np.zeros(MOST_LAYERS),
        edge_row=np.zeros(MOST_LAYERS, np.int32),
        cuts=np.zeros((dimensions, CELLS + 1)),
        meta=np.zeros(6, np.int64),
    )
