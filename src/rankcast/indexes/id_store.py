"""The arrays behind `Slots`: ids by row, hash table, text and further columns; how they grow and are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from rankcast import integrity, seeds
from rankcast.columns import IdKind, Ids, Rows, arrow
from rankcast.indexes import id_checks
from rankcast.indexes.keys import integer_keys
from rankcast.kernels import hashing, strings
from rankcast.kernels.hashing import KeyArrays
from rankcast.kernels.register import COUNT, FREE_COUNT, META, NEXT, TEXT_LIVE, TEXT_USED, USED

FEW, _MANY = 4096, 65536
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
        self.seed = seeds.draw()  # of the hash table, and of the codes of strings
        self.relabelled = 0  # how often all labels were spread anew
        self._meta = np.zeros(META, np.int64)  # see `rankcast.kernels.register`
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
        """The arrays as `rankcast.kernels.register` takes them; valid until room is made."""
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
        for name, most, size in (*sizes, ("text", text, arrays["text"].size)):
            integrity.need(most <= size < 1 << 31 or name == "text", name, f"has {size} entries, not {most}")
        self._arrays = dict(arrays)
        if integrity.wanted():
            id_checks.check_rows(self.kind, self._meta, self._arrays)
        if header.get("hash") == _SEEDED:
            self.seed = integrity.whole(header, "seed", high=hashing.MOST_SEED)
            if integrity.wanted():
                id_checks.check_table(self._meta, self._arrays, self.seed)
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
            more = capacity if capacity < FEW else capacity // (32 if capacity < _MANY else 64)
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
