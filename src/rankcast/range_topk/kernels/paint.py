"""Painting: from an event to the tiles of subscription space whose lists it changes, and of nobody else.

Regions. The influence region of an object is the set of subscriptions in whose list it belongs. Let l_1 >=
l_2 >= ... be the x of better objects on the left, r_1 <= r_2 <= ... those on the right, and `same` how many
better objects stand at x itself. A range that holds x holds those too; so to list the object it may hold at
most room - 1 of the others, room = k - same. A range (lo, hi) holds the first a on the left and the first b
on the right exactly if l_{a+1} < lo <= l_a and r_b <= hi < r_{b+1} (l_0 = r_0 = x; missing ones are
infinite). So the region is the staircase a + b < room [Range §II-C]. Equal x make steps of no width or
height: these are left out, and strips of one height are one tile, so the tiles are as few as in any exact
tiling. The lists of a smaller k are prefixes of those of the largest.

Tiles. A tile is a closed box (lo from, lo to, hi from, hi to) with the item that everybody inside must hear
of; the contract's half-open form has the next floats outside, and null for infinite. Boxes are appended to a
buffer whose size the caller has checked with `space`, then stamped; a deleted item has the value +inf.

Events. A value that improves: tile the object's new region. A value that worsens: tile the old region, then
sweep the value upwards; whenever the object falls behind another one inside its influence interval, that one
is exposed, and gains what the region loses. The updated object is sent before its replacements, or these
would find no place in the lists. The sweep ends at the new value, or when no object below it is left in the
interval. An insert comes from +inf, a delete goes to +inf, a move is a delete and an insert. [Range §III]

Knowledge of the subscriptions. With `aware`, only objects between the ends of somebody's range are looked at;
skipped ones lie outside every range that is still in the region. Each tile is shrunk to the points in it, or
dropped, and merged into the tile before it if the box around both holds no other point; so nobody hears
needlessly or twice, and the tiles are at most twice as many as in an optimal tiling [Range §III-B, Thm. 4].
With `lists` > 0 the tiles of an object are covered by at most so many boxes (`coarsen`): some hear needlessly
then, but no false item gets in, as a list that waits for its replacement already holds every exposed object
of its range with a smaller value.

Cost: two firstk, a search for every 16 exposed objects, O(k) a tile group, also for several k (`ks`).
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
    firstk,
    insert,
    next_above,
    place_of,
    remove,
    room,
    set_value,
)
from rankcast.range_topk.kernels.points import PointTree
from rankcast.range_topk.kernels.points_search import snap, stray, widen
from rankcast.structures.arrays import borrowed
from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]


class Tiles(NamedTuple):
    """Tiles in sending order; `size[0]` are filled. `size_class` numbers the `ks`, `step` the strips."""

    box: NDArray[np.float64]
    item: NDArray[np.int32]
    x: NDArray[np.float64]
    value: NDArray[np.float64]
    event: NDArray[np.int32]
    size_class: NDArray[np.int32]
    step: NDArray[np.int32]
    size: NDArray[np.int64]


class TileMessage(NamedTuple):
    """What a tile tells: an item at x with its new value, from which event, for which class of k."""

    item: int
    x: float
    value: float
    event: int
    size_class: int


@njit(**EXACT)
def space(tiles: Tiles) -> int:
    """How many more tiles the buffer takes."""
    return tiles.item.shape[0] - tiles.size[0]


@njit(**EXACT)
def above(bound: float) -> float:
    """The first float above an excluded lower bound; -inf means no bound."""
    return bound if bound == -np.inf else np.nextafter(bound, np.inf)


@njit(**EXACT)
def below(bound: float) -> float:
    """The first float below an excluded upper bound; +inf means no bound."""
    return bound if bound == np.inf else np.nextafter(bound, -np.inf)


@njit(**EXACT)
def stamp(tiles: Tiles, first: int, message: TileMessage) -> None:
    """Write the message of the tiles from `first` on."""
    end = tiles.size[0]
    tiles.item[first:end], tiles.x[first:end] = message.item, message.x
    tiles.value[first:end] = message.value
    tiles.event[first:end], tiles.size_class[first:end] = message.event, message.size_class


@njit(**EXACT)
def move(tiles: Tiles, source: int, target: int) -> None:
    """Copy one tile over another."""
    tiles.box[target] = tiles.box[source]
    tiles.item[target], tiles.x[target] = tiles.item[source], tiles.x[source]
    tiles.value[target] = tiles.value[source]
    tiles.event[target], tiles.size_class[target] = tiles.event[source], tiles.size_class[source]
    tiles.step[target] = tiles.step[source]


@njit(**EXACT)
def coarsen(tiles: Tiles, first: int, lists: int) -> None:
    """Cover the tiles from `first` on, one item's in order, by at most `lists` bounding boxes.

    Steps are cut into equal blocks, so a box spans fewer than 1 + (last - first step + 1) / lists of them and
    ranks nobody more than that many places beyond k. Equal x skip steps, so these are counted. [Range §IV-B]
    """
    if tiles.size[0] == first:
        return
    start, kept, block = tiles.step[first], first, 0
    span = tiles.step[tiles.size[0] - 1] - start + 1
    for at in range(first + 1, tiles.size[0]):
        here = (tiles.step[at] - start) * lists // span
        if here == block:
            box, other = tiles.box[kept], tiles.box[at]
            box[0], box[1] = min(box[0], other[0]), max(box[1], other[1])
            box[2], box[3] = min(box[2], other[2]), max(box[3], other[3])
        else:
            kept += 1
            block = here
            move(tiles, at, kept)
    tiles.size[0] = kept + 1


LEFT, RIGHT, SAME = range(3)


class Stairs(NamedTuple):
    """The nearest better objects on both sides, near to far, and `size`: how many left, right, at x."""

    left: NDArray[np.float64]
    right: NDArray[np.float64]
    size: NDArray[np.int64]


def empty_stairs(k: int) -> Stairs:
    """Room for the staircases of every k up to the given one."""
    return Stairs(left=np.empty(k), right=np.empty(k), size=np.zeros(3, np.int64))


@njit(**EXACT)
def climb(tree: ObjectTree, row: int, y: float, stairs: Stairs) -> None:
    """Find the neighbours of a present object that are better than it would be with value y. Two firstk."""
    leaf, x, label, one = np.int64(tree.leaf_of[row]), tree.x[row], tree.label[row], np.int64(1)
    slot = place_of(tree.child, leaf, row)
    size, same = firstk(tree, leaf, slot - 1, -one, x, y, label, stairs.left)
    stairs.size[LEFT], stairs.size[SAME] = size, same
    size, same = firstk(tree, leaf, slot + 1, one, x, y, label, stairs.right)
    stairs.size[RIGHT] = size
    stairs.size[SAME] += same


@njit(**EXACT)
def expose(stairs: Stairs, x: float, other: float) -> None:
    """Note one more better object, at `other`, among the neighbours of x."""
    if other == x:
        stairs.size[SAME] += 1
        return
    side, nearest, sign = (LEFT, stairs.left, -1.0) if other < x else (RIGHT, stairs.right, 1.0)
    at = stairs.size[side]
    stairs.size[side] = min(at + 1, nearest.shape[0])
    while at > 0 and sign * nearest[at - 1] > sign * other:
        if at < nearest.shape[0]:
            nearest[at] = nearest[at - 1]
        at -= 1
    if at < nearest.shape[0]:
        nearest[at] = other


@njit(**EXACT)
def room_of(stairs: Stairs, k: int) -> int:
    """How many objects of the list are not taken by better ones at x itself."""
    return k - stairs.size[SAME]


@njit(**EXACT)
def left_at(left: NDArray[np.float64], count: int, x: float, a: int) -> float:
    """l_a: x for a = 0, -inf beyond the last."""
    if a == 0:
        return x
    return left[a - 1] if a <= count else -np.inf


@njit(**EXACT)
def right_at(right: NDArray[np.float64], count: int, x: float, b: int) -> float:
    """r_b: x for b = 0, +inf beyond the last."""
    if b == 0:
        return x
    return right[b - 1] if b <= count else np.inf


@njit(**EXACT)
def paint_region(stairs: Stairs, x: float, k: int, tiles: Tiles) -> None:
    """Tile the influence region by strips from east to west. At most k tiles [Range App. E, Alg. 4]."""
    left, right, box, step = stairs.left, stairs.right, tiles.box, tiles.step
    lefts, rights, room = stairs.size[LEFT], stairs.size[RIGHT], room_of(stairs, k)
    first, size, last = tiles.size[0], tiles.size[0], np.nan
    for a in range(min(lefts + 1, room)):
        outer, inner = left_at(left, lefts, x, a + 1), left_at(left, lefts, x, a)
        top = right_at(right, rights, x, room - a)
        if outer == inner:
            continue
        if top != last or size == first:
            box[size, 1], box[size, 2], box[size, 3] = inner, x, below(top)
            size += 1
        box[size - 1, 0], step[size - 1], last = above(outer), a, top
    tiles.size[0] = size


@njit(**EXACT)
def paint_gain(stairs: Stairs, x: float, other: float, k: int, tiles: Tiles) -> None:
    """Tile what an exposed object at `other` gains when the object at x falls behind it, before `expose`.

    The ranges that hold both and exactly room - 1 better ones: a diagonal chain from east to west, at most
    k tiles. Border cases differ from [Range App. E, Alg. 5].
    """
    left, right, box, step = stairs.left, stairs.right, tiles.box, tiles.step
    lefts, rights, room = stairs.size[LEFT], stairs.size[RIGHT], room_of(stairs, k)
    size = tiles.size[0]
    for a in range(max(0, room - 1 - rights), min(lefts + 1, room)):
        outer, inner = left_at(left, lefts, x, a + 1), min(left_at(left, lefts, x, a), other)
        bottom = max(right_at(right, rights, x, room - 1 - a), other)
        top = right_at(right, rights, x, room - a)
        if outer < inner and bottom < top:
            box[size, 0], box[size, 1], box[size, 2], box[size, 3] = above(outer), inner, bottom, below(top)
            step[size] = a
            size += 1
    tiles.size[0] = size


@njit(**EXACT)
def strip_of(stairs: Stairs, x: float, k: int, a: int, strip: NDArray[np.float64]) -> bool:
    """Write the strip of the region whose ranges hold just the first a on the left; False if it is empty."""
    lefts, room = stairs.size[LEFT], room_of(stairs, k)
    outer = left_at(stairs.left, lefts, x, a + 1)
    strip[0], strip[1], strip[2] = above(outer), left_at(stairs.left, lefts, x, a), x
    strip[3] = below(right_at(stairs.right, stairs.size[RIGHT], x, room - a))
    return outer < strip[1]


@njit(**EXACT)
def reach(stairs: Stairs, x: float, k: int) -> tuple[float, float]:
    """The influence interval, open: beyond its ends room better objects lie between x and any other."""
    room = room_of(stairs, k)
    left = left_at(stairs.left, stairs.size[LEFT], x, room)
    return left, right_at(stairs.right, stairs.size[RIGHT], x, room)


@njit(**EXACT)
def clip(tiles: Tiles, first: int, window: Floats) -> None:
    """Cut the tiles from `first` on to a window (lo from, hi to), in which the staircase is right."""
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
    kept, probes = first - 1, 0
    found, both = np.empty(4), np.empty(4)
    for at in range(first, tiles.size[0]):
        if not snap(points, tiles.box[at], found):
            continue
        if kept >= first:
            both[:] = tiles.box[kept]
            widen(both, found[0], found[1], found[2], found[3])
            probes += 1
            if not stray(points, both, tiles.box[kept], found):
                tiles.box[kept] = both
                continue
        kept += 1
        move(tiles, at, kept)
        tiles.box[kept] = found
    tiles.size[0] = kept + 1
    return probes


@njit(**EXACT)
def surround(tiles: Tiles, first: int, window: Floats) -> bool:
    """Write the box around the tiles from `first` on; return whether there are any."""
    window[0], window[1], window[2], window[3] = np.inf, -np.inf, np.inf, -np.inf
    for at in range(first, tiles.size[0]):
        box = tiles.box[at]
        widen(window, box[0], box[1], box[2], box[3])
    return tiles.size[0] > first


@njit(**EXACT)
def look(points: PointTree, stairs: Stairs, x: float, k: int, window: Floats) -> int:
    """Set the window's lo from and hi to around the points of the region; return how many snaps it took.

    The first strip from the west with a point gives lo; those from the east hi until none can be higher.
    """
    strip, found, probes = np.empty(4), np.empty(4), 0
    window[0], window[3] = np.inf, -np.inf
    west = min(stairs.size[LEFT] + 1, room_of(stairs, k)) - 1
    while west >= 0:
        if strip_of(stairs, x, k, west, strip):
            probes += 1
            if snap(points, strip, found):
                window[0], window[3] = found[0], found[3]
                break
        west -= 1
    for a in range(west):
        if strip_of(stairs, x, k, a, strip):
            if strip[3] <= window[3]:
                break
            probes += 1
            if snap(points, strip, found):
                window[3] = max(window[3], found[3])
    return probes


# SNAP: a question that shrinks a tile, as the paper counts them; PROBE: any other one to the subscriptions
FIRSTK, MINY, SNAP, PROBE = range(4)
AHEAD = 16  # exposed objects that are looked for at once, at most


class PaintState(NamedTuple):
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


class IntervalEvents(NamedTuple):
    """Updates in order: an x of NaN keeps x, a y of NaN keeps y, a y of +inf deletes."""

    row: NDArray[np.int32]
    x: NDArray[np.float64]
    y: NDArray[np.float64]


@njit(**EXACT)
def tight(state: PaintState) -> bool:
    """Whether the buffer might not take the next two groups of tiles."""
    return space(state.tiles) < 2 * (state.ks[0] + 1) * state.ks.shape[0]


@njit(**EXACT)
def refine(state: PaintState, first: int) -> None:
    """Bring the tiles of one object into the form that the method wants."""
    if state.aware and state.lists > 0:
        clip(state.tiles, first, state.window)
    if state.lists > 0:
        coarsen(state.tiles, first, state.lists)
    if state.aware:
        state.tally[SNAP] += state.tiles.size[0] - first
        state.tally[PROBE] += thin(state.points, state.tiles, first)


@njit(**EXACT)
def _tile_region(state: PaintState, row: int, value: float, event: int) -> None:
    """Tile the region of the staircase for every k."""
    x = state.tree.x[row]
    state.window[0], state.window[3] = -np.inf, np.inf
    for number in range(state.ks.shape[0]):
        first = state.tiles.size[0]
        paint_region(state.stairs, x, state.ks[number], state.tiles)
        if state.aware or state.lists > 0:
            refine(state, first)
        stamp(state.tiles, first, TileMessage(row, x, value, event, number))


@njit(**EXACT)
def _interval(state: PaintState, x: float) -> tuple[float, float]:
    """The open interval in which the next exposed object may lie."""
    if state.aware:
        return np.nextafter(state.window[0], -np.inf), np.nextafter(state.window[3], np.inf)
    return reach(state.stairs, x, state.ks[0])


@njit(**EXACT)
def _look_around(state: PaintState, x: float, first: int) -> bool:
    """Set the window around the points of the region, tiled from `first` on; False if there are none."""
    if state.lists > 0:
        state.tally[PROBE] += look(state.points, state.stairs, x, state.ks[0], state.window)
        return state.window[0] < np.inf
    return surround(state.tiles, first, state.window)


@njit(**EXACT)
def _look_again(state: PaintState, x: float, first: int) -> None:
    """Narrow the window if the points in the tiles just painted may have been the ones at its ends."""
    gained = np.empty(4)
    painted = surround(state.tiles, first, gained)
    if painted and (gained[0] <= state.window[0] or gained[3] >= state.window[3]):
        state.tally[PROBE] += look(state.points, state.stairs, x, state.ks[0], state.window)


@njit(**EXACT)
def lower(state: PaintState, row: int, value: float, event: int) -> bool:
    """Paint a value that worsens, before it is applied; False if the buffer may be too small."""
    tree, stairs, tiles, ks, k = state.tree, state.stairs, state.tiles, state.ks, state.ks[0]
    x, y, label, limit = tree.x[row], tree.y[row], tree.label[row], tree.label[row]
    climb(tree, row, y, stairs)
    state.tally[FIRSTK] += 2
    first = state.tiles.size[0]
    _tile_region(state, row, value, event)
    if state.tree.meta[SIZE] <= state.ks[-1]:  # no list is full: nobody waits behind its last item
        return True
    if state.aware and not _look_around(state, x, first):
        return True
    # exposed objects are found some at a time: the interval in which they may lie only shrinks
    others, size, at, west, east = np.empty(min(k + 1, AHEAD), np.int32), 0, 0, np.inf, -np.inf
    while room_of(stairs, k) > 0:
        if tight(state):
            return False
        after, before = _interval(state, x)
        if after >= before:
            break
        state.tally[MINY] += 1
        while at < size and not after < tree.x[others[at]] < before:
            at += 1
        if at == others.shape[0] or after < west or before > east:
            at, west, east = 0, after, before
            size = next_above(tree, after, before, y, label, value, limit, others)
        if at == size:
            break
        other, first, at = others[at], tiles.size[0], at + 1
        place, y, label = tree.x[other], tree.y[other], tree.label[other]
        for number in range(ks.shape[0]):  # what it gains, for every k; then it is one of the better ones
            start = tiles.size[0]
            paint_gain(stairs, x, place, ks[number], tiles)
            if state.aware or state.lists > 0:
                refine(state, start)
            stamp(tiles, start, TileMessage(other, place, y, event, number))
        expose(stairs, x, place)
        if state.aware:
            _look_again(state, x, first)
    return True


@njit(**EXACT)
def lift(state: PaintState, row: int, event: int) -> None:
    """Paint a value that improved, after it was applied."""
    climb(state.tree, row, state.tree.y[row], state.stairs)
    state.tally[FIRSTK] += 2
    _tile_region(state, row, state.tree.y[row], event)


@njit(**EXACT)
def _paint_event(state: PaintState, row: int, x: float, y: float, event: int) -> bool:
    """Paint and apply one event; False, with nothing applied, if the buffer may be too small."""
    tree = state.tree
    present = tree.leaf_of[row] >= 0
    x = tree.x[row] if np.isnan(x) else x
    y = tree.y[row] if np.isnan(y) else y
    if present and (y == np.inf or x != tree.x[row]):
        if not lower(state, row, np.inf, event):
            return False
        remove(tree, row)
        present = False
    if not present:
        if y < np.inf:
            insert(tree, row, x, y)
            lift(state, row, event)
    elif y < tree.y[row]:
        set_value(tree, row, y)
        lift(state, row, event)
    elif y > tree.y[row]:
        if not lower(state, row, y, event):
            return False
        set_value(tree, row, y)
    return True


@njit(**EXACT)
def paint(state: PaintState, events: IntervalEvents, start: int) -> int:
    """Paint and apply events from `start` on; return the first one that needs a larger buffer or tree."""
    state, events = borrowed(state), borrowed(events)
    for event in range(start, events.row.shape[0]):
        first = state.tiles.size[0]
        if tight(state) or room(state.tree) < state.tree.meta[HEIGHT] + 2:
            return event
        before = state.tally.copy()
        if not _paint_event(state, events.row[event], events.x[event], events.y[event], event):
            state.tiles.size[0], state.tally[:] = first, before
            return event
    return events.row.shape[0]
