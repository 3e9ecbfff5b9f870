"""Convex pieces of the plane: clipping by half-planes, and taking a convex cell away from a region.

A region is a list of convex pieces with disjoint interiors, which all lie one after the other in the arrays
of a `Region`: corners counter-clockwise, and with each corner the number of the line on which the edge that
begins there lies. What is cut along a line gets an edge on that line on both sides, so that pieces which
touch know it by the number of the line (`rankcast.kernels.region_parts`).

A cut is (nx, ny, c, line): the half-plane of points p with n p <= c, n of length 1. A corner on the wrong
side by no more than rounding does not count, so that a line along an edge makes no slivers.
Cost: O(corners) a clip. [Moving §3.4]
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Cut: TypeAlias = tuple[float, float, float, int]

ROUNDING = 2.0**-50


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
    larger.x[: x.size], larger.y[: x.size], larger.line[: x.size] = x, y, line
    larger.end[: end.size] = end
    return larger


@njit(**EXACT)
def box(region: Region, low_x: float, low_y: float, high_x: float, high_y: float) -> int:
    """Make the region one box with the lines 0 to 3; returns how many corners that is."""
    region.x[0], region.y[0], region.x[1], region.y[1] = low_x, low_y, high_x, low_y
    region.x[2], region.y[2], region.x[3], region.y[3] = high_x, high_y, low_x, high_y
    for i in range(4):
        region.line[i] = i
    region.end[0] = 4
    return 4


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
    """Write a piece without what lies beyond a cut to `out` from `at` on; returns where it ends there."""
    x, y, line, _ = region
    out_x, out_y, out_line, _ = out
    nx, ny, c, label = cut
    least, most = reach(region, begin, end, cut)
    rounding = ROUNDING * (abs(c) + max(most, -least))
    if not least < -rounding:
        return at
    whole = not most > rounding
    here = nx * x[begin] + ny * y[begin] - c
    for i in range(begin, end):
        following = i + 1 if i + 1 < end else begin
        there = nx * x[following] + ny * y[following] - c
        if here <= 0.0 or whole:
            out_x[at], out_y[at], out_line[at] = x[i], y[i], line[i]
            at += 1
        if (here <= 0.0) != (there <= 0.0) and not whole:
            share = here / (here - there)
            out_x[at] = x[i] + share * (x[following] - x[i])
            out_y[at] = y[i] + share * (y[following] - y[i])
            out_line[at] = label if here <= 0.0 else line[i]
            at += 1
        here = there
    return at


@njit(**EXACT)
def cut_of(cuts: Floats, k: int, first: int) -> Cut:
    """A cut from a table (n, 3) of them; lines count from `first`."""
    return cuts[k, 0], cuts[k, 1], cuts[k, 2], first + k


@njit(**EXACT)
def common(region: Region, begin: int, end: int, cuts: Floats, one: Region, two: Region) -> bool:
    """Whether a piece has something in common with a cell, given by its cuts. Uses room in both others."""
    size = clip(region, begin, end, cut_of(cuts, 0, 0), one, 0)
    for k in range(1, cuts.shape[0]):
        if size == 0:
            return False
        if k % 2 == 1:
            size = clip(one, 0, size, cut_of(cuts, k, 0), two, 0)
        else:
            size = clip(two, 0, size, cut_of(cuts, k, 0), one, 0)
    return size > 0


@njit(**EXACT)
def _copy(region: Region, begin: int, end: int, out: Region, at: int) -> int:
    """Copy a piece."""
    for i in range(begin, end):
        out.x[at], out.y[at], out.line[at] = region.x[i], region.y[i], region.line[i]
        at += 1
    return at


@njit(**EXACT)
def _split(
    region: Region, begin: int, end: int, cuts: Floats, first: int, out: Region, state: tuple[int, int]
) -> tuple[int, int]:
    """Write what a piece has outside of a cell as pieces to `out`; `state` is how much lies there."""
    at, pieces = state
    rest, spare = region_for(end - begin + cuts.shape[0], 1), region_for(end - begin + cuts.shape[0], 1)
    size = _copy(region, begin, end, rest, 0)
    for k in range(cuts.shape[0]):
        nx, ny, c, line = cut_of(cuts, k, first)
        after = clip(rest, 0, size, (-nx, -ny, -c, line), out, at)
        if after > at:
            out.end[pieces] = at = after
            pieces += 1
        size = clip(rest, 0, size, (nx, ny, c, line), spare, 0)
        rest, spare = spare, rest
    return at, pieces


@njit(**EXACT)
def subtract(region: Region, pieces: int, cuts: Floats, first: int, out: Region) -> tuple[Region, int]:
    """Take a cell, given by its cuts (n, 3), away from a region; returns what is left, in `out`.

    A piece that the cell does not meet stays whole. Lines of the cell get numbers from `first` on.
    """
    lines, corners = cuts.shape[0], region.end[pieces - 1]
    out = roomy(out, corners + 4 * lines * pieces, pieces * (lines + 1))
    one, two = region_for(corners + lines, 1), region_for(corners + lines, 1)
    begin, state = 0, (0, 0)
    for piece in range(pieces):
        end = region.end[piece]
        if common(region, begin, end, cuts, one, two):
            state = _split(region, begin, end, cuts, first, out, state)
        else:
            at = _copy(region, begin, end, out, state[0])
            out.end[state[1]] = at
            state = at, state[1] + 1
        begin = end
    return out, state[1]
