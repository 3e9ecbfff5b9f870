"""Boxes around members become the tiles of a message, in 1.5 dimensions, merged where nobody else is between.

Tiles that were painted are shrunk to the members in them, or dropped. Two boxes become one if the box around
both holds nobody who is in neither. Tiles of neighbouring slabs with the same ranges become one at once.
Boxes have the three axes of `slab_members`. [Range §III-B, App. D, Alg. 10]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.cover import BoxTiles, longer
from rankcast.range_topk.dissemination.slab_members import (
    HEIGHT,
    HI,
    LO,
    UNREAD,
    WITNESSES,
    Box,
    Cut,
    Members,
    between,
    look,
    look_below,
    near_to,
    remember,
)
from rankcast.range_topk.dissemination.slabs import ObjectsByFirst, Slabs, slab_at
from rankcast.range_topk.kernels.corners import CornerTree, Floats, Rows
from rankcast.range_topk.kernels.paint import Tiles, below, coarsen
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


@njit(**EXACT)
def _fit(
    members: Members, start: int, end: int, slabs: Slabs, rows: Rows, out: BoxTiles, found: Floats
) -> None:
    """Find the box around the members start..end-1 in each tile; `rows` has the tiles of slabs.

    Tiles of a slab are in the order of falling lo, and every member is in one of them.
    """
    span, low, first, heights, count = members.span, out.low, rows[0, 0], slabs.height, slabs.size[0]
    for i in range(start, end):
        at = slab_at(heights, count, span[i, HEIGHT]) - rows[0, 1]
        place = 0
        while low[rows[at + 1, place + 1], 0] > span[i, LO]:
            place += 1
        t = rows[at + 1, place + 1] - first
        for axis in range(3):
            found[t, axis] = min(found[t, axis], span[i, axis])
            found[t, 3 + axis] = max(found[t, 3 + axis], span[i, axis])


@njit(**EXACT)
def thin(
    tree: CornerTree, members: Members, which: tuple[int, int], slabs: Slabs, rows: Rows, bound: int,
    better: Floats, room: int, out: BoxTiles,
) -> BoxTiles:  # fmt: skip
    """Shrink, drop and merge the tiles of one message to members, those of `which` from one to another."""
    first = np.int64(rows[0, 0])
    total = out.size[0] - first
    found = np.empty((total, 6))
    found[:, :3], found[:, 3:] = np.inf, -np.inf
    _fit(members, which[0], which[1], slabs, rows, out, found)
    out.size[0] = first
    return write_tiles(tree, members.cut, found, total, bound, better, room, out)


@njit(**EXACT)
def write_tiles(
    tree: CornerTree, cut: Cut, box: Floats, total: int, bound: int, better: Floats, room: int, out: BoxTiles
) -> BoxTiles:
    """Append boxes around members that are not empty, merged, as tiles of one message."""
    kept = 0
    for t in range(total):
        if box[t, LO] <= box[t, 3 + LO]:
            hi, height = box[t, HI], box[t, HEIGHT]
            box[kept, LO], box[kept, HI], box[kept, HEIGHT] = box[t, LO], -box[t, 3 + HI], -box[t, 3 + HEIGHT]
            box[kept, 3 + LO], box[kept, 3 + HI], box[kept, 3 + HEIGHT] = box[t, 3 + LO], -hi, -height
            kept += 1
    if kept > 1:
        kept = merge_boxes(tree, bound, box, kept, better, room, cut)
    while out.size[0] + kept > out.item.shape[0]:
        out = longer(out)
    low, high, first = out.low, out.high, out.size[0]
    for t in range(kept):
        at = first + t
        low[at, 0], low[at, 1], low[at, bound], low[at, 5 - bound] = box[t, 0], box[t, 1], box[t, 2], -np.inf
        high[at, 0], high[at, 1], high[at, bound], high[at, 5 - bound] = (
            box[t, 3],
            box[t, 4],
            box[t, 5],
            -np.inf,
        )
    out.size[0] += kept
    return out


class SlabPaintState(NamedTuple):
    """What painting works with: objects, in a tree and along the first attribute, and their labels.

    Then subscriptions, a tile buffer for one slab, counts.

    `sign` turns the second attribute so that it is bounded from above, `bound` is its axis among corners;
    `aware`: whether subscriptions are looked at; `lists` > 0: how many boxes cover the tiles of a slab;
    `asking`: whether the questions are asked that the published server asks. It minds what the members reach
    only in slabs that an exposed object has changed, paints what nobody gains, and goes on without members.
    """

    objects: CornerTree
    along: ObjectsByFirst
    label: NDArray[np.int64]
    corners: CornerTree
    members: Members
    tiles: Tiles
    k: int
    sign: float
    bound: int
    aware: bool
    lists: int
    asking: bool
    tally: NDArray[np.int64]


@njit(**EXACT)
def _goes_on(low: Floats, high: Floats, at: int, box: Floats, i: int) -> bool:
    """Whether a tile has the ranges of a box in the first attribute."""
    same = low[at, 0] == box[i, 0] and high[at, 0] == box[i, 1]
    return same and low[at, 1] == -box[i, 3] and high[at, 1] == -box[i, 2]


@njit(**EXACT)
def emit(
    tiles: Tiles, bound: int, lists: int, out: BoxTiles, rows: Rows, z: int, bottom: float, end: float
) -> BoxTiles:
    """Append the tiles of one slab, or let those of the slab below with the same ranges go on.

    `rows[0]` are the first tile and the first slab, `rows[z + 1]` how many tiles slab z has, and which. They
    are in the order of falling lo.
    """
    box = tiles.box
    if lists > 0:
        coarsen(tiles, 0, lists)
    while out.size[0] + tiles.size[0] + 2 > out.item.shape[0]:
        out = longer(out)
    low, high, top, floor, j = out.low, out.high, -below(end), -below(bottom), 1
    beneath = rows[z, 0] if z > 0 else 0
    for i in range(tiles.size[0]):
        while j <= beneath and high[rows[z, j], 0] > box[i, 1]:
            j += 1
        at = rows[z, j] if j <= beneath else -1
        if at >= 0 and low[at, bound] == floor and _goes_on(low, high, at, box, i):
            low[at, bound] = top
        else:
            at = out.size[0]
            low[at, 5 - bound], high[at, 5 - bound] = -np.inf, -np.inf
            low[at, bound], high[at, bound] = top, -bottom
            low[at, 0], high[at, 0], low[at, 1], high[at, 1] = box[i, 0], box[i, 1], -box[i, 3], -box[i, 2]
            out.size[0] += 1
        rows[z + 1, i + 1] = at
    rows[z + 1, 0] = tiles.size[0]
    return out


@njit(**EXACT)
def stamp(out: BoxTiles, first: int, row: int, value: float, place: tuple[float, float]) -> None:
    """Write the message of the tiles from `first` on."""
    for at in range(first, out.size[0]):
        out.item[at], out.value[at], out.x[at, 0], out.x[at, 1] = row, value, place[0], place[1]


@njit(**EXACT)
def new_rows(k: int, first: int, start: int, end: int) -> Rows:
    """Room for the tiles of slabs start..end-1 of a message whose tiles begin at `first`."""
    rows = np.empty((end - start + 1, k + 3), np.int32)
    rows[0, 0], rows[0, 1] = first, start
    return rows
