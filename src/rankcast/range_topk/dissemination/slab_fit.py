"""Boxes around members become the tiles of a message, in 1.5 dimensions.

Tiles that were painted are shrunk to the members in them, or dropped; all are merged where nobody else is
between. [Range §III-B, App. D]
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.range_topk.dissemination.corner_merge import Post, longer
from rankcast.range_topk.dissemination.slab_cut import Cut
from rankcast.range_topk.dissemination.slab_members import HEIGHT, HI, LO, Members
from rankcast.range_topk.dissemination.slab_merge import merge_boxes
from rankcast.range_topk.dissemination.slabs import Slabs, slab_at
from rankcast.range_topk.kernels.corner_tree import CornerTree, Floats, Rows
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def _fit(members: Members, start: int, end: int, slabs: Slabs, rows: Rows, post: Post, found: Floats) -> None:
    """Find the box around the members start..end-1 in each tile; `rows` has the tiles of slabs.

    Tiles of a slab are in the order of falling lo, and every member is in one of them.
    """
    span, low, first, heights, count = members.span, post.low, rows[0, 0], slabs.height, slabs.size[0]
    for i in range(start, end):
        at = slab_at(heights, count, span[i, HEIGHT]) - rows[0, 1]
        place = 0
        while low[rows[at + 1, place + 1], 0] > span[i, LO]:
            place += 1
        t = rows[at + 1, place + 1] - first
        for axis in range(3):
            found[t, axis] = min(found[t, axis], span[i, axis])
            found[t, 3 + axis] = max(found[t, 3 + axis], span[i, axis])


@njit(**EXACT)
def thin(
    tree: CornerTree, members: Members, which: tuple[int, int], slabs: Slabs, rows: Rows, bound: int,
    better: Floats, room: int, post: Post,
) -> Post:  # fmt: skip
    """Shrink, drop and merge the tiles of one message to members, those of `which` from one to another."""
    first = np.int64(rows[0, 0])
    total = post.size[0] - first
    found = np.empty((total, 6))
    found[:, :3], found[:, 3:] = np.inf, -np.inf
    _fit(members, which[0], which[1], slabs, rows, post, found)
    post.size[0] = first
    return write_tiles(tree, members.cut, found, total, bound, better, room, post)


@njit(**EXACT)
def write_tiles(
    tree: CornerTree, cut: Cut, box: Floats, total: int, bound: int, better: Floats, room: int, post: Post
) -> Post:
    """Append boxes around members that are not empty, merged, as tiles of one message."""
    kept = 0
    for t in range(total):
        if box[t, LO] <= box[t, 3 + LO]:
            hi, height = box[t, HI], box[t, HEIGHT]
            box[kept, LO], box[kept, HI], box[kept, HEIGHT] = box[t, LO], -box[t, 3 + HI], -box[t, 3 + HEIGHT]
            box[kept, 3 + LO], box[kept, 3 + HI], box[kept, 3 + HEIGHT] = box[t, 3 + LO], -hi, -height
            kept += 1
    if kept > 1:
        kept = merge_boxes(tree, bound, box, kept, better, room, cut)
    while post.size[0] + kept > post.item.shape[0]:
        post = longer(post)
    low, high, first = post.low, post.high, post.size[0]
    for t in range(kept):
        at = first + t
        low[at, 0], low[at, 1], low[at, bound], low[at, 5 - bound] = box[t, 0], box[t, 1], box[t, 2], -np.inf
        high[at, 0], high[at, 1], high[at, bound], high[at, 5 - bound] = (
            box[t, 3],
            box[t, 4],
            box[t, 5],
            -np.inf,
        )
    post.size[0] += kept
    return post
