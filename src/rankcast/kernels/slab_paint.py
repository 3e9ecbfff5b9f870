"""Painting in 1.5 dimensions: two attributes, the second bounded on one side.

An improved value: the new region is tiled slab by slab (`slabs`). A worse one: the old region is, then the
value is swept upwards; the next object that is passed inside the polygon is the best of the next ones of all
slabs, each kept until it falls out of its slab's interval. It gains what the staircases of its slabs lose,
from its own height on; the slab it lies in is parted there, and neighbours with equal lists become one
[Range App. D, Alg. 8, 9, 11]. Tiles of neighbouring slabs with the same ranges become one at once (Alg. 10).

Where subscriptions are known, the members of the region are found first (`slab_members`), then what each of
them gains (`slab_gains`), and tiles are made from them (`slab_cells`): nothing is painted where nobody is,
and no slab asks for its next object. With epsilon tiles are painted, and shrunk to the members in them.

The published server, as we read it (`asking`): l_z and r_z of section III-B are the ends that all members
left reach together. A slab's rectangle ends there from when an exposed object lies in it or changes its
lists, not before; a next object that is outside then is looked for again (Alg. 11, line 19).

Ties: objects of one height come in by row, and change the lists of one slab; those at the same x take a place
of everybody's list. Cost: a firstk for both sides, a question a slab, and one each time a slab needs another
next object.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.board import ahead
from rankcast.kernels.corner_merge import Post
from rankcast.kernels.corner_search import find_next
from rankcast.kernels.corner_tree import Floats, Rows
from rankcast.kernels.options import EXACT
from rankcast.kernels.slab_cells import new_cells, part_members
from rankcast.kernels.slab_easel import Easel, emit, new_rows, stamp
from rankcast.kernels.slab_gains import tell_gains
from rankcast.kernels.slab_members import (
    FOUND,
    WHOLE,
    find_members,
    pass_object,
    reach_of,
    thin,
    write_tiles,
)
from rankcast.kernels.slab_search import surround
from rankcast.kernels.slab_strips import part_region
from rankcast.kernels.slabs import (
    MIN,
    NONE,
    SNAP,
    UNKNOWN,
    Slabs,
    above,
    alike,
    count_questions,
    drop,
    outline,
    part,
    stairs_of,
)
from rankcast.kernels.staircase import expose, paint_gain, paint_region, reach, room_of
from rankcast.kernels.tiles import below

FEW = 128  # members up to which a region's tiles are made from them alone


@njit(**EXACT)
def _thin(
    easel: Easel, slabs: Slabs, rows: Rows, which: tuple[int, int], better: Floats, room: int, post: Post
) -> Post:
    """Let the tiles of a message meet the members that it tells, if subscriptions are known."""
    if not easel.aware:
        return post
    easel.tally[SNAP] += post.size[0] - rows[0, 0]
    members, bound = easel.members, easel.bound
    return thin(easel.corners, members, which, slabs, rows, bound, better, room, post)


@njit(**EXACT)
def _tell_members(easel: Easel, apex: tuple[float, float], better: Floats, same: int, post: Post) -> Post:
    """Tile the region of an object around its members."""
    members, room, found = easel.members, easel.k - same, easel.members.size[FOUND]
    if found + members.size[WHOLE] == 0:
        return post
    span = members.span[:found]
    if found <= FEW and members.size[WHOLE] == 0:
        total, box, _ = part_members(
            better.T, better.shape[0], span, (apex[0], apex[0], apex[1]), room, new_cells()
        )
    else:
        slabs = outline(better, same, apex[0], apex[1], easel.k)
        total, box = part_region(easel.corners, easel.bound, slabs, apex[0], easel.k, members)
    easel.tally[SNAP] += total
    return write_tiles(easel.corners, members.cut, box, total, easel.bound, better, room, post)


@njit(**EXACT)
def _tell_region(easel: Easel, slabs: Slabs, x: float, better: Floats, post: Post) -> Post:
    """Tile the region of all slabs [Range App. D, Alg. 8]."""
    found, room = easel.members.size[FOUND], room_of(stairs_of(slabs, 0), easel.k)
    if easel.aware and found == 0 and not easel.asking:
        return post
    rows = new_rows(easel.k, post.size[0], 0, slabs.size[0])
    for z in range(slabs.size[0]):
        easel.tiles.size[0] = 0
        paint_region(stairs_of(slabs, z), x, easel.k, easel.tiles)
        post = emit(easel.tiles, easel.bound, easel.lists, post, rows, z, slabs.height[z], above(slabs, z))
    return _thin(easel, slabs, rows, (np.int64(0), found), better, room, post)


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
        post = _thin(easel, slabs, rows, gains, np.empty((0, 2)), 0, post)
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
def _sweep(easel: Easel, slabs: Slabs, x: float, old: float, row: int, value: Floats, post: Post) -> Post:
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


@njit(**EXACT)
def paint(easel: Easel, row: int, old: float, value: Floats, post: Post) -> Post:
    """Append the tiles of one moment: an object comes from an old value to the one it has now.

    The tree of objects holds it at its place; which of the two values it has there does not matter.
    """
    now, first, members, k = value[row], post.size[0], easel.members, easel.k
    place = easel.objects.point[easel.objects.slot_of[row]]
    x, height = place[0], easel.sign * place[1]
    better, same = surround(easel.along, row, min(old, now), k, easel.sign)
    count_questions(better, height, same, k, easel.tally)
    exact = easel.lists == 0 and not easel.asking
    if easel.aware:
        how = (now > old, not exact)
        find_members(easel.corners, better, same, (x, height), k, easel.bound, how, members)
    if easel.aware and exact:
        post = _tell_members(easel, (x, height), better, same, post)
        stamp(post, first, row, now, (place[0], place[1]))
        return post if now < old else tell_gains(easel, better, row, old, value, post)
    slabs = outline(better, same, x, height, k)
    post = _tell_region(easel, slabs, x, better, post)
    stamp(post, first, row, now, (place[0], place[1]))
    return post if now < old else _sweep(easel, slabs, x, old, row, value, post)
