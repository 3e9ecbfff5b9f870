"""Bounds of the geo-text score: what a message and a subscription can reach at best, before it is computed.

A score is `alpha * near + (1 - alpha) * alike`. What a bound is made of is kept in 16 bits, a share of 1:
`whole` rounds up, `floor` down, `nearest` either way. `SLACK` and `SKIN` make up for that, so a bound never
falls below the score that is computed in float64.

Places are embedded in the unit cube, where straight lines bound distances: the plane in units of the
diagonal, the globe as a sphere of diameter 1 (so neither poles nor the date line need care). An arc is longer
than its chord, so `frame.reach` times the gap in the cube is never more than the distance.

What lists by word are ordered by, and what tells that terms are not common.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.distance import EUCLIDEAN
from rankcast.structures.jit import EXACT

UNIT = 65535.0
SHARE = np.float32(1.0 / UNIT)
SLACK = np.float32(2e-5)  # of a score
SKIN = np.float32(2e-5)  # of a gap in the cube
STEEP = 1e-2  # of alpha from its ends: nearer, one of the bounds divides by too little

Spot = tuple[float, float, float]
Bits = NDArray[np.uint16]
Floats32 = NDArray[np.float32]


class Frame(NamedTuple):
    """A space: the code of its metric, its bounds, the distance that counts as 1, and the reach of a gap."""

    metric: int
    west: float
    south: float
    east: float
    north: float
    scale: float
    reach: np.float32


def frame_of(metric: int, bounds: tuple[float, float, float, float], scale: float) -> Frame:
    """The frame of a space."""
    return Frame(metric, *bounds, scale, np.float32(1.0 if metric == EUCLIDEAN else 2.0 / math.pi))


@njit(**EXACT)
def embed(frame: Frame, x: float, y: float) -> Spot:
    """A place in the cube."""
    if frame.metric == EUCLIDEAN:
        return (x - frame.west) / frame.scale, (y - frame.south) / frame.scale, 0.0
    longitude, latitude = math.radians(x), math.radians(y)
    flat = math.cos(latitude)
    east, north = flat * math.cos(longitude), flat * math.sin(longitude)
    return (1.0 + east) / 2, (1.0 + north) / 2, (1.0 + math.sin(latitude)) / 2


@njit(**EXACT)
def _units(value: float) -> float:
    """A share in units from 0 to `UNIT`; 0 for what is no number.

    Floor and ceiling are whole numbers of 64 bits: what these cannot hold must not come to them, since what
    becomes of it depends on the processor.
    """
    if value >= 1.0:
        return UNIT
    return value * UNIT if value > 0.0 else 0.0


@njit(**EXACT)
def whole(value: float) -> int:
    """A share in 16 bits, not below it."""
    return math.ceil(_units(value))


@njit(**EXACT)
def floor(value: float) -> int:
    """A share in 16 bits, not above it; 0 for what is less."""
    return math.floor(_units(value))


@njit(**EXACT)
def nearest(value: float) -> int:
    """The share in 16 bits that is nearest."""
    return math.floor(_units(value) + 0.5)


@njit(**EXACT)
def part(bits: int) -> np.float32:
    """What 16 bits stand for."""
    return np.float32(bits) * SHARE


@njit(**EXACT)
def alikeness(weight: np.float32, rest: np.float32, own: np.float32, others: np.float32) -> np.float32:
    """The most two unit vectors can be alike whose rarest common term is a given one [Geo §5.2.3].

    That term adds the product of its weights. What comes after it in the order of terms adds no more than the
    lengths of both rests multiplied (Cauchy and Schwarz; the paper takes sums and maxima of weights).
    """
    return min(np.float32(1.0), weight * own + rest * others)


@njit(**EXACT)
def best_score(alpha: np.float32, near: np.float32, alike: np.float32) -> np.float32:
    """The score that bounds of both parts allow (Lemma 1)."""
    return alpha * near + (np.float32(1.0) - alpha) * alike + SLACK


@njit(**EXACT)
def best_of_group(low: np.float32, high: np.float32, near: np.float32, alike: np.float32) -> np.float32:
    """The same for every alpha from `low` to `high`: the score is linear in alpha [Geo §5.3.1]."""
    return max(best_score(low, near, alike), best_score(high, near, alike))


@njit(**EXACT)
def nearness(reach: np.float32, square: np.float32) -> np.float32:
    """How near something is at best, given the square of its gap in the cube."""
    return np.float32(1.0) - reach * max(np.float32(0.0), np.sqrt(square) - SKIN)


@njit(**EXACT)
def needed_alike(alpha: float, threshold: float) -> float:
    """How alike a message at the same place must be [Geo (4)], minus infinity if there is no telling."""
    return (threshold - float(SLACK) - alpha) / (1.0 - alpha) if 1.0 - alpha > STEEP else -np.inf


@njit(**EXACT)
def needed_near(alpha: float, threshold: float) -> float:
    """How near a message with the same words must be [Geo (10)], minus infinity if there is no telling."""
    return (threshold - float(SLACK) - (1.0 - alpha)) / alpha if alpha > STEEP else -np.inf


FACTOR = np.uint32(2654435769)
FEW = 64  # places that are sorted one by one

Rows = NDArray[np.int32]


@njit(**EXACT)
def bit_of(term: int) -> np.uint32:
    """Which bit of a sign stands for a term."""
    return np.uint32(np.uint32(np.uint32(term) * FACTOR) >> np.uint32(27))


@njit(**EXACT)
def signs(term: Rows) -> NDArray[np.uint32]:
    """By term: a bit for each of the terms after it."""
    found, sign = np.empty(term.size, np.uint32), np.uint32(0)
    for i in range(term.size - 1, -1, -1):
        found[i] = sign
        sign = np.uint32(sign | np.uint32(1) << bit_of(term[i]))
    return found


@njit(**EXACT)
def spread_bits(value: int) -> int:
    """The lower 10 bits of a number, two zeros before each."""
    value = (value | (value << 16)) & 0x030000FF
    value = (value | (value << 8)) & 0x0300F00F
    value = (value | (value << 4)) & 0x030C30C3
    return (value | (value << 2)) & 0x09249249


@njit(**EXACT)
def sort_places(order: Rows, keys: Rows, spare: Rows, bits: int) -> None:
    """Sort places by their keys of so many bits, stably: eight bits at a time, a few one by one."""
    if order.size <= FEW:
        for i in range(1, order.size):
            place, j = order[i], i
            while j > 0 and keys[order[j - 1]] > keys[place]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = place
        return
    for shift in range(0, bits, 8):
        ends = np.zeros(257, np.int64)
        for i in range(order.size):
            ends[((keys[order[i]] >> shift) & 255) + 1] += 1
        for i in range(256):
            ends[i + 1] += ends[i]
        for i in range(order.size):
            digit = (keys[order[i]] >> shift) & 255
            spare[ends[digit]] = order[i]
            ends[digit] += 1
        order[:] = spare[: order.size]
