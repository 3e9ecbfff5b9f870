"""Counting what a server of range top-k subscriptions asks and sends, event by event, as the paper does.

A `Server` paints events and adds up messages, questions and bytes; a `Census` counts how many subscriptions a
box of subscription space holds, without looking at any of them.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers, batches
from rankcast.bench.workloads.range_topk import Workload
from rankcast.range_topk.brute_force import top_k
from rankcast.range_topk.kernels import points_search
from rankcast.range_topk.kernels.paint import FIRSTK, MINY, PROBE, SNAP, IntervalEvents, Tiles
from rankcast.range_topk.kernels.points import PointTree
from rankcast.range_topk.painter import Painter
from rankcast.range_topk.state import ObjectIndex, Objects
from rankcast.range_topk.subscriptions import SlotMap, SubscriptionIndex
from rankcast.structures.jit import EXACT
from rankcast.tables.boxes import Boxes

TILE_BYTES, UNICAST_BYTES = 24, 16
BATCH = 1_000
SAMPLE, FEW = 300, 30


class Census:
    """How many ranges lie in a box whose ends are at objects, or at the next float outside them.

    Ranges that end between the same objects are in the same such boxes; so ranges are counted by the places
    of their ends among the objects, and the counts are summed up along both axes. A question is four
    searches and four sums. Memory: 4 n^2 bytes for n objects, whatever the number of ranges.
    """

    def __init__(self, x: Floats, subscriptions: Columns) -> None:
        self._x = np.sort(x)
        lo = np.searchsorted(self._x, subscriptions["x_lo"], side="left")
        hi = np.searchsorted(self._x, subscriptions["x_hi"], side="right")
        self._sums = np.zeros((len(x) + 2, len(x) + 2), np.int32)
        _sum_up(self._sums, lo, hi)

    def count(self, box: Floats) -> Integers:
        """Count the ranges in each box (lo from, lo to, hi from, hi to), closed."""
        west, east = (np.searchsorted(self._x, box[:, side], side="left") for side in (0, 1))
        south, north = (np.searchsorted(self._x, box[:, side], side="right") for side in (2, 3))
        sums = self._sums
        held = sums[east + 1, north + 1].astype(np.int64)
        held += sums[west, south].astype(np.int64) - sums[west, north + 1] - sums[east + 1, south]
        return np.where((box[:, 0] <= box[:, 1]) & (box[:, 2] <= box[:, 3]), held, 0)


class Server:
    """Applies updates to objects and adds up what notifying the affected takes, one message a tile.

    Attributes:
        points: the subscriptions, for a server that knows them.
        events: how many so far.
        total: sums over them: `messages`, `bytes_out`, the questions `firstk`, `miny`, `snap` that the paper
            counts, and `probes`, what `sparse` asks the subscriptions beyond a snap a tile.
        most_bytes: the largest number of bytes for one event.
    """

    def __init__(
        self,
        objects: Columns,
        k: int,
        *,
        points: SubscriptionIndex | None = None,
        epsilon: float | None = None,
    ) -> None:
        self.painter = Painter(object_index(objects))
        self.k = np.array([k])
        self.points = points
        self.epsilon = epsilon
        self.events = 0
        self.total: dict[str, float] = {}
        self.most_bytes = 0

    def send(self, rows: Columns) -> None:
        """Apply updates in order, batch by batch."""
        for batch in batches(rows, BATCH):
            before = self.painter.tally.copy()
            self.account(self.paint(batch), batch, self.painter.tally - before)
            self.events += len(batch["id"])

    def paint(self, batch: Columns) -> Tiles:
        """Paint and apply updates; the next call overwrites the tiles."""
        points = None if self.points is None else self.points.tree
        return self.painter.paint(painter_events(batch), self.k, points=points, epsilon=self.epsilon)

    def account(self, tiles: Tiles, batch: Columns, questions: Integers) -> None:
        """Add up questions and messages."""
        self.add(
            firstk=questions[FIRSTK], miny=questions[MINY], snap=questions[SNAP], probes=questions[PROBE]
        )
        self.add_messages(np.bincount(tiles.event, minlength=len(batch["id"])), TILE_BYTES)

    def add_messages(self, messages: Integers, size: int) -> None:
        """Add up messages of one size, given by event."""
        self.add(messages=messages.sum(), bytes_out=messages.sum() * size)
        self.most_bytes = max(self.most_bytes, int(messages.max(initial=0)) * size)

    def add(self, **more: float) -> None:
        """Add to the sums."""
        for name, value in more.items():
            self.total[name] = self.total.get(name, 0.0) + float(value)

    def counts(self) -> dict[str, float]:
        """The sums an event, the counted questions together, and the bytes of the largest event."""
        means = {name: value / self.events for name, value in self.total.items()}
        calls = sum(means.get(name, 0.0) for name in ("firstk", "miny", "snap"))
        return {**means, "calls": calls, "most_bytes": self.most_bytes}


class Unicast(Server):
    """Tells every affected subscription by itself, and asks `miny` for each one in the bounding box.

    The affected are those in the tiles of the updated object: of its old region when it falls behind, of its
    new one when it improves; the box around that region is what the paper's Unicast searches. Sums also:
    `affected`, each once an event, and `relaxed`, whom a server reaches that ignores ranking.
    """

    def __init__(self, objects: Columns, k: int, census: Census) -> None:
        super().__init__(objects, k)
        self.census = census
        self.x = objects["x"]

    def account(self, tiles: Tiles, batch: Columns, questions: Integers) -> None:
        """Count whom the updated object's tiles reach, and who is in the box around them."""
        own, event = own_tiles(tiles, batch)
        affected = sums_by(event, self.census.count(own), len(batch["id"]))
        place = self.x[batch["id"]]
        everywhere = np.column_stack(
            [np.full_like(place, -np.inf), place, place, np.full_like(place, np.inf)]
        )
        self.add(
            firstk=questions[FIRSTK],
            miny=self.census.count(boxes_around(own, event)).sum(),
            affected=affected.sum(),
            relaxed=self.census.count(everywhere).sum(),
        )
        self.add_messages(affected, UNICAST_BYTES)


class Audience(Server):
    """A server that knows the subscriptions, and counts who hears: `received` of the updated object ...

    ... as the paper does, and `delivered` of all objects, those that an update exposes, too.
    """

    def account(self, tiles: Tiles, batch: Columns, questions: Integers) -> None:
        """Count the subscriptions in each tile."""
        super().account(tiles, batch, questions)
        own, _ = own_tiles(tiles, batch)
        for name, boxes in (("received", own), ("delivered", tiles.box)):
            self.add(**{name: count_points(self.points.tree, boxes).sum() if self.points else 0})


def object_index(objects: Columns) -> ObjectIndex:
    """Index objects whose id is their row."""
    index, rows = ObjectIndex(), objects["id"].astype(np.int32)
    index.set_labels(rows, objects["id"].astype(np.int64))
    index.load(rows, objects["x"], objects["y"])
    return index


def point_index(subscriptions: Columns) -> SubscriptionIndex:
    """Index subscriptions whose id is their row; their boards are narrow and stay empty."""
    index, rows = SubscriptionIndex(1, SlotMap()), subscriptions["id"].astype(np.int32)
    index.insert(rows, subscriptions["x_lo"], subscriptions["x_hi"], np.full((len(rows), 1), -1, np.int32))
    return index


def painter_events(batch: Columns) -> IntervalEvents:
    """Updates of y as the painter takes them."""
    return IntervalEvents(batch["id"].astype(np.int32), np.full(len(batch["id"]), np.nan), batch["y"])


def own_tiles(tiles: Tiles, batch: Columns) -> tuple[Floats, Integers]:
    """The boxes for the updated object itself, with their event, in order."""
    own = tiles.item == batch["id"][tiles.event]
    return tiles.box[own], tiles.event[own].astype(np.int64)


def boxes_around(box: Floats, event: Integers) -> Floats:
    """For each event that has boxes the one around them all; `event` rises."""
    if not len(box):
        return box
    starts = np.flatnonzero(np.diff(event, prepend=-1))
    ends = [np.minimum, np.maximum, np.minimum, np.maximum]
    return np.column_stack([end.reduceat(box[:, side], starts) for side, end in enumerate(ends)])


def sums_by(event: Integers, counts: Integers, length: int) -> Integers:
    """Sum counts by event."""
    return np.bincount(event, weights=counts, minlength=length).astype(np.int64)


def affected_by_scan(work: Workload, k: int) -> Integers:
    """How many subscriptions each event affects, by comparing all lists before and after it."""
    ids, ends = work.objects["id"], work.subscriptions
    boxes, ks = Boxes(ends["x_lo"][:, None], ends["x_hi"][:, None]), np.full(len(ends["id"]), k)
    objects = Objects(
        ids.astype(np.int32), work.objects["x"][:, None], work.objects["y"].copy(), ids.astype(np.int64)
    )
    found, lists = [], top_k(boxes, ks, objects)
    for row, y in zip(work.events["id"].tolist(), work.events["y"].tolist(), strict=True):
        changed, objects.key[row] = objects.key[row] != y, y
        former, lists = lists, top_k(boxes, ks, objects)
        found.append(
            sum(
                not np.array_equal(old, new) or (changed and row in new)
                for old, new in zip(former, lists, strict=True)
            )
        )
    return np.array(found, np.int64)


def agree(work: Workload, k: int) -> bool:
    """Whether tiles reach exactly the affected: a few events, a few subscriptions, by brute force."""
    ends = {name: column[:SAMPLE] for name, column in work.subscriptions.items()}
    events = {name: column[:FEW] for name, column in work.events.items()}
    unicast = Unicast(work.objects, k, Census(work.objects["x"], ends))
    sparse = Audience(work.objects, k, points=point_index(ends))
    unicast.send(events)
    sparse.send(events)
    affected = int(affected_by_scan(Workload(work.objects, ends, events), k).sum())
    return unicast.total["affected"] == sparse.total["received"] == affected


@njit(**EXACT)
def count_points(points: PointTree, box: Floats) -> Integers:
    """Count the points in each box. Cost: the nodes that cross its border."""
    counts, nowhere = np.empty(box.shape[0], np.int64), np.empty(0, np.int32)
    for place in range(box.shape[0]):
        counts[place] = points_search.list_rows(points, box[place], nowhere)
    return counts


@njit(**EXACT)
def _sum_up(sums: NDArray[np.int32], lo: NDArray[np.intp], hi: NDArray[np.intp]) -> None:
    """Make sums[i, j] the number of ranges with lo < i and hi < j."""
    for place in range(lo.shape[0]):
        sums[lo[place] + 1, hi[place] + 1] += 1
    for i in range(1, sums.shape[0]):
        line = 0
        for j in range(1, sums.shape[1]):
            line += sums[i, j]
            sums[i, j] = sums[i - 1, j] + line
