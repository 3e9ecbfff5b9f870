"""Preferred circles by trimming rectangles, for any score in the plane [Moving §4.3.2, §4.3.3].

The part of a rectangle that is sure to lie where o is before p is cut off (`_trimmed`, Algorithm 4): all of
it if the highest score of o there is below the lowest of p (Lemma 12); otherwise what lies outside the circle
around p, or inside the circle around o, at which the one reaches the other's extreme (Lemmas 14, 15). What
is left is bounded by a rectangle and quartered, nearest first (Algorithm 5); when a rectangle is small
enough, or enough have been looked at, its distance from the query is the radius. A score without an inverse
has Lemma 12 alone. Circles give way by a few units in the last place.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankcast.moving.kernels.zone_scores import (
    DISTANCE,
    PRODUCT,
    SUM,
    Floats,
    Form,
    box_distance,
    far_distance,
    highest,
    lowest,
)
from rankcast.structures.distance import EUCLIDEAN
from rankcast.structures.jit import EXACT

OUTWARD, INWARD = 1 + 1e-12, 1 - 1e-12
ROOMY = 4.0  # the first rectangle when nothing limits it, in distances of the two objects


@njit(**EXACT)
def relative_distance(form: Form, s: float, p: float, score: float) -> float:
    """The distance at which an object has the score (Definition 12); NaN if there is no inverse."""
    if form.kind == SUM:
        return (score - s) / form.weight
    if form.kind == DISTANCE:
        return score * s
    if form.kind == PRODUCT:
        return math.pow(max(score, 0.0) / p, 1 / form.weight)
    return np.nan


@njit(**EXACT)
def _chord(metric: int, radius: float, away: float) -> float:
    """Half the chord of a circle at some distance from its centre; -1 if there is none."""
    if not away <= radius:
        return -1.0
    return math.sqrt((radius - away) * (radius + away)) if metric == EUCLIDEAN else radius - away


@njit(**EXACT)
def _within(metric: int, centre: Floats, radius: float, box: Floats) -> bool:
    """Cut a box (low x, high x, low y, high y) to the circle, in place; False if nothing is left."""
    for axis in range(2):
        low, high, other = 2 * axis, 2 * axis + 1, 2 - 2 * axis
        at = centre[1 - axis]
        half = _chord(metric, radius, max(0.0, box[other] - at, at - box[other + 1]))
        if half < 0:
            return False
        half *= OUTWARD
        box[low], box[high] = max(box[low], centre[axis] - half), min(box[high], centre[axis] + half)
        if box[low] > box[high]:
            return False
    return True


@njit(**EXACT)
def _without(metric: int, centre: Floats, radius: float, box: Floats) -> bool:
    """Cut off the ends of a box that lie in the circle, in place; False if all of it does."""
    for axis in range(2):
        low, high, other = 2 * axis, 2 * axis + 1, 2 - 2 * axis
        at = centre[1 - axis]
        half = _chord(metric, radius, max(abs(box[other] - at), abs(box[other + 1] - at)))
        if half < 0:
            continue
        from_, to = centre[axis] - half * INWARD, centre[axis] + half * INWARD
        if from_ <= box[low] and box[high] <= to:
            return False
        if from_ <= box[low] <= to:
            box[low] = to
        elif from_ <= box[high] <= to:
            box[high] = from_
    return True


@njit(**EXACT)
def _trimmed(form: Form, o: Floats, p: Floats, box: Floats) -> bool:
    """Trim a box (low x, high x, low y, high y) in place; False if nothing of it is left."""
    metric = form.metric
    far = far_distance(metric, o[0], o[1], box[0], box[1], box[2], box[3])
    near = box_distance(metric, p[0], p[1], box[0], box[1], box[2], box[3])
    most, least = highest(form, o[2], o[3], far, 0.0), lowest(form, p[2], p[3], near, 0.0)
    if most < least:
        return False
    around_p = relative_distance(form, p[2], p[3], most)
    if not np.isfinite(around_p):
        return True
    reach = far_distance(metric, p[0], p[1], box[0], box[1], box[2], box[3])
    unsure = 1e-12 * (abs(p[2]) + abs(o[2])) / form.weight if form.kind == SUM else 0.0
    if not _within(metric, p, around_p * OUTWARD + unsure + 1e-12 * reach, box):
        return False
    around_o = relative_distance(form, o[2], o[3], least)
    return _without(metric, o, around_o * INWARD - unsure - 1e-12 * reach, box)


@njit(**EXACT)
def _push(keys: Floats, boxes: Floats, size: int, key: float, box: Floats) -> int:
    """Add a box to a heap with the nearest on top; return the new size."""
    hole = size
    while hole > 0 and keys[(hole - 1) // 2] > key:
        parent = (hole - 1) // 2
        keys[hole] = keys[parent]
        boxes[hole] = boxes[parent]
        hole = parent
    keys[hole] = key
    boxes[hole] = box
    return size + 1


@njit(**EXACT)
def _pop(keys: Floats, boxes: Floats, size: int, box: Floats) -> int:
    """Take the nearest box into `box`; return the new size."""
    box[:] = boxes[0]
    size -= 1
    key, hole = keys[size], 0
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[hole] = keys[child]
        boxes[hole] = boxes[child]
        hole = child
    keys[hole] = key
    boxes[hole] = boxes[size]
    return size


@njit(**EXACT)
def trim(form: Form, o: Floats, p: Floats, place: tuple[float, float], known: float, limit: float) -> float:
    """A radius, at most `limit`, inside which o (x, y, s, p) is before p; 0 if `known` is 0.

    `known` is a radius that is sure already: where it is 0 the query is so close to the border that the
    first rectangle would be quartered in vain.
    """
    if known <= 0.0:
        return 0.0
    half = limit
    if limit == np.inf:
        half = ROOMY * (box_distance(form.metric, place[0], place[1], o[0], o[0], o[1], o[1]) + known)
        half += ROOMY * box_distance(form.metric, place[0], place[1], p[0], p[0], p[1], p[1])
    keys, boxes = np.empty(3 * form.rounds + 8), np.empty((3 * form.rounds + 8, 4))
    box, part = np.empty(4), np.empty(4)
    box[0], box[1], box[2], box[3] = place[0] - half, place[0] + half, place[1] - half, place[1] + half
    size, rounds = 0, 0
    if _trimmed(form, o, p, box):
        key = box_distance(form.metric, place[0], place[1], box[0], box[1], box[2], box[3])
        size = _push(keys, boxes, size, key, box)
    while size > 0:
        nearest = keys[0]
        if nearest >= half:
            break
        size = _pop(keys, boxes, size, box)
        rounds += 1
        if max(box[1] - box[0], box[3] - box[2]) <= form.epsilon * half or rounds >= form.rounds:
            return nearest * INWARD
        middle_x, middle_y = 0.5 * (box[0] + box[1]), 0.5 * (box[2] + box[3])
        for quarter in range(4):
            part[0], part[1] = (box[0], middle_x) if quarter % 2 == 0 else (middle_x, box[1])
            part[2], part[3] = (box[2], middle_y) if quarter < 2 else (middle_y, box[3])
            if _trimmed(form, o, p, part):
                key = box_distance(form.metric, place[0], place[1], part[0], part[1], part[2], part[3])
                if key < half:
                    size = _push(keys, boxes, size, key, part)
    return half
