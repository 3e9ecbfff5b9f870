"""Boxes around members in 1.5 dimensions become one where nobody else is between.

[Range §III-B, App. D]

Boxes are as in `slab_cut`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.range_topk.dissemination.slab_cut import (
    UNREAD,
    WITNESSES,
    Box,
    Cut,
    between,
    look,
    look_below,
    near_to,
    remember,
)
from rankcast.range_topk.kernels.corner_tree import CornerTree, Floats
from rankcast.structures.jit import EXACT

NEAR, ALL = 4, 12  # how many boxes back a merge is tried; so few are tried all


@njit(**EXACT)
def _read(box: Floats, at: int) -> Box:
    """A box of a list."""
    return box[at, 0], box[at, 1], box[at, 2], box[at, 3], box[at, 4], box[at, 5]


@njit(**EXACT)
def _around(one: Box, two: Box) -> Box:
    """The box around two others."""
    return (
        min(one[0], two[0]),
        min(one[1], two[1]),
        min(one[2], two[2]),
        max(one[3], two[3]),
        max(one[4], two[4]),
        max(one[5], two[5]),
    )


@njit(**EXACT)
def _hull(box: Floats, total: int) -> Box:
    """The box around the first boxes."""
    around = _read(box, 0)
    for at in range(1, total):
        around = _around(around, _read(box, at))
    return around


@njit(**EXACT)
def _matters(better: Floats, room: int, box: Box) -> bool:
    """Whether the largest range of a box holds less better objects than there is room: then all of it do."""
    lo, hi, top, held = box[0], -box[1], -box[2], 0
    for j in range(better.shape[0]):
        x, height = better[j, 0], better[j, 1]
        held += (lo <= x) & (x <= hi) & (height <= top)
    return held < room


@njit(**EXACT)
def _apart(box: Floats, start: int, end: int, both: Box) -> bool:
    """Whether none of the boxes start..end-1 meets a box."""
    for at in range(start, end):
        least = (box[at, 0] <= both[3]) & (box[at, 1] <= both[4]) & (box[at, 2] <= both[5])
        if least & (box[at, 3] >= both[0]) & (box[at, 4] >= both[1]) & (box[at, 5] >= both[2]):
            return False
    return True


@njit(**EXACT)
def _encloses(both: Box, box: Floats, start: int, end: int) -> bool:
    """Whether a box holds all of one of the boxes start..end-1."""
    a, b, c, d, e, f = both
    for at in range(start, end):
        least = (a <= box[at, 0]) & (b <= box[at, 1]) & (c <= box[at, 2])
        if least & (box[at, 3] <= d) & (box[at, 4] <= e) & (box[at, 5] <= f):
            return True
    return False


@njit(**EXACT)
def merge_boxes(
    tree: CornerTree, bound: int, box: Floats, total: int, better: Floats, room: int, cut: Cut
) -> int:
    """Let the first boxes become fewer, till no two near each other in the list can be one; return how many.

    Nobody else is in a box where the object matters to everybody and that meets no third box. Else those are
    tried first who were found in the way last. A pair is tried again only if one of it has `grown` since it
    was `tried`.
    """
    start, end, point, witness = cut.start, cut.end, cut.point, cut.witness
    size, moment = -1, 1
    hull = _hull(box, total)
    around = near_to(cut, hull)
    grown, tried = np.ones(total, np.int64), np.zeros(total, np.int64)
    while size != total:
        size, kept = total, 0
        near = size if size <= ALL else NEAR
        for at in range(size):
            for axis in range(6):
                box[kept, axis] = box[at, axis]
            mine, alone = _read(box, at), True
            grown[kept], tried[kept] = grown[at], tried[at]
            for other in range(kept - 1, max(0, kept - near) - 1, -1):
                if grown[other] <= tried[kept] and grown[kept] <= tried[kept]:
                    continue
                theirs = _read(box, other)
                both = _around(theirs, mine)
                if between(witness, 0, WITNESSES, both, theirs, mine) >= 0:
                    continue
                if _encloses(both, box, other + 1, kept) or _encloses(
                    both, box, at + 1, min(at + NEAR, size)
                ):
                    continue
                free, found = room > 0 and _matters(better, room, both), np.int64(-1)
                free = free and _apart(box, 0, other, both) and _apart(box, other + 1, kept, both)
                free = free and _apart(box, at + 1, size, both)
                if not free:
                    found = look(around, start, end, point, both, theirs, mine)
                    while found <= UNREAD:
                        around = look_below(tree, bound, cut, UNREAD - found, around, hull)
                        found = look(around, start, end, point, both, theirs, mine)
                if found < 0:
                    moment += 1
                    grown[other], alone = moment, False
                    box[other, 0], box[other, 1], box[other, 2] = both[0], both[1], both[2]
                    box[other, 3], box[other, 4], box[other, 5] = both[3], both[4], both[5]
                    break
                remember(cut, found)
            tried[kept] = moment
            kept += alone
        total = kept
    return total
