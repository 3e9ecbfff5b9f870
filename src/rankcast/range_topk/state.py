"""The state of `RangeTopK` whatever its method: subscriptions, objects, and the events of a batch on them.

An event names an object and gives some of its values. Whether that inserts, updates, moves or deletes depends
on what the rows before it did, so a batch is resolved once, in one pass: each row takes what it does not
give from the row before on the same object, or from the object itself. Cost: O(n) for n rows.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.core.lists import together
from rankcast.errors import InputError
from rankcast.structures import hashing
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.structures.jit import EXACT
from rankcast.tables import read
from rankcast.tables.boxes import Boxes
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.read import as_array
from rankcast.tables.readers import read_column
from rankcast.tables.schema import Batch, Bools, Column, Floats, Ids, Ints, Kind, Rows

NULLS = ("delete", "keep", "refuse")
UPSERT, REMOVE = 0, 1
PLAIN = (list, tuple, np.ndarray, type(None))  # columns that are not pandas'
OP = Column("op", Kind.WORD, required=False, words=("upsert", "remove"))


class ResolvedBatch(NamedTuple):
    """A batch, resolved: for each event the object's row, or -1 - n for the n-th that is new, and its values.

    `fresh` are the ids of new objects; `gone` is how many objects the batch leaves without a value.
    """

    row: Rows
    x: Floats  # (n, d), values after the event
    y: Floats  # NaN: the event deletes the object
    fresh: Ids | None
    gone: int


def refuse_nan(rows: Any, names: Sequence[str]) -> None:
    """Refuse NaN in columns of pandas', which would be nulls in Arrow, but for objects that are removed.

    Cost: a look at each value; nothing unless pandas is in use.
    """
    pandas: Any = sys.modules.get("pandas")
    if pandas is None or type(rows) is list or not isinstance(rows, Mapping | pandas.DataFrame):
        return
    for name in names:
        values = rows.get(name)
        if type(values) in PLAIN or not isinstance(values, pandas.Series | pandas.Index):
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
    if type(rows) is list and not any(type(row) is not dict or OP.name in row for row in rows):
        return rows
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
    ids, size, width = batch.ids, batch.size, len(over)
    if objects.kind != ids.kind and objects.kind is not None:
        objects.find(ids, where="events")  # refuses them
    removes: Ints = np.array(batch[OP.name], np.int64) if OP.name in batch else NO_WORDS
    null = KEEPS
    if by in batch and nulls == "refuse":
        null = REFUSED
    elif by in batch and nulls == "delete" and OP.name not in batch:
        null = DELETES
    row, x, y, first = (
        np.empty(size, np.int32),
        np.empty((size, width)),
        np.empty(size),
        np.empty(size, np.int32),
    )
    new, gone, wrong, bad = _resolve(
        objects.register()[:6],
        keys_of(ids, objects.seed),
        (objects["x"], objects["y"]),
        _numbers(batch, [*over, by]),
        removes,
        null,
        (row, x, y, first),
    )
    if wrong >= 0:
        raise _refusal(batch, [*over, by], wrong, bad)
    return ResolvedBatch(row, x, y, select(ids, first[:new]) if new else None, gone)


def _numbers(batch: Batch, names: list[str]) -> Floats:
    """Columns of numbers as the lines of one array, NaN where nothing is given."""
    if batch.numbers is not None and len(batch.lines) == len(names):
        return np.array(batch.numbers, order="C")
    lines = np.full((len(names), batch.size), np.nan)
    for line, name in enumerate(names):
        if name in batch:
            lines[line] = batch[name]
    return lines


def _refusal(batch: Batch, names: list[str], wrong: int, row: int) -> InputError:
    """What is to be said of the first bad row."""
    told, hint = f"object {show(batch.ids, row)}", None
    if wrong == NULL:
        column, what, expected = names[-1], f"is null for {told}", Kind.NUMBER.value
        hint = 'To delete, say op "remove"; or make the engine with nulls="delete" or nulls="keep".'
    elif wrong == ABSENT:
        column, said = (OP.name, 'is "remove"') if OP.name in batch else (names[-1], "is null")
        what, expected = f"{said} for {told}, which is not there", "a live object"
    else:
        column, what = names[wrong - LACKING], f"has no value for {told}, which is new"
        expected = "a number"
    return InputError(what, where="events", column=column, row=row, expected=expected, hint=hint)


KEEPS, DELETES, REFUSED = range(3)  # what a null in `by` does
NULL, ABSENT, LACKING = range(3)  # what is wrong: from `LACKING` on, a column lacks a value
NO_WORDS: Ints = np.empty(0, np.int64)


@njit(**EXACT)
def _resolve(
    register: tuple[Any, ...],
    keys: hashing.KeyArrays,
    held: tuple[Floats, Floats],
    given: Floats,
    removes: Ints,
    null: int,
    out: tuple[Rows, Floats, Floats, Rows],
) -> tuple[int, int, int, int]:
    """Follow each object through a batch; writes what `ResolvedBatch` holds, and where new ids come first.

    `given` has a line a column, that of `by` last. Returns how many objects are new and how many go, what is
    wrong with some row, or -1, and the first row with which it is.
    """
    table, code, start, length, text, seed = register
    stored, wanted = hashing.named((code, start, length, text, seed)), hashing.named(keys)
    (held_x, held_y), (row, x, y, first) = held, out
    size, width, new, gone = row.size, held_x.shape[1], 0, 0
    latest = np.full(2 * size + hashing.LEAST if size > 1 else 1, hashing.FREE, np.int32)
    deletes, bad = np.empty(size, np.bool_), np.full(LACKING + width + 1, -1)
    for i in range(size):
        before = -1  # the event before on the same object
        if size > 1:
            cell = hashing.seek(latest, wanted.code, wanted.code[i], wanted, wanted, i)
            before, latest[cell] = latest[cell], i
        if before >= 0:
            row[i], present = row[before], not deletes[before]
            gone -= deletes[before]
        else:
            row[i] = table[hashing.seek(table, code, wanted.code[i], stored, wanted, i)]
            present = row[i] >= 0
            if not present:
                first[new] = i
                new += 1
                row[i] = -new
        empty = np.isnan(given[width, i])
        deletes[i] = (removes.size > 0 and removes[i] == REMOVE) or (empty and null == DELETES)
        gone += deletes[i]
        if empty and null == REFUSED and not deletes[i] and bad[NULL] < 0:
            bad[NULL] = i
        if deletes[i] and not present and bad[ABSENT] < 0:
            bad[ABSENT] = i
        for line in range(width + 1):
            value = given[line, i]
            if np.isnan(value):
                if not present and not deletes[i] and bad[LACKING + line] < 0:
                    bad[LACKING + line] = i
                if before >= 0:
                    value = x[before, line] if line < width else y[before]
                elif row[i] >= 0:
                    value = held_x[row[i], line] if line < width else held_y[row[i]]
            if line < width:
                x[i, line] = value
            else:
                y[i] = np.nan if deletes[i] else value
    for wrong in range(bad.size):
        if bad[wrong] >= 0:
            return new, gone, wrong, bad[wrong]
    return new, gone, -1, -1


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

    def begin(self, steps: ResolvedBatch) -> Events:
        """Give every object of a batch its row; new ones are not there yet."""
        if steps.fresh is not None:
            fresh = self.objects.add(steps.fresh)
            self.objects["y"][fresh] = np.nan
            new = np.flatnonzero(steps.row < 0)
            steps.row[new] = fresh[-1 - steps.row[new]]
        return Events(steps.row, steps.x, steps.y, steps.gone)

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
