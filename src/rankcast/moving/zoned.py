"""Moving queries with safe zones: what top-k and skyline do alike once a method keeps zones for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.moving.brute_force import Objects
from rankcast.moving.engine import MovingEngine
from rankcast.moving.topk_zones import ZoneMethod
from rankcast.moving.undo import columns_of, zones_of
from rankcast.structures import integrity
from rankcast.structures.ids import Slots, select
from rankcast.tables import boxes, deltas
from rankcast.tables.boxes import Boxes
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Batch, Bools, Column, Floats, Ids, Rows


class Zoned(Protocol):
    """What keeps results and zones of subscriptions among objects."""

    def parts(self) -> dict[str, Part]:
        """What is saved."""

    def lists(self, rows: Rows) -> Lists:
        """Results of subscriptions."""

    def renew(self, rows: Rows) -> None:
        """Find results and zones of subscriptions anew."""

    def leave(self, rows: Rows) -> None:
        """Forget subscriptions."""

    def follow(self, rows: Rows, x: Floats, y: Floats) -> tuple[Rows, Lists]:
        """Move queries; those whose results are others now, and what they were."""

    def check_restored(self) -> None:
        """Refuse places and zones from a snapshot that are not those of objects and subscriptions."""

    def listing(self, objects: Rows) -> Rows:
        """Subscriptions that have one of these objects in their results or members."""

    def put(self, objects: Rows) -> None:
        """Follow objects, new or not, that have been written."""

    def drop(self, objects: Rows) -> None:
        """Forget objects."""

    def broken(self, objects: Rows, known: Rows) -> Rows:
        """Subscriptions, without those known already, whose zones these objects break."""

    def admit(self, objects: Rows, listing: Rows, broken: Rows) -> None:
        """Find results and zones anew of subscriptions that list objects, or whose zones these break."""


class Queries(Slots):
    """Subscriptions with a place, a filter on attributes, and a k where there is one."""

    def __init__(self, attributes: int, *, takes_k: bool) -> None:
        place, filter_ = {"x": np.float64, "y": np.float64}, (np.float64, attributes)
        own = {"k": np.int64} if takes_k else {}
        super().__init__({**place, **own, "lower": filter_, "upper": filter_})
        self._attributes = attributes

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave; one from before there were filters has none."""
        shape = (arrays["x"].size, self._attributes)
        open_ends = {"lower": np.full(shape, -np.inf), "upper": np.full(shape, np.inf)}
        return super().restore(header, {**open_ends, **arrays})


class ZonedEngine(MovingEngine):
    """Moving queries with filters; `_zoned` keeps zones, or is None where every object is looked at."""

    _amendable = ("x", "y", "k", "lower", "upper")
    _zoned: Zoned | None

    def _new_slots(self) -> Slots:
        return Queries(len(self._over), takes_k=self.takes_k)

    def _passes(self, row: int, attributes: Floats) -> Bools:
        """Which attributes (n, d) pass the filter of a subscription."""
        lower, upper = self._slots["lower"][row], self._slots["upper"][row]
        passes: Bools = ((lower <= attributes) & (attributes <= upper)).all(axis=1)
        return passes

    def _parts(self) -> dict[str, Part]:
        return {**super()._parts(), **(self._zoned.parts() if self._zoned else {})}

    def _check_restored(self) -> None:
        super()._check_restored()
        boxes.check_boxes(self._slots["lower"], self._slots["upper"])
        if self.takes_k:
            integrity.within(self._slots["k"], 0, integrity.MOST, "subscription.k")
        if self._zoned:
            self._zoned.check_restored()

    # Subscriptions

    def _columns(self) -> list[Column]:
        return [*super()._columns(), *boxes.columns(self._over)]

    def _fields(self, batch: Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        held = None if rows is None else Boxes(self._slots["lower"][rows], self._slots["upper"][rows])
        filters = boxes.read(batch, self._over, held, where="subscriptions")
        return {**super()._fields(batch, rows), "lower": filters.lo, "upper": filters.hi}

    def _entered(self, rows: Rows) -> None:
        self._undo.note(lambda: self._leaving(rows))
        super()._entered(rows)

    def _amending(self, rows: Rows) -> None:
        super()._amending(rows)
        self._note_zones(rows)

    def _placed(self, rows: Rows) -> None:
        if self._zoned:
            self._zoned.renew(rows)
        else:
            super()._placed(rows)

    def _note_zones(self, rows: Rows) -> None:
        """The zones of subscriptions are about to change."""
        if self._undo.noting and isinstance(self._zoned, ZoneMethod):
            self._undo.note(zones_of(self._zoned.zones, rows))

    def _leaving(self, rows: Rows) -> None:
        if self._zoned:
            self._zoned.leave(rows)

    def _lists(self, rows: Rows) -> Lists:
        return self._zoned.lists(rows) if self._zoned else super()._lists(rows)

    def _move(self, rows: Rows, x: Floats, y: Floats) -> Changes:
        if not self._zoned:
            return super()._move(rows, x, y)
        if self._undo.noting:
            self._undo.note(columns_of(self._slots, ("x", "y"), rows))
            self._note_zones(rows)
        other, before = self._zoned.follow(rows, x, y)
        if not other.size:
            return deltas.no_changes()
        return deltas.difference(before, self._zoned.lists(other), self._slots["sequence"], updates=False)

    # Objects

    def _store(self, ids: Ids, given: Objects) -> Changes:
        zoned = self._zoned
        if not zoned:
            return super()._store(ids, given)
        other = np.flatnonzero(self._differs(given))
        given = Objects._make(column[other] for column in given)
        listing = zoned.listing(given.row[given.row >= 0])
        before = [zoned.lists(listing)]
        self._undo.note(lambda: zoned.put(given.row[given.row >= 0]))
        row = self._write_objects(select(ids, other), given)
        self._undo.note(lambda: zoned.drop(row[given.row < 0]))
        zoned.put(row)
        broken = zoned.broken(row, listing)
        before.append(zoned.lists(broken))
        self._note_zones(np.concatenate([listing, broken]))
        zoned.admit(row, listing, broken)
        return self._renewed(zoned, np.concatenate([listing, broken]), before)

    def _forget(self, gone: Rows) -> Changes:
        zoned = self._zoned
        if not zoned:
            return super()._forget(gone)
        listing = zoned.listing(gone)
        before = zoned.lists(listing)
        self._note_zones(listing)
        self._undo.note(lambda: zoned.put(gone))
        zoned.drop(gone)
        zoned.renew(listing)
        changes = self._renewed(zoned, listing, [before])
        self._objects.release(gone)
        return changes

    def _differs(self, given: Objects) -> Bools:
        """Which objects are new or other than they were."""
        held, row = self._objects, given.row
        same = (held["x"][row] == given.x) & (held["y"][row] == given.y)
        same &= (held["attributes"][row] == given.attributes).all(axis=1)
        differs: Bools = ~same | (row < 0)
        return differs

    def _renewed(self, zoned: Zoned, rows: Rows, before: list[Lists]) -> Changes:
        """The changes of results of subscriptions whose zones are new."""
        if not rows.size:
            return deltas.no_changes()
        joined = Lists._make(np.concatenate(columns) for columns in zip(*before, strict=True))
        return deltas.difference(joined, zoned.lists(rows), self._slots["sequence"])
