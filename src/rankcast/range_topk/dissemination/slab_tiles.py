"""Tiles of a region made from its members, in 1.5 dimensions: by cells for few, by slabs for many.

Those who gain an object hold, besides it and the fallen one, k - 1 better ones. Who holds the same ones is in
one cell: its inner corner is the box around them, and whoever holds that, and no more than k - 1, is in it.
The cells of a region are the strips of its slabs, one above the other where they are the same: whoever has so
many better objects on the left, and fewer than there is room for then on the right, is in it. A cell is cut
where an object outside comes in with the second attribute; so between two cuts its outer ends are the same
for all heights, and everybody inside a tile gains the object, or must hear of it. Only objects that some
members reach can part them. A region with many members is tiled by the strips of its slabs, equal ones above
each other as one tile. [Range App. D, Alg. 8, 9, 10] paints the same tiles from the objects, also where
nobody is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.slab_members import (
    FOUND,
    HEIGHT,
    HI,
    LO,
    WHOLE,
    WIDE,
    Members,
    fill_up,
    wide,
)
from rankcast.range_topk.dissemination.slabs import Slabs, stairs_of
from rankcast.range_topk.kernels.corners import CAPACITY, CornerTree, Floats, Rows
from rankcast.range_topk.kernels.paint import LEFT, RIGHT, above, below, left_at, right_at, room_of
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
    # unsigned indexes: Numba need not test whether they count from the end
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


class Strips(NamedTuple):
    """The slabs of a region: where each begins, and by falling lo the strips of it.

    A strip is the inner and outer end of lo and the end of hi; `outer` has the outer ends once more, `size`
    how many a slab has. Its tile has a `number`; `stretch` tells from where to where a tile goes upwards.
    Rows are as long as wide instructions like them: beyond the last slab and strip there are infinite ones.
    """

    height: Floats
    outer: Floats
    strip: NDArray[np.float64]
    size: Rows
    number: Rows
    stretch: Floats


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
def _draw(slabs: Slabs, x: float, k: int) -> tuple[Strips, int]:
    """The strips of all slabs; how many tiles they are."""
    count, total, heights = slabs.size[0], 0, np.full(WIDE * (slabs.size[0] // WIDE + 1), np.inf)
    strip, size = np.empty((count, k + 1, 3)), np.zeros(count, np.int32)
    number, heights[:count] = np.empty((count, k + 1), np.int32), slabs.height[:count]
    outers = np.full((count, WIDE * (k // WIDE + 1)), -np.inf)
    for z in range(count):
        size[z] = _strips(slabs, z, x, k, strip[z])
        outers[z, : size[z]] = strip[z, : size[z], 1]
        total = _number(strip[z], size[z], strip[z - 1], size[z - 1] if z > 0 else 0, number, z, total)
    stretch = np.empty((total, 2))
    _stretch(number, size, heights, stretch)
    return Strips(heights, outers, strip, size, number, stretch), total


@njit(**EXACT)
def _slab(strips: Strips, height: float) -> int:
    """The slab that a height is in."""
    return min(_not_above(strips.height, height), strips.size.shape[0]) - 1


@njit(**EXACT)
def _place(strips: Strips, z: int, lo: float) -> int:
    """The place of the strip of a slab that a lower end is in."""
    return min(strips.outer.shape[1] - _below(strips.outer, z, lo), strips.size[z] - 1)


@njit(**EXACT)
def _fit(strips: Strips, span: Floats, box: Floats) -> None:
    """Let the boxes of tiles hold members.

    The box of the tile at hand is written when the next member is in another one.
    """
    number, strip, stretch, t = strips.number, strips.strip, strips.stretch, box.shape[0] - 1
    bottom, end, inner, outer = np.inf, -np.inf, -np.inf, np.inf
    a, b, c, d, e, f = np.inf, np.inf, np.inf, -np.inf, -np.inf, -np.inf
    for i in range(span.shape[0]):
        lo, hi, height = span[i, LO], span[i, HI], span[i, HEIGHT]
        if not ((bottom <= height) & (height < end) & (outer < lo) & (lo <= inner)):
            box[t, 0], box[t, 1], box[t, 2], box[t, 3], box[t, 4], box[t, 5] = a, b, c, d, e, f
            z = _slab(strips, height)
            j = _place(strips, z, lo)
            t, inner, outer = number[z, j], strip[z, j, 0], strip[z, j, 1]
            bottom, end = stretch[t, 0], stretch[t, 1]
            a, b, c, d, e, f = box[t, 0], box[t, 1], box[t, 2], box[t, 3], box[t, 4], box[t, 5]
        a, b, c = min(a, lo), min(b, hi), min(c, height)
        d, e, f = max(d, lo), max(e, hi), max(f, height)
    box[t, 0], box[t, 1], box[t, 2], box[t, 3], box[t, 4], box[t, 5] = a, b, c, d, e, f


@njit(**EXACT)
def _holding(strips: Strips, tree: CornerTree, bound: int, node: int) -> int:
    """The tile that all members below a node are in, or -1."""
    low, high = tree.low, tree.high
    z = _slab(strips, -high[node, bound])
    j = _place(strips, z, high[node, 0])
    t, top, outer = strips.number[z, j], -low[node, bound], strips.strip[z, j, 1]
    alone = outer < low[node, 0] or outer == -np.inf
    return t if alone and (top < strips.stretch[t, 1] or strips.stretch[t, 1] == np.inf) else -1


@njit(**EXACT)
def _widen(
    box: Floats, t: int, lo: tuple[float, float], height: tuple[float, float], low: Floats, high: Floats,
    node: int,
) -> None:  # fmt: skip
    """Let the box of a tile hold what a node has in it, whose lower ends and heights are between two each."""
    box[t, LO], box[t, 3 + LO] = min(box[t, LO], lo[0]), max(box[t, 3 + LO], lo[1])
    box[t, HEIGHT], box[t, 3 + HEIGHT] = min(box[t, HEIGHT], height[0]), max(box[t, 3 + HEIGHT], height[1])
    box[t, HI], box[t, 3 + HI] = min(box[t, HI], -high[node, 1]), max(box[t, 3 + HI], -low[node, 1])


@njit(**EXACT)
def _cover(strips: Strips, tree: CornerTree, bound: int, leaf: int, box: Floats) -> bool:
    """Let the boxes of tiles hold all that a whole leaf may have in them; False if one has nobody yet."""
    low, high, number, strip = tree.low, tree.high, strips.number, strips.strip
    least, most, bottom, top = low[leaf, 0], high[leaf, 0], -high[leaf, bound], -low[leaf, bound]
    first, last = _slab(strips, bottom), _slab(strips, top)
    for writing in range(2):
        for z in range(first, last + 1):
            start = bottom if z == first else strips.height[z]
            end = top if z == last else np.nextafter(strips.height[z + 1], -np.inf)
            for j in range(_place(strips, z, most), _place(strips, z, least) + 1):
                t = number[z, j]
                if writing == 0 and box[t, LO] > box[t, 3 + LO]:
                    return False
                if writing == 1:
                    inner, outer = strip[z, j, 0], strip[z, j, 1]
                    lo = max(least, above(outer))
                    _widen(box, t, (lo, min(most, inner)), (start, end), low, high, leaf)
    return True


@njit(**EXACT)
def _fit_whole(strips: Strips, tree: CornerTree, bound: int, members: Members, box: Floats) -> None:
    """Let the boxes of tiles hold whole nodes.

    A node that is all in one tile is not looked into. A leaf that several share need not be: what it may have
    in each is all in the region. Only where nobody is known to be in one of them are its members read.
    """
    queue, size, leaves, at = members.whole, members.size[WHOLE], 0, 0
    low, high, point, capacity = tree.low, tree.high, tree.point, tree.meta[CAPACITY]
    while at < size:
        node, at = queue[at], at + 1
        t = _holding(strips, tree, bound, node)
        if t >= 0:
            lo, height = (low[node, 0], high[node, 0]), (-high[node, bound], -low[node, bound])
            _widen(box, t, lo, height, low, high, node)
        elif tree.bucket[node] >= 0:
            queue[leaves], leaves = node, leaves + 1
        else:
            queue[size], queue[size + 1], size = tree.child[node, 0], tree.child[node, 1], size + 2
    span = np.empty((capacity, 3))
    for i in range(leaves):
        leaf = queue[i]
        if not _cover(strips, tree, bound, leaf, box):
            first, count = tree.bucket[leaf] * capacity, tree.size[leaf]
            for j in range(count):
                span[j, LO], span[j, HI] = point[first + j, 0], -point[first + j, 1]
                span[j, HEIGHT] = -point[first + j, bound]
            _fit(strips, span[:count], box)


@njit(**EXACT)
def part_region(
    tree: CornerTree, bound: int, slabs: Slabs, x: float, k: int, members: Members
) -> tuple[int, Floats]:  # fmt: skip
    """Part the members of a region among its tiles; return how many tiles there are, and the boxes around."""
    strips, total = _draw(slabs, x, k)
    box = np.empty((total + 1, 6))
    box[:, :3], box[:, 3:] = np.inf, -np.inf
    _fit(strips, members.span[: members.size[FOUND]], box)
    _fit_whole(strips, tree, bound, members, box)
    return total, box
