"""Open-addressing hash tables from external ids to dense rows, and the register of rows over them.

A table is an int32 array of any length; a cell holds a row or FREE. Keys live by row in a `Keys` tuple, so
the table itself is 4 bytes a cell. A key's home is its hash scaled to the length; linear probing; deletion
shifts the following run back, so there are no tombstones and the cost of a probe depends on live keys only.
Invariant: from the home cell of every live row to its own cell no cell is FREE; at most seven in ten are
taken (see `crowded`).
Cost: O(1) expected per key. Integer keys compare by value, strings by hash, length and bytes.

Homes, and the hashes of strings, depend on a secret `seed`: nobody can choose ids that share a home without
knowing it. It decides where a key lies and nothing else, so answers are the same under any seed.

Keys come from Python as plain tuples: Numba recognises the type of a plain tuple some ten times faster than
that of a named one, and for a few keys that is what a call costs.

The register gives rows out and takes them back, over the arrays of `rankcast.structures.ids.Slots`. A live
row has its key, a number of registration and a cell in the table; a removed one has the bitwise complement of
its former number. `free` lists removed rows, the last first to be used again; `meta` holds the counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

FREE = -1
LEAST = 16
MOST_SEED = 2**63 - 1
KeyArrays = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8], int]


class Keys(NamedTuple):
    """Keys by row. Integers: `code` is the key, the others are empty. Strings: `code` is their hash.

    `seed` is that of the hash of strings and of the table that looks them up.
    """

    code: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int32]
    data: NDArray[np.uint8]
    seed: int


@njit(**EXACT)
def named(keys: KeyArrays) -> Keys:
    """Keys as kernels call them."""
    return Keys(keys[0], keys[1], keys[2], keys[3], keys[4])


def crowded(cells: int, keys: int) -> bool:
    """Whether so many keys are too many for a table of so many cells."""
    return 10 * keys > 7 * cells


def cells_for(keys: int) -> int:
    """A good length for so many keys: three in five taken."""
    return max(LEAST, keys * 5 // 3)


@njit(**EXACT)
def mix(code: int, seed: int) -> int:
    """Spread the bits of a key over all 64 (the finaliser of splitmix64), under a seed."""
    key = np.uint64(seed)
    z = np.uint64(code) ^ key
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z ^= (key << np.uint64(32)) | (
        key >> np.uint64(32)
    )  # so that no difference of keys lasts under all seeds
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((z ^ (z >> np.uint64(31))) & np.uint64(0x7FFFFFFFFFFFFFFF))


@njit(**EXACT)
def home(code: int, cells: int, seed: int) -> int:
    """The cell of a table where a key belongs: its hash as a fraction of the length."""
    return ((mix(code, seed) >> 31) * cells) >> 32


@njit(**EXACT)
def _turned(word: np.uint64, bits: int) -> np.uint64:
    """The bits of a word, turned to the left."""
    return np.uint64((word << np.uint64(bits)) | (word >> np.uint64(64 - bits)))


@njit(**EXACT)
def _round(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> tuple[np.uint64, ...]:
    """One round of SipHash."""
    a, c = a + b, c + d
    b, d = _turned(b, 13) ^ a, _turned(d, 16) ^ c
    a = _turned(a, 32)
    c, a = c + b, a + d
    b, d = _turned(b, 17) ^ c, _turned(d, 21) ^ a
    return a, b, _turned(c, 32), d


@njit(**EXACT)
def _word(data: NDArray[np.uint8], at: np.uint64) -> np.uint64:
    """Eight bytes as a word, the first the lowest; written out, they are read at once."""
    word = np.uint64(data[at]) | (np.uint64(data[at + np.uint64(1)]) << np.uint64(8))
    word |= np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
    word |= np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
    word |= np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
    word |= np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
    word |= np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
    return np.uint64(word | (np.uint64(data[at + np.uint64(7)]) << np.uint64(56)))


@njit(**EXACT)
def hash_text(data: NDArray[np.uint8], start: int, length: int, seed: int) -> np.int64:
    """SipHash-1-3 of some bytes; both halves of its key come from the seed."""
    one, other = np.uint64(seed), np.uint64(mix(seed, 1))
    a, b = one ^ np.uint64(0x736F6D6570736575), other ^ np.uint64(0x646F72616E646F6D)
    c, d = one ^ np.uint64(0x6C7967656E657261), other ^ np.uint64(0x7465646279746573)
    at, whole = np.uint64(start), np.uint64(start + length // 8 * 8)
    while at < whole:
        word = _word(data, at)
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a ^= word
        at += np.uint64(8)
    word = np.uint64(length & 255) << np.uint64(56)  # the last word has what is left, and the length
    for i in range(length & 7):
        word |= np.uint64(data[at + np.uint64(i)]) << np.uint64(8 * i)
    d ^= word
    a, b, c, d = _round(a, b, c, d)
    a ^= word
    c ^= np.uint64(255)
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    return np.int64(a ^ b ^ c ^ d)


@njit(**EXACT)
def hash_strings(offsets: NDArray[np.int64], data: NDArray[np.uint8], seed: int) -> NDArray[np.int64]:
    """The hash of each string."""
    codes = np.empty(offsets.size - 1, np.int64)
    for i in range(codes.size):
        codes[i] = hash_text(data, offsets[i], offsets[i + 1] - offsets[i], seed)
    return codes


@njit(**EXACT)
def hash_rows(keys: KeyArrays, rows: NDArray[np.int32]) -> None:
    """Hash the strings of some rows anew, under the seed of the keys."""
    code, start, length, data, seed = keys
    for row in rows:
        code[row] = hash_text(data, start[row], np.int64(length[row]), seed)


@njit(**EXACT)
def _same_text(a: Keys, i: int, b: Keys, j: int) -> bool:
    """Whether key i of `a` is key j of `b`, given that their codes are equal."""
    if a.length.size == 0:
        return True
    if a.length[i] != b.length[j]:
        return False
    p, q = a.start[i], b.start[j]
    for step in range(a.length[i]):
        if a.data[p + step] != b.data[q + step]:
            return False
    return True


@njit(**EXACT)
def _next(table: NDArray[np.int32], cell: np.uint64) -> np.uint64:
    """The cell behind another."""
    cell += np.uint64(1)
    return np.uint64(0) if cell == np.uint64(table.size) else cell


@njit(**EXACT)
def seek(
    table: NDArray[np.int32], codes: NDArray[np.int64], code: int, stored: Keys, keys: Keys, i: int
) -> np.uint64:
    """The cell that holds key i of `keys`, whose code is given, or the free cell where it would go.

    `codes` are those of `stored`: whoever looks for many keys fetches them once, or references to them would
    be counted for every key, which takes longer than the search.
    """
    cell = np.uint64(home(code, table.size, stored.seed))
    row = table[cell]
    while row != FREE and not (codes[np.uint32(row)] == code and _same_text(stored, np.int64(row), keys, i)):
        cell = _next(table, cell)
        row = table[cell]
    return cell


@njit(**EXACT)
def probe(table: NDArray[np.int32], stored: Keys, keys: Keys, i: int) -> np.uint64:
    """The cell that holds key i of `keys`, or the free cell where it would go; see `seek`."""
    return seek(table, stored.code, keys.code[i], stored, keys, i)


@njit(**EXACT)
def vacancy(table: NDArray[np.int32], code: int, seed: int) -> np.uint64:
    """The free cell where a key with such a code goes that is not in the table: no other key is read."""
    cell = np.uint64(home(code, table.size, seed))
    while table[cell] != FREE:
        cell = _next(table, cell)
    return cell


@njit(**EXACT)
def find(table: NDArray[np.int32], stored: KeyArrays, keys: KeyArrays) -> NDArray[np.int32]:
    """The row of each key, or -1."""
    held, wanted = named(stored), named(keys)
    rows, codes, code = np.empty(wanted.code.size, np.int32), held.code, wanted.code
    for i in range(rows.size):
        rows[i] = table[seek(table, codes, code[i], held, wanted, i)]
    return rows


@njit(**EXACT)
def distinct(plain: KeyArrays) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Number the keys of a batch by first appearance.

    Returns the number of each key, and for each number where it appeared first.
    """
    keys = named(plain)
    code, count = keys.code, 0
    table = np.full(2 * code.size + LEAST, FREE, np.int32)
    number, first = np.empty(code.size, np.int32), np.empty(code.size, np.int32)
    for i in range(number.size):
        cell = seek(table, code, code[i], keys, keys, i)
        if table[cell] == FREE:
            table[cell] = i
            number[i] = count
            first[count] = i
            count += 1
        else:
            number[i] = number[table[cell]]
    return number, first[:count].copy()


@njit(**EXACT)
def insert(table: NDArray[np.int32], codes: NDArray[np.int64], rows: NDArray[np.int32], seed: int) -> None:
    """Enter rows whose keys are not in the table."""
    for i in range(rows.size):
        table[vacancy(table, codes[rows[i]], seed)] = rows[i]


@njit(**EXACT)
def remove(table: NDArray[np.int32], codes: NDArray[np.int64], row: int, seed: int) -> None:
    """Take a row out of the table, closing the gap."""
    hole = np.uint64(home(codes[row], table.size, seed))
    while table[hole] != row:
        hole = _next(table, hole)
    cell = hole
    while True:
        cell = _next(table, cell)
        if table[cell] == FREE:
            break
        away = np.int64(cell) - home(codes[np.uint32(table[cell])], table.size, seed)
        gap = np.int64(cell) - np.int64(hole)
        if away + (table.size if away < 0 else 0) >= gap + (table.size if gap < 0 else 0):
            table[hole] = table[cell]
            hole = cell
    table[hole] = FREE


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
