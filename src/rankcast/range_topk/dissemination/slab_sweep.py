"""The sweep of a fallen object's value upwards, in 1.5 dimensions, slab by slab.

The next object that is passed inside the polygon is the best of the next ones of all slabs, each kept until
it falls out of its slab's interval. It gains what the staircases of its slabs lose, from its own height on;
the slab it lies in is parted there, and neighbours with equal lists become one. [Range App. D, Alg. 9, 11]

The published server, as we read it (`asking`): l_z and r_z of section III-B are the ends that all members
left reach together. A slab's rectangle ends there from when an exposed object lies in it or changes its
lists, not before; a next object that is outside then is looked for again (Alg. 11, line 19).

Cost: a question a slab, and one each time a slab needs another next object.

Who gains what from an object that falls, in 1.5 dimensions, found for all members of its region at once.

The objects that it has passed are listed, the best first, some at a time, where a member still reaches.
Members count those they hold; the one that makes k of them is what a member gains.

Cost: a search for every AHEAD objects, and O(m) for those that a block of members may hold.
[Range App. D] asks for the next object slab by slab, whether or not anybody gains it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.cover import Post
from rankcast.range_topk.dissemination.slab_members import (
    FOUND,
    HEIGHT,
    HI,
    LO,
    WIDE,
    Members,
    fill_up,
    pass_object,
    reach_of,
    wide,
)
from rankcast.range_topk.dissemination.slab_merge import Easel, emit, new_rows, stamp, thin, write_tiles
from rankcast.range_topk.dissemination.slab_tiles import new_cells, part_members
from rankcast.range_topk.dissemination.slabs import (
    MIN,
    NONE,
    SNAP,
    UNKNOWN,
    Slabs,
    above,
    alike,
    drop,
    part,
    stairs_of,
)
from rankcast.range_topk.kernels.corners import Floats, Rows
from rankcast.range_topk.kernels.corners_search import find_next
from rankcast.range_topk.kernels.regions import below, expose, paint_gain, reach
from rankcast.range_topk.kernels.slab_search import Along, list_between
from rankcast.structures.boards import ahead
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def fit(
    easel: Easel, slabs: Slabs, rows: Rows, which: tuple[int, int], better: Floats, room: int, post: Post
) -> Post:
    """Let the tiles of a message meet the members that it tells, if subscriptions are known."""
    if not easel.aware:
        return post
    easel.tally[SNAP] += post.size[0] - rows[0, 0]
    members, bound = easel.members, easel.bound
    return thin(easel.corners, members, which, slabs, rows, bound, better, room, post)


@njit(**EXACT)
def _next_of(
    easel: Easel, slabs: Slabs, at: int, x: float, value: float, mine: int, limit: float, limit_label: int
) -> int:
    """The best object of a slab's polygon that is worse than a pair and better than the limit, or NONE."""
    after, before = reach(stairs_of(slabs, at), x, easel.k)
    low = max(np.nextafter(after, np.inf), slabs.window[at, 0])
    high = min(np.nextafter(before, -np.inf), slabs.window[at, 1])
    if not low <= high:
        easel.tally[MIN] += easel.asking
        return NONE
    bottom, end = slabs.height[at] if at > 0 else -np.inf, below(above(slabs, at))
    corners, found = np.empty((1, 4)), np.empty(1, np.int32)
    corners[0, 0], corners[0, 1] = low, -high
    corners[0, 2], corners[0, 3] = (bottom, -end) if easel.sign > 0 else (-end, bottom)
    easel.tally[MIN] += 1
    worse, labels = np.array([value]), np.array([mine])
    find_next(easel.objects, easel.label, corners, worse, labels, found, limit, limit_label)
    return found[0]


@njit(**EXACT)
def _choose(slabs: Slabs, value: Floats, label: NDArray[np.int64]) -> int:
    """The slab with the best next object, or -1."""
    best = -1
    for z in range(slabs.size[0]):
        if slabs.next[z] >= 0 and (best < 0 or ahead(value, label, slabs.next[z], slabs.next[best])):
            best = z
    return best


@njit(**EXACT)
def _expose(
    slabs: Slabs, x: float, there: float, start: int, end: int, value: Floats, label: NDArray[np.int64]
) -> None:
    """Count an object among the better ones of slabs start..end-1; neighbours that are alike become one."""
    at = start
    for _ in range(start, end):
        expose(stairs_of(slabs, at), x, there)
        if at > start and alike(slabs, at - 1, at):
            one, two = slabs.next[at - 1], slabs.next[at]
            if UNKNOWN in (one, two):
                slabs.next[at - 1] = UNKNOWN
            elif one == NONE or (two >= 0 and ahead(value, label, two, one)):
                slabs.next[at - 1] = two
            slabs.window[at - 1, 0] = min(slabs.window[at - 1, 0], slabs.window[at, 0])
            slabs.window[at - 1, 1] = max(slabs.window[at - 1, 1], slabs.window[at, 1])
            drop(slabs, at)
        else:
            at += 1


@njit(**EXACT)
def _tell_exposed(
    easel: Easel,
    slabs: Slabs,
    x: float,
    other: int,
    at: int,
    value: Floats,
    gains: tuple[int, int],
    post: Post,
) -> tuple[Slabs, Post]:
    """Tile what an exposed object gains, and count it among the better ones from its height on.

    `gains` tells which members gain it, if subscriptions are known.
    """
    objects, first, gained = easel.objects, post.size[0], gains[1] > gains[0]
    place = objects.slot_of[other]
    there, height = objects.point[place, 0], easel.sign * objects.point[place, 1]
    slabs.next[at], start = UNKNOWN, at
    if height > slabs.height[at]:
        slabs = part(slabs, at, height)
        at += 1
    end = at
    while end < slabs.size[0]:
        after, before = reach(stairs_of(slabs, end), x, easel.k)
        if not after < there < before:
            break
        end += 1
    if easel.aware and easel.lists == 0:
        slabs.window[start:end, 0], slabs.window[start:end, 1] = reach_of(easel.members)
    if gained or easel.asking or not easel.aware:
        rows = new_rows(easel.k, first, at, end)
        for z in range(at, end):
            easel.tiles.size[0] = 0
            paint_gain(stairs_of(slabs, z), x, there, easel.k, easel.tiles)
            post = emit(
                easel.tiles, easel.bound, easel.lists, post, rows, z - at, slabs.height[z], above(slabs, z)
            )
        post = fit(easel, slabs, rows, gains, np.empty((0, 2)), 0, post)
        stamp(post, first, other, value[other], (there, objects.point[place, 1]))
    _expose(slabs, x, there, at, end, value, easel.label)
    return slabs, post


@njit(**EXACT)
def _renew(easel: Easel, slabs: Slabs, x: float, worse: float, label: int, now: float, mine: int) -> None:
    """Ask for the next object of every slab that does not know it, or whose next one is out of reach."""
    point, slot_of = easel.objects.point, easel.objects.slot_of
    for z in range(slabs.size[0]):
        if slabs.next[z] >= 0:
            after, before = reach(stairs_of(slabs, z), x, easel.k)
            there = point[slot_of[slabs.next[z]], 0]
            if not (after < there < before and slabs.window[z, 0] <= there <= slabs.window[z, 1]):
                slabs.next[z] = UNKNOWN
        if slabs.next[z] == UNKNOWN:
            slabs.next[z] = _next_of(easel, slabs, z, x, worse, label, now, mine)


@njit(**EXACT)
def sweep(easel: Easel, slabs: Slabs, x: float, old: float, row: int, value: Floats, post: Post) -> Post:
    """Sweep a fallen object's value upwards, from slab to slab [Range App. D, Alg. 11]."""
    now, mine, members, gains = value[row], easel.label[row], easel.members, (0, 0)
    objects, worse, label, at = easel.objects, old, mine, 0
    while at >= 0 and (members.size[FOUND] > 0 or easel.asking or not easel.aware):
        _renew(easel, slabs, x, worse, label, now, mine)
        at = _choose(slabs, value, easel.label)
        if at >= 0:
            other = slabs.next[at]
            place = objects.point[objects.slot_of[other]]
            if easel.aware:
                gained = pass_object(members, place[0], easel.sign * place[1], easel.k)
                gains = (members.size[FOUND], members.size[FOUND] + gained)
            slabs, post = _tell_exposed(easel, slabs, x, other, at, value, gains, post)
            worse, label = value[other], easel.label[other]
    return post


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
