"""Tiles of a region that has many members, in 1.5 dimensions: slab by slab, strip by strip.

A tile is a strip of one slab or of several, one above the other. [Range App. D, Alg. 8, 10]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.slab_cut import WIDE
from rankcast.range_topk.dissemination.slab_members import FOUND, HEIGHT, HI, LO, WHOLE, Members
from rankcast.range_topk.dissemination.slabs import Slabs, stairs_of
from rankcast.range_topk.kernels.corner_tree import CAPACITY, CornerTree, Floats, Rows
from rankcast.range_topk.kernels.staircase import LEFT, RIGHT, left_at, right_at, room_of
from rankcast.range_topk.kernels.tiles import above
from rankcast.structures.jit import EXACT


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
