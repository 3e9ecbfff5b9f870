"""External ids as dense rows: the door of every engine, and its columns by row.

`Slots` keeps the live ids of one role (subscriptions, objects, messages). Inside, everything is a row number;
ids go back to their external form only in answers. Rows of removed ids are used again, but not before
`settle`, so that within one batch a row means one id. All state is arrays, all loops are kernels.

With `ordered=True` there is an order label per row for ties by id: the id itself for integers, a label with
gaps for strings (`rankcast.kernels.strings`).

Memory: 22 to 29 bytes a row for integers, 34 to 41 and the text for strings (8 and 4 more if ordered), and up
to 3% more for growth. It follows the largest number of ids live at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from rankcast import buffers
from rankcast.columns import IdKind, Ids, Ints, Rows, arrow, integer_ids
from rankcast.errors import InputError, SnapshotError
from rankcast.kernels import gather, hashing, strings
from rankcast.kernels.hashing import Keys

_WORDS = {"int": "integers", "str": "strings"}
_FEW = 4096
_NOTHING, _NO_VALUES, _NO_TEXT = np.empty(0), np.empty(0, np.int64), np.empty(0, np.uint8)
_NO_START = np.broadcast_to(np.int64(0), 2**31)
_NO_LENGTH = np.broadcast_to(np.int32(-1), 2**31)


class Slots:
    """Live ids to rows and back.

    Args:
        columns: further arrays by row: name to dtype, or to (dtype, width) for one vector a row.
        ordered: keep `label`.
    """

    def __init__(
        self, columns: Mapping[str, DTypeLike | tuple[DTypeLike, int]] | None = None, *, ordered: bool = False
    ) -> None:
        self.kind: IdKind | None = None
        self.ordered = ordered
        self.used = 0  # rows below this have been given out at least once
        self.count = 0  # live rows
        self.next_sequence = 0
        self.relabelled = 0  # how often all labels were spread anew
        self._pending: list[Rows] = []  # released in this batch, free after settle()
        self._text_used = 0
        self._text_live = 0
        self._free_count = 0
        self._arrays: dict[str, NDArray[Any]] = {
            "table": np.full(16, hashing.FREE, np.int32),
            "text": np.empty(0, np.uint8),
            "order": np.empty(0, np.int32),
            "free": np.empty(0, np.int32),
        }
        self._by_row: dict[str, tuple[DTypeLike, int | None]] = {
            "code": (np.int64, None),
            "sequence": (np.int64, None),
        }
        for name, form in (columns or {}).items():
            self._by_row[name] = form if isinstance(form, tuple) else (form, None)
        self._allocate(8)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, column: str) -> NDArray[Any]:
        """A column by row; valid until the next `add`."""
        return self._arrays[column]

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
        sequence = self._arrays["sequence"][: self.used]
        rows = np.flatnonzero(sequence >= 0).astype(np.int32)
        return rows[np.argsort(sequence[rows], kind="stable")]

    def find(self, ids: Ids, *, where: str, column: str = "id") -> Rows:
        """The row of each id, -1 where it is not live."""
        if self.kind is None or not ids.size:
            return np.full(ids.size, hashing.FREE, np.int32)
        if self.kind != ids.kind:
            expected = f"{_WORDS[self.kind]}, as in the calls before"
            raise InputError(
                f"holds {_WORDS[ids.kind]}", where=where, column=column, row=0, expected=expected
            )
        rows: Rows = hashing.find(self._arrays["table"], tuple(self._keys()), tuple(keys_of(ids)))
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
        number, first = hashing.distinct(tuple(keys_of(ids)))
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
        if not ids.size:
            return np.empty(0, np.int32)
        self._settle_kind(ids.kind)
        rows, keys = self._take_free(ids.size), keys_of(ids)
        if ids.kind == "str":
            self._store_text(ids, keys, rows)
        self.count += ids.size
        if hashing.crowded(self._arrays["table"], self.count):
            self._rehash()
        table, sequence = self._arrays["table"], self._arrays["sequence"]
        hashing.enter(table, tuple(self._keys()), rows, keys.code, sequence, self.next_sequence)
        self.next_sequence += ids.size
        if self.ordered and ids.kind == "str":
            self._label(ids, rows)
        return rows

    def release(self, rows: Rows) -> None:
        """Forget live rows. Their ids are unknown at once; the rows are free after `settle`."""
        if not rows.size:
            return
        hashing.remove(self._arrays["table"], tuple(self._keys()), rows, self._arrays["sequence"])
        self.count -= rows.size
        self._pending.append(rows)
        if self.kind == "str":
            self._text_live -= int(self._arrays["length"][rows].sum())
            if self.ordered:
                order = self._arrays["order"]
                self._arrays["order"] = order[self._arrays["sequence"][order] >= 0]

    def settle(self) -> None:
        """End a batch: rows released in it may be used again."""
        for rows in self._pending:
            free, end = self._arrays["free"], self._free_count + rows.size
            if end > free.size:
                free = np.concatenate([free, np.empty(max(end - free.size, free.size // 4), np.int32)])
                self._arrays["free"] = free
            free[self._free_count : end] = rows
            self._free_count = end
        self._pending.clear()
        if self._text_used > 2 * self._text_live + 4096:
            self._compact_text()

    def take(self, rows: Any) -> pa.Array:
        """The external ids of rows (live, or released in this batch) as an Arrow array."""
        return arrow(self._ids_at(np.ascontiguousarray(rows, dtype=np.int32)))

    def take_known(self, rows: Rows) -> pa.Array:
        """The external ids of rows as `take` gives them, null for a row below 0."""
        known = rows >= 0
        return arrow(self._ids_at(rows), None if np.count_nonzero(known) == rows.size else known)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays; only between batches."""
        header = {
            "kind": self.kind,
            "used": self.used,
            "count": self.count,
            "next_sequence": self.next_sequence,
            "text_used": self._text_used,
            "text_live": self._text_live,
            "free_count": self._free_count,
        }
        return header, dict(self._arrays)

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        self._settle_kind(header["kind"])
        if {name: array.dtype for name, array in arrays.items()} != {
            name: array.dtype for name, array in self._arrays.items()
        }:
            raise SnapshotError(f"the arrays of ids are {sorted(arrays)}, expected {sorted(self._arrays)}")
        self.used, self.count = int(header["used"]), int(header["count"])
        self.next_sequence = int(header["next_sequence"])
        self._text_used, self._text_live = int(header["text_used"]), int(header["text_live"])
        self._free_count = int(header["free_count"])
        capacity = arrays["code"].size
        short = any(arrays[name].shape[0] != capacity for name in self._by_row)
        short |= self._free_count > arrays["free"].size or self._text_used > arrays["text"].size
        if short or self.used > capacity:
            raise SnapshotError("the arrays of ids have sizes that do not fit together")
        self._arrays = dict(arrays)
        return self

    def _ids_at(self, rows: Rows) -> Ids:
        """The ids of rows; of a row below 0 any, or no text."""
        if self.kind == "str":
            return Ids("str", _NO_VALUES, *strings.gather(self._keys(), rows))
        if rows.size < _FEW:
            return integer_ids(self._arrays["code"][rows])
        codes = buffers.empty(rows.size, np.int64)
        gather.pick(self._arrays["code"], rows, codes)
        return integer_ids(codes)

    def _keys(self) -> Keys:
        """The stored keys as kernels take them."""
        a = self._arrays
        if self.kind == "str":
            return Keys(a["code"], a["start"], a["length"], a["text"])
        return _integer_keys(a["code"])

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

    def _take_free(self, size: int) -> Rows:
        """`size` rows: freed ones first, then fresh ones."""
        reused, first = min(size, self._free_count), self.used
        self._free_count -= reused
        freed = self._arrays["free"][self._free_count : self._free_count + reused].copy()
        if reused == size:
            return freed
        self.used += size - reused
        capacity = self._arrays["code"].size
        if self.used > capacity:
            self._allocate(max(self.used, capacity * 33 // 32 if capacity >= _FEW else 2 * capacity))
        fresh = np.arange(first, self.used, dtype=np.int32)
        return np.concatenate([freed, fresh]) if reused else fresh

    def _store_text(self, ids: Ids, keys: Keys, rows: Rows) -> None:
        first, last = int(ids.offsets[0]), int(ids.offsets[-1])
        end = self._text_used + last - first
        text = self._arrays["text"]
        if end > text.size:
            grown = np.zeros(max(end, 2 * text.size), np.uint8)
            grown[: self._text_used] = text[: self._text_used]
            self._arrays["text"] = text = grown
        text[self._text_used : end] = ids.data[first:last]
        self._arrays["start"][rows] = keys.start - first + self._text_used
        self._arrays["length"][rows] = keys.length
        self._text_used = end
        self._text_live += last - first

    def _rehash(self) -> None:
        """Make the table large enough for all ids; those that are live already are in it."""
        table = np.full_like(self._arrays["table"], hashing.FREE)
        while hashing.crowded(table, self.count):
            table = np.full(2 * table.size, hashing.FREE, np.int32)
        live = np.flatnonzero(self._arrays["sequence"][: self.used] >= 0).astype(np.int32)
        hashing.insert(table, tuple(self._keys()), live)
        self._arrays["table"] = table

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
        live = np.flatnonzero(self._arrays["sequence"][: self.used] >= 0).astype(np.int32)
        offsets, data = strings.gather(self._keys(), live)
        self._arrays["start"][live] = offsets[:-1]
        self._arrays["text"] = data
        self._text_used = self._text_live = int(offsets[-1])


def keys_of(ids: Ids) -> Keys:
    """Ids from outside as kernels take them."""
    if ids.kind == "int":
        return _integer_keys(ids.values)
    lengths = np.diff(ids.offsets).astype(np.int32)
    return Keys(hashing.hash_strings(ids.offsets, ids.data), ids.offsets[:-1], lengths, ids.data)


def select(ids: Ids, index: Any) -> Ids:
    """The ids at the given places, in that order."""
    if ids.kind == "int":
        return integer_ids(ids.values[index])
    offsets, data = strings.gather(keys_of(ids), np.asarray(index, np.int32))
    return Ids("str", _NO_VALUES, offsets, data)


def show(ids: Ids, row: int) -> str:
    """One id, for an error."""
    if ids.kind == "int":
        return str(ids.values[row])
    return repr(bytes(ids.data[ids.offsets[row] : ids.offsets[row + 1]]).decode())


def _integer_keys(codes: Ints) -> Keys:
    """Integers need no text: start and length take no memory."""
    return Keys(codes, _NO_START, _NO_LENGTH, _NO_TEXT)
