"""From a batch of events to tiles: owns the buffers of the painting kernels and grows them when full."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rankcast.indexes.dominance import SlotMap, SubscriptionIndex
from rankcast.indexes.objects import ObjectIndex
from rankcast.kernels import paint
from rankcast.kernels.paint import Brush, Events
from rankcast.kernels.point_tree import PointTree
from rankcast.kernels.staircase import empty_stairs
from rankcast.kernels.tiles import Tiles, empty_tiles, filled, widened

NOBODY = SubscriptionIndex(1, SlotMap()).tree


class Painter:
    """Applies events to an object index and tells whose lists change, as tiles in sending order.

    `tally` counts firstk, miny and snap questions since the start. Tiles returned are views into a buffer
    that the next call overwrites.
    """

    def __init__(self, objects: ObjectIndex) -> None:
        self.objects = objects
        self.tally: NDArray[np.int64] = np.zeros(3, np.int64)
        self._tiles = empty_tiles(1024)

    def paint(
        self,
        events: Events,
        ks: NDArray[np.int64],
        *,
        points: PointTree | None = None,
        epsilon: float | None = None,
    ) -> Tiles:
        """Paint and apply events one by one for every k of `ks` (falling).

        With `points` the tiles are thinned to those subscriptions (one k only); without, no subscription is
        read. With `epsilon` an object's tiles are covered by at most ceil(1 / epsilon) boxes.
        """
        self.objects.tidy()
        self.objects.reserve(int(events.row.max(initial=-1)) + 1)
        self._tiles.size[0] = 0
        done = 0
        while done < len(events.row):
            done = paint.paint(self._brush(ks, points, epsilon), events, done)
            if done < len(events.row):
                self._tiles = widened(self._tiles, max(2 * len(self._tiles.item), 8 * int(ks[0]) * len(ks)))
                self.objects.reserve(0)
        return filled(self._tiles)

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
            lists=0 if epsilon is None else math.ceil(1 / epsilon),
        )
