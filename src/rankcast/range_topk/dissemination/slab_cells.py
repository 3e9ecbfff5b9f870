"""Tiles made from members alone, in 1.5 dimensions: of what they gain, or of a region that has few of them.

Those who gain an object hold, besides it and the fallen one, k - 1 better ones. Who holds the same ones is in
one cell: its inner corner is the box around them, and whoever holds that, and no more than k - 1, is in it.
The cells of a region are the strips of its slabs, one above the other where they are the same: whoever has so
many better objects on the left, and fewer than there is room for then on the right, is in it. A cell is cut
where an object outside comes in with the second attribute, so between two cuts its outer ends are the same
for all heights, and everything inside a tile has the object to gain, or to be told of, whoever subscribes.
Only objects that some of the members reach can part them. [Range App. D, Alg. 8, 9] paints the same tiles
from the objects, where nobody is, too.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.range_topk.dissemination.slab_cut import WIDE, fill_up, wide
from rankcast.range_topk.dissemination.slab_members import HEIGHT, HI, LO
from rankcast.range_topk.kernels.corner_tree import Floats
from rankcast.range_topk.kernels.tiles import above, below
from rankcast.structures.jit import EXACT

LEAST, MOST, OUTER_LO, INNER_LO, INNER_HI, FLOOR, END, LINES = 0, 3, 6, 7, 8, 9, 10, 11


@njit(**EXACT)
def new_cells() -> Floats:
    """Room for cells, one a column: the box around its members, and its bounds, which are all included."""
    return np.empty((LINES, WIDE))


@njit(**EXACT)
def _near(others: Floats, count: int, span: Floats, near: Floats) -> int:
    """Write those of the first objects that somebody may hold, in order; return how many."""
    lo, hi, top, size = np.inf, -np.inf, -np.inf, 0
    for i in range(span.shape[0]):
        lo, hi, top = min(lo, span[i, LO]), max(hi, span[i, HI]), max(top, span[i, HEIGHT])
    for j in range(count):
        x, height = others[0, j], others[1, j]
        near[0, size], near[1, size] = x, height
        size += (lo <= x) & (x <= hi) & (height <= top)
    return size


@njit(**EXACT)
def _open(
    near: Floats, count: int, member: Floats, inner: tuple[float, float, float], cells: Floats, at: int
) -> None:
    """Write the bounds of the tile that a member is in; `inner`: the box around what it gains and lost."""
    lo, hi, top, (least, most, floor) = member[LO], member[HI], member[HEIGHT], inner
    left, right, end, filled = -np.inf, np.inf, np.inf, wide(count)
    for j in range(filled):
        x, height = near[0, j], near[1, j]
        reached = height <= top
        left = max(left, x if reached & (x < lo) else -np.inf)
        right = min(right, x if reached & (x > hi) else np.inf)
        held = reached & (lo <= x) & (x <= hi)
        least, most = min(least, x if held else np.inf), max(most, x if held else -np.inf)
        floor = max(floor, height if held else -np.inf)
    left_floor, right_floor = np.inf, np.inf
    for j in range(filled):
        x, height = near[0, j], near[1, j]
        left_floor = min(left_floor, height if x == left else np.inf)
        right_floor = min(right_floor, height if x == right else np.inf)
        end = min(end, height if (height > top) & (left < x) & (x < right) else np.inf)
    left_floor = -np.inf if left == -np.inf else left_floor
    right_floor = -np.inf if right == np.inf else right_floor
    cells[OUTER_LO, at], cells[INNER_LO, at], cells[INNER_HI, at] = above(left), least, most
    cells[FLOOR, at], cells[END, at] = max(floor, left_floor, right_floor), below(end)


@njit(**EXACT)
def _end_of_strip(near: Floats, count: int, member: Floats, x: float, room: int) -> tuple[float, int]:
    """Where the strip of a member ends on the right, and how many it may hold that are at x itself."""
    lo, top, held, same, filled = member[LO], member[HEIGHT], 0, 0, wide(count)
    for j in range(filled):
        there, reached = near[0, j], near[1, j] <= member[HEIGHT]
        held += reached & (lo <= there) & (there <= x)
        same += reached & (there == x)
    for j in range(count):
        held += (near[1, j] <= top) & (near[0, j] > x)
        if held == room:
            return near[0, j], same
    return np.inf, same


@njit(**EXACT)
def _open_strip(
    near: Floats, count: int, member: Floats, x: float, room: int, cells: Floats, at: int
) -> None:
    """Write the bounds of the strip of a region around x that a member is in.

    Those near are to the left, then to the right, near to far on both sides; some may be at x. Strips with
    the same end on the right are one. A strip goes from where an object inside or at its ends comes in to
    where the next does, so nobody is in two: an object at its end may make it wider.
    """
    top, outer, inner, before, upto, filled = member[HEIGHT], -np.inf, x, 0, 0, wide(count)
    end, held = _end_of_strip(near, count, member, x, room)
    for j in range(filled):
        right = (near[1, j] <= top) & (near[0, j] > x)
        before += right & (near[0, j] < end)
        upto += right & (near[0, j] <= end)
    for j in range(count):
        if near[1, j] <= top and near[0, j] < x:
            held += 1
            inner = near[0, j] if held == room - upto and end < np.inf else inner
            if held == room - before:
                outer = near[0, j]
                break
    floor, ceiling = -np.inf, np.inf
    for j in range(filled):
        there, height = near[0, j], near[1, j]
        matters = (outer <= there) & (there <= end)
        floor = max(floor, height if (height <= top) & matters else -np.inf)
        ceiling = min(ceiling, height if (height > top) & matters else np.inf)
    cells[OUTER_LO, at], cells[INNER_LO, at], cells[INNER_HI, at] = above(outer), inner, x
    cells[FLOOR, at], cells[END, at] = floor, below(ceiling)


@njit(**EXACT)
def _within(cells: Floats, at: int, lo: float, hi: float, top: float) -> bool:
    """Whether a member is in a cell."""
    across = (cells[OUTER_LO, at] <= lo) & (lo <= cells[INNER_LO, at]) & (cells[INNER_HI, at] <= hi)
    return across & (cells[FLOOR, at] <= top) & (top <= cells[END, at])


@njit(**EXACT)
def _find(cells: Floats, total: int, lo: float, hi: float, top: float) -> np.int64:
    """The cell of so many that a member is in, or -1: few, wide instructions."""
    found = np.int64(-1)
    for at in range(np.uint64(wide(total))):
        found = max(found, np.int64(at) if _within(cells, at, lo, hi, top) else np.int64(-1))
    return found


@njit(**EXACT)
def _boxes(cells: Floats, total: int) -> Floats:
    """The boxes around the members of cells."""
    box = np.empty((total, 6))
    for at in range(total):
        for side in range(6):
            box[at, side] = cells[side, at]
    return box


@njit(**EXACT)
def part_members(
    others: Floats, count: int, span: Floats, inner: tuple[float, float, float], room: int, cells: Floats
) -> tuple[int, Floats, Floats]:
    """Part members into cells, when so many others are better; return how many, their boxes, and the room.

    They are those who gain an object, and `inner` is the box around it and the fallen one; or, if there is
    `room` for others, those of the region of an object at `inner`.
    """
    if span.shape[0] == 1:
        return 1, np.concatenate((span, span), axis=1), cells
    near, total, at = np.empty((2, wide(count + 1))), 0, np.int64(-1)
    size = _near(others, count, span, near)
    fill_up(near, 0, size)
    cells[OUTER_LO, :WIDE] = np.nan
    for i in range(span.shape[0]):
        lo, hi, top = span[i, LO], span[i, HI], span[i, HEIGHT]
        if at < 0 or not _within(cells, at, lo, hi, top):
            at = _find(cells, total, lo, hi, top)
        if at < 0:
            if total == cells.shape[1]:
                cells = np.concatenate((cells, cells), axis=1)
            if total % WIDE == 0:
                cells[OUTER_LO, total : total + WIDE] = np.nan
            at, total = np.int64(total), total + 1
            if room > 0:
                _open_strip(near, size, span[i], inner[0], room, cells, at)
            else:
                _open(near, size, span[i], inner, cells, at)
            for axis in range(3):
                cells[LEAST + axis, at], cells[MOST + axis, at] = span[i, axis], span[i, axis]
            continue
        for axis in range(3):
            cells[LEAST + axis, at] = min(cells[LEAST + axis, at], span[i, axis])
            cells[MOST + axis, at] = max(cells[MOST + axis, at], span[i, axis])
    return total, _boxes(cells, total), cells
