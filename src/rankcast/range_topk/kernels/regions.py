"""Tiles: boxes of subscription space, each with the item that everybody inside must hear of.

Kernels keep a tile as a closed box (lo from, lo to, hi from, hi to). The contract's half-open form,
lo_outer < lo <= lo_inner and hi_inner <= hi < hi_outer, is the same set of floats: an outer bound is the
next float outside. No bound is an infinite end here and a null outside; so an unbounded subscription
(lo = -inf) is in a tile without an outer bound and in no other.

Boxes are appended to a buffer whose size the caller has checked with `space`, then stamped with their
message. A deleted item has value +inf.

Influence regions: the subscriptions in whose list an object at x with a given value belongs.

Let l_1 >= l_2 >= ... be the better objects left of x, r_1 <= r_2 <= ... those right of it, and `same` how
many better objects stand at x itself. A range that holds x holds those as well, so among the others it may
hold at most room - 1 better ones, room = k - same, to have the object in its list. A range (lo, hi) holds
the first a on the left and the first b on the right exactly if l_{a+1} < lo <= l_a and r_b <= hi < r_{b+1}
(l_0 = r_0 = x; missing ones are infinite). So the region is the staircase a + b < room [Range §II-C].

Equal x make steps of no width or no height: these are left out, and strips of one height are one tile. That
is why the strips are as few as any exact tiling can have: each owns a corner that no other box of the region
can reach together with another's corner.

`left` and `right` hold as many neighbours as the largest k in play; the lists of a smaller k are prefixes.

Influence regions as outlines, so that regions of one apex can be united, intersected and subtracted.

All regions of an object at x lie in the quadrant lo <= x <= hi and are staircases with their apex at (x, x):
for every lo they hold the hi from x up to a top that never rises as lo falls. An outline writes such a region
as steps (edge, top) from east to west: down to the edge, excluded, lo has that top, excluded. The last step
has the edge -inf, so no length is kept; a top of -inf is nothing, one of +inf is no bound. The union of two
regions has the higher top everywhere, the intersection the lower one, and what one has beyond another lies
between their tops: at most one tile a step, all of them disjoint, in the order of lo.

An outline for k has at most k + 1 steps, one combined from n of them at most n (k + 1). Cost: linear.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.object_tree import ObjectTree, firstk, locate, place_of
from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]


class Tiles(NamedTuple):
    """A buffer of tiles in sending order; `size[0]` of them are filled.

    `step` is the number of better objects to the left that a range in the tile holds (the most, if several).
    """

    box: NDArray[np.float64]
    item: NDArray[np.int32]
    x: NDArray[np.float64]
    value: NDArray[np.float64]
    event: NDArray[np.int32]
    shelf: NDArray[np.int32]
    step: NDArray[np.int32]
    size: NDArray[np.int64]


class Message(NamedTuple):
    """What a tile tells: an item at x with its new value, from which event, for which class of k."""

    item: int
    x: float
    value: float
    event: int
    shelf: int


def empty_tiles(capacity: int) -> Tiles:
    """A buffer without tiles."""
    return Tiles(
        box=np.empty((capacity, 4)),
        item=np.empty(capacity, np.int32),
        x=np.empty(capacity),
        value=np.empty(capacity),
        event=np.empty(capacity, np.int32),
        shelf=np.empty(capacity, np.int32),
        step=np.empty(capacity, np.int32),
        size=np.zeros(1, np.int64),
    )


def widened(tiles: Tiles, capacity: int) -> Tiles:
    """The same tiles in a larger buffer."""
    larger, size = empty_tiles(capacity), int(tiles.size[0])
    for name in Tiles._fields[:-1]:
        getattr(larger, name)[:size] = getattr(tiles, name)[:size]
    larger.size[0] = size
    return larger


def filled(tiles: Tiles) -> Tiles:
    """The tiles alone, without the unfilled rest of the buffer."""
    size = int(tiles.size[0])
    columns = {name: getattr(tiles, name)[:size] for name in Tiles._fields[:-1]}
    return Tiles(size=tiles.size.copy(), **columns)


def outer(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The next floats outside of lower and upper ends; NaN where these are infinite: no bound."""
    with np.errstate(over="ignore"):  # behind the last float comes infinity
        below, above = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    return np.where(np.isneginf(low), np.nan, below), np.where(np.isposinf(high), np.nan, above)


def bounds(box: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Columns lo_outer, lo_inner, hi_inner, hi_outer of closed boxes; NaN in an outer one means no bound."""
    lo_outer, hi_outer = outer(box[:, 0], box[:, 3])
    return lo_outer, box[:, 1], box[:, 2], hi_outer


@njit(**EXACT)
def space(tiles: Tiles) -> int:
    """How many more tiles the buffer takes."""
    return tiles.item.shape[0] - tiles.size[0]


@njit(**EXACT)
def above(bound: float) -> float:
    """The first float above an excluded lower bound; -inf means no bound."""
    return bound if bound == -np.inf else np.nextafter(bound, np.inf)


@njit(**EXACT)
def below(bound: float) -> float:
    """The first float below an excluded upper bound; +inf means no bound."""
    return bound if bound == np.inf else np.nextafter(bound, -np.inf)


@njit(**EXACT)
def stamp(tiles: Tiles, first: int, message: Message) -> None:
    """Write what the tiles from `first` on tell."""
    end = tiles.size[0]
    tiles.item[first:end], tiles.x[first:end] = message.item, message.x
    tiles.value[first:end] = message.value
    tiles.event[first:end], tiles.shelf[first:end] = message.event, message.shelf


@njit(**EXACT)
def move(tiles: Tiles, source: int, target: int) -> None:
    """Copy one tile over another."""
    tiles.box[target] = tiles.box[source]
    tiles.item[target], tiles.x[target] = tiles.item[source], tiles.x[source]
    tiles.value[target] = tiles.value[source]
    tiles.event[target], tiles.shelf[target] = tiles.event[source], tiles.shelf[source]
    tiles.step[target] = tiles.step[source]


@njit(**EXACT)
def coarsen(tiles: Tiles, first: int, lists: int) -> None:
    """Cover the tiles from `first` on, one item's in order, by at most `lists` bounding boxes.

    Steps are cut into equal blocks, so a box spans fewer than 1 + (last - first step + 1) / lists of them and
    ranks nobody more than that many places beyond k. Equal x skip steps; hence steps, not tiles, are counted.
    [Range §IV-B]
    """
    if tiles.size[0] == first:
        return
    start, kept, block = tiles.step[first], first, 0
    span = tiles.step[tiles.size[0] - 1] - start + 1
    for at in range(first + 1, tiles.size[0]):
        here = (tiles.step[at] - start) * lists // span
        if here == block:
            box, other = tiles.box[kept], tiles.box[at]
            box[0], box[1] = min(box[0], other[0]), max(box[1], other[1])
            box[2], box[3] = min(box[2], other[2]), max(box[3], other[3])
        else:
            kept += 1
            block = here
            move(tiles, at, kept)
    tiles.size[0] = kept + 1


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


Outline = NDArray[np.float64]
EDGE, TOP = range(2)


def empty_outlines(count: int, k: int) -> NDArray[np.float64]:
    """Outlines of so many regions for one k, all of them empty."""
    return np.full((count, k + 1, 2), -np.inf)


@njit(**EXACT)
def climb_at(tree: ObjectTree, x: float, y: float, label: int, stairs: Stairs) -> None:
    """Find the neighbours that are better than (y, label) would be at x, whoever is there. Two firstk."""
    leaf, slot = locate(tree, x, False)
    one = np.int64(1)
    stairs.size[LEFT], _ = firstk(tree, leaf, slot - 1, -one, x, y, label, stairs.left)
    stairs.size[RIGHT], stairs.size[SAME] = firstk(tree, leaf, slot, one, x, y, label, stairs.right)


@njit(**EXACT)
def outline(stairs: Stairs, x: float, k: int, steps: Outline) -> None:
    """Write the outline of the influence region."""
    lefts, rights, room, size = stairs.size[LEFT], stairs.size[RIGHT], room_of(stairs, k), 0
    for a in range(min(lefts + 1, room)):
        outer = left_at(stairs.left, lefts, x, a + 1)
        if outer < left_at(stairs.left, lefts, x, a):
            steps[size, EDGE], steps[size, TOP] = outer, right_at(stairs.right, rights, x, room - a)
            size += 1
    if size == 0 or steps[size - 1, EDGE] > -np.inf:
        steps[size, EDGE], steps[size, TOP] = -np.inf, -np.inf


@njit(**EXACT)
def draw(
    tree: ObjectTree,
    rows: NDArray[np.int32],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    stairs: Stairs,
    outlines: NDArray[np.float64],
) -> None:
    """Write the outlines of the regions that objects would have at x with value y; y = +inf has none."""
    k = outlines.shape[1] - 1
    for i in range(rows.shape[0]):
        if y[i] < np.inf:
            climb_at(tree, x[i], y[i], tree.label[rows[i]], stairs)
            outline(stairs, x[i], k, outlines[i])
        else:
            outlines[i, 0, EDGE], outlines[i, 0, TOP] = -np.inf, -np.inf


@njit(**EXACT)
def combine(one: Outline, two: Outline, union: bool, steps: Outline) -> None:
    """Write the outline of the union, or of the intersection, of two regions with the same apex."""
    i, j, size, edge = 0, 0, 0, np.inf
    while edge > -np.inf:
        edge = max(one[i, EDGE], two[j, EDGE])
        higher, lower = max(one[i, TOP], two[j, TOP]), min(one[i, TOP], two[j, TOP])
        steps[size, EDGE], steps[size, TOP] = edge, higher if union else lower
        size += 1
        i += one[i, EDGE] == edge
        j += two[j, EDGE] == edge


@njit(**EXACT)
def paint_between(region: Outline, without: Outline, x: float, tiles: Tiles) -> None:
    """Tile what a region has beyond another, from east to west; neighbours of one height are one tile."""
    box, step, first, size = tiles.box, tiles.step, tiles.size[0], tiles.size[0]
    i, j, inner, edge = 0, 0, x, np.inf
    while edge > -np.inf:
        edge = max(region[i, EDGE], without[j, EDGE])
        top, bottom = region[i, TOP], max(without[j, TOP], x)
        if bottom < top:
            last = size - 1
            same = size > first and box[last, 2] == bottom and box[last, 3] == below(top)
            if not (same and box[last, 0] == above(inner)):
                box[size, 1], box[size, 2], box[size, 3], step[size] = inner, bottom, below(top), i
                size += 1
            box[size - 1, 0] = above(edge)
        inner = edge
        i += region[i, EDGE] == edge
        j += without[j, EDGE] == edge
    tiles.size[0] = size
