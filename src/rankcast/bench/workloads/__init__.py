"""Seeded inputs, one module a paper; columns are called as the engines expect them.

Every function takes a `numpy.random.Generator` and draws from nothing else: the same generator in the same
state gives the same arrays. Columns are NumPy arrays in a dict, or a `pyarrow.Table` where a column holds
lists. `batches` cuts either into what one call of an engine takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Columns: TypeAlias = dict[str, NDArray[Any]]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


def batches(rows: Mapping[str, NDArray[Any]] | pa.Table, size: int) -> list[Any]:
    """Cut rows into consecutive batches of `size`, the last one shorter; a batch is a view.

    >>> [batch["id"].tolist() for batch in batches({"id": np.arange(5)}, 2)]
    [[0, 1], [2, 3], [4]]
    """
    if isinstance(rows, pa.Table):
        return [rows.slice(start, size) for start in range(0, rows.num_rows, size)]
    length = len(next(iter(rows.values())))
    return [
        {name: column[start : start + size] for name, column in rows.items()}
        for start in range(0, length, size)
    ]


def occurrences(keys: Integers) -> Integers:
    """Give for each element how many equal ones come before it.

    A recurrence over each key's elements in turn becomes a loop over rounds: round r treats all elements
    that are the r-th of their key at once.

    >>> occurrences(np.array([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(keys) else np.empty(0, np.int64)
    lengths = np.diff(np.r_[starts, len(keys)])
    counts = np.empty(len(keys), np.int64)
    counts[order] = np.arange(len(keys)) - np.repeat(starts, lengths)
    return counts


def zipf_weights(count: int, skew: float) -> Floats:
    """Give probabilities proportional to 1, 1/2^skew, 1/3^skew and so on; skew 0 is uniform."""
    weights: Floats = np.arange(1, count + 1, dtype=np.float64) ** -skew
    weights /= weights.sum()
    return weights


def draw(weights: Floats, size: int, rng: np.random.Generator) -> Integers:
    """Draw indices with the given probabilities, by the inverse of their sum."""
    sums = np.cumsum(weights)
    found: Integers = np.searchsorted(sums, rng.random(size) * sums[-1], side="right").astype(np.int64)
    return np.minimum(found, len(weights) - 1)
