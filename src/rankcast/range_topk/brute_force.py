"""Range top-k by brute force: keeps no lists, looks at every object for every subscription and event."""

from __future__ import annotations

import numpy as np

from rankcast.core.engine import Part
from rankcast.range_topk.state import Events, Objects, RangeState, TileRows
from rankcast.structures import integrity
from rankcast.tables import deltas
from rankcast.tables.boxes import Boxes
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Ints, Rows


def top_k(boxes: Boxes, k: Ints, objects: Objects) -> list[Rows]:
    """For each box the places among `objects` of the k inside it with the smallest (key, label).

    Cost: O(n log n + m n d) for n objects and m boxes.
    """
    ranked = np.lexsort((objects.label, objects.key))
    placed = objects.x[ranked]
    found = []
    for low, high, size in zip(boxes.lo, boxes.hi, k, strict=True):
        inside = ((placed >= low) & (placed <= high)).all(axis=1)
        found.append(ranked[np.flatnonzero(inside)[:size]].astype(np.int32))
    return found


class BruteForce:
    """The obvious answer. Cost of an event: every subscription times every object."""

    def __init__(self, state: RangeState) -> None:
        self._state = state

    def parts(self) -> dict[str, Part]:
        """Nothing beyond the state."""
        return {}

    def check(self) -> None:
        """Refuse objects from a snapshot that have no value or place."""
        held, live = self._state.objects, self._state.objects._live()
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
        objects = self._state.live_objects()
        found = top_k(self._state.boxes(rows), self._state.k_of(rows), objects)
        items = [objects.row[places] for places in found]
        return deltas.gather_lists(rows, items, [self._state.objects["y"][item] for item in items])

    def held(self, rows: Rows) -> Lists:
        """The current results, as they are."""
        return self.lists(rows)

    def since(self, held: Lists, rows: Rows) -> Changes:
        """The changes from results that were held to those of now."""
        return deltas.difference(held, self.lists(rows), self._state.subscriptions.place)

    def publish(self, events: Events) -> Changes:
        """Compare all results before and after, and count whom each event affects."""
        live = self._state.subscriptions.live()
        before = now = self.lists(live)
        for place in range(events.row.size):
            event = events.one(place)
            former, was = now, self._state.objects["x"][event.row].copy()
            self._state.place(event)
            now = self.lists(live)
            moved = (was != event.x).any()
            self._state.count["affected"] += _affected(former, now, int(event.row[0]), moved=bool(moved))
        self._state.count["candidates"] += live.size * events.row.size
        return deltas.difference(before, now, self._state.subscriptions.place)

    def disseminate(self, events: Events, method: str, epsilon: float | None, *, batch: bool) -> TileRows:
        """One tile per distinct affected range, whatever the method; only "relax" differs."""
        from rankcast.range_topk.dissemination.protocol import send_plainly  # noqa: PLC0415  on first use

        return send_plainly(self._state, events, method, batch=batch)


def _affected(before: Lists, after: Lists, row: int, *, moved: bool) -> int:
    """How many subscriptions have another list of (item, place, value): only one object changed."""
    rows = np.arange(1 + max(before.subscription.max(initial=0), after.subscription.max(initial=0)))
    touched = [deltas.difference(before, after, rows).subscription]
    if moved:
        touched += [before.subscription[before.item == row], after.subscription[after.item == row]]
    return int(np.unique(np.concatenate(touched)).size)
