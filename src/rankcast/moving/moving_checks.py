"""Objects and queries that move: where they are, and whether every object has a score from every query."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from rankcast.core.lists import ListEngine
from rankcast.errors import InputError, shown
from rankcast.moving.brute_force import Objects, distances_to
from rankcast.moving.kernels.zone_follow import rows_in_order
from rankcast.moving.moving_reach import Reach, reach_of
from rankcast.moving.places import check_globe, fixed, unscored
from rankcast.structures.ids import Slots, show
from rankcast.tables.schema import Floats, Ids, Rows

MANY = 64  # events, of which it pays to see whether they come in order


class MovingChecks(ListEngine):
    """Subscriptions in `_slots`, objects in `_objects`, both with places.

    Invariant: every live object has a finite score from the place of every live subscription.
    """

    _slots: Slots
    _objects: Slots
    _metric: str

    @cached_property
    def _reach(self) -> Reach:
        return reach_of(self._configuration)

    @abstractmethod
    def _scores(self, x: float, y: float, objects: Objects) -> Floats:
        """The scores of objects from a place."""

    def _check_attributes(self, attributes: Floats) -> None:
        """Refuse attributes (n, d) of objects for which there is no score anywhere."""

    def _all_scored(self, x: Floats, y: Floats) -> bool:
        """Whether it is certain, at little cost, that all objects have finite scores from these places."""
        return False

    def _scored_from_all(self, x: Floats, y: Floats, attributes: Floats) -> bool:
        """Whether it is certain, at little cost, that these objects have finite scores from all queries."""
        return False

    def _known(self, ids: Ids) -> Rows:
        """The rows of live subscriptions, which may come several times.

        Many that come as they were registered are found without looking each of them up.
        """
        slots = self._slots
        if ids.size >= MANY and ids.kind == slots.kind == "int":
            found: Rows = rows_in_order(slots["code"], slots["sequence"], slots.used, fixed(ids.values))
            if found.size:
                return found
        row = slots.find(ids, where="events")
        if (row < 0).any():
            first = int(np.argmax(row < 0))
            raise InputError(
                f"is {show(ids, first)}, which is not known",
                where="events",
                column="id",
                row=first,
                expected="a live subscription",
            )
        return row

    def _check_places(self, x: Floats, y: Floats, where: str) -> None:
        """Refuse places of queries that are too far, or from which an object has no finite score."""
        if self._metric == "haversine":
            check_globe(x, y, where)
        self._reach.check_places(x, y, where)
        if self._reach.certain or self._all_scored(x, y):
            return
        objects = self._all_objects()
        for row, place in enumerate(zip(x, y, strict=True)):
            odd = np.flatnonzero(~np.isfinite(self._scores(*place, objects)))
            if odd.size:
                item = self._objects.take(objects.row[odd[:1]])[0].as_py()
                raise unscored(f"object {shown(item)} from here", where, row)

    def _check_objects(self, ids: Ids, x: Floats, y: Floats, attributes: Floats) -> None:
        """Refuse objects that are too far, or have no finite score from where a query is or may be."""
        if self._metric == "haversine":
            check_globe(x, y, "objects")
        self._reach.check_places(x, y, "objects")
        self._check_attributes(attributes)
        self._reach.check_scores(ids, attributes)
        if self._reach.certain or self._scored_from_all(x, y, attributes):
            return
        objects = Objects(np.arange(x.size, dtype=np.int32), x.copy(), y.copy(), attributes)
        for subscription in self._slots.live():
            odd = np.flatnonzero(~np.isfinite(self._scores(*self._place(subscription), objects)))
            if odd.size:
                query = self._slots.take([subscription])[0].as_py()
                raise unscored(
                    f"object {show(ids, odd[0])} from subscription {shown(query)}", "objects", odd[0]
                )

    # Helpers

    def _place(self, row: int) -> tuple[float, float]:
        return float(self._slots["x"][row]), float(self._slots["y"][row])

    def _all_objects(self) -> Objects:
        """The live objects by id, so that a score is always asked for in the same order."""
        live = np.flatnonzero(self._objects["sequence"][: self._objects.used] >= 0).astype(np.int32)
        live = live[np.argsort(self._objects.label[live])]
        return Objects(live, *(self._objects[name][live] for name in ("x", "y", "attributes")))

    def _distances(self, x: float, y: float, objects: Objects) -> Floats:
        return distances_to(objects, x, y, self._metric)
