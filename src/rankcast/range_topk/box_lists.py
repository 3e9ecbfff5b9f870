"""The lists of subscriptions over several attributes, kept current: events in, net deltas out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk import checks, widths
from rankcast.range_topk.corners import BoxObjects, CornerIndex
from rankcast.range_topk.kernels import corners as corner_edit
from rankcast.range_topk.kernels import corners_search, replay
from rankcast.range_topk.kernels.events import AFFECTED, SEARCHES, TRIED
from rankcast.range_topk.kernels.replay import Batch
from rankcast.range_topk.kernels.steps import Events, Values, steps_of
from rankcast.range_topk.lists import Ends, by_shelf, check_shelves, classes, shared_slots
from rankcast.range_topk.objects import Floats, Rows
from rankcast.range_topk.subscriptions import SHARED, SlotMap
from rankcast.range_topk.widths import Wanted, Widths
from rankcast.structures import arrays as buffers
from rankcast.structures import boards as spread
from rankcast.structures import diff, integrity
from rankcast.structures import integrity as kernels
from rankcast.structures.boards import BoardChanges, Deltas, empty_changes
from rankcast.structures.diff import Held
from rankcast.structures.integrity import Listed

SUBSCRIPTIONS = 64  # slots a bucket
ROOM = 1024  # changes that room is made for at first


class BoxListings:
    """Boards of all subscriptions in shelves, by k or open, and the objects they list.

    - `add`, `move`, `remove`: subscriptions come, with their lists found at once, change, and go.
    - `held`, `since`: lists as they are, and what has become of them.
    - `make_room`: before objects come, so that no open list is filled by them; see `widths`.
    - `play`: events change objects and boards; the net changes, which `deltas` tells as rows.

    `affected` counts subscriptions reached, each once an event, `tried` those looked at, `searches` how often
    the objects were asked what comes next.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.objects = BoxObjects(width)
        self.slots = SlotMap()
        self.shelves: dict[int, CornerIndex] = {}
        self.widths = Widths()
        self._corners: CornerIndex | None = None
        self.affected = self.tried = self.searches = 0

    def count(self, affected: int, tried: int, searches: int) -> None:
        """Add to what is counted."""
        self.affected += affected
        self.tried += tried
        self.searches += searches

    def add(self, rows: Rows, lo: Floats, hi: Floats, k: NDArray[np.int64]) -> None:
        """Register subscriptions and fill their boards."""
        self._corners = None
        corners, need, keys = corners_of(lo, hi), k, k
        if k.max(initial=0) > widths.NARROW:
            need = np.empty(len(rows), np.int64)
            corners_search.count(self.objects.index.tree, corners, need)
            keys = self.widths.wanted(need, k)
        for key, mine in classes(keys):
            shelf = self.shelves[key] = self._shelf(key)
            self.widths.enter(key, rows[mine], int(need[mine].max()))
            shelf.insert(rows[mine], corners[mine], np.full(len(rows[mine]), np.inf))
            self._fill(shelf, rows[mine])

    def _fill(self, shelf: CornerIndex, rows: Rows) -> None:
        """Find the lists of some subscriptions of a shelf."""
        objects, tree = self.objects, shelf.tree
        width = tree.board.shape[1]
        if width < widths.LONG:
            corners_search.fill(tree, rows, objects.index.tree, objects.label)
            return
        there = np.flatnonzero(objects.value < np.inf).astype(np.int32)
        places = objects.index.tree.point[objects.slots.slot_of[there]]
        for row in rows:
            slot = tree.slot_of[row]
            lo, hi = tree.point[slot, ::2], -tree.point[slot, 1::2]
            inside = there[((lo <= places) & (places <= hi)).all(axis=1)]
            best = widths.best_of(inside, objects.value, objects.label, width)
            tree.board[slot, : len(best)], tree.board[slot, len(best) :] = best, -1
            last = objects.value[best[-1]] if len(best) == width else np.inf
            corner_edit.set_weight(tree, row, last)

    def _shelf(self, key: int) -> CornerIndex:
        """The shelf of a key, or a new one."""
        held = self.shelves.get(key)
        return CornerIndex(2 * self.width, abs(key), SUBSCRIPTIONS, self.slots) if held is None else held

    def corners(self) -> CornerIndex:
        """All subscriptions in one index, its boards of no meaning."""
        if len(self.shelves) == 1:
            return next(iter(self.shelves.values()))
        if self._corners is None:
            self._corners = CornerIndex(2 * self.width, 1, SUBSCRIPTIONS, SlotMap())
            for shelf in self.shelves.values():
                rows, corners = shelf.points()
                self._corners.insert(rows, corners, np.full(len(rows), np.inf))
        return self._corners

    def remove(self, rows: Rows, k: NDArray[np.int64]) -> None:
        """Forget subscriptions; a shelf that becomes empty is dropped."""
        self._corners = None
        for key, mine in classes(self.widths.keys(rows, k)):
            self._take_out(key, rows[mine])

    def _take_out(self, key: int, rows: Rows) -> None:
        self.shelves[key].delete(rows)
        if len(self.shelves[key]) == 0:
            del self.shelves[key]
            self.widths.drop(key)

    def move(self, rows: Rows, lo: Floats, hi: Floats, k: NDArray[np.int64]) -> None:
        """Give subscriptions, which keep their k, other boxes and fill their boards."""
        self.remove(rows, k)
        self.add(rows, lo, hi, k)

    def make_room(self, places: Floats, departures: int, k_of: Wanted) -> None:
        """Bring lists to other shelves that objects may fill which come to these places, or that got short.

        Called before a batch, with a line for each object that is new or moves, and how many go.
        """
        for key in list(self.widths.due(list(self.shelves), len(places), departures)):
            shelf = self.shelves[key]
            rows, corners = shelf.points()
            length = widths.lengths(shelf.tree.board, self.slots.slot_of[rows])
            need = length + widths.arrivals_in(corners[:, ::2], -corners[:, 1::2], places)
            to = self.widths.moving(key, length, need, k_of(rows))
            self.widths.counted(key, int(need[to == key].max(initial=0)))
            for other, mine in classes(to):
                if other != key:
                    self._bring(key, other, rows[mine], corners[mine], int(need[mine].max()))

    def _bring(self, key: int, other: int, rows: Rows, corners: Floats, most: int) -> None:
        """Bring lists, which are not full, from a shelf to another."""
        boards = widths.widened(self.shelves[key].boards(rows), abs(other))
        self._take_out(key, rows)
        shelf = self.shelves[other] = self._shelf(other)
        self.widths.enter(other, rows, most)
        shelf.insert(rows, corners, np.full(len(rows), np.inf))
        shelf.tree.board[self.slots.slot_of[rows]] = boards

    def unite(self) -> None:
        """Bring the lists of one k to the widest of their shelves."""
        widest = max(self.shelves, key=lambda key: (abs(key), key), default=0)
        for key in [key for key in self.shelves if key != widest]:
            self._bring(key, widest, *self.shelves[key].points(), self.widths.most.get(key, 0))

    def held(self, rows: Rows, k: NDArray[np.int64]) -> Held:
        """Copies of the boards of subscriptions, one after the other."""
        keys = self.widths.keys(rows, k)
        start = np.zeros(len(rows) + 1, np.uint64)
        np.cumsum(np.abs(keys), out=start[1:], dtype=np.uint64)
        item = buffers.empty(int(start[-1]), np.int32)
        for key, mine in classes(keys):
            board = self.shelves[key].tree.board
            diff.copy_boards(board, self.slots.slot_of, rows[mine], start[:-1][mine], item)
        return Held(start, item)

    def since(self, held: Held, rows: Rows, k: NDArray[np.int64], y: Floats) -> Deltas:
        """Delta rows from boards that were held, of subscriptions in the given order, to those of now."""
        now = self.held(rows, k)
        told = _columns(len(held.item) + len(now.item) + 1)
        size = int(diff.write_exchange(rows, held, now, y, np.zeros(len(y), np.int32), told))
        return Deltas._make(column[:size] for column in told)

    # Events

    def play(self, events: Events, moved: NDArray[np.bool_]) -> BoardChanges:
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
                changes = replay.replay(tree, objects.index.tree, batch, values, moved, changes, tally)
            moved[last.row] = False
        objects.settle(*last)
        self.count(*(int(tally[each]) for each in (AFFECTED, TRIED, SEARCHES)))
        return changes

    def deltas(self, changes: BoardChanges, place: NDArray[np.int64], span: int) -> Deltas:
        """Delta rows of the changes by `place`, a row's position in registration order, below `span`."""
        columns = _columns(int(spread.count_rows(changes)))
        spread.spread(changes, spread.in_order(changes, place, span), self.objects.value, columns)
        return columns

    def one_sided(self) -> int:
        """On which side all subscriptions bound the second of two attributes: 1 above, -1 below, 0 neither.

        This is the 1.5-d case. Known from the box around all corners, without looking at any.
        """
        if self.width != 2:
            return 0
        ends = [shelf.tree.high[0, 2:] for shelf in self.shelves.values()]
        unbounded = (np.array(ends) == -np.inf).all(axis=0) if ends else np.array([True, True])
        return 1 if unbounded[0] else -1 if unbounded[1] else 0

    def refill(self, k_of: Wanted) -> None:
        """Find all lists anew from the objects as they are."""
        wide = [key for key in self.shelves if key < 0 or key > widths.NARROW]
        for key, shelf in self.shelves.items():
            if key not in wide:
                self._fill(shelf, shelf.rows())
        for rows, corners in [self._dropped(key) for key in wide]:
            self.add(rows, corners[:, ::2], -corners[:, 1::2], k_of(rows))

    def _dropped(self, key: int) -> tuple[Rows, Floats]:
        """The subscriptions of a shelf that is no longer there."""
        self.widths.drop(key)
        return self.shelves.pop(key).points()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays: the objects, the slot map, and one set a shelf."""
        shelves = {
            f"{widths.name_of(key)}.{name}": array
            for key, shelf in self.shelves.items()
            for name, array in shelf.arrays().items()
        }
        objects = {f"objects.{name}": array for name, array in self.objects.arrays().items()}
        return {SHARED: self.slots.slot_of, **objects, **shelves}

    def restore(self, arrays: dict[str, NDArray[Any]], rooms: Mapping[str, Any]) -> None:
        """Take over the state that `arrays` and `widths` gave."""
        objects = {name: array for name, array in arrays.items() if name.startswith("objects.")}
        self.slots.slot_of = shared_slots(arrays)
        for key, mine in by_shelf({n: a for n, a in arrays.items() if n not in objects}).items():
            shelf = self.shelves[key] = self._shelf(key)
            shelf.restore(mine)
        self.widths.restore(rooms, {key: shelf.rows() for key, shelf in self.shelves.items()})
        self.objects.restore({name.partition(".")[2]: array for name, array in objects.items()})

    def check_against(self, k: NDArray[np.int64], live: Rows, ends: Ends, listed: Listed) -> None:
        """Refuse shelves that do not hold the `live` subscriptions, which want `k`, with their boxes."""
        held = {k: (shelf.tree, self.slots.slot_of[shelf.rows()]) for k, shelf in self.shelves.items()}
        check_shelves(held, self.slots.slot_of, k, live, self.widths)
        for tree, slots in held.values():
            lo, hi = (end[tree.row[slots]] for end in ends)
            same = tree.point[slots] == corners_of(lo, hi)
            integrity.need(same.all(), "point", "differs from what subscriptions ask for")
            checks.check_boards(tree.board, slots, lo, hi, listed)
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
