"""Checks of what comes from a snapshot, before anything relies on it.

Checksums tell that a snapshot is as it was written, not that an engine wrote it. So every part of a state
checks what its kernels take for granted: numbers of rows are in range, links lead somewhere and to an end,
counts agree. Afterwards no call can leave its arrays or run without end, whatever they hold; that the
contents are true is not checked.

What does not fit raises a `SnapshotError` that names the array; the engine adds the part. A host that maps
arrays it has written itself leaves these passes out (`trusted`). The kernels that check a structure
(here the hash table; others stand in `kernels/` of their family) compare an index with the length before they
use it, count every walk so that it ends, and return FITS or the number of what does not fit.
Cost: a pass or two over the bytes, less than their checksums take.

`check_rows` and `check_table` say what must hold of the arrays of an `IdStore`. Cost: O(n log n), mostly
O(n).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import DTypeLike, NDArray

from rankcast.errors import SnapshotError
from rankcast.structures import hashing
from rankcast.structures.hashing import COUNT as SLOT_COUNT
from rankcast.structures.hashing import FREE, FREE_COUNT, NEXT, TEXT_LIVE, TEXT_USED, USED, home
from rankcast.structures.jit import EXACT
from rankcast.structures.strings import SPAN
from rankcast.tables.schema import IdKind

MOST = 1 << 62  # no count is as large
Form = tuple[DTypeLike, tuple[int | None, ...]]

_TRUSTED: ContextVar[bool] = ContextVar("trusted", default=False)


@contextmanager
def trusted() -> Iterator[None]:
    """Take contents as they are: the arrays were written by this host and nobody else could change them."""
    before = _TRUSTED.set(True)
    try:
        yield
    finally:
        _TRUSTED.reset(before)


def wanted() -> bool:
    """Whether contents are to be checked."""
    return not _TRUSTED.get()


def unfit(name: str, what: str) -> NoReturn:
    """Refuse an array or a value of the header."""
    raise SnapshotError(f'"{name}" {what}')


def need(fits: Any, name: str, what: str) -> None:
    """Refuse an array unless something holds."""
    if not fits:
        unfit(name, what)


def whole(header: Mapping[str, Any], name: str, low: int = 0, high: int = MOST) -> int:
    """A whole number of the header, from `low` to `high`."""
    value = header.get(name) if isinstance(header, Mapping) else None
    if type(value) is not int or not low <= value <= high:
        unfit(name, f"is {value!r:.40}, expected a whole number from {low} to {high}")
    return value


def forms(arrays: Mapping[str, NDArray[Any]], wanted: Mapping[str, Form]) -> None:
    """Refuse arrays with other names, types or shapes; a length of None may be any."""
    if arrays.keys() != wanted.keys():
        odd = sorted(arrays.keys() ^ wanted.keys())[0]
        unfit(odd, "is missing" if odd in wanted else "is not known")
    for name, (dtype, shape) in wanted.items():
        array = arrays[name]
        fits = array.dtype == dtype and array.ndim == len(shape) and array.flags.c_contiguous
        if not fits or any(size not in (None, has) for size, has in zip(shape, array.shape, strict=True)):
            told = "x".join("n" if size is None else str(size) for size in shape)
            unfit(name, f"is {array.dtype} {array.shape}, expected {np.dtype(dtype)} ({told})")


def like(array: NDArray[Any], *, length: int | None = None) -> Form:
    """The form of an array that is as another one, but for its length."""
    return array.dtype, (length, *array.shape[1:])


def bucket_forms(
    arrays: Mapping[str, NDArray[Any]], empty: Any, by_node: tuple[str, ...], by_slot: tuple[str, ...],
    capacity: int,
) -> None:  # fmt: skip
    """Refuse arrays that are not of a tree with buckets of so many slots: two nodes for a bucket."""
    buckets = len(arrays["leaf_of"]) if "leaf_of" in arrays and arrays["leaf_of"].ndim else 0
    lengths = dict.fromkeys(by_node, 2 * buckets) | dict.fromkeys(by_slot, buckets * capacity)
    lengths |= {"leaf_of": buckets, "meta": empty.meta.size}
    own = {name: array for name, array in empty._asdict().items() if name in lengths}
    forms(arrays, {name: like(array, length=lengths[name]) for name, array in own.items()})


def within(array: NDArray[Any], low: int, high: int, name: str) -> None:
    """Refuse an array with a number below `low` or not below `high`."""
    if array.size and not (low <= int(array.min()) and int(array.max()) < high):
        unfit(name, f"holds {array.min()} to {array.max()}, expected {low} to {high - 1}")


def finite(array: NDArray[np.float64], name: str) -> None:
    """Refuse NaN and infinities."""
    need(np.isfinite(array).all(), name, "holds NaN or an infinity")


def no_nan(array: NDArray[np.float64], name: str) -> None:
    """Refuse NaN."""
    need(not np.isnan(array).any(), name, "holds NaN")


def distinct(rows: NDArray[Any], size: int, name: str) -> None:
    """Refuse rows that are not below `size`, or that come twice."""
    within(rows, 0, size, name)
    need(not rows.size or int(np.bincount(rows, minlength=1).max()) < 2, name, "names a row twice")


Rows = NDArray[np.int32]
Ints = NDArray[np.int64]

FITS = 0
TABLE, TWICE, LOST, COUNT = 1, 2, 3, 4  # of a hash table


@njit(**EXACT)
def hash_table(table: Rows, codes: Ints, sequence: Ints, used: int, count: int, seed: int) -> int:
    """Whether each live row is in the table once, where probing finds it, and nobody else is.

    A key is found if no cell is free from its home to its own: it lies within the run of taken cells that it
    stands in, at or after its home. Runs go on beyond the end, so the walk begins behind a free cell.
    """
    cells, first = table.size, -1
    for cell in range(cells):
        if table[cell] == FREE:
            first = cell
            break
    if first < 0:
        return TABLE
    seen, found, start = np.zeros(used, np.bool_), 0, 0  # where the run began, in steps from `first`
    for step in range(1, cells + 1):
        cell = first + step
        cell -= cells if cell >= cells else 0
        row = np.int64(table[cell])
        if row == FREE:
            start = step
            continue
        if row < 0 or row >= used or sequence[row] < 0:
            return TABLE
        if seen[row]:
            return TWICE
        seen[row], found = True, found + 1
        at = home(codes[row], cells, seed) - first
        at += cells if at <= 0 else 0
        if at <= start or at > step:
            return LOST
    return FITS if found == count else COUNT


Arrays = dict[str, NDArray[Any]]
_CONTINUES, _LEADS = 0xC0, 0x80  # a byte of UTF-8 that does not begin a character: 10xxxxxx


def check_rows(kind: IdKind | None, meta: NDArray[np.int64], arrays: Arrays) -> None:
    """Live rows have numbers of registration, text and labels; rows that are free are not live."""
    used, count, free_count = int(meta[USED]), int(meta[SLOT_COUNT]), int(meta[FREE_COUNT])
    sequence = arrays["sequence"]
    need(kind is not None or used == 0, "kind", "is null, though there are ids")
    live = np.flatnonzero(sequence[:used] >= 0).astype(np.int32)
    need(live.size == count, "sequence", f"has {live.size} live rows, not {count}")
    need((sequence[used:] < 0).all(), "sequence", "has live rows that were never given out")
    numbers = sequence[live]
    within(numbers, 0, int(meta[NEXT]), "sequence")
    if not (numbers[1:] > numbers[:-1]).all():
        numbers = np.sort(numbers)
        need((numbers[1:] > numbers[:-1]).all(), "sequence", "has a number twice")
    free = arrays["free"][:free_count]
    distinct(free, used, "free")
    need((sequence[free] < 0).all(), "free", "names a live row")
    need(count + free_count <= used, "free", "has more rows than are free")
    if kind == "int":
        codes = arrays["code"][live]
        codes = codes if (codes[1:] > codes[:-1]).all() else np.sort(codes)
        need((codes[1:] > codes[:-1]).all(), "code", "has an id twice")
    if kind == "str":
        _check_text(meta, arrays, live)
        if "label" in arrays:
            _check_labels(arrays, live)
    if kind != "str" or "label" not in arrays:
        need(not arrays["order"].size, "order", "has rows, though there are no labels")


def check_table(meta: NDArray[np.int64], arrays: Arrays, seed: int) -> None:
    """Every live id is found in the hash table, and every search of it ends."""
    table, count = arrays["table"], int(meta[SLOT_COUNT])
    roomy = hashing.LEAST <= table.size < 1 << 31 and not hashing.crowded(table.size, count)
    need(roomy, "table", f"has {table.size} cells for {count} ids")
    found = hash_table(table, arrays["code"], arrays["sequence"], int(meta[USED]), count, seed)
    need(found == FITS, "table", "does not lead to every live id")


def _check_text(meta: NDArray[np.int64], arrays: Arrays, live: Rows) -> None:
    """Each text lies within the whole, which is UTF-8, and begins and ends with a character."""
    used, text = int(meta[TEXT_USED]), arrays["text"]
    start, length = arrays["start"][live], arrays["length"][live].astype(np.int64)
    within(length, 0, used + 1, "length")
    within(start, 0, used + 1, "start")
    end = start + length
    within(end, 0, used + 1, "length")
    total = int(length.sum())
    need(total == meta[TEXT_LIVE] <= used, "length", f"adds up to {total}, not {meta[TEXT_LIVE]}")
    _forget(arrays)
    offsets = np.array([0, used], np.int64)
    told = pa.LargeStringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(text[:used]))
    try:
        told.validate(full=True)
    except pa.ArrowInvalid:
        unfit("text", "is not UTF-8")
    inside = (text[:used] & _CONTINUES) == _LEADS
    for bound in (start, end):
        need(not inside[bound[bound < used]].any(), "start", "cuts a character")


def _forget(arrays: Arrays) -> None:
    """Let rows have no text that are gone and whose text is no longer there."""
    start, length, size = arrays["start"], arrays["length"], arrays["text"].size
    there = (length >= 0) & (start >= 0) & (start <= size - length.astype(np.int64))
    if not there.all():
        length[~there] = 0


def _check_labels(arrays: Arrays, live: Rows) -> None:
    """The order names every live row once, and labels rise along it."""
    order, label = arrays["order"], arrays["label"]
    distinct(order, arrays["sequence"].size, "order")
    need(order.size == live.size, "order", f"has {order.size} rows, not {live.size}")
    need((arrays["sequence"][order] >= 0).all(), "order", "names a row that is not live")
    labels = label[order]
    within(labels, 0, SPAN, "label")
    need((labels[1:] > labels[:-1]).all(), "label", "does not rise along the order")
