"""Dividing points of a space into zones of about equal load: a k-d split that is learnt from a sample.

A split is JSON: a number is a zone, `[axis, border, below, above]` sends points with a coordinate below the
border one way and all others the other. Every point has one zone, also one that no sample was like.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankcast.tables.schema import Floats, Ints

Split: TypeAlias = Any


def learn(points: Floats, zones: int) -> Split:
    """Split a sample (n, d) into zones of about equal size. Cost: O(d n log n log zones).

    Each step cuts where it leaves the sizes closest to what is wanted, on whatever axis that is, so that many
    equal coordinates on one axis do no harm as long as another axis tells the points apart.
    """
    return _learn(np.asarray(points, np.float64), 0, zones)


def _learn(points: Floats, first: int, zones: int) -> Split:
    if zones == 1:
        return first
    left = zones // 2
    wanted = left / zones
    cuts = [_cut(points[:, axis], wanted) for axis in range(points.shape[1])]
    axis = min(range(len(cuts)), key=lambda each: cuts[each][0], default=0)
    border = cuts[axis][1] if cuts else 0.0
    below = points[:, axis] < border if cuts else np.zeros(len(points), np.bool_)
    return [
        axis,
        border,
        _learn(points[below], first, left),
        _learn(points[~below], first + left, zones - left),
    ]


def _cut(values: Floats, wanted: float) -> tuple[float, float]:
    """How far the best finite border is from leaving the wanted share below it, and that border."""
    distinct, counts = np.unique(values, return_counts=True)
    share = np.concatenate([[0], np.cumsum(counts)[:-1]]) / max(values.size, 1)
    finite = np.flatnonzero(np.isfinite(distinct))
    if not finite.size:
        return 1.0, 0.0
    best = finite[np.argmin(np.abs(share[finite] - wanted))]
    return float(abs(share[best] - wanted)), float(distinct[best])


def zone_of(split: Split, points: Floats) -> Ints:
    """The zone of each point (n, d)."""
    found = np.empty(len(points), np.int64)
    _assign(split, np.asarray(points, np.float64), np.arange(len(points)), found)
    return found


def _assign(split: Split, points: Floats, rows: NDArray[np.intp], found: Ints) -> None:
    if isinstance(split, int):
        found[rows] = split
        return
    axis, border, below, above = split
    inside = points[rows, axis] < border
    _assign(below, points, rows[inside], found)
    _assign(above, points, rows[~inside], found)
