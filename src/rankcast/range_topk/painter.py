"""Painting batches over one attribute: the owner of the objects' tree and of the buffer of tiles."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.kernels import apply_tiles, paint
from rankcast.range_topk.kernels.paint import (
    FIRSTK,
    MINY,
    SNAP,
    IntervalEvents,
    PaintState,
    Tiles,
    empty_stairs,
)
from rankcast.range_topk.kernels.points import PointTree
from rankcast.range_topk.state import Events, ObjectIndex, RangeState, Rows
from rankcast.range_topk.subscriptions import SlotMap, SubscriptionIndex
from rankcast.tables.schema import Ints

NOBODY = SubscriptionIndex(1, SlotMap()).tree
MOST_BOXES = 2.0**31  # more than an object has tiles; kernels multiply it by steps


def empty_tiles(capacity: int) -> Tiles:
    """A buffer without tiles."""
    return Tiles(
        box=np.empty((capacity, 4)),
        item=np.empty(capacity, np.int32),
        x=np.empty(capacity),
        value=np.empty(capacity),
        event=np.empty(capacity, np.int32),
        size_class=np.empty(capacity, np.int32),
        step=np.empty(capacity, np.int32),
        size=np.zeros(1, np.int64),
    )


def widened(tiles: Tiles, capacity: int) -> Tiles:
    """The same tiles in a larger buffer."""
    larger, size = empty_tiles(capacity), int(tiles.size[0])
    for name in Tiles._fields[:-1]:
        getattr(larger, name)[:size] = getattr(tiles, name)[:size]
    larger.size[0] = size
    return larger


def filled(tiles: Tiles) -> Tiles:
    """The tiles alone, without the unfilled rest of the buffer."""
    size = int(tiles.size[0])
    columns = {name: getattr(tiles, name)[:size] for name in Tiles._fields[:-1]}
    return Tiles(size=tiles.size.copy(), **columns)


class Painter:
    """Applies events to an object index and returns the tiles of whose lists change, in sending order.

    `tally` counts questions since the start, as `kernels.paint` names them. Tiles returned are views into a
    buffer that the next call overwrites. The net change of a batch is painted by `dissemination.batch`, with
    the same buffers.
    """

    def __init__(self, objects: ObjectIndex) -> None:
        self.objects = objects
        self.tally: NDArray[np.int64] = np.zeros(4, np.int64)
        self.tiles = empty_tiles(1024)

    def paint(
        self,
        events: IntervalEvents,
        ks: Ints,
        *,
        points: PointTree | None = None,
        epsilon: float | None = None,
    ) -> Tiles:
        """Paint and apply events one by one for every k of `ks` (falling); one beyond all objects is cut.

        With `points` the tiles are thinned to those subscriptions (one k only); without, no subscription is
        read. With `epsilon` an object's tiles are covered by at most ceil(1 / epsilon) boxes.
        """
        self.begin(events.row)
        ks = np.minimum(ks, len(self.objects) + len(events.row) + 1)
        self.run(len(events.row), ks, points, epsilon, lambda state, done: paint.paint(state, events, done))
        return filled(self.tiles)

    def begin(self, rows: Rows) -> None:
        """Make room for events on rows, and empty the buffer of tiles."""
        self.objects.tidy()
        self.objects.reserve(int(rows.max(initial=-1)) + 1)
        self.tiles.size[0] = 0

    def run(
        self,
        total: int,
        ks: Ints,
        points: PointTree | None,
        epsilon: float | None,
        kernel: Callable[[PaintState, int], int],
    ) -> None:
        """Run a kernel over `total` entries; when it stops early, give it more room and go on from there."""
        done = 0
        while done < total:
            done = kernel(self._state(ks, points, epsilon), done)
            if done < total:
                self.widen(int(ks[0]) * len(ks))

    def widen(self, ks: int) -> None:
        """Make room for more tiles, of lists of so many objects over all k, and for more objects."""
        self.tiles = widened(self.tiles, max(2 * len(self.tiles.item), 8 * ks))
        self.objects.reserve(0)

    def make_room(self, done: int, rows: Rows, k: int) -> None:
        """Make the room without which `apply_tiles.publish` stopped, or rebuild the objects' tree."""
        if done == apply_tiles.MISSING_ROWS:
            self.objects.reserve(int(rows.max()) + 1)
        elif done == apply_tiles.UNTIDY:
            self.objects.tidy()
        else:
            self.widen(min(k, len(self.objects) + len(rows) + 1))

    def _state(self, ks: Ints, points: PointTree | None, epsilon: float | None) -> PaintState:
        return PaintState(
            tree=self.objects.tree,
            points=NOBODY if points is None else points,
            stairs=empty_stairs(int(ks[0])),
            tiles=self.tiles,
            ks=ks,
            tally=self.tally,
            window=np.empty(4),
            aware=points is not None,
            lists=boxes_for(epsilon),
        )

    def count_questions(self, count: dict[str, int], before: Ints) -> None:
        """Add the questions since `before`, a copy of the tally, to the counters of an engine."""
        questions = self.tally - before
        for name, which in (("firstk", FIRSTK), ("miny", MINY), ("snap", SNAP)):
            count[name] += int(questions[which])


def boxes_for(epsilon: float | None) -> int:
    """How many boxes may cover the tiles of an object at most; 0 is no limit."""
    return 0 if epsilon is None else math.ceil(min(1 / epsilon, MOST_BOXES))


def keyed(state: RangeState, events: Events) -> IntervalEvents:
    """The same events as kernels take them: ranking keys, and +inf for an object that goes."""
    key = state.key(events.y)
    return IntervalEvents(
        events.row, np.ascontiguousarray(events.x[:, 0]), np.where(np.isnan(key), np.inf, key)
    )
