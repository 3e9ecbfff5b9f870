"""The state of `RangeTopK` whatever its method: subscriptions, objects, and the events of a batch on them.

An event names an object and gives some of its values. Whether that inserts, updates, moves or deletes depends
on what the rows before it did, so a batch is resolved once, without a loop: rows are grouped by object, and
within a group values are carried forward. Cost: O(n log n) for n rows.

What a row does to its object:

| `op`     | null in `by`, nulls="delete" | "keep"  | "refuse" | a number, or no column `by` |
| -------- | ---------------------------- | ------- | -------- | --------------------------- |
| (absent) | deletes                      | keeps   | refused  | inserts or updates          |
| upsert   | keeps                        | keeps   | refused  | inserts or updates          |
| remove   | deletes                      | deletes | deletes  | deletes                     |

To keep a value, the object must be there; so it must to be deleted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.core.lists import together
from rankcast.errors import InputError
from rankcast.structures import hashing
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.tables import read
from rankcast.tables.boxes import Boxes
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.read import as_array
from rankcast.tables.readers import read_column
from rankcast.tables.schema import Batch, Bools, Column, Floats, Ids, Ints, Kind, Rows

NULLS = ("delete", "keep", "refuse")
UPSERT, REMOVE = 0, 1
OP = Column("op", Kind.WORD, required=False, words=("upsert", "remove"))


class ResolvedBatch(NamedTuple):
    """A batch, resolved. Per object it names (`ids`, `row`, -1 if new) and per event (`of`, `x`, `y`)."""

    ids: Ids
    row: Rows
    of: Rows  # which object
    x: Floats  # (n, d), values after the event
    y: Floats  # NaN: the event deletes the object

    def last(self) -> Rows:
        """For each object its last event: the net effect of the batch."""
        place = np.empty(self.row.size, np.int32)
        place[self.of] = np.arange(self.of.size, dtype=np.int32)
        return place


def refuse_nan(rows: Any, names: Sequence[str]) -> None:
    """Refuse NaN in columns of pandas', which would be nulls in Arrow, but for objects that are removed.

    Cost: a look at each value; nothing unless pandas is in use.
    """
    pandas: Any = sys.modules.get("pandas")
    if pandas is None or not isinstance(rows, Mapping | pandas.DataFrame):
        return
    for name in names:
        values = rows.get(name)
        if not isinstance(values, pandas.Series | pandas.Index):
            continue
        odd = _nan_in(values)
        if odd.any() and rows.get("op") is not None:
            odd &= _words(rows.get("op")) != REMOVE
        if odd.any():
            raise InputError(
                "is NaN",
                where="events",
                column=name,
                row=int(np.argmax(odd)),
                expected=Kind.NUMBER.value,
                hint='For a null use pd.NA and the type "Float64"; to delete, op "remove".',
            )


def _nan_in(values: Any) -> Bools:
    """Where a column of pandas' holds NaN; nullable types keep it apart from null themselves."""
    if isinstance(values.dtype, np.dtype) and values.dtype.kind == "f":
        plain: Floats = values.to_numpy()
        return np.isnan(plain)
    if values.dtype != object:
        return np.zeros(len(values), np.bool_)
    nan = (isinstance(each, float | np.floating) and np.isnan(each) for each in values)
    return np.fromiter(nan, np.bool_, len(values))


def emptied(rows: Any, names: Sequence[str]) -> Any:
    """The same rows with nulls for what those that remove an object hold beside its id and op."""
    if isinstance(rows, Mapping):
        known = OP.name in rows
    else:
        rows = rows if isinstance(rows, pa.Table) else read.as_table(rows, where="events")
        known = rows.num_rows > 0 and rows.schema.names.count(OP.name) == 1
    removes = _words(rows[OP.name]) == REMOVE if known else None
    if removes is None or not removes.any():
        return rows
    table = read.as_table(rows, where="events")
    kept = pa.array(np.arange(table.num_rows), mask=removes)
    for place, name in enumerate(table.column_names):
        if name in names:
            table = table.set_column(place, name, table.column(place).take(kept))
    return table


def _words(values: Any) -> NDArray[np.int64]:
    """A column `op`, checked."""
    found: NDArray[np.int64] = read_column(as_array(values, OP.name, "events"), OP, "events")
    return found


def resolve(batch: Batch, objects: Slots, over: list[str], by: str, nulls: str) -> ResolvedBatch:
    """Read a batch against the live objects; raises before anything has changed."""
    of, first = hashing.distinct(keys_of(batch.ids))
    row = objects.find(batch.ids, where="events")[first]
    order = np.argsort(of, kind="stable")  # rows grouped by object; below, arrays are in this order
    starts = np.diff(of[order], prepend=-1) > 0
    mine = row[of[order]]
    deletes = _deletes(batch, by, nulls)[order]
    present = np.where(starts, mine >= 0, ~np.roll(deletes, 1))
    column, what = (OP.name, 'is "remove"') if OP.name in batch else (by, "is null")
    gone = deletes & ~present
    _refuse(gone, order, batch.ids, column, f"{what} for {{}}, which is not there", "a live object")

    def values_of(name: str, held: Floats) -> Floats:
        """One column with what was not given filled in from the row before or from the live object."""
        values = batch[name][order] if name in batch else np.full(of.size, np.nan)
        given = ~np.isnan(values)
        lacking = ~present & ~deletes & ~given
        _refuse(lacking, order, batch.ids, name, "has no value for {}, which is new", "a number")
        values = np.where(starts & ~given & (mine >= 0), held[np.maximum(mine, 0)], values)
        filled = np.empty(of.size)
        filled[order] = _carried(values, given | starts)
        return filled

    x = [values_of(name, objects["x"][:, place]) for place, name in enumerate(over)]
    y = values_of(by, objects["y"])
    y[order[deletes]] = np.nan
    return ResolvedBatch(select(batch.ids, first), row, of, np.column_stack(x), y)


def _deletes(batch: Batch, by: str, nulls: str) -> Bools:
    """Which rows delete their object; refuses nulls if they are to be refused."""
    removes: Bools = batch[OP.name] == REMOVE if OP.name in batch else np.zeros(batch.size, np.bool_)
    if by not in batch or nulls == "keep" or (nulls == "delete" and OP.name in batch):
        return removes
    null: Bools = np.isnan(batch[by])
    if nulls == "delete":
        return null
    hint = 'To delete, say op "remove"; or make the engine with nulls="delete" or nulls="keep".'
    every = np.arange(batch.size)
    _refuse(null & ~removes, every, batch.ids, by, "is null for {}", Kind.NUMBER.value, hint)
    return removes


def _carried(values: Floats, fresh: Bools) -> Floats:
    """Carry each fresh value forward until the next one."""
    place = np.maximum.accumulate(np.where(fresh, np.arange(values.size), 0))
    return values[place]


def _refuse(
    bad: Bools,
    order: NDArray[np.intp],
    ids: Ids,
    column: str,
    what: str,
    expected: str,
    hint: str | None = None,
) -> None:
    """Raise for the first bad row of the batch."""
    if bad.any():
        row = int(order[bad].min())
        said = what.format(f"object {show(ids, row)}")
        raise InputError(said, where="events", column=column, row=row, expected=expected, hint=hint)


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
    """Events in order, by object row: within a batch an object has one row, whatever happens to it."""

    row: Rows
    x: Floats  # (n, d), values after the event
    y: Floats  # NaN: the event deletes the object

    def coalesced(self) -> Events:
        """The last event of each object, in order: what they come to together."""
        _, back = np.unique(self.row[::-1], return_index=True)
        last = np.sort(self.row.size - 1 - back)
        return Events(self.row[last], self.x[last], self.y[last])


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

    @contextmanager
    def one_call(self) -> Iterator[None]:
        """Let the call at hand be the whole batch."""
        self.alone = True
        try:
            yield
        finally:
            self.alone = False

    def key(self, y: Floats) -> Floats:
        """What is ranked, ascending."""
        return -y if self.descending else y

    def live_objects(self) -> Objects:
        """All objects that are there at this moment."""
        held = self.objects
        rows = np.flatnonzero((held["sequence"][: held.used] >= 0) & ~np.isnan(held["y"][: held.used]))
        live = rows.astype(np.int32)
        return Objects(live, held["x"][live], self.key(held["y"][live]), held.label[live])

    def begin(self, steps: ResolvedBatch) -> Events:
        """Give every object of a batch its row; new ones are not there yet."""
        row = steps.row.copy()
        new = np.flatnonzero(row < 0)
        row[new] = self.objects.add(select(steps.ids, new))
        self.objects["y"][row[new]] = np.nan
        return Events(row[steps.of], steps.x, steps.y)

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
