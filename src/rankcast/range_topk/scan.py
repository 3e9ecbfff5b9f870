"""`RangeTopK` by brute force: keeps no results, looks at everything, event after event."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankcast.core.engine import Part
from rankcast.range_topk.brute_force import Message, Objects, messages, top_k
from rankcast.range_topk.dissemination.relax import relax
from rankcast.range_topk.kernels.regions import outer
from rankcast.range_topk.world import Events, TileRows, World
from rankcast.structures import integrity
from rankcast.tables import deltas
from rankcast.tables.boxes import Boxes
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Ints, Rows


class Scan:
    """The obvious answer. Cost of an event: every subscription times every object."""

    def __init__(self, world: World) -> None:
        self._world = world

    def parts(self) -> dict[str, Part]:
        """Nothing beyond the world."""
        return {}

    def check(self) -> None:
        """Refuse objects from a snapshot that have no value or place."""
        held, live = self._world.objects, self._world.objects._live()
        integrity.finite(held["y"][live], "object.y")
        integrity.finite(held["x"][live], "object.x")

    def entered(self, rows: Rows) -> None:
        """Nothing to keep."""

    def leaving(self, rows: Rows) -> None:
        """Nothing to forget."""

    def amended(self, rows: Rows, former_k: Ints) -> None:
        """Nothing to keep."""

    def lists(self, rows: Rows) -> Lists:
        """The current results of the given subscriptions."""
        objects = self._world.there()
        found = top_k(self._world.boxes(rows), self._world.k_of(rows), objects)
        items = [objects.row[places] for places in found]
        return deltas.gather_lists(rows, items, [self._world.objects["y"][item] for item in items])

    def held(self, rows: Rows) -> Lists:
        """The current results, as they are."""
        return self.lists(rows)

    def since(self, held: Lists, rows: Rows) -> Changes:
        """What has become of results that were held."""
        return deltas.difference(held, self.lists(rows), self._world.subscriptions.place)

    def publish(self, events: Events) -> Changes:
        """Compare all results before and after, and count whom each event affects."""
        live = self._world.subscriptions.live()
        before = now = self.lists(live)
        for place in range(events.row.size):
            event = Events._make(column[place : place + 1] for column in events)
            former, was = now, self._world.objects["x"][event.row].copy()
            self._world.place(event)
            now = self.lists(live)
            moved = (was != event.x).any()
            self._world.count["affected"] += _affected(former, now, int(event.row[0]), moved=bool(moved))
        self._world.count["candidates"] += live.size * events.row.size
        return deltas.difference(before, now, self._world.subscriptions.place)

    def disseminate(self, events: Events, method: str, epsilon: float | None, *, batch: bool) -> TileRows:
        """One tile per distinct affected range, whatever the method; only `relax` is another thing."""
        world = self._world
        if method == "relax":
            tiles = relax(world, events, batch=batch)
            world.place(events)
            return tiles
        live = world.subscriptions.live()
        ranges = Boxes(*np.hsplit(np.unique(np.hstack(world.boxes(live)), axis=0), 2))
        held = np.hstack(world.boxes(live))
        told: list[Message] = []
        before = world.there()
        first = 0
        for after, ends in self._moments(events, batch=batch):
            told += messages(ranges, world.k, before, after)
            before = after
            if ends:
                reached = np.hstack(ranges)[sorted({message.box for message in told[first:]})]
                world.count["affected"] += int((held[:, None] == reached[None]).all(axis=2).any(axis=1).sum())
                first = len(told)
        world.count["candidates"] += live.size
        return self._tiles(ranges, told)

    def _moments(self, events: Events, *, batch: bool) -> Iterator[tuple[Objects, bool]]:
        """All objects after each event, or after the batch; a move passes through a moment without.

        Each moment comes with whether it is the end of an event, or of the batch.
        """
        if batch:
            self._world.place(events)
            yield self._world.there(), True
            return
        for place in range(events.row.size):
            event = Events._make(column[place : place + 1] for column in events)
            gone = np.isnan(self._world.objects["y"][event.row]) | np.isnan(event.y)
            if not gone[0] and (self._world.objects["x"][event.row] != event.x).any():
                self._world.objects["y"][event.row] = np.nan
                yield self._world.there(), False
            self._world.place(event)
            yield self._world.there(), True

    def _tiles(self, ranges: Boxes, told: list[Message]) -> TileRows:
        """Messages as tiles that hold exactly one range."""
        box = [message.box for message in told]
        lo, hi = ranges.lo[box], ranges.hi[box]
        lo_outer, hi_outer = outer(lo, hi)
        return TileRows(
            lo_outer,
            lo,
            hi,
            hi_outer,
            np.array([message.row for message in told], np.int32),
            np.array([message.x for message in told], np.float64).reshape(-1, self._world.width),
            self._world.key(np.array([message.key for message in told], np.float64)),
        )


def _affected(before: Lists, after: Lists, row: int, *, moved: bool) -> int:
    """How many subscriptions have another list of (item, place, value): only one object changed."""
    rows = np.arange(1 + max(before.subscription.max(initial=0), after.subscription.max(initial=0)))
    touched = [deltas.difference(before, after, rows).subscription]
    if moved:
        touched += [before.subscription[before.item == row], after.subscription[after.item == row]]
    return int(np.unique(np.concatenate(touched)).size)
