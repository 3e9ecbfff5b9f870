"""Objects against many rectangles in the plane at once: distances to the nearest and the farthest point.

A rectangle is (low x, high x, low y, high y); `which` says which one is meant for each object.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.moving.kernels.zone_scores import Floats, Ints, Rows, box_distance, far_distance
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def away(metric: int, record: Floats, rows: Rows, which: Ints, boxes: Floats, most: bool) -> Floats:
    """How far each object is from its rectangle, or, at most, from a point of it."""
    found = np.empty(rows.size)
    for i in range(rows.size):
        x, y, box = record[rows[i], 0], record[rows[i], 1], boxes[which[i]]
        if most:
            found[i] = far_distance(metric, x, y, box[0], box[1], box[2], box[3])
        else:
            found[i] = box_distance(metric, x, y, box[0], box[1], box[2], box[3])
    return found


@njit(**EXACT)
def touched(metric: int, x: Floats, y: Floats, boxes: Floats) -> tuple[Floats, Floats]:
    """The point of each rectangle nearest to the place beside it, as a rectangle; and how far it is."""
    spots, near = np.empty(boxes.shape), np.empty(x.size)
    for i in range(x.size):
        spots[i, 0] = spots[i, 1] = min(max(x[i], boxes[i, 0]), boxes[i, 1])
        spots[i, 2] = spots[i, 3] = min(max(y[i], boxes[i, 2]), boxes[i, 3])
        near[i] = box_distance(metric, x[i], y[i], boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3])
    return spots, near


@njit(**EXACT)
def quartered(boxes: Floats) -> Floats:
    """The four quarters of each rectangle, one after the other."""
    found = np.empty((4 * boxes.shape[0], 4))
    for i in range(boxes.shape[0]):
        middle_x, middle_y = 0.5 * (boxes[i, 0] + boxes[i, 1]), 0.5 * (boxes[i, 2] + boxes[i, 3])
        for quarter in range(4):
            part = found[4 * i + quarter]
            part[0], part[1] = (boxes[i, 0], middle_x) if quarter % 2 == 0 else (middle_x, boxes[i, 1])
            part[2], part[3] = (boxes[i, 2], middle_y) if quarter < 2 else (middle_y, boxes[i, 3])
    return found
