"""Events in 1.5 dimensions, one after the other: painted and applied to the objects; no board is touched."""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.range_topk.dissemination.corner_merge import Post
from rankcast.range_topk.dissemination.slab_easel import Easel
from rankcast.range_topk.dissemination.slab_members import MOMENT, TWICE
from rankcast.range_topk.dissemination.slab_paint import paint
from rankcast.range_topk.kernels.corner_edit import put_in, set_weight, take_out
from rankcast.range_topk.kernels.corner_steps import Events, differs
from rankcast.range_topk.kernels.corner_tree import Floats, spare_buckets
from rankcast.range_topk.kernels.object_tree import insert, remove, roomy, set_value
from rankcast.structures.jit import EXACT


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
