"""Packed codes of points: up to sixteen coordinates in a word, compared by one subtraction.

Each coordinate is cut into codes by `cuts`, ascending per dimension; codes never fall when the coordinate
grows, so a point whose codes do not dominate does not dominate either. Up to 16 dimensions share a word of 64
bits in lanes, of eight bits for up to eight of them, of four for sixteen. The top bit of a lane is free: it
takes the borrow of one subtraction that compares all lanes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Words = NDArray[np.uint64]

WORD, MOST_LANES, WIDEST = 64, 16, 8
EVERY = np.uint64(0xFFFFFFFFFFFFFFFF)


class Lanes(NamedTuple):
    """How codes share a word: lanes in it, bits of a lane, and the lowest and the top bit of every lane."""

    number: int
    bits: int
    unit: np.uint64
    high: np.uint64


@njit(**EXACT)
def words_for(dimensions: int) -> int:
    """How many words a point of so many dimensions takes."""
    return (dimensions + MOST_LANES - 1) // MOST_LANES


@njit(**EXACT)
def lanes_for(dimensions: int) -> Lanes:
    """The lanes of a point of so many dimensions, spread evenly over its words."""
    words = words_for(dimensions)
    count = (dimensions + words - 1) // words
    bits = min(WIDEST, WORD // count)
    # All lanes full of ones, divided by one lane of ones, leaves the lowest bit of every lane.
    unit = (EVERY >> np.uint64(WORD - WORD // bits * bits)) // np.uint64((1 << bits) - 1)
    return Lanes(count, bits, unit, unit << np.uint64(bits - 1))


def levels_for(dimensions: int) -> int:
    """How many codes there are in each of so many dimensions."""
    return int(1 << (lanes_for(dimensions).bits - 1))


@njit(**EXACT)
def _code(cuts: NDArray[np.float64], dimension: int, value: float) -> int:
    """How many cuts are at most the value. Cost: a step for each bit, without a branch to guess."""
    below, step = 0, (cuts.shape[1] + 1) // 2
    while step > 0:
        below += step * int(cuts[dimension, below + step - 1] <= value)
        step //= 2
    return below


@njit(**EXACT)
def encode(cuts: NDArray[np.float64], point: NDArray[np.float64], key: Words) -> None:
    """Write the packed codes of a point into `key`."""
    count, bits, _, _ = lanes_for(cuts.shape[0])
    word, shift = -1, count * bits
    for dimension in range(cuts.shape[0]):
        if shift == count * bits:
            word, shift = word + 1, 0
            key[word] = np.uint64(0)
        # Shifts need both sides unsigned: Numba turns a mix of signed and unsigned into floats.
        key[word] |= np.uint64(_code(cuts, dimension, point[dimension])) << np.uint64(shift)
        shift += bits


@njit(**EXACT)
def quantile_cuts(values: NDArray[np.float64], cuts: NDArray[np.float64]) -> None:
    """Set the cuts of each dimension so that the sample's distinct values (n, 2d) spread over all codes.

    Up to as many distinct values as there are codes get one each; more share codes evenly by number. Cost:
    O(n log n) a dimension.
    """
    levels = cuts.shape[1] + 1
    for dimension in range(values.shape[1]):
        ordered = np.sort(values[:, dimension])
        distinct = np.empty(ordered.shape[0])
        count = 0
        for i in range(ordered.shape[0]):
            if i == 0 or ordered[i] != ordered[i - 1]:
                distinct[count] = ordered[i]
                count += 1
        for cut in range(levels - 1):
            if count <= levels:
                cuts[dimension, cut] = distinct[cut + 1] if cut + 1 < count else np.inf
            else:
                at = (cut + 1) * ordered.shape[0] // levels
                cuts[dimension, cut] = ordered[at]
