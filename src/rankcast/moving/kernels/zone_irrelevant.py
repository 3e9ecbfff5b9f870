"""An object against all of the best: its irrelevant circle, and the bound that spares it [Moving §4.3]."""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.moving.kernels.zone_circles import preferred
from rankcast.moving.kernels.zone_scores import APART, SUM, Floats, Form, Ints, Rows, fuzz, highest, value
from rankcast.structures.distance import distance
from rankcast.structures.jit import EXACT

Best = tuple[Rows, Floats, Floats]  # the best k objects in order: rows, scores, distances


@njit(**EXACT)
def irrelevant(
    form: Form,
    record: Floats,
    label: Ints,
    best: Best,
    p: int,
    place: tuple[float, float],
    limit: float,
) -> float:
    """A radius, at most `limit`, inside which p stays behind all of the best: Algorithm 6.

    A weighted sum changes by the weight times the way at most: most
    pairs need no circle.
    """
    rows, scores, aways = best
    radius, weight = limit, form.weight
    d_p = distance(form.metric, place[0], place[1], record[p, 0], record[p, 1])
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
def highest_of(form: Form, record: Floats, best: Best, radius: float) -> float:
    """At least the score of each of the best anywhere in a circle: MScore."""
    rows, _, aways = best
    found = -np.inf
    for j in range(rows.size):
        s, p = record[rows[j], 2], record[rows[j], 3]
        found = max(found, highest(form, s, p, aways[j], radius))
    return found
