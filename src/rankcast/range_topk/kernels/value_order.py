"""Objects in the order of their values: what comes next in the boxes of lists that lose an item.

A list ends where k objects of its box have been met, so what follows its last item is met soon when objects
are taken by value, in whatever order they lie: after 1 / (share of the objects in the box) of them in the
mean. A walk through the tree of objects passes all better ones in the box again. Boxes that meet nothing for
long, which are small, ask the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corner_next import ask_near
from rankcast.range_topk.kernels.corner_tree import CornerTree, Floats, Rows
from rankcast.structures.jit import EXACT

FAR = 1024  # objects passed before the tree is asked


class Order(NamedTuple):
    """Objects by value and label, with their places; all that have a weight in their tree, or none."""

    row: Rows
    point: Floats
    value: Floats
    label: NDArray[np.int64]


class Asked(NamedTuple):
    """Boxes as corners, the value and the label of the item behind which each looks, and what it found."""

    corner: Floats
    after: Floats
    label: NDArray[np.int64]
    found: Rows
    open: Rows


@njit(**EXACT)
def _pass_by(order: Order, asked: Asked, count: int, hull: Floats, start: int, end: int) -> np.int64:
    """Let objects start..end-1 answer the open boxes, all inside the hull; return how many stay open."""
    point, value, label, row = order.point, order.value, order.label, order.row
    corner, after, after_label, found, waits = asked.corner, asked.after, asked.label, asked.found, asked.open
    left, j, width = np.uint64(count), np.uint64(start), np.uint64(point.shape[1])
    while left > np.uint64(0) and j < np.uint64(end):
        inside = True
        for axis in range(width):
            x = point[j, axis]
            inside &= (hull[np.uint64(2) * axis] <= x) & (hull[np.uint64(2) * axis + np.uint64(1)] <= -x)
        i = np.uint64(0) if inside else left
        while i < left:
            lane = np.uint32(waits[i])
            fits = value[j] > after[lane] or (value[j] == after[lane] and label[j] > after_label[lane])
            for axis in range(width):
                x = point[j, axis]
                fits &= corner[lane, np.uint64(2) * axis] <= x
                fits &= corner[lane, np.uint64(2) * axis + np.uint64(1)] <= -x
            if fits:
                found[lane] = row[j]
                left -= np.uint64(1)
                waits[i] = waits[left]
            else:
                i += np.uint64(1)
        j += np.uint64(1)
    return np.int64(left)


@njit(**EXACT)
def ask_in_order(
    order: Order, objects: CornerTree, label: NDArray[np.int64], asked: Asked, count: int, gap: float
) -> None:
    """Find the best object in each of the first `count` boxes that is worse than its pair, or -1.

    The boxes are those of neighbours. `gap` is how far the values of their lists lie apart.
    """
    corner, after, hull, least = asked.corner, asked.after, asked.corner[0].copy(), np.inf
    for i in range(count):
        asked.found[i], asked.open[i], least = -1, i, min(least, after[i])
        for side in range(hull.shape[0]):
            hull[side] = min(hull[side], corner[i, side])
    total = order.value.shape[0]
    start = np.searchsorted(order.value, least)
    end = min(start + FAR, total)
    left = _pass_by(order, asked, count, hull, start, end)
    if left == 0 or (end == total and total > 0):
        return
    lanes = asked.open[:left]
    part = np.empty(left, np.int32)
    ask_near(objects, label, corner[lanes], after[lanes], asked.label[lanes], part, gap)
    asked.found[lanes] = part
