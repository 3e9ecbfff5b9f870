"""Whether a message has the words of a phrase one behind the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

END = -1  # behind the last word of a phrase

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]


class OrderedWords(NamedTuple):
    """Terms in order, by row: `size[row]` of them from `begin[row]` on; empty if nobody needs them."""

    begin: Ints
    size: Rows
    word: Rows


class Phrases(NamedTuple):
    """The phrases of subscriptions, each with `END` behind it, and what messages say."""

    wanted: OrderedWords
    said: OrderedWords


@njit(**EXACT)
def says(phrases: Phrases, row: int, item: int) -> bool:
    """Whether a message says all phrases of a subscription. Cost: O(words of both, multiplied)."""
    (begins, sizes, wanted), (firsts, lengths, said) = phrases
    if begins.size == 0 or sizes[row] == 0:
        return True
    begin, first, last = begins[row], firsts[item], firsts[item] + lengths[item]
    start = begin
    for end in range(begin, begin + sizes[row]):
        if wanted[end] != END:
            continue
        found = False
        for place in range(first, last - (end - start) + 1):
            same = True
            for i in range(end - start):
                same = same and said[place + i] == wanted[start + i]
            found = found or same
        if not found:
            return False
        start = end + 1
    return True
