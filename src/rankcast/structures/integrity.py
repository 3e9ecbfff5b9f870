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
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray

from rankcast.errors import SnapshotError
from rankcast.structures.hashing import FREE, home
from rankcast.structures.jit import EXACT

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
