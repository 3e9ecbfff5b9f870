"""The words of a small vocabulary, written out as a column of strings: offsets and bytes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

WIDTH = 8  # no word is longer


@njit(**EXACT)
def total_length(codes: NDArray[np.int8], lengths: NDArray[np.int64]) -> int:
    """How many bytes the words of all codes have."""
    total = 0
    for i in range(codes.size):
        total += lengths[codes[i]]
    return total


@njit(**EXACT)
def write_words(
    codes: NDArray[np.int8],
    lengths: NDArray[np.int64],
    letters: NDArray[np.uint8],
    offsets: NDArray[np.int32],
    data: NDArray[np.uint8],
) -> None:
    """Write the word of each code behind the one before; `letters` has a line of WIDTH a word.

    A whole line is written, and the next word over what was too much: `data` needs WIDTH bytes more. A line
    is read before it is written, and indexes are unsigned: then it is one word of the machine.
    """
    place = np.uint64(0)
    for i in range(codes.size):
        code = np.uint8(codes[i])
        offsets[i] = place
        line = letters[code]
        a, b, c, d, e, f, g, h = line[0], line[1], line[2], line[3], line[4], line[5], line[6], line[7]
        data[place], data[place + np.uint64(1)], data[place + np.uint64(2)] = a, b, c
        data[place + np.uint64(3)], data[place + np.uint64(4)], data[place + np.uint64(5)] = d, e, f
        data[place + np.uint64(6)], data[place + np.uint64(7)] = g, h
        place += np.uint64(lengths[code])
    offsets[codes.size] = place
