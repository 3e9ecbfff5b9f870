"""Lists by size class: boards of k places for a small k, boards as wide as lists need for a large one.

A list of a small k has a board of k places. A list of a large k mostly holds fewer objects than k, and a
board of k places would take memory that nobody uses. So it begins as an open list: its board has a width, a
power of two, that the list does not fill. An open list holds all objects in its range, so no object waits
behind its last one, and an event changes it exactly if the object is in the range. Before objects arrive that
might fill the board, the list moves to a wider one, and to one of k places as soon as the width would reach
k.

All boards of one width are in one index, a size class. Its key is k for boards of k places, and minus the
width for open ones. Snapshots name a class by k, or by "open" and the width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.state import Floats, RangeState, Rows
from rankcast.range_topk.subscriptions import SHARED, SlotMap
from rankcast.structures import arrays, diff, integrity, topk_lists
from rankcast.structures.arrays import ListColumns, grown
from rankcast.structures.diff import DeltaColumns, ListSnapshot
from rankcast.structures.topk_lists import GROUPS, BoardChanges, Deltas

Ints: TypeAlias = NDArray[np.int64]
Ends = tuple[Floats, Floats]  # lower and upper ends of boxes, by row
KOf: TypeAlias = Callable[[Rows], Ints]  # the k of subscriptions

NARROW = 128  # the largest k whose lists have room for all k items from the start
LEAST = 64  # the narrowest open board
OPEN = "open"  # how snapshots begin the names of open classes
LONG = 1024  # from this width on, sorting all objects of a range is faster than searching for the best ones


class SizeClasses:
    """Which lists are open, how wide they are, and when the lists of a class must be counted.

    Invariant: no list of an open class has more items than `most` says for its key, which is at most the
    width; so none is full. Cost: a class is counted after a quarter of its width in arrivals, or twice its
    width in departures: O(1) a subscription and arrival at worst.
    """

    def __init__(self) -> None:
        self.most: dict[int, int] = {}  # by key of open classes: no list has more items
        self.gone: dict[int, int] = {}  # by key: departures since the lists were counted
        self._open: Ints = np.zeros(0, np.int64)  # by row: the width of an open list, else 0

    def keys(self, rows: Rows, k: Ints) -> Ints:
        """The keys of the classes that hold subscriptions with these k."""
        if not self.most:
            return k
        self._reserve(rows)
        width = self._open[rows]
        return np.where(width > 0, -width, k)

    def wanted(self, need: Ints, k: Ints) -> Ints:
        """The keys of the classes for lists that need room for so many items and want k."""
        least = np.maximum(need + need // 3, LEAST)
        width = np.left_shift(1, np.ceil(np.log2(least)).astype(np.int64))
        return np.where((k <= NARROW) | (width >= k), k, -width)

    def enter(self, key: int, rows: Rows, most: int) -> None:
        """Note that subscriptions, none with more than `most` items, have come into a class."""
        if key < 0 or self.most:
            self._reserve(rows)
            self._open[rows] = max(-key, 0)
        if key < 0:
            self.most[key] = max(self.most.get(key, 0), most)

    def drop(self, key: int) -> None:
        """Forget a class."""
        self.gone.pop(key, None)
        if self.most.pop(key, None) is not None and not self.most:
            self._open[:] = 0  # not read again before the next open class

    def due(self, keys: list[int], arrivals: int, departures: int) -> Iterator[int]:
        """The keys, among those of all classes, whose lists must be counted before objects come and go."""
        for key in keys:
            if 0 < key <= NARROW:
                continue
            self.gone[key] = self.gone.get(key, 0) + departures
            if key < 0:
                self.most[key] += arrivals
            if self.gone[key] > 2 * abs(key) or (key < 0 and self.most[key] > -key):
                yield key

    def moving(self, key: int, length: Ints, need: Ints, k: Ints) -> Ints:
        """The keys of the classes in which the lists of a class belong that may need so much room."""
        width = abs(key)
        leaves = length < width // 8
        if key < 0:
            leaves |= (need > width) | (length > width // 4 * 3)
        return np.where(leaves, self.wanted(need, k), key)

    def counted(self, key: int, most: int) -> None:
        """Note that the lists of a class were counted: those that stay will not exceed `most` items."""
        self.gone[key] = 0
        if key < 0:
            self.most[key] = most

    def _reserve(self, rows: Rows) -> None:
        most = int(rows.max(initial=-1)) + 1
        if most > len(self._open):
            self._open = grown(self._open, max(most, len(self._open) * 5 // 4))

    def state(self) -> dict[str, list[int]]:
        """The bounds and counts that a snapshot holds beside the indexes."""
        keys = sorted({*self.most, *self.gone})
        return {str(key): [self.most.get(key, 0), self.gone.get(key, 0)] for key in keys}

    def restore(self, state: Mapping[str, Any], members: Mapping[int, Rows]) -> None:
        """Take over what `state` gave; `members` are the rows of each class, by key.

        Without an entry of an open class the worst is assumed: any of its lists may be full.
        """
        names = {str(key): key for key in members}
        integrity.need(
            isinstance(state, Mapping) and state.keys() <= names.keys(), "rooms", "are not of shelves"
        )
        for name, room in state.items():
            key = names[name]
            fits = isinstance(room, list) and len(room) == 2 and all(type(each) is int for each in room)
            integrity.need(fits and min(room) >= 0, "rooms", "are no counts")
            self.gone[key] = room[1]
            if key < 0:
                integrity.need(room[0] <= -key, "rooms", "are wider than their shelf")
                self.most[key] = room[0]
        for key, rows in members.items():
            if key < 0:
                self.enter(key, rows, self.most.get(key, -key))


class ListIndex(Protocol):
    """An index of subscriptions whose boards have one width."""

    @property
    def board(self) -> Rows:
        """The boards by slot."""

    def __len__(self) -> int: ...

    def delete(self, rows: Rows) -> None:
        """Remove subscriptions."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state as named arrays, without the slot map."""

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave."""


Index = TypeVar("Index", bound=ListIndex)


class ClassedLists(Generic[Index]):
    """The indexes of all size classes, which share one slot map. `make` makes the index of a class by key.

    Whatever the number of attributes, this is how subscriptions leave, how lists are copied and compared, and
    what snapshots hold; how they are indexed and found is up to the index and its owner.
    """

    def __init__(self, make: Callable[[int, SlotMap], Index]) -> None:
        self.slots = SlotMap()
        self.indexes: dict[int, Index] = {}
        self.sizes = SizeClasses()
        self.holds_wide = False  # whether there are classes whose lists may have to move
        self._make = make

    def index(self, key: int) -> Index:
        """The index of a class, which is made if there is none."""
        if key not in self.indexes:
            self.indexes[key] = self._make(key, self.slots)
            self.holds_wide = bool(self.wide())
        return self.indexes[key]

    def remove(self, rows: Rows, k: Ints) -> None:
        """Forget subscriptions that want k."""
        for key, mine in each_class(self.sizes.keys(rows, k)):
            self.take_out(key, rows[mine])

    def take_out(self, key: int, rows: Rows) -> None:
        """Take subscriptions out of a class, which is dropped if it becomes empty."""
        self.indexes[key].delete(rows)
        if len(self.indexes[key]) == 0:
            self.drop(key)

    def drop(self, key: int) -> Index:
        """Take a class away, and return its index."""
        self.sizes.drop(key)
        index = self.indexes.pop(key)
        self.holds_wide = bool(self.wide())
        return index

    def wide(self) -> list[int]:
        """The keys of the classes whose lists may have to move to others."""
        return [key for key in self.indexes if key < 0 or key > NARROW]

    def moves(
        self, key: int, rows: Rows, ends: Ends, places: Floats, k_of: KOf
    ) -> Iterator[tuple[int, Any, int]]:
        """Which subscriptions of a class must move before objects come to `places`, (n, d).

        Yields the class they move to, where they stand among `rows`, and a bound on their items. `ends` are
        (m, d). The lists that stay are counted anew.
        """
        length = lengths(self.indexes[key].board, self.slots.slot_of[rows])
        need = length + arrivals_in(*ends, places)
        to = self.sizes.moving(key, length, need, k_of(rows))
        self.sizes.counted(key, int(need[to == key].max(initial=0)))
        for other, mine in each_class(to):
            if other != key:
                yield other, mine, int(need[mine].max())

    def boards(self, key: int, rows: Rows) -> Rows:
        """Copies of the boards of subscriptions of a class, one a line: item rows best first, then -1."""
        return np.asarray(self.indexes[key].board[self.slots.slot_of[rows]], np.int32)

    def listed(self, key: int, rows: Rows, values: Floats) -> ListColumns:
        """The lists of subscriptions of a class one after the other, scored by the values of their items."""
        board, slots = self.indexes[key].board, self.slots.slot_of
        size = int(arrays.count_items(board, slots, rows))
        kinds = (np.int32, np.int32, np.float64, np.int64)
        lists = ListColumns(*(arrays.empty(size, kind) for kind in kinds))
        arrays.read_boards(board, slots, rows, values, lists)
        return lists

    def snapshot(self, rows: Rows, k: Ints) -> ListSnapshot:
        """Copies of the lists of subscriptions, one after the other."""
        keys = self.sizes.keys(rows, k)
        start = np.zeros(len(rows) + 1, np.uint64)
        np.cumsum(np.abs(keys), out=start[1:], dtype=np.uint64)
        item = arrays.empty(int(start[-1]), np.int32)
        for key, mine in each_class(keys):
            board = self.indexes[key].board
            diff.copy_boards(board, self.slots.slot_of, rows[mine], start[:-1][mine], item)
        return ListSnapshot(start, item)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays: the slot map, and one set a class."""
        named = {
            f"{name_of(key)}.{name}": array
            for key, index in self.indexes.items()
            for name, array in index.arrays().items()
        }
        return {SHARED: self.slots.slot_of, **named}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave, without the bounds of `sizes`."""
        integrity.forms({SHARED: arrays[SHARED]}, {SHARED: (np.int32, (None,))})
        self.slots.slot_of = arrays[SHARED]
        for key, mine in arrays_by_class(arrays).items():
            self.index(key).restore(mine)

    def check(self, trees: dict[int, tuple[Any, Rows]], k: Ints, live: Rows, *, stale: bool) -> None:
        """Refuse trees by key, each with its slots in use, unless the class of its k has each `live` row.

        An open class has lists of a larger k than it is wide, and none of them is full, unless boards are
        `stale`.
        """
        total, slot_of = 0, self.slots.slot_of
        for key, (tree, slots) in trees.items():
            rows = tree.row[slots]
            total += len(rows)
            integrity.need(len(rows) and int(rows.max()) < len(k), f"{key}.row", "names nobody who is there")
            fits = (k[rows] == key) if key > 0 else (k[rows] > -key)
            integrity.need(fits.all(), f"{key}.row", "names subscriptions with another k")
            if key < 0 and not stale:
                longest = int(lengths(tree.board, slots).max(initial=0))
                integrity.need(longest <= self.sizes.most[key], f"{key}.board", "holds more than is known")
        held = np.count_nonzero(slot_of >= 0)
        integrity.need(total == held == len(live), SHARED, f"has {held} of {len(live)} subscriptions")
        integrity.need(
            len(live) == 0 or (int(live.max()) < len(slot_of) and (slot_of[live] >= 0).all()),
            SHARED,
            "lacks a live subscription",
        )


def each_class(keys: Ints) -> Iterator[tuple[int, Any]]:
    """Each key that occurs, ascending, with the places where it does; a slice if that is everywhere."""
    if keys.size and (keys == keys[0]).all():
        yield int(keys[0]), slice(None)
        return
    for each in np.unique(keys):
        yield int(each), np.flatnonzero(keys == each)


def arrays_by_class(arrays: Mapping[str, NDArray[Any]]) -> dict[int, dict[str, NDArray[Any]]]:
    """The arrays of each class, ascending by key; a name is "<class>.<array>", see `name_of`."""
    found: dict[int, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        group, _, own = name.partition(".")
        if name != SHARED:
            k = group.removeprefix(OPEN)
            plain = k.isascii() and k.isdigit() and k[0] != "0" and len(k) < 11
            integrity.need(plain, name, "is not known")
            found.setdefault(key_of(group), {})[own] = array
    return dict(sorted(found.items()))


def delta_columns(size: int) -> Deltas:
    """Columns for so many delta rows."""
    return Deltas(*(arrays.empty(size, kind) for kind in ("i4", "i1", "i4", "f8", "i8")))


def replaced(rows: Rows, old: ListSnapshot, new: ListSnapshot, y: Floats) -> Deltas:
    """Delta rows from old lists of subscriptions to new ones; `y` are the scores of items, unchanged."""
    columns = delta_columns(len(old.item) + len(new.item) + 1)
    size = int(diff.write_replacement(rows, old, new, y, np.zeros(len(y), np.int32), columns))
    return Deltas._make(column[:size] for column in columns)


def told(found: list[BoardChanges], state: RangeState) -> Deltas | DeltaColumns:
    """Delta rows of the changes of several classes, in the order of registration.

    They are as shown outside if the call at hand is the whole batch and all ids are integers.
    """
    changes, slots = found[0] if len(found) == 1 else joined(found), state.subscriptions
    size = int(topk_lists.count_rows(changes))
    ordered = topk_lists.in_order(changes, slots.place, slots.next_sequence)
    names = state.names() if state.alone else None
    if names is not None:
        shown = diff.empty_delta_columns(size)
        diff.tell(changes, ordered, names, shown)
        return shown
    columns = delta_columns(size)
    topk_lists.spread(changes, ordered, state.objects["y"], columns)
    return columns


def joined(found: list[BoardChanges]) -> BoardChanges:
    """The changes of several classes as one."""
    groups, sizes = [int(c.tally[GROUPS]) for c in found], [len(c.item) for c in found]
    group = np.concatenate([c.group[:g] for c, g in zip(found, groups, strict=True)])
    group[:, 1:] += np.repeat(np.cumsum([0, *sizes[:-1]]), groups).astype(np.int32)[:, None]
    return BoardChanges(
        group=group,
        item=np.concatenate([c.item for c in found]),
        mark=np.concatenate([c.mark for c in found]),
        tally=np.array([sum(groups), 0, 0, 0]),
    )


def lengths(board: Rows, slots: Rows) -> Ints:
    """How many items the boards at some slots list."""
    found = np.empty(len(slots), np.int64)
    arrays.count_each(board, slots, found)
    return found


def arrivals_in(lo: Floats, hi: Floats, places: Floats) -> Ints:
    """For each box an upper bound on how many of some places, (n, d), it holds: the least over attributes."""
    found = np.full(len(lo), len(places), np.int64)
    for axis in range(places.shape[1] if len(places) else 0):
        along = np.sort(places[:, axis])
        inside = np.searchsorted(along, hi[:, axis], "right") - np.searchsorted(along, lo[:, axis], "left")
        np.minimum(found, inside, out=found)
    return found


def widened(boards: Rows, width: int) -> Rows:
    """The same lists on boards of another width, which they must fit."""
    other = np.full((len(boards), width), -1, np.int32)
    both = min(width, boards.shape[1])
    other[:, :both] = boards[:, :both]
    return other


def best_of(rows: Rows, value: Floats, label: Any, most: int) -> Rows:
    """The best rows by value and label, best first, at most `most` of them."""
    return rows[np.lexsort((label[rows], value[rows]))[:most]]


def name_of(key: int) -> str:
    """How a snapshot names a class."""
    return str(key) if key > 0 else f"{OPEN}{-key}"


def key_of(name: str) -> int:
    """The key of a class that a snapshot names."""
    return -int(name.removeprefix(OPEN)) if name.startswith(OPEN) else int(name)
