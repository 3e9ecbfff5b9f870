"""What painting in 1.5 dimensions works with, and how the tiles of slabs are written down.

Tiles of neighbouring slabs with the same ranges become one at once. [Range App. D, Alg. 10]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.corner_merge import Post, longer
from rankcast.range_topk.dissemination.slab_members import Members
from rankcast.range_topk.kernels.corner_tree import CornerTree, Floats, Rows
from rankcast.range_topk.kernels.slab_search import Along
from rankcast.range_topk.kernels.tiles import Tiles, below, coarsen
from rankcast.structures.jit import EXACT


class Easel(NamedTuple):
    """What painting works with: objects, in a tree and along the first attribute, and their labels.

    Then subscriptions, a tile buffer for one slab, counts.

    `sign` turns the second attribute so that it is bounded from above, `bound` is its axis among corners;
    `aware`: whether subscriptions are looked at; `lists` > 0: how many boxes cover the tiles of a slab;
    `asking`: whether the questions are asked that the published server asks. It minds what the members reach
    only in slabs that an exposed object has changed, paints what nobody gains, and goes on without members.
    """

    objects: CornerTree
    along: Along
    label: NDArray[np.int64]
    corners: CornerTree
    members: Members
    tiles: Tiles
    k: int
    sign: float
    bound: int
    aware: bool
    lists: int
    asking: bool
    tally: NDArray[np.int64]


@njit(**EXACT)
def _goes_on(low: Floats, high: Floats, at: int, box: Floats, i: int) -> bool:
    """Whether a tile has the ranges of a box in the first attribute."""
    same = low[at, 0] == box[i, 0] and high[at, 0] == box[i, 1]
    return same and low[at, 1] == -box[i, 3] and high[at, 1] == -box[i, 2]


@njit(**EXACT)
def emit(
    tiles: Tiles, bound: int, lists: int, post: Post, rows: Rows, z: int, bottom: float, end: float
) -> Post:
    """Append the tiles of one slab, or let those of the slab below with the same ranges go on.

    `rows[0]` are the first tile and the first slab, `rows[z + 1]` how many tiles slab z has, and which. They
    are in the order of falling lo.
    """
    box = tiles.box
    if lists > 0:
        coarsen(tiles, 0, lists)
    while post.size[0] + tiles.size[0] + 2 > post.item.shape[0]:
        post = longer(post)
    low, high, top, floor, j = post.low, post.high, -below(end), -below(bottom), 1
    beneath = rows[z, 0] if z > 0 else 0
    for i in range(tiles.size[0]):
        while j <= beneath and high[rows[z, j], 0] > box[i, 1]:
            j += 1
        at = rows[z, j] if j <= beneath else -1
        if at >= 0 and low[at, bound] == floor and _goes_on(low, high, at, box, i):
            low[at, bound] = top
        else:
            at = post.size[0]
            low[at, 5 - bound], high[at, 5 - bound] = -np.inf, -np.inf
            low[at, bound], high[at, bound] = top, -bottom
            low[at, 0], high[at, 0], low[at, 1], high[at, 1] = box[i, 0], box[i, 1], -box[i, 3], -box[i, 2]
            post.size[0] += 1
        rows[z + 1, i + 1] = at
    rows[z + 1, 0] = tiles.size[0]
    return post


@njit(**EXACT)
def stamp(post: Post, first: int, row: int, value: float, place: tuple[float, float]) -> None:
    """Write what the tiles from `first` on tell."""
    for at in range(first, post.size[0]):
        post.item[at], post.value[at], post.x[at, 0], post.x[at, 1] = row, value, place[0], place[1]


@njit(**EXACT)
def new_rows(k: int, first: int, start: int, end: int) -> Rows:
    """Room for the tiles of slabs start..end-1 of a message whose tiles begin at `first`."""
    rows = np.empty((end - start + 1, k + 3), np.int32)
    rows[0, 0], rows[0, 1] = first, start
    return rows
