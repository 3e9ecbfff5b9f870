"""Who gains what from an object that falls, in 1.5 dimensions, found for all members of its region at once.

The objects that it has passed are listed, the best first, some at a time, where a member still reaches; from
the second search on more are fetched than are listed at once.
Members count those they hold; the one that makes k of them is what a member gains.

Cost: a search for every LISTED objects, and O(m) for those that a block of members may hold.
[Range App. D] asks for the next object slab by slab, whether or not anybody gains it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.corner_merge import Post
from rankcast.kernels.corner_search import best
from rankcast.kernels.corner_tree import CornerTree, Floats, Rows
from rankcast.kernels.options import EXACT
from rankcast.kernels.slab_cells import COLUMNS, part_members
from rankcast.kernels.slab_cut import WIDE, fill_up, wide
from rankcast.kernels.slab_easel import Easel, stamp
from rankcast.kernels.slab_members import FOUND, HEIGHT, HI, LO, Members, write_tiles
from rankcast.kernels.slabs import LISTED, MIN, SNAP

BLOCK = 32  # members that look at the same objects
AHEAD = 4 * LISTED  # objects fetched at a time when the first have not been enough
TAKEN, FETCHED, WANTED = range(3)


class Ahead(NamedTuple):
    """Objects that were passed, the best first: how many were taken, are there, were wanted."""

    row: Rows
    size: NDArray[np.int64]


@njit(**EXACT)
def _reach(span: Floats, start: int, end: int) -> tuple[float, float, float]:
    """The range and the bound around those of members start..end-1."""
    lo, hi, top = np.inf, -np.inf, -np.inf
    for i in range(start, end):
        lo, hi, top = min(lo, span[i, LO]), max(hi, span[i, HI]), max(top, span[i, HEIGHT])
    return lo, hi, top


@njit(**EXACT)
def _fetch(
    objects: CornerTree, label: NDArray[np.int64], corner: Floats, old: tuple[float, int],
    limit: tuple[float, int], ahead: Ahead,
) -> bool:  # fmt: skip
    """Fetch the best objects in a box behind those fetched, or the old pair; False if there are none."""
    row, size, after, end = ahead.row, ahead.size, old, LISTED
    if size[FETCHED] < size[WANTED]:
        return False
    if size[WANTED] > 0:
        last = row[size[FETCHED] - 1]
        after, end = (-objects.weight[objects.slot_of[last]], label[last]), row.shape[0]
    best(objects, label, corner, after, limit, row[:end])
    size[TAKEN], size[FETCHED], size[WANTED] = 0, np.sum(row[:end] >= 0), end
    return size[FETCHED] > 0


@njit(**EXACT)
def _list_passed(
    objects: CornerTree, label: NDArray[np.int64], members: Members, bound: int, old: tuple[float, int],
    limit: tuple[float, int], ahead: Ahead, listed: Rows,
) -> Floats:  # fmt: skip
    """Write the next best objects between two pairs that members may hold; return their places, turned.

    A pair is a value and a label. What is bounded is told by `bound`, its axis among corners.
    """
    corner, point, slot_of, row = np.full(4, -np.inf), objects.point, objects.slot_of, ahead.row
    lo, hi, top = _reach(members.span, 0, members.size[FOUND])
    corner[0], corner[1], corner[bound] = lo, -hi, -top
    most, size, sign, count = listed.shape[0], 0, 1.0 if bound == 3 else -1.0, ahead.size
    place = np.empty((2, most))
    while size < most:
        if count[TAKEN] == count[FETCHED] and not _fetch(objects, label, corner, old, limit, ahead):
            break
        other = row[count[TAKEN]]
        at = slot_of[other]
        place[0, size], place[1, size], listed[size] = point[at, 0], sign * point[at, 1], other
        size += (lo <= place[0, size]) & (place[0, size] <= hi) & (place[1, size] <= top)
        count[TAKEN] += 1
    return place[:, :size]


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
    members, label, objects, point = easel.members, easel.label, easel.objects, easel.objects.point
    slot_of, k, total, cells = objects.slot_of, easel.k, LISTED, np.empty((16, COLUMNS))
    place, known, others = point[slot_of[row]], better.shape[0], np.empty((2, better.shape[0] + 4 * AHEAD))
    others[:, :known] = better.T
    x, height = place[0], easel.sign * place[1]
    listed, former, limit = np.empty(LISTED, np.int32), (old, label[row]), (value[row], label[row])
    ahead = Ahead(np.empty(AHEAD, np.int32), np.zeros(3, np.int64))
    while members.size[FOUND] > 0 and total == listed.shape[0]:
        easel.tally[MIN] += 1
        passed = _list_passed(objects, label, members, easel.bound, former, limit, ahead, listed)
        total = passed.shape[1]
        gained, begin = _share_out(members, passed, k)
        while known + total > others.shape[1]:
            others = np.concatenate((others, others), axis=1)
        others[:, known : known + total] = passed
        for j in range(total):
            other = np.int64(listed[j])
            if begin[j] == begin[j + 1]:
                continue
            there, above, first = passed[0, j], passed[1, j], post.size[0]
            inner = (min(x, there), max(x, there), max(height, above))
            size, cells = part_members(others, known + j, gained[begin[j] : begin[j + 1]], inner, 0, cells)
            easel.tally[SNAP] += size
            post = write_tiles(easel.corners, members.cut, cells, size, easel.bound, better, 0, post)
            stamp(post, first, other, value[other], (there, point[slot_of[other], 1]))
        known += total
        if total == listed.shape[0]:
            listed, total = np.empty(AHEAD, np.int32), AHEAD
    return post
