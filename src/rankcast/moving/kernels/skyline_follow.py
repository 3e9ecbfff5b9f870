"""Following queries inside the zones of their skylines, and reading their results.

Beside its zone a query has a disc: where it was when its edges were last looked at, and how far the nearest
edge of the piece around it was, squared. A position in the disc is inside the zone: one comparison. One that
is not is held against the edges, and if it is inside, the disc moves there. So a query that drives through
its zone looks at edges a few times only, the more often the nearer it is to leaving. Inside a zone
the skyline is the one of the zone, and no index is looked at.

In other metrics than the euclidean a zone is a circle, and inside it the skyline is that of its members.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.moving.kernels.convex import Floats, Ints
from rankcast.moving.kernels.skyline_search import PLACE
from rankcast.structures.distance import EUCLIDEAN, distance
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]

UNKNOWN = -2  # the owner of an edge that nobody noted
SLACK = 2.0**-40  # of the size of a zone: what a disc is smaller, whatever is rounded


class Kept(NamedTuple):
    """Zones by subscription: centre, radius, disc (n, 3), how many members are results; members, corners."""

    x: Floats
    y: Floats
    radius: Floats
    disc: Floats
    result: Ints
    start: Ints
    count: Ints  # type: ignore[assignment]
    member: Rows
    corner: Ints
    corners: Ints
    corner_x: Floats
    corner_y: Floats
    line: Ints
    owner: Rows


@njit(**EXACT)
def _clearance(x: float, y: float, edges: tuple[Floats, Floats, Ints], begin: int, end: int) -> float:
    """How far inside one of the pieces a place relative to the centre is; negative if it is in none."""
    corner_x, corner_y, line = edges
    first, inside, least = begin, True, np.inf
    for i in range(begin, end):
        last = line[i] < 0
        j = first if last else i + 1
        ax, ay = corner_x[i], corner_y[i]
        dx, dy = corner_x[j] - ax, corner_y[j] - ay
        beside, length = dx * (y - ay) - dy * (x - ax), math.sqrt(dx * dx + dy * dy)
        inside &= beside >= 0.0
        least = min(least, beside / length if length > 0.0 else 0.0)
        if last:
            if inside:
                return least
            first, inside, least = i + 1, True, np.inf
    return -1.0


@njit(**EXACT)
def follow(
    kept: Kept, rows: Rows, x: Floats, y: Floats, place_x: Floats, place_y: Floats
) -> NDArray[np.int64]:
    """Bring queries, each once, to places x, y where those are inside their zones; returns which are not.

    Where the zone was found from is always inside. `place_x` and `place_y` by row are where queries are.
    """
    centre_x, centre_y, radius, disc = kept.x, kept.y, kept.radius, kept.disc
    corner, corners, edges = kept.corner, kept.corners, (kept.corner_x, kept.corner_y, kept.line)
    left, size = np.empty(rows.size, np.int64), 0
    for i in range(rows.size):
        row, at_x, at_y = rows[i], x[i], y[i]
        dx, dy = at_x - disc[row, 0], at_y - disc[row, 1]
        if not dx * dx + dy * dy < disc[row, 2]:
            dx, dy, begin = at_x - centre_x[row], at_y - centre_y[row], corner[row]
            away = _clearance(dx, dy, edges, begin, begin + corners[row])
            if away < 0.0 and not (dx == 0.0 and dy == 0.0):
                left[size] = i
                size += 1
                continue
            away = max(0.0, away - SLACK * radius[row])
            disc[row, 0], disc[row, 1], disc[row, 2] = at_x, at_y, away * away
        place_x[row], place_y[row] = at_x, at_y
    return left[:size].copy()


@njit(**EXACT)
def as_good(record: Floats, one: int, other: int) -> int:
    """0 if one object is worse than another in an attribute, 1 if as good in all, 2 if better in one too."""
    found = 1
    for a in range(PLACE, record.shape[1]):
        if record[one, a] > record[other, a]:
            return 0
        if record[one, a] < record[other, a]:
            found = 2
    return found


@njit(**EXACT)
def results_from(
    record: Floats, kept: Kept, row: int, x: float, y: float
) -> tuple[Rows, Floats, Floats, Floats]:
    """The results of a zone as seen from a place, by distance: rows, places, distances, attributes."""
    first, size = kept.start[row], kept.result[row]
    rows, away = np.empty(size, np.int32), np.empty(size)
    for j in range(size):
        o, at = kept.member[first + j], j
        far = distance(EUCLIDEAN, x, y, record[o, 0], record[o, 1])
        while at > 0 and away[at - 1] > far:
            away[at], rows[at] = away[at - 1], rows[at - 1]
            at -= 1
        away[at], rows[at] = far, o
    spot, attribute = np.empty((size, 2)), np.empty((size, record.shape[1] - PLACE))
    for j in range(size):
        o = rows[j]
        spot[j, 0], spot[j, 1] = record[o, 0] - x, record[o, 1] - y
        for a in range(attribute.shape[1]):
            attribute[j, a] = record[o, PLACE + a]
    return rows, spot, away, attribute


@njit(**EXACT)
def _sort(score: Floats, item: Rows, label: Ints) -> None:
    """Sort items by score, then label, in place; cheap if they almost are."""
    for i in range(1, item.size):
        s, o, at = score[i], item[i], i
        while at > 0 and (score[at - 1] > s or (score[at - 1] == s and label[item[at - 1]] > label[o])):
            score[at], item[at] = score[at - 1], item[at - 1]
            at -= 1
        score[at], item[at] = s, o


@njit(**EXACT)
def _undominated(record: Floats, score: Floats, item: Rows) -> int:
    """Keep, in place, the sorted items that none of them dominates; returns how many those are."""
    kept, out = 0, np.zeros(item.size, np.bool_)
    for i in range(item.size):
        for j in range(item.size):
            if score[j] > score[i] or out[i]:
                break
            compared = as_good(record, item[j], item[i])
            out[i] = compared == 2 or (compared == 1 and score[j] < score[i])
    for i in range(item.size):
        if not out[i]:
            score[kept], item[kept] = score[i], item[i]
            kept += 1
    return kept


@njit(**EXACT)
def read_results(
    metric: int, record: Floats, label: Ints, kept: Kept, rows: Rows, x: Floats, y: Floats
) -> tuple[Rows, Rows, Floats, Ints]:
    """The results of subscriptions at places inside their zones: whose, items, distances, ranks."""
    start, member, result, count = kept.start, kept.member, kept.result, kept.count
    euclidean = metric == EUCLIDEAN
    total = 0
    for i in range(rows.size):
        total += result[rows[i]] if euclidean else count[rows[i]]
    owner, item, score = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total)
    rank, used = np.empty(total, np.int64), 0
    for i in range(rows.size):
        row = rows[i]
        size = result[row] if euclidean else count[row]
        for j in range(size):
            o = member[start[row] + j]
            item[used + j] = o
            score[used + j] = distance(metric, x[i], y[i], record[o, 0], record[o, 1])
        _sort(score[used : used + size], item[used : used + size], label)
        if not euclidean:
            size = _undominated(record, score[used : used + size], item[used : used + size])
        for j in range(size):
            owner[used + j], rank[used + j] = row, j + 1
        used += size
    return owner[:used], item[:used], score[:used], rank[:used]
