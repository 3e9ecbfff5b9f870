"""Ranked matching by looking at every subscription for every event."""

from __future__ import annotations

import numpy as np

from rankcast.boxes import Boxes, inside
from rankcast.columns import Bools, Floats, Ints, Rows


def weigh(boxes: Boxes, weights: Floats, point: Floats, *, combine: str) -> Floats:
    """The relaxed score of each box (n, d) with weights (n, d) for a point (d,).

    The sum is taken attribute by attribute, in their order, from 0; so equal weights are equal sums on any
    way to compute them.
    """
    counted = np.where(inside(boxes, point), weights, 0.0)
    total = np.zeros(counted.shape[0])
    with np.errstate(over="ignore"):
        for column in counted.T:
            total = total + column if combine == "sum" else np.maximum(total, column)
    return total


def ranked(score: Floats, matches: Bools, label: Ints) -> Rows:
    """The places of all matches, best score first, ties by the smaller label. O(n log n)."""
    places = np.flatnonzero(matches)
    return places[np.lexsort((label[places], -score[places]))].astype(np.int32)
