"""What engines with moving queries share: objects that come and go, queries that move.

A subscription is a query at a place; its result depends on the place and on all objects. A subclass says how
objects are scored from a place (`_scores`) and which of them are the result (`_result`); by itself that makes
the brute force, `method="scan"`. A subclass with another method overrides what is done when queries
(`_move`) and objects (`_store`, `_forget`) change.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core.engine import ID, Engine, Part
from rankcast.moving.brute_force import Objects
from rankcast.moving.kernels.zone_follow import last_of_each
from rankcast.moving.moving_checks import MovingChecks
from rankcast.moving.places import PLACE, check_globe
from rankcast.moving.undo import Step, Undo, columns_of, release
from rankcast.structures import hashing, integrity
from rankcast.structures.ids import Slots, keys_of, select
from rankcast.tables import deltas, read, schema
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Batch, Column, Floats, Ids, Rows

METRICS = ("euclidean", "manhattan", "haversine")
METRICS_LATER = ("network",)
OBJECT = ("x", "y", "attributes")


def names_of(over: str | Sequence[str]) -> list[str]:
    """The setting `over`: attributes of objects, or none."""
    return schema.attributes("over", over, least=0, reserved=("id", "x", "y"))


class MovingEngine(MovingChecks):
    """The common ground of `MovingTopK` and `MovingSkyline`."""

    calls = (*Engine.calls, "upsert", "remove")
    counters: ClassVar[tuple[str, ...]] = ("recomputed", "nodes_accessed")
    methods: ClassVar[tuple[str, ...]] = ("scan",)
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"method": "scan"},)
    scores_move = True
    _amendable: ClassVar[tuple[str, ...]] = ("x", "y")

    def __init__(
        self,
        configuration: dict[str, Any],
        *,
        over: list[str],
        metric: str,
        method: str,
        extra: str,
        tuning: Mapping[str, Any] | None,
    ) -> None:
        self._over = over
        self._metric = schema.one_of("metric", metric, METRICS, later=METRICS_LATER)
        self._method = schema.one_of("method", method, self.methods)
        shared = {"over": self._over, "metric": self._metric, "method": self._method}
        super().__init__({**shared, **configuration}, extra=extra, tuning=tuning)
        place = {"x": np.float64, "y": np.float64}
        self._slots = self._new_slots()
        self._objects = Slots({**place, "attributes": (np.float64, len(self._over))}, ordered=True)
        self._undo = Undo(self._count, self._standing)

    # What a subclass provides

    @abstractmethod
    def _result(self, row: int, objects: Objects) -> tuple[Rows, Floats]:
        """The result of a subscription: places among all objects, best first, and their scores."""

    def _new_slots(self) -> Slots:
        """Subscriptions, none yet."""
        return Slots({"x": np.float64, "y": np.float64})

    # Functions of one's own, which may fail in the middle of a change

    def _subscribe_alone(self, rows: Any) -> pa.Table:
        with self._undo():
            return super()._subscribe_alone(rows)

    def _subscribe(self, rows: Any) -> Changes:
        with self._undo():
            return super()._subscribe(rows)

    def _amend(self, rows: Any) -> Changes:
        with self._undo():
            return super()._amend(rows)

    def _standing(self) -> Step:
        """A step that says that a call which had begun to change the engine has changed nothing after all."""
        turn = getattr(self, "_turn", None)
        begun, changing = getattr(turn, "begun", 0), getattr(turn, "changing", False)

        def back() -> None:
            if turn is not None:
                turn.begun, turn.changing = begun, changing

        return back

    # What the base asks for

    @property
    def _subscriptions(self) -> Slots:
        return self._slots

    @property
    def _items(self) -> Slots:
        return self._objects

    @property
    def _updates(self) -> bool:
        return False

    def _parts(self) -> dict[str, Part]:
        return {"subscription": self._slots, "object": self._objects}

    def _check_restored(self) -> None:
        for slots, name in ((self._slots, "subscription"), (self._objects, "object")):
            live = slots._live()
            x, y = slots["x"][live], slots["y"][live]
            integrity.finite(x, f"{name}.x")
            integrity.finite(y, f"{name}.y")
            if self._metric == "haversine":
                check_globe(x, y, name)
            self._reach.check_places(x, y, name)
        attributes = self._objects["attributes"][live]
        integrity.finite(attributes, "object.attributes")
        self._check_attributes(attributes)
        self._reach.check_scores(self._objects._ids_at(live), attributes)

    def _columns(self) -> list[Column]:
        return PLACE

    def _fields(self, batch: Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        place = {name: batch[name] if name in batch else self._slots[name][rows] for name in ("x", "y")}
        self._check_places(place["x"], place["y"], "subscriptions")
        return place

    def _entered(self, rows: Rows) -> None:
        self._undo.note(lambda: release(self._slots, rows))
        self._placed(rows)

    def _amending(self, rows: Rows) -> None:
        if self._undo.noting:
            self._undo.note(columns_of(self._slots, self._amendable, rows))

    def _amended(self, rows: Rows) -> None:
        self._placed(rows)

    def _placed(self, rows: Rows) -> None:
        """Subscriptions are new, or have changed."""
        self._count_recomputed(rows.size)

    def _lists(self, rows: Rows) -> Lists:
        objects = self._all_objects()
        found = [self._result(row, objects) for row in rows]
        items = [objects.row[places] for places, _ in found]
        return deltas.gather_lists(rows, items, [scores for _, scores in found])

    def _publish(self, rows: Any) -> Changes:
        batch = self._read(rows, [ID, *PLACE], "events")
        row = self._known(batch.ids)
        self._check_places(batch["x"], batch["y"], "events")
        with self._undo():
            self._begin()
            self._count["events"] += batch.size
            if (row[1:] > row[:-1]).all():
                return self._move(row, batch["x"], batch["y"])
            last = last_of_each(row, self._slots.used)
            return self._move(row[last], batch["x"][last], batch["y"][last])

    def _move(self, rows: Rows, x: Floats, y: Floats) -> Changes:
        """Bring queries, each once, to new places."""
        before = self._lists(rows)
        if self._undo.noting:
            self._undo.note(columns_of(self._slots, ("x", "y"), rows))
        self._write(rows, {"x": x, "y": y})
        self._count_recomputed(rows.size)
        return deltas.difference(before, self._lists(rows), self._slots.place, updates=False)

    # Objects

    def upsert(self, rows: Any) -> pa.Table:
        """Insert objects, or replace those that are there; returns the changes of results.

        Rows need `id`, `x`, `y` and every attribute. Of rows with the same id the last one holds.
        """
        return self._answer(self._upsert(rows))

    def remove(self, ids: Any) -> pa.Table:
        """Remove objects; returns the changes of results."""
        return self._answer(self._remove(ids))

    def _upsert(self, rows: Any) -> Changes:
        batch = self._read(rows, [ID, *PLACE, *map(Column, self._over)], "objects")
        row = self._objects.find(batch.ids, where="objects")
        attributes = np.empty((batch.size, len(self._over)))
        for place, name in enumerate(self._over):
            attributes[:, place] = batch[name]
        self._check_objects(batch.ids, batch["x"], batch["y"], attributes)
        number, first = hashing.distinct(keys_of(batch.ids))
        last = np.empty(first.size, np.int64)
        last[number] = np.arange(batch.size)
        given = Objects(row[first], batch["x"][last], batch["y"][last], attributes[last])
        ids = select(batch.ids, first)
        with self._undo():
            self._begin()
            return self._store(ids, given)

    def _store(self, ids: Ids, given: Objects) -> Changes:
        """Store objects, each once; a row of -1 is new."""
        live = self._slots.live()
        before = self._lists(live)
        self._write_objects(ids, given)
        return self._changed(live, before)

    def _write_objects(self, ids: Ids, given: Objects) -> Rows:
        """Give rows to new objects and write all of them; returns their rows."""
        row, new = given.row.copy(), given.row < 0
        if self._undo.noting:
            self._undo.note(columns_of(self._objects, OBJECT, given.row[~new]))
        row[new] = self._objects.add(select(ids, np.flatnonzero(new)))
        for name, values in (("x", given.x), ("y", given.y), ("attributes", given.attributes)):
            self._objects[name][row] = values
        self._undo.note(lambda: release(self._objects, row[new]))
        return row

    def _remove(self, ids: Any) -> Changes:
        gone = self._objects.require(self._ids(ids), where="ids")
        with self._undo():
            self._begin()
            return self._forget(gone)

    def _forget(self, gone: Rows) -> Changes:
        """Forget objects."""
        live = self._slots.live()
        before = self._lists(live)
        if self._undo.noting:
            ids = read.read_ids(self._objects.take(gone), where="ids")
            held = Objects(np.full_like(gone, -1), *(self._objects[name][gone] for name in OBJECT))
            self._undo.note(lambda: self._come_back(ids, held))
        self._objects.release(gone)
        return self._changed(live, before)

    def _come_back(self, ids: Ids, held: Objects) -> None:
        """Let objects be there again that were released."""
        self._write_objects(ids, held)

    def _changed(self, live: Rows, before: Lists) -> Changes:
        """The changes that other objects cause; here a new score is told."""
        self._count_recomputed(live.size)
        return deltas.difference(before, self._lists(live), self._slots.place)

    # Helpers

    def _circles(
        self, rows: Rows, centre: tuple[Floats, Floats], radius: Floats, members: Sequence[Rows]
    ) -> pa.Table:
        """Zones as a table: circles with members."""
        ends = np.cumsum([0, *(len(each) for each in members)])
        joined = np.concatenate([*members, np.empty(0, np.int32)])
        return pa.table(
            {
                "subscription": self._slots.take(rows),
                "x": centre[0],
                "y": centre[1],
                "radius": radius,
                "members": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), self._objects.take(joined)),
            }
        )

    def _points(self, rows: Rows, members: Sequence[Rows]) -> pa.Table:
        """Zones of radius 0: nothing is known beyond the place itself."""
        return self._circles(
            rows, (self._slots["x"][rows], self._slots["y"][rows]), np.zeros(rows.size), members
        )

    def _count_recomputed(self, size: int) -> None:
        """Results that were computed anew, each from all objects."""
        self._count["recomputed"] += size
        self._count["candidates"] += size * len(self._objects)
