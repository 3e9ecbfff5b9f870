"""Lists over one attribute: an event becomes tiles in subscription space, and tiles change boards.

Objects are indexed by (x, y), subscriptions by (lo, hi) with their boards in the leaves. A batch is painted
event by event from the objects alone; then all its tiles meet the subscriptions at once and the net change of
every board is written. [Range §III] A batch that is large beside the subscriptions is not painted: all lists
are made anew and compared (`kernels/relist.py`); `sooner_anew` estimates which is sooner.

Painting is for many who want few: an event has tiles about as k squared, whoever subscribes. Lists of a k
above `PAINTED` are kept as those of boxes in one attribute (`boxes`), which pay for the subscriptions that an
event concerns; these have an index of the objects of their own, which is there while they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk import size_classes, subscriptions
from rankcast.range_topk.boxes import BoxLists
from rankcast.range_topk.boxes import keyed as boxed
from rankcast.range_topk.corners import BoxObjects, CornerIndex
from rankcast.range_topk.kernels import apply_tiles, checks, object_tree, range_table, relist
from rankcast.range_topk.kernels.checks import Listed
from rankcast.range_topk.kernels.object_versions import BoxEvents
from rankcast.range_topk.kernels.paint import (
    Tiles,
)
from rankcast.range_topk.kernels.points import PointTree
from rankcast.range_topk.painter import Painter, keyed
from rankcast.range_topk.size_classes import ClassedLists, Ends, Ints, KOf, each_class
from rankcast.range_topk.state import Events, Floats, ObjectIndex, RangeState, Rows
from rankcast.range_topk.subscriptions import SlotMap, SubscriptionIndex
from rankcast.structures import arrays as memory
from rankcast.structures import diff, integrity
from rankcast.structures.arrays import Names, grown
from rankcast.structures.diff import DeltaColumns, ListSnapshot
from rankcast.structures.topk_lists import (
    AFFECTED,
    GROUPS,
    TRIED,
    BoardChanges,
    Deltas,
    ListValues,
    empty_changes,
)
from rankcast.tables.boxes import Boxes

if TYPE_CHECKING:
    from rankcast.range_topk.kept_lists import Sender

BATCH = 32  # events from which on lists may be made anew
# What painting takes, in microseconds: an event, a place of k, and a place of every list; the last grows no
# further once a list hears of so many events. Making anew: an object, a board, a place of it
EVENT, STEP, REACHED, SPREAD = 2.0, 1.3, 1e-5, 2000.0
OBJECT, BOARD, PLACE = 0.2, 0.05, 0.013
FEW = 128  # delta rows that room is made for beforehand
PAINTED = 20  # the largest k whose lists are painted: above, even many of them are sooner kept as boxes
MANY = 4096  # subscriptions from which an empty size class is filled as a whole
TREE, LISTS = "tree.", "shelf."  # how snapshots begin the names of arrays: of the objects, of the lists


class IntervalLists:
    """The lists of all subscriptions to ranges of one attribute, and the values by which they are ordered.

    - `add`, `move`, `remove`: subscriptions come, with their lists found at once, change, and go.
    - `publish`: events change objects and lists; returns delta rows. Its steps are painting for `ks`, `apply`
      and `deltas`.
    - `make_room`: before objects come, so that they fill no open list; see `size_classes`.
    - `refill`: find all lists anew.

    `affected` counts subscriptions reached, each once an event, `tried` those compared with a tile.
    """

    def __init__(self, objects: ObjectIndex, *, listless: bool = False) -> None:
        self.objects = objects
        self.painter = Painter(objects)
        self.listless = listless  # subscriptions are indexed, by k alone, and no board means anything
        self.classed: ClassedLists[Any] = ClassedLists(self._make_index)
        self._mirrored = False  # whether `large` has the objects, too
        self.affected = 0
        self.tried = 0
        self._known: Floats = np.empty(0)
        self._work: Floats = np.empty(0)
        self._moved: NDArray[np.bool_] = np.empty(0, bool)
        self._changes = empty_changes(1024, 4096)[:3]
        self._few = (np.empty(FEW, np.int32), np.empty(FEW, np.int8), np.empty(FEW, np.int32))
        self._points: dict[int, SubscriptionIndex] = {}

    def beside(self) -> IntervalLists:
        """An empty store over the same objects, which it does not change."""
        return IntervalLists(self.objects)

    def _make_index(self, key: int, slots: SlotMap) -> SubscriptionIndex | CornerIndex:
        if self.listless:
            return SubscriptionIndex(1, slots)
        return SubscriptionIndex(key, slots) if 0 < key <= PAINTED else self.large.make_index(key, slots)

    @cached_property
    def large(self) -> BoxLists:
        """The lists that are not painted."""
        return BoxLists(1, classed=self.classed)

    @property
    def painted(self) -> dict[int, SubscriptionIndex]:
        """The indexes of the lists that are painted, by k."""
        found = self.classed.indexes.items()
        return {key: index for key, index in found if isinstance(index, SubscriptionIndex)}

    @property
    def ks(self) -> Ints:
        """The k of lists that are painted, largest first."""
        return np.array(sorted(self.painted, reverse=True), np.int64)

    def set_labels(self, rows: Rows, labels: Ints) -> None:
        """Set the tie labels of new objects, or relabel some without changing their order."""
        self.objects.set_labels(rows, labels)
        if self._mirrored:
            self.large.objects.set_labels(rows, labels)

    def follow(self, events: Callable[[], BoxEvents]) -> None:
        """Bring the objects of `large`, if it has them, through events of distinct objects."""
        if self._mirrored:
            self.large.objects.settle(*events())

    def _mirror(self, *, needed: bool) -> None:
        """Let `large` have the objects exactly if it needs them. O(n log n) where that changes."""
        if needed == self._mirrored:
            return
        self.large.objects, self._mirrored = BoxObjects(1), needed
        if needed:
            tree = self.objects.tree
            rows = np.sort(object_tree.rows_in_order(tree))
            self.large.objects.set_labels(rows, tree.label[rows])
            self.large.objects.settle(rows, tree.x[rows][:, None], tree.y[rows])

    # Subscriptions

    def ends(self, boxes: Boxes) -> Ends:
        """The ends of ranges as one-dimensional arrays."""
        lo, hi = (np.ascontiguousarray(end[:, 0]) for end in boxes)
        return lo, hi

    def add(self, rows: Rows, lo: Floats, hi: Floats, k: Ints) -> None:
        """Register subscriptions and fill their boards."""
        self._add_points(rows, lo, hi, k)
        many = k > PAINTED
        if many.any() and not self.listless:
            self._mirror(needed=True)
            self.large.add(rows[many], lo[many, None], hi[many, None], k[many])
            rows, lo, hi, k = rows[~many], lo[~many], hi[~many], k[~many]
        for key, mine in each_class(k):
            index = self.classed.index(key)
            self.classed.sizes.enter(key, rows[mine], key)
            if len(index) == 0 and len(rows[mine]) >= MANY:
                index.load(rows[mine], lo[mine], hi[mine])
                if not self.listless:
                    range_table.fill(index.tree, self.objects.by_value(), self.objects.tree.x)
            else:
                index.insert(rows[mine], lo[mine], hi[mine], self._found(lo[mine], hi[mine], abs(key)))

    def renew(self, rows: Rows, lo: Floats, hi: Floats, k: Ints) -> None:
        """Find the lists of some subscriptions anew."""
        many = k > PAINTED
        if many.any():
            self.large.renew(rows[many], lo[many, None], hi[many, None], k[many])
            rows, lo, hi, k = rows[~many], lo[~many], hi[~many], k[~many]
        for each, mine in each_class(k):
            index = self.painted[each]
            index.settle()
            found = self._found(lo[mine], hi[mine], each)
            diff.write_boards(index.board, self.classed.slots.slot_of, rows[mine], found)

    def remove(self, rows: Rows, k: Ints) -> None:
        """Forget subscriptions."""
        self._take_points(rows, k)
        self.classed.remove(rows, k)
        self._mirror(needed=len(self.painted) < len(self.classed.indexes))

    def move(self, rows: Rows, lo: Floats, hi: Floats, k: Ints) -> None:
        """Give subscriptions, which keep their k, other ranges and fill their boards."""
        for each, mine in each_class(k):
            if each > PAINTED and not self.listless:
                self.remove(rows[mine], k[mine])
                self.add(rows[mine], lo[mine], hi[mine], k[mine])
                continue
            found = self._found(lo[mine], hi[mine], each)
            self.painted[each].move(rows[mine], lo[mine], hi[mine], found)

    def replace(self, rows: Rows, lo: Floats, hi: Floats, names: Names) -> tuple[DeltaColumns, int]:
        """The same as `move` if there is one class; the deltas as shown outside, and how many there are."""
        (index,) = self.painted.values()
        return index.replace(rows, lo, hi, self._found(lo, hi, index.k), names)

    def make_room(self, places: Floats, departures: int, k_of: KOf) -> None:
        """Move lists to other classes that objects coming to `places` may fill, or that have become short.

        Called before a batch, with a line for each object that is new or moves, and how many go.
        """
        self.large.make_room(places, departures, k_of)

    def points(self, k: int, k_of: KOf) -> PointTree | None:
        """All subscriptions that want k objects as one tree, its boards of no meaning; None without any.

        Those whose lists are not painted are collected when first asked for, and then kept.
        """
        if k <= PAINTED or self.listless:
            return self.painted[k].tree if k in self.painted else None
        if k not in self._points:
            parts = [index.points() for index in self.large.indexes.values()]
            if not parts:
                return None
            rows, corners = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            mine, every = k_of(rows) == k, SubscriptionIndex(1, SlotMap())
            every.load(rows[mine], corners[mine, 0].copy(), -corners[mine, 1])
            self._points[k] = every
        return self._points[k].tree

    def _add_points(self, rows: Rows, lo: Floats, hi: Floats, k: Ints) -> None:
        """Let new subscriptions into the indexes of `points` that are there."""
        for each in self._points:
            mine = k == each
            nothing = np.full((int(mine.sum()), 1), -1, np.int32)
            self._points[each].insert(rows[mine], lo[mine], hi[mine], nothing)

    def _take_points(self, rows: Rows, k: Ints) -> None:
        """Take subscriptions out of the indexes of `points`; one that becomes empty goes."""
        for each in list(self._points):
            self._points[each].delete(rows[k == each])
            if not len(self._points[each]):
                del self._points[each]

    def boards(self, rows: Rows, k: int) -> Rows:
        """The boards of subscriptions of one small k: item rows best first, then -1."""
        return self.classed.boards(k, rows)

    def changes_since(self, held: ListSnapshot, rows: Rows, k: Ints, y: Floats) -> Deltas:
        """Delta rows from lists that were held, of subscriptions in the given order, to those of now."""
        now = self._just_moved(held, rows) or self.classed.snapshot(rows, k)
        return size_classes.replaced(rows, held, now, y)

    def _just_moved(self, held: ListSnapshot, rows: Rows) -> ListSnapshot | None:
        """The lists of now as they were found, if all subscriptions have one k and these just moved."""
        found = [index.just_moved(rows) for index in self.painted.values() if not self._mirrored]
        return None if len(found) != 1 or found[0] is None else ListSnapshot(held.start, found[0].reshape(-1))

    # Events

    def publish(self, state: RangeState, events: Events) -> Deltas | DeltaColumns | None:
        """Apply a batch to objects and lists; delta rows, or None without a list."""
        large: list[BoardChanges] = []
        if self._mirrored:
            self.large.objects.set_labels(events.row, state.objects.label[events.row])
            changes = self.large.follow(state, boxed(state, events))
            large = [changes] if changes.tally[GROUPS] else []
        painted = self.painted
        if not painted:
            self._know(self._settle(state, events))
            return size_classes.told(large, state) if large else None
        if len(events.row) >= BATCH and self.sooner_anew(len(events.row)):
            return self._make_anew(state, events, large)
        if len(painted) == 1:
            ((k, index),) = painted.items()
            return self._publish_one(state, events, k, index, large)
        affected, tried, tally = self.affected, self.tried, self.painter.tally.copy()
        ks, steps = self.ks, keyed(state, events)
        self.objects.set_labels(events.row, state.objects.label[events.row])
        tiles = self.painter.paint(steps, ks)
        state.place(events)
        found = self.apply(tiles, events.row) + large
        self.painter.count_questions(state.count, tally)
        state.count["affected"] += self.affected - affected
        state.count["candidates"] += self.tried - tried
        if not found:
            return None
        return size_classes.told(found, state)

    def _publish_one(
        self, state: RangeState, events: Events, k: int, index: SubscriptionIndex, large: list[BoardChanges]
    ) -> Deltas | DeltaColumns:
        """The same where lists of one k are painted, in one call of a kernel; `large` changes are others."""
        objects, slots, done, count = state.objects, state.subscriptions, 0, state.count
        if index._moved:
            index.settle()
        if len(self._known) < len(self.objects.tree.y):
            self._sync_length()
        held = (objects["x"], objects["y"], objects.label, slots["sequence"], slots.next_sequence)
        score, rank = np.empty(FEW), np.empty(FEW, np.int64)
        subscription, op, item = self._few
        while done < len(events.row):
            done, rows, counts, self._changes = apply_tiles.publish(
                (tuple(self.objects.tree), tuple(index._tree), tuple(self.painter.tiles)),
                (self._known, self._work, self._moved),
                events[:3],
                held,
                self._changes,
                (subscription, op, item, score, rank),
                k,
                state.descending,
                max(done, 0),
            )
            count["firstk"] += counts[0]
            count["miny"] += counts[1]
            if done < len(events.row):
                self.painter.make_room(done, events.row, k)
                self._sync_length()
        count["affected"] += counts[2]
        count["candidates"] += counts[3]
        if rows <= FEW and not large:
            return Deltas(subscription[:rows], op[:rows], item[:rows], score[:rows], rank[:rows])
        changes = BoardChanges(*self._changes, np.array([counts[4], 0, 0, 0]))
        return size_classes.told([changes, *large], state)

    def sooner_anew(self, events: int) -> bool:
        """Whether so many events are sooner followed by making all painted lists anew than by painting."""
        paint, anew = 0.0, OBJECT * len(self.objects)
        for k, index in self.painted.items():
            lists = len(index)
            paint += events * (EVENT + STEP * k)
            paint += REACHED * k * lists * events * SPREAD / (events + SPREAD)
            anew += lists * (BOARD + PLACE * k)
        return anew < paint

    def _make_anew(
        self, state: RangeState, events: Events, large: list[BoardChanges]
    ) -> Deltas | DeltaColumns | None:
        """Apply a batch to the objects, and find all painted lists anew; the changes of these and `large`.

        A subscription is counted as affected once a batch.
        """
        row = self._settle(state, events)
        tree, found = self.objects.tree, list(large)
        self._moved[row] = self._known[row] != tree.y[row]
        by_value = self.objects.by_value()
        for index in self.painted.values():
            points = index.tree
            old = points.board.copy()
            range_table.fill(points, by_value, tree.x)
            changes = relist.compare(points, old, self._moved, empty_changes(1024, 4096))
            state.count["affected"] += int(changes.tally[GROUPS])
            state.count["candidates"] += len(index)
            found.append(changes)
        self._know(row)
        if not found:
            return None
        return size_classes.told(found, state)

    def _settle(self, state: RangeState, events: Events) -> Rows:
        """Bring all objects to what a batch makes of them; which they are."""
        row, x, y = keyed(state, events.coalesced())
        self.objects.set_labels(row, state.objects.label[row])
        self.objects.tidy()
        done = 0
        while done < len(row):
            done = relist.settle_all(self.objects.tree, row, x, y, done)
            self.objects.reserve(0)
        state.place(events)
        self._sync_length()
        return row

    def apply(self, tiles: Tiles, changed: Rows) -> list[BoardChanges]:
        """Apply exact tiles painted for `ks`; `changed` are the rows they are of.

        Returns the net changes of each class, for `deltas`.
        """
        self._sync_length()
        y = self.objects.tree.y
        self._moved[changed] = self._known[changed] != y[changed]
        values = ListValues(self._known, self._work, self._moved, self.objects.tree.label)
        found, indexes, ks = [], self.painted, [int(k) for k in self.ks]
        for number, key in enumerate(ks):
            mine = tiles if len(ks) == 1 else _of_class(tiles, number)
            changes = apply_tiles.join(indexes[key].tree, mine, values, empty_changes(1024, 4096))
            self.affected += int(changes.tally[AFFECTED])
            self.tried += int(changes.tally[TRIED])
            found.append(changes)
        self._know(changed)
        return found

    def refill(self, k_of: KOf) -> None:
        """Find all lists anew from the objects as they are."""
        self._sync_length()
        self._know(np.arange(len(self._known), dtype=np.int32))
        for index in self.painted.values():
            range_table.fill(index.tree, self.objects.by_value(), self.objects.tree.x)
        if self._mirrored:
            self.large.refill(k_of)

    def _found(self, lo: Floats, hi: Floats, width: int) -> Rows:
        """The lists of ranges as boards of a width."""
        if self.listless:
            return np.full((len(lo), 1), -1, np.int32)
        lists = memory.empty(len(lo) * width, np.int32).reshape(-1, width)
        self.objects.best(lo, hi, lists)
        return lists

    def _sync_length(self) -> None:
        """Let values have an entry for every object."""
        length = len(self.objects.tree.y)
        if length > len(self._known):
            longer = [grown(self._known, length, np.inf), grown(self._work, length, np.inf)]
            moved = grown(self._moved, length, False)
            (self._known, self._work), self._moved = longer, moved  # all of them or none

    def _know(self, rows: Rows) -> None:
        """Take the values of objects as those by which lists are ordered."""
        self._known[rows] = self._work[rows] = self.objects.tree.y[rows]
        self._moved[rows] = False

    # Snapshots, and dissemination

    @property
    def unsettled(self) -> bool:
        """Whether points have yet to come to their places, which cannot be broken off."""
        return any(index.unsettled for index in self.painted.values())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays: the objects, and the lists."""
        tree = {f"{TREE}{name}": array for name, array in self.objects.arrays().items()}
        return tree | {f"{LISTS}{name}": array for name, array in self.classed.arrays().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], rooms: Mapping[str, Any]) -> None:
        """Take over the state that `arrays` and the size classes gave."""
        tree, lists = _under(arrays, TREE), _under(arrays, LISTS)
        integrity.need(len(tree) + len(lists) == len(arrays), "painted", "has arrays that are not known")
        self.objects.restore(tree)
        self._sync_length()
        self._know(np.arange(len(self._known), dtype=np.int32))
        self.classed.restore(lists)
        rows = {key: index.points()[0] for key, index in self.classed.indexes.items()}
        self.classed.sizes.restore(rooms, rows)
        self._mirror(needed=len(self.painted) < len(self.classed.indexes))

    def check_subscriptions(self, k: Ints, live: Rows, ends: Ends, listed: Listed | None) -> None:
        """Refuse lists that are not of the `live` subscriptions, which want `k`, with their ranges.

        Without the objects that may be listed boards are stale, and not looked at.
        """
        found = self.painted.items()
        held = {key: (index._tree, subscriptions.live_slots(index._tree)) for key, index in found}
        large = self.large.trees() if self._mirrored else {}
        self.classed.check({**held, **large}, k, live, stale=listed is None)
        if large:
            self.large.check_lists(large, ends, listed)
        for tree, slots in held.values():
            lo, hi = (end[tree.row[slots]] for end in ends)
            same = (tree.lo[slots] == lo[:, 0]) & (tree.hi[slots] == hi[:, 0])
            integrity.need(same.all(), "lo", "differs from what subscriptions ask for")
            if listed is not None:
                checks.check_boards(tree.board, slots, lo, hi, listed)

    def check_objects(self, rows: Rows, x: Floats, key: Floats) -> None:
        """Refuse objects other than the live ones, in `rows`, with these places and ranking keys."""
        tree = self.objects.tree
        here = np.flatnonzero(tree.leaf_of >= 0)
        integrity.need(np.array_equal(here, rows), "tree.leaf_of", "is not of the live objects")
        same = (tree.x[rows] == x[:, 0]) & (tree.y[rows] == key)
        integrity.need(same.all(), "tree.x", "differs from where objects are")

    def make_sender(self) -> Sender:
        """The dissemination of these lists."""
        from rankcast.range_topk.dissemination.send import IntervalSender  # noqa: PLC0415  on first use

        return IntervalSender(self)


def _under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _of_class(tiles: Tiles, number: int) -> Tiles:
    """The tiles that were painted for one of several k, by its number."""
    mine = tiles.size_class == number
    columns = {name: getattr(tiles, name)[mine] for name in Tiles._fields[:-1]}
    return Tiles(size=np.array([int(mine.sum())]), **columns)
