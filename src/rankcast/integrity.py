"""Checks of what comes from a snapshot, before anything relies on it.

Checksums tell that a snapshot is as it was written, not that an engine wrote it. So every part of a state
checks what its kernels take for granted: numbers of rows are in range, links lead somewhere and to an end,
counts agree. Afterwards no call can leave its arrays or run without end, whatever they hold; that the
contents are true is not checked.

What does not fit raises a `SnapshotError` that names the array; the engine adds the part. Cost: a pass or two
over the bytes, less than their checksums take. A host that maps arrays it has written itself leaves these
passes out (`trusted`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankcast.errors import SnapshotError

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
