"""Texts as bags of words: which words each has, in order, and how often."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Ints = NDArray[np.int64]


@njit(**EXACT)
def prefixes(offsets: Ints, data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The first eight bytes of each string as a number: strings with other numbers are ordered by them."""
    numbers = np.zeros(offsets.size - 1, np.uint64)
    for i in range(numbers.size):
        for step in range(min(8, offsets[i + 1] - offsets[i])):
            byte = np.uint64(data[offsets[i] + step])
            numbers[i] |= byte << np.uint64(56 - 8 * step)
    return numbers


@njit(**EXACT)
def collect(words: Ints, counts: Ints, distinct: int) -> tuple[Ints, Ints, Ints, Ints]:
    """The bags of texts of `counts` words each, one behind the other; words are numbers below `distinct`.

    Returns how many distinct words each text has, and for each of these its text, the word (rising within a
    text) and how often it comes. Cost: O(words), two passes of counting.
    """
    ends, texts, token = np.zeros(distinct + 1, np.int64), np.empty(words.size, np.int64), 0
    for word in words:
        ends[word + 1] += 1
    for word in range(distinct):
        ends[word + 1] += ends[word]
    for text in range(counts.size):
        for _ in range(counts[text]):
            texts[ends[words[token]]] = text
            ends[words[token]] += 1
            token += 1
    begins = np.cumsum(counts) - counts
    after, found, times = begins.copy(), np.empty(words.size, np.int64), np.zeros(words.size, np.int64)
    token = 0
    for word in range(distinct):
        for text in texts[token : ends[word]]:
            last = after[text] - 1
            fresh = last < begins[text] or found[last] != word
            found[last + fresh] = word
            times[last + fresh] += 1
            after[text] += fresh
        token = ends[word]
    sizes = after - begins
    kept = 0
    for text in range(counts.size):
        for at in range(begins[text], after[text]):
            texts[kept], found[kept], times[kept] = text, found[at], times[at]
            kept += 1
    return sizes, texts[:kept], found[:kept], times[:kept]
