"""Range top-k by brute force: keeps no lists, looks at every object for every subscription and event.

So do the explanations. Those of one attribute show an object's influence region. With c better objects at the
same x, the object is in the lists of ranges that hold at most k - 1 - c better ones elsewhere. Let l_1 > l_2
> ... be the x of better objects to the left and r_1 < r_2 < ... those to the right; then the region is a
staircase of tiles, one for each way to hold a on the left and at most k - 1 - c - a on the right. [Range
§II-D]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankcast.core.engine import Part
from rankcast.range_topk.state import Events, Objects, RangeState, Slack, TileRows
from rankcast.structures import integrity
from rankcast.tables import deltas
from rankcast.tables.boxes import Boxes
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Floats, Ints, Rows


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
        return self._top(rows, self._state.boxes(rows), self._state.k_of(rows))

    def preview(self, boxes: Boxes, k: Ints) -> Lists:
        """The results of boxes that nobody has registered, by their places."""
        return self._top(np.arange(len(k), dtype=np.int32), boxes, k)

    def _top(self, rows: Rows, boxes: Boxes, k: Ints) -> Lists:
        objects = self._state.live_objects()
        items = [objects.row[places] for places in top_k(boxes, k, objects)]
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

    def disseminate(self, events: Events, method: str, slack: Slack, *, batch: bool) -> TileRows:
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


class Influence(NamedTuple):
    """The region of one object: better objects nearest to it, and a tile a step from west to east.

    A tile is lo_outer < lo <= lo_inner, hi_inner <= hi < hi_outer; an outer end of NaN is no bound.
    """

    left: Rows
    right: Rows
    tiles: Floats  # (steps, 4)


def influence(objects: Objects, row: int, k: int) -> Influence:
    """The region of the object in `row`. Cost: one pass over the objects."""
    place, k = int(np.flatnonzero(objects.row == row)[0]), min(k, objects.row.size)
    x, key, label = objects.x[:, 0], objects.key, objects.label
    mine = x[place]
    better = (key < key[place]) | ((key == key[place]) & (label < label[place]))
    steps = k - int((better & (x == mine)).sum())
    west, east = np.flatnonzero(better & (x < mine)), np.flatnonzero(better & (x > mine))
    left = west[np.argsort(-x[west], kind="stable")][: max(steps, 0)]
    right = east[np.argsort(x[east], kind="stable")][: max(steps, 0)]
    lows = np.concatenate([[mine], x[left], np.full(max(steps, 0) + 1, np.nan)])
    highs = np.concatenate([x[right], np.full(max(steps, 0) + 1, np.nan)])
    tiles = [
        [lows[a + 1], lows[a], mine, highs[steps - 1 - a]] for a in range(steps) if not np.isnan(lows[a])
    ]
    kept = np.array([tile for tile in tiles[::-1] if tile[0] != tile[1]], np.float64).reshape(-1, 4)
    return Influence(objects.row[left], objects.row[right], kept)


def explain(state: RangeState, over: list[str], subscription: int, item: int, lists: Lists) -> dict[str, Any]:
    """Score, rank, the score to beat, what keeps an object out; `lists` is the subscription's result."""
    mine = np.array([subscription], np.int32)
    k = int(state.k_of(mine)[0])
    report: dict[str, Any] = {
        "score": float(state.objects["y"][item]),
        "rank": None,
        "in_result": bool((lists.item == item).any()),
        "score_to_beat": float(lists.score[k - 1]) if lists.item.size == k else None,
    }
    box, place = state.boxes(mine), state.objects["x"][item]
    outside = ((place < box.lo) | (place > box.hi))[0]
    if outside.any():
        return {**report, "reason": f"{over[int(np.argmax(outside))]} is outside the range"}
    objects = state.live_objects()
    everyone = objects.row[top_k(box, np.array([objects.row.size]), objects)[0]]
    ahead = int(np.flatnonzero(everyone == item)[0])
    report |= {"rank": ahead + 1, "better": state.objects.take(everyone[:ahead][:k]).to_pylist()}
    if len(over) == 1:
        report["tiles"] = influence(objects, item, k).tiles.tolist()
    if report["in_result"]:
        return {**report, "reason": "in the result"}
    need = ahead - k + 1
    return {
        **report,
        "reason": f"{k} objects in the range are better; {need} of those ahead must fall behind",
    }


def region(state: RangeState, item: int, live: Rows, held: Lists) -> dict[str, Any]:
    """The influence region of an object in one attribute; `live` with the results `held` are those shown."""
    objects = state.live_objects()
    found = influence(objects, item, state.k)
    box = state.boxes(live)
    return {
        "x": float(state.objects["x"][item, 0]),
        "y": float(state.objects["y"][item]),
        "tiles": found.tiles,
        "left": state.objects.take(found.left).to_pylist(),
        "right": state.objects.take(found.right).to_pylist(),
        "objects_x": objects.x[:, 0],
        "objects_y": state.key(objects.key),
        "bounding": np.flatnonzero(np.isin(objects.row, [*found.left, *found.right])),
        "lo": box.lo[:, 0].copy(),
        "hi": box.hi[:, 0].copy(),
        "lists": np.isin(live, held.subscription[held.item == item]),
    }
