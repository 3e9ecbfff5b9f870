"""Subscription space cut into zones, one a broker.

A zone is cut in two again and again, the one with the most subscriptions (of a sample) first, of equal ones
the largest; always across its longer side. `midpoint` cuts in the middle, as CAN does when a node joins;
`balanced` where half of the zone's sample lies on either side. With several attributes space has two axes for
each: lo and hi; an axis along which everybody is unbounded is cut last. Points beyond the sample, and
infinite ones, belong to the outer zones. [Range §V]

The kernels answer who owns a point, forward greedily to a place and multicast over a box. Space is cut by a
binary tree into half-open boxes, the zones; outer ones reach to infinity. Along every
axis the cuts part the numbers into cells 0, 1, ...: cell c is [cut c - 1, cut c). A zone is a box of cells,
`first` to `last`; a closed box of points is, for the question which zones it touches, the box of the cells
of its ends. So everything but distances is whole numbers.

Forwarding is greedy: to the neighbour (zones are neighbours if they share a face) that is nearest to the
target, and of equally near ones to the one nearest by cells. It always arrives: while a zone lacks the
target's cell along an axis, the neighbour beyond that face, at the zone's cell nearest to the target, is no
farther along any axis, also as computed, since rounding is monotone, and strictly nearer by cells.

Multicast follows a rule that every broker can apply by itself, knowing its own zone and its neighbours'. All
touched zones agree on a root cell, one of the box in the root's zone. Another touched zone takes the
message from the owner of the cell next to the one of its own, within the box, that is nearest to the root
cell: one step towards it along the first axis in which they differ. That owner is a touched neighbour and
strictly nearer by cells; so these steps make a tree, and each touched zone hears once. [Range §V]

A graph of nodes and links is kept as rows of neighbours, `start` and `neighbour`: the neighbours of node v
are neighbour[start[v]] .. neighbour[start[v + 1] - 1]. All links have the same length.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.errors import SettingError
from rankcast.structures.jit import EXACT
from rankcast.tables import schema
from rankcast.tables.schema import Bools, Floats, Ints, Rows

Cells = NDArray[np.int32]
ZoneArrays = NDArray[np.int32]
Point = NDArray[np.float64]

LEAF = -1


class Space(NamedTuple):
    """Zones and the tree that cuts them; in the tree a leaf has axis -1 and its zone as first child."""

    axis: NDArray[np.int32]
    cut: NDArray[np.int32]  # cells up to this one go to the first child
    child: NDArray[np.int32]
    low: NDArray[np.float64]  # (zones, axes), scaled so that space is about 1 wide; infinite outside
    high: NDArray[np.float64]
    first: Cells  # (zones, axes), inclusive like `last`
    last: Cells
    start: NDArray[np.int64]  # neighbours of a zone, as rows
    neighbour: ZoneArrays


@njit(**EXACT)
def owner(space: Space, cell: Cells) -> int:
    """The zone that holds a cell. O(depth)."""
    axis, cut, child = space.axis, space.cut, space.child
    node = 0
    while axis[node] != LEAF:
        node = child[node, 0 if cell[axis[node]] <= cut[node] else 1]
    return child[node, 0]


@njit(**EXACT)
def owners(space: Space, cells: Cells) -> ZoneArrays:
    """The zones that hold each of many cells."""
    zones = np.empty(cells.shape[0], np.int32)
    for at in range(cells.shape[0]):
        zones[at] = owner(space, cells[at])
    return zones


@njit(**EXACT)
def find_neighbours(first: Cells, last: Cells) -> tuple[NDArray[np.int64], ZoneArrays]:
    """Rows of the zones that share a face with each zone, smaller ones first. O(zones^2)."""
    zones, axes = first.shape
    start, found, size = np.zeros(zones + 1, np.int64), np.empty(16 * zones, np.int32), 0
    for one in range(zones):
        for two in range(zones):
            faces, apart = 0, False
            for d in range(axes):
                if last[one, d] + 1 == first[two, d] or last[two, d] + 1 == first[one, d]:
                    faces += 1
                elif last[one, d] < first[two, d] or last[two, d] < first[one, d]:
                    apart = True
            if faces == 1 and not apart:
                if size == found.shape[0]:
                    found = np.concatenate((found, np.empty(size, np.int32)))
                found[size] = two
                size += 1
        start[one + 1] = size
    return start, found[:size]


@njit(**EXACT)
def touches(space: Space, zone: int, bottom: Cells, top: Cells) -> bool:
    """Whether a zone has a cell of a box."""
    for d in range(bottom.shape[0]):
        if space.last[zone, d] < bottom[d] or space.first[zone, d] > top[d]:
            return False
    return True


@njit(**EXACT)
def nearest_neighbour(space: Space, zone: int, point: Point, cell: Cells) -> int:
    """The neighbour nearest to a point and its cell."""
    low, high, first, last = space.low, space.high, space.first, space.last
    best, best_away, best_cells = -1, np.inf, 0
    for place in range(space.start[zone], space.start[zone + 1]):
        other = space.neighbour[place]
        away, cells = 0.0, 0
        for d in range(cell.shape[0]):
            gap = max(low[other, d] - point[d], point[d] - high[other, d], 0.0)
            away += gap * gap
            cells += max(first[other, d] - cell[d], cell[d] - last[other, d], 0)
        if best < 0 or away < best_away or (away == best_away and cells < best_cells):
            best, best_away, best_cells = other, away, cells
    return best


@njit(**EXACT)
def forward(
    space: Space, zone: int, point: Point, cell: Cells, bottom: Cells, top: Cells, path: ZoneArrays
) -> int:
    """Walk from a zone towards a point, as far as the first zone that touches a box; the number of steps.

    The box, given by its lowest and highest cells, holds the point's cell. `path` gets the zones, from the
    first to the last, and has space for all.
    """
    steps = 0
    path[0] = zone
    while not touches(space, path[steps], bottom, top):
        path[steps + 1] = nearest_neighbour(space, path[steps], point, cell)
        steps += 1
    return steps


@njit(**EXACT)
def list_touched(space: Space, bottom: Cells, top: Cells, zones: ZoneArrays) -> int:
    """Write the zones that a box touches; return how many. O(depth) each."""
    axis, cut, child = space.axis, space.cut, space.child
    stack, depth, size = np.empty(axis.shape[0], np.int32), 1, 0
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        d = axis[node]
        if d == LEAF:
            zones[size] = child[node, 0]
            size += 1
            continue
        if top[d] > cut[node]:
            stack[depth] = child[node, 1]
            depth += 1
        if bottom[d] <= cut[node]:
            stack[depth] = child[node, 0]
            depth += 1
    return size


@njit(**EXACT)
def root_cell(space: Space, root: int, cell: Cells, bottom: Cells, top: Cells, near: Cells) -> None:
    """Write the cell of a zone and a box that is nearest to a given one."""
    for d in range(cell.shape[0]):
        near[d] = max(space.first[root, d], bottom[d], min(space.last[root, d], top[d], cell[d]))


@njit(**EXACT)
def teller(space: Space, zone: int, root: Cells, bottom: Cells, top: Cells, near: Cells) -> int:
    """From whom a touched zone takes the message; -1 for the zone of the root cell. `near` is overwritten."""
    root_cell(space, zone, root, bottom, top, near)
    for d in range(root.shape[0]):
        if near[d] != root[d]:
            near[d] += 1 if root[d] > near[d] else -1
            return owner(space, near)
    return -1


Starts = NDArray[np.int64]
Nodes = NDArray[np.int32]
Hops = NDArray[np.int32]

UNREACHED = -1


@njit(**EXACT)
def hops_from(start: Starts, neighbour: Nodes, sources: Nodes) -> Hops:
    """Hops on a shortest path from each source (a line) to every node; -1 where there is no path.

    Cost: one breadth-first search a source, O(nodes + links).
    """
    nodes = start.shape[0] - 1
    hops = np.full((sources.shape[0], nodes), UNREACHED, np.int32)
    queue = np.empty(nodes, np.int32)
    for s in range(sources.shape[0]):
        away = hops[s]
        queue[0], head, tail = sources[s], 0, 1
        away[sources[s]] = 0
        while head < tail:
            here = queue[head]
            head += 1
            for link in range(start[here], start[here + 1]):
                there = neighbour[link]
                if away[there] < 0:
                    away[there] = away[here] + 1
                    queue[tail] = there
                    tail += 1
    return hops


@njit(**EXACT)
def joining_tree(hops: Hops) -> Nodes:
    """The parent of each point in a smallest tree over points with these distances; the first has none (-1).

    Of equal distances the smaller point comes first, and joins the one that came first. O(n^2).
    """
    points = hops.shape[0]
    parent = np.full(points, -1, np.int32)
    nearest, joined = np.full(points, 2**31 - 1, np.int32), np.zeros(points, np.bool_)
    here = 0
    for _ in range(points - 1):
        joined[here] = True
        best = -1
        for there in range(points):
            if joined[there]:
                continue
            if hops[here, there] < nearest[there]:
                nearest[there], parent[there] = hops[here, there], here
            if best < 0 or nearest[there] < nearest[best]:
                best = there
        here = best
    return parent


@njit(**EXACT)
def spread(start: Starts, neighbour: Nodes, wanted: NDArray[np.bool_], origin: Nodes) -> NDArray[np.bool_]:
    """Whom events reach that go from broker to broker along wanted links, never back: (event, broker).

    `wanted[link, event]` says that the broker at the far end of a link has asked for the event; links are
    numbered as `neighbour` is. In an acyclic graph no broker is reached twice. O(events * links).
    """
    brokers, events = start.shape[0] - 1, origin.shape[0]
    reached = np.zeros((events, brokers), np.bool_)
    stack = np.empty((brokers, 2), np.int32)
    for event in range(events):
        stack[0, 0], stack[0, 1], depth = origin[event], -1, 1
        while depth > 0:
            depth -= 1
            here, before = stack[depth, 0], stack[depth, 1]
            reached[event, here] = True
            for link in range(start[here], start[here + 1]):
                if neighbour[link] != before and wanted[link, event]:
                    stack[depth, 0], stack[depth, 1] = neighbour[link], here
                    depth += 1
    return reached


@njit(**EXACT)
def causes(
    answered: NDArray[np.int64], goes: NDArray[np.bool_], commands: NDArray[np.int64]
) -> NDArray[np.int64]:
    """By which command a router gave each row of its answer: `answered` are the ids, in order.

    A command answers with a row of its own id, and one that goes may be followed by others that it freed;
    these are live already, so none is the next to come, and do not go (`goes`), so none is the next to go.
    `commands` are ids, those that go written as -1 - id.
    """
    by, command = np.empty(answered.shape[0], np.int64), -1
    for row in range(answered.shape[0]):
        name = -1 - answered[row] if goes[row] else answered[row]
        if command + 1 < commands.shape[0] and commands[command + 1] == name:
            command += 1
        by[row] = command
    return by


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
