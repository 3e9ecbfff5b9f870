"""Sorting many small whole numbers together with where they stood: two passes, no comparison.

A number and its place are one word, the number in the upper half, so that every pass reads and writes words
one after the other. Equal numbers keep their order.

Cost: O(n + sqrt(most)), a few nanoseconds a number.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

Words = NDArray[np.uint64]

HALF = np.uint64(32)
LOWER = np.uint64(0xFFFFFFFF)


@njit(**EXACT)
def _pass(words: Words, out: Words, shift: np.uint64, bits: np.uint64) -> None:
    """Write the words in the order of some bits of theirs."""
    mask = (np.uint64(1) << bits) - np.uint64(1)
    start, total = np.zeros(mask + np.uint64(1), np.uint64), np.uint64(0)
    for i in range(words.shape[0]):
        start[(words[i] >> shift) & mask] += np.uint64(1)
    for b in range(mask + np.uint64(1)):
        start[b], total = total, total + start[b]
    for i in range(words.shape[0]):
        digit = (words[i] >> shift) & mask
        out[start[digit]] = words[i]
        start[digit] += np.uint64(1)


@njit(**EXACT)
def with_places(numbers: NDArray[np.int32], most: int) -> Words:
    """The numbers, all from 0 to `most`, ascending, each with its place in the lower half of the word."""
    words, spare = np.empty(numbers.shape[0], np.uint64), np.empty(numbers.shape[0], np.uint64)
    for i in range(numbers.shape[0]):
        words[i] = np.uint64(numbers[i]) << HALF | np.uint64(i)
    bits = np.uint64(1)
    while np.uint64(most) >> bits + bits:
        bits += np.uint64(1)
    _pass(words, spare, HALF, bits)
    _pass(spare, words, HALF + bits, bits)
    return words
