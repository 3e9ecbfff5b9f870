"""Convex pieces of the plane: clipping by half-planes, and taking a convex cell away from a region.

A region is a list of convex pieces with disjoint interiors, which all lie one after the other in the arrays
of a `Region`: corners counter-clockwise, and with each corner the number of the line on which the edge that
begins there lies. What is cut along a line gets an edge on that line on both sides, so that pieces which
touch know it by the number of the line (`rankcast.moving.kernels.region_parts`).

A cut is (nx, ny, c, line): the half-plane of points p with n p <= c, n of length 1. A corner on the wrong
side by no more than rounding does not count, so that a line along an edge makes no slivers.
Cost: O(corners) a clip. [Moving §3.4]
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Cut: TypeAlias = tuple[float, float, float, int]

ROUNDING = 2.0**-50

# No literals, for each of which a kernel would be compiled anew.
FIRST, ONE, SOME, MANY = (cast(int, np.int64(number)) for number in (0, 1, 16, 64))


class Region(NamedTuple):
    """Corners of pieces, the line of the edge that begins at each, and where pieces end."""

    x: Floats
    y: Floats
    line: Ints
    end: Ints


@njit(**EXACT)
def region_for(corners: int, pieces: int) -> Region:
    """Room for so many corners and pieces."""
    return Region(
        np.empty(corners), np.empty(corners), np.empty(corners, np.int64), np.empty(pieces, np.int64)
    )


@njit(**EXACT)
def roomy(region: Region, corners: int, pieces: int) -> Region:
    """The same region with room for so many corners and pieces."""
    x, y, line, end = region
    if corners <= x.size and pieces <= end.size:
        return region
    larger = region_for(max(corners, 2 * x.size), max(pieces, 2 * end.size))
    for i in range(x.size):
        larger.x[i], larger.y[i], larger.line[i] = x[i], y[i], line[i]
    for piece in range(end.size):
        larger.end[piece] = end[piece]
    return larger


@njit(**EXACT)
def box(region: Region, low_x: float, low_y: float, high_x: float, high_y: float) -> int:
    """Make the region one box with the lines 0 to 3; returns how many corners that is."""
    region.x[0], region.y[0], region.x[1], region.y[1] = low_x, low_y, high_x, low_y
    region.x[2], region.y[2], region.x[3], region.y[3] = high_x, high_y, low_x, high_y
    for i in range(4):
        region.line[i] = i
    region.end[0] = 4
    return region.end[0]


@njit(**EXACT)
def reach(region: Region, begin: int, end: int, cut: Cut) -> tuple[float, float]:
    """How far corners are beyond the line of a cut, at least and at most; negative inside."""
    x, y, nx, ny, c = region.x, region.y, cut[0], cut[1], cut[2]
    least, most = np.inf, -np.inf
    for i in range(begin, end):
        beyond = nx * x[i] + ny * y[i] - c
        least, most = min(least, beyond), max(most, beyond)
    return least, most


@njit(**EXACT)
def clip(region: Region, begin: int, end: int, cut: Cut, out: Region, at: int) -> int:
    """Write a piece without what lies beyond a cut to `out` from `at` on; returns where it ends there.

    The border of a piece crosses a line twice. One that is not convex may do so more often: that is passed
    over, so that there is never more than one corner more.
    """
    x, y, line, _ = region
    out_x, out_y, out_line, _ = out
    nx, ny, c, label = cut
    least, most = reach(region, begin, end, cut)
    rounding = ROUNDING * (abs(c) + max(most, -least))
    if not least < -rounding:
        return at
    whole = not most > rounding
    here, crossings = nx * x[begin] + ny * y[begin] - c, 0 if whole else 2
    for i in range(begin, end):
        following = i + 1 if i + 1 < end else begin
        there = nx * x[following] + ny * y[following] - c
        if here <= 0.0 or whole:
            out_x[at], out_y[at], out_line[at] = x[i], y[i], line[i]
            at += 1
        if (here <= 0.0) != (there <= 0.0) and crossings > 0:
            crossings -= 1
            share = here / (here - there)
            out_x[at] = x[i] + share * (x[following] - x[i])
            out_y[at] = y[i] + share * (y[following] - y[i])
            out_line[at] = label if here <= 0.0 else line[i]
            at += 1
        here = there
    return at


@njit(**EXACT)
def clip_all(region: Region, pieces: int, cut: Cut, out: Region) -> tuple[Region, int]:
    """What a cut leaves of all pieces, in `out`, and how many pieces that is."""
    out = roomy(out, region.end[pieces - 1] + pieces, pieces)
    begin, at, left = FIRST, FIRST, FIRST
    for piece in range(pieces):
        after = clip(region, begin, region.end[piece], cut, out, at)
        begin = region.end[piece]
        if after > at:
            out.end[left] = at = after
            left += 1
    return out, left


@njit(**EXACT)
def copied(region: Region, begin: int, end: int, out: Region, at: int) -> int:
    """Copy a piece; returns where it ends."""
    for i in range(begin, end):
        out.x[at], out.y[at], out.line[at] = region.x[i], region.y[i], region.line[i]
        at += 1
    return at


@njit(**EXACT)
def common(
    region: Region, begin: int, end: int, cuts: Floats, lines: int, one: Region, two: Region
) -> tuple[Region, int]:
    """What a piece has in common with a cell, given by its cuts, and how many corners that has.

    The edge along cut k is on the line -1 - k. Uses room in both others.
    """
    size = copied(region, begin, end, one, FIRST)
    for k in range(lines):
        if size == 0:
            break
        size = clip(one, FIRST, size, (cuts[k, 0], cuts[k, 1], cuts[k, 2], -1 - k), two, FIRST)
        one, two = two, one
    return one, size


@njit(**EXACT)
def subtract(
    region: Region, pieces: int, cuts: Floats, lines: int, first: int, out: Region
) -> tuple[Region, int]:
    """Take a cell, given by its first so many cuts, away from a region; returns what is left, in `out`.

    A piece that the cell does not meet stays whole; of others, what is beyond the first cut, then what of
    the rest is beyond the second, and so on. Lines of the cell get numbers from `first` on.
    """
    corners = region.end[pieces - 1]
    out = roomy(out, corners + 4 * lines * pieces, pieces * (lines + 1))
    one, two = region_for(corners + lines, ONE), region_for(corners + lines, ONE)
    begin, at, left = FIRST, FIRST, FIRST
    for piece in range(pieces):
        end = region.end[piece]
        met = common(region, begin, end, cuts, lines, one, two)[1] > 0
        size = copied(region, begin, end, one, FIRST)
        for k in range(lines if met else 0):
            nx, ny, c, line = cuts[k, 0], cuts[k, 1], cuts[k, 2], first + k
            after = clip(one, FIRST, size, (-nx, -ny, -c, line), out, at)
            if after > at:
                out.end[left] = at = after
                left += 1
            size = clip(one, FIRST, size, (nx, ny, c, line), two, FIRST)
            one, two = two, one
        if not met:
            out.end[left] = at = copied(one, FIRST, size, out, at)
            left += 1
        begin = end
    return out, left
