"""Subscription space cut into zones, one a broker.

A zone is cut in two again and again, the one with the most subscriptions (of a sample) first, of equal ones
the largest; always across its longer side. `midpoint` cuts in the middle, as CAN does when a node joins;
`balanced` where half of the zone's sample lies on either side. With several attributes space has two axes for
each: lo and hi; an axis along which everybody is unbounded is cut last. Points beyond the sample, and
infinite ones, belong to the outer zones. [Range §V]
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from rankcast.errors import SettingError
from rankcast.papers.network.kernels.zones import LEAF, Space, find_neighbours, owners
from rankcast.tables import schema
from rankcast.tables.schema import Bools, Floats, Ints, Rows

SPLITS = ("midpoint", "balanced")
SAMPLE = 100_000


@dataclass(frozen=True)
class Zones:
    """Zones and how to find one's way in them.

    Attributes:
        space: the zones as kernels take them.
        cuts: by axis, where anything is cut, in order.
        low: of each zone, -inf where it is an outer one.
        high: of each zone, excluded; +inf where it is an outer one.
        frame: lowest and highest point of the sample's space: the outer zones as far as they are drawn.
    """

    space: Space
    cuts: list[Floats]
    low: Floats
    high: Floats
    frame: tuple[Floats, Floats]

    def __len__(self) -> int:
        return len(self.low)

    def cells(self, points: Floats) -> Rows:
        """The cell of each point along every axis."""
        found = [np.searchsorted(cut, points[:, axis], side="right") for axis, cut in enumerate(self.cuts)]
        return np.column_stack(found).astype(np.int32)

    def owners(self, points: Floats) -> Rows:
        """The zone of each point."""
        zones: Rows = owners(self.space, self.cells(points))
        return zones

    def centres(self) -> Floats:
        """The middle of each zone within the frame."""
        low, high = (np.clip(side, *self.frame) for side in (self.low, self.high))
        return (low + high) / 2

    def scaled(self, points: Floats) -> Floats:
        """Points within the frame, which becomes the unit cube: what distances are between."""
        return _scaled(np.clip(points, *self.frame), self.frame)


def cut_space(points: Floats, count: int, split: str, rng: np.random.Generator) -> Zones:
    """Cut space into `count` zones by a sample of subscriptions, points (n, axes), some perhaps infinite."""
    way = schema.one_of("split", split, SPLITS)
    chosen = rng.choice(len(points), SAMPLE, replace=False) if len(points) > SAMPLE else slice(None)
    sample = points[chosen]
    frame = _frame(sample)
    bounded: Bools = np.any(np.isfinite(sample), axis=0)
    cutting = _Cutting(np.clip(sample, *frame), frame, bounded)
    while len(cutting.low) < schema.whole("count", count):
        if not cutting.waiting:
            raise SettingError(f"space cannot be cut into {count} zones", expected="fewer brokers")
        cutting.cut_one(way == "balanced")
    return _zones(cutting, frame)


def _frame(sample: Floats) -> tuple[Floats, Floats]:
    """The box around the finite part of a sample, along each axis at least a little wide."""
    finite = np.isfinite(sample)
    low = np.min(sample, axis=0, initial=np.inf, where=finite)
    high = np.max(sample, axis=0, initial=-np.inf, where=finite)
    low[low > high] = 0.0
    narrow = ~(high > low)
    high[narrow] = low[narrow] + np.maximum(1.0, np.abs(low[narrow]))
    return low, high


class _Cutting:
    """Zones in the making: boxes within the frame, the sample in each, and the tree of cuts so far."""

    def __init__(self, sample: Floats, frame: tuple[Floats, Floats], bounded: Bools) -> None:
        self.sample, self.width, self.bounded = sample, frame[1] - frame[0], bounded
        self.low, self.high, self.held = [frame[0]], [frame[1]], [np.arange(len(sample))]
        self.leaf = [0]
        self.axis, self.value, self.child = [LEAF], [0.0], [(0, 0)]
        self.waiting = [(-len(sample), -1.0, 0)]

    def cut_one(self, balanced: bool) -> None:
        """Cut the next zone in two, if that is possible."""
        _, _, zone = heapq.heappop(self.waiting)
        inside = self.sample[self.held[zone]]
        sides = (self.high[zone] - self.low[zone]) / self.width
        axes = np.lexsort((-sides, ~self.bounded))
        place = _place(inside, self.low[zone], self.high[zone], axes, balanced)
        if place is None:
            return
        axis, value = place
        left, new = inside[:, axis] < value, len(self.low)
        self.low.append(_with(self.low[zone], axis, value))
        self.high.append(self.high[zone])
        self.high[zone] = _with(self.high[zone], axis, value)
        self.held.append(self.held[zone][~left])
        self.held[zone] = self.held[zone][left]
        self._branch(zone, new, axis, value)
        for each in (zone, new):
            area = float(np.prod((self.high[each] - self.low[each]) / self.width))
            heapq.heappush(self.waiting, (-len(self.held[each]), -area, each))

    def _branch(self, zone: int, new: int, axis: int, value: float) -> None:
        node, first = self.leaf[zone], len(self.axis)
        self.axis[node], self.value[node], self.child[node] = axis, value, (first, first + 1)
        self.axis += [LEAF, LEAF]
        self.value += [0.0, 0.0]
        self.child += [(zone, zone), (new, new)]
        self.leaf[zone] = first
        self.leaf.append(first + 1)


def _with(corner: Floats, axis: int, value: float) -> Floats:
    moved = corner.copy()
    moved[axis] = value
    return moved


def _place(sample: Floats, low: Floats, high: Floats, axes: Ints, balanced: bool) -> tuple[int, float] | None:
    """Axis and value of a cut strictly inside a zone, across the first of some axes that can be cut."""
    for axis in axes:
        cut = low[axis] + (high[axis] - low[axis]) / 2
        if balanced and len(sample):
            middle = np.partition(sample[:, axis], len(sample) // 2)[len(sample) // 2]
            cut = middle if low[axis] < middle < high[axis] else cut
        if low[axis] < cut < high[axis]:
            return int(axis), float(cut)
    return None


def _zones(cutting: _Cutting, frame: tuple[Floats, Floats]) -> Zones:
    """The zones of a finished cutting; outer ones are opened to infinity."""
    low, high = np.array(cutting.low), np.array(cutting.high)
    low, high = np.where(low <= frame[0], -np.inf, low), np.where(high >= frame[1], np.inf, high)
    cuts = [np.unique(side[side > -np.inf]) for side in low.T]
    axis = np.array(cutting.axis, np.int32)
    cut = np.zeros(len(axis), np.int32)
    first, last = np.empty(low.shape, np.int32), np.empty(low.shape, np.int32)
    for d, values in enumerate(cuts):
        first[:, d] = np.searchsorted(values, low[:, d], side="right")
        last[:, d] = np.searchsorted(values, high[:, d], side="left")
        cut[axis == d] = np.searchsorted(values, np.array(cutting.value)[axis == d])
    space = Space(
        axis,
        cut,
        np.array(cutting.child, np.int32),
        _scaled(low, frame),
        _scaled(high, frame),
        first,
        last,
        *find_neighbours(first, last),
    )
    return Zones(space, cuts, low, high, frame)


def _scaled(points: Floats, frame: tuple[Floats, Floats]) -> Floats:
    return np.ascontiguousarray((points - frame[0]) / (frame[1] - frame[0]))
