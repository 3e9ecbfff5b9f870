"""Influence regions: the subscriptions in whose list an object at x with a given value belongs.

Let l_1 >= l_2 >= ... be the better objects left of x, r_1 <= r_2 <= ... those right of it, and `same` how
many better objects stand at x itself. A range that holds x holds those as well, so among the others it may
hold at most room - 1 better ones, room = k - same, to have the object in its list. A range (lo, hi) holds
the first a on the left and the first b on the right exactly if l_{a+1} < lo <= l_a and r_b <= hi < r_{b+1}
(l_0 = r_0 = x; missing ones are infinite). So the region is the staircase a + b < room [Range §II-C].

Equal x make steps of no width or no height: these are left out, and strips of one height are one tile. That
is why the strips are as few as any exact tiling can have: each owns a corner that no other box of the region
can reach together with another's corner.

`left` and `right` hold as many neighbours as the largest k in play; the lists of a smaller k are prefixes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.object_search import firstk
from rankcast.range_topk.kernels.object_tree import ObjectTree, place_of
from rankcast.range_topk.kernels.tiles import Tiles, above, below
from rankcast.structures.jit import EXACT

LEFT, RIGHT, SAME = range(3)


class Stairs(NamedTuple):
    """The nearest better objects on both sides, near to far, and `size`: how many left, right, at x."""

    left: NDArray[np.float64]
    right: NDArray[np.float64]
    size: NDArray[np.int64]


def empty_stairs(k: int) -> Stairs:
    """Room for the staircases of every k up to the given one."""
    return Stairs(left=np.empty(k), right=np.empty(k), size=np.zeros(3, np.int64))


@njit(**EXACT)
def climb(tree: ObjectTree, row: int, y: float, stairs: Stairs) -> None:
    """Find the neighbours of a present object that are better than it would be with value y. Two firstk."""
    leaf, x, label, one = np.int64(tree.leaf_of[row]), tree.x[row], tree.label[row], np.int64(1)
    slot = place_of(tree.child, leaf, row)
    size, same = firstk(tree, leaf, slot - 1, -one, x, y, label, stairs.left)
    stairs.size[LEFT], stairs.size[SAME] = size, same
    size, same = firstk(tree, leaf, slot + 1, one, x, y, label, stairs.right)
    stairs.size[RIGHT] = size
    stairs.size[SAME] += same


@njit(**EXACT)
def expose(stairs: Stairs, x: float, other: float) -> None:
    """Note one more better object, at `other`, among the neighbours of x."""
    if other == x:
        stairs.size[SAME] += 1
        return
    side, nearest, sign = (LEFT, stairs.left, -1.0) if other < x else (RIGHT, stairs.right, 1.0)
    at = stairs.size[side]
    stairs.size[side] = min(at + 1, nearest.shape[0])
    while at > 0 and sign * nearest[at - 1] > sign * other:
        if at < nearest.shape[0]:
            nearest[at] = nearest[at - 1]
        at -= 1
    if at < nearest.shape[0]:
        nearest[at] = other


@njit(**EXACT)
def room_of(stairs: Stairs, k: int) -> int:
    """How many objects of the list are not taken by better ones at x itself."""
    return k - stairs.size[SAME]


@njit(**EXACT)
def left_at(left: NDArray[np.float64], count: int, x: float, a: int) -> float:
    """l_a: x for a = 0, -inf beyond the last."""
    if a == 0:
        return x
    return left[a - 1] if a <= count else -np.inf


@njit(**EXACT)
def right_at(right: NDArray[np.float64], count: int, x: float, b: int) -> float:
    """r_b: x for b = 0, +inf beyond the last."""
    if b == 0:
        return x
    return right[b - 1] if b <= count else np.inf


@njit(**EXACT)
def paint_region(stairs: Stairs, x: float, k: int, tiles: Tiles) -> None:
    """Tile the influence region by strips from east to west. At most k tiles [Range App. E, Alg. 4]."""
    left, right, box, step = stairs.left, stairs.right, tiles.box, tiles.step
    lefts, rights, room = stairs.size[LEFT], stairs.size[RIGHT], room_of(stairs, k)
    first, size, last = tiles.size[0], tiles.size[0], np.nan
    for a in range(min(lefts + 1, room)):
        outer, inner = left_at(left, lefts, x, a + 1), left_at(left, lefts, x, a)
        top = right_at(right, rights, x, room - a)
        if outer == inner:
            continue
        if top != last or size == first:
            box[size, 1], box[size, 2], box[size, 3] = inner, x, below(top)
            size += 1
        box[size - 1, 0], step[size - 1], last = above(outer), a, top
    tiles.size[0] = size


@njit(**EXACT)
def paint_gain(stairs: Stairs, x: float, other: float, k: int, tiles: Tiles) -> None:
    """Tile what an exposed object at `other` gains when the object at x falls behind it, before `expose`.

    The ranges that hold both and exactly room - 1 better ones: a diagonal chain from east to west, at most
    k tiles. Differs from [Range App. E, Alg. 5], whose border cases reach too far.
    """
    left, right, box, step = stairs.left, stairs.right, tiles.box, tiles.step
    lefts, rights, room = stairs.size[LEFT], stairs.size[RIGHT], room_of(stairs, k)
    size = tiles.size[0]
    for a in range(max(0, room - 1 - rights), min(lefts + 1, room)):
        outer, inner = left_at(left, lefts, x, a + 1), min(left_at(left, lefts, x, a), other)
        bottom = max(right_at(right, rights, x, room - 1 - a), other)
        top = right_at(right, rights, x, room - a)
        if outer < inner and bottom < top:
            box[size, 0], box[size, 1], box[size, 2], box[size, 3] = above(outer), inner, bottom, below(top)
            step[size] = a
            size += 1
    tiles.size[0] = size


@njit(**EXACT)
def strip_of(stairs: Stairs, x: float, k: int, a: int, strip: NDArray[np.float64]) -> bool:
    """Write the strip of the region whose ranges hold just the first a on the left; False if it is empty."""
    lefts, room = stairs.size[LEFT], room_of(stairs, k)
    outer = left_at(stairs.left, lefts, x, a + 1)
    strip[0], strip[1], strip[2] = above(outer), left_at(stairs.left, lefts, x, a), x
    strip[3] = below(right_at(stairs.right, stairs.size[RIGHT], x, room - a))
    return outer < strip[1]


@njit(**EXACT)
def reach(stairs: Stairs, x: float, k: int) -> tuple[float, float]:
    """The influence interval, open: beyond its ends room better objects lie between x and any other."""
    room = room_of(stairs, k)
    left = left_at(stairs.left, stairs.size[LEFT], x, room)
    return left, right_at(stairs.right, stairs.size[RIGHT], x, room)
