"""External ids as dense rows: the door of every engine, and its columns by row.

`Slots` keeps the live ids of one role (subscriptions, objects, messages). Inside, everything is a row number;
ids go back to their external form only in answers. Rows of removed ids are used again, but not before
`settle`, so that within one batch a row means one id. All state is arrays, all loops are kernels.

With `ordered=True` there is an order label per row for ties by id: the id itself for integers, a label with
gaps for strings (`rankcast.kernels.strings`).

Memory: 22 to 23 bytes a row for integers, 34 to 35 and the text for strings (8 and 4 more if ordered), and up
to 3% more for growth (from 65,536 rows on 2%). It follows the largest number of ids live at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import buffers
from rankcast.columns import Ids, Ints, Rows, arrow, integer_ids
from rankcast.errors import InputError
from rankcast.indexes.id_store import FEW, IdStore
from rankcast.indexes.keys import NO_VALUES, keys_of, select, show
from rankcast.kernels import gather, hashing, register, strings
from rankcast.kernels.register import FREE_COUNT, TEXT_LIVE, TEXT_USED

__all__ = ["Slots", "keys_of", "select", "show"]

_WORDS = {"int": "integers", "str": "strings"}


class Slots(IdStore):
    """Live ids to rows and back.

    - Asking: `find`, `require`, `require_new`, `live`, `take`, `take_known`; columns by row as `slots[name]`.
    - Changing: `add`, `release`, `settle`.
    - For kernels and for keeping: see `IdStore`.
    """

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
            raise InputError(
                f"holds {_WORDS[ids.kind]}", where=where, column=column, row=0, expected=expected
            )
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
        while not register.admit_all(self.register(), keys, rows):
            self.make_room(ids)
        if self.ordered and ids.kind == "str":
            self._label(ids, rows)
        return rows

    def release(self, rows: Rows) -> None:
        """Forget live rows. Their ids are unknown at once; the rows are free after `settle`."""
        if not rows.size:
            return
        register.dismiss_all(self.register(), rows)
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
        return arrow(self._ids_at(np.ascontiguousarray(rows, dtype=np.int32)))

    def take_known(self, rows: Rows) -> pa.Array:
        """The external ids of rows as `take` gives them, null for a row below 0."""
        known = rows >= 0
        return arrow(self._ids_at(rows), None if np.count_nonzero(known) == rows.size else known)

    def _ids_at(self, rows: Rows) -> Ids:
        """The ids of rows; of a row below 0 any, or no text."""
        if self.kind == "str":
            return Ids("str", NO_VALUES, *strings.gather(self._keys(), rows))
        if rows.size < FEW:
            return integer_ids(self._arrays["code"][rows])
        codes = buffers.empty(rows.size, np.int64)
        gather.pick(self._arrays["code"], rows, codes)
        return integer_ids(codes)
