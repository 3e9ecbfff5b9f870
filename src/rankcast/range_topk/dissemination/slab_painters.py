"""Painters of the 1.5-d case: they apply events to objects and return tiles; no list changes.

`SlabPainter` paints event by event, with or without knowledge of the subscriptions. `DensePainter` paints
from the objects alone, also the net change of a batch. For that, a region is one outline (`batch`) for every
stretch of heights from the object upwards, a layer. Regions with the same apex are united, intersected and
subtracted layer by layer, where either begins another one. Who must hear of what, and in which order, is the
same as in one attribute, and so is the proof: it speaks of subscribers and of regions as sets. [Range §IV-A,
App. D]

Regions before the batch come from a copy of the objects. An object that went, or moved away, is represented
after the batch by a row at its former place that is better than nobody.

Cost of a net change: two or three polygons of `slabs` for an object that loses or is exposed, one for a gain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.corners import BoxObjects, CornerIndex
from rankcast.range_topk.dissemination import slab_paint
from rankcast.range_topk.dissemination.batch import NetChanges, combine, outline, paint_between
from rankcast.range_topk.dissemination.cover import BoxTiles, empty_box_tiles
from rankcast.range_topk.dissemination.slab_members import AFFECTED as SLAB_AFFECTED
from rankcast.range_topk.dissemination.slab_members import FOUND, MOMENT, TWICE, WIDE, Members, new_cut
from rankcast.range_topk.dissemination.slab_merge import SlabPaintState, emit, new_rows, stamp
from rankcast.range_topk.dissemination.slabs import (
    ObjectsByFirst,
    by_first,
    by_first_with,
    count_questions,
    stairs_of,
    surround,
    tidy_first,
)
from rankcast.range_topk.dissemination.slabs import outline as find_slabs
from rankcast.range_topk.kernels.corners import CAPACITY, Floats, Rows
from rankcast.range_topk.kernels.object_tree import SIZE, ObjectTree
from rankcast.range_topk.kernels.object_versions import BoxEvents
from rankcast.range_topk.kernels.paint import Tiles
from rankcast.range_topk.painter import boxes_for, empty_tiles
from rankcast.range_topk.subscriptions import SlotMap
from rankcast.structures.arrays import grown
from rankcast.structures.jit import EXACT

LOSS, EXPOSED, GAIN = range(3)


class Layers(NamedTuple):
    """A region: the heights at which its layers begin, upwards, and their outlines."""

    height: Floats
    outline: NDArray[np.float64]


class BeforeAfter(NamedTuple):
    """The objects before and after a batch."""

    before: ObjectsByFirst
    after: ObjectsByFirst


class Announced(NamedTuple):
    """Messages in sending order: the object, who stands at that place after the batch, and why.

    `old` is the former value of a LOSS; `new` is the value sent, +inf: gone from there.
    """

    row: Rows
    stand: Rows
    kind: Rows
    old: Floats
    new: Floats


@njit(**EXACT)
def _draw(
    objects: ObjectsByFirst, row: int, value: float, k: int, sign: float, tally: NDArray[np.int64]
) -> Layers:
    """The region that an object has with a value at its place."""
    x, height = objects.tree.x[row], sign * objects.second[row]
    every = objects.tree.meta[SIZE] <= k  # all are in the lists of all who hold them
    better, same = surround(objects, row, -np.inf if every else value, k, sign)
    count_questions(better, height, same, k, tally)
    slabs = find_slabs(better, same, x, height, k)
    size = slabs.size[0]
    drawn = np.empty((size, k + 1, 2))
    for z in range(size):
        outline(stairs_of(slabs, z), x, k, drawn[z])
    return Layers(slabs.height[:size], drawn)


@njit(**EXACT)
def _meet(one: Floats, two: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Where either of two regions begins a layer, with +inf behind the last; which layers are there."""
    size, i, j = 0, 0, 0
    height, which = np.empty(len(one) + len(two)), np.empty((len(one) + len(two), 2), np.int64)
    height[0], end = max(one[0], two[0]), -np.inf
    while end < np.inf:
        which[size, 0], which[size, 1] = i, j
        first = one[i + 1] if i + 1 < len(one) else np.inf
        second = two[j + 1] if j + 1 < len(two) else np.inf
        end, size = min(first, second), size + 1
        height[size] = end
        i += first == end
        j += second == end
    return height[: size + 1], which


@njit(**EXACT)
def _combine(one: Layers, two: Layers, union: bool) -> Layers:
    """The union, or the intersection, of two regions with the same apex."""
    height, which = _meet(one.height, two.height)
    size, steps = len(height) - 1, one.outline.shape[1] + two.outline.shape[1]
    drawn = np.empty((size, steps, 2))
    for z in range(size):
        combine(one.outline[which[z, 0]], two.outline[which[z, 1]], union, drawn[z])
    return Layers(height[:size], drawn)


@njit(**EXACT)
def _tile_between(
    region: Layers, without: Layers, x: float, bound: int, tiles: Tiles, out: BoxTiles
) -> BoxTiles:
    """Append the tiles of what a region has beyond another with the same apex."""
    height, which = _meet(region.height, without.height)
    rows = new_rows(tiles.item.shape[0], out.size[0], 0, 2)
    rows[1, 0] = 0
    for z in range(len(height) - 1):
        tiles.size[0] = 0
        paint_between(region.outline[which[z, 0]], without.outline[which[z, 1]], x, tiles)
        out = emit(tiles, bound, 0, out, rows, 1, height[z], height[z + 1])
        rows[1] = rows[2]
    return out


@njit(**EXACT)
def tile_net(
    objects: BeforeAfter,
    announced: Announced,
    k: int,
    sign: float,
    tiles: Tiles,
    tally: NDArray[np.int64],
    out: BoxTiles,
) -> BoxTiles:
    """Append the tiles of all messages; see `batch`."""
    before, after, bound = objects.before, objects.after, 3 if sign > 0 else 2
    nothing = Layers(np.full(1, -np.inf), np.full((1, 1, 2), -np.inf))
    for i in range(announced.row.shape[0]):
        row, stand, kind, new = announced.row[i], announced.stand[i], announced.kind[i], announced.new[i]
        region, without, first = nothing, nothing, out.size[0]
        place = (after.tree.x[stand], after.second[stand])
        if new < np.inf:
            region = _draw(after, stand, new, k, sign, tally)
        if kind == LOSS:
            old = _draw(before, row, announced.old[i], k, sign, tally)
            stale = _draw(after, stand, announced.old[i], k, sign, tally)
            region = _combine(region, _combine(old, stale, False), True)
        elif kind == EXPOSED:
            without = _draw(before, row, new, k, sign, tally)
        out = _tile_between(region, without, place[0], bound, tiles, out)
        stamp(out, first, row, new, place)
    return out


FEW = 256  # messages that room is made for at first
QUEUE = 1 << 12  # better objects on the way down a tree that room is made for at first


class SlabPainter:
    """Applies events to objects over two attributes, the second bounded on one side by every subscription.

    `questions` counts questions to the objects, as `slabs` names them, `affected` the subscriptions reached,
    each once an event. `asking`: whether it asks whatever the published server asks.
    """

    def __init__(self, objects: BoxObjects) -> None:
        self.objects = objects
        self.questions: NDArray[np.int64] = np.zeros(3, np.int64)
        self.affected = 0
        self.asking = False
        self._room: Members | None = None  # with the last moment, and which one every slot has heard of last

    def paint(
        self, events: BoxEvents, k: int, side: int, index: CornerIndex | None, epsilon: float | None
    ) -> BoxTiles:
        """Apply events one by one; the tiles of those affected.

        The second attribute is bounded on a `side`, 1 above or -1 below. Without an index no subscription is
        read; an empty one has nobody.
        """
        k = least(self.objects, k, events)
        objects, nobody, done = self.objects, CornerIndex(4, 1, 1, SlotMap()), 0
        objects.reserve(int(events.row.max(initial=-1)) + 1)
        corners, out = nobody if index is None else index, empty_box_tiles(FEW, 2)
        members = self._members(corners)
        while done < len(events.row):
            paint_state = SlabPaintState(
                objects=objects.index.tree,
                along=by_first(objects),
                label=objects.label,
                corners=corners.tree,
                members=members,
                tiles=empty_tiles(k + 2),
                k=k,
                sign=float(side),
                bound=3 if side > 0 else 2,
                aware=index is not None,
                lists=boxes_for(epsilon),
                asking=self.asking,
                tally=self.questions,
            )
            done, out = slab_paint.play(paint_state, events, objects.value, out, done)
            if done < len(events.row):
                objects.index.reserve()
        tidy_first(objects)
        if epsilon is None:
            self.affected += int(members.size[SLAB_AFFECTED])
        return out

    def _members(self, index: CornerIndex) -> Members:
        """Room for members of a region among the subscriptions of an index, kept while it is enough."""
        tree, room = index.tree, self._room
        slots, leaves, bucket = len(tree.row), len(tree.leaf_of), int(tree.meta[CAPACITY])
        if (
            room is None
            or slots > len(room.heard)
            or leaves > len(room.cut.node)
            or bucket + WIDE > len(room.held)
        ):
            former = np.empty(0, np.int64) if room is None else room.heard
            slots = max(slots, len(former))
            heard = grown(former, slots, -1)
            room = self._room = Members(
                span=np.empty((slots, 3)),
                better=np.empty(slots, np.int32),
                whole=np.empty(2 * leaves, np.int32),
                held=np.empty(bucket + WIDE),
                queue=np.empty((2, QUEUE)),
                cut=new_cut(leaves, slots),
                heard=heard,
                size=np.array([0, 0 if room is None else room.size[MOMENT], 0, 0, 0]),
            )
        room.size[FOUND], room.size[SLAB_AFFECTED], room.size[TWICE] = 0, 0, 0
        return room


def least(objects: BoxObjects, k: int, events: BoxEvents) -> int:
    """A k beyond all objects counts as just that."""
    return min(k, len(objects.index) + len(events.row) + 1)


SWEEPS = 64  # losses whose tiles are held at once, before only their items are kept


class DensePainter:
    """Applies events to objects and tells whose lists change, as tiles in sending order.

    It is given the objects, k, and on which `side` the second attribute is bounded (1 above, -1 below): no
    subscription can be reached from here.
    """

    def __init__(self, objects: BoxObjects) -> None:
        self.objects = objects
        self._painter = SlabPainter(objects)

    @property
    def questions(self) -> NDArray[np.int64]:
        """Counts of questions to the objects, as `slabs` names them."""
        return self._painter.questions

    def paint(self, events: BoxEvents, k: int, side: int, epsilon: float | None) -> BoxTiles:
        """Paint and apply events one by one."""
        return self._painter.paint(events, k, side, None, epsilon)

    def paint_net(self, events: BoxEvents, k: int, side: int) -> BoxTiles:
        """Paint and apply events of distinct objects as one batch, exactly: see `kernels.slab_batch`.

        Memory: a copy of the objects, and the tiles.
        """
        self.objects.reserve(int(events.row.max(initial=-1)) + 1)
        k, net = least(self.objects, k, events), self._net(events)
        moved = (net.x != net.old_x).any(axis=1)
        gone, come = self._losses(net, moved), (net.y < np.inf) & (moved | (net.y < net.old_y))
        before = _copied(by_first(self.objects))
        here = come & ~moved
        self.objects.settle(net.row[here], net.x[here], net.y[here])
        exposed = np.setdiff1d(self._sweep(net, gone, k, side), net.row).astype(np.int32)
        stays = (net.y < np.inf) & ~moved
        announced = _joined(
            _announced(LOSS, net.row[gone], net.old_y[gone], np.where(stays, net.y, np.inf)[gone]),
            _announced(EXPOSED, exposed, self.objects.value[exposed], self.objects.value[exposed]),
            _announced(GAIN, net.row[come], net.old_y[come], net.y[come]),
        )
        away = np.flatnonzero(~stays[gone])
        return self._tile_announced(before, announced, away, net.old_x[gone[away]], (k, side))

    def _net(self, events: BoxEvents) -> NetChanges:
        """What the events come to, for the objects they change at all."""
        row, x, y = events
        tree, old_y = self.objects.index.tree, self.objects.value[row]
        old_x = np.where((old_y < np.inf)[:, None], tree.point[tree.slot_of[row]], x)
        x = np.where((y < np.inf)[:, None], x, old_x)
        changed = (x != old_x).any(axis=1) | (y != old_y)
        return NetChanges(row[changed], old_x[changed], old_y[changed], x[changed], y[changed])

    def _losses(self, net: NetChanges, moved: NDArray[np.bool_]) -> NDArray[np.intp]:
        """What worsens, goes or moves away, by descending new value; moved ones come first with the gone."""
        lost = np.flatnonzero((net.old_y < np.inf) & (moved | (net.y > net.old_y)))
        value = np.where(moved, np.inf, net.y)[lost]
        return lost[np.lexsort((self.objects.label[net.row[lost]], value))[::-1]]

    def _sweep(self, net: NetChanges, gone: NDArray[np.intp], k: int, side: int) -> Rows:
        """Apply losses one by one; the distinct objects that tiles are about."""
        met: list[Rows] = [net.row[:0]]
        for start in range(0, len(gone), SWEEPS):
            some = gone[start : start + SWEEPS]
            events = BoxEvents(net.row[some], net.x[some], net.y[some])
            out = self._painter.paint(events, k, side, None, None)
            met.append(np.unique(out.item[: int(out.size[0])]))
        return np.unique(np.concatenate(met))

    def _tile_announced(
        self,
        before: ObjectsByFirst,
        announced: Announced,
        away: NDArray[np.intp],
        places: Floats,
        how: tuple[int, int],
    ) -> BoxTiles:
        """The tiles of all messages, for a k and a side; the objects `away` have left these places."""
        objects, (k, side) = self.objects, how
        stand = self._labelled_like(announced.row[away])
        announced.stand[away] = stand
        both = BeforeAfter(before, by_first_with(objects, stand, places))
        tiles, sign = empty_tiles(4 * (k + 1) + 2), float(side)
        out: BoxTiles = tile_net(both, announced, k, sign, tiles, self.questions, empty_box_tiles(FEW, 2))
        return out

    def _labelled_like(self, rows: Rows) -> Rows:
        """Rows that nobody has, with the labels of others."""
        objects = self.objects
        first = int(np.flatnonzero(objects.slots.slot_of >= 0).max(initial=-1)) + 1
        first = max(first, int(rows.max(initial=-1)) + 1)
        stand = np.arange(first, first + len(rows), dtype=np.int32)
        objects.set_labels(stand, objects.label[rows])
        return stand


def _copied(along: ObjectsByFirst) -> ObjectsByFirst:
    return ObjectsByFirst(ObjectTree._make(array.copy() for array in along.tree), along.second.copy())


def _announced(kind: int, row: Rows, old: Floats, new: Floats) -> Announced:
    return Announced(row, row, np.full(len(row), kind, np.int32), old, new)


def _joined(*parts: Announced) -> Announced:
    return Announced._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
