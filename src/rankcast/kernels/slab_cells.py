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
from rankcast.kernels.slabs import Slabs, stairs_of
from rankcast.kernels.staircase import LEFT, RIGHT, left_at, right_at, room_of

LEAST, MOST, INNER_LO, INNER_HI, FLOOR, END, COLUMNS = 0, 3, 6, 7, 8, 9, 10
WIDE = 16  # numbers that are compared together


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
    left, right, end = -np.inf, np.inf, np.inf
    for j in range(count):
        x, height = near[0, j], near[1, j]
        reached = height <= top
        left = max(left, x if reached & (x < lo) else -np.inf)
        right = min(right, x if reached & (x > hi) else np.inf)
        held = reached & (lo <= x) & (x <= hi)
        least, most = min(least, x if held else np.inf), max(most, x if held else -np.inf)
        floor = max(floor, height if held else -np.inf)
    left_floor, right_floor = np.inf, np.inf
    for j in range(count):
        x, height = near[0, j], near[1, j]
        left_floor = min(left_floor, height if x == left else np.inf)
        right_floor = min(right_floor, height if x == right else np.inf)
        end = min(end, height if (height > top) & (left < x) & (x < right) else np.inf)
    left_floor = -np.inf if left == -np.inf else left_floor
    right_floor = -np.inf if right == np.inf else right_floor
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
def _stretch(number: Rows, size: Rows, heights: Floats, stretch: Floats) -> None:
    """Write from where to where each number goes on upwards; `heights` has one more than there are slabs."""
    stretch[:, 0] = np.inf
    for z in range(size.shape[0]):
        for j in range(size[z]):
            t = number[z, j]
            stretch[t, 0], stretch[t, 1] = min(stretch[t, 0], heights[z]), heights[z + 1]


@njit(**EXACT)
def _not_above(values: Floats, limit: float) -> int:
    """How many values are not above a limit: few, wide instructions."""
    count = 0
    for i in range(values.shape[0]):
        count += values[i] <= limit
    return count


@njit(**EXACT)
def _below(values: Floats, row: int, limit: float) -> int:
    """How many values of a row are below a limit: few, wide instructions."""
    count = 0
    for i in range(values.shape[1]):
        count += values[row, i] < limit
    return count


@njit(**EXACT)
def part_region(slabs: Slabs, x: float, k: int, span: Floats) -> tuple[int, Floats]:
    """Part the members of a region among its tiles; return how many tiles there are, and the boxes around.

    A tile is a strip of one slab or of several, one above the other. [Range App. D, Alg. 8, 10]
    The box of the tile at hand is written when the next member is in another one. Rows are as long as wide
    instructions like them: beyond the last slab and strip there are infinite ones.
    """
    count, total, heights = slabs.size[0], 0, np.full(WIDE * (slabs.size[0] // WIDE + 1), np.inf)
    strip, size = np.empty((count, k + 1, 3)), np.zeros(count, np.int32)
    number, heights[:count] = np.empty((count, k + 1), np.int32), slabs.height[:count]
    outers = np.full((count, WIDE * (k // WIDE + 1)), -np.inf)
    for z in range(count):
        size[z] = _strips(slabs, z, x, k, strip[z])
        outers[z, : size[z]] = strip[z, : size[z], 1]
        total = _number(strip[z], size[z], strip[z - 1], size[z - 1] if z > 0 else 0, number, z, total)
    box, stretch = np.empty((total + 1, 6)), np.empty((total, 2))
    _stretch(number, size, heights, stretch)
    box[:, :3], box[:, 3:] = np.inf, -np.inf
    bottom, end, inner, outer, t = np.inf, -np.inf, -np.inf, np.inf, total
    a, b, c, d, e, f = np.inf, np.inf, np.inf, -np.inf, -np.inf, -np.inf
    for i in range(span.shape[0]):
        lo, hi, height = span[i, LO], span[i, HI], span[i, HEIGHT]
        if not ((bottom <= height) & (height < end) & (outer < lo) & (lo <= inner)):
            box[t, 0], box[t, 1], box[t, 2], box[t, 3], box[t, 4], box[t, 5] = a, b, c, d, e, f
            z = min(_not_above(heights, height), count) - 1
            j = min(outers.shape[1] - _below(outers, z, lo), size[z] - 1)
            t, inner, outer = number[z, j], strip[z, j, 0], strip[z, j, 1]
            bottom, end = stretch[t, 0], stretch[t, 1]
            a, b, c, d, e, f = box[t, 0], box[t, 1], box[t, 2], box[t, 3], box[t, 4], box[t, 5]
        a, b, c = min(a, lo), min(b, hi), min(c, height)
        d, e, f = max(d, lo), max(e, hi), max(f, height)
    box[t, 0], box[t, 1], box[t, 2], box[t, 3], box[t, 4], box[t, 5] = a, b, c, d, e, f
    return total, box
