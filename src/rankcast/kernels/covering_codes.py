"""Boxes as packed codes: a coarse picture of a point in 2d dimensions, compared eight dimensions at a time.

A box [lo, hi] is the point (-lo_0, hi_0, -lo_1, hi_1, ...): one box contains another exactly if its point
dominates the other's, that is, is at least as large in every coordinate [Covering §IV-A]. Each coordinate is
cut into LEVELS codes by `cuts`, ascending per dimension; codes never fall when the coordinate grows, so a
point whose codes do not dominate does not dominate either. A code takes seven bits of a byte, eight bytes are
a word, and the free top bits take the borrows of one subtraction that compares all eight: what passes is then
compared exactly. Infinite ends are ordinary coordinates.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

Words = NDArray[np.uint64]

LEVELS = 128
BYTES = 8
HIGH = np.uint64(0x8080808080808080)
LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
SEVEN = np.uint64(7)
EIGHT = np.uint64(8)
ONE_CODE = np.uint64(0x7F)


@njit(**EXACT)
def words_for(dimensions: int) -> int:
    """How many words a point of so many dimensions takes."""
    return (dimensions + BYTES - 1) // BYTES


@njit(**EXACT)
def _code(cuts: NDArray[np.float64], dimension: int, value: float) -> int:
    """How many cuts are at most the value. Cost: seven steps, without a branch to guess."""
    below = 0
    for step in (64, 32, 16, 8, 4, 2, 1):
        below += step * int(cuts[dimension, below + step - 1] <= value)
    return below


@njit(**EXACT)
def encode(
    cuts: NDArray[np.float64], lo: NDArray[np.float64], hi: NDArray[np.float64], row: int, key: Words
) -> None:
    """Write the packed codes of box `row` into `key`."""
    key[:] = np.uint64(0)
    for attribute in range(lo.shape[1]):
        low, high = (
            _code(cuts, 2 * attribute, -lo[row, attribute]),
            _code(cuts, 2 * attribute + 1, hi[row, attribute]),
        )
        shift = np.uint64(BYTES * (2 * attribute % BYTES))
        pair = np.uint64(low) | (np.uint64(high) << EIGHT)
        key[2 * attribute // BYTES] |= pair << shift


@njit(**EXACT)
def code_at(words: Words, dimension: int) -> int:
    """One code of a packed point."""
    shift = np.uint64(BYTES * (dimension % BYTES))
    return int((words[dimension // BYTES] >> shift) & ONE_CODE)


@njit(**EXACT)
def reaches(corners: Words, place: int, key: Words) -> bool:
    """Whether every code of corners[place] is at least that of the key."""
    for word in range(key.shape[0]):
        if ((corners[place, word] | HIGH) - key[word]) & HIGH != HIGH:
            return False
    return True


@njit(**EXACT)
def larger(one: np.uint64, other: np.uint64) -> np.uint64:
    """The larger code of each of the eight."""
    at_least = (((one | HIGH) - other) & HIGH) >> SEVEN
    mask = (at_least << SEVEN) - at_least
    return (one & mask) | (other & (LOW ^ mask))


@njit(**EXACT)
def raise_corner(corners: Words, place: int, key: Words) -> None:
    """Let a corner take in a point."""
    for word in range(key.shape[0]):
        corners[place, word] = larger(corners[place, word], key[word])


@njit(**EXACT)
def quantile_cuts(values: NDArray[np.float64], cuts: NDArray[np.float64]) -> None:
    """Set the cuts of each dimension so that the sample's distinct values (n, 2d) spread over all codes.

    Up to LEVELS distinct values get a code each; more share codes evenly by number. Cost: O(n log n) a
    dimension.
    """
    for dimension in range(values.shape[1]):
        ordered = np.sort(values[:, dimension])
        distinct = np.empty(ordered.shape[0])
        count = 0
        for i in range(ordered.shape[0]):
            if i == 0 or ordered[i] != ordered[i - 1]:
                distinct[count] = ordered[i]
                count += 1
        last = LEVELS - 1
        for cut in range(last):
            if count <= LEVELS:
                cuts[dimension, cut] = distinct[cut + 1] if cut + 1 < count else np.inf
            else:
                at = (cut + 1) * ordered.shape[0] // LEVELS
                cuts[dimension, cut] = ordered[at]
