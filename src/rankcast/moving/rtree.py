"""Points in C columns by row, live: `PointIndex` keeps a `rankcast.moving.kernels.rtree`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.moving.kernels import checks, rtree, rtree_pack
from rankcast.moving.kernels.rtree import BRANCH, INNER_BASE, LEAF_BASE, MOST_LAYERS, SMALLEST, Rtree
from rankcast.range_topk.objects import grown
from rankcast.structures import integrity
from rankcast.tables.schema import Bools, Floats, Rows

PLACE_COLUMNS = 2  # the first two columns are x and y, which are split alike


class PointIndex:
    """Points that come and go; kernels search `tree`.

    - Changing: `insert`, `remove`.
    - Keeping: `state`, `restore`, `check`.

    Args:
        weights: by column, how much a difference in it counts when points are split into blocks; 0: never
            split. None for a column: whatever makes the spread of all points 1.

    Cost: O(log n) a change, amortised; a tree of which more than half is gone is packed anew. Memory: 8 C + 4
    bytes a point and an eighth more for boxes, at most four times that when a layer is not full.
    """

    def __init__(self, weights: list[float | None]) -> None:
        self._weights = weights
        columns = len(weights)
        self.tree = Rtree(
            point=np.empty((0, columns, BRANCH)),
            row=np.empty((0, BRANCH), np.int32),
            low=np.empty((0, columns, BRANCH)),
            high=np.empty((0, columns, BRANCH)),
            first=np.empty(0, np.int32),
            width=np.empty(0, np.int32),
            place=np.empty(0, np.int64),
            count=np.zeros(MOST_LAYERS, np.int64),
            filled=np.zeros(MOST_LAYERS, np.int64),
        )

    def __len__(self) -> int:
        return int(self.tree.count.sum())

    def insert(self, rows: Rows, values: Floats) -> None:
        """Add absent rows with their points (n, C)."""
        if not rows.size:
            return
        self._reserve_rows(int(rows.max()) + 1)
        together = np.cumsum(self.tree.count) + rows.size
        layer = int(np.argmax(together <= [rtree.capacity(each) for each in range(MOST_LAYERS)]))
        self._pack(layer, rows, values)

    def remove(self, rows: Rows) -> None:
        """Take present rows out."""
        rtree.remove(self.tree, rows)
        live = len(self)
        if int(self.tree.filled.sum()) > max(SMALLEST, 2 * live):
            top = int(np.flatnonzero(self.tree.filled)[-1]) + 1
            while top > 1 and rtree.capacity(top - 2) >= live:
                top -= 1
            self._pack(top - 1, np.empty(0, np.int32), np.empty((0, len(self._weights))), layers=MOST_LAYERS)

    def _pack(self, layer: int, rows: Rows, values: Floats, *, layers: int | None = None) -> None:
        """Put rows and everything in the layers up to `layer` (or in `layers` of them) into one layer."""
        layers = layer + 1 if layers is None else layers
        held = int(self.tree.count[:layers].sum())
        all_rows = np.empty(held + rows.size, np.int32)
        all_values = np.empty((held + rows.size, len(self._weights)))
        rtree.collect(self.tree, layers, all_rows, all_values)
        all_rows[held:], all_values[held:] = rows, values
        self.tree.count[:layers] = self.tree.filled[:layers] = 0
        if all_rows.size:
            self._reserve_blocks(layer)
            rtree_pack.pack(self.tree, layer, all_rows, all_values, self._scale(all_values))

    def _scale(self, values: Floats) -> Floats:
        """What a difference counts, by column."""
        low, high = values.min(axis=0), values.max(axis=0)
        scale = np.array([1.0 if weight is None else weight for weight in self._weights])
        for column, weight in enumerate(self._weights):
            if weight is None:
                alike = slice(0, PLACE_COLUMNS) if column < PLACE_COLUMNS else column
                spread = float(np.max(high[alike] - low[alike]))
                scale[column] = 1 / spread if 0 < spread < np.inf else 1.0
        return scale

    def _reserve_rows(self, rows: int) -> None:
        if rows > self.tree.place.size:
            self.tree = self.tree._replace(
                place=grown(self.tree.place, max(rows, 2 * self.tree.place.size, 16), -1)
            )

    def _reserve_blocks(self, layer: int) -> None:
        tree, leaves, inner = self.tree, int(LEAF_BASE[layer + 1]), int(INNER_BASE[layer + 1])
        if leaves > tree.row.shape[0]:
            self.tree = tree._replace(
                point=grown(tree.point, leaves, 0),
                row=grown(tree.row, leaves, -1),
                low=grown(tree.low, inner, 0),
                high=grown(tree.high, inner, 0),
                first=grown(tree.first, inner, 0),
                width=grown(tree.width, inner, 0),
            )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state (none) and the arrays."""
        return {}, dict(self.tree._asdict())

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        mine = self.tree._asdict()
        layers, wanted = 0, {name: integrity.like(array) for name, array in mine.items()}
        if "row" in arrays and arrays["row"].ndim:
            layers = int(np.searchsorted(LEAF_BASE, len(arrays["row"])))
        leaves, inner = (int(each[min(layers, MOST_LAYERS)]) for each in (LEAF_BASE, INNER_BASE))
        lengths = {"point": leaves, "row": leaves, **dict.fromkeys(("low", "high", "first", "width"), inner)}
        lengths |= {"count": MOST_LAYERS, "filled": MOST_LAYERS}
        wanted |= {name: integrity.like(mine[name], length=length) for name, length in lengths.items()}
        integrity.forms(arrays, wanted)
        self.tree = Rtree(**{name: arrays[name] for name in mine})
        for layer, (count, filled) in enumerate(zip(self.tree.count, self.tree.filled, strict=True)):
            most = rtree.capacity(layer) if layer < layers else 0
            integrity.need(0 <= count <= filled <= most, "count", f"is {count} of {filled} in layer {layer}")
        return self

    def check_restored(self, wanted: Bools) -> None:
        """Refuse a tree from a snapshot that does not hang together or holds others than `wanted` rows."""
        integrity.need(np.isfinite(self.tree.point[:, :PLACE_COLUMNS]).all(), "tree_point", "is not finite")
        found = checks.rtree(self.tree, wanted)
        integrity.need(found == checks.FITS, "tree_row", "does not hold the points it should")

    def present(self) -> Bools:
        """Whether a row is there, by row."""
        there: Bools = self.tree.place >= 0
        return there

    def check(self, values: Floats) -> None:
        """Assert the invariants; `values` are the points by row."""
        tree = self.tree
        present = np.flatnonzero(tree.place >= 0)
        assert len(self) == present.size
        for row in present:
            leaf, slot = divmod(int(tree.place[row]), BRANCH)
            assert tree.row[leaf, slot] == row
            assert np.array_equal(tree.point[leaf, :, slot], values[row])
        for layer in np.flatnonzero(tree.count):
            rows = self._check_block(int(rtree.root_of(tree, layer)))[2]
            assert len(rows) == tree.count[layer]
            assert tree.count[layer] <= tree.filled[layer] <= rtree.capacity(int(layer))

    def _check_block(self, block: int) -> tuple[Floats, Floats, list[int]]:
        tree, rows = self.tree, []
        assert 0 < tree.width[block] <= BRANCH
        for slot in range(tree.width[block]):
            low, high = tree.low[block, :, slot], tree.high[block, :, slot]
            first = int(tree.first[block])
            if first >= 0:
                there = tree.row[first + slot] >= 0
                points = tree.point[first + slot][:, there]
                assert (points >= low[:, None]).all()
                assert (points <= high[:, None]).all()
                rows += tree.row[first + slot][there].tolist()
            else:
                below_low, below_high, below = self._check_block(~first + slot)
                assert (below_low >= low).all()
                assert (below_high <= high).all()
                rows += below
        used = tree.width[block]
        return tree.low[block, :, :used].min(axis=1), tree.high[block, :, :used].max(axis=1), rows
