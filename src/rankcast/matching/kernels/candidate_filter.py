"""What events want beside the k best boxes, and subscriptions beside a box: judged candidate by candidate.

An index finds rows whose box meets an event and whose upper bound is in question; `judge` says what such a
row is worth for the event, or that it does not match. So whatever is filtered is filtered inside the search,
and a search still ends where nothing better can come (`ceiling`).

- Sets of categories (`rankcast.tables.categories`): a box holds what a set holds, and more.
- Interval events that must lie inside, or contain, the intervals of a subscription: the box overlaps.
- Uncertain values: the true value is uniform in [value - error, value + error], or normal with the standard
  deviation `error`. The score (relaxed: each weight) counts times the probability that the interval contains
  it, in closed form; attributes are independent. The box must meet all that has a probability above 0.
- Factors: `boost` of an event multiplies its scores; in relaxed matching `factor` multiplies weights.
- `least` is the score below which an event wants nothing, `excluded` are names that it does not want.
- Of rows with one name the best counts, of rows with one owner the best few. A list keeps up to twice k
  candidates (`room_for`); when it is full, `squeeze` leaves the k best that may stand together. What it drops
  is never missed: as many better ones stand in its way as may stand there, and they can only get better.

Cost: O(d) a candidate, O(log m) more for a set of m ranges; a squeeze O(k log k) every k candidates.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.kernels.matches import ALL, LARGEST
from rankcast.structures.heap import best_first
from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]
Longs = NDArray[np.int64]

PER_OWNER, OVERLAP, NORMAL = range(3)  # places in `rule`
ANY, INSIDE, CONTAINS = range(3)
SPAN, VALUE = -1, -2  # what an attribute is that has no sets; `overlap` is about intervals alone
LIST, LEFT, LOW, HIGH = range(4)
REACH = 40.0  # standard deviations beyond which a float64 knows no probability
SLACK = 1.0 + 2.0**-40  # for what adding up weights in float64 may lose, many times over
ROOT = math.sqrt(2.0)


class Wants(NamedTuple):
    """By event, by row, by attribute, and `rule`; an array of width or length 0 asks nothing.

    By event: how many it wants, its least score, its boost; factors of weights, values and errors, each
    (n, d) or (n, 0); `excluded[first[e]:first[e + 1]]`, ascending, are rows, and names as the complement of
    their code. By row: the label for ties, code of name and of owner, its sets. By attribute: which category
    it is, SPAN if events bring an interval, or VALUE.
    """

    k: Longs
    least: Floats
    boost: Floats
    factor: Floats
    value: Floats
    error: Floats
    first: Longs
    excluded: Longs
    tie: Longs
    name: Rows
    owner: Rows
    set_first: Longs
    set_size: Rows
    entries: Rows
    category: Longs
    rule: Longs


BY_EVENT = ("k", "least", "boost", "factor", "value", "error")


@njit(**EXACT)
def probability(normal: int, value: float, error: float, lo: float, hi: float) -> float:
    """The probability that [lo, hi] contains what is known as a value with an error above 0."""
    if normal == 0:
        first, last = value - error, value + error
        if lo <= first and hi >= last:
            return 1.0
        return max(0.0, (min(hi, last) - max(lo, first)) / (last - first))
    a, b = (lo - value) / (error * ROOT), (hi - value) / (error * ROOT)
    if a > 0.0:  # both in the upper tail, where differences of 1 would lose everything
        share = 0.5 * (math.erfc(a) - math.erfc(b))
    elif b < 0.0:
        share = 0.5 * (math.erfc(-b) - math.erfc(-a))
    else:
        share = 1.0 - 0.5 * (math.erfc(-a) + math.erfc(b))
    return min(max(share, 0.0), 1.0)


@njit(**EXACT)
def _holds(entries: Rows, at: int, size: int, code: float) -> bool:
    """Whether one of some ranges, which ascend, has a code."""
    start, end = at, at + size
    while start < end:
        middle = (start + end) // 2
        if entries[middle, LOW] <= code:
            start = middle + 1
        else:
            end = middle
    return start > at and entries[start - 1, HIGH] >= code


@njit(**EXACT)
def _is_excluded(excluded: Longs, start: int, end: int, key: int) -> bool:
    while start < end:
        middle = (start + end) // 2
        if excluded[middle] == key:
            return True
        if excluded[middle] < key:
            start = middle + 1
        else:
            end = middle
    return False


@njit(**EXACT)
def judge(columns: Columns, wants: Wants, below: Floats, above: Floats, e: int, row: int, mode: int) -> float:
    """The score of a row for an event; NaN if it does not match, or is not wanted."""
    lo, hi, overlap = columns.lo, columns.hi, wants.rule[OVERLAP]
    unsure, weighs = wants.error.shape[1] > 0, wants.factor.shape[1] > 0
    at, end = np.int64(0), np.int64(0)
    if wants.set_size.shape[0] > row:
        at = wants.set_first[row]
        end = at + wants.set_size[row]
    total, chance = 0.0, 1.0
    for j in range(lo.shape[1]):
        low, high, least, most = lo[row, j], hi[row, j], above[e, j], below[e, j]
        met = low <= most and high >= least
        category = wants.category[j]
        if category >= 0:
            while at < end and wants.entries[at, LIST] <= 2 * category + 1:
                size = np.int64(wants.entries[at, LEFT])
                if met:
                    held = _holds(wants.entries, at, size, most)
                    met = held == (wants.entries[at, LIST] == 2 * category)
                at += size
        elif met and overlap != ANY and category == SPAN and least <= most:
            if overlap == INSIDE:
                met = low <= least and high >= most
            elif low != -np.inf or high != np.inf:
                met = least <= low and high <= most
        share = 1.0 if met else 0.0
        if met and unsure and wants.error[e, j] > 0.0:
            share = probability(wants.rule[NORMAL], wants.value[e, j], wants.error[e, j], low, high)
        if mode == ALL:
            chance *= share
            if chance == 0.0:
                return np.nan
        elif share > 0.0:
            weight = columns.weight[row, j] * share
            if weighs:
                weight *= wants.factor[e, j]
            total = max(total, weight) if mode == LARGEST else total + weight
    if mode == ALL:
        total = columns.score[row] * chance
    total *= wants.boost[e]
    if mode != ALL and not total > 0.0:
        return np.nan
    start, last = wants.first[e], wants.first[e + 1]
    if start < last:
        if _is_excluded(wants.excluded, start, last, row):
            return np.nan
        if wants.name.shape[0] > 0 and _is_excluded(wants.excluded, start, last, ~np.int64(wants.name[row])):
            return np.nan
    return total


@njit(**EXACT)
def ceiling(wants: Wants, e: int, mode: int) -> float:
    """What multiplies an upper bound that is not below 0, so that it bounds what `judge` says."""
    factor = wants.boost[e]
    if mode != ALL:
        most = 1.0 if wants.factor.shape[1] == 0 else 0.0
        for j in range(wants.factor.shape[1]):
            most = max(most, wants.factor[e, j])
        factor = factor * most * SLACK
    return factor


@njit(**EXACT)
def bounded(top: float, factor: float, unsure: bool) -> float:
    """The upper bound of a score at best `top`; a probability lifts what is below 0."""
    return (0.0 if unsure and top < 0.0 else top) * factor


class Room(NamedTuple):
    """Room for a list and for counting by name or owner: keys (cells,), how often each, cells in use."""

    scores: Floats
    rows: Rows
    keys: Longs
    times: Rows


@njit(**EXACT)
def shared(wants: Wants) -> bool:
    """Whether rows may stand in each other's way."""
    return wants.name.shape[0] > 0 or wants.owner.shape[0] > 0


@njit(**EXACT)
def room_for(wants: Wants, rows: int) -> Room:
    """Room for the lists of all events, with so many rows at the most."""
    most = 1
    for e in range(wants.k.shape[0]):
        most = max(most, min(wants.k[e], rows))
    if not shared(wants):
        return Room(np.empty(most), np.empty(most, np.int32), np.empty(0, np.int64), np.empty(0, np.int32))
    size, cells = 2 * most + 16, 64
    while cells < 4 * size:
        cells *= 2
    return Room(
        np.empty(size), np.empty(size, np.int32), np.empty(cells, np.int64), np.empty(cells, np.int32)
    )


@njit(**EXACT)
def _counted(room: Room, key: int, most: int) -> bool:
    """Count one more under a key, if there are not `most` yet."""
    cells = room.keys.shape[0]
    cell = (key * 0x9E3779B1 >> 7) & (cells - 1)
    while room.keys[cell] != -1 and room.keys[cell] != key:
        cell = (cell + 1) & (cells - 1)
    if room.keys[cell] == -1:
        room.keys[cell], room.times[cell] = key, 0
    if room.times[cell] >= most:
        return False
    room.times[cell] += 1
    return True


@njit(**EXACT)
def squeeze(wants: Wants, room: Room, size: int, k: int) -> int:
    """Turn a heap into a list, best first, of the k best that may stand together; returns how many."""
    scores, rows = room.scores, room.rows
    best_first(wants.tie, scores, rows, size)
    if not shared(wants):
        return min(size, k)
    room.keys[:] = -1
    held, per_owner = 0, wants.rule[PER_OWNER]
    for place in range(size):
        row = rows[place]
        if wants.name.shape[0] > 0 and not _counted(room, 2 * np.int64(wants.name[row]), 1):
            continue
        owned = wants.owner.shape[0] > row and wants.owner[row] >= 0
        if owned and not _counted(room, 2 * np.int64(wants.owner[row]) + 1, per_owner):
            continue
        scores[held], rows[held] = scores[place], row
        held += 1
        if held == k:
            break
    return held


@njit(**EXACT)
def make_room(wants: Wants, room: Room, size: int, k: int) -> int:
    """Squeeze a full heap and make it one again: the worst on top; returns its size."""
    held = squeeze(wants, room, size, k)
    room.scores[:held] = room.scores[:held][::-1].copy()
    room.rows[:held] = room.rows[:held][::-1].copy()
    return held
