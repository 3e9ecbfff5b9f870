"""A binary heap over two parallel arrays, keys and entries; the caller keeps its size.

The smallest key is on top, at place 0; the children of place i are at 2i + 1 and 2i + 2. Two uses:

- A queue: `push`, read the top, `pop`. Which of some equal keys comes first is left open (`ANY`).
- The k best of what comes along: `offer` keeps as many rows as the arrays have room for, the worst on top;
  `best_first` turns them into a list. Keys are scores then, and better means the larger score; equal scores
  are ordered by the smaller label, which is looked up by row at every comparison, so that labels may be given
  anew between two searches.

Cost: O(log n) to push or pop; O(1) for an offer that is refused; `best_first` O(n log n).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Keys = NDArray[Any]
Entries = NDArray[Any]
Labels = NDArray[np.int64]
ANY = None  # instead of labels: equal keys come in any order


@njit(**EXACT)
def _above(label: Labels | None, key: float, entry: int, other_key: float, other: int) -> bool:
    """Whether one entry belongs above another: its key is smaller, or as large and its label larger."""
    if label is None:
        return key < other_key
    return key < other_key or (key == other_key and label[entry] > label[other])


@njit(**EXACT)
def _rise(label: Labels | None, keys: Keys, entries: Entries, hole: int, key: float, entry: int) -> None:
    """Put an entry into a place at the end and let it rise above everything that belongs below it."""
    while hole > 0:
        parent = (hole - 1) >> 1
        if not _above(label, key, entry, keys[parent], entries[parent]):
            break
        keys[hole], entries[hole] = keys[parent], entries[parent]
        hole = parent
    keys[hole], entries[hole] = key, entry


@njit(**EXACT)
def _sink(label: Labels | None, keys: Keys, entries: Entries, size: int, key: float, entry: int) -> None:
    """Put an entry in the place of the top and let it sink below everything that belongs above it."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and _above(
            label, keys[child + 1], entries[child + 1], keys[child], entries[child]
        ):
            child += 1
        if not _above(label, keys[child], entries[child], key, entry):
            break
        keys[hole], entries[hole] = keys[child], entries[child]
        hole = child
    keys[hole], entries[hole] = key, entry


@njit(**EXACT)
def push(keys: Keys, entries: Entries, size: int, key: float, entry: int) -> int:
    """Add an entry to a queue; returns the new size."""
    _rise(ANY, keys, entries, size, key, entry)
    return size + 1


@njit(**EXACT)
def pop(keys: Keys, entries: Entries, size: int) -> int:
    """Remove the top of a queue that is not empty; returns the new size."""
    _sink(ANY, keys, entries, size - 1, keys[size - 1], entries[size - 1])
    return size - 1


@njit(**EXACT)
def better(label: Labels, score: float, row: int, other_score: float, other: int) -> bool:
    """Whether (score, row) ranks before (other_score, other)."""
    return _above(label, other_score, other, score, row)


@njit(**EXACT)
def offer(label: Labels, scores: Keys, rows: Entries, size: int, score: float, row: int) -> int:
    """Offer a row to the best ones so far, for which `scores` has room; returns how many they are now."""
    if size < scores.shape[0]:
        _rise(label, scores, rows, size, score, row)
        return size + 1
    if better(label, score, row, scores[0], rows[0]):
        _sink(label, scores, rows, size, score, row)
    return size


@njit(**EXACT)
def best_first(label: Labels, scores: Keys, rows: Entries, size: int) -> None:
    """Turn the best ones into a list, best first."""
    for last in range(size - 1, 0, -1):
        score, row = scores[0], rows[0]
        _sink(label, scores, rows, last, scores[last], rows[last])
        scores[last], rows[last] = score, row
