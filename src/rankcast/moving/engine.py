"""The base class of `MovingTopK` and `MovingSkyline`: objects that change, queries that move.

A subscription is a query at a place, with a filter on attributes; its result depends on the place and on all
objects. A subclass defines how objects are scored from a place (`_scores`) and which of them are the result
(`_result`). That alone is the brute force, `method="scan"`. With `method="zone"` the subclass sets `_zones`,
a `SafeZones` that keeps results and safe zones: then a query that moves inside its zone needs
no search, and a changed object concerns only the zones that it breaks.

Invariant: every live object has a finite score from the place of every live subscription; see
`rankcast.moving.places`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core.engine import ID, Engine, Part
from rankcast.core.spec import SUBSCRIPTIONS, Answer, Input, Spec
from rankcast.errors import InputError, shown
from rankcast.moving import hours, zone_tables
from rankcast.moving.brute_force import Objects, Place, distances_to
from rankcast.moving.hours import ObjectSlots
from rankcast.moving.index import SafeZones
from rankcast.moving.kernels.zone_follow import ASCENDING, first_unknown, last_of_each, rows_in_order
from rankcast.moving.object_engine import UNCHANGED, ObjectEngine
from rankcast.moving.places import (
    AXES,
    METRICS,
    QuerySlots,
    Reach,
    check_globe,
    fixed,
    places_of,
    reach_of,
    unscored,
)
from rankcast.moving.undo import Step, Undo, release, restore_columns
from rankcast.structures import integrity
from rankcast.structures.ids import Slots, show
from rankcast.tables import boxes, deltas, schema
from rankcast.tables.boxes import Boxes
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Batch, Bools, Column, Floats, Form, Ids, Rows

ORDER_CHECK = 64  # events; from this many on it pays to see first whether they come in order


def attribute_names(over: str | Sequence[str], dimensions: int = 2) -> list[str]:
    """The setting `over`: attributes of objects, or none."""
    return schema.attributes("over", over, least=0, reserved=("id", *AXES[:dimensions]))


class MovingEngine(ObjectEngine):
    """Moving queries over objects, by scan or with safe zones.

    Subscriptions are in `_slots`, objects in `_objects`; `_zones` is None for the scan.
    """

    spec = Spec(
        (
            Input("objects", ("upsert", "remove", "advance"), False, "item", early=True),
            SUBSCRIPTIONS,
            Input("events", ("publish",), True, "subscription", ids_of="subscriptions"),
        ),
        Answer("deltas", "item", "objects"),
    )
    calls = (*Engine.calls, "upsert", "remove", "advance")
    counters: ClassVar[tuple[str, ...]] = ("recomputed", "nodes_accessed")
    methods: ClassVar[tuple[str, ...]] = ("scan",)
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"method": "scan"},)
    scores_move = True
    _amendable: ClassVar[tuple[str, ...]] = ("k", "lower", "upper")

    def __init__(
        self,
        configuration: dict[str, Any],
        *,
        over: list[str],
        metric: str,
        method: str,
        dimensions: int = 2,
        extra: str,
        tuning: Mapping[str, Any] | None,
    ) -> None:
        self._over = over
        self._metric = schema.one_of("metric", metric, METRICS)
        self._method = schema.one_of("method", method, self.methods)
        shared = {"over": self._over, "metric": self._metric, "method": self._method}
        super().__init__({**shared, **configuration}, extra=extra, tuning=tuning)
        self._axes = AXES[:dimensions]
        place = [ID, *map(Column, self._axes)]
        self._event_form = Form(place)
        self._object_form = Form([*place, *map(Column, self._over), *hours.columns(self._over)])
        self._slots: Slots = QuerySlots(len(self._over), self._axes, takes_k=self.takes_k)
        self._objects = ObjectSlots(len(self._over), self._axes)
        self._zones: SafeZones | None = None
        self._undo = Undo(self._count, self._turn_step)
        self._empty: tuple[Any, pa.Table] | None = None  # the answer without rows, by the kinds of ids

    @cached_property
    def _reach(self) -> Reach:
        """Which places and objects are accepted."""
        return reach_of(self._configuration)

    # What a subclass defines

    @abstractmethod
    def _result(self, row: int, objects: Objects) -> tuple[Rows, Floats]:
        """The result of a subscription: places among all objects, best first, and their scores."""

    def _all_scored(self, x: Floats, y: Floats) -> bool:
        """Whether bounds prove that all objects have finite scores from these places; False: not known."""
        return False

    def _note_zones(self, rows: Rows) -> None:
        """Called before zones of subscriptions change, so that a failing custom score can be undone."""

    # Undo: a custom score may fail in the middle of a change

    def _subscribe_alone(self, rows: Any) -> pa.Table:
        with self._undo:
            return super()._subscribe_alone(rows)

    def _subscribe(self, rows: Any) -> Changes:
        with self._undo:
            return super()._subscribe(rows)

    def _amend(self, rows: Any) -> Changes:
        with self._undo:
            return super()._amend(rows)

    def _turn_step(self) -> Step:
        """A step that marks a call that had begun to change the engine as one that changed nothing."""
        turn = getattr(self, "_turn", None)
        begun, changing = getattr(turn, "begun", 0), getattr(turn, "changing", False)

        def back() -> None:
            if turn is not None:
                turn.begun, turn.changing = begun, changing

        return back

    # What `ListEngine` needs

    def _answer(self, changes: Changes) -> pa.Table:
        """The table of deltas; most positions change nothing, and have one empty table in common."""
        if changes.item.size:
            return super()._answer(changes)
        kinds = self._slots.kind, self._objects.kind
        if self._empty is None or self._empty[0] != kinds:
            self._empty = kinds, super()._answer(changes)
        self._settle()
        return self._empty[1]

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
        parts: dict[str, Part] = {"subscription": self._slots, "object": self._objects}
        parts["hours"] = self._objects.hours
        return {**parts, **(self._zones.parts() if self._zones else {})}

    def _check_restored(self) -> None:
        for slots, name in ((self._slots, "subscription"), (self._objects, "object")):
            live = slots._live()
            places = np.array([slots[axis][live] for axis in self._axes])
            for axis, values in zip(self._axes, places, strict=True):
                integrity.finite(values, f"{name}.{axis}")
            if self._metric == "haversine":
                check_globe(places[0], places[1], name)
            self._reach.check_places(places, name)
        self._objects.hours.check_restored(self._objects["sequence"] >= 0)
        attributes = self._objects["attributes"][live]
        integrity.finite(attributes, "object.attributes")
        self._check_attributes(attributes)
        self._reach.check_scores(self._objects.ids_at(live), attributes)
        boxes.check_boxes(self._slots["lower"], self._slots["upper"])
        if self.takes_k:
            integrity.within(self._slots["k"], 0, integrity.MOST, "subscription.k")
        if self._zones:
            self._zones.check_restored()

    def _columns(self) -> list[Column]:
        return [*map(Column, self._axes), *boxes.columns(self._over)]

    def _slot_values(self, batch: Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        held = None if rows is None else Boxes(self._slots["lower"][rows], self._slots["upper"][rows])
        filters = boxes.read(batch, self._over, held, where="subscriptions")
        place = {name: batch[name] if name in batch else self._slots[name][rows] for name in self._axes}
        self._check_places(np.array(list(place.values())), "subscriptions")
        return {**place, "lower": filters.lo, "upper": filters.hi}

    def _entered(self, rows: Rows) -> None:
        self._undo.note(lambda: self._leaving(rows))
        self._undo.note(lambda: release(self._slots, rows))
        self._placed(rows)

    def _amending(self, rows: Rows) -> None:
        if self._undo.noting:
            self._undo.note(restore_columns(self._slots, (*self._axes, *self._amendable), rows))
        self._note_zones(rows)

    def _amended(self, rows: Rows) -> None:
        self._placed(rows)

    def _leaving(self, rows: Rows) -> None:
        if self._zones:
            self._zones.leave(rows)

    def _placed(self, rows: Rows) -> None:
        """Find the results of subscriptions that are new or have changed."""
        if self._zones:
            self._zones.renew(rows)
        else:
            self._count_recomputed(rows.size)

    def _lists(self, rows: Rows) -> Lists:
        if self._zones:
            return self._zones.lists(rows)
        objects = self._all_objects()
        found = [self._result(row, objects) for row in rows]
        items = [objects.row[places] for places, _ in found]
        return deltas.gather_lists(rows, items, [scores for _, scores in found])

    # Queries

    def _publish(self, rows: Any) -> Changes:
        batch = self._read(rows, self._event_form, "events")
        row, ascending = self._known(batch.ids)
        places = places_of(batch, self._axes)
        self._check_places(places, "events")
        with self._undo:
            self._begin()
            self._count["events"] += batch.size
            if not ascending:
                last = last_of_each(row, self._slots.used)
                row, places = row[last], np.take(places, last, axis=1)
            return self._move(row, places)

    def _move(self, rows: Rows, places: Floats) -> Changes:
        """Bring queries, each once, to new places (2 or 3, n)."""
        if self._undo.noting:
            self._undo.note(restore_columns(self._slots, self._axes, rows))
            self._note_zones(rows)
        if not self._zones:
            before = self._lists(rows)
            self._write(rows, dict(zip(self._axes, places, strict=True)))
            self._count_recomputed(rows.size)
            return deltas.difference(before, self._lists(rows), self._slots.place, updates=False)
        changed, before = self._zones.follow(rows, places)
        if not changed.size:
            return UNCHANGED
        return deltas.difference(before, self._zones.lists(changed), self._slots["sequence"], updates=False)

    def _known(self, ids: Ids) -> tuple[Rows, bool]:
        """The rows of live subscriptions, which may come several times, and whether they ascend.

        Many that come as they were registered are found without looking each of them up.
        """
        slots = self._slots
        if ids.size >= ORDER_CHECK and ids.kind == slots.kind == "int":
            found: Rows = rows_in_order(slots["code"], slots["sequence"], slots.used, fixed(ids.values))
            if found.size:
                return found, True
        row = slots.find(ids, where="events")
        first = first_unknown(row)
        if first >= 0:
            raise InputError(
                f"is {show(ids, first)}, which is not known",
                where="events",
                column="id",
                row=first,
                expected="a live subscription",
            )
        return row, first == ASCENDING

    def _check_places(self, places: Floats, where: str) -> None:
        """Refuse places (2 or 3, n) of queries that are too far, or from where an object has no score."""
        if self._metric == "haversine":
            check_globe(places[0], places[1], where)
        self._reach.check_places(places, where)
        if self._reach.certain or (not self._objects.hours.opens.size and self._all_scored(*places[:2])):
            return
        objects = self._all_objects(closed=True)  # one that opens must have scores
        for row, place in enumerate(places.T):
            odd = np.flatnonzero(~np.isfinite(self._scores(tuple(place), objects)))
            if odd.size:
                item = self._objects.take(objects.row[odd[:1]])[0].as_py()
                raise unscored(f"object {shown(item)} from here", where, row)

    # Helpers

    def _place(self, row: int) -> Place:
        return tuple(float(self._slots[name][row]) for name in self._axes)

    def _passes(self, row: int, attributes: Floats) -> Bools:
        """Which attributes (n, d) pass the filter of a subscription."""
        lower, upper = self._slots["lower"][row], self._slots["upper"][row]
        passes: Bools = ((lower <= attributes) & (attributes <= upper)).all(axis=1)
        return passes

    def _distances(self, place: Place, objects: Objects) -> Floats:
        return distances_to(objects, place, self._metric)

    def _circles(
        self, rows: Rows, centre: Sequence[Floats], radius: Floats, members: Sequence[Rows]
    ) -> pa.Table:
        """Zones as a table: circles, in space spheres, with members."""
        listed = zone_tables.listed(members, self._objects)
        place = dict(zip(self._axes, centre, strict=False))
        return zone_tables.circles(self._slots.take(rows), place, radius, listed)

    def _points(self, rows: Rows, members: Sequence[Rows]) -> pa.Table:
        """Zones of radius 0: nothing is known beyond the place itself."""
        place = [self._slots[name][rows] for name in self._axes]
        return self._circles(rows, place, np.zeros(rows.size), members)

    def _count_recomputed(self, size: int) -> None:
        """Results that were computed anew, each from all objects."""
        self._count["recomputed"] += size
        self._count["candidates"] += size * len(self._objects)
