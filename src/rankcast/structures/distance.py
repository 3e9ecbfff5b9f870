"""Distances from one place to many: computed here and nowhere else, so that all methods agree to the bit.

`euclidean` and `manhattan` are in the units of the plane; `haversine` takes x as longitude and y as latitude
in degrees and gives metres on a sphere of the Earth's mean radius, across the date line too.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

EUCLIDEAN, MANHATTAN, HAVERSINE = 0, 1, 2
CODES = {"euclidean": EUCLIDEAN, "manhattan": MANHATTAN, "haversine": HAVERSINE}
EARTH_RADIUS = 6_371_008.8
HALF_CIRCUMFERENCE = math.pi * EARTH_RADIUS


@njit(**EXACT)
def distance(metric: int, ax: float, ay: float, bx: float, by: float) -> float:
    """The distance of a and b; symmetric, and 0 exactly for equal places."""
    if metric == EUCLIDEAN:
        return math.sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by))
    if metric == MANHATTAN:
        return abs(ax - bx) + abs(ay - by)
    north = math.sin(math.radians(ay - by) / 2)
    east = math.sin(math.radians(ax - bx) / 2)
    chord = north * north + math.cos(math.radians(ay)) * math.cos(math.radians(by)) * (east * east)
    return 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(chord)))


@njit(**EXACT)
def distances(
    metric: int, ax: float, ay: float, bx: NDArray[np.float64], by: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The distance of a to each b."""
    out = np.empty(bx.size)
    for i in range(bx.size):
        out[i] = distance(metric, ax, ay, bx[i], by[i])
    return out
