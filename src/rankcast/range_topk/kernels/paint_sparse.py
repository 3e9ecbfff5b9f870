"""Painting with knowledge of the subscriptions: drop, shrink and merge tiles; look no further than they do.

Tiles of one item come in order, disjoint, lo growing or falling from one to the next. Each is shrunk to the
points inside it, or dropped. It is then merged into the tile before it if the box around both holds no point
of neither: so nobody is told who was not to be told, and nobody twice, whatever other tiles the item has.
A box of an optimal tiling that holds points of two tiles holds those of all tiles between them; so every
optimal box meets at most two of ours, and ours are at most twice as many [Range §III-B, Thm. 4].
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.point_tree import PointTree
from rankcast.range_topk.kernels.points_search import snap, stray, widen
from rankcast.range_topk.kernels.staircase import LEFT, Stairs, room_of, strip_of
from rankcast.range_topk.kernels.tiles import Tiles, move
from rankcast.structures.jit import EXACT

Box = NDArray[np.float64]


@njit(**EXACT)
def clip(tiles: Tiles, first: int, window: Box) -> None:
    """Cut the tiles from `first` on to the ranges inside a window (lo from, hi to), dropping empty ones.

    Exposed objects that nobody sees are missing from the staircase; inside the window it is right.
    """
    kept = first
    for at in range(first, tiles.size[0]):
        box = tiles.box[at]
        box[0], box[3] = max(box[0], window[0]), min(box[3], window[3])
        if box[0] <= box[1] and box[2] <= box[3]:
            move(tiles, at, kept)
            kept += 1
    tiles.size[0] = kept


@njit(**EXACT)
def thin(points: PointTree, tiles: Tiles, first: int) -> int:
    """Shrink, drop and merge the tiles from `first` on; return how many merges were tried."""
    kept, asked = first - 1, 0
    found, both = np.empty(4), np.empty(4)
    for at in range(first, tiles.size[0]):
        if not snap(points, tiles.box[at], found):
            continue
        if kept >= first:
            both[:] = tiles.box[kept]
            widen(both, found[0], found[1], found[2], found[3])
            asked += 1
            if not stray(points, both, tiles.box[kept], found):
                tiles.box[kept] = both
                continue
        kept += 1
        move(tiles, at, kept)
        tiles.box[kept] = found
    tiles.size[0] = kept + 1
    return asked


@njit(**EXACT)
def surround(tiles: Tiles, first: int, window: Box) -> bool:
    """Write the box around the tiles from `first` on; return whether there are any."""
    window[0], window[1], window[2], window[3] = np.inf, -np.inf, np.inf, -np.inf
    for at in range(first, tiles.size[0]):
        box = tiles.box[at]
        widen(window, box[0], box[1], box[2], box[3])
    return tiles.size[0] > first


@njit(**EXACT)
def look(points: PointTree, stairs: Stairs, x: float, k: int, window: Box) -> int:
    """Set the window's lo from and hi to around the points of the region; return how many snaps it took.

    The first strip from the west with a point gives lo; strips from the east give hi until none can be
    higher. An empty region gives an empty window.
    """
    strip, found, asked = np.empty(4), np.empty(4), 0
    window[0], window[3] = np.inf, -np.inf
    west = min(stairs.size[LEFT] + 1, room_of(stairs, k)) - 1
    while west >= 0:
        if strip_of(stairs, x, k, west, strip):
            asked += 1
            if snap(points, strip, found):
                window[0], window[3] = found[0], found[3]
                break
        west -= 1
    for a in range(west):
        if strip_of(stairs, x, k, a, strip):
            if strip[3] <= window[3]:
                break
            asked += 1
            if snap(points, strip, found):
                window[3] = max(window[3], found[3])
    return asked
