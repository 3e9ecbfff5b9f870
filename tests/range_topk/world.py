"""A small world of range top-k by brute force: objects, subscriptions, lists, and receivers of tiles."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.batch import NetChanges
from rankcast.range_topk.kernels.paint import IntervalEvents, Tiles
from rankcast.range_topk.kernels.points import PointTree
from rankcast.range_topk.state import ObjectIndex
from rankcast.range_topk.subscriptions import SlotMap, SubscriptionIndex

INF = float("inf")
NAN = float("nan")
Listing = list[tuple[float, int, float]]


@dataclass
class World:
    """Objects as row -> (x, y), the tie label of a row, and ranges."""

    k: int
    ranges: list[tuple[float, float]]
    objects: dict[int, tuple[float, float]] = field(default_factory=dict)

    def label(self, row: int) -> int:
        return (row * 7) % 13 + row // 13 * 13

    def listing(self, span: tuple[float, float], k: int | None = None) -> Listing:
        """The list of a range: (y, row, x), best first."""
        inside = [
            (y, self.label(row), row, x) for row, (x, y) in self.objects.items() if span[0] <= x <= span[1]
        ]
        return [(y, row, x) for y, _, row, x in sorted(inside)[: k or self.k]]

    def listings(self) -> list[Listing]:
        return [self.listing(span) for span in self.ranges]

    def rank(self, span: tuple[float, float], row: int) -> float:
        """The rank of an object in a range from 1; infinite if it is not in it."""
        rows = [entry[1] for entry in self.listing(span, 10**6)]
        return rows.index(row) + 1 if row in rows else INF

    def apply(self, row: int, x: float, y: float) -> None:
        """An event: NaN keeps, +inf deletes."""
        old = self.objects.get(row, (NAN, NAN))
        new = (old[0] if np.isnan(x) else x, old[1] if np.isnan(y) else y)
        self.objects.pop(row, None)
        if new[1] < INF:
            self.objects[row] = new

    def object_index(self, rows: int = 12) -> ObjectIndex:
        index = ObjectIndex()
        every = np.arange(rows, dtype=np.int32)
        index.set_labels(every, np.array([self.label(row) for row in range(rows)]))
        for row, (x, y) in self.objects.items():
            index.insert(row, x, y)
        return index

    def subscription_index(self) -> SubscriptionIndex:
        index = SubscriptionIndex(self.k, SlotMap())
        lo, hi = np.array(self.ranges).reshape(-1, 2).T
        rows = np.arange(len(self.ranges), dtype=np.int32)
        index.insert(rows, lo.copy(), hi.copy(), np.full((len(rows), self.k), -1, np.int32))
        return index


def every_range(values: list[float]) -> list[tuple[float, float]]:
    """A range for every set of neighbouring objects at the given x, and some: a dense instance."""
    ends = sorted({end for x in values for end in (x - 0.25, x, x + 0.25)} | {-INF, INF})
    return [(lo, hi) for lo in ends for hi in ends if lo <= hi]


def reached(tiles: Tiles, at: int, span: tuple[float, float]) -> bool:
    box = tiles.box[at]
    return bool(box[0] <= span[0] <= box[1] and box[2] <= span[1] <= box[3])


def receive(listing: Listing, item: int, x: float, value: float, world: World) -> Listing:
    """The receiver's protocol."""
    known = [entry for entry in listing if entry[1] != item]
    if value == INF:
        return known
    merged = sorted([*known, (value, item, x)], key=lambda entry: (entry[0], world.label(entry[1])))
    return merged[: world.k]


def event_arrays(events: list[tuple[int, float, float]]) -> IntervalEvents:
    row, x, y = zip(*events, strict=True) if events else ((), (), ())
    return IntervalEvents(np.array(row, np.int32), np.array(x, float), np.array(y, float))


def knowledge(world: World, method: str) -> PointTree | None:
    """What a method may ask about subscriptions."""
    if method == "dense":
        return None
    return world.subscription_index().tree


def net_of(before: World, after: World) -> NetChanges:
    """The net changes from one world to another."""
    rows = sorted(before.objects.keys() | after.objects.keys())
    changed = [row for row in rows if before.objects.get(row) != after.objects.get(row)]
    old = [before.objects.get(row, (after.objects.get(row, (0.0,))[0], INF)) for row in changed]
    new = [after.objects.get(row, (before.objects.get(row, (0.0,))[0], INF)) for row in changed]
    ends = np.array([(*was, *now) for was, now in zip(old, new, strict=True)]).reshape(-1, 4)
    return NetChanges(np.array(changed, np.int32), *(np.ascontiguousarray(column) for column in ends.T))


COORDINATE = st.integers(0, 6).map(float)


@st.composite
def worlds(draw: st.DrawFn, *, dense: bool) -> World:
    k = draw(st.integers(1, 4))
    world = World(k, [])
    for row in draw(st.sets(st.integers(0, 11), max_size=11)):
        world.objects[row] = (draw(COORDINATE), draw(COORDINATE))
    everything = every_range([float(x) for x in range(7)])
    world.ranges = everything if dense else draw(st.lists(st.sampled_from(everything), max_size=30))
    return world


@st.composite
def histories(draw: st.DrawFn, world: World, size: int = 4) -> list[tuple[int, float, float]]:
    """Valid events: inserts with both values, updates, moves, deletions of what is there."""
    present, events = set(world.objects), []
    for _ in range(draw(st.integers(1, size))):
        row = draw(st.integers(0, 11))
        if row not in present:
            events.append((row, draw(COORDINATE), draw(COORDINATE)))
            present.add(row)
            continue
        kind = draw(st.sampled_from(["value", "value", "move", "both", "delete"]))
        x = draw(COORDINATE) if kind in ("move", "both") else NAN
        y = INF if kind == "delete" else NAN if kind == "move" else draw(COORDINATE)
        events.append((row, x, y))
        if kind == "delete":
            present.remove(row)
    return events


def box_of(*corners: float) -> NDArray[np.float64]:
    return np.array(corners)
