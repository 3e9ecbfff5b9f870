"""Range top-k without an index: what one writes with Numba before reading a paper.

`ThresholdScan` keeps lists current: every update looks at every subscription. One whose range holds the
object is affected if the object was among its k best or now beats the k-th; its list is then computed again
from the objects in its range. `BoxScan` does the same over two attributes, from the objects in the range of
x. `NumpyLists` does it without Numba. `ObjectScan` finds first results by a scan of all objects for each
subscription. `AllAnew` rebuilds every list once per batch and compares it with the last one: what wins where
a batch changes most lists.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers
from rankcast.bench.workloads.range_topk import ends
from rankcast.structures.jit import EXACT

# mypy: disallow-untyped-decorators=False


MAX_LABEL = np.iinfo(np.int64).max


class Objects(NamedTuple):
    """Objects in the order of x; equal y are ordered by label, which is the id."""

    x: Floats
    y: Floats
    label: Integers


class Ends(NamedTuple):
    """The ranges of subscriptions."""

    lo: Floats
    hi: Floats


@njit(**EXACT)
def _rank_in(kept: NDArray[np.int32], y: Floats, label: Integers, place: int) -> None:
    """Put an object that belongs there into a list, best first, in which the last one leaves for it."""
    cell, value = kept.size - 1, y[place]
    while cell > 0 and (
        kept[cell - 1] < 0
        or value < y[kept[cell - 1]]
        or (value == y[kept[cell - 1]] and label[place] < label[kept[cell - 1]])
    ):
        kept[cell] = kept[cell - 1]
        cell -= 1
    kept[cell] = place


@njit(**EXACT)
def _recompute(objects: Objects, lo: float, hi: float, kept: NDArray[np.int32]) -> None:
    """Compute one list from the objects in its range. Cost: one pass over them."""
    x, y, label = objects
    kept[:] = -1
    last = kept.size - 1
    limit, limit_label = np.inf, np.int64(MAX_LABEL)
    for place in range(np.searchsorted(x, lo, side="left"), np.searchsorted(x, hi, side="right")):
        value = y[place]
        if value < limit or (value == limit and label[place] < limit_label):
            _rank_in(kept, y, label, place)
            if kept[last] >= 0:
                limit, limit_label = y[kept[last]], label[kept[last]]


@njit(**EXACT)
def _fill(objects: Objects, ends: Ends, lists: NDArray[np.int32]) -> None:
    """Compute every list."""
    for row in range(lists.shape[0]):
        _recompute(objects, ends.lo[row], ends.hi[row], lists[row])


@njit(**EXACT)
def _apply(objects: Objects, ends: Ends, lists: NDArray[np.int32], places: Integers, values: Floats) -> int:
    """Apply updates one by one and recompute the lists they affect; returns how many those were."""
    (x, y, label), (lo, hi) = objects, ends
    affected, last = 0, lists.shape[1] - 1
    for number, place in enumerate(places):
        if values[number] == y[place]:
            continue
        where, mine = x[place], label[place]
        better = min(y[place], values[number])
        marked = np.zeros(lo.size, np.bool_)
        for row in range(lo.size):
            if lo[row] <= where <= hi[row]:
                kth = lists[row, last]
                marked[row] = kth < 0 or better < y[kth] or (better == y[kth] and mine <= label[kth])
        y[place] = values[number]
        for changed in np.flatnonzero(marked):
            _recompute(objects, lo[changed], hi[changed], lists[changed])
            affected += 1
    return affected


class ThresholdScan:
    """Keeps the k best of every subscription current; `publish` takes updates of y of known objects.

    Attributes:
        affected: subscriptions affected so far, each once an event.
        lists: a row a subscription: places in the order of x, best first, -1 where there is none.
    """

    _fill: ClassVar[Any] = staticmethod(_fill)
    _apply: ClassVar[Any] = staticmethod(_apply)

    def __init__(self, objects: Columns, subscriptions: Columns, k: int) -> None:
        order = np.argsort(objects["x"], kind="stable")
        self._place = np.empty(len(order), np.int64)
        self._place[objects["id"][order]] = np.arange(len(order))
        self._label = objects["id"][order].astype(np.int64)
        self._objects, self._ends = self._columns(objects, order, subscriptions)
        self.affected = 0
        self.lists = np.full((len(subscriptions["id"]), k), -1, np.int32)
        self._fill(self._objects, self._ends, self.lists)

    def publish(self, events: Columns) -> None:
        """Apply updates in order."""
        places = self._place[events["id"]]
        self.affected += int(self._apply(self._objects, self._ends, self.lists, places, events["y"]))

    def items(self, row: int) -> list[int]:
        """The ids in one list, best first."""
        kept = self.lists[row]
        return [int(self._label[place]) for place in kept[kept >= 0]]

    def _columns(self, objects: Columns, order: Any, subscriptions: Columns) -> tuple[Any, Any]:
        """Objects and ends as the kernels take them."""
        found = Objects(objects["x"][order], objects["y"][order], self._label)
        return found, Ends(subscriptions["x_lo"], subscriptions["x_hi"])


class NumpyLists:
    """What one writes with NumPy alone: `publish` takes one update of a known object's y.

    Attributes:
        lists: by subscription the places of its k best objects, in the order of x, best first.
    """

    def __init__(self, objects: Columns, subscriptions: Columns, k: int) -> None:
        order = np.lexsort((objects["id"], objects["x"]))
        self._x, self._y, self._label = (objects[name][order] for name in ("x", "y", "id"))
        self._place = {int(label): place for place, label in enumerate(self._label)}
        self._lo, self._hi, self._k = subscriptions["x_lo"], subscriptions["x_hi"], k
        self._first = np.searchsorted(self._x, self._lo, side="left")
        self._end = np.searchsorted(self._x, self._hi, side="right")
        self._limit = np.full(len(self._lo), np.inf)  # the k-th value of each
        self.lists = [np.empty(0, np.int64)] * len(self._lo)
        for row in range(len(self._lo)):
            self._make(row)

    def publish(self, key: int, value: float) -> Integers:
        """Apply an update and make the lists again in which the object was, is or could be; their rows."""
        place = self._place[key]
        x, better = self._x[place], min(self._y[place], value)
        self._y[place] = value
        affected = np.flatnonzero((self._lo <= x) & (x <= self._hi) & (better <= self._limit))
        for row in affected.tolist():
            self._make(row)
        return affected

    def items(self, row: int) -> list[int]:
        """The ids in one list, best first."""
        return [int(item) for item in self._label[self.lists[row]]]

    def _make(self, row: int) -> None:
        """Sort the objects in the range that are not worse than the k-th of them."""
        first, k = self._first[row], self._k
        y = self._y[first : self._end[row]]
        full = len(y) >= k
        limit = np.partition(y, k - 1)[k - 1] if full else np.inf
        found = np.flatnonzero(y <= limit) if full else np.arange(len(y))
        self.lists[row] = first + found[np.lexsort((self._label[first + found], y[found]))[:k]]
        self._limit[row] = limit


class BoxObjects(NamedTuple):
    """BoxObjects in the order of x; equal y are ordered by label, which is the id."""

    x: Floats
    z: Floats
    y: Floats
    label: Integers


class BoxEnds(NamedTuple):
    """The boxes of subscriptions."""

    x_lo: Floats
    x_hi: Floats
    z_lo: Floats
    z_hi: Floats


@njit(**EXACT)
def _recompute_boxes(objects: BoxObjects, ends: BoxEnds, row: int, kept: NDArray[np.int32]) -> None:
    """Compute one list from the objects in its range of x. Cost: one pass over them."""
    x, z, y, label = objects
    low, high = ends.z_lo[row], ends.z_hi[row]
    kept[:] = -1
    last = kept.size - 1
    limit, limit_label = np.inf, np.int64(MAX_LABEL)
    first = np.searchsorted(x, ends.x_lo[row], side="left")
    for place in range(first, np.searchsorted(x, ends.x_hi[row], side="right")):
        value = y[place]
        if value <= limit and low <= z[place] <= high:
            if value == limit and label[place] > limit_label:
                continue
            _rank_in(kept, y, label, place)
            if kept[last] >= 0:
                limit, limit_label = y[kept[last]], label[kept[last]]


@njit(**EXACT)
def _fill_boxes(objects: BoxObjects, ends: BoxEnds, lists: NDArray[np.int32]) -> None:
    """Compute every list."""
    for row in range(lists.shape[0]):
        _recompute_boxes(objects, ends, row, lists[row])


@njit(**EXACT)
def _apply_boxes(
    objects: BoxObjects, ends: BoxEnds, lists: NDArray[np.int32], places: Integers, values: Floats
) -> int:
    """Apply updates one by one and recompute the lists they affect; returns how many those were."""
    x, z, y, label = objects
    x_lo, x_hi, z_lo, z_hi = ends
    affected, last = 0, lists.shape[1] - 1
    for number, place in enumerate(places):
        if values[number] == y[place]:
            continue
        at, other, mine = x[place], z[place], label[place]
        better = min(y[place], values[number])
        marked = np.zeros(x_lo.size, np.bool_)
        for row in range(x_lo.size):
            if x_lo[row] <= at <= x_hi[row] and z_lo[row] <= other <= z_hi[row]:
                kth = lists[row, last]
                marked[row] = kth < 0 or better < y[kth] or (better == y[kth] and mine <= label[kth])
        y[place] = values[number]
        for changed in np.flatnonzero(marked):
            _recompute_boxes(objects, ends, changed, lists[changed])
            affected += 1
    return affected


class BoxScan(ThresholdScan):
    """The same over x and z. A table without `z_lo` is the 1.5-d case."""

    _fill = staticmethod(_fill_boxes)
    _apply = staticmethod(_apply_boxes)

    def _columns(self, objects: Columns, order: Any, subscriptions: Columns) -> tuple[Any, Any]:
        """Objects and ends as the kernels take them."""
        x, z, y = (objects[name][order] for name in ("x", "z", "y"))
        (x_lo, z_lo), (x_hi, z_hi) = (np.ascontiguousarray(each.T) for each in ends(subscriptions))
        return BoxObjects(x, z, y, self._label), BoxEnds(x_lo, x_hi, z_lo, z_hi)


class ObjectScan:
    """The k best of every subscription, as `lists` of ids, best first, -1 where there is none."""

    def __init__(self, objects: Columns, subscriptions: Columns, k: int) -> None:
        self.lists = np.full((len(subscriptions["id"]), k), -1, np.int64)
        ends = subscriptions["x_lo"], subscriptions["x_hi"]
        _scan(objects["x"], objects["y"], objects["id"].astype(np.int64), *ends, self.lists)

    def items(self, row: int) -> list[int]:
        """The ids in one list, best first."""
        return [int(item) for item in self.lists[row] if item >= 0]


@njit(**EXACT)
def _scan(x: Floats, y: Floats, ids: Integers, lo: Floats, hi: Floats, lists: NDArray[np.int64]) -> None:
    """Fill every list. The value is tested first: once a list is full, few objects get beyond that."""
    k = lists.shape[1]
    scores = np.empty(k)
    for row in range(lo.size):
        kept = lists[row]
        scores[:] = np.inf
        for place in range(x.size):
            value = y[place]
            if value <= scores[k - 1] and lo[row] <= x[place] <= hi[row]:
                cell = k - 1
                if kept[cell] >= 0 and value == scores[cell] and ids[place] > kept[cell]:
                    continue
                while cell > 0 and (
                    value < scores[cell - 1] or (value == scores[cell - 1] and ids[place] < kept[cell - 1])
                ):
                    kept[cell], scores[cell] = kept[cell - 1], scores[cell - 1]
                    cell -= 1
                kept[cell], scores[cell] = ids[place], value


class Changes(NamedTuple):
    """Delta rows: 0 leaves, 1 enters, 2 has another score."""

    subscription: NDArray[np.int32]
    op: NDArray[np.int8]
    item: NDArray[np.int64]
    score: Floats
    rank: NDArray[np.int32]


def _room(size: int) -> Changes:
    """Room for so many delta rows."""
    return Changes(
        subscription=np.empty(size, np.int32),
        op=np.empty(size, np.int8),
        item=np.empty(size, np.int64),
        score=np.empty(size),
        rank=np.empty(size, np.int32),
    )


class AllAnew:
    """Lists that are rebuilt once a batch of new values, and compared with those before.

    Where each range begins and ends among the objects by x is found once. A list is read off the objects by
    value, best first, or if its range holds few objects off these: whichever is likely to end sooner.
    """

    def __init__(self, objects: Columns, subscriptions: Columns, k: int) -> None:
        order = np.argsort(objects["x"], kind="stable")
        x = objects["x"][order]
        self._label = objects["id"][order].astype(np.int64)
        self._y = objects["y"][order].copy()
        self._known = self._y.copy()
        self._place = np.empty(int(self._label.max()) + 1, np.int64)
        self._place[self._label] = np.arange(len(order))
        self._first = np.searchsorted(x, subscriptions["x_lo"], "left")
        self._end = np.searchsorted(x, subscriptions["x_hi"], "right")
        self._lists = np.full((len(subscriptions["id"]), k), -1, np.int32)
        self._most = 1024
        self.publish({"id": objects["id"][:0], "y": objects["y"][:0]})

    def publish(self, events: Columns) -> Changes:
        """Take new values; the net change of every list."""
        self._y[self._place[events["id"]]] = events["y"]
        by_value = np.lexsort((self._label, self._y)).astype(np.int32)
        rank = np.empty(len(by_value), np.int32)
        rank[by_value] = np.arange(len(by_value), dtype=np.int32)
        moved, new = self._y != self._known, np.empty_like(self._lists)
        _make_anew(by_value, rank, self._first, self._end, new)
        rows = _room(self._most)
        needed = int(_differences(self._lists, new, moved, self._y, self._label, rows))
        if needed > self._most:  # room is made once for the largest answer
            self._most = needed
            rows = _room(needed)
            _differences(self._lists, new, moved, self._y, self._label, rows)
        self._lists, self._known = new, self._y.copy()
        return Changes._make(column[:needed] for column in rows)

    def items(self, row: int) -> list[int]:
        """The ids in one list, best first."""
        return [int(self._label[place]) for place in self._lists[row] if place >= 0]


@njit(**EXACT)
def _make_anew(
    by_value: NDArray[np.int32], rank: NDArray[np.int32], first: Integers, end: Integers,
    lists: NDArray[np.int32],
) -> None:  # fmt: skip
    """Write every list as places by x, best first, then -1."""
    total, k = by_value.size, lists.shape[1]
    kept = np.empty(k, np.int32)
    for row in range(first.size):
        low, high, size = first[row], end[row], 0
        if (high - low) * (high - low) < k * total:
            for place in range(low, high):
                mine = rank[place]
                if size == k and mine > kept[k - 1]:
                    continue
                cell = size if size < k else k - 1
                while cell > 0 and kept[cell - 1] > mine:
                    kept[cell] = kept[cell - 1]
                    cell -= 1
                kept[cell], size = mine, min(size + 1, k)
            for cell in range(size):
                lists[row, cell] = by_value[kept[cell]]
        else:
            for best in range(total):
                if low <= by_value[best] < high:
                    lists[row, size] = by_value[best]
                    size += 1
                    if size == k:
                        break
        lists[row, size:] = -1


@njit(**EXACT)
def _differences(
    old: NDArray[np.int32], new: NDArray[np.int32], moved: NDArray[np.bool_], y: Floats, label: Integers,
    rows: Changes,
) -> int:  # fmt: skip
    """Write the delta rows from old lists to new ones as far as there is room; return how many there are."""
    size, room, k = 0, rows.op.size, old.shape[1]
    for row in range(old.shape[0]):
        same = True
        for cell in range(k):
            if old[row, cell] != new[row, cell] or (new[row, cell] >= 0 and moved[new[row, cell]]):
                same = False
                break
        if same:
            continue
        for cell in range(2 * k):
            leaves = cell < k
            place = old[row, cell] if leaves else new[row, cell - k]
            if place < 0:
                continue
            here = False
            for other in range(k):
                here |= (new[row, other] if leaves else old[row, other]) == place
            if here and (leaves or not moved[place]):
                continue
            if size < room:
                rows.subscription[size], rows.item[size] = row, label[place]
                rows.op[size] = 0 if leaves else 2 if here else 1
                rows.score[size] = np.nan if leaves else y[place]
                rows.rank[size] = 0 if leaves else cell - k + 1
            size += 1
    return size
