"""How much one object may gain on another on a short way, and circles that follow from it.

Let a and b be the distances of a place x from two objects o and p, which are `foci` apart. Lemma 10 lets both
change by the whole way t. But seen from afar o and p lie in nearly the same direction, so that a and b change
together: the gradient of a - b is the difference of two unit vectors, as long as

sqrt((foci^2 - (a - b)^2) / (a b))                               in the plane and in space,
2 sqrt((sin^2(foci / 2) - sin^2((a - b) / 2)) / (sin a sin b))   on the globe, in radians,

by the law of cosines. In the circle of radius t around x, a and b are no less than a - t and b - t, which
bounds a - b there (`most_ahead`). Then o is before p in the circle if it is so at the greatest a - b, for
every a from a - t to a + t (`stays_before`): the difference of the two scores is linear in a, so its ends
decide; for WASPAS it has at most one extreme between them, which is looked at as well.

`turned_circle` tries the circle around the query as one, then its rim by arcs, each in a small circle, halved
where that does not tell. The rim tells all: let V be where p comes before o, and suppose V is somewhere in
the circle and nowhere on its rim, and p is outside of it. From a place of V go along the circle around p,
away from o: b stays, a grows, so this is V, and it ends on the rim, or else on the line from o beyond p. On
that line a is foci + b, the difference of the scores linear in b: going one way or the other is V until the
rim. (For WASPAS: unless its one extreme there is in V. On the globe all this holds as long as the antipodes
of o and p are outside.)

In the metric of Manhattan a turned square takes the place of the circle: with u = x + y and v = x - y a
distance is the larger of two coordinate differences. a is the greatest of four linear functions; where one
of them leads, b is least at the v next to p, and of the places on that line the end and the place where b
begins to grow decide (`taxi_circle`). So this circle is the largest there is.

Rounding: `unsure` is more than what a computed distance may be off. Scores are set apart by `slack`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankcast.moving.kernels.scores import (
    MICRON,
    SPACE,
    WASPAS,
    Floats,
    Place,
    ScoreForm,
    apart,
    at_row,
    gap,
    slack,
    value,
)
from rankcast.structures.distance import EARTH_RADIUS, HAVERSINE, MANHATTAN
from rankcast.structures.jit import EXACT

Static = tuple[float, float]  # the weighted sum and product of an object's attributes

ROUNDING = 1e-13  # of all distances: what one may be off
FARTHEST = 2.3 * EARTH_RADIUS  # the haversine is good to a micron up to there
ROOMY = 64.0  # the largest circle that is tried, in distances of the two objects
ARCS, TESTS = 6, 64  # of a rim: at first, and at most
NEARLY = 1.08  # how far apart a circle that is safe and one that is not are left
INSIDE = 1 - 1e-9
TRIES = 60


@njit(**EXACT)
def unsure_of(metric: int, reach: float) -> float:
    """What a computed distance may be off, among places within `reach` of each other."""
    return ROUNDING * reach + (4 * MICRON if metric == HAVERSINE else 0.0)


@njit(**EXACT)
def _least_sine(away: float, way: float) -> float:
    """The Earth's radius times the least sine of an angle, given as a distance, within some way."""
    low, high = (away - way) / EARTH_RADIUS, (away + way) / EARTH_RADIUS
    return EARTH_RADIUS * min(math.sin(low), math.sin(high))


@njit(**EXACT)
def most_ahead(
    metric: int, a: float, b: float, foci: float, way: float, unsure: float, least: float
) -> float:
    """At most a - b within some way of a place with these distances, of objects at most `foci` apart.

    `least` is at most what |a - b| is there. The distance b may be greater, if a + b + way stay below a
    quarter of the globe.
    """
    ahead, near_a, near_b, wide = a - b + 2 * unsure, a - way - unsure, b - way - unsure, foci + 2 * unsure
    most = 2 * way
    if near_a <= 0.0 or near_b <= 0.0:
        return ahead + most
    square = wide * wide - least * least
    if metric == HAVERSINE:
        if max(a, b) + way + unsure > FARTHEST:
            return ahead + most
        square += least * least * (least / EARTH_RADIUS) * (least / EARTH_RADIUS) / 12
        near_a, near_b = _least_sine(a, way + unsure), _least_sine(b, way + unsure)
        if near_a <= 0.0 or near_b <= 0.0:
            return ahead + most
    return ahead + min(most, way * math.sqrt(max(0.0, square) / (near_a * near_b)))


@njit(**EXACT)
def _ahead_at(form: ScoreForm, o: Static, p: Static, a: float, b: float) -> bool:
    """Whether o at distance a is before p at distance b, whatever is rounded."""
    first, second = value(form, o[0], o[1], a), value(form, p[0], p[1], b)
    return first + slack(form, o[0], a, first) < second - slack(form, p[0], b, second)


@njit(**EXACT)
def _extreme(form: ScoreForm, o: Static, p: Static) -> float:
    """The ratio b / a at which scores of WASPAS change alike with the distance; NaN if there is none."""
    if form.kind != WASPAS or form.weight == 1.0 or form.rest == 0.0:
        return np.nan
    return math.pow(o[1] / p[1], 1 / (form.weight - 1))


@njit(**EXACT)
def stays_before(
    form: ScoreForm, o: Static, p: Static, low: float, high: float, ahead: float, ratio: float
) -> bool:
    """Whether o at any distance a from `low` to `high` is before p at a - ahead, or farther away."""
    low = max(0.0, low)
    if not _ahead_at(form, o, p, high, max(0.0, high - ahead)):
        return False
    if not _ahead_at(form, o, p, low, max(0.0, low - ahead)):
        return False
    if low < ahead < high and not _ahead_at(form, o, p, ahead, 0.0):
        return False
    extreme = ahead / (1 - ratio) if ratio != 1.0 else np.nan
    if low < extreme < high:
        return _ahead_at(form, o, p, extreme, max(0.0, extreme - ahead))
    return True


@njit(**EXACT)
def _near(
    form: ScoreForm,
    o: Static,
    p: Static,
    a: float,
    b: float,
    foci: float,
    way: float,
    unsure: float,
    ratio: float,
) -> bool:
    """Whether o is before p in a circle around a place with these distances."""
    least = max(0.0, abs(a - b) - 2 * (way + unsure))
    ahead = most_ahead(form.metric, a, b, foci, way, unsure, least)
    return stays_before(form, o, p, a - way - unsure, a + way + unsure, ahead, ratio)


@njit(**EXACT)
def seen_from(metric: int, place: Place, other: Place) -> Place:
    """Where a place is as seen from another.

    On the globe: east, north and up, of unit vectors, without cancellation where places are close.
    """
    if metric != HAVERSINE:
        return other[0] - place[0], other[1] - place[1], other[2] - place[2]
    here, there = math.radians(place[1]), math.radians(other[1])
    north, east = math.radians(other[1] - place[1]), math.radians(other[0] - place[0])
    half, rise, across = math.sin(east / 2), math.sin(north / 2), math.cos(there)
    return (
        across * math.sin(east),
        math.sin(north) + 2 * math.sin(here) * across * half * half,
        -2 * (rise * rise + math.cos(here) * across * half * half),
    )


@njit(**EXACT)
def _spots(metric: int, record: Floats, o: int, p: int, place: Place) -> tuple[Place, Place]:
    """Where o and p are as seen from a place; in space, in a frame of the plane that they span with it."""
    first = seen_from(metric, place, at_row(metric, record, o))
    second = seen_from(metric, place, at_row(metric, record, p))
    if metric != SPACE:
        return first, second
    away = math.sqrt(first[0] * first[0] + first[1] * first[1] + first[2] * first[2])
    ux, uy, uz = (first[0] / away, first[1] / away, first[2] / away) if away > 0.0 else (1.0, 0.0, 0.0)
    along = second[0] * ux + second[1] * uy + second[2] * uz
    ux, uy, uz = second[0] - along * ux, second[1] - along * uy, second[2] - along * uz
    return (away, 0.0, 0.0), (along, math.sqrt(ux * ux + uy * uy + uz * uz), 0.0)


@njit(**EXACT)
def _away(metric: int, spot: Place, x: float, y: float, z: float) -> float:
    """How far a spot is from another."""
    dx, dy, dz = spot[0] - x, spot[1] - y, spot[2] - z
    line = math.sqrt(dx * dx + dy * dy + dz * dz)
    return 2 * EARTH_RADIUS * math.asin(min(1.0, 0.5 * line)) if metric == HAVERSINE else line


@njit(**EXACT)
def _rim_holds(
    form: ScoreForm,
    o: Static,
    p: Static,
    spots: tuple[Place, Place],
    foci: float,
    radius: float,
    unsure: float,
    ratio: float,
) -> bool:
    """Whether o is before p all along the rim of a circle around the origin, for certain."""
    metric = form.metric
    flat, down = radius, 0.0
    if metric == HAVERSINE:
        flat, down = math.sin(radius / EARTH_RADIUS), math.sin(0.5 * radius / EARTH_RADIUS)
        down = -2 * down * down
    middle, half = np.empty(TESTS + ARCS), np.empty(TESTS + ARCS)
    for i in range(ARCS):
        middle[i], half[i] = (2 * i + 1) * math.pi / ARCS, math.pi / ARCS
    size, tests = ARCS, 0
    while size > 0:
        size -= 1
        tests += 1
        angle, width = middle[size], half[size]
        x, y = flat * math.cos(angle), flat * math.sin(angle)
        a, b = _away(metric, spots[0], x, y, down), _away(metric, spots[1], x, y, down)
        if _near(form, o, p, a, b, foci, radius * width, unsure, ratio):
            continue
        if tests >= TESTS or not _ahead_at(form, o, p, a + unsure, max(0.0, b - unsure)):
            return False
        half[size] = half[size + 1] = 0.5 * width
        middle[size], middle[size + 1] = angle - 0.5 * width, angle + 0.5 * width
        size += 2
    return True


@njit(**EXACT)
def _half(metric: int, length: float) -> float:
    """Half a length; on the globe the sine of half its angle."""
    return math.sin(0.5 * length / EARTH_RADIUS) if metric == HAVERSINE else 0.5 * length


@njit(**EXACT)
def _whole(metric: int, length: float) -> float:
    """A length; on the globe the sine of its angle."""
    return math.sin(length / EARTH_RADIUS) if metric == HAVERSINE else length


@njit(**EXACT)
def _to_extreme(
    form: ScoreForm, o: Static, p: Static, d_o: float, d_p: float, foci: float, unsure: float, ratio: float
) -> float:
    """How far the query is from the extreme on the line from o beyond p, where p comes before o there.

    That is infinite if there is none. By the law of cosines, and a little less.
    """
    beyond = foci * ratio / (1 - ratio) if ratio != 1.0 else np.nan
    if not beyond > 0.0 or _ahead_at(form, o, p, foci + beyond + unsure, max(0.0, beyond - unsure)):
        return np.inf
    metric = form.metric
    if metric == HAVERSINE and beyond > FARTHEST:
        return 0.0
    first, second = _half(metric, d_o), _half(metric, d_p - foci)
    turn = (first * first - second * second) / max(
        _whole(metric, d_p) * _whole(metric, foci), MICRON * MICRON
    )
    apart_ = _half(metric, beyond - d_p)
    square = apart_ * apart_ + _whole(metric, beyond) * _whole(metric, d_p) * (1 - min(max(turn, 0.0), 1.0))
    root = math.sqrt(square)
    away = 2 * EARTH_RADIUS * math.asin(min(1.0, root)) if metric == HAVERSINE else 2 * root
    return away - 1e-6 * (away + d_p)


@njit(**EXACT)
def turned_circle(
    form: ScoreForm,
    record: Floats,
    pair: tuple[int, int, float, float],
    place: Place,
    known: float,
    limit: float,
) -> float:
    """A radius, at most `limit`, inside which o is before p; at least `known`, which is sure already.

    If nothing is known (NaN): `limit`, or NaN if that is not sure.
    """
    o, p, d_o, d_p = pair
    metric = form.metric
    first, second = (record[o, 2], record[o, 3]), (record[p, 2], record[p, 3])
    foci = apart(metric, at_row(metric, record, o), at_row(metric, record, p))
    high = min(limit, ROOMY * (d_o + d_p))
    if metric == HAVERSINE:
        high = min(high, FARTHEST - max(d_o, d_p) - 1.0)
    if not high > 0.0:
        return known
    if known <= 0.0 or high <= known:
        return min(known, limit)
    unsure, ratio = unsure_of(metric, d_o + d_p + foci + 2 * high), _extreme(form, first, second)
    whole = _near(form, first, second, d_o, d_p, foci, high, unsure, ratio) or stays_before(
        form, first, second, d_o - high, d_o + high, foci + 4 * unsure, ratio
    )
    spots, top = _spots(metric, record, o, p, place), d_p * INSIDE - 2 * unsure
    top = min(top, _to_extreme(form, first, second, d_o, d_p, foci, unsure, ratio))
    if not whole and high <= top:
        whole = _rim_holds(form, first, second, spots, foci, high, unsure, ratio)
    if whole or math.isnan(known):
        return high if whole and (high == limit or known > 0.0) else known
    low = known
    for _ in range(TRIES):
        if high <= NEARLY * low:
            break
        middle = math.sqrt(low * high)
        if _near(form, first, second, d_o, d_p, foci, middle, unsure, ratio) or (
            middle <= top and _rim_holds(form, first, second, spots, foci, middle, unsure, ratio)
        ):
            low = middle
        else:
            high = middle
    return low


@njit(**EXACT)
def _square_holds(
    form: ScoreForm,
    o: Static,
    p: Static,
    spots: tuple[float, float, float, float],
    radius: float,
    ratio: float,
) -> bool:
    """Whether o is before p in a square around the origin of turned coordinates: u and v of o and of p."""
    unsure = unsure_of(MANHATTAN, abs(spots[0]) + abs(spots[1]) + abs(spots[2]) + abs(spots[3]) + radius)
    for side in range(4):
        turned, sign = 2 * (side // 2) == 2, 1.0 if side % 2 == 0 else -1.0
        ou, ov = (spots[1], spots[0]) if turned else (spots[0], spots[1])
        pu, pv = (spots[3], spots[2]) if turned else (spots[2], spots[3])
        ou, pu = sign * ou, sign * pu
        v = min(max(pv, -radius), radius)
        dv = abs(pv - v)
        begins = min(radius, max(-radius, pu + dv))
        extreme = pu + (pu - ou) * ratio / (1 - ratio) if ratio != 1.0 else np.nan
        for trial in range(3):
            u = radius if trial == 0 else begins
            if trial == 2:
                if not begins < extreme < radius:
                    break
                u = extreme
            a, b = max(abs(u - ou), abs(v - ov)), max(abs(u - pu), dv)
            if not _ahead_at(form, o, p, a + unsure, max(0.0, b - unsure)):
                return False
    return True


@njit(**EXACT)
def taxi_circle(
    form: ScoreForm,
    record: Floats,
    pair: tuple[int, int, float, float],
    place: Place,
    known: float,
    limit: float,
) -> float:
    """The same in the metric of Manhattan, as large as can be, nearly."""
    o, p, d_o, d_p = pair
    first, second = (record[o, 2], record[o, 3]), (record[p, 2], record[p, 3])
    high = min(limit, ROOMY * (d_o + d_p))
    if known <= 0.0 or high <= known:
        return min(known, limit)
    ox, oy, px, py = (
        record[o, 0] - place[0],
        record[o, 1] - place[1],
        record[p, 0] - place[0],
        record[p, 1] - place[1],
    )
    spots, ratio = (ox + oy, ox - oy, px + py, px - py), _extreme(form, first, second)
    if _square_holds(form, first, second, spots, high, ratio):
        return high
    low = known
    for _ in range(TRIES):
        if high <= low * (1 + 1e-3):
            break
        middle = math.sqrt(low * high) if high > 2 * low else 0.5 * (low + high)
        if _square_holds(form, first, second, spots, middle, ratio):
            low = middle
        else:
            high = middle
    return low * INSIDE if low > known else known


Box = tuple[float, float, float, float]  # low x, high x, low y, high y


@njit(**EXACT)
def _axis_gain(o: float, low: float, high: float, way: float) -> float:
    """At most |x - o| - (how far x is from an interval), for x from -way to way."""
    found = max(abs(-way - o) - gap(-way, low, high), abs(way - o) - gap(way, low, high))
    if -way < low < way:
        found = max(found, abs(low - o))
    if -way < high < way:
        found = max(found, abs(high - o))
    return found


@njit(**EXACT)
def box_ahead(metric: int, o: Place, d_o: float, box: Box, near: float, place: Place, way: float) -> float:
    """At most d(o) - d(p) within some way of a place, for every p in a box at least `near` away from it."""
    low_x, high_x, low_y, high_y = box
    if metric == MANHATTAN:
        x, y = place[0], place[1]
        by_x = _axis_gain(o[0] - x, low_x - x, high_x - x, way)
        by_y = _axis_gain(o[1] - y, low_y - y, high_y - y, way)
        return by_x + by_y + ROUNDING * (d_o + near + abs(high_x - low_x) + abs(high_y - low_y) + way)
    dx, dy = max(abs(o[0] - low_x), abs(o[0] - high_x)), max(abs(o[1] - low_y), abs(o[1] - high_y))
    if metric == HAVERSINE:
        widest = min(abs(low_y), abs(high_y), abs(o[1]))
        if min(low_y, o[1]) < 0.0 < max(high_y, o[1]):
            widest = 0.0
        dx = EARTH_RADIUS * math.radians(dx) * math.cos(math.radians(widest))
        dy = EARTH_RADIUS * math.radians(dy)
        foci = math.sqrt(dx * dx + dy * dy) * (1 + ROUNDING)
        if near + d_o + 2 * foci + way > EARTH_RADIUS:  # sines grow up to a quarter
            return d_o - near + 2 * way + 2 * unsure_of(metric, d_o + near + way)
    else:
        foci = math.sqrt(dx * dx + dy * dy)
    return most_ahead(metric, d_o, near, foci, way, unsure_of(metric, d_o + near + foci + way), 0.0)


@njit(**EXACT)
def box_behind(
    form: ScoreForm,
    o: tuple[Place, Static, float],
    p: Static,
    box: Box,
    near: float,
    place: Place,
    way: float,
) -> bool:
    """Whether o stays before everything in a box, with these statics at best, within some way of a place.

    `o` is where it is, its statics, and how far away that is.
    """
    ahead = box_ahead(form.metric, o[0], o[2], box, near, place, way)
    unsure = unsure_of(form.metric, o[2] + near + way)
    return stays_before(
        form, o[1], p, o[2] - way - unsure, o[2] + way + unsure, ahead, _extreme(form, o[1], p)
    )
