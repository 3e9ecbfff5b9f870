"""Lists over several attributes: events change the boards of boxes, and net deltas come out.

A subscription is a corner, a point in twice as many dimensions as there are attributes. An event goes down
the tree of corners to those whose box holds the object and whose last item it passes, and changes their
boards; lists that lose an item ask the tree of objects for the next one, bucket by bucket. [Range §IV-C] only
sketches boxes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk import size_classes
from rankcast.range_topk.corners import BoxObjects, CornerIndex
from rankcast.range_topk.kernels import apply_events, checks, corners_search
from rankcast.range_topk.kernels import corners as corner_edit
from rankcast.range_topk.kernels.apply_events import AFFECTED, SEARCHES, TRIED, ReplayBatch
from rankcast.range_topk.kernels.checks import Listed, last_weights
from rankcast.range_topk.kernels.object_versions import BoxEvents, ObjectValues, steps_of
from rankcast.range_topk.size_classes import ClassedLists, Ends, Ints, KOf, each_class
from rankcast.range_topk.state import Events, Floats, RangeState, Rows
from rankcast.range_topk.subscriptions import SHARED, SlotMap
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.structures.diff import DeltaColumns, ListSnapshot
from rankcast.structures.topk_lists import BoardChanges, Deltas, empty_changes
from rankcast.tables.boxes import Boxes

if TYPE_CHECKING:
    from rankcast.range_topk.kept_lists import Sender

SUBSCRIPTIONS = 64  # slots a bucket
ROOM = 1024  # changes that room is made for at first
OBJECTS = "objects."  # how snapshots begin the names of the objects' arrays


def keyed(state: RangeState, events: Events) -> BoxEvents:
    """The same events as kernels take them: ranking keys, and +inf for an object that goes."""
    key = state.key(events.y)
    return BoxEvents(events.row, np.ascontiguousarray(events.x), np.where(np.isnan(key), np.inf, key))


class BoxLists:
    """The lists of all subscriptions to boxes of several attributes, and the objects they list.

    - `add`, `move`, `remove`: subscriptions come, with their lists found at once, change, and go.
    - `publish`: events change objects and lists; returns delta rows. Its steps are `apply` and `deltas`.
    - `make_room`: before objects come, so that they fill no open list; see `size_classes`.
    - `refill`: find all lists anew.

    `affected` counts subscriptions reached, each once an event, `tried` those looked at, `searches` how often
    the objects were asked what comes next. `side` is what dissemination must know of the subscriptions in
    the 1.5-d case without reading them: see `one_sided`. `moved` has an entry for every object, all of them
    false between batches.
    """

    def __init__(
        self,
        width: int,
        side: int = 0,
        *,
        listless: bool = False,
        classed: ClassedLists[Any] | None = None,
    ) -> None:
        self.width = width
        self.listless = listless  # subscriptions are indexed, by k alone, and no board means anything
        self._said = side
        self.objects = BoxObjects(width)
        self.classed: ClassedLists[Any] = classed or ClassedLists(self.make_index)
        self._corners: dict[int, CornerIndex] = {}
        self.affected = self.tried = self.searches = 0
        self.side = self.one_sided()
        self.moved: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def beside(self) -> BoxLists:
        """An empty store over the same objects, which it does not change."""
        found = BoxLists(self.width, self._said)
        found.objects = self.objects
        return found

    def make_index(self, key: int, slots: SlotMap) -> CornerIndex:
        """An empty index of a size class."""
        return CornerIndex(2 * self.width, 1 if self.listless else abs(key), SUBSCRIPTIONS, slots)

    @property
    def indexes(self) -> dict[int, CornerIndex]:
        """The size classes that are kept here: all of them, unless they are shared with painted ones."""
        found = self.classed.indexes.items()
        return {key: index for key, index in found if isinstance(index, CornerIndex)}

    def count(self, affected: int, tried: int, searches: int) -> None:
        """Add to the counts."""
        self.affected += affected
        self.tried += tried
        self.searches += searches

    # Subscriptions

    def ends(self, boxes: Boxes) -> Ends:
        """The ends of boxes, (n, d) each."""
        return boxes

    def add(self, rows: Rows, lo: Floats, hi: Floats, k: Ints) -> None:
        """Register subscriptions and fill their boards."""
        self._corners = {}
        corners, need, keys = corners_of(lo, hi), k, k
        if k.max(initial=0) > size_classes.NARROW and not self.listless:
            need = np.empty(len(rows), np.int64)
            corners_search.count(self.objects.index.tree, corners, need)
            keys = self.classed.sizes.wanted(need, k)
        for key, mine in each_class(keys):
            index = self.classed.index(key)
            self.classed.sizes.enter(key, rows[mine], int(need[mine].max()))
            index.insert(rows[mine], corners[mine], np.full(len(rows[mine]), np.inf))
            if not self.listless:
                self._fill(index, rows[mine])
        self.side = self.one_sided()

    def renew(self, rows: Rows, lo: Floats, hi: Floats, k: Ints) -> None:
        """Find the lists of some subscriptions anew."""
        for each, mine in each_class(k):
            if each <= size_classes.NARROW:
                self._fill(self.classed.indexes[each], rows[mine])
            else:
                self.move(rows[mine], lo[mine], hi[mine], k[mine])

    def _fill(self, index: CornerIndex, rows: Rows) -> None:
        """Find the lists of some subscriptions of a size class."""
        objects, tree = self.objects, index.tree
        width = tree.board.shape[1]
        if width < size_classes.LONG:
            corners_search.fill(tree, rows, objects.index.tree, objects.label)
            return
        there = np.flatnonzero(objects.value < np.inf).astype(np.int32)
        places = objects.index.tree.point[objects.slots.slot_of[there]]
        for row in rows:
            slot = tree.slot_of[row]
            lo, hi = tree.point[slot, ::2], -tree.point[slot, 1::2]
            inside = there[((lo <= places) & (places <= hi)).all(axis=1)]
            best = size_classes.best_of(inside, objects.value, objects.label, width)
            tree.board[slot, : len(best)], tree.board[slot, len(best) :] = best, -1
            last = objects.value[best[-1]] if len(best) == width else np.inf
            corner_edit.set_weight(tree, row, last)

    def remove(self, rows: Rows, k: Ints) -> None:
        """Forget subscriptions."""
        self._corners = {}
        self.classed.remove(rows, k)
        self.side = self.one_sided()

    def move(self, rows: Rows, lo: Floats, hi: Floats, k: Ints) -> None:
        """Give subscriptions, which keep their k, other boxes and fill their boards."""
        self.remove(rows, k)
        self.add(rows, lo, hi, k)

    def make_room(self, places: Floats, departures: int, k_of: KOf) -> None:
        """Move lists to other classes that objects coming to `places` may fill, or that have become short.

        Called before a batch, with a line for each object that is new or moves, and how many go.
        """
        classed = self.classed
        for key in list(classed.sizes.due(list(classed.indexes), len(places), departures)):
            rows, corners = classed.indexes[key].points()
            ends = corners[:, ::2], -corners[:, 1::2]
            for other, mine, most in classed.moves(key, rows, ends, places, k_of):
                self._bring(key, other, rows[mine], corners[mine], most)

    def _bring(self, key: int, other: int, rows: Rows, corners: Floats, most: int) -> None:
        """Move lists, which are not full, from one size class to another."""
        lists = size_classes.widened(self.classed.boards(key, rows), abs(other))
        self.classed.take_out(key, rows)
        index = self.classed.index(other)
        self.classed.sizes.enter(other, rows, most)
        index.insert(rows, corners, np.full(len(rows), np.inf))
        index.tree.board[self.classed.slots.slot_of[rows]] = lists

    def unite(self, k: int, k_of: KOf) -> CornerIndex | None:
        """The index that has the lists of one k and no others, after moving these; None if there are none.

        Lists of a large k may stand in several size classes, and an open class may have lists of several k.
        The widest class that has this k alone takes the others, or a new open one as wide as the widest.
        """
        classed = self.classed
        if k <= size_classes.NARROW:
            return self.indexes.get(k)
        mine: dict[int, Rows] = {}
        for key in classed.wide():
            rows = classed.indexes[key].rows()
            mine[key] = rows[k_of(rows) == k]
        mine = {key: rows for key, rows in mine.items() if len(rows)}
        if not mine:
            return None
        width = max(map(abs, mine))
        alone = [key for key in mine if len(mine[key]) == len(classed.indexes[key])]
        home = max(alone, key=abs, default=0)
        if abs(home) < width:
            while -width in classed.indexes:
                width += 1
            home = k if width >= k else -width
        for key in [key for key in mine if key != home]:
            index, rows = classed.indexes[key], mine[key]
            points = index.points_of(rows)
            self._bring(key, home, rows, points, classed.sizes.most.get(key, 0))
        return self.indexes[home]

    def corners(self, k: int, k_of: KOf) -> CornerIndex:
        """All subscriptions that want k objects in one index, its boards of no meaning."""
        indexes = self.indexes
        if (k <= size_classes.NARROW or self.listless) and k in indexes:
            return indexes[k]
        if k not in self._corners:
            every = self._corners[k] = self.make_index(1, SlotMap())
            for key in self.classed.wide():
                rows, corners = indexes[key].points()
                mine = k_of(rows) == k
                every.insert(rows[mine], corners[mine], np.full(int(mine.sum()), np.inf))
        return self._corners[k]

    def one_sided(self) -> int:
        """On which side all subscriptions bound the second of two attributes: 1 above, -1 below, 0 neither.

        This is the 1.5-d case. Known from the box around all corners, without looking at any, or from what
        was said of them; nobody knows it of no subscriptions.
        """
        ends = [index.tree.high[0, 2:] for index in self.indexes.values() if len(index)]
        if self.width != 2 or self._said or not ends:
            return self._said
        unbounded = (np.array(ends) == -np.inf).all(axis=0)
        return 1 if unbounded[0] else -1 if unbounded[1] else 0

    def changes_since(self, held: ListSnapshot, rows: Rows, k: Ints, y: Floats) -> Deltas:
        """Delta rows from lists that were held, of subscriptions in the given order, to those of now."""
        return size_classes.replaced(rows, held, self.classed.snapshot(rows, k), y)

    # Events

    def publish(self, state: RangeState, events: Events) -> Deltas | DeltaColumns:
        """Apply a batch to objects and lists; delta rows."""
        self.set_labels(events.row, state.objects.label[events.row])
        changes = self.follow(state, keyed(state, events))
        state.place(events)
        return size_classes.told([changes], state)

    def set_labels(self, rows: Rows, labels: Ints) -> None:
        """Set the tie labels of new objects, or relabel some without changing their order."""
        self.objects.set_labels(rows, labels)

    def follow(self, state: RangeState, events: BoxEvents) -> BoardChanges:
        """Apply events to the objects and all boards, and count; the net changes."""
        affected, tried, searches = self.affected, self.tried, self.searches
        changes = self.apply(events)
        state.count["affected"] += self.affected - affected
        state.count["candidates"] += self.tried - tried
        state.count["miny"] += self.searches - searches
        return changes

    def apply(self, events: BoxEvents) -> BoardChanges:
        """Apply events to the objects and all boards; the net changes of these."""
        objects, last = self.objects, last_of(events)
        changes, tally = empty_changes(ROOM, ROOM), np.zeros(3, np.int64)
        objects.reserve(int(last.row.max(initial=-1)) + 1)
        if self.classed.indexes:
            self.reserve_moved()
            steps, versions = steps_of(events, objects.index.tree, objects.value)
            objects.hide(last.row)
            batch = ReplayBatch(steps, versions, objects.in_order(last.row))
            self.moved[last.row] = objects.value[last.row] != last.y
            values = ObjectValues(objects.value, objects.label)
            for index in self.indexes.values():
                tree = index.tree
                changes = apply_events.replay(
                    tree, objects.index.tree, batch, values, self.moved, changes, tally
                )
            self.moved[last.row] = False
        objects.settle(*last)
        self.count(*(int(tally[each]) for each in (AFFECTED, TRIED, SEARCHES)))
        return changes

    def reserve_moved(self) -> None:
        """Let `moved` have an entry for every object."""
        if len(self.moved) < len(self.objects.value):
            self.moved = grown(self.moved, len(self.objects.value), False)

    def refill(self, k_of: KOf) -> None:
        """Find all lists anew from the objects as they are."""
        for key, index in self.indexes.items():
            if 0 < key <= size_classes.NARROW:
                self._fill(index, index.rows())
        wide = [key for key in self.indexes if not 0 < key <= size_classes.NARROW]
        for rows, corners in [self.classed.drop(key).points() for key in wide]:
            self.add(rows, corners[:, ::2], -corners[:, 1::2], k_of(rows))

    # Snapshots, and dissemination

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays: the objects, and the lists."""
        objects = {f"{OBJECTS}{name}": array for name, array in self.objects.arrays().items()}
        lists = self.classed.arrays()
        return {SHARED: lists.pop(SHARED), **objects, **lists}

    def restore(self, arrays: Mapping[str, NDArray[Any]], rooms: Mapping[str, Any]) -> None:
        """Take over the state that `arrays` and the size classes gave."""
        objects = {name: array for name, array in arrays.items() if name.startswith(OBJECTS)}
        self.classed.restore({name: array for name, array in arrays.items() if name not in objects})
        rows = {key: index.rows() for key, index in self.classed.indexes.items()}
        self.classed.sizes.restore(rooms, rows)
        self.objects.restore({name.removeprefix(OBJECTS): array for name, array in objects.items()})
        self.side = self.one_sided()

    def check_subscriptions(self, k: Ints, live: Rows, ends: Ends, listed: Listed | None) -> None:
        """Refuse lists that are not of the `live` subscriptions, which want `k`, with their boxes.

        Without the objects that may be listed boards are stale, and not looked at.
        """
        held = self.trees()
        self.classed.check(held, k, live, stale=listed is None)
        self.check_lists(held, ends, listed)

    def trees(self) -> dict[int, tuple[Any, Rows]]:
        """The trees by key, each with its slots in use."""
        slot_of = self.classed.slots.slot_of
        return {key: (index.tree, slot_of[index.rows()]) for key, index in self.indexes.items()}

    def check_lists(self, held: dict[int, tuple[Any, Rows]], ends: Ends, listed: Listed | None) -> None:
        """Refuse trees whose boxes or lists are not those of the subscriptions; see `check_subscriptions`."""
        for tree, slots in held.values():
            lo, hi = (end[tree.row[slots]] for end in ends)
            same = tree.point[slots] == corners_of(lo, hi)
            integrity.need(same.all(), "point", "differs from what subscriptions ask for")
            if listed is None:
                continue
            checks.check_boards(tree.board, slots, lo, hi, listed)
            fits = last_weights(tree.board, slots, tree.weight, listed.value)
            integrity.need(fits, "weight", "is not that of the last item")

    def check_objects(self, rows: Rows, x: Floats, key: Floats) -> None:
        """Refuse objects other than the live ones, in `rows`, with these places and ranking keys."""
        held, slot_of = self.objects, self.objects.slots.slot_of
        integrity.need(
            np.array_equal(np.flatnonzero(slot_of >= 0), rows), "objects.slot_of", "is not of the live"
        )
        integrity.need(len(held.value) > rows.max(initial=-1), "objects.value", "is too short")
        there = held.index.tree.point[slot_of[rows]] == x
        integrity.need(there.all(), "objects.point", "differs from where objects are")
        same = (held.value[rows] == key).all() and np.count_nonzero(held.value != np.inf) == len(rows)
        same &= (held.index.tree.weight[slot_of[rows]] == -key).all()
        integrity.need(same, "objects.value", "differs from what objects are worth")

    def make_sender(self) -> Sender:
        """The dissemination of these lists."""
        from rankcast.range_topk.dissemination.box_send import BoxSender  # noqa: PLC0415  on first use

        return BoxSender(self)


def last_of(events: BoxEvents) -> BoxEvents:
    """The last event of each object, by row."""
    rows, back = np.unique(events.row[::-1], return_index=True)
    last = len(events.row) - 1 - back
    return BoxEvents(rows, events.x[last], events.y[last])


def corners_of(lo: Floats, hi: Floats) -> Floats:
    """Boxes as corners: lower ends, and upper ends with the sign turned, by attribute."""
    return np.stack([lo, -hi], axis=2).reshape(len(lo), 2 * lo.shape[1])
