"""Painting in 1.5 dimensions: two attributes, the second bounded on one side.

A plane is swept over the second attribute, upwards from the object. Between two heights at which a better
object comes in, a slab, the better objects nearest to the left and right are the same, so whom the object
matters to is the staircase of one attribute (`rankcast.kernels.staircase`) times that stretch of heights. All
slabs together are the influence polygon: the intervals only shrink upwards. [Range App. D, Alg. 6, 7]

An improved value: the new region is tiled slab by slab. A worse one: the old region is, then the value is
swept upwards; the next object that is passed inside the polygon is the best of the next ones of all slabs,
each kept until it falls out of its slab's interval. It gains what the staircases of its slabs lose, from its
own height on; the slab it lies in is parted there, and neighbours with equal lists become one
[Range App. D, Alg. 8, 9, 11]. Tiles of neighbouring slabs with the same ranges become one at once (Alg. 10).

Ties: objects of one height come in by row, and change the lists of one slab; those at the same x take a place
of everybody's list. Cost: two firstk, a question a slab, and one each time a slab needs another next object.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.corner_cover import Post, longer
from rankcast.kernels.corner_search import count_better, find_next
from rankcast.kernels.corner_tree import CornerTree, Floats, Rows
from rankcast.kernels.options import EXACT
from rankcast.kernels.slab_search import firstk, next_above
from rankcast.kernels.slab_thin import thin
from rankcast.kernels.staircase import (
    LEFT,
    RIGHT,
    SAME,
    Stairs,
    expose,
    paint_gain,
    paint_region,
    reach,
    room_of,
)
from rankcast.kernels.tiles import Tiles, below, coarsen

FIRSTK, MIN, SNAP, AFFECTED = range(4)
UNKNOWN, NONE = -2, -1
ALL = np.iinfo(np.int32).max


class Slabs(NamedTuple):
    """Slabs upwards: where each begins, its staircase, its next object; `size[0]` of them.

    Nobody whom the object matters to, and who reaches a slab, reaches outside its `window` from lo to hi.
    """

    height: Floats
    left: Floats
    right: Floats
    stairs: NDArray[np.int64]
    next: Rows
    window: Floats
    size: NDArray[np.int64]


class Easel(NamedTuple):
    """What painting works with: objects, their labels, subscriptions, a tile buffer for one slab, counts.

    `open` has how many tiles the slab below had, and which; `aware`: whether subscriptions are looked at;
    `lists` > 0: how many boxes cover the tiles of a slab.
    """

    objects: CornerTree
    label: NDArray[np.int64]
    corners: CornerTree
    tiles: Tiles
    open: Rows
    k: int
    sign: float
    aware: bool
    lists: int
    tally: NDArray[np.int64]


@njit(**EXACT)
def empty_slabs(capacity: int, k: int) -> Slabs:
    """Room for slabs."""
    return Slabs(
        np.empty(capacity),
        np.empty((capacity, k)),
        np.empty((capacity, k)),
        np.zeros((capacity, 3), np.int64),
        np.empty(capacity, np.int32),
        np.empty((capacity, 2)),
        np.zeros(1, np.int64),
    )


@njit(**EXACT)
def stairs_of(slabs: Slabs, at: int) -> Stairs:
    """The staircase of a slab."""
    return Stairs(slabs.left[at], slabs.right[at], slabs.stairs[at])


@njit(**EXACT)
def _shift(slabs: Slabs, first: int, end: int, step: int) -> None:
    """Copy slabs, one by one from `first` to before `end`, each to the place `step` further."""
    height, left, right, stairs = slabs.height, slabs.left, slabs.right, slabs.stairs
    later, window = slabs.next, slabs.window
    for source in range(first, end, -step):
        target = source + step
        height[target], later[target] = height[source], later[source]
        window[target, 0], window[target, 1] = window[source, 0], window[source, 1]
        for side in range(3):
            stairs[target, side] = stairs[source, side]
        for i in range(left.shape[1]):
            left[target, i], right[target, i] = left[source, i], right[source, i]


@njit(**EXACT)
def _part(slabs: Slabs, at: int, height: float) -> Slabs:
    """Part a slab at a height: its upper part is a copy behind it."""
    size = slabs.size[0]
    if size == slabs.height.shape[0]:
        wider = empty_slabs(2 * size, slabs.left.shape[1])
        wider.height[:size], wider.left[:size], wider.right[:size] = slabs.height, slabs.left, slabs.right
        wider.stairs[:size], wider.next[:size], wider.window[:size] = slabs.stairs, slabs.next, slabs.window
        wider.size[0] = size
        slabs = wider
    _shift(slabs, size - 1, at - 1, 1)
    slabs.height[at + 1], slabs.size[0] = height, size + 1
    return slabs


@njit(**EXACT)
def _drop(slabs: Slabs, at: int) -> None:
    """Take a slab out: the one before it goes on."""
    _shift(slabs, at + 1, slabs.size[0], -1)
    slabs.size[0] -= 1


@njit(**EXACT)
def _alike(slabs: Slabs, one: int, two: int) -> bool:
    """Whether two slabs have the same staircase."""
    for side in range(3):
        if slabs.stairs[one, side] != slabs.stairs[two, side]:
            return False
    for i in range(slabs.stairs[one, LEFT]):
        if slabs.left[one, i] != slabs.left[two, i]:
            return False
    for i in range(slabs.stairs[one, RIGHT]):
        if slabs.right[one, i] != slabs.right[two, i]:
            return False
    return True


@njit(**EXACT)
def _above(slabs: Slabs, at: int) -> float:
    """Where a slab ends: the next one begins there."""
    return slabs.height[at + 1] if at + 1 < slabs.size[0] else np.inf


@njit(**EXACT)
def outline(easel: Easel, row: int, value: float) -> Slabs:
    """Find the slabs of an object with a value among the others [Range App. D, Alg. 7]."""
    objects, label, k, sign = easel.objects, easel.label, easel.k, easel.sign
    slot, mine = objects.slot_of[row], label[row]
    x, height = objects.point[slot, 0], sign * objects.point[slot, 1]
    slabs = empty_slabs(16, k)
    slabs.height[0], slabs.next[0], slabs.size[0] = height, UNKNOWN, 1
    slabs.window[0, 0], slabs.window[0, 1] = -np.inf, np.inf
    slabs.stairs[0, LEFT] = firstk(objects, label, x, height, value, mine, sign, -1.0, slabs.left[0])
    slabs.stairs[0, RIGHT] = firstk(objects, label, x, height, value, mine, sign, 1.0, slabs.right[0])
    corner = np.array([x, -x, -np.inf, -height]) if sign > 0 else np.array([x, -x, -height, -np.inf])
    slabs.stairs[0, SAME] = count_better(objects, label, corner, value, row, k)
    easel.tally[FIRSTK] += 2
    last = ALL
    while room_of(stairs_of(slabs, slabs.size[0] - 1), k) > 0:
        at = slabs.size[0] - 1
        after, before = reach(stairs_of(slabs, at), x, k)
        easel.tally[MIN] += 1
        other = next_above(objects, label, after, before, height, last, value, mine, sign)
        if other < 0:
            break
        place = objects.slot_of[other]
        last = other
        if sign * objects.point[place, 1] > height:
            height = sign * objects.point[place, 1]
            slabs = _part(slabs, at, height)
            at += 1
        expose(stairs_of(slabs, at), x, objects.point[place, 0])
    return slabs


@njit(**EXACT)
def _goes_on(low: Floats, high: Floats, at: int, box: Floats, i: int) -> bool:
    """Whether a tile has the ranges of a box in the first attribute."""
    same = low[at, 0] == box[i, 0] and high[at, 0] == box[i, 1]
    return same and low[at, 1] == -box[i, 3] and high[at, 1] == -box[i, 2]


@njit(**EXACT)
def _emit(easel: Easel, post: Post, bottom: float, end: float) -> Post:
    """Append the tiles of one slab, or let those of the slab below with the same ranges go on."""
    tiles, open_, bound, box = easel.tiles, easel.open, 3 if easel.sign > 0 else 2, easel.tiles.box
    if easel.lists > 0:
        coarsen(tiles, 0, easel.lists)
    while post.size[0] + tiles.size[0] + 2 > post.item.shape[0]:
        post = longer(post)
    low, high, top, floor = post.low, post.high, -below(end), -below(bottom)
    for i in range(tiles.size[0]):
        at = -1
        for j in range(1, open_[0, 0] + 1):
            if low[open_[0, j], bound] == floor and _goes_on(low, high, open_[0, j], box, i):
                at = open_[0, j]
                low[at, bound] = top
                break
        if at < 0:
            at = post.size[0]
            low[at, 5 - bound], high[at, 5 - bound] = -np.inf, -np.inf
            low[at, bound], high[at, bound] = top, -bottom
            low[at, 0], high[at, 0], low[at, 1], high[at, 1] = box[i, 0], box[i, 1], -box[i, 3], -box[i, 2]
            post.size[0] += 1
        open_[1, i + 1] = at
    open_[0, 0] = tiles.size[0]
    for i in range(1, tiles.size[0] + 1):
        open_[0, i] = open_[1, i]
    return post


@njit(**EXACT)
def _finish(easel: Easel, post: Post, first: int, row: int, value: float) -> None:
    """End a message: let its tiles from `first` on meet the subscriptions, and write what they tell."""
    easel.open[0, 0] = 0
    if easel.aware:
        easel.tally[SNAP] += post.size[0] - first
        thin(easel.corners, post, first)
    slot, x, point = easel.objects.slot_of[row], post.x, easel.objects.point
    for at in range(first, post.size[0]):
        post.item[at], post.value[at], x[at, 0], x[at, 1] = row, value, point[slot, 0], point[slot, 1]


@njit(**EXACT)
def _tell_region(easel: Easel, slabs: Slabs, x: float, post: Post) -> Post:
    """Tile the region of all slabs [Range App. D, Alg. 8]."""
    for z in range(slabs.size[0]):
        easel.tiles.size[0] = 0
        paint_region(stairs_of(slabs, z), x, easel.k, easel.tiles)
        post = _emit(easel, post, slabs.height[z], _above(slabs, z))
    return post


@njit(**EXACT)
def _look_around(easel: Easel, slabs: Slabs, post: Post, first: int) -> None:
    """Set the windows of slabs around the tiles from `first` on, of which somebody is in each.

    Who reaches higher than a slab holds its objects as well.
    """
    bound = 3 if easel.sign > 0 else 2
    for z in range(slabs.size[0]):
        low, high = np.inf, -np.inf
        for at in range(first, post.size[0]):
            if -post.low[at, bound] >= slabs.height[z]:
                low, high = min(low, post.low[at, 0]), max(high, -post.low[at, 1])
        slabs.window[z, 0], slabs.window[z, 1] = low, high


@njit(**EXACT)
def _next_of(
    easel: Easel, slabs: Slabs, at: int, x: float, value: float, mine: int, limit: float, limit_label: int
) -> int:
    """The best object of a slab's polygon that is worse than a pair and better than the limit, or NONE."""
    after, before = reach(stairs_of(slabs, at), x, easel.k)
    low = max(np.nextafter(after, np.inf), slabs.window[at, 0])
    high = min(np.nextafter(before, -np.inf), slabs.window[at, 1])
    if not low <= high:
        return NONE
    bottom, end = slabs.height[at] if at > 0 else -np.inf, below(_above(slabs, at))
    corners, found = np.empty((1, 4)), np.empty(1, np.int32)
    corners[0, 0], corners[0, 1] = low, -high
    corners[0, 2], corners[0, 3] = (bottom, -end) if easel.sign > 0 else (-end, bottom)
    easel.tally[MIN] += 1
    worse, labels = np.array([value]), np.array([mine])
    find_next(easel.objects, easel.label, corners, worse, labels, found, limit, limit_label)
    return found[0]


@njit(**EXACT)
def _choose(easel: Easel, slabs: Slabs, value: Floats) -> int:
    """The slab with the best next object, or -1."""
    best, label = -1, easel.label
    for z in range(slabs.size[0]):
        one, two = slabs.next[z], slabs.next[best] if best >= 0 else -1
        if one >= 0 and (
            best < 0 or value[one] < value[two] or (value[one] == value[two] and label[one] < label[two])
        ):
            best = z
    return best


@njit(**EXACT)
def _tell_exposed(
    easel: Easel, slabs: Slabs, x: float, other: int, at: int, value: Floats, post: Post
) -> tuple[Slabs, Post]:
    """Tile what an exposed object gains, and count it among the better ones from its height on."""
    objects, first = easel.objects, post.size[0]
    place = objects.slot_of[other]
    there, height = objects.point[place, 0], easel.sign * objects.point[place, 1]
    slabs.next[at] = UNKNOWN
    if height > slabs.height[at]:
        slabs = _part(slabs, at, height)
        at += 1
    start = at
    while at < slabs.size[0]:
        after, before = reach(stairs_of(slabs, at), x, easel.k)
        if not after < there < before:
            break
        easel.tiles.size[0] = 0
        paint_gain(stairs_of(slabs, at), x, there, easel.k, easel.tiles)
        post = _emit(easel, post, slabs.height[at], _above(slabs, at))
        expose(stairs_of(slabs, at), x, there)
        if at > start and _alike(slabs, at - 1, at):
            one, two = slabs.next[at - 1], slabs.next[at]
            if UNKNOWN in (one, two):
                slabs.next[at - 1] = UNKNOWN
            elif one == NONE or (two >= 0 and _first_of(easel, value, one, two) == two):
                slabs.next[at - 1] = two
            slabs.window[at - 1, 0] = min(slabs.window[at - 1, 0], slabs.window[at, 0])
            slabs.window[at - 1, 1] = max(slabs.window[at - 1, 1], slabs.window[at, 1])
            _drop(slabs, at)
        else:
            at += 1
    _finish(easel, post, first, other, value[other])
    return slabs, post


@njit(**EXACT)
def _first_of(easel: Easel, value: Floats, one: int, two: int) -> int:
    """The better of two objects."""
    ahead = value[one] < value[two] or (value[one] == value[two] and easel.label[one] < easel.label[two])
    return one if ahead else two


@njit(**EXACT)
def paint(easel: Easel, row: int, old: float, value: Floats, post: Post) -> Post:
    """Append the tiles of one moment: an object comes from an old value to the one it has now.

    The tree of objects holds it at its place; which of the two values it has there does not matter.
    """
    now, mine, first = value[row], easel.label[row], post.size[0]
    x, objects = easel.objects.point[easel.objects.slot_of[row], 0], easel.objects
    slabs = outline(easel, row, min(old, now))
    post = _tell_region(easel, slabs, x, post)
    _finish(easel, post, first, row, now)
    if now < old or (easel.aware and post.size[0] == first):
        return post
    if easel.aware and easel.lists == 0:
        _look_around(easel, slabs, post, first)
    worse, label = old, mine
    while True:
        for z in range(slabs.size[0]):
            if slabs.next[z] >= 0:
                after, before = reach(stairs_of(slabs, z), x, easel.k)
                if not after < objects.point[objects.slot_of[slabs.next[z]], 0] < before:
                    slabs.next[z] = UNKNOWN
            if slabs.next[z] == UNKNOWN:
                slabs.next[z] = _next_of(easel, slabs, z, x, worse, label, now, mine)
        at = _choose(easel, slabs, value)
        if at < 0:
            return post
        other = slabs.next[at]
        slabs, post = _tell_exposed(easel, slabs, x, other, at, value, post)
        worse, label = value[other], easel.label[other]
