"""The lists of all subscriptions, kept current: tiles in, net deltas out; boards by class of k."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk import checks, subscriptions, widths
from rankcast.range_topk.kernels import join, object_tree
from rankcast.range_topk.kernels.paint import Events
from rankcast.range_topk.kernels.points import PointTree
from rankcast.range_topk.kernels.regions import Tiles, empty_tiles
from rankcast.range_topk.objects import Floats, ObjectIndex, Rows
from rankcast.range_topk.subscriptions import SHARED, SlotMap, SubscriptionIndex
from rankcast.range_topk.widths import Wanted, Widths
from rankcast.structures import arrays as buffers
from rankcast.structures import boards as spread
from rankcast.structures import diff, integrity
from rankcast.structures.arrays import Names, grown
from rankcast.structures.boards import AFFECTED, GROUPS, TRIED, BoardChanges, Deltas, Values, empty_changes
from rankcast.structures.diff import DeltaColumns, Held
from rankcast.structures.integrity import Listed

Ends = tuple[Floats, Floats]  # of boxes, by row
MANY = 4096  # subscriptions from which an empty shelf is filled as a whole


class Listings:
    """Boards of all subscriptions in shelves, by k or open, and what they know of the objects' values.

    - `add`, `move`, `remove`: subscriptions come, with their lists found at once, change, and go.
    - `held`, `since`: lists as they are, and what has become of them.
    - `make_room`: before objects come, so that no open list is filled by them; see `widths`.
    - `apply`: tiles of a batch, painted for `ks`, change the boards; the net change comes back.
    - `refill`: find all lists anew.

    `affected` counts subscriptions reached, each once an event, `tried` those compared with a tile.
    """

    def __init__(self, objects: ObjectIndex) -> None:
        self.objects = objects
        self.slots = SlotMap()
        self.shelves: dict[int, SubscriptionIndex] = {}
        self.widths = Widths()
        self.affected = 0
        self.tried = 0
        self._known: Floats = np.empty(0)
        self._work: Floats = np.empty(0)
        self._moved: NDArray[np.bool_] = np.empty(0, bool)
        self._buffers = empty_changes(1024, 4096)
        self._points: PointTree | None = None
        self._rows: Rows = np.empty((2, 0), np.int32)
        self._ops: NDArray[np.int8] = np.empty(0, np.int8)

    @property
    def ks(self) -> NDArray[np.int64]:
        """The k whose lists may be full, largest first: tiles for `apply` are painted for these."""
        return np.array(sorted((key for key in self.shelves if key > 0), reverse=True), np.int64)

    def add(self, rows: Rows, lo: Floats, hi: Floats, k: NDArray[np.int64]) -> None:
        """Register subscriptions and fill their boards."""
        self._points = None
        need = self._sizes(lo, hi) if k.max(initial=0) > widths.NARROW else k
        for key, mine in classes(self.widths.wanted(need, k) if need is not k else k):
            if key not in self.shelves:
                self.shelves[key] = SubscriptionIndex(abs(key), self.slots)
            shelf = self.shelves[key]
            self.widths.enter(key, rows[mine], int(need[mine].max()))
            if len(shelf) == 0 and len(rows[mine]) >= MANY:
                shelf.load(rows[mine], lo[mine], hi[mine])
                join.fill(shelf.tree, self.objects.by_value(), self.objects.tree.x)
            else:
                shelf.insert(rows[mine], lo[mine], hi[mine], self._found(lo[mine], hi[mine], abs(key)))

    def remove(self, rows: Rows, k: NDArray[np.int64]) -> None:
        """Forget subscriptions; a shelf that becomes empty is dropped."""
        self._points = None
        for key, mine in classes(self.widths.keys(rows, k)):
            self._take_out(key, rows[mine])

    def _take_out(self, key: int, rows: Rows) -> None:
        self.shelves[key].delete(rows)
        if len(self.shelves[key]) == 0:
            del self.shelves[key]
            self.widths.drop(key)

    def move(self, rows: Rows, lo: Floats, hi: Floats, k: NDArray[np.int64]) -> None:
        """Give subscriptions, which keep their k, other ranges and fill their boards."""
        self._points = None
        for each, mine in classes(k):
            if each > widths.NARROW:
                self.remove(rows[mine], k[mine])
                self.add(rows[mine], lo[mine], hi[mine], k[mine])
                continue
            boards = self._found(lo[mine], hi[mine], each)
            self.shelves[each].move(rows[mine], lo[mine], hi[mine], boards)

    def make_room(self, places: Floats, departures: int, k_of: Wanted) -> None:
        """Bring lists to other shelves that objects may fill which come to these places, or that got short.

        Called before a batch, with a line for each object that is new or moves, and how many go.
        """
        for key in list(self.widths.due(list(self.shelves), len(places), departures)):
            shelf = self.shelves[key]
            rows, lo, hi = shelf.points()
            length = widths.lengths(shelf.board, self.slots.slot_of[rows])
            need = length + widths.arrivals_in(lo[:, None], hi[:, None], places)
            to = self.widths.moving(key, length, need, k_of(rows))
            stays = to == key
            self.widths.counted(key, int(need[stays].max(initial=0)))
            for other, mine in classes(to):
                if other != key:
                    boards = widths.widened(shelf.boards(rows[mine]), abs(other))
                    self._take_out(key, rows[mine])
                    if other not in self.shelves:
                        self.shelves[other] = SubscriptionIndex(abs(other), self.slots)
                    self.widths.enter(other, rows[mine], int(need[mine].max()))
                    self.shelves[other].insert(rows[mine], lo[mine], hi[mine], boards)

    def points(self) -> PointTree | None:
        """All subscriptions as one tree, its boards of no meaning, or None if there are none."""
        if len(self.shelves) < 2:
            return next((shelf.tree for shelf in self.shelves.values()), None)
        if self._points is None:
            every = SubscriptionIndex(1, SlotMap())
            parts = [shelf.points() for shelf in self.shelves.values()]
            rows, lo, hi = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            every.load(rows, lo, hi)
            self._points = every.tree
        return self._points

    def replace(self, rows: Rows, lo: Floats, hi: Floats, names: Names) -> tuple[DeltaColumns, int]:
        """The same as `move` if there is one shelf; what changes, as shown outside, in how many rows."""
        (shelf,) = self.shelves.values()
        self._points = None
        return shelf.replace(rows, lo, hi, self._found(lo, hi, shelf.k), names)

    def boards(self, rows: Rows, k: int) -> Rows:
        """The boards of subscriptions of one small k: item rows best first, then -1."""
        return self.shelves[k].boards(rows)

    def held(self, rows: Rows, k: NDArray[np.int64]) -> Held:
        """Copies of the boards of subscriptions, one after the other."""
        keys = self.widths.keys(rows, k)
        start = np.zeros(len(rows) + 1, np.uint64)
        np.cumsum(np.abs(keys), out=start[1:], dtype=np.uint64)
        item = buffers.empty(int(start[-1]), np.int32)
        for key, mine in classes(keys):
            board = self.shelves[key].board
            diff.copy_boards(board, self.slots.slot_of, rows[mine], start[:-1][mine], item)
        return Held(start, item)

    def since(self, held: Held, rows: Rows, k: NDArray[np.int64], y: Floats) -> Deltas:
        """Delta rows from boards that were held, of subscriptions in the given order, to those of now."""
        now = self._just_moved(held, rows) or self.held(rows, k)
        most, kinds = len(held.item) + len(now.item) + 1, ("i4", "i1", "i4", "f8", "i8")
        told = Deltas(*(buffers.empty(most, kind) for kind in kinds))
        size = int(diff.write_exchange(rows, held, now, y, np.zeros(len(y), np.int32), told))
        return Deltas._make(column[:size] for column in told)

    def _just_moved(self, held: Held, rows: Rows) -> Held | None:
        """The lists of now as they were found, if all subscriptions have one k and these just moved."""
        boards = [shelf.just_moved(rows) for shelf in self.shelves.values()]
        return None if len(boards) != 1 or boards[0] is None else Held(held.start, boards[0].reshape(-1))

    def apply(self, tiles: Tiles, changed: Rows, told: Tiles | None = None) -> list[BoardChanges]:
        """Apply exact tiles painted for `ks`, and `told`, those of `open_tiles`; `changed` are their rows.

        Returns the net changes of each shelf; pass them to `deltas` before the next call when there is one
        shelf only, at once otherwise. Buffers are reused.
        """
        self._sync_length()
        y = self.objects.tree.y
        self._moved[changed] = self._known[changed] != y[changed]
        values = Values(self._known, self._work, self._moved, self.objects.tree.label)
        found, ks = [], [int(k) for k in self.ks]
        for number, key in enumerate([*ks, *(key for key in self.shelves if key < 0)]):
            mine = told if key < 0 else tiles if len(ks) == 1 else _of_shelf(tiles, number)
            buffers = self._buffers if number == 0 else empty_changes(1024, 4096)
            changes = join.join(self.shelves[key].tree, mine, values, buffers)
            self._buffers = changes if number == 0 else self._buffers
            self.affected += int(changes.tally[AFFECTED])
            self.tried += int(changes.tally[TRIED])
            found.append(changes)
        self._know(changed)
        return found

    def open_tiles(self, events: Events) -> Tiles | None:
        """What events, not painted yet, tell open lists: all that hold the place. None if there are no lists.

        A list that holds all of its range hears of every object there: that it goes, comes, or has changed.
        """
        if not self.widths.most:
            return None
        row, x, y = events
        self.objects.reserve(int(row.max(initial=-1)) + 1)
        was_x, was_y = self.objects.tree.x[row], self.objects.tree.y[row]
        order = np.argsort(row, kind="stable")
        again = np.flatnonzero(row[order[1:]] == row[order[:-1]])
        later, sooner = order[again + 1], order[again]
        was_x[later], was_y[later] = x[sooner], y[sooner]
        was, there = was_y < np.inf, y < np.inf
        stays = was & there & (x == was_x)
        goes, comes = np.flatnonzero(was & ~stays), np.flatnonzero(there & ~(stays & (y == was_y)))
        moment = np.argsort(np.concatenate([2 * goes, 2 * comes + 1]))
        event = np.concatenate([goes, comes])[moment]
        place = np.concatenate([was_x[goes], x[comes]])[moment]
        value = np.concatenate([np.full(len(goes), np.inf), y[comes]])[moment]
        told = empty_tiles(len(event))
        told.box[:, 0], told.box[:, 1], told.box[:, 2], told.box[:, 3] = -np.inf, place, place, np.inf
        told.item[:], told.x[:], told.value[:], told.event[:] = row[event], place, value, event
        told.shelf[:], told.step[:], told.size[0] = 0, 0, len(event)
        return told

    def deltas(self, found: list[BoardChanges], place: NDArray[np.int64], span: int) -> Deltas:
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

    def refill(self, k_of: Wanted) -> None:
        """Find all lists anew from the objects as they are."""
        self._sync_length()
        self._know(np.arange(len(self._known), dtype=np.int32))
        wide = [key for key in self.shelves if key < 0 or key > widths.NARROW]
        for key, shelf in self.shelves.items():
            if key not in wide:
                join.fill(shelf.tree, self.objects.by_value(), self.objects.tree.x)
        for rows, lo, hi in [self._dropped(key) for key in wide]:
            self.add(rows, lo, hi, k_of(rows))

    def _dropped(self, key: int) -> tuple[Rows, Floats, Floats]:
        """The subscriptions of a shelf that is no longer there."""
        self.widths.drop(key)
        return self.shelves.pop(key).points()

    def _sizes(self, lo: Floats, hi: Floats) -> NDArray[np.int64]:
        """How many objects ranges hold."""
        along = self.objects.tree.x[object_tree.rows_in_order(self.objects.tree)]
        return np.searchsorted(along, hi, "right") - np.searchsorted(along, lo, "left")

    def _found(self, lo: Floats, hi: Floats, width: int) -> Rows:
        """The lists of ranges as boards."""
        boards = buffers.empty(len(lo) * width, np.int32).reshape(-1, width)
        if width < widths.LONG:
            self.objects.best(lo, hi, boards)
            return boards
        tree, rows = self.objects.tree, object_tree.rows_in_order(self.objects.tree)
        first = np.searchsorted(tree.x[rows], lo, "left")
        end = np.searchsorted(tree.x[rows], hi, "right")
        for board, start, stop in zip(boards, first, end, strict=True):
            best = widths.best_of(rows[start:stop], tree.y, tree.label, width)
            board[: len(best)], board[len(best) :] = best, -1
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
            f"{widths.name_of(key)}.{name}": array
            for key, shelf in self.shelves.items()
            for name, array in shelf.arrays().items()
        }
        return {SHARED: self.slots.slot_of, **shelves}

    def restore(self, arrays: dict[str, NDArray[Any]], rooms: dict[str, list[int]]) -> None:
        """Take over the state that `arrays` and `widths` gave; the objects must have been restored before."""
        self._sync_length()
        self._know(np.arange(len(self._known), dtype=np.int32))
        self.slots.slot_of = shared_slots(arrays)
        for key, mine in by_shelf(arrays).items():
            self.shelves[key] = SubscriptionIndex(abs(key), self.slots)
            self.shelves[key].restore(mine)
        self.widths.restore(rooms, {key: shelf.points()[0] for key, shelf in self.shelves.items()})

    def check_against(self, k: NDArray[np.int64], live: Rows, ends: Ends, listed: Listed) -> None:
        """Refuse shelves that do not hold the `live` subscriptions, which want `k`, with their ranges."""
        held = {k: (shelf._tree, subscriptions.live_slots(shelf._tree)) for k, shelf in self.shelves.items()}
        check_shelves(held, self.slots.slot_of, k, live, self.widths)
        for tree, slots in held.values():
            lo, hi = (end[tree.row[slots]] for end in ends)
            same = (tree.lo[slots] == lo[:, 0]) & (tree.hi[slots] == hi[:, 0])
            integrity.need(same.all(), "lo", "differs from what subscriptions ask for")
            checks.check_boards(tree.board, slots, lo, hi, listed)


def shared_slots(arrays: dict[str, NDArray[Any]]) -> Rows:
    """The slot map among the arrays of shelves."""
    integrity.forms({SHARED: arrays[SHARED]}, {SHARED: (np.int32, (None,))})
    return arrays[SHARED]


def by_shelf(arrays: dict[str, NDArray[Any]]) -> dict[int, dict[str, NDArray[Any]]]:
    """The arrays of each shelf, ascending by key; a name is "<shelf>.<array>", see `widths.name_of`."""
    found: dict[int, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        shelf, _, own = name.partition(".")
        if name != SHARED:
            k = shelf.removeprefix(widths.OPEN)
            plain = k.isascii() and k.isdigit() and k[0] != "0" and len(k) < 11
            integrity.need(plain, name, "is not known")
            found.setdefault(widths.key_of(shelf), {})[own] = array
    return dict(sorted(found.items()))


def check_shelves(
    trees: dict[int, tuple[Any, Rows]], slot_of: Rows, k: NDArray[np.int64], live: Rows, rooms: Widths
) -> None:
    """Refuse trees by key, each with its slots in use, that do not hold each `live` row in the one of its k.

    An open shelf has lists of a larger k than it is wide, and none of them is full.
    """
    total = 0
    for each, (tree, slots) in trees.items():
        rows = tree.row[slots]
        total += len(rows)
        integrity.need(len(rows) and int(rows.max()) < len(k), f"{each}.row", "names nobody who is there")
        fits = (k[rows] == each) if each > 0 else (k[rows] > -each)
        integrity.need(fits.all(), f"{each}.row", "names subscriptions with another k")
        if each < 0:
            longest = int(widths.lengths(tree.board, slots).max(initial=0))
            integrity.need(longest <= rooms.most[each], f"{each}.board", "holds more than is known")
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


def _together(found: list[BoardChanges]) -> BoardChanges:
    """The changes of several shelves as one."""
    groups, sizes = [int(c.tally[GROUPS]) for c in found], [len(c.item) for c in found]
    group = np.concatenate([c.group[:g] for c, g in zip(found, groups, strict=True)])
    group[:, 1:] += np.repeat(np.cumsum([0, *sizes[:-1]]), groups).astype(np.int32)[:, None]
    return BoardChanges(
        group=group,
        item=np.concatenate([c.item for c in found]),
        mark=np.concatenate([c.mark for c in found]),
        tally=np.array([sum(groups), 0, 0, 0]),
    )
