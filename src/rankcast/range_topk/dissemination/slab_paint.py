"""Painting in 1.5 dimensions: two attributes, the second bounded on one side.

An improved value: the new region is tiled. A worse one: the old region is, then what the objects that are
passed gain. Without subscriptions that goes slab by slab (`slabs`, `slab_sweep`), and tiles of neighbouring
slabs with the same ranges become one at once. [Range App. D, Alg. 8, 10, 11]

Where subscriptions are known, the members of the region are found first (`slab_members`), and tiles are made
from them: those of the region from a few (`slab_cells`) or by slabs (`slab_strips`), then what each of them
gains (`slab_gains`). Nothing is painted where nobody is, and no slab asks for its next object. With epsilon
tiles are painted, and shrunk to the members in them (`slab_fit`).

Ties: objects of one height come in together, and change the lists of one slab; those at the same x take a
place of everybody's list. Cost: a walk to both sides, and what the modules named above take.

Events in 1.5 dimensions, one after the other: painted and applied to the objects; no board is touched.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.range_topk.dissemination.cover import Post
from rankcast.range_topk.dissemination.slab_members import FOUND, MOMENT, TWICE, WHOLE, find_members
from rankcast.range_topk.dissemination.slab_merge import Easel, emit, new_rows, stamp, write_tiles
from rankcast.range_topk.dissemination.slab_sweep import fit, sweep, tell_gains
from rankcast.range_topk.dissemination.slab_tiles import new_cells, part_members, part_region
from rankcast.range_topk.dissemination.slabs import SNAP, Slabs, above, count_questions, outline, stairs_of
from rankcast.range_topk.kernels.corners import Floats, put_in, set_weight, spare_buckets, take_out
from rankcast.range_topk.kernels.object_tree import insert, remove, roomy, set_value
from rankcast.range_topk.kernels.regions import paint_region, room_of
from rankcast.range_topk.kernels.slab_search import surround
from rankcast.range_topk.kernels.steps import Events, differs
from rankcast.structures.jit import EXACT

FEW = 128  # members up to which a region's tiles are made from them alone


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
    return fit(easel, slabs, rows, (np.int64(0), found), better, room, post)


@njit(**EXACT)
def paint(easel: Easel, row: int, old: float, value: Floats, post: Post) -> Post:
    """Append the tiles of one moment: an object comes from an old value to the one it has now.

    The tree of objects holds it at its place; which of the two values it has there does not matter.
    """
    now, first, members, k = value[row], post.size[0], easel.members, easel.k
    place = easel.objects.point[easel.objects.slot_of[row]]
    x, height = place[0], easel.sign * place[1]
    every = easel.objects.size[0] <= k  # all are in the lists of all who hold them
    better, same = surround(easel.along, row, -np.inf if every else min(old, now), k, easel.sign)
    count_questions(better, height, same, k, easel.tally)
    exact = easel.lists == 0 and not easel.asking
    if easel.aware:
        how = (now > old, not exact)
        find_members(easel.corners, better, same, (x, height), k, easel.bound, how, members)
    if easel.aware and exact:
        post = _tell_members(easel, (x, height), better, same, post)
        stamp(post, first, row, now, (place[0], place[1]))
        return post if now < old or every else tell_gains(easel, better, row, old, value, post)
    slabs = outline(better, same, x, height, k)
    post = _tell_region(easel, slabs, x, better, post)
    stamp(post, first, row, now, (place[0], place[1]))
    return post if now < old or every else sweep(easel, slabs, x, old, row, value, post)


@njit(**EXACT)
def play(easel: Easel, events: Events, value: Floats, post: Post, start: int) -> tuple[int, Post]:
    """Paint and apply events from `start` on; return the first that needs more room, and the tiles."""
    objects, along, moment = easel.objects, easel.along, easel.members.size
    for event in range(start, events.row.shape[0]):
        row, y, rows = events.row[event], events.y[event], events.row[event : event + 1]
        present, old = objects.slot_of[row] >= 0, value[row]
        if spare_buckets(objects) < 8 or not roomy(along.tree):
            return event, post
        if present and (y == np.inf or differs(objects.point[objects.slot_of[row]], events.x[event])):
            value[row], moment[TWICE] = np.inf, y < np.inf
            post = paint(easel, row, old, value, post)
            take_out(objects, rows)
            remove(along.tree, row)
            present, old = False, np.inf
        if y != old:
            if present:
                set_weight(objects, row, -y)
                set_value(along.tree, row, y)
            elif put_in(objects, rows, events.x[event : event + 1], np.array([-y]), 0) == 0:
                return event, post
            else:
                insert(along.tree, row, events.x[event, 0], y)
                along.second[row] = events.x[event, 1]
            value[row] = y
            post = paint(easel, row, old, value, post)
        moment[MOMENT], moment[TWICE] = moment[MOMENT] + 1, 0
    return events.row.shape[0], post
