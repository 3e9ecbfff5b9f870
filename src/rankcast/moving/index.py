"""R-trees of points that come and go: the objects of moving queries, and a search for many queries at once.

`PointIndex` keeps a `rankcast.moving.kernels.rtree` of points in C columns. `ObjectIndex` has the objects of
an engine in one, and their records by row; `TopKObjects` also finds the safe zones of top-k queries.
`descend` goes down an R-tree for many queries together, level by level, as a test over arrays decides; it
serves custom scores, which only Python can compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.moving.kernels import rtree, rtree_search, zone_search
from rankcast.moving.kernels.rtree import BRANCH, INNER_BASE, LEAF_BASE, MOST_LAYERS, SMALLEST, Rtree
from rankcast.moving.kernels.rtree_search import Corner, Queries, SearchBuffers, TreeEntries, search_buffers
from rankcast.moving.kernels.scores import STATIC, ScoreForm
from rankcast.moving.kernels.zone_search import FoundZones
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.deltas import Lists
from rankcast.tables.schema import Bools, Floats, Ints, Rows

PLACE_COLUMNS = 2  # the first two columns are x and y, which are split alike


class PointIndex:
    """Points that come and go; kernels search `tree`.

    - Changing: `insert`, `remove`.
    - Snapshots: `state`, `restore`, `check_restored`; `check` for tests.

    Args:
        weights: by column, how much a difference in it counts when points are split into blocks; 0: never
            split. None for a column: whatever makes the spread of all points 1.

    Cost: O(log n) a change, amortised; a tree of which more than half is gone is packed anew. Memory: 8 C + 4
    bytes a point and an eighth more for boxes, at most four times that when a layer is not full.
    """

    def __init__(self, weights: list[float | None]) -> None:
        self._weights = weights
        columns = len(weights)
        self.packed = np.zeros(MOST_LAYERS, np.int64)  # how often each layer was, for what is made from it
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
        self.packed[layer] += 1
        if all_rows.size:
            self._reserve_blocks(layer)
            rtree.pack(self.tree, layer, all_rows, all_values, self._scale(all_values))

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
        """Take over what `state` returned."""
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
        self.packed += 1
        for layer, (count, filled) in enumerate(zip(self.tree.count, self.tree.filled, strict=True)):
            most = rtree.capacity(layer) if layer < layers else 0
            integrity.need(0 <= count <= filled <= most, "count", f"is {count} of {filled} in layer {layer}")
        return self

    def check_restored(self, wanted: Bools) -> None:
        """Refuse a tree from a snapshot that does not hang together or holds others than `wanted` rows."""
        integrity.need(np.isfinite(self.tree.point[:, :PLACE_COLUMNS]).all(), "tree_point", "is not finite")
        found = rtree.check_rtree(self.tree, wanted)
        integrity.need(found == rtree.FITS, "tree_row", "does not hold the points it should")

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


PER_THREAD = 64


class ObjectIndex:
    """Objects by row and in an R-tree: x, y, and whatever else there is.

    - Changing: `put`, `remove`.
    - Reading: `bounds`; kernels read `record`, the first columns by row, and `tree`.
    - Snapshots: `state`, `restore`, `check_restored`; `check` for tests.

    Memory: 8 bytes a column of the record of an object, and the tree.

    Args:
        weights: by column, how much it counts when objects are split into blocks; see `PointIndex`.
        record: how many of the columns are kept by row as well.
    """

    def __init__(self, weights: list[float | None], record: int) -> None:
        self.record = np.zeros((0, record))
        self._index = PointIndex(weights)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def tree(self) -> rtree.Rtree:
        """The R-tree of all columns."""
        return self._index.tree

    @property
    def packed(self) -> Ints:
        """By layer of the tree, how often it was packed."""
        return self._index.packed

    def put(self, rows: Rows, points: Floats) -> None:
        """Set objects, new or not: all their columns (n, C)."""
        if not rows.size:
            return
        top = int(rows.max()) + 1
        if top > self.record.shape[0]:
            self.record = grown(self.record, max(top, 2 * self.record.shape[0], 16), 0)
        self.record[rows] = points[:, : self.record.shape[1]]
        place = self.tree.place
        known = rows[rows < place.size]
        self._index.remove(known[place[known] >= 0])
        self._index.insert(rows, points)

    def remove(self, rows: Rows) -> None:
        """Take objects out."""
        self._index.remove(rows)

    def bounds(self) -> Floats:
        """A box (2, C) that holds everything; inverted if there is nothing."""
        found: Floats = rtree.bounds(self.tree)
        return found

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state (none) and the arrays."""
        tree = {f"tree_{name}": array for name, array in self._index.state()[1].items()}
        return {}, {"record": self.record, **tree}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        tree = {name: array for name, array in arrays.items() if name.startswith("tree_")}
        columns = {name: array for name, array in arrays.items() if name not in tree}
        integrity.forms(columns, {"record": integrity.like(self.record)})
        self.record = columns["record"]
        self._index.restore({}, {name[5:]: array for name, array in tree.items()})
        return self

    def check_restored(self, live: Bools, x: Floats, y: Floats) -> None:
        """Refuse a state from a snapshot that is not that of the `live` objects at these places."""
        rows = np.flatnonzero(live)
        integrity.need(rows.max(initial=-1) < len(self.record), "record", "is too short")
        record = self.record[rows]
        integrity.no_nan(record, "record")
        integrity.need((record[:, 0] == x[rows]).all(), "record", "differs from where objects are")
        integrity.need((record[:, 1] == y[rows]).all(), "record", "differs from where objects are")
        self._index.check_restored(live)
        same = np.array_equal(np.flatnonzero(self._index.present()), rows)
        integrity.need(same, "tree_place", "is not of the objects that are there")
        leaf, slot = np.divmod(self.tree.place[rows], rtree.BRANCH)
        points = self.tree.point[leaf, : record.shape[1], slot]
        integrity.need(np.array_equal(points, record), "tree_point", "differs from the records")

    def check(self, points: Floats) -> None:
        """Assert the invariants; `points` (n, C) are the objects by row."""
        live = np.flatnonzero(self.tree.place >= 0)
        assert np.array_equal(self.record[live], points[live, : self.record.shape[1]])
        self._index.check(points)


class TopKObjects(ObjectIndex):
    """Objects with a record (x, y, s, p, z; see `rankcast.moving.kernels.scores`), then attributes.

    Beside what `Places` has, `zones` finds the safe zones of queries.
    """

    def __init__(self, weights: list[float | None], record: int = STATIC) -> None:
        super().__init__(weights, record)
        self._held_rooms: list[SearchBuffers] = []

    def zones(
        self, form: ScoreForm, label: Ints, queries: Queries, m: int, threads: int
    ) -> tuple[FoundZones, Ints]:
        """The zones of queries, on several cores; and blocks opened, objects tried."""
        most = np.minimum(queries.k + (m - 1), len(self))
        ends = np.cumsum(most)
        zones = FoundZones(
            start=ends - most,
            count=np.zeros(most.size, np.int64),
            member=np.zeros(int(ends[-1]) if most.size else 0, np.int32),
            radius=np.zeros(most.size),
            reach=np.zeros(most.size),
        )
        parts = np.array_split(np.arange(most.size), max(1, min(threads, most.size // PER_THREAD)))
        rooms = self._rooms(len(parts), min(int(queries.k.max(initial=0)) + m, len(self)))

        def search(part: Ints, room: SearchBuffers) -> Ints:
            done: Ints = zone_search.find_zones(
                form, self.tree, self.record, label, queries, m, zones, (part, room)
            )
            return done

        if len(parts) == 1:
            return zones, search(parts[0], rooms[0])
        with ThreadPoolExecutor(len(parts)) as pool:
            return zones, np.sum(list(pool.map(search, parts, rooms)), axis=0)

    def _rooms(self, parts: int, board: int) -> list[SearchBuffers]:
        """Room for searches side by side, kept from call to call."""
        held = [*self._held_rooms, *[None] * parts][: max(parts, len(self._held_rooms))]
        self._held_rooms = [search_buffers(self.tree, board, room) for room in held]
        return self._held_rooms[:parts]


KeepTest = Callable[[Ints, Floats, Floats], Bools]  # of queries, values and distances


class ReachedPoints(NamedTuple):
    """Points that queries came to, query by query, and what it took: blocks opened, points looked at."""

    query: Ints
    row: Rows
    distance: Floats
    nodes: int
    tried: int


def descend(
    tree: Rtree, metric: int, queries: Queries, corner: Corner, keep: KeepTest, *, every: bool = False
) -> ReachedPoints:
    """The points that `keep` keeps, below blocks that it keeps; or `every` point below these."""
    found: list[tuple[Ints, Rows, Floats]] = [(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0))]
    query, block = rtree_search.roots(tree, queries.x.size)
    nodes = tried = 0
    while query.size:
        entries = _kept(rtree_search.children(tree, metric, queries, query, block, corner), keep)
        leaf = entries.child >= 0
        points = rtree_search.points(tree, metric, queries, entries.query[leaf], entries.child[leaf], corner)
        nodes += query.size + int(leaf.sum())
        tried += points.query.size
        points = points if every else _kept(points, keep)
        found.append((points.query, points.child.astype(np.int32), points.distance))
        query, block = entries.query[~leaf], ~entries.child[~leaf]
    of, row, away = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(of, kind="stable")
    return ReachedPoints(of[order], row[order], away[order], nodes, tried)


def _kept(entries: TreeEntries, keep: KeepTest) -> TreeEntries:
    kept = keep(entries.query, entries.values, entries.distance)
    return TreeEntries._make(column[kept] for column in entries)


class SafeZones(Protocol):
    """Keeps the results and safe zones of subscriptions: `TopKZones` or `SkylineZones`."""

    def parts(self) -> dict[str, Part]:
        """The parts of a snapshot."""

    def lists(self, rows: Rows) -> Lists:
        """Results of subscriptions."""

    def renew(self, rows: Rows) -> None:
        """Search results and zones of subscriptions at their places."""

    def leave(self, rows: Rows) -> None:
        """Forget subscriptions."""

    def follow(self, rows: Rows, places: Floats) -> tuple[Rows, Lists]:
        """Move queries to places (2, n); returns those whose results may have changed, and these before."""

    def check_restored(self) -> None:
        """Refuse places and zones from a snapshot that are not those of objects and subscriptions."""

    def listing(self, objects: Rows) -> Rows:
        """Subscriptions that have one of these objects in their results or members."""

    def put(self, objects: Rows) -> None:
        """Index objects, new or not, that have been written to the slots."""

    def drop(self, objects: Rows) -> None:
        """Forget objects."""

    def broken(self, objects: Rows, known: Rows) -> Rows:
        """Subscriptions, without those known already, whose zones these objects break."""

    def admit(self, objects: Rows, listing: Rows, broken: Rows) -> None:
        """Renew results and zones of subscriptions that list objects, or whose zones these break."""
