"""What lists by word are ordered by, and what tells that terms are not common."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

FACTOR = np.uint32(2654435769)
FEW = 64  # places that are sorted one by one

Rows = NDArray[np.int32]


@njit(**EXACT)
def bit_of(term: int) -> np.uint32:
    """Which bit of a sign stands for a term."""
    return np.uint32(np.uint32(np.uint32(term) * FACTOR) >> np.uint32(27))


@njit(**EXACT)
def signs(term: Rows) -> NDArray[np.uint32]:
    """By term: a bit for each of the terms after it."""
    found, sign = np.empty(term.size, np.uint32), np.uint32(0)
    for i in range(term.size - 1, -1, -1):
        found[i] = sign
        sign = np.uint32(sign | np.uint32(1) << bit_of(term[i]))
    return found


@njit(**EXACT)
def spread_bits(value: int) -> int:
    """The lower 10 bits of a number, two zeros before each."""
    value = (value | (value << 16)) & 0x030000FF
    value = (value | (value << 8)) & 0x0300F00F
    value = (value | (value << 4)) & 0x030C30C3
    return (value | (value << 2)) & 0x09249249


@njit(**EXACT)
def sort_places(order: Rows, keys: Rows, spare: Rows, bits: int) -> None:
    """Sort places by their keys of so many bits, stably: eight bits at a time, a few one by one."""
    if order.size <= FEW:
        for i in range(1, order.size):
            place, j = order[i], i
            while j > 0 and keys[order[j - 1]] > keys[place]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = place
        return
    for shift in range(0, bits, 8):
        ends = np.zeros(257, np.int64)
        for i in range(order.size):
            ends[((keys[order[i]] >> shift) & 255) + 1] += 1
        for i in range(256):
            ends[i + 1] += ends[i]
        for i in range(order.size):
            digit = (keys[order[i]] >> shift) & 255
            spare[ends[digit]] = order[i]
            ends[digit] += 1
        order[:] = spare[: order.size]
