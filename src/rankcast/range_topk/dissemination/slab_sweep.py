"""The sweep of a fallen object's value upwards, in 1.5 dimensions, slab by slab.

The next object that is passed inside the polygon is the best of the next ones of all slabs, each kept until
it falls out of its slab's interval. It gains what the staircases of its slabs lose, from its own height on;
the slab it lies in is parted there, and neighbours with equal lists become one. [Range App. D, Alg. 9, 11]

The published server, as we read it (`asking`): l_z and r_z of section III-B are the ends that all members
left reach together. A slab's rectangle ends there from when an exposed object lies in it or changes its
lists, not before; a next object that is outside then is looked for again (Alg. 11, line 19).

Cost: a question a slab, and one each time a slab needs another next object.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.corner_merge import Post
from rankcast.range_topk.dissemination.slab_easel import Easel, emit, new_rows, stamp
from rankcast.range_topk.dissemination.slab_fit import thin
from rankcast.range_topk.dissemination.slab_members import FOUND, pass_object, reach_of
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
from rankcast.range_topk.kernels.corner_tree import Floats, Rows
from rankcast.range_topk.kernels.corners_search import find_next
from rankcast.range_topk.kernels.staircase import expose, paint_gain, reach
from rankcast.range_topk.kernels.tiles import below
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
