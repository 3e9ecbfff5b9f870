"""The net change of a batch in 1.5 dimensions: `paint_batch` once more, with regions that have layers.

Whom an object matters to is one outline (`rankcast.range_topk.kernels.regions`) for every stretch of heights, from the
object upwards: a layer. Regions with the same apex are united, intersected and subtracted layer by layer,
where either begins another one. Who must hear of what, and in which order, is the same as in one attribute,
and so is the proof: it speaks of subscribers and of regions as sets. Tiles of neighbouring layers with the
same ranges become one at once. [Range §IV-A, App. D]

No subscription is known here. Regions before the batch come from a copy of the objects. An object that went,
or moved away, has somebody better than nobody standing at its former place among those after the batch.

Cost: an object that loses, or is exposed, takes two or three polygons of `slabs`, one that gains takes one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.cover import Post
from rankcast.range_topk.dissemination.slab_merge import emit, new_rows, stamp
from rankcast.range_topk.dissemination.slabs import count_questions, stairs_of
from rankcast.range_topk.dissemination.slabs import outline as find_slabs
from rankcast.range_topk.kernels.corners import Floats, Rows
from rankcast.range_topk.kernels.object_tree import SIZE
from rankcast.range_topk.kernels.regions import Tiles, combine, outline, paint_between
from rankcast.range_topk.kernels.slab_search import Along, surround
from rankcast.structures.jit import EXACT

LOSS, EXPOSED, GAIN = range(3)


class Layers(NamedTuple):
    """A region: the heights at which its layers begin, upwards, and their outlines."""

    height: Floats
    outline: NDArray[np.float64]


class Objects(NamedTuple):
    """The objects before and after a batch."""

    before: Along
    after: Along


class Told(NamedTuple):
    """What is told, in order: the object, who stands at that place after the batch, and why.

    `old` is the former value of a LOSS; `new` is the value told, +inf: gone from there.
    """

    row: Rows
    stand: Rows
    kind: Rows
    old: Floats
    new: Floats


@njit(**EXACT)
def _draw(objects: Along, row: int, value: float, k: int, sign: float, tally: NDArray[np.int64]) -> Layers:
    """The region that an object has with a value at its place."""
    x, height = objects.tree.x[row], sign * objects.second[row]
    every = objects.tree.meta[SIZE] <= k  # all are in the lists of all who hold them
    better, same = surround(objects, row, -np.inf if every else value, k, sign)
    count_questions(better, height, same, k, tally)
    slabs = find_slabs(better, same, x, height, k)
    size = slabs.size[0]
    drawn = np.empty((size, k + 1, 2))
    for z in range(size):
        outline(stairs_of(slabs, z), x, k, drawn[z])
    return Layers(slabs.height[:size], drawn)


@njit(**EXACT)
def _meet(one: Floats, two: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Where either of two regions begins a layer, with +inf behind the last; which layers are there."""
    size, i, j = 0, 0, 0
    height, which = np.empty(len(one) + len(two)), np.empty((len(one) + len(two), 2), np.int64)
    height[0], end = max(one[0], two[0]), -np.inf
    while end < np.inf:
        which[size, 0], which[size, 1] = i, j
        first = one[i + 1] if i + 1 < len(one) else np.inf
        second = two[j + 1] if j + 1 < len(two) else np.inf
        end, size = min(first, second), size + 1
        height[size] = end
        i += first == end
        j += second == end
    return height[: size + 1], which


@njit(**EXACT)
def _combine(one: Layers, two: Layers, union: bool) -> Layers:
    """The union, or the intersection, of two regions with the same apex."""
    height, which = _meet(one.height, two.height)
    size, steps = len(height) - 1, one.outline.shape[1] + two.outline.shape[1]
    drawn = np.empty((size, steps, 2))
    for z in range(size):
        combine(one.outline[which[z, 0]], two.outline[which[z, 1]], union, drawn[z])
    return Layers(height[:size], drawn)


@njit(**EXACT)
def _tell_between(region: Layers, without: Layers, x: float, bound: int, tiles: Tiles, post: Post) -> Post:
    """Append the tiles of what a region has beyond another with the same apex."""
    height, which = _meet(region.height, without.height)
    rows = new_rows(tiles.item.shape[0], post.size[0], 0, 2)
    rows[1, 0] = 0
    for z in range(len(height) - 1):
        tiles.size[0] = 0
        paint_between(region.outline[which[z, 0]], without.outline[which[z, 1]], x, tiles)
        post = emit(tiles, bound, 0, post, rows, 1, height[z], height[z + 1])
        rows[1] = rows[2]
    return post


@njit(**EXACT)
def tell(
    objects: Objects, told: Told, k: int, sign: float, tiles: Tiles, tally: NDArray[np.int64], post: Post
) -> Post:
    """Append the tiles of all that is told; see `paint_batch`."""
    before, after, bound = objects.before, objects.after, 3 if sign > 0 else 2
    nothing = Layers(np.full(1, -np.inf), np.full((1, 1, 2), -np.inf))
    for i in range(told.row.shape[0]):
        row, stand, kind, new = told.row[i], told.stand[i], told.kind[i], told.new[i]
        region, without, first = nothing, nothing, post.size[0]
        place = (after.tree.x[stand], after.second[stand])
        if new < np.inf:
            region = _draw(after, stand, new, k, sign, tally)
        if kind == LOSS:
            old = _draw(before, row, told.old[i], k, sign, tally)
            stale = _draw(after, stand, told.old[i], k, sign, tally)
            region = _combine(region, _combine(old, stale, False), True)
        elif kind == EXPOSED:
            without = _draw(before, row, new, k, sign, tally)
        post = _tell_between(region, without, place[0], bound, tiles, post)
        stamp(post, first, row, new, place)
    return post
