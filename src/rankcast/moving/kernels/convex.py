"""Regions of convex pieces in the plane: clipping, subtraction, the part around the origin, outlines.

A region is a list of convex pieces with disjoint interiors, which all lie one after the other in the arrays
of a `Region`: corners counter-clockwise, and with each corner the number of the line on which the edge that
begins there lies. What is cut along a line gets an edge on that line on both sides, so that pieces which
touch are found by the number of the line.

A cut is (nx, ny, c, line): the half-plane of points p with n p <= c, n of length 1. A corner on the wrong
side by no more than rounding does not count, so that a line along an edge makes no slivers. Cost: O(corners)
a clip. [Moving §3.4]

The part of a region that holds the origin (`keep_part`). Pieces touch where edges of opposite directions lie
on the same line, as numbered, and overlap: a door. The part is everything that can be reached through doors
from the piece that holds the origin. Pieces that meet in a corner only are apart. Cost: O(corners^2), of the
few corners that a region has.

The outline of a region (`rings`): rings around what its pieces cover together, without inner seams. Where
two pieces touch, their edges lie on the same numbered line and go opposite ways: those stretches are no
outline. Of every edge the rest is kept, and the rests are strung together. Where several begin in one
corner, the ring goes on along the one that bounds the same outside, so that rings which touch each other
there stay apart. Rings of the outside are counter-clockwise, holes clockwise. Cost: O(corners^2).
"""

from __future__ import annotations

import math
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


class Stretches(NamedTuple):
    """Parts of edges from a to b, each on a line."""

    ax: Floats
    ay: Floats
    bx: Floats
    by: Floats
    line: Ints


@njit(**EXACT)
def _following(region: Region, pieces: int) -> Ints:
    """The next corner of each corner in its piece."""
    end = region.end
    found, begin = np.arange(1, end[pieces - 1] + 1), 0
    for piece in range(pieces):
        found[end[piece] - 1] = begin
        begin = end[piece]
    return found


@njit(**EXACT)
def _covered(region: Region, following: Ints, i: int) -> Floats:
    """Where along the edge from corner i other pieces lie beyond it: (n, 2), by where that begins."""
    size, found = 0, np.empty((following.size, 2))
    for j in range(following.size):
        if region.line[j] == region.line[i] and j != i:
            start, stop = overlap(region, i, following[i], j, following[j])
            if stop > start:
                at = size
                while at > 0 and found[at - 1, 0] > start:
                    found[at] = found[at - 1]
                    at -= 1
                found[at, 0], found[at, 1] = start, stop
                size += 1
    return found[:size]


@njit(**EXACT)
def uncovered(region: Region, pieces: int) -> Stretches:
    """The parts of all edges that bound the region."""
    following, x, y = _following(region, pieces), region.x, region.y
    least = DOOR * radius_of(region, following.size)
    most = 2 * following.size * 2
    out, size = (
        Stretches(np.empty(most), np.empty(most), np.empty(most), np.empty(most), np.empty(most, np.int64)),
        0,
    )
    for i in range(following.size):
        j = following[i]
        dx, dy = x[j] - x[i], y[j] - y[i]
        length = math.sqrt(dx * dx + dy * dy)
        covered, at = _covered(region, following, i), 0.0
        for k in range(covered.shape[0] + 1):
            stop = covered[k, 0] if k < covered.shape[0] else length
            if stop - at > least:
                out.ax[size], out.ay[size] = x[i] + dx * (at / length), y[i] + dy * (at / length)
                out.bx[size], out.by[size] = x[i] + dx * (stop / length), y[i] + dy * (stop / length)
                out.line[size] = region.line[i]
                size += 1
            if k < covered.shape[0]:
                at = max(at, covered[k, 1])
    return Stretches(out.ax[:size], out.ay[:size], out.bx[:size], out.by[:size], out.line[:size])


@njit(**EXACT)
def _next(all_: Stretches, i: int, used: Ints, tolerance: float) -> int:
    """The stretch that goes on where stretch i ends, of those not used; -1 if there is none."""
    best, turn = -1, np.inf
    back = math.atan2(all_.ay[i] - all_.by[i], all_.ax[i] - all_.bx[i])
    for j in range(all_.ax.size):
        if used[j] >= 0 or math.hypot(all_.ax[j] - all_.bx[i], all_.ay[j] - all_.by[i]) > tolerance:
            continue
        angle = (math.atan2(all_.by[j] - all_.ay[j], all_.bx[j] - all_.ax[j]) - back) % (2 * math.pi)
        if angle < turn:
            best, turn = j, angle
    return best


@njit(**EXACT)
def rings(region: Region, pieces: int) -> tuple[Floats, Floats, Ints]:
    """The corners of all rings, one after the other, and where rings end; nothing if one does not close."""
    all_ = uncovered(region, pieces)
    many = all_.ax.size
    tolerance = 4 * DOOR * radius_of(region, region.end[pieces - 1])
    used, x, y = np.full(many, np.int64(-1)), np.empty(many), np.empty(many)
    ends, count, size = np.empty(many, np.int64), 0, 0
    for first in range(many):
        if used[first] >= 0:
            continue
        at, begin = first, size
        while at >= 0:
            used[at] = count
            x[size], y[size] = all_.ax[at], all_.ay[at]
            size += 1
            after = _next(all_, at, used, tolerance)
            home = math.hypot(all_.bx[at] - all_.ax[first], all_.by[at] - all_.ay[first]) <= tolerance
            if home and (after < 0 or at == first or used[first] == count):
                break
            if after < 0:
                return x[:0], y[:0], ends[:0]
            at = after
        size = _straightened(x, y, begin, size, tolerance)
        if size - begin >= 3:
            ends[count] = size
            count += 1
        else:
            size = begin
    return x[:size], y[:size], ends[:count]


@njit(**EXACT)
def _straightened(x: Floats, y: Floats, begin: int, end: int, tolerance: float) -> int:
    """Leave out corners on the line between their neighbours, in place; returns the new end."""
    many, kept = end - begin, begin
    old_x, old_y = x[begin:end].copy(), y[begin:end].copy()
    for i in range(many):
        before = kept - 1 if kept > begin else -1
        ax, ay = (x[before], y[before]) if before >= 0 else (old_x[many - 1], old_y[many - 1])
        bx, by = old_x[(i + 1) % many], old_y[(i + 1) % many]
        dx, dy = bx - ax, by - ay
        length = math.hypot(dx, dy)
        beside = abs(dx * (old_y[i] - ay) - dy * (old_x[i] - ax))
        if beside > tolerance * length:
            x[kept], y[kept] = old_x[i], old_y[i]
            kept += 1
    return kept
