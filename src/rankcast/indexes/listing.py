"""The lists of all subscriptions, kept current: tiles in, net deltas out; boards by class of k."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast import buffers, integrity
from rankcast.indexes import point_store, tree_checks
from rankcast.indexes.dominance import SHARED, SlotMap, SubscriptionIndex
from rankcast.indexes.objects import Floats, ObjectIndex, Rows, grown
from rankcast.kernels import fill, join, relist, spread
from rankcast.kernels.changes import AFFECTED, GROUPS, TRIED, Changes, Values, empty_changes
from rankcast.kernels.gather import Names
from rankcast.kernels.integrity import Listed
from rankcast.kernels.relist import Held, Told
from rankcast.kernels.spread import Deltas
from rankcast.kernels.tiles import Tiles

Ends = tuple[Floats, Floats]  # of boxes, by row
MANY = 4096  # subscriptions from which an empty shelf is filled as a whole


class Listings:
    """Boards of all subscriptions in shelves, one a k, and what they know of the objects' values.

    - `add`, `move`, `remove`: subscriptions come, with their lists found at once, change, and go.
    - `held`, `since`: lists as they are, and what has become of them.
    - `apply`: tiles of a batch, painted for `ks`, change the boards; the net change comes back.
    - `refill`: find all lists anew.

    `affected` counts subscriptions reached, each once an event, `tried` those compared with a tile.
    """

    def __init__(self, objects: ObjectIndex) -> None:
        self.objects = objects
        self.slots = SlotMap()
        self.shelves: dict[int, SubscriptionIndex] = {}
        self.affected = 0
        self.tried = 0
        self._known: Floats = np.empty(0)
        self._work: Floats = np.empty(0)
        self._moved: NDArray[np.bool_] = np.empty(0, bool)
        self._buffers = empty_changes(1024, 4096)
        self._rows: Rows = np.empty((2, 0), np.int32)
        self._ops: NDArray[np.int8] = np.empty(0, np.int8)

    @property
    def ks(self) -> NDArray[np.int64]:
        """The k in use, largest first: tiles for `apply` are painted for these."""
        return np.array(sorted(self.shelves, reverse=True), np.int64)

    def add(self, rows: Rows, lo: Floats, hi: Floats, k: NDArray[np.int64]) -> None:
        """Register subscriptions and fill their boards."""
        for each, mine in classes(k):
            if each not in self.shelves:
                self.shelves[each] = SubscriptionIndex(each, self.slots)
            shelf = self.shelves[each]
            if len(shelf) == 0 and len(rows[mine]) >= MANY:
                shelf.load(rows[mine], lo[mine], hi[mine])
                fill.fill(shelf.tree, self.objects.by_value(), self.objects.tree.x)
            else:
                shelf.insert(rows[mine], lo[mine], hi[mine], self._found(lo[mine], hi[mine], each))

    def remove(self, rows: Rows, k: NDArray[np.int64]) -> None:
        """Forget subscriptions; a shelf that becomes empty is dropped."""
        for each, mine in classes(k):
            self.shelves[each].delete(rows[mine])
            if len(self.shelves[each]) == 0:
                del self.shelves[each]

    def move(self, rows: Rows, lo: Floats, hi: Floats, k: NDArray[np.int64]) -> None:
        """Give subscriptions, which keep their k, other ranges and fill their boards."""
        for each, mine in classes(k):
            boards = self._found(lo[mine], hi[mine], each)
            self.shelves[each].move(rows[mine], lo[mine], hi[mine], boards)

    def replace(self, rows: Rows, lo: Floats, hi: Floats, names: Names) -> tuple[Told, int]:
        """The same as `move` if there is one shelf; what changes, as shown outside, in how many rows."""
        (shelf,) = self.shelves.values()
        return shelf.replace(rows, lo, hi, self._found(lo, hi, shelf.k), names)

    def boards(self, rows: Rows, k: int) -> Rows:
        """The boards of subscriptions of one k: item rows best first, then -1."""
        return self.shelves[k].boards(rows)

    def held(self, rows: Rows, k: NDArray[np.int64]) -> Held:
        """Copies of the boards of subscriptions, one after the other."""
        start = np.zeros(len(rows) + 1, np.uint64)
        np.cumsum(k, out=start[1:], dtype=np.uint64)
        item = buffers.empty(int(start[-1]), np.int32)
        for each, mine in classes(k):
            board = self.shelves[each].board
            relist.copy_boards(board, self.slots.slot_of, rows[mine], start[:-1][mine], item)
        return Held(start, item)

    def since(self, held: Held, rows: Rows, k: NDArray[np.int64], y: Floats) -> Deltas:
        """Delta rows from boards that were held, of subscriptions in the given order, to those of now."""
        now = self._just_moved(held, rows) or self.held(rows, k)
        most, kinds = len(held.item) + len(now.item) + 1, ("i4", "i1", "i4", "f8", "i8")
        told = Deltas(*(buffers.empty(most, kind) for kind in kinds))
        size = int(relist.write_exchange(rows, held, now, y, np.zeros(len(y), np.int32), told))
        return Deltas._make(column[:size] for column in told)

    def _just_moved(self, held: Held, rows: Rows) -> Held | None:
        """The lists of now as they were found, if all subscriptions have one k and these just moved."""
        boards = [shelf.just_moved(rows) for shelf in self.shelves.values()]
        return None if len(boards) != 1 or boards[0] is None else Held(held.start, boards[0].reshape(-1))

    def apply(self, tiles: Tiles, changed: Rows) -> list[Changes]:
        """Apply exact tiles painted for `ks`; `changed` are the rows of the events. Buffers are reused.

        Returns the net changes of each shelf; pass them to `deltas` before the next call when there is one
        shelf only, at once otherwise.
        """
        self._sync_length()
        y = self.objects.tree.y
        self._moved[changed] = self._known[changed] != y[changed]
        values = Values(self._known, self._work, self._moved, self.objects.tree.label)
        found = []
        for number, k in enumerate(self.ks):
            mine = tiles if len(self.shelves) == 1 else _of_shelf(tiles, number)
            buffers = self._buffers if number == 0 else empty_changes(1024, 4096)
            changes = join.join(self.shelves[int(k)].tree, mine, values, buffers)
            self._buffers = changes if number == 0 else self._buffers
            self.affected += int(changes.tally[AFFECTED])
            self.tried += int(changes.tally[TRIED])
            found.append(changes)
        self._know(changed)
        return found

    def deltas(self, found: list[Changes], place: NDArray[np.int64], span: int) -> Deltas:
        """Delta rows of the changes by `place`, a row's position in registration order, below `span`.

        Scores and ranks belong to the caller; the other columns are views into buffers that the next call
        overwrites.
        """
        changes = found[0] if len(found) == 1 else _together(found)
        total = int(spread.count_rows(changes))
        if total > len(self._ops):
            self._rows, self._ops = (
                np.empty((2, total + total // 4), np.int32),
                np.empty(total + total // 4, np.int8),
            )
        subscription, item = self._rows[:, :total]
        score, rank = buffers.empty(total, np.float64), buffers.empty(total, np.int64)
        columns = Deltas(subscription, self._ops[:total], item, score, rank)
        spread.spread(changes, spread.in_order(changes, place, span), self.objects.tree.y, columns)
        return columns

    def refill(self) -> None:
        """Find all lists anew from the objects as they are."""
        self._sync_length()
        self._know(np.arange(len(self._known), dtype=np.int32))
        for shelf in self.shelves.values():
            fill.fill(shelf.tree, self.objects.by_value(), self.objects.tree.x)

    def _found(self, lo: Floats, hi: Floats, k: int) -> Rows:
        """The lists of ranges as boards."""
        boards = buffers.empty(len(lo) * k, np.int32).reshape(-1, k)
        self.objects.best(lo, hi, boards)
        return boards

    def _sync_length(self) -> None:
        length = len(self.objects.tree.y)
        if length > len(self._known):
            longer = [grown(self._known, length, np.inf), grown(self._work, length, np.inf)]
            moved = grown(self._moved, length, False)
            (self._known, self._work), self._moved = longer, moved  # all of them or none

    def _know(self, rows: Rows) -> None:
        self._known[rows] = self._work[rows] = self.objects.tree.y[rows]
        self._moved[rows] = False

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays: the slot map, and one set a shelf."""
        shelves = {
            f"{k}.{name}": a for k, shelf in self.shelves.items() for name, a in shelf.arrays().items()
        }
        return {SHARED: self.slots.slot_of, **shelves}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave; the objects must have been restored before."""
        self._sync_length()
        self._know(np.arange(len(self._known), dtype=np.int32))
        self.slots.slot_of = shared_slots(arrays)
        for k, mine in by_shelf(arrays).items():
            self.shelves[k] = SubscriptionIndex(k, self.slots)
            self.shelves[k].restore(mine)

    def check_against(self, k: NDArray[np.int64], live: Rows, ends: Ends, listed: Listed) -> None:
        """Refuse shelves that do not hold the `live` subscriptions, which want `k`, with their ranges."""
        held = {k: (shelf._tree, point_store.live_slots(shelf._tree)) for k, shelf in self.shelves.items()}
        check_shelves(held, self.slots.slot_of, k, live)
        for tree, slots in held.values():
            lo, hi = (end[tree.row[slots]] for end in ends)
            same = (tree.lo[slots] == lo[:, 0]) & (tree.hi[slots] == hi[:, 0])
            integrity.need(same.all(), "lo", "differs from what subscriptions ask for")
            tree_checks.check_boards(tree.board, slots, lo, hi, listed)


def shared_slots(arrays: dict[str, NDArray[Any]]) -> Rows:
    """The slot map among the arrays of shelves."""
    integrity.forms({SHARED: arrays[SHARED]}, {SHARED: (np.int32, (None,))})
    return arrays[SHARED]


def by_shelf(arrays: dict[str, NDArray[Any]]) -> dict[int, dict[str, NDArray[Any]]]:
    """The arrays of each shelf, ascending by k; a name is "<k>.<array>"."""
    found: dict[int, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        k, _, own = name.partition(".")
        if name != SHARED:
            plain = k.isascii() and k.isdigit() and k[0] != "0" and len(k) < 10
            integrity.need(plain, name, "is not known")
            found.setdefault(int(k), {})[own] = array
    return dict(sorted(found.items()))


def check_shelves(
    trees: dict[int, tuple[Any, Rows]], slot_of: Rows, k: NDArray[np.int64], live: Rows
) -> None:
    """Refuse trees by k, each with its slots in use, that do not hold each `live` row in the one of its k."""
    total = 0
    for each, (tree, slots) in trees.items():
        rows = tree.row[slots]
        total += len(rows)
        integrity.need(len(rows) and int(rows.max()) < len(k), f"{each}.row", "names nobody who is there")
        integrity.need((k[rows] == each).all(), f"{each}.row", "names subscriptions with another k")
    held = np.count_nonzero(slot_of >= 0)
    integrity.need(total == held == len(live), SHARED, f"has {held} of {len(live)} subscriptions")
    integrity.need(
        len(live) == 0 or (int(live.max()) < len(slot_of) and (slot_of[live] >= 0).all()),
        SHARED,
        "lacks a live subscription",
    )


def classes(k: NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
    """Each k that occurs, ascending, with the places where it does; a slice if that is everywhere."""
    if k.size and (k == k[0]).all():
        yield int(k[0]), slice(None)
        return
    for each in np.unique(k):
        yield int(each), np.flatnonzero(k == each)


def _of_shelf(tiles: Tiles, number: int) -> Tiles:
    """The tiles of one class of k."""
    mine = tiles.shelf == number
    columns = {name: getattr(tiles, name)[mine] for name in Tiles._fields[:-1]}
    return Tiles(size=np.array([int(mine.sum())]), **columns)


def _together(found: list[Changes]) -> Changes:
    """The changes of several shelves as one."""
    groups, sizes = [int(c.tally[GROUPS]) for c in found], [len(c.item) for c in found]
    group = np.concatenate([c.group[:g] for c, g in zip(found, groups, strict=True)])
    group[:, 1:] += np.repeat(np.cumsum([0, *sizes[:-1]]), groups).astype(np.int32)[:, None]
    return Changes(
        group=group,
        item=np.concatenate([c.item for c in found]),
        mark=np.concatenate([c.mark for c in found]),
        tally=np.array([sum(groups), 0, 0, 0]),
    )
