"""Who gains what from an object that falls, in 1.5 dimensions, found for all members of its region at once.

The objects that it has passed are listed, the best first, some at a time, where a member still reaches.
Members count those they hold; the one that makes k of them is what a member gains.

Cost: a search for every AHEAD objects, and O(m) for those that a block of members may hold.
[Range App. D] asks for the next object slab by slab, whether or not anybody gains it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.range_topk.dissemination.corner_merge import Post
from rankcast.range_topk.dissemination.slab_cells import new_cells, part_members
from rankcast.range_topk.dissemination.slab_cut import WIDE, fill_up, wide
from rankcast.range_topk.dissemination.slab_easel import Easel, stamp
from rankcast.range_topk.dissemination.slab_fit import write_tiles
from rankcast.range_topk.dissemination.slab_members import FOUND, HEIGHT, HI, LO, Members
from rankcast.range_topk.dissemination.slabs import MIN, SNAP
from rankcast.range_topk.kernels.corner_tree import Floats, Rows
from rankcast.range_topk.kernels.slab_search import Along, list_between
from rankcast.structures.jit import EXACT

BLOCK = 32  # members that look at the same objects
LISTED, AHEAD = 32, 128  # objects listed at first, and at a time when those have not been enough
FARTHER = 1.25  # how much farther than they are expected they are looked for
FIRST = np.iinfo(np.int64).min


class Listed(NamedTuple):
    """Objects that were passed and their values, the best first."""

    row: Rows
    value: Floats


@njit(**EXACT)
def _reach(span: Floats, start: int, end: int) -> tuple[float, float, float]:
    """The range and the bound around those of members start..end-1."""
    lo, hi, top = np.inf, -np.inf, -np.inf
    for i in range(start, end):
        lo, hi, top = min(lo, span[i, LO]), max(hi, span[i, HI]), max(top, span[i, HEIGHT])
    return lo, hi, top


@njit(**EXACT)
def _list_passed(
    along: Along, members: Members, sign: float, after: tuple[float, int], limit: tuple[float, int],
    listed: Listed,
) -> Floats:  # fmt: skip
    """Write the next best objects between two pairs that members may hold; return their places, turned."""
    reach, x, row = _reach(members.span, 0, members.size[FOUND]), along.tree.x, listed.row
    size = list_between(along, reach, after, limit, sign, row, listed.value)
    place = np.empty((2, size))
    for i in range(size):
        place[0, i], place[1, i] = x[row[i]], sign * along.second[row[i]]
    return place


@njit(**EXACT)
def _room(size: int) -> Listed:
    return Listed(np.empty(size, np.int32), np.empty(size))


@njit(**EXACT)
def _gained_by(near: Floats, size: int, lo: float, hi: float, top: float, missing: int) -> tuple[int, int]:
    """Which of so many objects is the last one missing, or -1, and how many more are held.

    WIDE of them are counted together; only where the last one is are they looked at one by one.
    """
    held = 0
    for start in range(0, size, WIDE):
        first, count = np.uint64(start), 0
        for i in range(np.uint64(WIDE)):
            there = near[0, first + i]
            count += (lo <= there) & (there <= hi) & (near[1, first + i] <= top)
        if held + count >= missing:
            at = start - 1
            while held < missing:
                at += 1
                held += (lo <= near[0, at]) & (near[0, at] <= hi) & (near[1, at] <= top)
            return at, missing
        held += count
    return -1, held


@njit(**EXACT)
def _count_on(members: Members, place: Floats, k: int, gain: Rows) -> None:
    """Let members count objects in order; write which one made k of them, from 1 on, or 0."""
    span, better, found, total = members.span, members.better, members.size[FOUND], place.shape[1]
    near, which = np.empty((2, wide(total))), np.empty(wide(total), np.int32)
    for start in range(0, found, BLOCK):
        end, size = min(start + BLOCK, found), 0
        lo, hi, top = _reach(span, start, end)
        for j in range(np.uint64(total)):
            near[0, size], near[1, size], which[size] = place[0, j], place[1, j], j
            size += (lo <= place[0, j]) & (place[0, j] <= hi) & (place[1, j] <= top)
        fill_up(near, 0, size)
        for i in range(start, end):
            at, more = _gained_by(near, size, span[i, LO], span[i, HI], span[i, HEIGHT], k - better[i])
            gain[i] = which[at] + 1 if at >= 0 else 0
            better[i] += more


@njit(**EXACT)
def _share_out(members: Members, place: Floats, k: int) -> tuple[Floats, Rows]:
    """Take out the members who gain one of the listed objects; return them by it, and where each begin."""
    found, total, span, better = members.size[FOUND], place.shape[1], members.span, members.better
    gain, begin, kept = np.empty(found, np.int32), np.zeros(total + 2, np.int32), 0
    _count_on(members, place, k, gain)
    for i in range(found):
        begin[gain[i] + 1] += gain[i] > 0
    for j in range(total):
        begin[j + 2] += begin[j + 1]
    gained = np.empty((begin[total + 1], 3))
    for i in range(found):
        lo, hi, height, which = span[i, LO], span[i, HI], span[i, HEIGHT], gain[i]
        if which > 0:
            at = begin[which]
            gained[at, LO], gained[at, HI], gained[at, HEIGHT] = lo, hi, height
            begin[which] += 1
        else:
            span[kept, LO], span[kept, HI], span[kept, HEIGHT], better[kept] = lo, hi, height, better[i]
            kept += 1
    members.size[FOUND] = kept
    return gained, begin


@njit(**EXACT)
def tell_gains(easel: Easel, better: Floats, row: int, old: float, value: Floats, post: Post) -> Post:
    """Append the tiles of what members gain from an object that falls from an old value.

    `better` has the places and heights of the better objects in its polygon.
    """
    members, along, label, cells = easel.members, easel.along, easel.label, new_cells()
    x, height, k, listed = along.tree.x[row], easel.sign * along.second[row], easel.k, _room(LISTED)
    known, others, more = better.shape[0], np.empty((2, better.shape[0] + 4 * AHEAD)), True
    others[:, :known] = better.T
    after, limit, upto = (old, label[row]), (value[row], label[row]), np.inf
    while members.size[FOUND] > 0 and more:
        easel.tally[MIN] += 1
        near = (upto, FIRST) if after[0] < upto < limit[0] else limit
        passed = _list_passed(along, members, easel.sign, after, near, listed)
        gained, begin = _share_out(members, passed, k)
        total = passed.shape[1]
        while known + total > others.shape[1]:
            others = np.concatenate((others, others), axis=1)
        others[:, known : known + total] = passed
        for j in range(total):
            other = np.int64(listed.row[j])
            if begin[j] == begin[j + 1]:
                continue
            there, above, first = passed[0, j], passed[1, j], post.size[0]
            inner = (min(x, there), max(x, there), max(height, above))
            size, box, cells = part_members(
                others, known + j, gained[begin[j] : begin[j + 1]], inner, 0, cells
            )
            easel.tally[SNAP] += size
            post = write_tiles(easel.corners, members.cut, box, size, easel.bound, better, 0, post)
            stamp(post, first, other, value[other], (there, along.second[other]))
        known, full = known + total, total == listed.row.shape[0]
        more, former = full or near[0] < limit[0], after[0]
        after = (listed.value[total - 1], label[listed.row[total - 1]]) if full else near
        upto = after[0] + (after[0] - former) * FARTHER * AHEAD / max(total, 1)
        listed = _room(AHEAD)
    return post
