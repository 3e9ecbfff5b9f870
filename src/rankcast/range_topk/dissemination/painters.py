"""Events change boards of boxes, and messages tell it: event by event, or the net change of a batch.

Painting in 1.5 dimensions: events change objects, and tiles tell those affected. Boards stay.

Dense painting in 1.5 dimensions: tiles from the objects alone, for whoever may subscribe.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.box_lists import BoxListings, last_of
from rankcast.range_topk.corners import BoxObjects, CornerIndex
from rankcast.range_topk.dissemination import post as corner_post
from rankcast.range_topk.dissemination import slab_batch, slab_paint
from rankcast.range_topk.dissemination.batch import Net
from rankcast.range_topk.dissemination.cover import Post, empty_post
from rankcast.range_topk.dissemination.post import BETTER, GONE, Former, Mail, Pairs
from rankcast.range_topk.dissemination.slab_batch import EXPOSED, GAIN, LOSS, Told
from rankcast.range_topk.dissemination.slab_members import AFFECTED as SLAB_AFFECTED
from rankcast.range_topk.dissemination.slab_members import FOUND, MOMENT, TWICE, WIDE, Members, new_cut
from rankcast.range_topk.dissemination.slab_merge import Easel
from rankcast.range_topk.kernels import events as corner_events
from rankcast.range_topk.kernels.corners import CAPACITY
from rankcast.range_topk.kernels.events import AFFECTED, EVENT, SEARCHES, SINCE, TOUCHED, TRIED, Log
from rankcast.range_topk.kernels.object_tree import ObjectTree
from rankcast.range_topk.kernels.regions import empty_tiles
from rankcast.range_topk.kernels.slab_search import Along
from rankcast.range_topk.kernels.steps import Events, Values, steps_of
from rankcast.range_topk.objects import Floats, Rows
from rankcast.range_topk.painting import boxes_for
from rankcast.range_topk.subscriptions import SlotMap
from rankcast.structures.arrays import grown

FEW = 256  # messages that room is made for at first
QUEUE = 1 << 12  # better objects on the way down a tree that room is made for at first


class SlabPainter:
    """Applies events to objects over two attributes, the second bounded on one side by every subscription.

    `asked` counts questions to the objects, as `slabs` names them, `affected` the subscriptions reached, each
    once an event. `asking`: whether it asks whatever the published server asks.
    """

    def __init__(self, objects: BoxObjects) -> None:
        self.objects = objects
        self.asked: NDArray[np.int64] = np.zeros(3, np.int64)
        self.affected = 0
        self.asking = False
        self._room: Members | None = None  # with the last moment, and which one every slot has heard of last

    def paint(
        self, events: Events, k: int, side: int, shelf: CornerIndex | None, epsilon: float | None
    ) -> Post:
        """Apply events one by one; the tiles that tell those affected.

        The second attribute is bounded on a `side`, 1 above or -1 below. Without a shelf no subscription is
        read; an empty one is that of nobody.
        """
        k = least(self.objects, k, events)
        objects, nobody, done = self.objects, CornerIndex(4, 1, 1, SlotMap()), 0
        objects.reserve(int(events.row.max(initial=-1)) + 1)
        corners, post = nobody if shelf is None else shelf, empty_post(FEW, 2)
        members = self._members(corners)
        while done < len(events.row):
            easel = Easel(
                objects=objects.index.tree,
                along=objects.along(),
                label=objects.label,
                corners=corners.tree,
                members=members,
                tiles=empty_tiles(k + 2),
                k=k,
                sign=float(side),
                bound=3 if side > 0 else 2,
                aware=shelf is not None,
                lists=boxes_for(epsilon),
                asking=self.asking,
                tally=self.asked,
            )
            done, post = slab_paint.play(easel, events, objects.value, post, done)
            if done < len(events.row):
                objects.index.reserve()
        objects.tidy()
        if epsilon is None:
            self.affected += int(members.size[SLAB_AFFECTED])
        return post

    def _members(self, shelf: CornerIndex) -> Members:
        """Room for members of a region among the subscriptions of a shelf, kept while it is enough."""
        tree, room = shelf.tree, self._room
        slots, leaves, bucket = len(tree.row), len(tree.leaf_of), int(tree.meta[CAPACITY])
        if (
            room is None
            or slots > len(room.heard)
            or leaves > len(room.cut.node)
            or bucket + WIDE > len(room.held)
        ):
            former = np.empty(0, np.int64) if room is None else room.heard
            slots = max(slots, len(former))
            heard = grown(former, slots, -1)
            room = self._room = Members(
                span=np.empty((slots, 3)),
                better=np.empty(slots, np.int32),
                whole=np.empty(2 * leaves, np.int32),
                held=np.empty(bucket + WIDE),
                queue=np.empty((2, QUEUE)),
                cut=new_cut(leaves, slots),
                heard=heard,
                size=np.array([0, 0 if room is None else room.size[MOMENT], 0, 0, 0]),
            )
        room.size[FOUND], room.size[SLAB_AFFECTED], room.size[TWICE] = 0, 0, 0
        return room


def least(objects: BoxObjects, k: int, events: Events) -> int:
    """A k beyond all objects counts as just that."""
    return min(k, len(objects.index) + len(events.row) + 1)


class Wish(NamedTuple):
    """What messages are wanted: how far an item may rank (-1: within k), one for each distinct box."""

    most: int = -1
    one_by_one: bool = False


class BoxSender:
    """Brings listings with one shelf at most through events, as their `play` does, and writes messages."""

    def __init__(self, listings: BoxListings) -> None:
        self._listings = listings
        self._now = 0  # the last moment, and the last message; which ones every slot has heard of last
        self._letters = 0
        self._heard: NDArray[np.int64] = np.empty(0, np.int64)
        self._mark: NDArray[np.int64] = np.empty(0, np.int64)

    def send(self, events: Events, wish: Wish) -> Post:
        """Apply events one by one; the messages that tell those affected."""
        objects, done = self._listings.objects, 0
        objects.reserve(int(events.row.max(initial=-1)) + 1)
        shelf, post, values = self._shelf(), self._post(), Values(objects.value, objects.label)
        if shelf is None:
            objects.settle(*last_of(events))
            return post
        log, mail, tree = self._log(shelf, 1), self._mail(wish, shelf), shelf.tree
        while done < len(events.row):
            done, post = corner_post.play(tree, objects.index.tree, events, values, log, post, mail, done)
            if done < len(events.row):
                objects.index.reserve()
        self._letters = int(post.size[2])
        self._count(log)
        return post

    def send_net(self, events: Events, former: Former, wish: Wish) -> Post:
        """Apply events; the messages of their net change."""
        objects, post, last = self._listings.objects, self._post(), last_of(events)
        objects.reserve(int(events.row.max(initial=-1)) + 1)
        shelf, values = self._shelf(), Values(objects.value, objects.label)
        if shelf is None:
            objects.settle(*last)
            return post
        tree, (steps, spells) = shelf.tree, steps_of(events, objects.index.tree, objects.value)
        log = self._log(shelf, len(spells.row))
        objects.hide(last.row)
        corner_events.tell(tree, objects.index.tree, steps, spells, values, log)
        log.tally[EVENT] += 2 * len(events.row)
        objects.settle(*last)
        most = 2 * tree.board.shape[1] * int(log.tally[TOUCHED])
        pairs = Pairs(*(np.empty(most, np.int32) for _ in Pairs._fields))
        size = int(corner_post.pair(tree, objects.index.tree, values, log, former, pairs))
        pairs = _in_sending_order(Pairs._make(column[:size] for column in pairs), values)
        mail = self._mail(wish, shelf)
        sent: Post = corner_post.send_pairs(tree, objects.index.tree, values, former, pairs, post, mail)
        self._letters = int(sent.size[2])
        self._count(log)
        return sent

    def _shelf(self) -> CornerIndex | None:
        return next(iter(self._listings.shelves.values()), None)

    def _post(self) -> Post:
        """No messages yet; they are numbered on over all calls."""
        post = empty_post(FEW, self._listings.width)
        post.size[2] = self._letters
        return post

    def _mail(self, wish: Wish, shelf: CornerIndex) -> Mail:
        if len(shelf.tree.row) > len(self._mark):
            self._mark = grown(self._mark, len(shelf.tree.row), -1)
        return Mail(self._mark, wish.most, wish.one_by_one)

    def _log(self, shelf: CornerIndex, spells: int) -> Log:
        """An empty log for a shelf."""
        tree = shelf.tree
        if len(tree.row) > len(self._heard):
            self._heard = grown(self._heard, len(tree.row), -1)
        log = Log(
            np.empty(len(shelf), np.int32),
            np.empty((len(shelf), tree.board.shape[1]), np.int32),
            self._heard,
            np.empty(len(tree.parent), np.int32),
            np.zeros(spells + 1, np.int32),
            np.zeros(6, np.int64),
        )
        log.tally[SINCE] = log.tally[EVENT] = self._now
        return log

    def _count(self, log: Log) -> None:
        """Add up what a log has counted."""
        self._now = int(log.tally[EVENT])
        self._listings.count(*(int(log.tally[each]) for each in (AFFECTED, TRIED, SEARCHES)))


def _in_sending_order(pairs: Pairs, values: Values) -> Pairs:
    """What got worse or left first, then by value; an item that is gone from its place before all others."""
    value = np.where(pairs.kind == GONE, -np.inf, values.value[pairs.item])
    order = np.lexsort((pairs.kind, values.label[pairs.item], value, pairs.kind == BETTER))
    return Pairs._make(column[order] for column in pairs)


SWEEPS = 64  # losses whose tiles are held at once, before only their items are kept


class DensePainter:
    """Applies events to objects and tells whose lists change, as tiles in sending order.

    It is given the objects, k, and on which `side` the second attribute is bounded (1 above, -1 below): no
    subscription can be reached from here.
    """

    def __init__(self, objects: BoxObjects) -> None:
        self.objects = objects
        self._painter = SlabPainter(objects)

    @property
    def asked(self) -> NDArray[np.int64]:
        """Counts of questions to the objects, as `slabs` names them."""
        return self._painter.asked

    def paint(self, events: Events, k: int, side: int, epsilon: float | None) -> Post:
        """Paint and apply events one by one."""
        return self._painter.paint(events, k, side, None, epsilon)

    def paint_net(self, events: Events, k: int, side: int) -> Post:
        """Paint and apply events of distinct objects as one batch, exactly: see `kernels.slab_batch`.

        Memory: a copy of the objects, and the tiles.
        """
        self.objects.reserve(int(events.row.max(initial=-1)) + 1)
        k, net = least(self.objects, k, events), self._net(events)
        moved = (net.x != net.old_x).any(axis=1)
        gone, come = self._losses(net, moved), (net.y < np.inf) & (moved | (net.y < net.old_y))
        before = _copied(self.objects.along())
        here = come & ~moved
        self.objects.settle(net.row[here], net.x[here], net.y[here])
        exposed = np.setdiff1d(self._sweep(net, gone, k, side), net.row).astype(np.int32)
        stays = (net.y < np.inf) & ~moved
        told = _joined(
            _told(LOSS, net.row[gone], net.old_y[gone], np.where(stays, net.y, np.inf)[gone]),
            _told(EXPOSED, exposed, self.objects.value[exposed], self.objects.value[exposed]),
            _told(GAIN, net.row[come], net.old_y[come], net.y[come]),
        )
        away = np.flatnonzero(~stays[gone])
        return self._tell(before, told, away, net.old_x[gone[away]], (k, side))

    def _net(self, events: Events) -> Net:
        """What the events come to, for the objects they change at all."""
        row, x, y = events
        tree, old_y = self.objects.index.tree, self.objects.value[row]
        old_x = np.where((old_y < np.inf)[:, None], tree.point[tree.slot_of[row]], x)
        x = np.where((y < np.inf)[:, None], x, old_x)
        changed = (x != old_x).any(axis=1) | (y != old_y)
        return Net(row[changed], old_x[changed], old_y[changed], x[changed], y[changed])

    def _losses(self, net: Net, moved: NDArray[np.bool_]) -> NDArray[np.intp]:
        """What worsens, goes or moves away, by descending new value; moved ones come first with the gone."""
        lost = np.flatnonzero((net.old_y < np.inf) & (moved | (net.y > net.old_y)))
        value = np.where(moved, np.inf, net.y)[lost]
        return lost[np.lexsort((self.objects.label[net.row[lost]], value))[::-1]]

    def _sweep(self, net: Net, gone: NDArray[np.intp], k: int, side: int) -> Rows:
        """Apply losses one by one; the distinct objects that are told meanwhile."""
        met: list[Rows] = [net.row[:0]]
        for start in range(0, len(gone), SWEEPS):
            some = gone[start : start + SWEEPS]
            events = Events(net.row[some], net.x[some], net.y[some])
            post = self._painter.paint(events, k, side, None, None)
            met.append(np.unique(post.item[: int(post.size[0])]))
        return np.unique(np.concatenate(met))

    def _tell(
        self, before: Along, told: Told, away: NDArray[np.intp], places: Floats, how: tuple[int, int]
    ) -> Post:
        """The tiles of all that is told, for a k and a side; the objects `away` have left these places."""
        objects, (k, side) = self.objects, how
        stand = self._labelled_like(told.row[away])
        told.stand[away] = stand
        both = slab_batch.Objects(before, objects.along_with(stand, places))
        tiles, sign = empty_tiles(4 * (k + 1) + 2), float(side)
        post: Post = slab_batch.tell(both, told, k, sign, tiles, self.asked, empty_post(FEW, 2))
        return post

    def _labelled_like(self, rows: Rows) -> Rows:
        """Rows that nobody has, with the labels of others."""
        objects = self.objects
        first = int(np.flatnonzero(objects.slots.slot_of >= 0).max(initial=-1)) + 1
        first = max(first, int(rows.max(initial=-1)) + 1)
        stand = np.arange(first, first + len(rows), dtype=np.int32)
        objects.set_labels(stand, objects.label[rows])
        return stand


def _copied(along: Along) -> Along:
    return Along(ObjectTree._make(array.copy() for array in along.tree), along.second.copy())


def _told(kind: int, row: Rows, old: Floats, new: Floats) -> Told:
    return Told(row, row, np.full(len(row), kind, np.int32), old, new)


def _joined(*parts: Told) -> Told:
    return Told._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
