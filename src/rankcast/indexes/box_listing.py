"""The lists of subscriptions over several attributes, kept current: events in, net deltas out."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankcast import buffers
from rankcast.indexes.box_objects import BoxObjects
from rankcast.indexes.corners import CornerIndex
from rankcast.indexes.dominance import SHARED, SlotMap
from rankcast.indexes.listing import classes
from rankcast.indexes.objects import Floats, Rows, grown
from rankcast.kernels import (
    corner_changes,
    corner_events,
    corner_post,
    corner_search,
    relist,
    slab_events,
    spread,
)
from rankcast.kernels.changes import Changes, empty_changes
from rankcast.kernels.corner_events import AFFECTED, EVENT, SEARCHES, SINCE, TOUCHED, TRIED, Log
from rankcast.kernels.corner_merge import Post, empty_post
from rankcast.kernels.corner_next import Values
from rankcast.kernels.corner_post import BETTER, GONE, Former, Mail, Pairs
from rankcast.kernels.corner_steps import Events, Spells, Steps, steps_of
from rankcast.kernels.corner_tree import CAPACITY, CornerTree
from rankcast.kernels.relist import Held
from rankcast.kernels.slab_easel import Easel
from rankcast.kernels.slab_members import AFFECTED as REACHED
from rankcast.kernels.slab_members import MOMENT, Members
from rankcast.kernels.spread import Deltas
from rankcast.kernels.tiles import empty_tiles

SUBSCRIPTIONS = 64  # slots a bucket
FEW = 256


class Wish(NamedTuple):
    """What messages are wanted: how far an item may rank (-1: within k), one for each distinct box."""

    most: int = -1
    one_by_one: bool = False


class Played(NamedTuple):
    """What a batch has touched on the shelf of one k."""

    k: int
    log: Log


class BoxListings:
    """Boards of all subscriptions in shelves, one a k, and the objects they list.

    - `add`, `move`, `remove`: subscriptions come, with their lists found at once, change, and go.
    - `held`, `since`: lists as they are, and what has become of them.
    - `play`: events change objects and boards; `changes` tells the net change, `deltas` as rows.
    - `send`, `send_net`: the same, and the messages that tell it, event by event or of the net change.

    `affected` counts subscriptions reached, each once an event, `tried` those looked at, `searches` how often
    the objects were asked what comes next. `asking`: whether `paint` asks whatever the published server asks.
    """

    def __init__(self, width: int) -> None:
        self.objects = BoxObjects(width)
        self.slots = SlotMap()
        self.shelves: dict[int, CornerIndex] = {}
        self.affected = self.tried = self.searches = 0
        self.painted: NDArray[np.int64] = np.zeros(3, np.int64)
        self.asking = False
        self._width = width
        self._now = 0  # the last moment, and the last message
        self._letters = 0
        self._heard: NDArray[np.int64] = np.empty(0, np.int64)
        self._mark: NDArray[np.int64] = np.empty(0, np.int64)

    def add(self, rows: Rows, lo: Floats, hi: Floats, k: NDArray[np.int64]) -> None:
        """Register subscriptions and fill their boards."""
        corners = corners_of(lo, hi)
        for each, mine in classes(k):
            if each not in self.shelves:
                self.shelves[each] = CornerIndex(2 * self._width, each, SUBSCRIPTIONS, self.slots)
            shelf = self.shelves[each]
            shelf.insert(rows[mine], corners[mine], np.full(len(rows[mine]), np.inf))
            corner_search.fill(shelf.tree, rows[mine], self.objects.index.tree, self.objects.label)

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

    def play(self, events: Events) -> list[Played]:
        """Apply events to the objects and all boards; what each shelf has touched."""
        objects, (rows, back) = self.objects, np.unique(events.row[::-1], return_index=True)
        last = len(events.row) - 1 - back
        objects.reserve(int(rows.max(initial=-1)) + 1)
        played = []
        if self.shelves:
            steps, spells = steps_of(events, objects.index.tree, objects.value)
            objects.hide(rows)
            played = [self._tell(k, steps, spells, len(events.row)) for k in self.shelves]
        objects.settle(rows, events.x[last], events.y[last])
        return played

    def _tell(self, k: int, steps: Steps, spells: Spells, events: int) -> Played:
        """Bring the boards of one shelf through the steps of so many events."""
        shelf, objects = self.shelves[k], self.objects
        log = self._log(shelf, k, len(spells.row))
        values = Values(objects.value, objects.label)
        corner_events.tell(shelf.tree, objects.index.tree, steps, spells, values, log)
        log.tally[EVENT] += 2 * events
        self._count(log)
        return Played(k, log)

    def send(self, events: Events, wish: Wish) -> Post:
        """Apply events one by one; the messages that tell those affected. One shelf at most."""
        objects, done, post = self.objects, 0, empty_post(FEW, self._width)
        objects.reserve(int(events.row.max(initial=-1)) + 1)
        if not self.shelves:
            self.play(events)
            return post
        (k, shelf), post.size[2] = next(iter(self.shelves.items())), self._letters
        log, values, tree = self._log(shelf, k, 1), Values(objects.value, objects.label), shelf.tree
        mail = self._mail(wish, tree)
        while done < len(events.row):
            done, post = corner_post.play(tree, objects.index.tree, events, values, log, post, mail, done)
            if done < len(events.row):
                objects.index.reserve()
        self._letters = int(post.size[2])
        self._count(log)
        return post

    def send_net(self, events: Events, former: Former, wish: Wish) -> Post:
        """Apply events; the messages of their net change. One shelf at most."""
        affected, post = self.affected, empty_post(FEW, self._width)
        for k, log in self.play(events):
            tree, values = self.shelves[k].tree, Values(self.objects.value, self.objects.label)
            most = 2 * k * int(log.tally[TOUCHED])
            pairs = Pairs(*(np.empty(most, np.int32) for _ in Pairs._fields))
            size = int(corner_post.pair(tree, self.objects.index.tree, values, log, former, pairs))
            self.affected = affected + int(log.tally[AFFECTED])
            pairs = _in_sending_order(Pairs._make(column[:size] for column in pairs), values)
            mail = self._mail(wish, tree)
            post.size[2] = self._letters
            post = corner_post.send_pairs(tree, self.objects.index.tree, values, former, pairs, post, mail)
            self._letters = int(post.size[2])
        return post

    def one_sided(self) -> int:
        """On which side all subscriptions bound the second of two attributes: 1 above, -1 below, 0 neither.

        This is the 1.5-d case. Known from the box around all corners, without looking at any.
        """
        if self._width != 2 or len(self.shelves) > 1:
            return 0
        ends = [shelf.tree.high[0, 2:] for shelf in self.shelves.values()]
        unbounded = np.isneginf(ends[0]) if ends else np.array([True, True])
        return 1 if unbounded[0] else -1 if unbounded[1] else 0

    def paint(self, events: Events, k: int, *, aware: bool, epsilon: float | None) -> Post:
        """Apply events to the objects in the 1.5-d case; the tiles that tell those affected. Boards stay.

        Unless `aware`, no subscription is read. `painted` counts questions, as `slab_paint` names them.
        """
        objects, nobody = self.objects, CornerIndex(4, k, 1, SlotMap())
        objects.reserve(int(events.row.max(initial=-1)) + 1)
        shelf, done, post = self.shelves.get(k, nobody) if aware else nobody, 0, empty_post(FEW, self._width)
        members, side = self._members(shelf), self.one_sided()
        while done < len(events.row):
            easel = Easel(
                objects=objects.index.tree,
                label=objects.label,
                corners=shelf.tree,
                members=members,
                tiles=empty_tiles(k + 2),
                k=k,
                sign=float(side),
                bound=3 if side > 0 else 2,
                aware=aware,
                lists=0 if epsilon is None else math.ceil(1 / epsilon),
                asking=self.asking,
                tally=self.painted,
            )
            done, post = slab_events.play(easel, events, objects.value, post, done)
            if done < len(events.row):
                objects.index.reserve()
        self._now = int(members.size[MOMENT])
        if epsilon is None:
            self.affected += int(members.size[REACHED])
        return post

    def _members(self, shelf: CornerIndex) -> Members:
        """Room for members of a region among the subscriptions of a shelf."""
        self._hear(shelf)
        size, count = np.array([0, self._now, 0]), len(shelf)
        leaf = np.empty((4, int(shelf.tree.meta[CAPACITY])))
        return Members(np.empty((count, 3)), np.empty(count, np.int32), leaf, self._heard, size)

    def refill(self) -> None:
        """Find all lists anew from the objects as they are."""
        for shelf in self.shelves.values():
            rows = shelf.rows()
            corner_search.fill(shelf.tree, rows, self.objects.index.tree, self.objects.label)

    def _log(self, shelf: CornerIndex, k: int, spells: int) -> Log:
        """An empty log for one shelf."""
        tree = shelf.tree
        self._hear(shelf)
        log = Log(
            np.empty(len(shelf), np.int32),
            np.empty((len(shelf), k), np.int32),
            self._heard,
            np.empty(len(tree.parent), np.int32),
            np.zeros(spells + 1, np.int32),
            np.zeros(6, np.int64),
        )
        log.tally[SINCE] = log.tally[EVENT] = self._now
        return log

    def _hear(self, shelf: CornerIndex) -> None:
        """Make room to note the last moment that every slot of a shelf has heard of."""
        if len(shelf.tree.row) > len(self._heard):
            self._heard = grown(self._heard, len(shelf.tree.row), -1)

    def _count(self, log: Log) -> None:
        """Add up what a log has counted."""
        self._now = int(log.tally[EVENT])
        self.affected += int(log.tally[AFFECTED])
        self.tried += int(log.tally[TRIED])
        self.searches += int(log.tally[SEARCHES])

    def _mail(self, wish: Wish, tree: CornerTree) -> Mail:
        if len(tree.row) > len(self._mark):
            self._mark = grown(self._mark, len(tree.row), -1)
        return Mail(self._mark, wish.most, wish.one_by_one)

    def changes(self, played: list[Played], moved: NDArray[np.bool_]) -> Changes:
        """The net changes of boards; `moved` marks the objects whose value is another than before."""
        touched = sum(int(log.tally[TOUCHED]) for _, log in played)
        most = sum(2 * k * int(log.tally[TOUCHED]) for k, log in played)
        changes = empty_changes(touched, most)
        for k, log in played:
            corner_changes.write_changes(self.shelves[k].tree, log, moved, changes)
        return changes

    def deltas(self, changes: Changes, place: NDArray[np.int64], span: int) -> Deltas:
        """Delta rows of the changes by `place`, a row's position in registration order, below `span`."""
        columns = _columns(int(spread.count_rows(changes)))
        spread.spread(changes, spread.in_order(changes, place, span), self.objects.value, columns)
        return columns

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays: the objects, the slot map, and one set a shelf."""
        shelves = {
            f"{k}.{name}": a for k, shelf in self.shelves.items() for name, a in shelf.arrays().items()
        }
        objects = {f"objects.{name}": array for name, array in self.objects.arrays().items()}
        return {SHARED: self.slots.slot_of, **objects, **shelves}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave."""
        self.slots.slot_of = arrays[SHARED]
        parts = {name.partition(".")[0] for name in arrays if name != SHARED}
        for part in sorted(parts):
            mine = {n.partition(".")[2]: a for n, a in arrays.items() if n.startswith(f"{part}.")}
            if part == "objects":
                self.objects.restore(mine)
            else:
                shelf = CornerIndex(2 * self._width, int(part), SUBSCRIPTIONS, self.slots)
                shelf.restore(mine)
                self.shelves[int(part)] = shelf


def corners_of(lo: Floats, hi: Floats) -> Floats:
    """Boxes as corners: lower ends, and upper ends with the sign turned, by attribute."""
    return np.stack([lo, -hi], axis=2).reshape(len(lo), 2 * lo.shape[1])


def _in_sending_order(pairs: Pairs, values: Values) -> Pairs:
    """What got worse or left first, then by value; an item that is gone from its place before all others."""
    value = np.where(pairs.kind == GONE, -np.inf, values.value[pairs.item])
    order = np.lexsort((pairs.kind, values.label[pairs.item], value, pairs.kind == BETTER))
    return Pairs._make(column[order] for column in pairs)


def _columns(size: int) -> Deltas:
    """Columns for so many delta rows."""
    return Deltas(*(buffers.empty(size, kind) for kind in ("i4", "i1", "i4", "f8", "i8")))
