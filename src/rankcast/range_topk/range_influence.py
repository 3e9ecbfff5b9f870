"""Whose lists an object is in: its influence region, in numbers. One range attribute.

With c better objects at the same x, the object is in the lists of ranges that hold at most k - 1 - c better
ones elsewhere. Let l_1 > l_2 > ... be the x of better objects to the left and r_1 < r_2 < ... those to the
right; then the region is a staircase of tiles, one for each way to hold a on the left and at most
k - 1 - c - a on the right. [Range §II-D]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.range_topk.brute_range_topk import Objects
from rankcast.tables.schema import Floats, Rows


class Influence(NamedTuple):
    """The region of one object: better objects nearest to it, and a tile a step from west to east.

    A tile is lo_outer < lo <= lo_inner, hi_inner <= hi < hi_outer; an outer end of NaN is no bound.
    """

    left: Rows
    right: Rows
    tiles: Floats  # (steps, 4)


def influence(objects: Objects, row: int, k: int) -> Influence:
    """The region of the object in `row`. Cost: one pass over the objects."""
    place, k = int(np.flatnonzero(objects.row == row)[0]), min(k, objects.row.size)
    x, key, label = objects.x[:, 0], objects.key, objects.label
    mine = x[place]
    better = (key < key[place]) | ((key == key[place]) & (label < label[place]))
    steps = k - int((better & (x == mine)).sum())
    west, east = np.flatnonzero(better & (x < mine)), np.flatnonzero(better & (x > mine))
    left = west[np.argsort(-x[west], kind="stable")][: max(steps, 0)]
    right = east[np.argsort(x[east], kind="stable")][: max(steps, 0)]
    lows = np.concatenate([[mine], x[left], np.full(max(steps, 0) + 1, np.nan)])
    highs = np.concatenate([x[right], np.full(max(steps, 0) + 1, np.nan)])
    tiles = [
        [lows[a + 1], lows[a], mine, highs[steps - 1 - a]] for a in range(steps) if not np.isnan(lows[a])
    ]
    kept = np.array([tile for tile in tiles[::-1] if tile[0] != tile[1]], np.float64).reshape(-1, 4)
    return Influence(objects.row[left], objects.row[right], kept)
