"""How many messages a buffer keeps: as many as are cheapest by what its searches cost [Geo §6.2].

A cost is counted in steps of a buffer's upkeep. A search costs its work at a price; see
`rankcast.geotext.costs` for where prices come from. Sizes are computed for prices a fifth apart and looked up
for those between.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankcast.geotext.kernels.results import COST, KMAX, NONE, capacity_of
from rankcast.geotext.kernels.score import Floats, Ints, Rows
from rankcast.structures.jit import EXACT

MAX_KEEP = 2**30  # entries that a list keeps at most
HIT_COST, ENTRY_COST = 18.0, 0.32  # of a message in a buffer that comes and goes; more for each entry there
STEPS = 4  # prices that sizes are computed for to a factor of 2
PRICES = STEPS * 64


@njit(**EXACT)
def fills(held: float, k: int) -> float:
    """How often a buffer that keeps the `held` best is filled anew while a window turns over.

    How many of those before the threshold are left is a random walk from `held`, in which after one window
    all have changed once, so that it ends at k - 1 in the course of a window the more seldom the more
    deviations that is away; see docs/performance.md.
    """
    away = (held - k + 1.0) / math.sqrt(2.0 * held)
    return 0.55 / away * math.exp(-0.5 * away * away)


@njit(**EXACT)
def cost(held: float, k: int, search: float) -> float:
    """The expected cost of a window's turnover if the `held` best are kept [Geo §6.2, (11) to (16)].

    Upkeep: as many messages as are held come and go, each at a price that grows with the buffer, which is
    without the dominated. And what is filled anew, each time at the price of a search.
    """
    return held * (HIT_COST + ENTRY_COST * k * (1.0 + math.log(held / k))) + fills(held, k) * search


@njit(**EXACT)
def cheapest_size(k: int, search: float) -> int:
    """How many messages, k or more, are cheapest to keep; the cost falls to there and rises after it."""
    low, high = k, k + int(6.0 * math.sqrt(float(k))) + 12
    while low < high:
        middle = (low + high) // 2
        if cost(float(middle), k, search) <= cost(float(middle + 1), k, search):
            high = middle
        else:
            low = middle + 1
    return low


@njit(**EXACT)
def _price(search: float) -> int:
    """The number of a price among those that sizes are computed for."""
    return min(PRICES - 1, int(STEPS * math.log2(max(1.0, search)) + 0.5))


@njit(**EXACT)
def _size(k: int, search: float, known: Rows) -> int:
    """The cheapest size; `known` are those of this k by price, 0 where one was not asked for yet."""
    at = _price(search)
    if known[at] == 0:
        known[at] = min(cheapest_size(k, 2.0 ** (at / STEPS)), MAX_KEEP)
    return known[at]


@njit(**EXACT)
def sizes_to_keep(k: Ints, refill: int, kmax: int, search: Floats) -> Rows:
    """How many entries each list keeps: what is cheapest, by what its search costs.

    Other refills keep k, `kmax` times as many or, before scores are known, 1.5 k. None keeps more than
    `MAX_KEEP`, which no window comes to.
    """
    keep, known = np.empty(k.size, np.int32), np.zeros(PRICES, np.int32)
    for i in range(k.size):
        if refill == COST:
            if i > 0 and k[i] != k[i - 1]:
                known[:] = 0
            keep[i] = _size(k[i], search[i], known)
        else:
            all_of = k[i] if refill == NONE else kmax * k[i] if refill == KMAX else k[i] + k[i] // 2 + 1
            keep[i] = min(all_of, MAX_KEEP)
    return keep


@njit(**EXACT)
def follow(
    keep: Rows, room: Rows, threshold: Floats, k: Ints, work: Rows, mean: float, price: float, first: int,
    last: int,
) -> float:  # fmt: skip
    """Let some lists keep what is cheapest now, as far as it fits; returns how often all would be filled.

    That is, in a window's turnover, with what they kept until now. Lists that have no room are nobody's, and
    those without a threshold hold all that there is.
    """
    expected, known, former = 0.0, np.zeros(PRICES, np.int32), 0
    for row in range(first, last):
        if room[row] == 0 or threshold[row] == -np.inf:
            continue
        expected += fills(float(keep[row]), k[row])
        if k[row] != former:
            known[:] = 0
            former = k[row]
        size = _size(k[row], (work[row] if work[row] > 0 else mean) * price, known)
        if max(size, capacity_of(size, k[row], COST)) < room[row]:
            keep[row] = size
    return expected
