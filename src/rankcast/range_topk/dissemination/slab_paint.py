"""Painting one event in 1.5 dimensions: two attributes, the second bounded on one side.

A value that improves: the new region is tiled. One that worsens: the old region is, then what the objects
that are passed gain. Without subscriptions that goes slab by slab, and tiles of neighbouring slabs with the
same ranges become one at once. The next object passed is the best of the next ones of all slabs, each kept
until it falls out of its slab's interval. It gains what the staircases of its slabs lose, from its own height
on; its slab is cut there, and neighbours with equal staircases become one. [Range App. D, Alg. 8 to 11]

With subscriptions, the members of the region are found first (`slab_members`), and tiles are made around them
(`slab_tiles`). The objects passed are listed best first, some at a time, where a member still reaches;
members count those they hold, and the one that makes k of them is what a member gains. Nothing is painted
where nobody is. With epsilon tiles are painted, and shrunk to the members in them. [Range App. D] asks for
the next object slab by slab, whether or not anybody gains it. To count what the published server would ask
(`asking`): a slab's rectangle ends where all members left reach together, from when an exposed object lies in
it or changes its lists; a next object that is outside then is looked for again (Alg. 11, line 19).

Ties: objects of one height come in together; those at the same x take a place of everybody's list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.cover import BoxTiles
from rankcast.range_topk.dissemination.slab_members import (
    FOUND,
    HEIGHT,
    HI,
    LO,
    MOMENT,
    TWICE,
    WHOLE,
    WIDE,
    Members,
    fill_up,
    find_members,
    pass_object,
    reach_of,
    wide,
)
from rankcast.range_topk.dissemination.slab_merge import (
    SlabPaintState,
    emit,
    new_rows,
    stamp,
    thin,
    write_tiles,
)
from rankcast.range_topk.dissemination.slab_tiles import new_cells, part_members, part_region
from rankcast.range_topk.dissemination.slabs import (
    MIN,
    NONE,
    SNAP,
    UNKNOWN,
    ObjectsByFirst,
    Slabs,
    above,
    alike,
    count_questions,
    drop,
    list_between,
    outline,
    part,
    stairs_of,
    surround,
)
from rankcast.range_topk.kernels.corners import Floats, Rows, put_in, set_weight, spare_buckets, take_out
from rankcast.range_topk.kernels.corners_search import find_next
from rankcast.range_topk.kernels.object_tree import insert, remove, roomy, set_value
from rankcast.range_topk.kernels.object_versions import BoxEvents, differs
from rankcast.range_topk.kernels.paint import below, expose, paint_gain, paint_region, reach, room_of
from rankcast.structures.jit import EXACT
from rankcast.structures.topk_lists import ahead


@njit(**EXACT)
def fit(
    state: SlabPaintState,
    slabs: Slabs,
    rows: Rows,
    which: tuple[int, int],
    better: Floats,
    room: int,
    out: BoxTiles,
) -> BoxTiles:
    """Let the tiles of a message meet the members that it tells, if subscriptions are known."""
    if not state.aware:
        return out
    state.tally[SNAP] += out.size[0] - rows[0, 0]
    members, bound = state.members, state.bound
    return thin(state.corners, members, which, slabs, rows, bound, better, room, out)


@njit(**EXACT)
def _next_of(
    state: SlabPaintState,
    slabs: Slabs,
    at: int,
    x: float,
    value: float,
    mine: int,
    limit: float,
    limit_label: int,
) -> int:
    """The best object of a slab's polygon that is worse than a pair and better than the limit, or NONE."""
    after, before = reach(stairs_of(slabs, at), x, state.k)
    low = max(np.nextafter(after, np.inf), slabs.window[at, 0])
    high = min(np.nextafter(before, -np.inf), slabs.window[at, 1])
    if not low <= high:
        state.tally[MIN] += state.asking
        return NONE
    bottom, end = slabs.height[at] if at > 0 else -np.inf, below(above(slabs, at))
    corners, found = np.empty((1, 4)), np.empty(1, np.int32)
    corners[0, 0], corners[0, 1] = low, -high
    corners[0, 2], corners[0, 3] = (bottom, -end) if state.sign > 0 else (-end, bottom)
    state.tally[MIN] += 1
    worse, labels = np.array([value]), np.array([mine])
    find_next(state.objects, state.label, corners, worse, labels, found, limit, limit_label)
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
def _tile_exposed(
    state: SlabPaintState,
    slabs: Slabs,
    x: float,
    other: int,
    at: int,
    value: Floats,
    gains: tuple[int, int],
    out: BoxTiles,
) -> tuple[Slabs, BoxTiles]:
    """Tile what an exposed object gains, and count it among the better ones from its height on.

    `gains` tells which members gain it, if subscriptions are known.
    """
    objects, first, gained = state.objects, out.size[0], gains[1] > gains[0]
    place = objects.slot_of[other]
    there, height = objects.point[place, 0], state.sign * objects.point[place, 1]
    slabs.next[at], start = UNKNOWN, at
    if height > slabs.height[at]:
        slabs = part(slabs, at, height)
        at += 1
    end = at
    while end < slabs.size[0]:
        after, before = reach(stairs_of(slabs, end), x, state.k)
        if not after < there < before:
            break
        end += 1
    if state.aware and state.lists == 0:
        slabs.window[start:end, 0], slabs.window[start:end, 1] = reach_of(state.members)
    if gained or state.asking or not state.aware:
        rows = new_rows(state.k, first, at, end)
        for z in range(at, end):
            state.tiles.size[0] = 0
            paint_gain(stairs_of(slabs, z), x, there, state.k, state.tiles)
            out = emit(
                state.tiles, state.bound, state.lists, out, rows, z - at, slabs.height[z], above(slabs, z)
            )
        out = fit(state, slabs, rows, gains, np.empty((0, 2)), 0, out)
        stamp(out, first, other, value[other], (there, objects.point[place, 1]))
    _expose(slabs, x, there, at, end, value, state.label)
    return slabs, out


@njit(**EXACT)
def _renew(
    state: SlabPaintState, slabs: Slabs, x: float, worse: float, label: int, now: float, mine: int
) -> None:
    """Ask for the next object of every slab that does not know it, or whose next one is out of reach."""
    point, slot_of = state.objects.point, state.objects.slot_of
    for z in range(slabs.size[0]):
        if slabs.next[z] >= 0:
            after, before = reach(stairs_of(slabs, z), x, state.k)
            there = point[slot_of[slabs.next[z]], 0]
            if not (after < there < before and slabs.window[z, 0] <= there <= slabs.window[z, 1]):
                slabs.next[z] = UNKNOWN
        if slabs.next[z] == UNKNOWN:
            slabs.next[z] = _next_of(state, slabs, z, x, worse, label, now, mine)


@njit(**EXACT)
def sweep(
    state: SlabPaintState, slabs: Slabs, x: float, old: float, row: int, value: Floats, out: BoxTiles
) -> BoxTiles:
    """Sweep a fallen object's value upwards, from slab to slab [Range App. D, Alg. 11]."""
    now, mine, members, gains = value[row], state.label[row], state.members, (0, 0)
    objects, worse, label, at = state.objects, old, mine, 0
    while at >= 0 and (members.size[FOUND] > 0 or state.asking or not state.aware):
        _renew(state, slabs, x, worse, label, now, mine)
        at = _choose(slabs, value, state.label)
        if at >= 0:
            other = slabs.next[at]
            place = objects.point[objects.slot_of[other]]
            if state.aware:
                gained = pass_object(members, place[0], state.sign * place[1], state.k)
                gains = (members.size[FOUND], members.size[FOUND] + gained)
            slabs, out = _tile_exposed(state, slabs, x, other, at, value, gains, out)
            worse, label = value[other], state.label[other]
    return out


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
    along: ObjectsByFirst, members: Members, sign: float, after: tuple[float, int], limit: tuple[float, int],
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
        # unsigned indexes: Numba need not test whether they count from the end
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
        # unsigned indexes: Numba need not test whether they count from the end
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
def tell_gains(
    state: SlabPaintState, better: Floats, row: int, old: float, value: Floats, out: BoxTiles
) -> BoxTiles:
    """Append the tiles of what members gain from an object that falls from an old value.

    `better` has the places and heights of the better objects in its polygon.
    """
    members, along, label, cells = state.members, state.along, state.label, new_cells()
    x, height, k, listed = along.tree.x[row], state.sign * along.second[row], state.k, _room(LISTED)
    known, others, more = better.shape[0], np.empty((2, better.shape[0] + 4 * AHEAD)), True
    others[:, :known] = better.T
    after, limit, upto = (old, label[row]), (value[row], label[row]), np.inf
    while members.size[FOUND] > 0 and more:
        state.tally[MIN] += 1
        near = (upto, FIRST) if after[0] < upto < limit[0] else limit
        passed = _list_passed(along, members, state.sign, after, near, listed)
        gained, begin = _share_out(members, passed, k)
        total = passed.shape[1]
        while known + total > others.shape[1]:
            others = np.concatenate((others, others), axis=1)
        others[:, known : known + total] = passed
        for j in range(total):
            other = np.int64(listed.row[j])
            if begin[j] == begin[j + 1]:
                continue
            there, above, first = passed[0, j], passed[1, j], out.size[0]
            inner = (min(x, there), max(x, there), max(height, above))
            size, box, cells = part_members(
                others, known + j, gained[begin[j] : begin[j + 1]], inner, 0, cells
            )
            state.tally[SNAP] += size
            out = write_tiles(state.corners, members.cut, box, size, state.bound, better, 0, out)
            stamp(out, first, other, value[other], (there, along.second[other]))
        known, full = known + total, total == listed.row.shape[0]
        more, former = full or near[0] < limit[0], after[0]
        after = (listed.value[total - 1], label[listed.row[total - 1]]) if full else near
        upto = after[0] + (after[0] - former) * FARTHER * AHEAD / max(total, 1)
        listed = _room(AHEAD)
    return out


FEW = 128  # members up to which a region's tiles are made from them alone


@njit(**EXACT)
def _tile_members(
    state: SlabPaintState, apex: tuple[float, float], better: Floats, same: int, out: BoxTiles
) -> BoxTiles:
    """Tile the region of an object around its members."""
    members, room, found = state.members, state.k - same, state.members.size[FOUND]
    if found + members.size[WHOLE] == 0:
        return out
    span = members.span[:found]
    if found <= FEW and members.size[WHOLE] == 0:
        total, box, _ = part_members(
            better.T, better.shape[0], span, (apex[0], apex[0], apex[1]), room, new_cells()
        )
    else:
        slabs = outline(better, same, apex[0], apex[1], state.k)
        total, box = part_region(state.corners, state.bound, slabs, apex[0], state.k, members)
    state.tally[SNAP] += total
    return write_tiles(state.corners, members.cut, box, total, state.bound, better, room, out)


@njit(**EXACT)
def _tile_region(state: SlabPaintState, slabs: Slabs, x: float, better: Floats, out: BoxTiles) -> BoxTiles:
    """Tile the region of all slabs [Range App. D, Alg. 8]."""
    found, room = state.members.size[FOUND], room_of(stairs_of(slabs, 0), state.k)
    if state.aware and found == 0 and not state.asking:
        return out
    rows = new_rows(state.k, out.size[0], 0, slabs.size[0])
    for z in range(slabs.size[0]):
        state.tiles.size[0] = 0
        paint_region(stairs_of(slabs, z), x, state.k, state.tiles)
        out = emit(state.tiles, state.bound, state.lists, out, rows, z, slabs.height[z], above(slabs, z))
    return fit(state, slabs, rows, (np.int64(0), found), better, room, out)


@njit(**EXACT)
def paint(state: SlabPaintState, row: int, old: float, value: Floats, out: BoxTiles) -> BoxTiles:
    """Append the tiles of one moment: an object comes from an old value to the one it has now.

    The tree of objects holds it at its place; which of the two values it has there does not matter.
    """
    now, first, members, k = value[row], out.size[0], state.members, state.k
    place = state.objects.point[state.objects.slot_of[row]]
    x, height = place[0], state.sign * place[1]
    every = state.objects.size[0] <= k  # all are in the lists of all who hold them
    better, same = surround(state.along, row, -np.inf if every else min(old, now), k, state.sign)
    count_questions(better, height, same, k, state.tally)
    exact = state.lists == 0 and not state.asking
    if state.aware:
        how = (now > old, not exact)
        find_members(state.corners, better, same, (x, height), k, state.bound, how, members)
    if state.aware and exact:
        out = _tile_members(state, (x, height), better, same, out)
        stamp(out, first, row, now, (place[0], place[1]))
        return out if now < old or every else tell_gains(state, better, row, old, value, out)
    slabs = outline(better, same, x, height, k)
    out = _tile_region(state, slabs, x, better, out)
    stamp(out, first, row, now, (place[0], place[1]))
    return out if now < old or every else sweep(state, slabs, x, old, row, value, out)


@njit(**EXACT)
def play(
    state: SlabPaintState, events: BoxEvents, value: Floats, out: BoxTiles, start: int
) -> tuple[int, BoxTiles]:
    """Paint and apply events from `start` on; return the first that needs more room, and the tiles."""
    objects, along, moment = state.objects, state.along, state.members.size
    for event in range(start, events.row.shape[0]):
        row, y, rows = events.row[event], events.y[event], events.row[event : event + 1]
        present, old = objects.slot_of[row] >= 0, value[row]
        if spare_buckets(objects) < 8 or not roomy(along.tree):
            return event, out
        if present and (y == np.inf or differs(objects.point[objects.slot_of[row]], events.x[event])):
            value[row], moment[TWICE] = np.inf, y < np.inf
            out = paint(state, row, old, value, out)
            take_out(objects, rows)
            remove(along.tree, row)
            present, old = False, np.inf
        if y != old:
            if present:
                set_weight(objects, row, -y)
                set_value(along.tree, row, y)
            elif put_in(objects, rows, events.x[event : event + 1], np.array([-y]), 0) == 0:
                return event, out
            else:
                insert(along.tree, row, events.x[event, 0], y)
                along.second[row] = events.x[event, 1]
            value[row] = y
            out = paint(state, row, old, value, out)
        moment[MOMENT], moment[TWICE] = moment[MOMENT] + 1, 0
    return events.row.shape[0], out
