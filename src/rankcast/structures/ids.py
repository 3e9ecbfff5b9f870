"""External ids as dense rows: the door of every engine, and its columns by row.

`Slots` keeps the live ids of one role (subscriptions, objects, messages). Inside, everything is a row number;
ids go back to their external form only in answers. Rows of removed ids are used again, but not before
`settle`, so that within one batch a row means one id. All state is arrays, all loops are kernels. `IdStore`
holds the arrays behind it: ids by row, hash table, text and further columns, how they grow and are saved.

With `ordered=True` there is an order label per row for ties by id: the id itself for integers, a label with
gaps for strings (`rankcast.structures.strings`).

Every hash table has a random seed of its own, kept with the state; tables that live for one batch share the
seed of the process. The environment variable `RANKCAST_HASH_SEED` fixes both.

Memory: 22 to 23 bytes a row for integers, 34 to 35 and the text for strings (8 and 4 more if ordered), and up
to 3% more for growth (from 65,536 rows on 2%). It follows the largest number of ids live at once.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from rankcast.errors import InputError, shown
from rankcast.structures import arrays, hashing, integrity, strings
from rankcast.structures.hashing import (
    COUNT,
    FREE_COUNT,
    META,
    MOST_SEED,
    NEXT,
    TEXT_LIVE,
    TEXT_USED,
    USED,
    KeyArrays,
)
from rankcast.tables.schema import IdKind, Ids, Ints, Rows, arrow, integer_ids

FIXED = "RANKCAST_HASH_SEED"  # in the environment: for states that are alike to the last bit


def draw() -> int:
    """A seed that nobody can guess, or the one in the environment."""
    fixed = os.environ.get(FIXED)
    return secrets.randbits(63) if fixed is None else int(fixed) & MOST_SEED


PROCESS = draw()  # for tables that are thrown away after a batch


NO_VALUES, NO_LENGTHS, NO_TEXT = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8)


def keys_of(ids: Ids, seed: int = PROCESS) -> KeyArrays:
    """Ids as kernels take them: the fields of `hashing.Keys`. A store looks up those with its own seed."""
    if ids.kind == "int":
        return integer_keys(ids.values, seed)
    lengths = np.diff(ids.offsets).astype(np.int32)
    return hashing.hash_strings(ids.offsets, ids.data, seed), ids.offsets[:-1], lengths, ids.data, seed


def integer_keys(codes: Ints, seed: int) -> KeyArrays:
    """Integers need no text."""
    return codes, NO_VALUES, NO_LENGTHS, NO_TEXT, seed


def select(ids: Ids, index: Any) -> Ids:
    """The ids at the given places, in that order."""
    if ids.kind == "int":
        return integer_ids(ids.values[index])
    offsets, data = strings.gather(keys_of(ids), np.asarray(index, np.int32))
    return Ids("str", NO_VALUES, offsets, data)


def show(ids: Ids, row: int) -> str:
    """One id, for an error."""
    if ids.kind == "int":
        return str(ids.values[row])
    return shown(bytes(ids.data[ids.offsets[row] : ids.offsets[row + 1]]).decode(errors="backslashreplace"))


FEW = 4096
_NOTHING = np.empty(0)
_COUNTS = ("used", "count", "next_sequence", "text_used", "text_live", "free_count")  # in order of `register`
_SEEDED = 3  # the layout of hash tables: a key's home is its hash under the seed, scaled to their length


class IdStore:
    """Ids by row and columns by row, as arrays that grow.

    Args:
        columns: further arrays by row: name to dtype, or to (dtype, width) for one vector a row.
        ordered: keep labels in the order of ids.
    """

    def __init__(
        self, columns: Mapping[str, DTypeLike | tuple[DTypeLike, int]] | None = None, *, ordered: bool = False
    ) -> None:
        self.kind: IdKind | None = None
        self.ordered = ordered
        self.seed = draw()  # of the hash table, and of the codes of strings
        self.relabelled = 0  # how often all labels were spread anew
        self._meta = np.zeros(META, np.int64)  # see `rankcast.structures.hashing`
        self._pending: list[Rows] = []  # released in this batch, free after settle()
        self._arrays: dict[str, NDArray[Any]] = {
            "table": np.full(hashing.LEAST, hashing.FREE, np.int32),
            "text": np.empty(0, np.uint8),
            "order": np.empty(0, np.int32),
            "free": np.empty(0, np.int32),
        }
        self._by_row: dict[str, tuple[DTypeLike, int | None]] = {
            "code": (np.int64, None),
            "sequence": (np.int64, None),
        }
        self.columns = tuple(columns or ())  # what is kept by row beside ids
        for name, form in (columns or {}).items():
            self._by_row[name] = form if isinstance(form, tuple) else (form, None)
        self._allocate(8)

    def __len__(self) -> int:
        return int(self._meta[COUNT])

    @property
    def used(self) -> int:
        """Rows below this have been given out at least once."""
        return int(self._meta[USED])

    @property
    def next_sequence(self) -> int:
        """The number of the next registration."""
        return int(self._meta[NEXT])

    def __getitem__(self, column: str) -> NDArray[Any]:
        """A column by row; valid until the next `add`."""
        return self._arrays[column]

    def register(self) -> tuple[Any, ...]:
        """The arrays as `rankcast.structures.hashing` takes them; valid until room is made."""
        return (
            self._arrays["table"],
            *self._keys(),
            self._arrays["free"],
            self._arrays["sequence"],
            self._meta,
        )

    def make_room(self, ids: Ids) -> None:
        """Let these ids come; fixes their kind."""
        self._settle_kind(ids.kind)
        size, meta = ids.size, self._meta
        fresh = max(0, size - int(meta[FREE_COUNT]))
        self._grow(int(meta[USED]) + fresh)
        if ids.kind == "str":
            self._extend("text", int(meta[TEXT_USED] + ids.offsets[-1] - ids.offsets[0]))
        if hashing.crowded(self._arrays["table"].size, len(self) + size):
            self._rehash(len(self) + size)

    def spare(self, rows: int) -> None:
        """Let so many further rows be free."""
        self._extend("free", int(self._meta[FREE_COUNT]) + rows)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays; only between batches. `seeded`: those that the seed decides."""
        seeded = ["table", "code"] if self.kind == "str" else ["table"]
        header = {"kind": self.kind, "hash": _SEEDED, "seed": self.seed, "seeded": seeded}
        return header | dict(zip(_COUNTS, self._meta.tolist(), strict=True)), dict(self._arrays)

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        kind = header["kind"]
        integrity.need(kind in (None, "int", "str"), "kind", "is not a kind of ids")
        self.kind = None
        self._settle_kind(kind)
        wanted = {name: integrity.like(array) for name, array in self._arrays.items()}
        capacity = arrays["code"].size if "code" in arrays else 0
        wanted |= {name: integrity.like(self._arrays[name], length=capacity) for name in self._by_row}
        integrity.forms(arrays, wanted)
        self._meta[:] = [integrity.whole(header, name) for name in _COUNTS]
        free, text = self._meta[[FREE_COUNT, TEXT_USED]]
        sizes = (("code", self.used, capacity), ("free", free, arrays["free"].size))
        for name, most, size in sizes:
            integrity.need(most <= size < 1 << 31, name, f"has {size} entries, not {most}")
        room = arrays["text"].size if kind == "str" else 0
        integrity.need(text <= room, "text_used", f"is {text}, but there is room for {room}")
        self._arrays = dict(arrays)
        if integrity.wanted():
            integrity.check_rows(self.kind, self._meta, self._arrays)
        if header.get("hash") == _SEEDED:
            self.seed = integrity.whole(header, "seed", high=hashing.MOST_SEED)
            if integrity.wanted():
                integrity.check_table(self._meta, self._arrays, self.seed)
        else:
            self._hash_anew()
        return self

    def unsettle(self) -> None:
        """Be as if no id had ever come: none counts as live, and the next one fixes the kind again."""
        for name in ("start", "length", "label"):
            self._by_row.pop(name, None)
            self._arrays.pop(name, None)
        self.kind = None
        self._meta[:] = 0
        self._pending.clear()
        self._arrays["table"][:] = hashing.FREE
        self._arrays["sequence"][:] = -1
        self._arrays["order"] = np.empty(0, np.int32)

    def _keys(self) -> KeyArrays:
        """The stored keys as kernels take them."""
        a = self._arrays
        return (
            (a["code"], a["start"], a["length"], a["text"], self.seed)
            if self.kind == "str"
            else integer_keys(a["code"], self.seed)
        )

    def _settle_kind(self, kind: IdKind | None) -> None:
        """Fix the kind of ids at the first of them, and make room for text."""
        if self.kind is None and kind is not None:
            self.kind = kind
            if kind == "str":
                self._by_row |= {"start": (np.int64, None), "length": (np.int32, None)}
                if self.ordered:
                    self._by_row["label"] = (np.int64, None)
                self._allocate(self._arrays["code"].size)

    def _allocate(self, capacity: int) -> None:
        """Let every array by row have `capacity` rows, keeping what they hold.

        An array that nobody else looks at grows in place: for a large one the pages are only mapped anew.
        """
        for name, (dtype, width) in self._by_row.items():
            shape = (capacity,) if width is None else (capacity, width)
            old = self._arrays.get(name, np.zeros((0, *shape[1:]), dtype))
            held = old.shape[0]
            if held < capacity:
                self._arrays[name] = _NOTHING  # so that `old` has the only reference
                try:
                    old.resize(shape)
                except ValueError:
                    old, held_rows = np.zeros(shape, dtype), old
                    old[:held] = held_rows
                if name == "sequence":
                    old[held:] = -1
                self._arrays[name] = old

    def _grow(self, rows: int) -> None:
        """Let there be so many rows, and a few more."""
        capacity = self._arrays["code"].size
        if rows > capacity:
            more = capacity if capacity < FEW else capacity // 16
            self._allocate(max(rows, capacity + more))

    def _extend(self, name: str, size: int) -> None:
        """Let a list of rows or the text be so long, and longer."""
        held = self._arrays[name]
        if size > held.size:
            longer = np.zeros(max(size, 2 * held.size if name == "text" else held.size * 5 // 4), held.dtype)
            longer[: held.size] = held
            self._arrays[name] = longer

    def _rehash(self, count: int) -> None:
        """Make a table for so many ids; those that are live already are in it."""
        table = np.full(hashing.cells_for(count), hashing.FREE, np.int32)
        hashing.insert(table, self._arrays["code"], self._live(), self.seed)
        self._arrays["table"] = table

    def _hash_anew(self) -> None:
        """Hash what a state holds that was made without a seed."""
        if self.kind == "str":
            arrays, live = self._arrays, self._live()
            start, end = arrays["start"][live], arrays["start"][live] + arrays["length"][live]
            fits = (start >= 0).all() and (end >= start).all() and (end <= arrays["text"].size).all()
            integrity.need(bool(fits), "text", "ends before the ids do")
            hashing.hash_rows(self._keys(), live)
        self._rehash(len(self))

    def _label(self, ids: Ids, rows: Rows) -> None:
        """Give order labels to fresh strings."""
        by_text = pc.sort_indices(arrow(ids)).to_numpy()
        merged = strings.merge(self._keys(), self._arrays["order"], rows[by_text])
        is_fresh = np.zeros(self.used, np.bool_)
        is_fresh[rows] = True
        self.relabelled += strings.label_fresh(merged, is_fresh, self._arrays["label"])
        self._arrays["order"] = merged

    def _compact_text(self) -> None:
        """Drop the text of ids that are gone."""
        live = self._live()
        offsets, data = strings.gather(self._keys(), live)
        self._arrays["length"][:] = 0  # so that of a row that is gone nothing is read
        self._arrays["length"][live] = np.diff(offsets)
        self._arrays["start"][live] = offsets[:-1]
        self._arrays["text"] = data
        self._meta[TEXT_USED] = self._meta[TEXT_LIVE] = offsets[-1]

    def _live(self) -> Rows:
        """The live rows, ascending."""
        return np.flatnonzero(self._arrays["sequence"][: self.used] >= 0).astype(np.int32)


_STRING, _INT64 = pa.string(), pa.int64()
_WORDS = {"int": "integers", "str": "strings"}


class Slots(IdStore):
    """Live ids to rows and back.

    - Asking: `find`, `require`, `require_new`, `live`, `take`, `take_known`; columns by row as `slots[name]`.
    - Changing: `add`, `release`, `settle`.
    - For kernels and for keeping: see `IdStore`.
    """

    @property
    def type(self) -> pa.DataType:
        """Of which type `take` gives ids."""
        return _STRING if self.kind == "str" else _INT64

    @property
    def label(self) -> Ints:
        """Order labels by row: label[a] < label[b] exactly if id a sorts before id b."""
        return self._arrays["label" if self.kind == "str" else "code"]

    @property
    def place(self) -> Ints:
        """Registration numbers by row, also of rows released in this batch."""
        sequence = self._arrays["sequence"]
        return np.where(sequence < 0, ~sequence, sequence)

    def live(self) -> Rows:
        """The live rows in the order of registration. Cost: O(n log n)."""
        rows = self._live()
        return rows[np.argsort(self._arrays["sequence"][rows], kind="stable")]

    def find(self, ids: Ids, *, where: str, column: str = "id") -> Rows:
        """The row of each id, -1 where it is not live."""
        if self.kind is None or not ids.size:
            return np.full(ids.size, hashing.FREE, np.int32)
        if self.kind != ids.kind:
            expected = f"{_WORDS[self.kind]}, as in the calls before"
            told = f"holds {_WORDS[ids.kind]}"
            hint = f"All ids of one role are of one kind: turn these into {_WORDS[self.kind]}."
            raise InputError(told, where=where, column=column, row=0, expected=expected, hint=hint)
        rows: Rows = hashing.find(self._arrays["table"], self._keys(), keys_of(ids, self.seed))
        return rows

    def require(self, ids: Ids, *, where: str, column: str = "id") -> Rows:
        """The rows of ids that must be live and distinct."""
        rows = self.find(ids, where=where, column=column)
        self.refuse_duplicates(ids, where=where, column=column)
        unknown = rows < 0
        if np.count_nonzero(unknown):
            row = int(np.argmax(unknown))
            raise InputError(
                f"is {show(ids, row)}, which is not known",
                where=where,
                column=column,
                row=row,
                expected="a live id",
            )
        return rows

    def require_new(self, ids: Ids, *, where: str) -> None:
        """Refuse ids that are live already or that come twice."""
        rows = self.find(ids, where=where)
        self.refuse_duplicates(ids, where=where)
        known = rows >= 0
        if np.count_nonzero(known):
            row = int(np.argmax(known))
            raise InputError(
                f"is {show(ids, row)}, which is there already",
                where=where,
                column="id",
                row=row,
                expected="a new id",
            )

    @staticmethod
    def refuse_duplicates(ids: Ids, *, where: str, column: str = "id") -> None:
        """Refuse a batch that names an id twice."""
        if ids.size < 2 or (ids.kind == "int" and (ids.values[1:] > ids.values[:-1]).all()):
            return
        number, first = hashing.distinct(keys_of(ids))
        if first.size < number.size:
            row = int(np.argmax(first[number] != np.arange(number.size)))
            raise InputError(
                f"is {show(ids, row)} a second time",
                where=where,
                column=column,
                row=row,
                expected="each id once",
            )

    def add(self, ids: Ids) -> Rows:
        """Give rows to ids that are new and distinct (see `require_new`). Cost: O(1) each, amortised.

        Ordered strings: O(m log n) comparisons and one pass over the order.
        """
        rows, keys = np.empty(ids.size, np.int32), keys_of(ids, self.seed)
        if not ids.size:
            return rows
        self._settle_kind(ids.kind)
        while not hashing.admit_all(self.register(), keys, rows):
            self.make_room(ids)
        if self.ordered and ids.kind == "str":
            self._label(ids, rows)
        return rows

    def release(self, rows: Rows) -> None:
        """Forget live rows. Their ids are unknown at once; the rows are free after `settle`."""
        if not rows.size:
            return
        hashing.dismiss_all(self.register(), rows)
        self._pending.append(rows)
        if self.kind == "str" and self.ordered:
            order = self._arrays["order"]
            self._arrays["order"] = order[self._arrays["sequence"][order] >= 0]

    def settle(self) -> None:
        """End a batch: rows released in it may be used again."""
        for rows in self._pending:
            start = int(self._meta[FREE_COUNT])
            self.spare(rows.size)
            self._arrays["free"][start : start + rows.size] = rows
            self._meta[FREE_COUNT] += rows.size
        self._pending.clear()
        if self._meta[TEXT_USED] > 2 * self._meta[TEXT_LIVE] + 4096:
            self._compact_text()

    def take(self, rows: Any) -> pa.Array:
        """The external ids of rows (live, or released in this batch) as an Arrow array."""
        return arrow(self.ids_at(np.ascontiguousarray(rows, dtype=np.int32)))

    def take_known(self, rows: Rows) -> pa.Array:
        """The external ids of rows as `take` gives them, null for a row below 0."""
        known = rows >= 0
        return arrow(self.ids_at(rows), None if np.count_nonzero(known) == rows.size else known)

    def ids_at(self, rows: Rows) -> Ids:
        """The ids of rows; of a row below 0 any, or no text."""
        if self.kind == "str":
            return Ids("str", NO_VALUES, *strings.gather(self._keys(), rows))
        if rows.size < FEW:
            return integer_ids(self._arrays["code"][rows])
        codes = arrays.empty(rows.size, np.int64)
        arrays.pick(self._arrays["code"], rows, codes)
        return integer_ids(codes)
