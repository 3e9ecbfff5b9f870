"""Entries of lists by word, tested by what the lists know of them, a tile at once.

Whole numbers of 16 bits throughout: a tile is one instruction at a time, and no branch waits for an outcome.
Whatever is rounded is so in favour of passing. See `rankcast.geotext.kernels.igpt` for which entries are tested.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.asked import BIT_HIGH, BIT_LOW, BIT_REST, BIT_WEIGHT, BIT_X, BIT_Y, BIT_Z, HALF
from rankcast.geotext.kernels.geo_bounds import Bits, Floats32, Frame, part
from rankcast.geotext.kernels.word_lists import (
    ALPHA,
    BAR,
    BLOCK,
    HIGH_SIGN,
    LOW_SIGN,
    REST,
    STAMP,
    STEP,
    WEIGHT,
    X,
    Y,
    Z,
)
from rankcast.structures.distance import EUCLIDEAN
from rankcast.structures.jit import EXACT

ARRIVAL, ROW = 16, 32  # where these begin in a key, above a stamp
NONE = np.float32(0.0)
ALL = np.uint16(65535)
NEAREST = np.uint16(HALF + 4)  # how near a message is at best, in 15 bits
ALIKE_SLACK, SLACK = np.uint16(5), np.uint16(5)  # what rounding may have taken
NOTHING = np.uint16(0)
# The place of the only bit of a number of 32 bits, by the top of its product with `FACTOR`.
FACTOR = 0x077CB531
PLACE = np.empty(32, np.int64)
PLACE[[(FACTOR << bit & 0xFFFFFFFF) >> 27 for bit in range(32)]] = np.arange(32)

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]


class Aim(NamedTuple):
    """What entries are tested with, in whole numbers: what counts of a gap and of gaps; the highest bar."""

    reach: np.uint16
    slant: np.uint16
    bar: np.uint16


@njit(**EXACT)
def aim_of(frame: Frame, inner: bool, prefix: bool) -> Aim:
    """A distance is at least the sum of its gaps over the root of how many there are."""
    slant = 0.7071 if frame.metric == EUCLIDEAN else 0.5773
    reach = np.uint16(frame.reach * 65535.0) if inner else NOTHING
    return Aim(reach, np.uint16(slant * 65536.0), ALL if inner or prefix else NOTHING)


@njit(**EXACT)
def _times(one: np.uint16, other: np.uint16) -> np.uint16:
    """The upper half of a product: one number as a share of the other."""
    return np.uint16((np.uint32(one) * np.uint32(other)) >> np.uint32(16))


@njit(**EXACT)
def _apart(one: int | np.uint16, other: np.uint16) -> np.uint16:
    """How far apart two numbers are."""
    one = np.uint16(one)
    return np.uint16(max(one, other) - min(one, other))


@njit(**EXACT)
def _passing(
    fact: Bits, tile: np.uint64, bits: Bits, its: np.uint64, near: np.uint16, aim: Aim, blank: Bits
) -> np.uint16:
    """Which entries of a tile a message may pass the thresholds of, a bit each.

    Whole numbers of 16 bits throughout, so that a tile is one instruction at a time. A distance is bounded by
    the largest gap along an axis and by the sum of the gaps. Of `common` and its negative one has the highest
    bit, unless it is 0; a branch would cost more. Whatever is rounded is so in favour of passing. `blank` is
    zeros, two by lane, for one message and the next: joined with one, a number that all lanes share stays one
    of 16 bits, and a product of two is one instruction instead of six.
    """
    found = NOTHING
    weight, rest, low, high = (
        bits[BIT_WEIGHT, its],
        bits[BIT_REST, its],
        bits[BIT_LOW, its],
        bits[BIT_HIGH, its],
    )
    x, y, z = bits[BIT_X, its], bits[BIT_Y, its], bits[BIT_Z, its]
    reach, slant, most = aim
    for lane in range(STEP):
        east, north = _apart(fact[tile, X, lane] >> 1, x), _apart(fact[tile, Y, lane] >> 1, y)
        up, zero = _apart(fact[tile, Z, lane] >> 1, z), blank[its & np.uint64(1), lane]
        far = max(east, north, up, _times(np.uint16(east + north + up), np.uint16(slant | zero)))
        close = min(np.uint16(NEAREST - _times(far, np.uint16(reach | zero))), near)
        common = np.uint16((fact[tile, LOW_SIGN, lane] & low) | (fact[tile, HIGH_SIGN, lane] & high))
        others = _times(fact[tile, REST, lane], np.uint16(rest | zero))
        others = min(others, np.uint16(common | np.uint16(0 - common)))
        alike = np.uint16(_times(fact[tile, WEIGHT, lane], np.uint16(weight | zero)) + others + ALIKE_SLACK)
        alpha = fact[tile, ALPHA, lane]
        score = np.uint16(_times(np.uint16(ALL - alpha), alike) + _times(alpha, close) + SLACK)
        bar, bit = (
            min(np.uint16(fact[tile, BAR, lane] >> 1), most),
            np.uint16(np.uint16(1) << np.uint16(lane)),
        )
        found = np.uint16(found | (bit if score >= bar else NOTHING))
    return found


@njit(**EXACT)
def try_entries(
    fact: Bits, at: int, end: int, passed: Rows, size: int, bits: Bits, first: int, nears: Floats32,
    bests: Floats32, aim: Aim, blank: Bits, prefix: bool, stop: bool, masks: Ints,
) -> None:  # fmt: skip
    """Say for every message that passes the bounds of a block which of its entries it may pass, a bit each.

    Without a branch: one that waits for the outcome would cost more than both tiles. (Arrays come one by one:
    taken from a tuple here, each would be counted as in use, block by block.)
    """
    tile, valid = np.uint64(at // STEP), (np.int64(1) << (end - at)) - 1
    other = tile + np.uint64(end > at + STEP)
    bar = part(fact[other, BAR, 0]) if stop else NONE  # the least of the second half
    for j in range(size):
        i = np.uint64(passed[j])
        its, near = np.uint64(first) + i, nears[i]
        close = np.uint16(min(max(near * HALF + 3, 0.0), float(NEAREST))) if prefix else NEAREST
        found = np.int64(_passing(fact, tile, bits, its, close, aim, blank))
        more = np.int64(_passing(fact, other, bits, its, close, aim, blank)) << STEP
        masks[j] = (found | (more if bar <= bests[i] else np.int64(0))) & valid  # Theorem 4


@njit(**EXACT)
def write_keys(
    rows: Rows, fact: Bits, at: int, passed: Rows, size: int, arrival: Rows, first: int, masks: Ints,
    keys: Ints, count: int,
) -> int:  # fmt: skip
    """Write the keys of what passes in a block; returns how many there are then, -1 if there is no room."""
    if count > keys.size - size * BLOCK:
        return -1
    for j in range(size):
        found, pair = masks[j], np.int64(arrival[first + passed[j]]) << ARRIVAL
        while found != 0:
            entry = np.uint64(at + PLACE[((found & -found) * FACTOR & 0xFFFFFFFF) >> 27])
            stamp = fact[entry // np.uint64(STEP), STAMP, entry % np.uint64(STEP)]
            keys[count] = np.int64(rows[entry]) << ROW | pair | np.int64(stamp)
            count += 1
            found &= found - 1
    return count
