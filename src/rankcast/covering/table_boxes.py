"""The boxes of a table, with sets of categories if it has any: `TableBoxes` reads them and keeps the sets.

An attribute that is a category has two columns in a box: at its place the codes from the lowest to the
highest, and behind all attributes how many they are (see `structures.code_sets.extents`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.covering.kernels.containment import QueryBoxes
from rankcast.errors import InputError
from rankcast.structures import integrity
from rankcast.structures.code_sets import NO_SETS, CodeSets, alike, extents, parts_of
from rankcast.structures.ids import Slots
from rankcast.tables import boxes
from rankcast.tables.boxes import Boxes, Hierarchy
from rankcast.tables.categories import CategorySets, Given
from rankcast.tables.schema import Batch, Bools, Column, Kind, Rows


class TableBoxes:
    """The sets of a table's rows, and its boxes as far as they follow from them.

    - Reading, without a change: `read`, `given`, `moved`, `queries`, `events`.
    - Changing: `write`, `remove`, and `settle` at the end of a call.
    - Asking: `arrays`, `outside`, `told`.
    - Keeping: `parts`, `check_restored`.
    """

    def __init__(self, over: list[str], hierarchies: Mapping[str, Hierarchy | None]) -> None:
        self._over, self._sets = over, CategorySets(over, hierarchies)
        told = {name: each and each.parents for name, each in hierarchies.items()}
        self.settings: dict[str, Any] = {"categories": told} if told else {}
        self.numbers = [name for name in over if name not in hierarchies]
        self.places = np.array([over.index(name) for name in self.numbers], np.int64)
        self.hierarchies = list(hierarchies.values())
        self.width = len(over) + len(self._sets)

    def columns(self) -> list[Column]:
        """The columns of subscriptions beside the ends of intervals."""
        return self._sets.columns()

    def event_columns(self) -> list[Column]:
        """The attributes of events."""
        return [Column(name) if name in self.numbers else Column(name, Kind.CATEGORY) for name in self._over]

    # Reading

    def read(self, batch: Batch, held: Boxes | None, *, where: str) -> Boxes:
        """The boxes of a batch as far as they are numbers; the rest as it is held, or without bounds."""
        if not self._sets.names:
            return boxes.read(batch, self._over, held, where=where)
        given = boxes.read(batch, self.numbers, held and self.intervals(held), where=where)
        if held is None:
            return self.widened(given)
        wide = Boxes(held.lo.copy(), held.hi.copy())
        wide.lo[:, self.places], wide.hi[:, self.places] = given
        return wide

    def intervals(self, box: Boxes) -> Boxes:
        """What is intervals over numbers of boxes."""
        return box.at((slice(None), self.places)) if self._sets.names else box

    def widened(self, box: Boxes) -> Boxes:
        """Boxes over numbers alone as boxes that ask for no category."""
        if not self._sets.names:
            return box
        shape = len(box.lo), self.width
        wide = Boxes(np.full(shape, -np.inf), np.full(shape, np.inf))
        wide.lo[:, len(self._over) :] = 0.0
        wide.lo[:, self.places], wide.hi[:, self.places] = box
        return wide

    def given(self, batch: Batch, *, where: str) -> list[Given]:
        """The lists of a batch."""
        return self._sets.read(batch, where=where) if self._sets.names else []

    def moved(self, rows: Rows, given: Sequence[Given]) -> Bools:
        """Which live rows accept other categories with these lists than so far."""
        if not given:
            return np.zeros(rows.size, np.bool_)
        same: Bools = alike(self._sets.arrays(), rows, self._sets.coded(given, rows.size, rows))
        return ~same

    def queries(self, box: Boxes, given: Sequence[Given]) -> QueryBoxes:
        """Boxes and their lists, to search for."""
        if not self._sets.names:
            return QueryBoxes(np.ascontiguousarray(box.lo), np.ascontiguousarray(box.hi))
        sets = self._sets.coded(given, len(box.lo))
        self._extend(box, sets, np.arange(len(box.lo), dtype=np.int32), slice(None))
        return QueryBoxes(box.lo, box.hi, sets)

    def events(self, batch: Batch) -> QueryBoxes:
        """Events, to search for."""
        if not self._sets.names:
            points = np.stack([batch[name] for name in self._over], axis=1)
            return QueryBoxes(points, points)
        lo = np.zeros((batch.size, self.width))
        for place, name in zip(self.places, self.numbers, strict=True):
            lo[:, place] = batch[name]
        for a, (place, name) in enumerate(zip(self._sets.places, self._sets.names, strict=True)):
            known = batch[name].known
            if not known.all():
                what, row = "a string, an integer or a truth", int(np.argmin(known))
                raise InputError("is null", where="events", column=name, row=row, expected=what)
            lo[:, place] = self._sets.codes(batch[name], a, where="events")
        hi = lo.copy()
        hi[:, len(self._over) :] = 1.0
        return QueryBoxes(lo, hi, self._sets.events(lo[:, self._sets.places]))

    # Changing

    def write(self, slots: Slots, rows: Rows, given: Sequence[Given]) -> None:
        """Give rows these lists, and the boxes that follow; lists of columns that are not given stay."""
        if not self._sets.names:
            return
        self._sets.write(rows, given, capacity=slots["code"].size)
        self._extend(Boxes(slots["lo"], slots["hi"]), self._sets.arrays(), rows, rows)

    def remove(self, rows: Rows) -> None:
        """Forget the sets of rows."""
        if self._sets.names:
            self._sets.remove(rows)

    def settle(self) -> None:
        """End a call."""
        if self._sets.names:
            self._sets.settle()

    def _extend(self, box: Boxes, sets: CodeSets, rows: Rows, at: Any) -> None:
        """Write the ends that follow from the sets of rows to the lines `at` of boxes."""
        for a, place in enumerate(self._sets.places):
            low, high, count = extents(sets, rows, a)
            box.lo[at, place], box.hi[at, place] = low, high
            box.lo[at, len(self._over) + a], box.hi[at, len(self._over) + a] = 0.0, count

    # Asking

    def arrays(self) -> CodeSets:
        """The sets by row; of no row if there are no categories."""
        return self._sets.arrays() if self._sets.names else NO_SETS

    def outside(self, mine: int, its: int) -> list[str]:
        """The categories of which a row accepts more than another."""
        if not self._sets.names:
            return []
        sets = self._sets.arrays()
        inside = parts_of(sets, its, sets, mine, len(self._sets))
        return [name for name, held in zip(self._sets.names, inside, strict=True) if not held]

    def told(self, box: Boxes, rows: Rows, sets: CodeSets | None = None) -> dict[str, pa.Array]:
        """Columns for boxes and the lists of rows, or of `sets`; an end is null where there is no bound."""
        ends = self.intervals(box)
        columns = {
            f"{name}_{end}": pa.array(values[:, place], mask=np.isinf(values[:, place]))
            for place, name in enumerate(self.numbers)
            for end, values in (("lo", ends.lo), ("hi", ends.hi))
        }
        return {**columns, **self._sets.lists(rows, sets)}

    # Keeping

    def parts(self) -> dict[str, Any]:
        """What is kept."""
        return self._sets.parts() if self._sets.names else {}

    def check_restored(self, slots: Slots, there: Bools) -> None:
        """Refuse sets from a snapshot that are not those of the rows that are there, or of their boxes."""
        if not self._sets.names:
            return
        self._sets.check_restored(there)
        rows = np.flatnonzero(there).astype(np.int32)
        most = int(rows.max(initial=-1))
        integrity.need(most < self._sets.arrays().size.size, "sets.size", "is not of all rows")
        held = Boxes(slots["lo"][rows], slots["hi"][rows])
        wanted = Boxes(held.lo.copy(), held.hi.copy())
        self._extend(wanted, self._sets.arrays(), rows, slice(None))
        fits = np.array_equal(held.lo, wanted.lo) and np.array_equal(held.hi, wanted.hi)
        integrity.need(fits, "subscription.lo", "is not what sets say")
