"""Strings by row in one byte arena: gathering, comparing, and order labels with gaps.

Order is by code point, which for UTF-8 is the order of the bytes. A label is an int64 by row with
label[a] < label[b] exactly if string a sorts before string b, so kernels compare numbers, never strings.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.hashing import KeyArrays, Keys, named
from rankcast.structures.jit import EXACT

SPAN = 1 << 62


@njit(**EXACT)
def gather(plain: KeyArrays, rows: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The strings of `rows` one behind the other: offsets and bytes; a row below 0 has none."""
    keys = named(plain)
    offsets = np.zeros(rows.size + 1, np.int64)
    for i in range(rows.size):
        offsets[i + 1] = offsets[i] + (keys.length[rows[i]] if rows[i] >= 0 else 0)
    data = np.empty(offsets[-1], np.uint8)
    for i in range(rows.size):
        p, q = keys.start[rows[i]], offsets[i]
        for step in range(offsets[i + 1] - q):
            data[q + step] = keys.data[p + step]
    return offsets, data


@njit(**EXACT)
def before(keys: Keys, a: int, b: int) -> bool:
    """Whether string a sorts before string b."""
    p, q = keys.start[a], keys.start[b]
    for step in range(min(keys.length[a], keys.length[b])):
        if keys.data[p + step] != keys.data[q + step]:
            return keys.data[p + step] < keys.data[q + step]
    return keys.length[a] < keys.length[b]


@njit(**EXACT)
def merge(plain: KeyArrays, order: NDArray[np.int32], fresh: NDArray[np.int32]) -> NDArray[np.int32]:
    """Merge sorted `fresh` rows into the sorted rows `order`. Cost: O(m log n) comparisons, O(n) moves."""
    keys, merged = named(plain), np.empty(order.size + fresh.size, np.int32)
    done = 0
    for i in range(fresh.size):
        low, high = done, order.size
        while low < high:
            middle = (low + high) // 2
            if before(keys, order[middle], fresh[i]):
                low = middle + 1
            else:
                high = middle
        merged[done + i : low + i] = order[done:low]
        merged[low + i] = fresh[i]
        done = low
    merged[done + fresh.size :] = order[done:]
    return merged


@njit(**EXACT)
def relabel(order: NDArray[np.int32], label: NDArray[np.int64]) -> None:
    """Spread labels evenly over all rows of `order`."""
    step = SPAN // (order.size + 1)
    for i in range(order.size):
        label[order[i]] = (i + 1) * step


@njit(**EXACT)
def label_fresh(order: NDArray[np.int32], is_fresh: NDArray[np.bool_], label: NDArray[np.int64]) -> bool:
    """Label the fresh rows inside the gaps their neighbours leave; relabel everything if a gap is used up.

    Returns whether everything was relabelled.

    Invariant: labels rise strictly along `order`. Relabelling keeps the order, so whatever is sorted by
    label stays sorted, but copies of labels go stale: always read them by row.
    """
    i = 0
    while i < order.size:
        if not is_fresh[order[i]]:
            i += 1
            continue
        end = i
        while end < order.size and is_fresh[order[end]]:
            end += 1
        low = label[order[i - 1]] if i > 0 else 0
        high = label[order[end]] if end < order.size else SPAN
        step = (high - low) // (end - i + 1)
        if step < 1:
            relabel(order, label)
            return True
        for place in range(i, end):
            label[order[place]] = low + (place - i + 1) * step
        i = end
    return False
