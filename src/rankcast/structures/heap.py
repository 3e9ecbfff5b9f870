"""The k best of what comes along: a binary heap of (score, row) with the worst on top.

Better means the larger score; equal scores are ordered by the smaller label, which is looked up by row at
every comparison, so that labels may be given anew between two searches. A heap is two parallel arrays and a
size that the caller keeps. Cost: O(1) if refused, O(log k) if taken; `best_first` O(k log k).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]
Labels = NDArray[np.int64]


@njit(**EXACT)
def better(label: Labels, score: float, row: int, other_score: float, other: int) -> bool:
    """Whether (score, row) ranks before (other_score, other)."""
    return score > other_score or (score == other_score and label[row] < label[other])


@njit(**EXACT)
def _sink(label: Labels, scores: Floats, rows: Rows, size: int, score: float, row: int) -> None:
    """Put an entry at the top and let it sink below everything worse."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and better(label, scores[child], rows[child], scores[child + 1], rows[child + 1]):
            child += 1
        if not better(label, score, row, scores[child], rows[child]):
            break
        scores[hole], rows[hole] = scores[child], rows[child]
        hole = child
    scores[hole], rows[hole] = score, row


@njit(**EXACT)
def offer(label: Labels, scores: Floats, rows: Rows, size: int, score: float, row: int) -> int:
    """Offer an entry to a heap with room for `scores.shape[0]`; return its new size."""
    if size == scores.shape[0]:
        if better(label, score, row, scores[0], rows[0]):
            _sink(label, scores, rows, size, score, row)
        return size
    hole = size
    while hole > 0:
        parent = (hole - 1) // 2
        if not better(label, scores[parent], rows[parent], score, row):
            break
        scores[hole], rows[hole] = scores[parent], rows[parent]
        hole = parent
    scores[hole], rows[hole] = score, row
    return size + 1


@njit(**EXACT)
def best_first(label: Labels, scores: Floats, rows: Rows, size: int) -> None:
    """Turn a heap into a list, best first."""
    for last in range(size - 1, 0, -1):
        score, row = scores[0], rows[0]
        _sink(label, scores, rows, last, scores[last], rows[last])
        scores[last], rows[last] = score, row
