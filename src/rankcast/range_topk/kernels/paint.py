"""Painting an event: tiles that tell everybody whose list it changes, and nobody else.

A value that improves: tile the object's new influence region. A value that worsens: tile the old region,
then sweep the value upwards; whenever the object falls behind another one inside its influence interval,
that one is exposed, and gains what the region loses. The updated object is told before its replacements,
or these would find no place in the lists. The sweep ends at the new value, or when no object below it is
left in the interval. An insert comes from +inf, a delete goes to +inf, a move is a delete and an insert.
[Range §III, App. E]

Without knowledge of the subscriptions (`aware` false) no point is ever read, and the interval is that of the
staircase. With it, only objects between the ends of somebody's range are looked at, and the tiles are
thinned. Skipped objects are missing from the staircase, but lie outside every range that is still in the
region, so what the region holds of the subscriptions stays right.

With `lists` > 0 the tiles of an object are covered by at most so many boxes. Some then hear needlessly: of
the updated object, which their list does not hold and which is not good enough for it; or of an exposed
one. A list that waits for its replacement holds every exposed object of its range with a smaller value than
that already, because the updated object was behind these and still in the list; so no false one gets in.

What is counted: SNAP is the question that shrinks a tile, one a tile, as the paper's tables have it; PROBE
is every other question to the subscriptions, to merge tiles or to find the ends of the window.

Cost: two firstk, one miny an exposed object and a last one, O(k) a tile group. Several k at once (`ks`,
largest first): the lists of a smaller k are prefixes, and its exposed objects are among those of the largest.

Painting with knowledge of the subscriptions: drop, shrink and merge tiles; look no further than they do.

Tiles of one item come in order, disjoint, lo growing or falling from one to the next. Each is shrunk to the
points inside it, or dropped. It is then merged into the tile before it if the box around both holds no point
of neither: so nobody is told who was not to be told, and nobody twice, whatever other tiles the item has.
A box of an optimal tiling that holds points of two tiles holds those of all tiles between them; so every
optimal box meets at most two of ours, and ours are at most twice as many [Range §III-B, Thm. 4].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.object_tree import (
    HEIGHT,
    SIZE,
    ObjectTree,
    insert,
    miny,
    remove,
    room,
    set_value,
)
from rankcast.range_topk.kernels.points import PointTree
from rankcast.range_topk.kernels.points_search import snap, stray, widen
from rankcast.range_topk.kernels.regions import (
    LEFT,
    Message,
    Stairs,
    Tiles,
    climb,
    coarsen,
    expose,
    move,
    paint_gain,
    paint_region,
    reach,
    room_of,
    space,
    stamp,
    strip_of,
)
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


FIRSTK, MINY, SNAP, PROBE = range(4)


class Brush(NamedTuple):
    """Everything painting works with. `ks` falls; `aware` and `lists` choose the method."""

    tree: ObjectTree
    points: PointTree
    stairs: Stairs
    tiles: Tiles
    ks: NDArray[np.int64]
    tally: NDArray[np.int64]
    window: NDArray[np.float64]
    aware: bool
    lists: int


class Events(NamedTuple):
    """Updates in order: an x of NaN keeps x, a y of NaN keeps y, a y of +inf deletes."""

    row: NDArray[np.int32]
    x: NDArray[np.float64]
    y: NDArray[np.float64]


@njit(**EXACT)
def tight(brush: Brush) -> bool:
    """Whether the buffer might not take the next two groups of tiles."""
    return space(brush.tiles) < 2 * (brush.ks[0] + 1) * brush.ks.shape[0]


@njit(**EXACT)
def refine(brush: Brush, first: int) -> None:
    """Bring the tiles of one object into the form that the method wants."""
    if brush.aware and brush.lists > 0:
        clip(brush.tiles, first, brush.window)
    if brush.lists > 0:
        coarsen(brush.tiles, first, brush.lists)
    if brush.aware:
        brush.tally[SNAP] += brush.tiles.size[0] - first
        brush.tally[PROBE] += thin(brush.points, brush.tiles, first)


@njit(**EXACT)
def _tell(brush: Brush, row: int, value: float, event: int) -> None:
    """Tile the region of the staircase for every k."""
    x = brush.tree.x[row]
    brush.window[0], brush.window[3] = -np.inf, np.inf
    for shelf in range(brush.ks.shape[0]):
        first = brush.tiles.size[0]
        paint_region(brush.stairs, x, brush.ks[shelf], brush.tiles)
        refine(brush, first)
        stamp(brush.tiles, first, Message(row, x, value, event, shelf))


@njit(**EXACT)
def _tell_exposed(brush: Brush, x: float, other: int, event: int) -> None:
    """Tile what an exposed object gains for every k, then count it among the better ones."""
    tree = brush.tree
    for shelf in range(brush.ks.shape[0]):
        first = brush.tiles.size[0]
        paint_gain(brush.stairs, x, tree.x[other], brush.ks[shelf], brush.tiles)
        refine(brush, first)
        stamp(brush.tiles, first, Message(other, tree.x[other], tree.y[other], event, shelf))
    expose(brush.stairs, x, tree.x[other])


@njit(**EXACT)
def _interval(brush: Brush, x: float) -> tuple[float, float]:
    """The open interval in which the next exposed object may lie."""
    if brush.aware:
        return np.nextafter(brush.window[0], -np.inf), np.nextafter(brush.window[3], np.inf)
    return reach(brush.stairs, x, brush.ks[0])


@njit(**EXACT)
def _look_around(brush: Brush, x: float, first: int) -> bool:
    """Set the window around the points of the region, tiled from `first` on; False if there are none."""
    if brush.lists > 0:
        brush.tally[PROBE] += look(brush.points, brush.stairs, x, brush.ks[0], brush.window)
        return brush.window[0] < np.inf
    return surround(brush.tiles, first, brush.window)


@njit(**EXACT)
def _look_again(brush: Brush, x: float, first: int) -> None:
    """Narrow the window if the points just told of may have been the ones at its ends."""
    gained = np.empty(4)
    told = surround(brush.tiles, first, gained)
    if told and (gained[0] <= brush.window[0] or gained[3] >= brush.window[3]):
        brush.tally[PROBE] += look(brush.points, brush.stairs, x, brush.ks[0], brush.window)


@njit(**EXACT)
def lower(brush: Brush, row: int, value: float, event: int) -> bool:
    """Paint a value that worsens, before it is applied; False if the buffer may be too small."""
    tree = brush.tree
    x, y, label, limit = tree.x[row], tree.y[row], tree.label[row], tree.label[row]
    climb(tree, row, y, brush.stairs)
    brush.tally[FIRSTK] += 2
    first = brush.tiles.size[0]
    _tell(brush, row, value, event)
    if brush.tree.meta[SIZE] <= brush.ks[-1]:  # no list is full: nobody waits behind its last item
        return True
    if brush.aware and not _look_around(brush, x, first):
        return True
    while room_of(brush.stairs, brush.ks[0]) > 0:
        if tight(brush):
            return False
        after, before = _interval(brush, x)
        if after >= before:
            break
        other = miny(tree, after, before, y, label, value, limit)
        brush.tally[MINY] += 1
        if other < 0:
            break
        first = brush.tiles.size[0]
        _tell_exposed(brush, x, other, event)
        if brush.aware:
            _look_again(brush, x, first)
        y, label = tree.y[other], tree.label[other]
    return True


@njit(**EXACT)
def lift(brush: Brush, row: int, event: int) -> None:
    """Paint a value that improved, after it was applied."""
    climb(brush.tree, row, brush.tree.y[row], brush.stairs)
    brush.tally[FIRSTK] += 2
    _tell(brush, row, brush.tree.y[row], event)


@njit(**EXACT)
def _paint_event(brush: Brush, row: int, x: float, y: float, event: int) -> bool:
    """Paint and apply one event; False, with nothing applied, if the buffer may be too small."""
    tree = brush.tree
    present = tree.leaf_of[row] >= 0
    x = tree.x[row] if np.isnan(x) else x
    y = tree.y[row] if np.isnan(y) else y
    if present and (y == np.inf or x != tree.x[row]):
        if not lower(brush, row, np.inf, event):
            return False
        remove(tree, row)
        present = False
    if not present:
        if y < np.inf:
            insert(tree, row, x, y)
            lift(brush, row, event)
    elif y < tree.y[row]:
        set_value(tree, row, y)
        lift(brush, row, event)
    elif y > tree.y[row]:
        if not lower(brush, row, y, event):
            return False
        set_value(tree, row, y)
    return True


@njit(**EXACT)
def paint(brush: Brush, events: Events, start: int) -> int:
    """Paint and apply events from `start` on; return the first one that needs a larger buffer or tree."""
    for event in range(start, events.row.shape[0]):
        first = brush.tiles.size[0]
        if tight(brush) or room(brush.tree) < brush.tree.meta[HEIGHT] + 2:
            return event
        asked = brush.tally.copy()
        if not _paint_event(brush, events.row[event], events.x[event], events.y[event], event):
            brush.tiles.size[0], brush.tally[:] = first, asked
            return event
    return events.row.shape[0]
