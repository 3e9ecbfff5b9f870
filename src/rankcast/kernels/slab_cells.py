"""Tiles of what members of a region gain, in 1.5 dimensions, made from the members alone.

Those who gain an object hold, besides it and the fallen one, k - 1 better ones. Who holds the same ones is in
one cell: its inner corner is the box around them, and whoever holds that, and no more than k - 1, is in it. A
cell is cut where an object outside comes in with the second attribute, so between two cuts its outer ends are
the same for all heights, and everything inside a tile gains the object, whoever subscribes. Only objects that
some of those who gain reach can part them. [Range App. D, Alg. 9] paints the same tiles from the objects,
where nobody is, too.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.kernels.corner_tree import Floats, Rows
from rankcast.kernels.options import EXACT
from rankcast.kernels.slab_members import HEIGHT, HI, LO
from rankcast.kernels.slabs import Slabs, slab_at, stairs_of
from rankcast.kernels.staircase import LEFT, RIGHT, left_at, right_at, room_of

LEAST, MOST, INNER_LO, INNER_HI, FLOOR, END, COLUMNS = 0, 3, 6, 7, 8, 9, 10


@njit(**EXACT)
def _near(others: Floats, count: int, span: Floats, near: Floats) -> int:
    """Write those of the first objects that somebody may hold; return how many."""
    lo, hi, top, size = np.inf, -np.inf, -np.inf, 0
    for i in range(span.shape[0]):
        lo, hi, top = min(lo, span[i, LO]), max(hi, span[i, HI]), max(top, span[i, HEIGHT])
    for j in range(count):
        x, height = others[0, j], others[1, j]
        near[0, size], near[1, size] = x, height
        size += (lo <= x) & (x <= hi) & (height <= top)
    return size


@njit(**EXACT)
def _open(near: Floats, count: int, member: Floats, inner: tuple[float, float, float], cell: Floats) -> None:
    """Write the bounds of the tile that a member is in; `inner`: the box around what it gains and lost."""
    lo, hi, top, (least, most, floor) = member[LO], member[HI], member[HEIGHT], inner
    left, right, end, left_floor, right_floor = -np.inf, np.inf, np.inf, -np.inf, -np.inf
    for j in range(count):
        x, height = near[0, j], near[1, j]
        if height > top:
            continue
        if x < lo:
            left_floor = height if x > left else min(left_floor, height) if x == left else left_floor
            left = max(left, x)
        elif x > hi:
            right_floor = height if x < right else min(right_floor, height) if x == right else right_floor
            right = min(right, x)
        else:
            least, most, floor = min(least, x), max(most, x), max(floor, height)
    for j in range(count):
        if near[1, j] > top and left < near[0, j] < right:
            end = min(end, near[1, j])
    cell[INNER_LO], cell[INNER_HI] = least, most
    cell[FLOOR], cell[END] = max(floor, left_floor, right_floor), end
    for axis in range(3):
        cell[LEAST + axis], cell[MOST + axis] = member[axis], member[axis]


@njit(**EXACT)
def _within(cells: Floats, at: int, lo: float, hi: float, top: float) -> bool:
    """Whether a member who gains the object is in a tile."""
    if lo > cells[at, INNER_LO] or hi < cells[at, INNER_HI] or top < cells[at, FLOOR]:
        return False
    return top < cells[at, END] or cells[at, END] == np.inf


@njit(**EXACT)
def part_members(
    others: Floats, count: int, span: Floats, inner: tuple[float, float, float], cells: Floats
) -> tuple[int, Floats]:
    """Part those who gain an object, when so many others are better, into tiles; return how many."""
    near, total, at = np.empty((2, count + 1)), 0, 0
    size = _near(others, count, span, near)
    for i in range(span.shape[0]):
        lo, hi, top = span[i, LO], span[i, HI], span[i, HEIGHT]
        if total == 0 or not _within(cells, at, lo, hi, top):
            at = total - 1
            while at >= 0 and not _within(cells, at, lo, hi, top):
                at -= 1
        if at < 0:
            if total == cells.shape[0]:
                cells = np.concatenate((cells, cells))
            _open(near, size, span[i], inner, cells[total])
            at = total
            total += 1
            continue
        for axis in range(3):
            cells[at, LEAST + axis] = min(cells[at, LEAST + axis], span[i, axis])
            cells[at, MOST + axis] = max(cells[at, MOST + axis], span[i, axis])
    return total, cells


@njit(**EXACT)
def _strips(slabs: Slabs, at: int, x: float, k: int, strip: Floats) -> int:
    """Write the strips of a slab by falling lo: the inner and outer end of lo, the end of hi; how many.

    Neighbours with the same end of hi are one, as in `staircase.paint_region`.
    """
    stairs, size = stairs_of(slabs, at), 0
    left, right, lefts, rights = stairs.left, stairs.right, stairs.size[LEFT], stairs.size[RIGHT]
    room = room_of(stairs, k)
    for a in range(min(lefts + 1, room)):
        inner, outer = left_at(left, lefts, x, a), left_at(left, lefts, x, a + 1)
        end = right_at(right, rights, x, room - a)
        if outer == inner:
            continue
        if size == 0 or end != strip[size - 1, 2]:
            strip[size, 0], strip[size, 2] = inner, end
            size += 1
        strip[size - 1, 1] = outer
    return size


@njit(**EXACT)
def _number(strip: Floats, size: int, below: Floats, beneath: int, number: Rows, at: int, total: int) -> int:
    """Number the strips of a slab, those that are also in the slab below as there; return the next number."""
    j = 0
    for i in range(size):
        while j < beneath and below[j, 0] > strip[i, 0]:
            j += 1
        same = j < beneath and below[j, 0] == strip[i, 0] and below[j, 1] == strip[i, 1]
        if same and below[j, 2] == strip[i, 2]:
            number[at, i] = number[at - 1, j]
        else:
            number[at, i] = total
            total += 1
    return total


@njit(**EXACT)
def part_region(slabs: Slabs, x: float, k: int, span: Floats) -> tuple[int, Floats]:
    """Part the members of a region among its tiles; return how many tiles there are, and the boxes around.

    A tile is a strip of one slab or of several, one above the other. [Range App. D, Alg. 8, 10]
    """
    count, total = slabs.size[0], 0
    strip, size, number = (
        np.empty((count, k + 1, 3)),
        np.zeros(count + 1, np.int64),
        np.empty((count, k + 1), np.int32),
    )
    for z in range(count):
        size[z] = _strips(slabs, z, x, k, strip[z])
        total = _number(strip[z], size[z], strip[z - 1], size[z - 1], number, z, total)
    box, heights = np.empty((total, 6)), slabs.height
    box[:, :3], box[:, 3:] = np.inf, -np.inf
    z, bottom, end, inner, outer, t = 0, np.inf, -np.inf, -np.inf, np.inf, 0
    for i in range(span.shape[0]):
        lo, height = span[i, LO], span[i, HEIGHT]
        if not (bottom <= height < end and outer < lo <= inner):
            z, j = slab_at(heights, count, height), 0
            while j < size[z] - 1 and strip[z, j, 1] >= lo:
                j += 1
            t, inner, outer = number[z, j], strip[z, j, 0], strip[z, j, 1]
            bottom, end = heights[z], heights[z + 1] if z + 1 < count else np.inf
        for axis in range(3):
            box[t, axis] = min(box[t, axis], span[i, axis])
            box[t, 3 + axis] = max(box[t, 3 + axis], span[i, axis])
    return total, box
