"""The part of a region of convex pieces that holds the origin.

Pieces touch where edges of opposite directions lie on the same line, as numbered, and overlap: a door. The
part is everything that can be reached through doors from the piece that holds the origin. Pieces that
meet in a corner only are apart. Cost: O(corners^2), of the few corners that a region has.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.moving.kernels.convex import FIRST, Region
from rankcast.structures.jit import EXACT

DOOR = 1e-10  # of the size of the region: narrower doors are closed


@njit(**EXACT)
def clearance(region: Region, begin: int, end: int) -> float:
    """How far inside a piece the origin is; negative if it is outside."""
    x, y, least = region.x, region.y, np.inf
    for i in range(begin, end):
        j = i + 1 if i + 1 < end else begin
        dx, dy = x[j] - x[i], y[j] - y[i]
        length = math.sqrt(dx * dx + dy * dy)
        if length > 0.0:
            least = min(least, (x[i] * dy - y[i] * dx) / length)
    return least


@njit(**EXACT)
def radius_of(region: Region, corners: int) -> float:
    """How far the farthest corner is from the origin."""
    most = 0.0
    for i in range(corners):
        most = max(most, region.x[i] * region.x[i] + region.y[i] * region.y[i])
    return math.sqrt(most)


@njit(**EXACT)
def overlap(region: Region, i: int, after: int, j: int, behind: int) -> tuple[float, float]:
    """Where, along the edge from i, the edge from j lies that goes the other way; (0, 0) if it does not."""
    x, y = region.x, region.y
    dx, dy = x[after] - x[i], y[after] - y[i]
    length = math.sqrt(dx * dx + dy * dy)
    if length == 0.0:
        return 0.0, 0.0
    start = ((x[behind] - x[i]) * dx + (y[behind] - y[i]) * dy) / length
    stop = ((x[j] - x[i]) * dx + (y[j] - y[i]) * dy) / length
    if stop <= start:
        return 0.0, 0.0
    return max(0.0, start), min(length, stop)


@njit(**EXACT)
def _touch(region: Region, one: tuple[int, int], other: tuple[int, int], door: float) -> bool:
    """Whether two pieces, from corner to corner, have a door."""
    line = region.line
    for i in range(one[0], one[1]):
        for j in range(other[0], other[1]):
            if line[i] == line[j]:
                after = i + 1 if i + 1 < one[1] else one[0]
                behind = j + 1 if j + 1 < other[1] else other[0]
                start, stop = overlap(region, i, after, j, behind)
                if stop - start > door:
                    return True
    return False


@njit(**EXACT)
def _reached(region: Region, pieces: int, first: int, door: float) -> NDArray[np.bool_]:
    """Which pieces can be reached from the first one."""
    end, reached, queue = region.end, np.zeros(pieces, np.bool_), np.empty(pieces, np.int64)
    reached[first], queue[0], size, done = True, first, 1, 0
    while done < size:
        at = queue[done]
        done += 1
        mine = (end[at - 1] if at > 0 else 0, end[at])
        for other in range(pieces):
            if not reached[other]:
                theirs = (end[other - 1] if other > 0 else 0, end[other])
                if _touch(region, mine, theirs, door):
                    reached[other], queue[size] = True, other
                    size += 1
    return reached


@njit(**EXACT)
def _home(region: Region, pieces: int, tolerance: float) -> int:
    """The piece that holds the origin, or almost does; -1 if none."""
    best, most, begin = -1, -tolerance, FIRST
    for piece in range(pieces):
        inside = clearance(region, begin, region.end[piece])
        if inside >= most:
            best, most = piece, inside
        begin = region.end[piece]
    return best


@njit(**EXACT)
def keep_part(region: Region, pieces: int, tolerance: float) -> int:
    """Drop, in place, all pieces that are no part of what holds the origin; returns how many are left."""
    x, y, line, end = region
    home = _home(region, pieces, tolerance)
    if home < 0:
        return 0
    if pieces == 1:
        return 1
    reached = _reached(region, pieces, home, DOOR * radius_of(region, end[pieces - 1]))
    at, kept, begin = 0, 0, 0
    for piece in range(pieces):
        stop = end[piece]
        if reached[piece]:
            for i in range(begin, stop):
                x[at], y[at], line[at] = x[i], y[i], line[i]
                at += 1
            end[kept] = at
            kept += 1
        begin = stop
    return kept
