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

    A whole line is written, and the next word over what was too much: `data` needs WIDTH bytes more.
    """
    place = 0
    for i in range(codes.size):
        code = codes[i]
        offsets[i] = place
        for step in range(WIDTH):
            data[place + step] = letters[code, step]
        place += lengths[code]
    offsets[codes.size] = place
