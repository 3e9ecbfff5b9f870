"""Bounds of the geo-text score: what a message and a subscription can reach at best, before it is computed.

A score is `alpha * near + (1 - alpha) * alike`. The paper divides its bounds by `1 - alpha` [Geo §5.2]; here
they stay undivided, so both ends of alpha are like any other value and a threshold of minus infinity lets
everything pass. Everything that a bound is made of is kept as float32 and may be off by some 1e-7; `SLACK`
and `SKIN` make up for it, so a bound never falls below the score that is computed in float64.

Places are embedded where straight lines bound distances: the plane in units of the diagonal, the globe as the
unit sphere (so neither poles nor the date line need care).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.distance import EUCLIDEAN
from rankcast.kernels.options import EXACT

SLACK = 2e-6  # of a score
SKIN = 1e-6  # of a distance in the embedding


class Frame(NamedTuple):
    """A space: the code of its metric, its bounds, and the distance that counts as 1."""

    metric: int
    west: float
    south: float
    east: float
    north: float
    scale: float


@njit(**EXACT)
def embed(frame: Frame, x: float, y: float) -> tuple[float, float, float]:
    """A place in the embedding."""
    if frame.metric == EUCLIDEAN:
        return (x - frame.west) / frame.scale, (y - frame.south) / frame.scale, 0.0
    longitude, latitude = math.radians(x), math.radians(y)
    flat = math.cos(latitude)
    return flat * math.cos(longitude), flat * math.sin(longitude), math.sin(latitude)


@njit(**EXACT)
def nearness(metric: int, box: NDArray[np.float32], block: int, place: tuple[float, float, float]) -> float:
    """The outer spatial bound [Geo §5.2.2]: how near a place can be to anything in a box, at most 1."""
    square = 0.0
    for axis in range(3):
        short = max(box[block, axis] - place[axis], place[axis] - box[block, axis + 3])
        if short > 0:
            square += short * short
    return _at_gap(metric, square)


@njit(**EXACT)
def nearness_to(
    metric: int, spots: NDArray[np.float32], entry: int, place: tuple[float, float, float]
) -> float:
    """The same for a single spot."""
    square = 0.0
    for axis in range(3):
        short = spots[entry, axis] - place[axis]
        square += short * short
    return _at_gap(metric, square)


@njit(**EXACT)
def _at_gap(metric: int, square: float) -> float:
    """How near something is at best that is so far away in the embedding, or a skin less."""
    gap = math.sqrt(square) - SKIN
    if gap <= 0:
        return 1.0
    return 1.0 - gap if metric == EUCLIDEAN else 1.0 - 2.0 * math.asin(min(1.0, gap / 2)) / math.pi


@njit(**EXACT)
def alikeness(weight: float, rest: float, own: float, others: float) -> float:
    """The most two unit vectors can be alike whose rarest common term is a given one [Geo §5.2.3].

    That term adds the product of its weights. What comes after it in the order of terms adds no more than the
    lengths of both rests multiplied (Cauchy and Schwarz; the paper takes sums and maxima of weights).
    """
    return min(1.0, weight * own + rest * others)


@njit(**EXACT)
def best_score(alpha: float, near: float, alike: float) -> float:
    """The score that bounds of both parts allow."""
    return alpha * near + (1.0 - alpha) * alike + SLACK


@njit(**EXACT)
def best_of_group(low: float, high: float, near: float, alike: float) -> float:
    """The same for every alpha from `low` to `high`: the score is linear in alpha [Geo §5.3.1]."""
    return max(best_score(low, near, alike), best_score(high, near, alike))
