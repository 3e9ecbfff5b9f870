"""The lists of subscriptions over several attributes, kept current: events in, net deltas out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast import buffers, integrity
from rankcast.indexes import tree_checks
from rankcast.indexes.box_objects import BoxObjects
from rankcast.indexes.corners import CornerIndex
from rankcast.indexes.dominance import SHARED, SlotMap
from rankcast.indexes.listing import Ends, by_shelf, check_shelves, classes, shared_slots
from rankcast.indexes.objects import Floats, Rows
from rankcast.kernels import box_replay, corner_search, relist, spread
from rankcast.kernels import integrity as kernels
from rankcast.kernels.box_replay import Batch
from rankcast.kernels.changes import Changes, empty_changes
from rankcast.kernels.corner_events import AFFECTED, SEARCHES, TRIED
from rankcast.kernels.corner_next import Values
from rankcast.kernels.corner_steps import Events, steps_of
from rankcast.kernels.integrity import Listed
from rankcast.kernels.relist import Held
from rankcast.kernels.spread import Deltas

SUBSCRIPTIONS = 64  # slots a bucket
ROOM = 1024  # changes that room is made for at first


class BoxListings:
    """Boards of all subscriptions in shelves, one a k, and the objects they list.

    - `add`, `move`, `remove`: subscriptions come, with their lists found at once, change, and go.
    - `held`, `since`: lists as they are, and what has become of them.
    - `play`: events change objects and boards; the net changes, which `deltas` tells as rows.

    `affected` counts subscriptions reached, each once an event, `tried` those looked at, `searches` how often
    the objects were asked what comes next.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.objects = BoxObjects(width)
        self.slots = SlotMap()
        self.shelves: dict[int, CornerIndex] = {}
        self.affected = self.tried = self.searches = 0

    def count(self, affected: int, tried: int, searches: int) -> None:
        """Add to what is counted."""
        self.affected += affected
        self.tried += tried
        self.searches += searches

    def add(self, rows: Rows, lo: Floats, hi: Floats, k: NDArray[np.int64]) -> None:
        """Register subscriptions and fill their boards."""
        corners = corners_of(lo, hi)
        for each, mine in classes(k):
            shelf = self.shelves[each] = self.shelf(each)
            shelf.insert(rows[mine], corners[mine], np.full(len(rows[mine]), np.inf))
            corner_search.fill(shelf.tree, rows[mine], self.objects.index.tree, self.objects.label)

    def shelf(self, k: int) -> CornerIndex:
        """The subscriptions with one k; a shelf without any if there are none."""
        held = self.shelves.get(k)
        return CornerIndex(2 * self.width, k, SUBSCRIPTIONS, self.slots) if held is None else held

    def remove(self, rows: Rows, k: NDArray[np.int64]) -> None:
        """Forget subscriptions; a shelf that becomes empty is dropped."""
        for each, mine in classes(k):
            self.shelves[each].delete(rows[mine])
            if len(self.shelves[each]) == 0:
                del self.shelves[each]

    def move(self, rows: Rows, lo: Floats, hi: Floats, k: NDArray[np.int64]) -> None:
        """Give subscriptions, which keep their k, other boxes and fill their boards."""
        self.remove(rows, k)
        self.add(rows, lo, hi, k)

    def held(self, rows: Rows, k: NDArray[np.int64]) -> Held:
        """Copies of the boards of subscriptions, one after the other."""
        start = np.zeros(len(rows) + 1, np.uint64)
        np.cumsum(k, out=start[1:], dtype=np.uint64)
        item = buffers.empty(int(start[-1]), np.int32)
        for each, mine in classes(k):
            board = self.shelves[each].tree.board
            relist.copy_boards(board, self.slots.slot_of, rows[mine], start[:-1][mine], item)
        return Held(start, item)

    def since(self, held: Held, rows: Rows, k: NDArray[np.int64], y: Floats) -> Deltas:
        """Delta rows from boards that were held, of subscriptions in the given order, to those of now."""
        now = self.held(rows, k)
        told = _columns(len(held.item) + len(now.item) + 1)
        size = int(relist.write_exchange(rows, held, now, y, np.zeros(len(y), np.int32), told))
        return Deltas._make(column[:size] for column in told)

    # Events

    def play(self, events: Events, moved: NDArray[np.bool_]) -> Changes:
        """Apply events to the objects and all boards; the net changes of these.

        `moved` has an entry for every object, all false, and is left so.
        """
        objects, last = self.objects, last_of(events)
        changes, tally = empty_changes(ROOM, ROOM), np.zeros(3, np.int64)
        objects.reserve(int(last.row.max(initial=-1)) + 1)
        if self.shelves:
            steps, spells = steps_of(events, objects.index.tree, objects.value)
            objects.hide(last.row)
            batch = Batch(steps, spells, objects.in_order(last.row))
            moved[last.row] = objects.value[last.row] != last.y
            values = Values(objects.value, objects.label)
            for shelf in self.shelves.values():
                tree = shelf.tree
                changes = box_replay.replay(tree, objects.index.tree, batch, values, moved, changes, tally)
            moved[last.row] = False
        objects.settle(*last)
        self.count(*(int(tally[each]) for each in (AFFECTED, TRIED, SEARCHES)))
        return changes

    def deltas(self, changes: Changes, place: NDArray[np.int64], span: int) -> Deltas:
        """Delta rows of the changes by `place`, a row's position in registration order, below `span`."""
        columns = _columns(int(spread.count_rows(changes)))
        spread.spread(changes, spread.in_order(changes, place, span), self.objects.value, columns)
        return columns

    def one_sided(self) -> int:
        """On which side all subscriptions bound the second of two attributes: 1 above, -1 below, 0 neither.

        This is the 1.5-d case. Known from the box around all corners, without looking at any.
        """
        if self.width != 2 or len(self.shelves) > 1:
            return 0
        ends = [shelf.tree.high[0, 2:] for shelf in self.shelves.values()]
        unbounded = np.isneginf(ends[0]) if ends else np.array([True, True])
        return 1 if unbounded[0] else -1 if unbounded[1] else 0

    def refill(self) -> None:
        """Find all lists anew from the objects as they are."""
        for shelf in self.shelves.values():
            rows = shelf.rows()
            corner_search.fill(shelf.tree, rows, self.objects.index.tree, self.objects.label)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays: the objects, the slot map, and one set a shelf."""
        shelves = {
            f"{k}.{name}": a for k, shelf in self.shelves.items() for name, a in shelf.arrays().items()
        }
        objects = {f"objects.{name}": array for name, array in self.objects.arrays().items()}
        return {SHARED: self.slots.slot_of, **objects, **shelves}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave."""
        objects = {name: array for name, array in arrays.items() if name.startswith("objects.")}
        self.slots.slot_of = shared_slots(arrays)
        for k, mine in by_shelf({n: a for n, a in arrays.items() if n not in objects}).items():
            shelf = self.shelves[k] = self.shelf(k)
            shelf.restore(mine)
        self.objects.restore({name.partition(".")[2]: array for name, array in objects.items()})

    def check_against(self, k: NDArray[np.int64], live: Rows, ends: Ends, listed: Listed) -> None:
        """Refuse shelves that do not hold the `live` subscriptions, which want `k`, with their boxes."""
        held = {k: (shelf.tree, self.slots.slot_of[shelf.rows()]) for k, shelf in self.shelves.items()}
        check_shelves(held, self.slots.slot_of, k, live)
        for tree, slots in held.values():
            lo, hi = (end[tree.row[slots]] for end in ends)
            same = tree.point[slots] == corners_of(lo, hi)
            integrity.need(same.all(), "point", "differs from what subscriptions ask for")
            tree_checks.check_boards(tree.board, slots, lo, hi, listed)
            fits = kernels.last_weights(tree.board, slots, tree.weight, listed.value)
            integrity.need(fits, "weight", "is not that of the last item")


def last_of(events: Events) -> Events:
    """The last event of each object, by row."""
    rows, back = np.unique(events.row[::-1], return_index=True)
    last = len(events.row) - 1 - back
    return Events(rows, events.x[last], events.y[last])


def corners_of(lo: Floats, hi: Floats) -> Floats:
    """Boxes as corners: lower ends, and upper ends with the sign turned, by attribute."""
    return np.stack([lo, -hi], axis=2).reshape(len(lo), 2 * lo.shape[1])


def _columns(size: int) -> Deltas:
    """Columns for so many delta rows."""
    return Deltas(*(buffers.empty(size, kind) for kind in ("i4", "i1", "i4", "f8", "i8")))
