"""Open-addressing hash tables from external ids to dense rows, over plain arrays.

A table is an int32 array of any length; a cell holds a row or FREE. Keys live by row in a `Keys` tuple, so
the table itself is 4 bytes a cell. A key's home is its hash scaled to the length; linear probing; deletion
shifts the following run back, so there are no tombstones and the cost of a probe depends on live keys only.
Invariant: from the home cell of every live row to its own cell no cell is FREE; at most seven in ten are
taken (see `crowded`).
Cost: O(1) expected per key. Integer keys compare by value, strings by hash, length and bytes.

Homes, and the hashes of strings, depend on a secret `seed`: nobody can choose ids that share a home without
knowing it. It decides where a key lies and nothing else, so answers are the same under any seed. Tables that
are thrown away after a batch have the seed of the process; those of a state have one of their own, which is
kept with it (`rankcast.seeds`).

Keys come from Python as plain tuples: Numba recognises the type of a plain tuple some ten times faster than
that of a named one, and for a few keys that is what a call costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

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
