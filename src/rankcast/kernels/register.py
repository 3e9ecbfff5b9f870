"""Ids that come and go: rows given out and taken back, over the arrays of `rankcast.indexes.slots.Slots`.

A row that was given out has its key by row, a number of registration, and a cell in the hash table; one that
is gone has a number below 0, the former one turned over. Rows of ids that are gone stand in `free`, the last
first to be used again. `meta` holds the counts.
Cost: O(1) expected an id, and its text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.hashing import FREE, LEAST, KeyArrays, Keys, named, remove, seek, vacancy
from rankcast.kernels.options import EXACT

Rows = NDArray[np.int32]
META = 6
USED, COUNT, NEXT, TEXT_USED, TEXT_LIVE, FREE_COUNT = range(META)
FITS = -1


class Register(NamedTuple):
    """The hash table, keys by row and seed (see `Keys`), free rows, numbers of registration, and counts."""

    table: Rows
    code: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int32]
    text: NDArray[np.uint8]
    seed: int
    free: Rows
    sequence: NDArray[np.int64]
    meta: NDArray[np.int64]


@njit(**EXACT)
def register_of(plain: tuple[Any, ...]) -> Register:
    """The register whose fields came as a plain tuple."""
    keys = (plain[1], plain[2], plain[3], plain[4], plain[5])
    return Register(plain[0], keys[0], keys[1], keys[2], keys[3], keys[4], plain[6], plain[7], plain[8])


@njit(**EXACT)
def keys_in(register: Register) -> Keys:
    """The keys by row."""
    return Keys(register.code, register.start, register.length, register.text, register.seed)


@njit(**EXACT)
def _is_full(register: Register, keys: Keys) -> bool:
    """Whether room must be made before so many further keys."""
    meta, size, text = register.meta, keys.code.size, 0
    for i in range(keys.length.size):
        text += keys.length[i]
    fresh = size - meta[FREE_COUNT]
    full = meta[USED] + fresh > register.sequence.size or meta[TEXT_USED] + text > register.text.size
    return full or 10 * (meta[COUNT] + size) > 7 * register.table.size


@njit(**EXACT)
def _next_row(free: Rows, meta: NDArray[np.int64]) -> int:
    """A free row, or else a fresh one."""
    if meta[FREE_COUNT] > 0:
        meta[FREE_COUNT] -= 1
        return int(free[meta[FREE_COUNT]])
    meta[USED] += 1
    return int(meta[USED] - 1)


@njit(**EXACT)
def _store_text(register: Register, row: int, keys: Keys, i: int) -> None:
    """Copy the text of a key behind that of the others."""
    text, meta, length = register.text, register.meta, keys.length[i]
    register.start[row], register.length[row] = meta[TEXT_USED], length
    for step in range(length):
        text[meta[TEXT_USED] + step] = keys.data[keys.start[i] + step]
    meta[TEXT_USED] += length
    meta[TEXT_LIVE] += length


@njit(**EXACT)
def first_unfit(register: Register, keys: Keys) -> int:
    """The place of the first key that is there already or comes a second time, or FITS; changes nothing."""
    held, seen = keys_in(register), np.full(2 * keys.code.size + LEAST, FREE, np.int32)
    table, codes, code = register.table, held.code, keys.code
    for i in range(code.size):
        cell = seek(seen, code, code[i], keys, keys, i)
        if seen[cell] != FREE or table[seek(table, codes, code[i], held, keys, i)] != FREE:
            return i
        seen[cell] = i
    return FITS


@njit(**EXACT)
def admit(register: Register, keys: Keys, rows: Rows) -> bool:
    """Give a row to each key, told in `rows`; all must be new and distinct.

    False, and nothing has changed, if the owner must make room first.
    """
    if _is_full(register, keys):
        return False
    table, codes, free, sequence, meta = (
        register.table,
        register.code,
        register.free,
        register.sequence,
        register.meta,
    )
    code, seed, is_text = keys.code, register.seed, keys.length.size > 0
    for i in range(rows.size):
        row = _next_row(free, meta)
        table[vacancy(table, code[i], seed)] = row
        rows[i], codes[row], sequence[row] = row, code[i], meta[NEXT] + i
        if is_text:
            _store_text(register, row, keys, i)
    meta[NEXT] += rows.size
    meta[COUNT] += rows.size
    return True


@njit(**EXACT)
def dismiss(register: Register, rows: Rows) -> None:
    """Forget live rows; they are not free yet."""
    table, codes, length, meta, sequence = (
        register.table,
        register.code,
        register.length,
        register.meta,
        register.sequence,
    )
    for i in range(rows.size):
        row = np.int64(rows[i])
        remove(table, codes, row, register.seed)
        sequence[row] = ~sequence[row]
        if length.size > 0:
            meta[TEXT_LIVE] -= length[row]
    meta[COUNT] -= rows.size


@njit(**EXACT)
def admit_all(register: tuple[Any, ...], keys: KeyArrays, rows: Rows) -> bool:
    """See `admit`; for Python."""
    return admit(register_of(register), named(keys), rows)


@njit(**EXACT)
def dismiss_all(register: tuple[Any, ...], rows: Rows) -> None:
    """See `dismiss`; for Python."""
    dismiss(register_of(register), rows)


@njit(**EXACT)
def find_in_line(
    code: NDArray[np.int64], sequence: NDArray[np.int64], ids: NDArray[np.int64], first: int
) -> tuple[Rows, bool]:
    """The rows of integer ids if all are live and lie as far apart, the first at `first`; else none.

    Tells also whether the ids ascend: then none of them comes twice.
    """
    rows, ascends = np.empty(ids.size, np.int32), True
    for i in range(ids.size):
        row = first + ids[i] - ids[0]
        if not 0 <= row < code.size or code[row] != ids[i] or sequence[row] < 0:
            return rows[:0], False
        rows[i], ascends = row, ascends and (i == 0 or ids[i] > ids[i - 1])
    return rows, ascends
