"""Which zones a changed object may break: a search of an R-tree of zones.

Points of that tree are (x, y, radius, reach). An object's lowest score in a zone is bounded over a block by
its distance to the box of centres, less the largest radius; where that is above the largest reach, no zone of
the block has the object as a member, and none can be broken by it. For each zone that is left, `members`
asks whether it lists the object, `newcomers` whether the object's irrelevant circle is smaller than the zone.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.moving.kernels.rtree import BRANCH, Rtree, root_of
from rankcast.moving.kernels.rtree_search import child_distance
from rankcast.moving.kernels.zone_follow import Bools, Held
from rankcast.moving.kernels.zone_irrelevant import Best, irrelevant
from rankcast.moving.kernels.zone_scores import Floats, Form, Ints, Rows, lowest, value
from rankcast.structures.distance import distance
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def within_reach(form: Form, tree: Rtree, one: Floats, stack: Ints, found: Rows) -> int:
    """Write the zones that an object with the record `one` may concern to `found`; return how many."""
    size, depth = 0, 0
    for layer in range(tree.count.size):
        if tree.count[layer] > 0:
            stack[depth] = root_of(tree, layer)
            depth += 1
    while depth > 0:
        depth -= 1
        block = stack[depth]
        first = np.int64(tree.first[block])
        for slot in range(np.int64(tree.width[block])):
            d = child_distance(tree.low, tree.high, form.metric, one[0], one[1], block, slot)
            radius, reach = tree.high[block, 2, slot], tree.high[block, 3, slot]
            if lowest(form, one[2], one[3], d, radius) > reach:
                continue
            if first < 0:
                stack[depth] = ~first + slot
                depth += 1
                continue
            leaf = first + slot
            for j in range(BRANCH):
                if tree.row[leaf, j] >= 0:
                    d = distance(form.metric, tree.point[leaf, 0, j], tree.point[leaf, 1, j], one[0], one[1])
                    if lowest(form, one[2], one[3], d, tree.point[leaf, 2, j]) <= tree.point[leaf, 3, j]:
                        found[size] = tree.row[leaf, j]
                        size += 1
    return size


@njit(**EXACT)
def members(form: Form, tree: Rtree, record: Floats, held: Held, objects: Rows, marked: Bools) -> None:
    """Mark the zones that have one of the objects, with its record so far, as a member."""
    stack, found = np.empty(tree.first.size + tree.count.size, np.int64), np.empty(tree.count.sum(), np.int32)
    for o in objects:
        for i in range(within_reach(form, tree, record[o], stack, found)):
            row = found[i]
            start = held.start[row]
            for j in range(start, start + held.count[row]):
                marked[row] |= held.member[j] == o


@njit(**EXACT)
def _best_at_centre(
    form: Form, record: Floats, label: Ints, held: Held, row: int, k: int, space: Best
) -> Best:
    """The first k members of a zone as they are at its centre, best first: rows, scores, distances."""
    rows, scores, aways = space
    start, x, y = held.start[row], held.x[row], held.y[row]
    size = held.count[row]
    for j in range(size):
        item = held.member[start + j]
        away = distance(form.metric, x, y, record[item, 0], record[item, 1])
        score, at = value(form, record[item, 2], record[item, 3], away), j
        while at > 0 and (
            scores[at - 1] > score or (scores[at - 1] == score and label[rows[at - 1]] > label[item])
        ):
            scores[at], aways[at], rows[at] = scores[at - 1], aways[at - 1], rows[at - 1]
            at -= 1
        scores[at], aways[at], rows[at] = score, away, item
    size = min(k, size)
    return rows[:size], scores[:size], aways[:size]


@njit(**EXACT)
def newcomers(
    form: Form,
    tree: Rtree,
    record: Floats,
    label: Ints,
    held: Held,
    objects: tuple[Rows, Floats],
    wants: tuple[Ints, int, int, Floats, Floats],
    marked: Bools,
) -> None:
    """Mark the zones that objects, which are no members, break.

    `objects` are rows and attributes (n, d); `wants` is, by subscription, k (0: the one that follows), then
    m, then the filter.
    """
    rows, attributes = objects
    own_k, k, m, lower, upper = wants
    count, radii = held.count, held.radius
    stack, found = np.empty(tree.first.size + tree.count.size, np.int64), np.empty(tree.count.sum(), np.int32)
    space = np.empty(0, np.int32), np.empty(0), np.empty(0)
    for n in range(rows.size):
        o = rows[n]
        for i in range(within_reach(form, tree, record[o], stack, found)):
            row = found[i]
            if marked[row]:
                continue
            outside = False
            for a in range(attributes.shape[1]):
                outside |= attributes[n, a] < lower[row, a] or attributes[n, a] > upper[row, a]
            if outside:
                continue
            size = own_k[row] if own_k[row] > 0 else k
            if count[row] < size + m - 1:
                marked[row] = True
                continue
            if count[row] > space[0].size:
                space = np.empty(count[row], np.int32), np.empty(count[row]), np.empty(count[row])
            best = _best_at_centre(form, record, label, held, row, size, space)
            place, radius = (held.x[row], held.y[row]), radii[row]
            marked[row] = irrelevant(form, record, label, best, o, place, radius) < radius or radius == 0.0
