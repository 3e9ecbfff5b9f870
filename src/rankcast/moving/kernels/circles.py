"""Preferred circles: how far a query may go before an object p may come before a result o [Moving §4.3.3].

`preferred` returns a radius around the query inside which o stays before p, whatever is rounded there: 0 if
none is known, at most `limit`. `irrelevant` does so for an object against all of the best: its irrelevant
circle. There are four methods, of which the best that applies is taken:

- `lemma`: the highest score of o in a circle against the lowest of p (Lemma 10): any metric, any score.
- Closed forms in the euclidean plane, and in space. Weighted sum: where p comes before o, d(o) - d(p) > c,
  is bounded by one branch of a hyperbola with the foci o and p. Weighted product and distance: where
  d(p) < a d(o), by a circle of Apollonius. The radius is the distance to that curve: the largest circle
  there is.
- Gains (`gain`), for every other score and metric: how much p may gain on o on a way.
- `trim`: the paper's rectangles in the plane, if they are asked for.

The hyperbola. In the frame of its axes, x^2/a^2 - y^2/b^2 = 1, the branch at x > 0 is (a sqrt(1 + s^2), b
s). The nearest point to (X, Y), Y > 0, is where its normal goes through (X, Y): at the root s > 0 of

h(s) = (a^2 + b^2) s - b Y - a X s / sqrt(1 + s^2)

which starts at -b Y. For X > 0 it is convex and above 0 at (b Y + a X) / (a^2 + b^2): Newton's steps come
down to the root from there. For X < 0 (the other branch is meant) it is concave and they come up from 0.

Trimming [Moving §4.3.2, §4.3.3]. The part of a rectangle that is sure to lie where o is before p is cut off
(`_trimmed`, Algorithm 4): all of it if the highest score of o there is below the lowest of p (Lemma 12);
otherwise what lies outside the circle around p, or inside the circle around o, at which the one reaches the
other's extreme (Lemmas 14, 15). What is left is bounded by a rectangle and quartered, nearest first
(Algorithm 5); when a rectangle is small enough, or the limit of rectangles is reached, its distance from the
query is the radius. A score without an inverse has Lemma 12 alone. Circles give way by a few units in the
last place.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankcast.moving.kernels.gain import taxi_circle, turned_circle
from rankcast.moving.kernels.scores import (
    APART,
    CLOSED,
    DISTANCE,
    LEMMA,
    PRODUCT,
    SPACE,
    SUM,
    Floats,
    Ints,
    Place,
    Rows,
    ScoreForm,
    Z,
    apart,
    at_row,
    box_distance,
    far_distance,
    fuzz,
    highest,
    lowest,
    value,
)
from rankcast.structures.distance import EUCLIDEAN, HAVERSINE, MANHATTAN
from rankcast.structures.heap import pop, push
from rankcast.structures.jit import EXACT

OUTWARD, INWARD = 1 + 1e-12, 1 - 1e-12
ROOMY = 4.0  # the first rectangle when nothing limits it, in distances of the two objects


@njit(**EXACT)
def relative_distance(form: ScoreForm, s: float, p: float, score: float) -> float:
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
def _trimmed(form: ScoreForm, o: Floats, p: Floats, box: Floats) -> bool:
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
def trim(form: ScoreForm, o: Floats, p: Floats, place: Place, known: float, limit: float) -> float:
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
    room = 4 * form.rounds + 8
    keys, numbers, boxes = np.empty(room), np.empty(room, np.int64), np.empty((room, 4))
    box, part = np.empty(4), np.empty(4)
    box[0], box[1], box[2], box[3] = place[0] - half, place[0] + half, place[1] - half, place[1] + half
    size, met, rounds = 0, 0, 0
    if _trimmed(form, o, p, box):
        key = box_distance(form.metric, place[0], place[1], box[0], box[1], box[2], box[3])
        boxes[met] = box
        size, met = push(keys, numbers, size, key, met), met + 1
    while size > 0:
        nearest = keys[0]
        if nearest >= half:
            break
        box[:] = boxes[numbers[0]]
        size = pop(keys, numbers, size)
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
                    boxes[met] = part
                    size, met = push(keys, numbers, size, key, met), met + 1
    return half


STEPS = 60
FLAT = 1e-7  # a hyperbola whose c is below this part of the distance of its foci is taken for a line
NUDGE = 1e-12
CLOSE = 1e-8  # Newton's steps square the error: after one this small there is none left
SHRINK = 1 - 1e-9


Spot = tuple[Place, float, float]  # where, weighted sum of attributes, distance from the place


@njit(**EXACT)
def forever(form: ScoreForm, record: Floats, label: Ints, o: int, p: int) -> bool:
    """Whether o is before p everywhere, as computed.

    That is when distance does not count and o is before p, or when both are at one place, o is not worse, and
    ties are its.
    """
    if form.weight == 0.0:
        first = value(form, record[o, 2], record[o, 3], 0.0)
        second = value(form, record[p, 2], record[p, 3], 0.0)
        return first < second or (first == second and label[o] < label[p])
    if record[o, 0] != record[p, 0] or record[o, 1] != record[p, 1] or label[o] > label[p]:
        return False
    if form.metric == SPACE and record[o, Z] != record[p, Z]:
        return False
    by_sum, by_product = record[o, 2] <= record[p, 2], record[o, 3] <= record[p, 3]
    if form.kind == DISTANCE:
        return record[o, 2] >= record[p, 2]
    return by_sum if form.kind == SUM else by_product and (by_sum or form.kind == PRODUCT)


@njit(**EXACT)
def _apart(form: ScoreForm, record: Floats, pair: tuple[int, int, float, float], radius: float) -> bool:
    """Whether the highest score of o is below the lowest of p in a circle (Lemma 10)."""
    o, p, d_o, d_p = pair
    most = highest(form, record[o, 2], record[o, 3], d_o, radius)
    return most < lowest(form, record[p, 2], record[p, 3], d_p, radius)


@njit(**EXACT)
def lemma(form: ScoreForm, record: Floats, pair: tuple[int, int, float, float], limit: float) -> float:
    """The largest radius, at most `limit`, for which Lemma 10 tells o and p apart, by bisection."""
    low, high = 0.0, limit if limit < np.inf else pair[2] + pair[3] + 1.0
    while high < 1e150 and _apart(form, record, pair, high):
        if high == limit:
            return limit
        low, high = high, 4 * high
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if _apart(form, record, pair, middle):
            low = middle
        else:
            high = middle
        if high - low <= 1e-10 * high:
            break
    return low


@njit(**EXACT)
def _normal(x: float, y: float, a2: float, b2: float) -> float:
    """The distance from (x, y), y > 0, to the branch of the hyperbola at positive x."""
    a, b, e2 = math.sqrt(a2), math.sqrt(b2), a2 + b2
    along, across = a * x, b * y
    s = (across + along) / e2 if x > 0 else 0.0
    for _ in range(STEPS):
        root = math.sqrt(1 + s * s)
        rest = along / root
        step = (e2 * s - across - rest * s) / (e2 - rest / (root * root))
        s -= step
        if not abs(step) > CLOSE * s:
            break
    dx, dy = a * math.sqrt(1 + s * s) - x, b * s - y
    return math.sqrt(dx * dx + dy * dy)


@njit(**EXACT)
def to_hyperbola(o: Place, p: Place, place: Place, foci: float, c: float) -> float:
    """The distance from a place with d(o) - d(p) < c, 0 < |c| < |op|, to where d(o) - d(p) > c, or less.

    In space it is a hyperboloid around the line through o and p: the nearest point lies in the plane of
    all three, so only how far the place is along that line and from it counts.
    """
    along_x, along_y, along_z = (p[0] - o[0]) / foci, (p[1] - o[1]) / foci, (p[2] - o[2]) / foci
    dx, dy = place[0] - 0.5 * (o[0] + p[0]), place[1] - 0.5 * (o[1] + p[1])
    dz = place[2] - 0.5 * (o[2] + p[2])
    x, y = dx * along_x + dy * along_y + dz * along_z, abs(dy * along_x - dx * along_y)
    if dz != 0.0 or along_z != 0.0:
        sideways, upright = dz * along_x - dx * along_z, dz * along_y - dy * along_z
        y = math.sqrt(y * y + sideways * sideways + upright * upright)
    a2, b2 = 0.25 * c * c, 0.25 * (foci - abs(c)) * (foci + abs(c))
    found = _normal(x if c > 0 else -x, max(y, NUDGE * foci), a2, b2)
    return found * SHRINK - 8 * NUDGE * (foci + abs(x) + y)


@njit(**EXACT)
def _sum_circle(weight: float, o: Spot, p: Spot, place: Place, limit: float) -> float:
    """The preferred circle of a weighted sum: no more than `limit`, less what rounding may do within it.

    The difference d(o) - d(p) changes by twice a step at most, which often says enough.
    """
    d_o, d_p = o[2], p[2]
    difference = (p[1] - o[1]) / weight
    foci = apart(SPACE, o[0], p[0])
    rounding = 4 * APART * ((abs(o[1]) + abs(p[1])) / weight + d_o + d_p)
    c = difference - rounding
    if c > foci:
        limit = min(limit, (c - foci) / (8 * APART))
    else:
        limit = min(limit, 64 * (abs(difference) + d_o + d_p))
    c -= 8 * APART * limit
    sure = 0.5 * (c - (d_o - d_p))
    if sure >= limit or c >= foci * (1 - APART):
        return limit
    if sure <= 0.0 or c <= -foci:
        return 0.0
    if abs(c) <= FLAT * foci:
        line = (d_p - d_o) * (d_p + d_o) / (2 * foci)
        return min(limit, max(sure, line - max(0.0, -c) * (d_o + d_p + 2 * max(0.0, line)) / (2 * foci)))
    return min(limit, max(sure, to_hyperbola(o[0], p[0], place, foci, c)))


@njit(**EXACT)
def to_apollonius(foci: float, d_o: float, d_p: float, factor: float) -> float:
    """The distance from a place with d(p) >= factor d(o) to where d(p) < factor d(o)."""
    power = (d_p - factor * d_o) * (d_p + factor * d_o)
    root = (1 - factor) * (1 + factor) * power + (factor * foci) * (factor * foci)
    below = math.sqrt(max(0.0, root)) + factor * foci
    return power / below * SHRINK if power > 0 and below > 0 else 0.0


@njit(**EXACT)
def _ratio_circle(form: ScoreForm, record: Floats, pair: tuple[int, int, float, float]) -> float:
    """The preferred circle of a weighted product or distance."""
    o, p, d_o, d_p = pair
    foci = apart(form.metric, at_row(form.metric, record, o), at_row(form.metric, record, p))
    if form.kind == DISTANCE:
        return to_apollonius(foci, d_o, d_p, record[p, 2] / record[o, 2] * (1 + 8 * APART))
    factor = math.pow(record[o, 3] / record[p, 3], 1 / form.weight)
    return to_apollonius(foci, d_o, d_p, factor * (1 + 8 * APART * (1 + 1 / form.weight)))


@njit(**EXACT)
def _by_bounds(
    form: ScoreForm,
    record: Floats,
    pair: tuple[int, int, float, float],
    place: Place,
    limit: float,
) -> float:
    """The preferred circle of any score, by the lemma, and by gains or by rectangles."""
    by_gain = form.way == CLOSED and form.metric != MANHATTAN
    if by_gain and limit < np.inf and turned_circle(form, record, pair, place, np.nan, limit) == limit:
        return limit
    found = lemma(form, record, pair, limit)
    if found >= limit or form.way == LEMMA:
        return found
    if form.way == CLOSED and form.metric == MANHATTAN:
        return taxi_circle(form, record, pair, place, found, limit)
    if by_gain or form.metric in (HAVERSINE, SPACE):
        return turned_circle(form, record, pair, place, found, limit)
    return max(found, trim(form, record[pair[0]], record[pair[1]], place, found, limit))


@njit(**EXACT)
def preferred(
    form: ScoreForm,
    record: Floats,
    label: Ints,
    pair: tuple[int, int, float, float],
    place: Place,
    limit: float,
) -> float:
    """A radius, at most `limit`, inside which o stays before p; 0 if it is not before p at the place.

    `pair` is o, p, and their distances from the place.
    """
    o, p, d_o, d_p = pair
    if forever(form, record, label, o, p):
        return limit
    if form.weight == 0.0:
        return 0.0
    if form.way != CLOSED or form.metric not in (EUCLIDEAN, SPACE) or form.kind > DISTANCE:
        return _by_bounds(form, record, pair, place, limit)
    if form.kind == SUM:
        first = at_row(form.metric, record, o), record[o, 2], d_o
        second = at_row(form.metric, record, p), record[p, 2], d_p
        return _sum_circle(form.weight, first, second, place, limit)
    return min(limit, _ratio_circle(form, record, pair))


Best = tuple[Rows, Floats, Floats]  # the best k objects in order: rows, scores, distances


@njit(**EXACT)
def irrelevant(
    form: ScoreForm,
    record: Floats,
    label: Ints,
    best: Best,
    p: int,
    place: Place,
    limit: float,
) -> float:
    """A radius, at most `limit`, inside which p stays behind all of the best: Algorithm 6.

    A weighted sum changes by the weight times the way at most: most
    pairs need no circle.
    """
    rows, scores, aways = best
    radius, weight = limit, form.weight
    d_p = apart(form.metric, place, at_row(form.metric, record, p))
    score = value(form, record[p, 2], record[p, 3], d_p)
    rounding = 8 * APART + 2 * fuzz(form)
    for j in range(rows.size - 1, -1, -1):
        if form.kind == SUM:
            way = weight * radius
            scale = abs(score) + abs(scores[j]) + 2 * weight * (d_p + aways[j]) + 2 * way
            if score - scores[j] > 2 * way + rounding * scale:
                continue
        radius = preferred(
            form, record, label, (np.int64(rows[j]), np.int64(p), aways[j], d_p), place, radius
        )
        if radius <= 0.0:
            return 0.0
    return radius


@njit(**EXACT)
def highest_of(form: ScoreForm, record: Floats, best: Best, radius: float) -> float:
    """At least the score of each of the best anywhere in a circle: MScore."""
    rows, _, aways = best
    found = -np.inf
    for j in range(rows.size):
        s, p = record[rows[j], 2], record[rows[j], 3]
        found = max(found, highest(form, s, p, aways[j], radius))
    return found
