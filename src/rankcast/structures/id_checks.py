"""What must hold of the arrays of an `IdStore` that comes from a snapshot. Cost: O(n log n), mostly O(n)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.structures import hashing, integrity
from rankcast.structures import integrity as kernels
from rankcast.structures.hashing import COUNT, FREE_COUNT, NEXT, TEXT_LIVE, TEXT_USED, USED
from rankcast.structures.strings import SPAN
from rankcast.tables.schema import IdKind, Rows

Arrays = dict[str, NDArray[Any]]
_CONTINUES, _LEADS = 0xC0, 0x80  # a byte of UTF-8 that does not begin a character: 10xxxxxx


def check_rows(kind: IdKind | None, meta: NDArray[np.int64], arrays: Arrays) -> None:
    """Live rows have numbers of registration, text and labels; rows that are free are not live."""
    used, count, free_count = int(meta[USED]), int(meta[COUNT]), int(meta[FREE_COUNT])
    sequence = arrays["sequence"]
    integrity.need(kind is not None or used == 0, "kind", "is null, though there are ids")
    live = np.flatnonzero(sequence[:used] >= 0).astype(np.int32)
    integrity.need(live.size == count, "sequence", f"has {live.size} live rows, not {count}")
    integrity.need((sequence[used:] < 0).all(), "sequence", "has live rows that were never given out")
    numbers = sequence[live]
    integrity.within(numbers, 0, int(meta[NEXT]), "sequence")
    if not (numbers[1:] > numbers[:-1]).all():
        numbers = np.sort(numbers)
        integrity.need((numbers[1:] > numbers[:-1]).all(), "sequence", "has a number twice")
    free = arrays["free"][:free_count]
    integrity.distinct(free, used, "free")
    integrity.need((sequence[free] < 0).all(), "free", "names a live row")
    integrity.need(count + free_count <= used, "free", "has more rows than are free")
    if kind == "int":
        codes = arrays["code"][live]
        codes = codes if (codes[1:] > codes[:-1]).all() else np.sort(codes)
        integrity.need((codes[1:] > codes[:-1]).all(), "code", "has an id twice")
    if kind == "str":
        _check_text(meta, arrays, live)
        if "label" in arrays:
            _check_labels(arrays, live)
    if kind != "str" or "label" not in arrays:
        integrity.need(not arrays["order"].size, "order", "has rows, though there are no labels")


def check_table(meta: NDArray[np.int64], arrays: Arrays, seed: int) -> None:
    """Every live id is found in the hash table, and every search of it ends."""
    table, count = arrays["table"], int(meta[COUNT])
    roomy = hashing.LEAST <= table.size < 1 << 31 and not hashing.crowded(table.size, count)
    integrity.need(roomy, "table", f"has {table.size} cells for {count} ids")
    found = kernels.hash_table(table, arrays["code"], arrays["sequence"], int(meta[USED]), count, seed)
    integrity.need(found == kernels.FITS, "table", "does not lead to every live id")


def _check_text(meta: NDArray[np.int64], arrays: Arrays, live: Rows) -> None:
    """Each text lies within the whole, which is UTF-8, and begins and ends with a character."""
    used, text = int(meta[TEXT_USED]), arrays["text"]
    start, length = arrays["start"][live], arrays["length"][live].astype(np.int64)
    integrity.within(length, 0, used + 1, "length")
    integrity.within(start, 0, used + 1, "start")
    end = start + length
    integrity.within(end, 0, used + 1, "length")
    total = int(length.sum())
    integrity.need(total == meta[TEXT_LIVE] <= used, "length", f"adds up to {total}, not {meta[TEXT_LIVE]}")
    _forget(arrays)
    offsets = np.array([0, used], np.int64)
    told = pa.LargeStringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(text[:used]))
    try:
        told.validate(full=True)
    except pa.ArrowInvalid:
        integrity.unfit("text", "is not UTF-8")
    inside = (text[:used] & _CONTINUES) == _LEADS
    for bound in (start, end):
        integrity.need(not inside[bound[bound < used]].any(), "start", "cuts a character")


def _forget(arrays: Arrays) -> None:
    """Let rows have no text that are gone and whose text is no longer there."""
    start, length, size = arrays["start"], arrays["length"], arrays["text"].size
    there = (length >= 0) & (start >= 0) & (start <= size - length.astype(np.int64))
    if not there.all():
        length[~there] = 0


def _check_labels(arrays: Arrays, live: Rows) -> None:
    """The order names every live row once, and labels rise along it."""
    order, label = arrays["order"], arrays["label"]
    integrity.distinct(order, arrays["sequence"].size, "order")
    integrity.need(order.size == live.size, "order", f"has {order.size} rows, not {live.size}")
    integrity.need((arrays["sequence"][order] >= 0).all(), "order", "names a row that is not live")
    labels = label[order]
    integrity.within(labels, 0, SPAN, "label")
    integrity.need((labels[1:] > labels[:-1]).all(), "label", "does not rise along the order")
