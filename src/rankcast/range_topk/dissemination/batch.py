"""Painting the net change of a batch: Paint-Batch [Range §IV-A], corrected.

The batch is reduced to one net change an object. A move is a loss at the old place and a gain at the new one;
a loss is a value that worsens or goes, a gain one that improves or comes. For an object write IRold for its
region before the batch and IRnew for that after it. The messages are, in this order:

1. For every loss, by descending new (value, label), what goes or moves away first: the new value (or that it
   is gone) to IRnew united with IRold cut to STALE, the region that the old value would have among the
   objects of after the batch.
2. For every unchanged object that is exposed: its value to IRnew without IRold.
3. For every gain: its value to IRnew.

Then every subscriber that follows the protocol ends with its list, and hears only what the contract allows.
Let A be its list before and B the one after, L what it holds at a moment, kth the last of B if B has k items.

- Who hears what. By 1 (in IRnew), 2 and 3 it hears of the items of B that are new or changed. By 1 (the rest)
  it hears of items of A that are not in B although their old value would keep them there. Nothing else is
  sent, and of one object the tiles of one step are disjoint: nobody hears twice of it, except for a move.
- Before an item of B is sent in step 1, every item p of step 1 that is not in B was: p is gone, or behind
  kth and so behind the item. Until then L is A with entries changed or removed in place; nothing was evicted.
- From then on each p in L that is not in B is behind kth: p was sent its final value, or its old value would
  not keep it, or it is unchanged or a gain, whose entry is no better than its final value. If B has fewer
  than k items, p can only have left the range, was in STALE, and was sent to be gone: L holds no such p.
- Hence at most k - 1 items of L are better than an item b of B, the others of B, whatever values they have
  there: b is taken when sent and never evicted again. An unchanged b of A was not evicted before either. So
  at the end L holds all of B with final values; with k items that is all of L, with fewer L has no others.

The text's version fails because it takes the objects better before and after together, and so misses losses.

How the exposed are found: the net changes are applied one by one in any order, each loss with the sweep of
`paint.lower`. An unchanged object that is in B and not in A enters the list at one of these steps, which must
be a loss, and the sweep meets it there. Gains come first and losses by descending new value, because this
order meets few others. Old regions come from the tree rolled back to before the batch.

Cost: O(log n) a change for applying, rolling back and forth; a sweep a loss; two firstk and O(k) a region.

Regions are written as outlines here, so that those of one apex can be united, intersected and subtracted. All
regions of an object at x are staircases with their apex at (x, x): for every lo they hold the hi from x up to
a top that never rises as lo falls. An outline is a list of steps (edge, top) from east to west: down to the
edge, excluded, lo has that top, excluded. The last step has the edge -inf; a top of -inf is nothing, +inf is
no bound. The union of two regions has the higher top everywhere, the intersection the lower one, and what one
has beyond another lies between their tops: at most one tile a step, disjoint, in the order of lo. An outline
for k has at most k + 1 steps, one combined from n of them at most n (k + 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.object_tree import HEIGHT, ObjectTree, firstk, locate, room
from rankcast.range_topk.kernels.paint import (
    FIRSTK,
    LEFT,
    RIGHT,
    SAME,
    PaintState,
    Stairs,
    TileMessage,
    Tiles,
    above,
    below,
    empty_stairs,
    left_at,
    lower,
    refine,
    right_at,
    room_of,
    space,
    stamp,
    tight,
)
from rankcast.range_topk.kernels.points import PointTree
from rankcast.range_topk.kernels.relist import settle, settle_all
from rankcast.range_topk.painter import Painter, filled
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]


class NetChanges(NamedTuple):
    """Net changes of distinct objects from (old_x, old_y) to (x, y); a y of +inf: not there."""

    row: Rows
    old_x: Floats
    old_y: Floats
    x: Floats
    y: Floats


class Exposed(NamedTuple):
    """Distinct rows met by sweeps, `size[0]` of them; `known` marks these and the ones not to be noted."""

    row: Rows
    known: NDArray[np.bool_]
    size: NDArray[np.int64]


Outline = NDArray[np.float64]
EDGE, TOP = range(2)


def empty_outlines(count: int, k: int) -> NDArray[np.float64]:
    """Outlines of so many regions for one k, all of them empty."""
    return np.full((count, k + 1, 2), -np.inf)


@njit(**EXACT)
def climb_at(tree: ObjectTree, x: float, y: float, label: int, stairs: Stairs) -> None:
    """Find the neighbours that are better than (y, label) would be at x, whoever is there. Two firstk."""
    leaf, slot = locate(tree, x, False)
    one = np.int64(1)
    stairs.size[LEFT], _ = firstk(tree, leaf, slot - 1, -one, x, y, label, stairs.left)
    stairs.size[RIGHT], stairs.size[SAME] = firstk(tree, leaf, slot, one, x, y, label, stairs.right)


@njit(**EXACT)
def outline(stairs: Stairs, x: float, k: int, steps: Outline) -> None:
    """Write the outline of the influence region."""
    lefts, rights, room, size = stairs.size[LEFT], stairs.size[RIGHT], room_of(stairs, k), 0
    for a in range(min(lefts + 1, room)):
        outer = left_at(stairs.left, lefts, x, a + 1)
        if outer < left_at(stairs.left, lefts, x, a):
            steps[size, EDGE], steps[size, TOP] = outer, right_at(stairs.right, rights, x, room - a)
            size += 1
    if size == 0 or steps[size - 1, EDGE] > -np.inf:
        steps[size, EDGE], steps[size, TOP] = -np.inf, -np.inf


@njit(**EXACT)
def draw(
    tree: ObjectTree,
    rows: NDArray[np.int32],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    stairs: Stairs,
    outlines: NDArray[np.float64],
) -> None:
    """Write the outlines of the regions that objects would have at x with value y; y = +inf has none."""
    k = outlines.shape[1] - 1
    for i in range(rows.shape[0]):
        if y[i] < np.inf:
            climb_at(tree, x[i], y[i], tree.label[rows[i]], stairs)
            outline(stairs, x[i], k, outlines[i])
        else:
            outlines[i, 0, EDGE], outlines[i, 0, TOP] = -np.inf, -np.inf


@njit(**EXACT)
def combine(one: Outline, two: Outline, union: bool, steps: Outline) -> None:
    """Write the outline of the union, or of the intersection, of two regions with the same apex."""
    i, j, size, edge = 0, 0, 0, np.inf
    while edge > -np.inf:
        edge = max(one[i, EDGE], two[j, EDGE])
        higher, lower = max(one[i, TOP], two[j, TOP]), min(one[i, TOP], two[j, TOP])
        steps[size, EDGE], steps[size, TOP] = edge, higher if union else lower
        size += 1
        i += one[i, EDGE] == edge
        j += two[j, EDGE] == edge


@njit(**EXACT)
def paint_between(region: Outline, without: Outline, x: float, tiles: Tiles) -> None:
    """Tile what a region has beyond another, from east to west; neighbours of one height are one tile."""
    box, step, first, size = tiles.box, tiles.step, tiles.size[0], tiles.size[0]
    i, j, inner, edge = 0, 0, x, np.inf
    while edge > -np.inf:
        edge = max(region[i, EDGE], without[j, EDGE])
        top, bottom = region[i, TOP], max(without[j, TOP], x)
        if bottom < top:
            last = size - 1
            same = size > first and box[last, 2] == bottom and box[last, 3] == below(top)
            if not (same and box[last, 0] == above(inner)):
                box[size, 1], box[size, 2], box[size, 3], step[size] = inner, bottom, below(top), i
                size += 1
            box[size - 1, 0] = above(edge)
        inner = edge
        i += region[i, EDGE] == edge
        j += without[j, EDGE] == edge
    tiles.size[0] = size


@njit(**EXACT)
def _note(exposed: Exposed, items: Rows) -> None:
    """Note the rows that are not known yet."""
    row, known, size = exposed.row, exposed.known, exposed.size[0]
    for item in items:
        if not known[item]:
            row[size], known[item] = item, True
            size += 1
    exposed.size[0] = size


@njit(**EXACT)
def sweep(state: PaintState, losses: NetChanges, exposed: Exposed, start: int) -> int:
    """Apply losses from `start` on and note what they expose; return the first that needs more space."""
    tree, tiles = state.tree, state.tiles
    for i in range(start, losses.row.shape[0]):
        row, x, y = losses.row[i], losses.x[i], losses.y[i]
        if tight(state) or room(tree) < tree.meta[HEIGHT] + 2:
            return i
        first = tiles.size[0]
        done = lower(state, row, y if x == tree.x[row] else np.inf, i)
        if done:
            _note(exposed, tiles.item[first : tiles.size[0]])
        tiles.size[0] = first
        if not done:
            return i
        settle(tree, row, x, y)
    return losses.row.shape[0]


@njit(**EXACT)
def unite(old: Floats, stale: Floats, new: Floats, regions: Floats) -> None:
    """Write the outlines of where losses are sent: the new regions, and the old ones cut to the stale."""
    both = np.empty((2 * old.shape[1], 2))
    for i in range(old.shape[0]):
        combine(old[i], stale[i], False, both)
        combine(new[i], both, True, regions[i])


@njit(**EXACT)
def tile_regions(
    state: PaintState, rows: Rows, x: Floats, y: Floats, regions: Floats, without: Floats, start: int
) -> int:
    """Tile regions without others for objects from `start` on; return the first that needs more space."""
    tiles = state.tiles
    for i in range(start, rows.shape[0]):
        if space(tiles) < regions.shape[1] + without.shape[1]:
            return i
        first = tiles.size[0]
        paint_between(regions[i], without[i], x[i], tiles)
        refine(state, first)
        stamp(tiles, first, TileMessage(rows[i], x[i], y[i], 0, 0))
    return rows.shape[0]


EVERY = 0  # instead of a k beyond all objects


class NetPainter:
    """Paints and applies the net changes of a batch, with the object index and the buffers of a painter."""

    def __init__(self, painter: Painter) -> None:
        self._painter = painter
        self.objects = painter.objects

    def follow(self, net: NetChanges) -> None:
        """Apply net changes without painting them."""
        self._painter.begin(net.row)
        self._settle(net.row, net.x, net.y)

    def paint(self, net: NetChanges, k: int, *, points: PointTree | None = None) -> Tiles:
        """Paint and apply net changes of distinct objects as one batch, exactly.

        Memory: O(k) an object that loses, gains or is exposed; O(1) if k is beyond all objects, as then all
        are in the lists of all ranges that hold them.
        """
        self._painter.begin(net.row)
        k = k if k <= len(self.objects) + len(net.row) else EVERY
        gone, come = self._losses(net), self._gains(net)
        nothing = empty_outlines(1, k)
        old = self._draw(gone.row, gone.old_x, gone.old_y, k)
        exposed = self._apply(net, gone, come, k, points)
        x, y = self.objects.tree.x[exposed], self.objects.tree.y[exposed]
        shared = self._draw_before(net, exposed, x, y, k)
        stale = self._draw(gone.row, gone.old_x, gone.old_y, k)
        sent = np.where(gone.x == gone.old_x, gone.y, np.inf)
        regions = np.empty((len(gone.row), 3 * (k + 1), 2))
        unite(old, stale, self._draw(gone.row, gone.x, sent, k), regions)
        self._tile(gone.row, gone.old_x, sent, regions, _repeated(nothing, len(gone.row)), points)
        self._tile(exposed, x, y, self._draw(exposed, x, y, k), shared, points)
        fresh = self._draw(come.row, come.x, come.y, k)
        self._tile(come.row, come.x, come.y, fresh, _repeated(nothing, len(come.row)), points)
        return filled(self._painter.tiles)

    def _losses(self, net: NetChanges) -> NetChanges:
        """What worsens, goes or moves away, by descending new value; moved ones come first with the gone."""
        moved = net.x != net.old_x
        lost = np.flatnonzero((net.old_y < np.inf) & (moved | (net.y > net.old_y)))
        value = np.where(moved, np.inf, net.y)[lost]
        order = np.lexsort((self.objects.tree.label[net.row[lost]], value))[::-1]
        return _at(net, lost[order])

    def _gains(self, net: NetChanges) -> NetChanges:
        """What improves, comes or moves in."""
        return _at(net, np.flatnonzero((net.y < np.inf) & ((net.x != net.old_x) | (net.y < net.old_y))))

    def _apply(
        self, net: NetChanges, gone: NetChanges, come: NetChanges, k: int, points: PointTree | None
    ) -> Rows:
        """Apply gains, then losses with their sweeps; the unchanged objects these expose."""
        if k == EVERY:
            self._settle(net.row, net.x, net.y)
            return net.row[:0]
        stays = come.x == come.old_x
        here = _at(come, np.flatnonzero(stays | (come.old_y == np.inf)))
        self._settle(here.row, here.x, here.y)
        length = len(self.objects.tree.x)
        exposed = Exposed(np.empty(length, np.int32), np.zeros(length, bool), np.zeros(1, np.int64))
        exposed.known[net.row] = True
        ks = np.array([k])
        self._painter.run(
            len(gone.row), ks, points, None, lambda state, done: sweep(state, gone, exposed, done)
        )
        return exposed.row[: int(exposed.size[0])].copy()

    def _draw_before(self, net: NetChanges, rows: Rows, x: Floats, y: Floats, k: int) -> Floats:
        """The outlines of unchanged objects before the batch, from the tree rolled back and forth again."""
        if not len(rows):
            return empty_outlines(0, k)
        self._settle(net.row, net.old_x, net.old_y)
        drawn = self._draw(rows, x, y, k)
        self._settle(net.row, net.x, net.y)
        return drawn

    def _draw(self, rows: Rows, x: Floats, y: Floats, k: int) -> Floats:
        """The outlines of objects with values y at x among the objects as they are now."""
        drawn = empty_outlines(len(rows), k)
        if k == EVERY:
            drawn[y < np.inf, 0, TOP] = np.inf
            return drawn
        draw(self.objects.tree, rows, x, y, empty_stairs(k), drawn)
        self._painter.tally[FIRSTK] += 2 * int((y < np.inf).sum())
        return drawn

    def _tile(
        self, rows: Rows, x: Floats, y: Floats, regions: Floats, without: Floats, points: PointTree | None
    ) -> None:
        """Tile regions without others, with the values to send there."""
        ks = np.array([regions.shape[1]])
        self._painter.run(
            len(rows),
            ks,
            points,
            None,
            lambda state, done: tile_regions(state, rows, x, y, regions, without, done),
        )

    def _settle(self, rows: Rows, x: Floats, y: Floats) -> None:
        """Bring objects to (x, y)."""
        done = 0
        while done < len(rows):
            done = settle_all(self.objects.tree, rows, x, y, done)
            self.objects.reserve(0)


def _at(net: NetChanges, places: NDArray[np.intp]) -> NetChanges:
    return NetChanges(net.row[places], net.old_x[places], net.old_y[places], net.x[places], net.y[places])


def _repeated(outlines: Floats, times: int) -> Floats:
    return np.repeat(outlines, times, axis=0)
