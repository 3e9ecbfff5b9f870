"""Scores of moving queries over arrays: exact at a place, bounded over a box and over a circle.

A `ScoreForm` says which score of `rankcast.moving.scoring` is meant. Whatever does not depend on distance is
folded into two static values an object, `s` (the weighted sum of attributes) and `p` (their weighted
product), so that

| kind     | score                                         | grows with |
| -------- | --------------------------------------------- | ---------- |
| SUM      | s + w d                                       | s, d       |
| PRODUCT  | p d^w                                         | p, d       |
| DISTANCE | d / s                                         | -s, d      |
| WASPAS   | lam (s + w d) + (1 - lam) (p d^w)             | s, p, d    |

with the same operations in the same order as there, hence the same bits. A record is (x, y, s, p), or with
the metric SPACE, the euclidean one of three dimensions, (x, y, s, p, z). A place is (x, y, z).

Rounding. Additions, products and roots are monotonic as computed, so the plane's bounds over a box are
exact. The sines of haversine and the C library's power are not: bounds that use them give way a little
(`FUZZ`, `POWER`). Over a circle a distance changes by at most the radius, in every metric; what is compared
there is set apart by `slack`, a few hundred units in the last place of everything that went into a score, so
that no rounding at any place in the circle, and no tie there, can turn the order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.distance import EARTH_RADIUS, EUCLIDEAN, HAVERSINE, MANHATTAN, distance
from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.int32]
Place = tuple[float, float, float]

SUM, PRODUCT, DISTANCE, WASPAS, CUSTOM = range(5)
CLOSED, TRIM, LEMMA = range(3)
SPACE = 3  # beside the metrics of `rankcast.structures.distance`
STATIC = 4  # x, y, s, p come before the attributes, in space z too
Z = 4  # the column of z
FUZZ, PLANE_FUZZ = 1e-7, 1e-14
MICRON = 1e-6  # metres: degrees are not finer
POWER = 1 - 2.0**-50
APART = 2.0**-44


class ScoreForm(NamedTuple):
    """A score, a metric, and how preferred circles are found."""

    kind: int
    metric: int
    weight: float  # of distance
    lam: float
    rest: float  # 1 - lam
    way: int  # CLOSED, TRIM or LEMMA
    epsilon: float  # the smallest rectangle, as a part of the first
    rounds: int  # rectangles looked at


@njit(**EXACT)
def value(form: ScoreForm, s: float, p: float, d: float) -> float:
    """The score of an object at distance d."""
    if form.kind == SUM:
        return s + form.weight * d
    if form.kind == DISTANCE:
        return d / s
    product = p * math.pow(d, form.weight)
    if form.kind == PRODUCT:
        return product
    return form.lam * (s + form.weight * d) + form.rest * product


@njit(**EXACT)
def least(form: ScoreForm, low_s: float, high_s: float, low_p: float, d: float) -> float:
    """No object with s and p in these bounds, at distance d or more, scores less."""
    if form.kind == SUM:
        return low_s + form.weight * d
    if form.kind == DISTANCE:
        return d / high_s
    return value(form, low_s, low_p, d) * POWER


@njit(**EXACT)
def slack(form: ScoreForm, s: float, d: float, score: float) -> float:
    """What rounding may do to a score at distance d, many times over."""
    if form.kind == SUM:
        return APART * (abs(s) + form.weight * d)
    return APART * (1 + form.weight) * score


@njit(**EXACT)
def fuzz(form: ScoreForm) -> float:
    """What rounding may do to a distance, as a part of it."""
    return FUZZ if form.metric == HAVERSINE else PLANE_FUZZ


@njit(**EXACT)
def highest(form: ScoreForm, s: float, p: float, d: float, radius: float) -> float:
    """At least the score anywhere in a circle of an object at distance d from its centre."""
    if radius == np.inf:
        return np.inf
    far = (d + radius) * (1 + fuzz(form))
    score = value(form, s, p, far)
    return score + slack(form, s, far, score)


@njit(**EXACT)
def lowest(form: ScoreForm, s: float, p: float, d: float, radius: float) -> float:
    """At most the score anywhere in a circle of an object at distance d from its centre."""
    near = max(0.0, d - radius - fuzz(form) * (d + radius)) if radius < np.inf else 0.0
    score = value(form, s, p, near)
    return score - slack(form, s, d + min(radius, d), score)


@njit(**EXACT)
def may_fall_to(form: ScoreForm, score: float, d: float, radius: float) -> float:
    """At most `lowest`, from the score at the centre alone: no power, no statics.

    With t = radius / d: a weighted sum falls by the weight times the radius, a quotient by the part t, a
    power (1 - t)^w of a distance by no more than the part t, or w t if w is above 1.
    """
    if radius == np.inf:
        return -np.inf
    way = radius + fuzz(form) * (d + radius)
    if form.kind == SUM:
        return score - form.weight * way - 4 * APART * (abs(score) + form.weight * (d + radius))
    share = way / d if form.kind == DISTANCE else max(1.0, form.weight) * way / d
    by_sum = form.lam * form.weight * way if form.kind == WASPAS else 0.0
    rest = 1 - share - 4 * APART * (1 + form.weight)
    return score * rest - by_sum if rest > 0.0 else -np.inf


@njit(**EXACT)
def gap(value: float, low: float, high: float) -> float:
    """How far a value is from an interval."""
    return max(0.0, low - value, value - high)


@njit(**EXACT)
def box_distance(
    metric: int, x: float, y: float, low_x: float, high_x: float, low_y: float, high_y: float
) -> float:
    """No point of the box is nearer, as `distance` computes it."""
    if metric == HAVERSINE:
        return _globe_distance(x, y, low_x, high_x, low_y, high_y)
    dx, dy = gap(x, low_x, high_x), gap(y, low_y, high_y)
    return math.sqrt(dx * dx + dy * dy) if metric == EUCLIDEAN else dx + dy


@njit(**EXACT)
def apart(metric: int, a: Place, b: Place) -> float:
    """The distance of two places."""
    if metric == SPACE:
        dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
        return math.sqrt(dx * dx + dy * dy + dz * dz)
    return distance(metric, a[0], a[1], b[0], b[1])


@njit(**EXACT)
def at_row(metric: int, record: Floats, row: int) -> Place:
    """Where an object is."""
    return record[row, 0], record[row, 1], record[row, Z] if metric == SPACE else 0.0


@njit(**EXACT)
def at_slot(metric: int, point: Floats, leaf: int, slot: int) -> Place:
    """Where a point of an R-tree is."""
    return point[leaf, 0, slot], point[leaf, 1, slot], point[leaf, Z, slot] if metric == SPACE else 0.0


@njit(**EXACT)
def at_line(metric: int, x: Floats, y: Floats, z: Floats, i: int) -> Place:
    """A place in columns, of which z is empty outside of space."""
    return x[i], y[i], z[i] if metric == SPACE else 0.0


@njit(**EXACT)
def _globe_distance(x: float, y: float, low_x: float, high_x: float, low_y: float, high_y: float) -> float:
    """The distance to a box of longitudes and latitudes, a little less for rounding.

    Along a parallel a point comes nearer as its longitude does, so the nearest point of a box beside the
    query lies on the nearer of its two meridians: where that turns away, or at the end next to there.
    """
    if low_x <= x <= high_x:
        return max(0.0, EARTH_RADIUS * math.radians(gap(y, low_y, high_y)) * (1 - FUZZ) - MICRON)
    west, east = abs(low_x - x) % 360.0, abs(high_x - x) % 360.0
    west, east = min(west, 360.0 - west), min(east, 360.0 - east)
    side, apart = (low_x, west) if west <= east else (high_x, east)
    north = math.radians(y)
    turn = math.degrees(math.atan2(math.sin(north), math.cos(north) * math.cos(math.radians(apart))))
    if not low_y < turn < high_y:
        below, above = abs(low_y - turn), abs(high_y - turn)
        turn = low_y if min(below, 360.0 - below) < min(above, 360.0 - above) else high_y
    return max(0.0, distance(HAVERSINE, x, y, side, turn) * (1 - FUZZ) - MICRON)


@njit(**EXACT)
def far_distance(
    metric: int, x: float, y: float, low_x: float, high_x: float, low_y: float, high_y: float
) -> float:
    """No point of a box in the plane is farther."""
    dx, dy = max(abs(x - low_x), abs(x - high_x)), max(abs(y - low_y), abs(y - high_y))
    return math.sqrt(dx * dx + dy * dy) if metric != MANHATTAN else dx + dy
