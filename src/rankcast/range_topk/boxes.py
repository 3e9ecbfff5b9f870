"""`RangeTopK` over several attributes: objects and subscriptions in trees, boards kept current.

A subscription is a corner in twice as many dimensions as there are attributes. An event goes down the tree
of corners to those whose box holds the object and whose last item it passes, and changes their boards; lists
that lose an item ask the tree of objects for the next one, bucket by bucket. Who was reached is then covered
by tiles. [Range §IV-C] only sketches boxes. In the 1.5-d case tiles are painted from the objects, and `dense`
is not even given the subscriptions: what it must know of them, the bounded side, is noted when they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import SettingError
from rankcast.range_topk.box_lists import BoxListings
from rankcast.range_topk.corners import BoxObjects
from rankcast.range_topk.dissemination.cover import Post
from rankcast.range_topk.dissemination.painters import BoxSender, DensePainter, SlabPainter, Wish
from rankcast.range_topk.dissemination.post import Former
from rankcast.range_topk.dissemination.slabs import FIRSTK, MIN, SNAP
from rankcast.range_topk.interval import Painted
from rankcast.range_topk.kernels.regions import outer
from rankcast.range_topk.kernels.steps import Events as Keyed
from rankcast.range_topk.scan import Scan
from rankcast.range_topk.world import Events, TileRows, World
from rankcast.structures import integrity
from rankcast.tables.deltas import Changes, no_changes
from rankcast.tables.schema import Floats, Ints, Rows


class Boxed(Painted):
    """Objects, subscriptions and boards in step with the world's, in two or three attributes.

    Subscriptions come, change and go as in one attribute; the trees behind the listings are others.
    """

    _listings: BoxListings  # type: ignore[assignment]
    _index: BoxObjects  # type: ignore[assignment]

    def __init__(self, world: World) -> None:
        self._world = world
        self._listings = BoxListings(world.width)
        self._index = self._listings.objects
        self._sender = BoxSender(self._listings)
        self._sparse = SlabPainter(self._index)
        self._dense = DensePainter(self._index)
        self._side = self._listings.one_sided()
        self._stale = False
        self._relabelled = 0
        self._moved: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The trees and boards, brought up to date."""
        self._refresh()
        return {"rooms": self._listings.widths.state()}, self._listings.arrays()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        self._listings.restore(dict(arrays), header.get("rooms", {}))
        self._side = self._listings.one_sided()

    def check(self) -> None:
        """Refuse trees and boards from a snapshot that are not those of the world's."""
        rows, held, slot_of = self._check_world(), self._index, self._index.slots.slot_of
        integrity.need(
            np.array_equal(np.flatnonzero(slot_of >= 0), rows), "objects.slot_of", "is not of the live"
        )
        integrity.need(len(held.value) > rows.max(initial=-1), "objects.value", "is too short")
        y = self._world.key(self._world.objects["y"][rows])
        there = held.index.tree.point[slot_of[rows]] == self._world.objects["x"][rows]
        integrity.need(there.all(), "objects.point", "differs from where objects are")
        same = (held.value[rows] == y).all() and np.count_nonzero(held.value != np.inf) == len(rows)
        same &= (held.index.tree.weight[slot_of[rows]] == -y).all()
        integrity.need(same, "objects.value", "differs from what objects are worth")

    def entered(self, rows: Rows) -> None:
        """Index new subscriptions and fill their boards."""
        super().entered(rows)
        self._side = self._listings.one_sided()

    def leaving(self, rows: Rows) -> None:
        """Forget subscriptions."""
        super().leaving(rows)
        self._side = self._listings.one_sided()

    def amended(self, rows: Rows, former_k: Ints) -> None:
        """Index subscriptions anew that have other boxes, or had another k, and fill their boards."""
        super().amended(rows, former_k)
        self._side = self._listings.one_sided()

    def _ends(self, rows: Rows) -> tuple[Floats, Floats]:
        return self._world.boxes(rows)

    def publish(self, events: Events) -> Changes:
        """Let the events change the boards, and tell the net change."""
        if not events.row.size:
            return no_changes()
        self._refresh()
        world, listings = self._world, self._listings
        touched = np.unique(events.row)
        old = world.objects["y"][touched].copy()
        self._follow(events)
        self._make_room(events)
        with self._counting():
            changes = listings.play(self._keyed(events), self._moved)
        world.place(events)
        rows = listings.deltas(changes, world.subscriptions.place, world.subscriptions.next_sequence)
        score = world.key(rows.score) if world.descending else rows.score
        former = score[:0] if world.alone else self._former(touched, old, rows.op, rows.item)
        return Changes(rows.subscription, rows.op, rows.item, score, rows.rank, former)

    def refuse(self, method: str) -> None:
        """Refuse a method that boxes do not have."""
        if method == "dense" and not self._side:
            raise SettingError(
                'method="dense" is not for boxes: their tiles run into the hundreds of thousands an event',
                expected="sparse, unicast, relax or scan, or two attributes, the second bounded on one side",
            )

    def disseminate(self, events: Events, method: str, epsilon: float | None, *, batch: bool) -> TileRows:
        """Apply the batch; the messages that tell those affected.

        Unless the boards tell who is affected, for boxes, unicast and the net change of a sparse batch, they
        are stale afterwards.
        """
        self._follow(events)
        if method in ("scan", "relax"):
            told = Scan(self._world).disseminate(events, method, None, batch=batch)
            self._index.settle(*self._keyed(events.coalesced()))
            self._stale = True
            return told
        with self._counting():
            if method == "dense" or (method == "sparse" and self._side and not batch):
                post = self._paint(events, method, epsilon, batch=batch)
                self._stale = True
            else:
                post = self._send(events, epsilon, one_by_one=method == "unicast", batch=batch)
        self._world.place(events)
        return self._handed_out(post)

    def _paint(self, events: Events, method: str, epsilon: float | None, *, batch: bool) -> Post:
        """Apply events to the objects of the 1.5-d case; the tiles that tell those affected. Boards stay."""
        k, side = self._world.k, self._side
        if method == "sparse":
            return self._sparse.paint(self._keyed(events), k, side, self._listings.corners(), epsilon)
        if batch:
            return self._dense.paint_net(self._keyed(events.coalesced()), k, side)
        return self._dense.paint(self._keyed(events), k, side, epsilon)

    def _send(self, events: Events, epsilon: float | None, *, one_by_one: bool, batch: bool) -> Post:
        """Let the events change the boards; the messages that cover whom they reach."""
        self._refresh()
        self._make_room(events)
        self._listings.unite()
        wish = Wish(-1 if epsilon is None else int((1 + epsilon) * self._world.k), one_by_one=one_by_one)
        if not batch:
            return self._sender.send(self._keyed(events), wish)
        post = self._sender.send_net(self._keyed(events), self._before(events), wish)
        self._moved[events.row] = False
        return post

    def _follow(self, events: Events) -> None:
        """Follow the labels of objects, and make room for new ones."""
        super()._follow(events)
        if len(self._moved) < len(self._index.value):
            self._moved = np.zeros(len(self._index.value), np.bool_)

    def _before(self, events: Events) -> Former:
        """The objects before a batch, with those that change marked."""
        held, last = self._world.objects, events.coalesced()
        y = held["y"][last.row]
        same = (y == last.y) & (held["x"][last.row] == last.x).all(axis=1)
        self._moved[last.row] = ~same
        return Former(held["x"], self._world.key(held["y"]), self._moved)

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Add what the listings count to the counters of the engine."""
        before = self._counts()
        yield
        for name, count in self._counts().items():
            self._world.count[name] += count - before[name]

    def _counts(self) -> dict[str, int]:
        listings, painted = self._listings, self._sparse.asked + self._dense.asked
        return {
            "affected": listings.affected + self._sparse.affected,
            "candidates": listings.tried,
            "firstk": int(painted[FIRSTK]),
            "miny": listings.searches + int(painted[MIN]),
            "snap": int(painted[SNAP]),
        }

    def _keyed(self, events: Events) -> Keyed:
        """The same events as kernels take them: keys, and +inf for an object that goes."""
        key = self._world.key(events.y)
        return Keyed(events.row, np.ascontiguousarray(events.x), np.where(np.isnan(key), np.inf, key))

    def _handed_out(self, post: Post) -> TileRows:
        """Tiles as the contract has them, in arrays of their own."""
        size = int(post.size[0])
        low, high = post.low[:size], post.high[:size]
        lo_outer, hi_outer = outer(low[:, ::2], -low[:, 1::2])
        return TileRows(
            lo_outer,
            high[:, ::2].copy(),
            -high[:, 1::2],
            hi_outer,
            post.item[:size].copy(),
            post.x[:size].copy(),
            np.where(np.isposinf(post.value[:size]), np.nan, self._world.key(post.value[:size])),
        )
