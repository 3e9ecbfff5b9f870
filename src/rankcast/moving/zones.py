"""Safe zones by subscription, live, and which of them a changed object breaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.moving.index import PointIndex
from rankcast.moving.kernels import zone_follow
from rankcast.moving.kernels.zone_follow import Held
from rankcast.moving.kernels.zone_search import Zones
from rankcast.moving.runs import check_stretches, stretches
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Bools, Floats, Rows

BY_ROW = ("x", "y", "radius", "reach", "start", "count", "room")
SPARE = 1024


class ZoneIndex:
    """Zones of subscriptions: circles with members, and an R-tree over them.

    - Changing: `put`, `drop`.
    - Asking: `held` for kernels, and `tree` for those that look for zones by place.
    - Keeping: `state`, `restore`, `check`.

    The tree is brought up to date when it is asked for: queries that move on through a world that stands
    still never need it. Members lie in one array, in place where a new zone has no more than the old one, and
    are moved together when more than half of it is unused.
    Memory: 57 bytes a subscription, 4 a member (up to twice that), and the tree.
    """

    def __init__(self) -> None:
        none, nowhere = np.zeros(0), np.zeros(0, np.int64)
        self.held = Held(none, none, none, none, nowhere, nowhere, nowhere, np.zeros(0, np.int32))
        self._stale = np.zeros(0, np.bool_)  # not in the tree as it is now
        self._used = 0
        self._index = PointIndex([None, None, 0.0, 0.0])

    @property
    def tree(self) -> Any:
        """The R-tree of all zones: x, y, radius, reach."""
        stale = np.flatnonzero(self._stale).astype(np.int32)
        if stale.size:
            self._take_out(stale)
            held = self.held
            points = np.column_stack([held.x[stale], held.y[stale], held.radius[stale], held.reach[stale]])
            self._index.insert(stale, points)
            self._stale[stale] = False
        return self._index.tree

    def put(self, rows: Rows, x: Floats, y: Floats, zones: Zones) -> None:
        """Set the zones of subscriptions, around the given places."""
        if not rows.size:
            return
        self._reserve(int(rows.max()) + 1, int(zones.count.sum()))
        held = self.held
        held.x[rows], held.y[rows] = x, y
        self._used = int(zone_follow.store(held, rows, zones, self._used))
        self._stale[rows] = True

    def drop(self, rows: Rows) -> None:
        """Forget zones; a subscription that has none yet is passed over."""
        rows = rows[rows < self._stale.size]
        self._take_out(rows)
        self._stale[rows] = False
        self.held.count[rows] = self.held.room[rows] = 0

    def _take_out(self, rows: Rows) -> None:
        """Take zones out of the tree, those that are in it."""
        place = self._index.tree.place
        known = rows[rows < place.size]
        self._index.remove(known[place[known] >= 0])

    def _reserve(self, rows: int, members: int) -> None:
        """Make room for rows, and for members at the end."""
        held = self.held
        if rows > held.x.size:
            length = max(rows, 2 * held.x.size, 16)
            larger = {name: grown(getattr(held, name), length, 0) for name in BY_ROW}
            self.held = held = held._replace(**larger)
            self._stale = grown(self._stale, length, 0)
        if self._used + members > held.member.size:
            live = int(held.count.sum())
            size = max(held.member.size, SPARE)
            while size < live + members or size < 2 * live:
                size *= 2
            larger_member = np.zeros(size, np.int32)
            self._used = int(zone_follow.compact(held, larger_member))
            self.held = held._replace(member=larger_member)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        tree = {f"tree_{name}": array for name, array in self._index.state()[1].items()}
        return {"used": self._used}, {**self.held._asdict(), "stale": self._stale, **tree}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        tree = {name: array for name, array in arrays.items() if name.startswith("tree_")}
        own = {name: array for name, array in arrays.items() if name not in tree}
        rows = own["x"].size if "x" in own else 0
        known = {**self.held._asdict(), "stale": self._stale}
        wanted = {n: integrity.like(a, length=None if n == "member" else rows) for n, a in known.items()}
        integrity.forms(own, wanted)
        self._used = integrity.whole(header, "used", 0, own["member"].size)
        self.held = Held(**{name: own[name] for name in Held._fields})
        self._stale = own["stale"]
        self._index.restore({}, {name[5:]: array for name, array in tree.items()})
        return self

    def check_restored(self, live: Bools, items: Bools) -> None:
        """Refuse zones from a snapshot that are not of `live` subscriptions, or list others than `items`."""
        held, rows = self.held, np.flatnonzero(live)
        check_stretches("", live, (held.start, held.count, held.room), self._used)
        for name in ("x", "y", "radius", "reach"):
            integrity.no_nan(getattr(held, name)[rows], name)
        integrity.finite(held.x[rows], "x")
        integrity.finite(held.y[rows], "y")
        members = held.member[stretches(held.start[rows], held.count[rows])]
        integrity.within(members, 0, items.size, "member")
        integrity.need(items[members].all(), "member", "lists objects that are gone")
        self._index.check_restored(live)
        there = np.zeros_like(live)
        for known in (self._index.present(), self._stale):
            integrity.need(not known[there.size :].any(), "stale", "names nobody who is there")
            there[: known.size] |= known[: there.size]
        integrity.need(np.array_equal(there, live), "stale", "is not of the subscriptions that are there")

    def check(self, rows: Rows) -> None:
        """Assert the invariants; `rows` are the live subscriptions."""
        tree, held = self.tree, self.held
        present = np.flatnonzero(tree.place >= 0)
        assert np.array_equal(present, np.sort(rows))
        self._index.check(np.column_stack([held.x, held.y, held.radius, held.reach]))
        taken = np.zeros(held.member.size, np.int64)
        for row in present:
            assert held.count[row] <= held.room[row]
            taken[held.start[row] : held.start[row] + held.room[row]] += 1
        assert taken.max(initial=0) <= 1
        assert taken[self._used :].sum() == 0
