"""What moving engines do with objects: these come and go, change, and open and close as time goes on.

Objects are in `_objects`, with their hours (`rankcast.moving.hours`). Only those that are open take part: the
brute force looks at no others, and an index of zones holds no others. A call that changes objects, or moves
the clock, takes some out of the index (`leaving`) and lets others in (`coming`); an object that only changes
is in both. The zones that list the former, and those that the latter break, are renewed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.core import locking
from rankcast.core.list_engine import ListEngine
from rankcast.core.spec import Clock, Reading
from rankcast.errors import shown
from rankcast.moving import hours
from rankcast.moving.brute_force import Objects, Place
from rankcast.moving.hours import NO_ROWS, ObjectSlots
from rankcast.moving.index import SafeZones
from rankcast.moving.places import Reach, check_globe, unscored
from rankcast.moving.undo import Undo, release, restore_columns
from rankcast.structures import hashing
from rankcast.structures.ids import keys_of, select, show
from rankcast.tables import deltas, read
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import NO_TIME, Bools, Floats, Form, Ids, Ints, Rows

UNCHANGED = deltas.no_changes()


class GivenObjects(NamedTuple):
    """Objects that come: rows, -1 of new ones; places, attributes (n, d), hours."""

    row: Rows
    places: Floats  # (n, 2 or 3)
    attributes: Floats
    opens: Ints
    closes: Ints

    def those(self, index: Any) -> GivenObjects:
        """Some of them."""
        return GivenObjects._make(column[index] for column in self)


class ObjectEngine(ListEngine):
    """The objects of a moving engine, and their time."""

    added_parts = frozenset(("hours",))
    _over: list[str]
    _axes: tuple[str, ...]
    _metric: str
    _objects: ObjectSlots
    _object_form: Form
    _zones: SafeZones | None
    _undo: Undo

    # What the engine defines

    @property
    @abstractmethod
    def _reach(self) -> Reach:
        """Which places and objects are accepted."""

    @abstractmethod
    def _scores(self, place: Place, objects: Objects) -> Floats:
        """The scores of objects from a place."""

    @abstractmethod
    def _place(self, row: int) -> Place:
        """Where a subscription is."""

    @abstractmethod
    def _note_zones(self, rows: Rows) -> None:
        """Called before zones of subscriptions change, so that a failing custom score can be undone."""

    @abstractmethod
    def _count_recomputed(self, size: int) -> None:
        """Results that were computed anew, each from all objects."""

    def _check_attributes(self, attributes: Floats) -> None:
        """Refuse attributes (n, d) of objects for which the score is nowhere defined."""

    def _scored_from_all(self, x: Floats, y: Floats, attributes: Floats) -> bool:
        """Whether bounds prove that these objects have finite scores from all queries; False: not known."""
        return False

    # The calls

    @locking.inside
    def reads(self, call: str) -> Reading:
        """The columns that a call takes with these settings, and what errors call its rows."""
        if call == "advance":
            return Reading(hours.CLOCK, "advance")
        return Reading(self._object_form, "objects") if call == "upsert" else super().reads(call)

    def objects(self) -> pa.Table:
        """The live objects: `id`, `x`, `y` and the attributes of `over`; if any has hours, these too."""
        rows, held = self._objects.live(), self._objects.hours
        attributes = self._objects["attributes"][rows]
        columns = {name: pa.array(attributes[:, place]) for place, name in enumerate(self._over)}
        place = {name: pa.array(self._objects[name][rows]) for name in self._axes}
        told = {} if not held.opens.size else held.told(rows)
        told = {name: column for name, column in told.items() if name not in self._over}
        return pa.table({"id": self._objects.take(rows), **place, **columns, **told})

    def upsert(self, rows: Any) -> pa.Table:
        """Insert objects, or replace those that are there; returns the changes of results.

        Rows need `id`, `x`, `y` (of three dimensions `z`) and every attribute, and may have `opens`, `closes`
        and `time`: see `advance`. Of rows with the same id the last one holds.
        """
        return self._answer(self._upsert(rows))

    def remove(self, ids: Any) -> pa.Table:
        """Remove objects; returns the changes of results."""
        return self._answer(self._remove(ids))

    def advance(self, time: Any) -> pa.Table:
        """Move the clock; objects open and close. Returns the changes of results.

        An object takes part while `opens <= clock < closes`; a null is no bound. A time that is past does
        nothing. A column `time` of objects moves the clock too. Before the first time the clock is earlier
        than all.

        Args:
            time: a `datetime`, or a table with a column `time`, whose latest counts.
        """
        return self._answer(self._advance(time))

    def clock(self) -> Clock | None:
        """The newest time that came, and when an object opens or closes next, if ever; None: no time came."""
        held = self._objects.hours
        return None if held.clock == NO_TIME else Clock(held.clock, held.next_turn())

    def _upsert(self, rows: Any) -> Changes:
        batch = self._read(rows, self._object_form, "objects")
        row = self._objects.find(batch.ids, where="objects")
        attributes = np.empty((batch.size, len(self._over)))
        for place, name in enumerate(self._over):
            attributes[:, place] = batch[name]
        places = np.column_stack([batch[name] for name in self._axes])
        self._check_objects(batch.ids, places.T.copy(), attributes)
        opens, closes, newest = hours.given_hours(batch, self._over)
        ids, given = batch.ids, GivenObjects(row, places, attributes, opens, closes)
        if batch.size > 1:
            number, first = hashing.distinct(keys_of(ids))
            last = np.empty(first.size, np.int64)
            last[number] = np.arange(batch.size)
            ids, given = select(ids, first), given.those(last)
        with self._undo:
            self._begin()
            return self._store(ids, given, newest)

    def _remove(self, ids: Any) -> Changes:
        gone = self._objects.require(self._ids(ids), where="ids")
        with self._undo:
            self._begin()
            return self._forget(gone)

    def _advance(self, time: Any) -> Changes:
        clock = hours.read_time(time)
        with self._undo:
            self._begin()
            return self._turn_to(clock, NO_ROWS, lambda: NO_ROWS)

    # Changes

    def _store(self, ids: Ids, given: GivenObjects, clock: int) -> Changes:
        """Store objects, each once, and move the clock; a row of -1 is new."""
        if self._zones:
            other = np.flatnonzero(self._differs(given))
            ids, given = select(ids, other), given.those(other)
        return self._turn_to(clock, given.row[given.row >= 0], lambda: self._write_objects(ids, given))

    def _turn_to(self, clock: int, rows: Rows, write: Callable[[], Rows]) -> Changes:
        """Move the clock and `write` objects, which returns their rows; `rows` are those that were there."""
        held, zones = self._objects.hours, self._zones
        closing, opening = held.turning(clock)
        if not zones:
            live = self._subscriptions.live()
            before_scan = self._lists(live)
            self._move_clock(clock)
            write()
            return self._changed(live, before_scan)
        leaving = _joined(closing, rows[held.open(rows)])
        listing = zones.listing(leaving)
        before = [zones.lists(listing)]
        self._undo.note(lambda: zones.put(leaving))
        written = write()
        self._move_clock(clock)
        coming = _joined(opening, written)
        coming, gone = coming[held.open(coming)], leaving[~held.open(leaving)]
        if not coming.size and not gone.size:
            return UNCHANGED
        if self._undo.noting:
            fresh = coming[~np.isin(coming, leaving)]
            self._undo.note(lambda: zones.drop(fresh))
        if gone.size:
            zones.drop(gone)
        broken = NO_ROWS
        if coming.size:
            zones.put(coming)
            broken = zones.broken(coming, listing)
        before.append(zones.lists(broken))
        both = np.concatenate([listing, broken])
        self._note_zones(both)
        zones.admit(coming, listing, broken)
        return self._renewed(zones, both, before)

    def _move_clock(self, clock: int) -> None:
        """Move the clock on, if that is later."""
        held = self._objects.hours
        former = held.clock
        if clock > former:
            self._undo.note(lambda: held.move(former))
            held.move(clock)

    def _write_objects(self, ids: Ids, given: GivenObjects) -> Rows:
        """Give rows to new objects and write all of them; returns their rows."""
        held, row, new = self._objects.hours, given.row.copy(), given.row < 0
        if self._undo.noting:
            known = given.row[~new]
            former = held.of(known)
            self._undo.note(restore_columns(self._objects, (*self._axes, "attributes"), known))
            self._undo.note(lambda: held.put(known, *former))
        row[new] = self._objects.add(select(ids, np.flatnonzero(new)))
        for axis, name in enumerate(self._axes):
            self._objects[name][row] = given.places[:, axis]
        self._objects["attributes"][row] = given.attributes
        held.put(row, given.opens, given.closes)
        self._undo.note(lambda: release(self._objects, row[new]))
        self._undo.note(lambda: held.forget(row[new]))
        return row

    def _forget(self, gone: Rows) -> Changes:
        """Remove objects."""
        zones, held = self._zones, self._objects.hours
        if not zones:
            return self._forget_by_scan(gone)
        leaving = gone[held.open(gone)]
        listing = zones.listing(leaving)
        before = zones.lists(listing)
        self._note_zones(listing)
        self._undo.note(lambda: zones.put(leaving))
        zones.drop(leaving)
        zones.renew(listing)
        changes = self._renewed(zones, listing, [before])
        self._objects.release(gone)
        held.forget(gone)
        return changes

    def _forget_by_scan(self, gone: Rows) -> Changes:
        """Remove objects where every result is computed from all of them."""
        live, held = self._subscriptions.live(), self._objects.hours
        before = self._lists(live)
        if self._undo.noting:
            ids = read.read_ids(self._objects.take(gone), where="ids")
            places = np.column_stack([self._objects[name][gone] for name in self._axes])
            attributes = self._objects["attributes"][gone]
            former = GivenObjects(np.full_like(gone, -1), places, attributes, *held.of(gone))
            self._undo.note(lambda: self._come_back(ids, former))
        self._objects.release(gone)
        held.forget(gone)
        return self._changed(live, before)

    def _come_back(self, ids: Ids, held: GivenObjects) -> None:
        """Store objects again that were released."""
        self._write_objects(ids, held)

    def _changed(self, live: Rows, before: Lists) -> Changes:
        """The changes of results after objects changed; these include new scores."""
        self._count_recomputed(live.size)
        return deltas.difference(before, self._lists(live), self._subscriptions.place)

    def _renewed(self, zones: SafeZones, rows: Rows, before: list[Lists]) -> Changes:
        """The changes of results of subscriptions that got new zones."""
        if not rows.size:
            return UNCHANGED
        joined = Lists._make(np.concatenate(columns) for columns in zip(*before, strict=True))
        return deltas.difference(joined, zones.lists(rows), self._subscriptions["sequence"])

    # Helpers

    def _differs(self, given: GivenObjects) -> Bools:
        """Which objects are new, or differ from what is stored."""
        held, row = self._objects, given.row
        same = (held["attributes"][row] == given.attributes).all(axis=1)
        for axis, name in enumerate(self._axes):
            same &= held[name][row] == given.places[:, axis]
        differs: Bools = ~same | (row < 0) | held.hours.differ(row, given.opens, given.closes)
        return differs

    def _check_objects(self, ids: Ids, places: Floats, attributes: Floats) -> None:
        """Refuse objects that are too far, or have no finite score from where a query is or may be."""
        if self._metric == "haversine":
            check_globe(places[0], places[1], "objects")
        self._reach.check_places(places, "objects")
        self._check_attributes(attributes)
        self._reach.check_scores(ids, attributes)
        if self._reach.certain or self._scored_from_all(places[0], places[1], attributes):
            return
        rows = np.arange(len(attributes), dtype=np.int32)
        objects = Objects(rows, places[0], places[1], attributes, places[-1])
        for subscription in self._subscriptions.live():
            odd = np.flatnonzero(~np.isfinite(self._scores(self._place(subscription), objects)))
            if odd.size:
                query = self._subscriptions.take([subscription])[0].as_py()
                raise unscored(
                    f"object {show(ids, odd[0])} from subscription {shown(query)}", "objects", odd[0]
                )

    def _all_objects(self, *, closed: bool = False) -> Objects:
        """The objects that take part, or also those that do not, by id.

        So a custom score always sees the same order.
        """
        held = self._objects
        there = held["sequence"] >= 0 if closed else held.present
        live = np.flatnonzero(there[: held.used]).astype(np.int32)
        return self._objects_at(live[np.argsort(held.label[live])])

    def _objects_at(self, rows: Rows) -> Objects:
        """Objects by row."""
        held = self._objects
        third = held[self._axes[-1]][rows]
        return Objects(rows, held["x"][rows], held["y"][rows], held["attributes"][rows], third)


def _joined(rows: Rows, others: Rows) -> Rows:
    """Rows and others, each once."""
    if not rows.size:
        return others
    found: Rows = np.concatenate([rows[~np.isin(rows, others)], others])
    return found
