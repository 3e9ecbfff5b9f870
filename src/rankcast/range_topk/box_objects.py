"""The objects of a range engine over several attributes: where they are, and what they are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.corners import CornerIndex
from rankcast.range_topk.dominance import SHARED, SlotMap
from rankcast.range_topk.kernels import corner_edit
from rankcast.range_topk.kernels.slab_search import Along
from rankcast.range_topk.kernels.value_order import Order
from rankcast.range_topk.objects import Floats, Rows, grown
from rankcast.range_topk.objects_along import ObjectsAlong
from rankcast.structures import integrity

OBJECTS = 16  # slots a bucket
WORTH = 1024  # objects that may be put in order for one that changes


class BoxObjects:
    """Objects in dense rows by their place in `width` attributes; an absent row has the value +inf."""

    def __init__(self, width: int) -> None:
        self.slots = SlotMap()
        self.index = CornerIndex(width, 1, OBJECTS, self.slots)
        self.value: Floats = np.empty(0)
        self.label: NDArray[np.int64] = np.empty(0, np.int64)
        self._along: ObjectsAlong | None = None

    def set_labels(self, rows: Rows, labels: NDArray[np.int64]) -> None:
        """Set the tie labels of new rows, or relabel rows without changing the order of present ones."""
        self.reserve(int(rows.max(initial=-1)) + 1)
        self.label[rows] = labels

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`. Amortised O(1) a row."""
        self.slots.reserve(rows)
        if rows > len(self.value):
            length = max(rows, 2 * len(self.value), 16)
            self.value, self.label = grown(self.value, length, np.inf), grown(self.label, length, 0)

    def hide(self, rows: Rows) -> None:
        """Take the weight of distinct objects, so that no search finds them, until they are settled."""
        here = rows[self.slots.slot_of[rows] >= 0]
        corner_edit.set_weights(self.index.tree, here, np.full(len(here), -np.inf))

    def in_order(self, hidden: Rows) -> Order:
        """All objects but the hidden ones by value, or none if these are too few to be worth it."""
        there = self.value < (np.inf if len(self.index) <= WORTH * len(hidden) else -np.inf)
        there[hidden] = False
        rows = np.flatnonzero(there).astype(np.int32)
        value, label = self.value[rows], self.label[rows]
        by_value = np.argsort(value)
        ordered = value[by_value]
        if (ordered[1:] == ordered[:-1]).any():
            by_value = np.lexsort((label, value))
        rows = rows[by_value]
        return Order(rows, self.index.tree.point[self.slots.slot_of[rows]], ordered, label[by_value])

    def along(self) -> Along:
        """The objects along the first of two attributes: who changes the tree's changes these too.

        With room for some inserts; to be fetched anew after `reserve`, `settle` and when the room is used up.
        """
        if self._along is None:
            rows = np.flatnonzero(self.value < np.inf).astype(np.int32)
            places = self.index.tree.point[self.slots.slot_of[rows]]
            self._along = ObjectsAlong(rows, places, self.value[rows], self.label)
        return self._along.fetch(self.label)

    def along_with(self, rows: Rows, places: Floats) -> Along:
        """The same, with absent rows standing at places who are better than nobody; for this time."""
        self.along()
        along, self._along = self._along, None
        assert along is not None
        along.load(rows, places, np.full(len(rows), np.inf))
        return along.fetch(self.label)

    def tidy(self) -> None:
        """Give back room along the first attribute that is no longer needed."""
        if self._along is not None:
            self._along.tidy()

    def settle(self, rows: Rows, x: Floats, y: Floats) -> None:
        """Bring distinct objects to places and values, whatever they were; +inf: not there."""
        self._along, slots, here = None, self.slots.slot_of[rows], y < np.inf
        stays = here & (slots >= 0)
        stays[stays] = (self.index.tree.point[slots[stays]] == x[stays]).all(axis=1)
        self.index.delete(rows[(slots >= 0) & ~stays])
        corner_edit.set_weights(self.index.tree, rows[stays], -y[stays])
        self.value[rows] = y
        new = here & ~stays
        self.index.insert(rows[new], np.ascontiguousarray(x[new]), -y[new])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays."""
        return {SHARED: self.slots.slot_of, "value": self.value, "label": self.label, **self.index.arrays()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave."""
        own: dict[str, NDArray[Any]] = {SHARED: self.slots.slot_of, "value": self.value, "label": self.label}
        mine = {name: arrays[name] for name in own}
        integrity.forms(mine, {name: integrity.like(array) for name, array in own.items()})
        rows = len(mine["value"])
        integrity.need(len(mine["label"]) == rows, "label", f"has not {rows} entries")
        self.slots.slot_of, self.value, self.label = mine[SHARED], mine["value"], mine["label"]
        self._along = None
        self.index.restore({name: array for name, array in arrays.items() if name not in own})
