"""From a batch of events to tiles: owns the buffers of the painting kernels and grows them when full."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.dissemination import batch
from rankcast.range_topk.dissemination.batch import Exposed, Net
from rankcast.range_topk.kernels import paint
from rankcast.range_topk.kernels import regions as outline
from rankcast.range_topk.kernels.paint import FIRSTK, Brush, Events
from rankcast.range_topk.kernels.points import PointTree
from rankcast.range_topk.kernels.regions import Tiles, empty_stairs, empty_tiles, filled, widened
from rankcast.range_topk.objects import Floats, ObjectIndex, Rows
from rankcast.range_topk.subscriptions import SlotMap, SubscriptionIndex

EVERY = 0  # instead of a k beyond all objects
NOBODY = SubscriptionIndex(1, SlotMap()).tree
MOST_BOXES = 2.0**31  # more than an object has tiles; kernels multiply it by steps


class Painter:
    """Applies events to an object index and tells whose lists change, as tiles in sending order.

    - `paint`: event by event; `paint_net`: the net change of a batch; `follow`: nothing is told.

    `tally` counts questions since the start, as `rankcast.range_topk.kernels.paint` names them. Tiles returned are views
    into a buffer that the next call overwrites.
    """

    def __init__(self, objects: ObjectIndex) -> None:
        self.objects = objects
        self.tally: NDArray[np.int64] = np.zeros(4, np.int64)
        self._tiles = empty_tiles(1024)

    def paint(
        self,
        events: Events,
        ks: NDArray[np.int64],
        *,
        points: PointTree | None = None,
        epsilon: float | None = None,
    ) -> Tiles:
        """Paint and apply events one by one for every k of `ks` (falling); one beyond all objects is cut.

        With `points` the tiles are thinned to those subscriptions (one k only); without, no subscription is
        read. With `epsilon` an object's tiles are covered by at most ceil(1 / epsilon) boxes.
        """
        self._begin(events.row)
        ks = np.minimum(ks, len(self.objects) + len(events.row) + 1)
        self._run(len(events.row), ks, points, epsilon, lambda brush, done: paint.paint(brush, events, done))
        return filled(self._tiles)

    def follow(self, net: Net) -> None:
        """Apply net changes without telling anybody."""
        self._begin(net.row)
        self._settle(net.row, net.x, net.y)

    # The net change of a batch: see `rankcast.range_topk.dissemination.batch`

    def paint_net(self, net: Net, k: int, *, points: PointTree | None = None) -> Tiles:
        """Paint and apply net changes of distinct objects as one batch, exactly.

        Memory: O(k) an object that loses, gains or is exposed; O(1) if k is beyond all objects, as then all
        are in the lists of all ranges that hold them.
        """
        self._begin(net.row)
        k = k if k <= len(self.objects) + len(net.row) else EVERY
        gone, come = self._losses(net), self._gains(net)
        nothing = outline.empty_outlines(1, k)
        old = self._draw(gone.row, gone.old_x, gone.old_y, k)
        exposed = self._apply(net, gone, come, k, points)
        x, y = self.objects.tree.x[exposed], self.objects.tree.y[exposed]
        shared = self._draw_before(net, exposed, x, y, k)
        stale = self._draw(gone.row, gone.old_x, gone.old_y, k)
        told = np.where(gone.x == gone.old_x, gone.y, np.inf)
        regions = np.empty((len(gone.row), 3 * (k + 1), 2))
        batch.unite(old, stale, self._draw(gone.row, gone.x, told, k), regions)
        self._tell(gone.row, gone.old_x, told, regions, _repeated(nothing, len(gone.row)), points)
        self._tell(exposed, x, y, self._draw(exposed, x, y, k), shared, points)
        fresh = self._draw(come.row, come.x, come.y, k)
        self._tell(come.row, come.x, come.y, fresh, _repeated(nothing, len(come.row)), points)
        return filled(self._tiles)

    def _losses(self, net: Net) -> Net:
        """What worsens, goes or moves away, by descending new value; moved ones come first with the gone."""
        moved = net.x != net.old_x
        lost = np.flatnonzero((net.old_y < np.inf) & (moved | (net.y > net.old_y)))
        value = np.where(moved, np.inf, net.y)[lost]
        order = np.lexsort((self.objects.tree.label[net.row[lost]], value))[::-1]
        return _at(net, lost[order])

    def _gains(self, net: Net) -> Net:
        """What improves, comes or moves in."""
        return _at(net, np.flatnonzero((net.y < np.inf) & ((net.x != net.old_x) | (net.y < net.old_y))))

    def _apply(self, net: Net, gone: Net, come: Net, k: int, points: PointTree | None) -> Rows:
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
        self._run(len(gone.row), ks, points, None, lambda b, done: batch.sweep(b, gone, exposed, done))
        return exposed.row[: int(exposed.size[0])].copy()

    def _draw_before(self, net: Net, rows: Rows, x: Floats, y: Floats, k: int) -> Floats:
        """The outlines of unchanged objects before the batch, from the tree rolled back and forth again."""
        if not len(rows):
            return outline.empty_outlines(0, k)
        self._settle(net.row, net.old_x, net.old_y)
        drawn = self._draw(rows, x, y, k)
        self._settle(net.row, net.x, net.y)
        return drawn

    def _draw(self, rows: Rows, x: Floats, y: Floats, k: int) -> Floats:
        """The outlines of objects with values y at x among the objects as they are now."""
        drawn = outline.empty_outlines(len(rows), k)
        if k == EVERY:
            drawn[y < np.inf, 0, outline.TOP] = np.inf
            return drawn
        outline.draw(self.objects.tree, rows, x, y, empty_stairs(k), drawn)
        self.tally[FIRSTK] += 2 * int((y < np.inf).sum())
        return drawn

    def _tell(
        self, rows: Rows, x: Floats, y: Floats, regions: Floats, without: Floats, points: PointTree | None
    ) -> None:
        """Tile regions without others, and tell the values there."""
        ks = np.array([regions.shape[1]])
        self._run(
            len(rows),
            ks,
            points,
            None,
            lambda brush, done: batch.tell(brush, rows, x, y, regions, without, done),
        )

    def _settle(self, rows: Rows, x: Floats, y: Floats) -> None:
        """Bring objects to (x, y)."""
        done = 0
        while done < len(rows):
            done = batch.settle_all(self.objects.tree, rows, x, y, done)
            self.objects.reserve(0)

    # Buffers

    def _begin(self, rows: Rows) -> None:
        self.objects.tidy()
        self.objects.reserve(int(rows.max(initial=-1)) + 1)
        self._tiles.size[0] = 0

    def _run(
        self,
        total: int,
        ks: NDArray[np.int64],
        points: PointTree | None,
        epsilon: float | None,
        kernel: Callable[[Brush, int], int],
    ) -> None:
        """Run a kernel over `total` things; when it stops early, give it more space and go on."""
        done = 0
        while done < total:
            done = kernel(self._brush(ks, points, epsilon), done)
            if done < total:
                self._tiles = widened(self._tiles, max(2 * len(self._tiles.item), 8 * int(ks[0]) * len(ks)))
                self.objects.reserve(0)

    def _brush(self, ks: NDArray[np.int64], points: PointTree | None, epsilon: float | None) -> Brush:
        return Brush(
            tree=self.objects.tree,
            points=NOBODY if points is None else points,
            stairs=empty_stairs(int(ks[0])),
            tiles=self._tiles,
            ks=ks,
            tally=self.tally,
            window=np.empty(4),
            aware=points is not None,
            lists=boxes_for(epsilon),
        )


def boxes_for(epsilon: float | None) -> int:
    """How many boxes may cover the tiles of an object at most; 0 is no limit."""
    return 0 if epsilon is None else math.ceil(min(1 / epsilon, MOST_BOXES))


def _at(net: Net, places: NDArray[np.intp]) -> Net:
    return Net(net.row[places], net.old_x[places], net.old_y[places], net.x[places], net.y[places])


def _repeated(outlines: Floats, times: int) -> Floats:
    return np.repeat(outlines, times, axis=0)
