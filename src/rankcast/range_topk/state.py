"""The state of `RangeTopK` whatever its method: subscriptions, objects, and the events of a batch on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from rankcast.core.engine import Part
from rankcast.core.lists import together
from rankcast.structures import hashing
from rankcast.structures.ids import Slots, select
from rankcast.tables.boxes import Boxes
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Floats, Ids, Ints, Rows

FEW = 256  # ids up to which a shortcut is not worth a look
NOBODY: Rows = np.empty(0, np.int32)


class Subscriptions(Slots):
    """Slots whose registration numbers cost nothing to read unless a subscription went in this batch.

    Integer ids are mostly given out in order, as rows are, and then lie as far apart: so many of them are
    first looked for at that distance, which needs no hash table.
    """

    _shift = 0  # from the first id that was looked for last to its row

    def find(self, ids: Ids, *, where: str, column: str = "id") -> Rows:
        """The row of each id, -1 where it is not live."""
        rows, _ = self._in_line(ids)
        return rows if rows.size else super().find(ids, where=where, column=column)

    def require(self, ids: Ids, *, where: str, column: str = "id") -> Rows:
        """The rows of ids that must be live and distinct."""
        rows, ascends = self._in_line(ids)
        return rows if ascends else super().require(ids, where=where, column=column)

    def _in_line(self, ids: Ids) -> tuple[Rows, bool]:
        """The rows of many integer ids if they lie as far apart as the ids, else none; whether ids ascend."""
        if ids.size <= FEW or not ids.kind == self.kind == "int":
            return NOBODY, False
        first = int(ids.values[0]) + self._shift
        if not 0 <= first < self.used or self["code"][first] != ids.values[0]:
            first = int(super().find(select(ids, slice(1)), where="ids")[0])
            if first < 0:
                return NOBODY, False
            self._shift = first - int(ids.values[0])
        found: tuple[Rows, bool] = hashing.find_in_line(self["code"], self["sequence"], ids.values, first)
        return found

    @property
    def place(self) -> Ints:
        """Registration numbers by row, also of rows released in this batch."""
        sequence: Ints = self["sequence"]
        return super().place if self._pending else sequence


class Events(NamedTuple):
    """Events in order, by object row: within a batch an object has one row, whatever happens to it.

    `gone` is how many objects they leave without a value.
    """

    row: Rows
    x: Floats  # (n, d), values after the event
    y: Floats  # NaN: the event deletes the object
    gone: int

    def one(self, place: int) -> Events:
        """One of the events, alone."""
        here = slice(place, place + 1)
        return Events(self.row[here], self.x[here], self.y[here], int(np.isnan(self.y[place])))

    def coalesced(self) -> Events:
        """The last event of each object, in order: what they come to together."""
        _, back = np.unique(self.row[::-1], return_index=True)
        last = np.sort(self.row.size - 1 - back)
        return Events(self.row[last], self.x[last], self.y[last], self.gone)


class Objects(NamedTuple):
    """All objects at one moment: rows, places (n, d), ranking keys and labels."""

    row: Rows
    x: Floats
    key: Floats
    label: Ints


@dataclass
class RangeState:
    """Subscriptions with a box and a k (0: the engine's), objects with a place and a value.

    Between batches every object has a value; within one, an object whose y is NaN is not there.
    """

    width: int
    k: int
    descending: bool
    count: dict[str, int]
    sketch: int = 0  # how many boxes stand for all subscriptions when `sparse` paints; 0: none do
    alone: bool = False  # whether the call at hand is the whole batch: former scores are not needed

    def __post_init__(self) -> None:
        box = (np.float64, self.width)
        self.subscriptions = Subscriptions({"lo": box, "hi": box, "k": np.int64})
        self.objects = Slots({"x": box, "y": np.float64}, ordered=True)

    def parts(self) -> dict[str, Part]:
        """The parts of the state."""
        return {"subscription": self.subscriptions, "object": self.objects}

    def boxes(self, rows: Rows) -> Boxes:
        """The boxes of subscriptions."""
        where = together(rows)
        return Boxes(self.subscriptions["lo"][where], self.subscriptions["hi"][where])

    def k_of(self, rows: Rows) -> Ints:
        """How many objects each subscription wants."""
        own: Ints = self.subscriptions["k"][together(rows)]
        return np.where(own > 0, own, self.k) if own.any() else np.broadcast_to(np.int64(self.k), rows.size)

    def key(self, y: Floats) -> Floats:
        """What is ranked, ascending."""
        return -y if self.descending else y

    def live_objects(self) -> Objects:
        """All objects that are there at this moment."""
        held = self.objects
        rows = np.flatnonzero((held["sequence"][: held.used] >= 0) & ~np.isnan(held["y"][: held.used]))
        live = rows.astype(np.int32)
        return Objects(live, held["x"][live], self.key(held["y"][live]), held.label[live])

    def admit(self, fresh: Ids, events: Events) -> None:
        """Give rows to new objects, also in the events, which number them from -1 down; not there yet."""
        rows = self.objects.add(fresh)
        self.objects["y"][rows] = np.nan
        new = np.flatnonzero(events.row < 0)
        events.row[new] = rows[-1 - events.row[new]]

    def place(self, events: Events) -> None:
        """Bring objects to what events make of them; of several on one object the last counts."""
        self.objects["x"][events.row] = events.x
        self.objects["y"][events.row] = events.y

    def end(self, events: Events) -> None:
        """Forget the objects that a batch left without a value."""
        touched = np.unique(events.row)
        self.objects.release(touched[np.isnan(self.objects["y"][touched])])


class TileRows(NamedTuple):
    """Messages in sending order: a box in subscription space each, and its content.

    A message goes to lo_outer < lo <= lo_inner and hi_inner <= hi < hi_outer in every attribute; an outer
    end of NaN is no bound. A `y` of NaN tells that the object is gone.
    """

    lo_outer: Floats  # (n, d), like the other ends
    lo_inner: Floats
    hi_inner: Floats
    hi_outer: Floats
    row: Rows
    x: Floats  # (n, d)
    y: Floats


class Method(Protocol):
    """How results are kept current."""

    def parts(self) -> dict[str, Part]:
        """Parts of the state beyond subscriptions and objects."""

    def check(self) -> None:
        """Refuse what comes from a snapshot and does not fit the state; see `integrity`."""

    def lists(self, rows: Rows) -> Lists:
        """The current results of the given subscriptions."""

    def entered(self, rows: Rows) -> None:
        """New subscriptions are in the state."""

    def leaving(self, rows: Rows) -> None:
        """Subscriptions are about to go."""

    def amended(self, rows: Rows, former_k: Ints) -> None:
        """Subscriptions have changed in the state; they wanted so many objects before."""

    def held(self, rows: Rows) -> Any:
        """The results of some subscriptions, before these change, as `since` takes them."""

    def since(self, held: Any, rows: Rows) -> Changes:
        """The changes from held results to those of now; the rows are in the order of registration."""

    def publish(self, events: Events) -> Changes:
        """Apply a batch; the net change of every result."""

    def disseminate(self, events: Events, method: str, epsilon: float | None, *, batch: bool) -> TileRows:
        """Apply a batch; the messages that tell those affected."""
