"""The objects of moving queries by place and attributes, live, and the safe zones of queries among them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.moving.kernels import rtree, zone_search
from rankcast.moving.kernels.rtree_search import Queries, Space, space_for
from rankcast.moving.kernels.zone_scores import STATIC, Form
from rankcast.moving.kernels.zone_search import Zones
from rankcast.moving.rtree import PointIndex
from rankcast.range_topk.objects import grown
from rankcast.structures import integrity
from rankcast.tables.schema import Bools, Floats, Ints, Rows

PER_THREAD = 64


class Places:
    """Objects by row and in an R-tree: x, y, and whatever else there is.

    - Changing: `put`, `remove`.
    - Asking: `bounds`; kernels read `record`, the first columns by row, and `tree`.
    - Keeping: `state`, `restore`, `check`.

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
        """Take over a state that `state` gave."""
        tree = {name: array for name, array in arrays.items() if name.startswith("tree_")}
        own = {name: array for name, array in arrays.items() if name not in tree}
        integrity.forms(own, {"record": integrity.like(self.record)})
        self.record = own["record"]
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


class PlaceIndex(Places):
    """Objects with a record (x, y, s, p; see `rankcast.moving.kernels.zone_scores`), then attributes in the tree.

    Beside what `Places` has, `zones` finds the safe zones of queries.
    """

    def __init__(self, weights: list[float | None]) -> None:
        super().__init__(weights, STATIC)
        self._held_rooms: list[Space] = []

    def zones(self, form: Form, label: Ints, queries: Queries, m: int, threads: int) -> tuple[Zones, Ints]:
        """The zones of queries, on several cores; and blocks opened, objects tried."""
        most = np.minimum(queries.k + (m - 1), len(self))
        ends = np.cumsum(most)
        zones = Zones(
            start=ends - most,
            count=np.zeros(most.size, np.int64),
            member=np.zeros(int(ends[-1]) if most.size else 0, np.int32),
            radius=np.zeros(most.size),
            reach=np.zeros(most.size),
        )
        parts = np.array_split(np.arange(most.size), max(1, min(threads, most.size // PER_THREAD)))
        rooms = self._rooms(len(parts), min(int(queries.k.max(initial=0)) + m, len(self)))

        def search(part: Ints, room: Space) -> Ints:
            done: Ints = zone_search.find_zones(
                form, self.tree, self.record, label, queries, m, zones, (part, room)
            )
            return done

        if len(parts) == 1:
            return zones, search(parts[0], rooms[0])
        with ThreadPoolExecutor(len(parts)) as pool:
            return zones, np.sum(list(pool.map(search, parts, rooms)), axis=0)

    def _rooms(self, parts: int, board: int) -> list[Space]:
        """Room for searches side by side, kept from call to call."""
        held = [*self._held_rooms, *[None] * parts][: max(parts, len(self._held_rooms))]
        self._held_rooms = [space_for(self.tree, board, room) for room in held]
        return self._held_rooms[:parts]
