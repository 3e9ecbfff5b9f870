"""How far away an object may be, in the part of a circle that lies in a ring around another.

Of a score that is only known to be monotonic, an object p at a distance from b to c scores at least what it
does at b. In a circle of radius R around a query, such places lie in a ring around p. `farthest` bounds how
far any of them is from an object o. With rings fine enough that tells o and p apart as well as can be: along
a ring both distances are used as they belong together, while Lemma 10 takes the worst of each.

Seen from p, let w be the angle between the query, d away, and o, f away. The part of the circle around p of
radius b within R of the query reaches an angle v to both sides of the query's direction, with

sin^2(v / 2) = (R + b - d) (R - b + d) / (4 b d)       in the plane and in space,

which is greatest where a line from p touches the query's circle. The place farthest from o is at the angle
min(pi, w + v), and its distance a from o has

a^2 = (b - f)^2 + 4 b f sin^2((w + v) / 2)

convex in b, so that the ends of a ring decide. On the globe sines take the place of halves and of factors;
the rest is the same. In the metric of Manhattan, turned by 45 degrees, the places within R of the query and
within c of p are a rectangle, and a the greatest difference to its sides.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankcast.moving.kernels.gain import FARTHEST, seen_from, unsure_of
from rankcast.moving.kernels.scores import (
    Floats,
    Ints,
    Place,
    Rows,
    apart,
    at_line,
    at_row,
)
from rankcast.structures.distance import EARTH_RADIUS, HAVERSINE, MANHATTAN
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def _half_sine(metric: int, length: float) -> float:
    """Half a length; on the globe the sine of half the angle."""
    return math.sin(0.5 * length / EARTH_RADIUS) if metric == HAVERSINE else 0.5 * length


@njit(**EXACT)
def _sine(metric: int, length: float) -> float:
    """A length; on the globe the sine of its angle."""
    return math.sin(length / EARTH_RADIUS) if metric == HAVERSINE else length


@njit(**EXACT)
def _spread(metric: int, d: float, radius: float, b: float) -> float:
    """The angle at p that the circle of radius b around it spans within a circle, to each side."""
    product = _half_sine(metric, radius + b - d) * _half_sine(metric, radius - b + d)
    over = _sine(metric, b) * _sine(metric, d)
    if product <= 0.0:
        return 0.0
    return 2 * math.asin(math.sqrt(product / over)) if product < over else math.pi


@njit(**EXACT)
def _widest(metric: int, d: float, radius: float, low: float, high: float) -> float:
    """The greatest such angle in a ring."""
    if radius >= d:
        return math.pi if low <= radius - d else _spread(metric, d, radius, low)
    if metric == HAVERSINE:
        touch = EARTH_RADIUS * math.acos(
            min(1.0, math.cos(d / EARTH_RADIUS) / math.cos(radius / EARTH_RADIUS))
        )
    else:
        touch = math.sqrt((d - radius) * (d + radius))
    return _spread(metric, d, radius, min(max(touch, low), high))


@njit(**EXACT)
def _opposite(metric: int, b: float, foci: float, angle: float) -> float:
    """The side of a triangle opposite to an angle between two others."""
    turn, across = math.sin(0.5 * angle), _half_sine(metric, b - foci)
    square = across * across + _sine(metric, b) * _sine(metric, foci) * turn * turn
    if metric == HAVERSINE:
        return 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(square)))
    return 2 * math.sqrt(square)


@njit(**EXACT)
def _in_ring(
    metric: int, record: Floats, place: Place, o: int, p: int, radius: float, low: float, high: float
) -> float:
    """At most how far o is from a place within a radius that is from `low` to `high` away from p."""
    here, there = at_row(metric, record, o), at_row(metric, record, p)
    d_o, d_p, foci = apart(metric, place, here), apart(metric, place, there), apart(metric, here, there)
    unsure = unsure_of(metric, d_o + d_p + foci + radius + high)
    most = min(d_o + radius, foci + high) + 4 * unsure
    low, high, wide = max(0.0, low - unsure), high + unsure, radius + 4 * unsure
    if metric == MANHATTAN:
        return min(most, _in_square(place, here, there, wide, high) + unsure)
    if metric == HAVERSINE and max(wide, high) + foci + d_p > FARTHEST:
        return most
    if foci <= 4 * unsure or d_p <= 4 * unsure:
        return most
    angle = min(math.pi, _angle(metric, record, place, o, p) + _widest(metric, d_p, wide, low, high))
    found = max(_opposite(metric, low, foci, angle), _opposite(metric, high, foci, angle))
    return min(most, found + 2 * unsure)


@njit(**EXACT)
def _in_square(place: Place, o: Place, p: Place, radius: float, high: float) -> float:
    """The same for a square around the place and one around p, in turned coordinates."""
    ox, oy, px, py = o[0] - place[0], o[1] - place[1], p[0] - place[0], p[1] - place[1]
    found = 0.0
    for axis in range(2):
        at, to = (ox + oy, px + py) if axis == 0 else (ox - oy, px - py)
        left, right = max(-radius, to - high), min(radius, to + high)
        found = max(found, at - left, right - at)
    return found


@njit(**EXACT)
def _angle(metric: int, record: Floats, place: Place, o: int, p: int) -> float:
    """The angle at p between a place and o."""
    from_p = at_row(metric, record, p)
    one, two = seen_from(metric, from_p, place), seen_from(metric, from_p, at_row(metric, record, o))
    if metric == HAVERSINE:
        across, along = one[0] * two[1] - one[1] * two[0], one[0] * two[0] + one[1] * two[1]
        return math.atan2(abs(across), along)
    x, y = one[1] * two[2] - one[2] * two[1], one[2] * two[0] - one[0] * two[2]
    z = one[0] * two[1] - one[1] * two[0]
    along = one[0] * two[0] + one[1] * two[1] + one[2] * two[2]
    return math.atan2(math.sqrt(x * x + y * y + z * z), along)


@njit(**EXACT)
def farthest(
    metric: int,
    record: Floats,
    places: tuple[Floats, Floats, Floats],
    query: Ints,
    pairs: tuple[Rows, Rows],
    radius: Floats,
    rings: tuple[Floats, Floats],
) -> Floats:
    """How far, at most, each o is within a radius of its query, in a ring around the p beside it.

    `places` and `radius` are by query; `pairs` are o and p, `rings` the least and the greatest distance of p.
    """
    x, y, z = places
    first, second = pairs
    low, high = rings
    found = np.empty(query.size)
    for i in range(query.size):
        place = at_line(metric, x, y, z, query[i])
        found[i] = _in_ring(
            metric, record, place, np.int64(first[i]), np.int64(second[i]), radius[query[i]], low[i], high[i]
        )
    return found


@njit(**EXACT)
def distances_between(
    metric: int, record: Floats, places: tuple[Floats, Floats, Floats], query: Ints, rows: Rows
) -> Floats:
    """How far each object is from the place beside it, of which `query` says which one that is."""
    x, y, z = places
    found = np.empty(rows.size)
    for i in range(rows.size):
        found[i] = apart(metric, at_line(metric, x, y, z, query[i]), at_row(metric, record, rows[i]))
    return found
