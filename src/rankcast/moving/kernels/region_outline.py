"""The outline of a region of convex pieces: rings around what they cover together, without inner seams.

Where two pieces touch, their edges lie on the same numbered line and go opposite ways: those stretches are no
outline. Of every edge the rest is kept, and the rests are strung together. Where several begin in one
corner, the ring goes on along the one that bounds the same outside, so that rings which touch each other
there stay apart. Rings of the outside are counter-clockwise, holes clockwise. Cost: O(corners^2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.moving.kernels.convex import Floats, Ints, Region
from rankcast.moving.kernels.region_parts import DOOR, overlap, radius_of
from rankcast.structures.jit import EXACT


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
