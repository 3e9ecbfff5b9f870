"""`RangeTopK` by painting: an event's effect is tiles in subscription space, and tiles change boards.

The objects are indexed by (x, y), the subscriptions by (lo, hi) with their boards in the leaves. A batch is
painted event by event from the objects alone, then all its tiles meet the subscriptions at once and the net
change of every board is written; no list is ever searched anew. After `disseminate` the boards are stale and
are filled again when somebody asks. [Range §III]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.range_topk import widths
from rankcast.range_topk.dissemination.send import BLIND, Sender, keyed
from rankcast.range_topk.kernels.paint import FIRSTK, MINY, SNAP
from rankcast.range_topk.lists import Listings, classes
from rankcast.range_topk.objects import ObjectIndex
from rankcast.range_topk.painting import NOBODY, Painter
from rankcast.range_topk.world import Events, TileRows, World
from rankcast.structures import integrity
from rankcast.structures.arrays import Names
from rankcast.structures.boards import ENTER
from rankcast.structures.diff import DeltaColumns, Held
from rankcast.structures.integrity import Listed
from rankcast.tables.deltas import Changes, External, Lists, empty_lists, no_changes
from rankcast.tables.schema import Floats, Ints, Rows, arrow, integer_ids


class Painted:
    """Objects, subscriptions and boards in step with the world's.

    Invariants: the object index holds the world's objects with their keys and labels; unless `_stale`, the
    board of every live subscription is its current list.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._index = ObjectIndex()
        self._listings = Listings(self._index)
        self._painter = Painter(self._index)
        self._stale = False
        self._relabelled = 0

    def parts(self) -> dict[str, Part]:
        """Itself: the trees and boards."""
        return {"painted": self}

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The trees and boards, brought up to date."""
        self._refresh()
        arrays = {f"tree.{name}": array for name, array in self._index.arrays().items()}
        header = {"rooms": self._listings.widths.state()}
        return header, arrays | {f"shelf.{name}": a for name, a in self._listings.arrays().items()}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        tree, shelf = _under(arrays, "tree."), _under(arrays, "shelf.")
        integrity.need(len(tree) + len(shelf) == len(arrays), "painted", "has arrays that are not known")
        self._index.restore(tree)
        self._listings.restore(shelf, header.get("rooms", {}))

    def check(self) -> None:
        """Refuse trees and boards from a snapshot that are not those of the world's."""
        tree, rows = self._index.tree, self._check_world()
        here = np.flatnonzero(tree.leaf_of >= 0)
        integrity.need(np.array_equal(here, rows), "tree.leaf_of", "is not of the live objects")
        same = tree.x[rows] == self._world.objects["x"][rows, 0]
        same &= tree.y[rows] == self._world.key(self._world.objects["y"][rows])
        integrity.need(same.all(), "tree.x", "differs from where objects are")

    def _check_world(self) -> Rows:
        """Refuse listings that are not of the subscriptions; the rows of live objects, ascending."""
        world, objects = self._world, self._world.objects
        live = world.subscriptions._live()
        integrity.within(world.subscriptions["k"], 0, integrity.MOST, "k")
        own = world.subscriptions["k"]
        k = np.where(own > 0, own, world.k)
        rows = objects._live()
        integrity.finite(objects["y"][rows], "y")
        integrity.finite(objects["x"][rows], "x")
        there = objects["sequence"] >= 0
        there[objects.used :] = False
        listed = Listed(there, objects["x"], world.key(objects["y"]), objects.label)
        self._listings.check_against(k, live, (world.subscriptions["lo"], world.subscriptions["hi"]), listed)
        return rows

    # Subscriptions

    def entered(self, rows: Rows) -> None:
        """Index new subscriptions and fill their boards."""
        if rows.size:
            self._refresh()
            self._listings.add(rows, *self._ends(rows), self._world.k_of(rows))

    def leaving(self, rows: Rows) -> None:
        """Forget subscriptions."""
        if rows.size:
            self._listings.remove(rows, self._world.k_of(rows))

    def amended(self, rows: Rows, former_k: Ints) -> None:
        """Index subscriptions anew that have other ranges, or had another k, and fill their boards."""
        if not rows.size:
            return
        self._refresh()
        k = self._world.k_of(rows)
        same = k == former_k
        stays, others = (rows, rows[:0]) if same.all() else (rows[same], rows[~same])
        self._listings.move(stays, *self._ends(stays), k[same])
        self._listings.remove(others, former_k[~same])
        self.entered(others)

    def _ends(self, rows: Rows) -> tuple[Floats, Floats]:
        lo, hi = (np.ascontiguousarray(end[:, 0]) for end in self._world.boxes(rows))
        return lo, hi

    def lists(self, rows: Rows) -> Lists:
        """The current results of the given subscriptions, read off their boards."""
        self._refresh()
        shelves, values = self._listings.shelves, self._world.objects["y"]
        keys = classes(self._listings.widths.keys(rows, self._world.k_of(rows)))
        found = [Lists(*shelves[key].listed(rows[mine], values)) for key, mine in keys]
        if len(found) < 2:
            return found[0] if found else empty_lists()
        joined = Lists._make(np.concatenate(columns) for columns in zip(*found, strict=True))
        place = np.empty(int(rows.max()) + 1, np.int64)
        place[rows] = np.arange(rows.size)
        return joined.at(np.lexsort((joined.rank, place[joined.subscription])))

    def external(self, rows: Rows, names: Names, *, scored: bool) -> External:
        """The same with the ids of outside, in one pass."""
        self._refresh()
        (shelf,) = self._listings.shelves.values()
        subscription, item, score, rank = shelf.external(rows, names, scored=scored)
        return External(arrow(integer_ids(subscription)), arrow(integer_ids(item)), score, rank)

    def exchanged(self, rows: Rows, names: Names) -> tuple[DeltaColumns, int]:
        """Index subscriptions anew with other ranges; what changes, as shown outside, in how many rows."""
        self._refresh()
        return self._listings.replace(rows, *self._ends(rows), names)

    def names(self) -> Names | None:
        """What is shown outside, by row; None unless there is one k, no list is open and ids are integers."""
        objects, subscriptions = self._world.objects, self._world.subscriptions
        if (
            [*self._listings.shelves][1:]
            or not self._listings.ks.size
            or objects.kind != "int"
            or subscriptions.kind != "int"
        ):
            return None
        return Names(subscriptions["code"], objects["code"], objects["y"])

    def held(self, rows: Rows) -> Held:
        """Copies of the boards of some subscriptions."""
        self._refresh()
        return self._listings.held(rows, self._world.k_of(rows))

    def since(self, held: Held, rows: Rows) -> Changes:
        """What has become of boards that were held: leaves and enters, as no object has changed."""
        told = self._listings.since(held, rows, self._world.k_of(rows), self._world.objects["y"])
        former = told.score[:0]
        if not self._world.alone:
            former = np.where(told.op == ENTER, np.nan, self._world.objects["y"][told.item])
        return Changes(*told, former)

    # Events

    def publish(self, events: Events) -> Changes:
        """Paint the batch, let its tiles meet the boards, and tell the net change."""
        if not events.row.size:
            return no_changes()
        self._refresh()
        world, listings = self._world, self._listings
        touched = np.unique(events.row)
        old = world.objects["y"][touched].copy()
        self._follow(events)
        self._make_room(events)
        affected, tried, tally = listings.affected, listings.tried, self._painter.tally.copy()
        ks, steps = listings.ks, keyed(self._world, events)
        told = listings.open_tiles(steps)
        tiles = self._painter.paint(steps, ks if ks.size else np.array([1]))
        world.place(events)
        found = listings.apply(tiles, touched, told)
        self._count_questions(tally)
        world.count["affected"] += listings.affected - affected
        world.count["candidates"] += listings.tried - tried
        if not found:
            return no_changes()
        place = world.subscriptions.place
        rows = listings.deltas(found, place, world.subscriptions.next_sequence)
        score = world.key(rows.score) if world.descending else rows.score
        subscription, op, item = rows.subscription, rows.op, rows.item
        if world.alone:  # written out before the buffers are used again
            return Changes(subscription, op, item, score, rows.rank, former=score[:0])
        former = self._former(touched, old, op, item)
        return Changes(subscription.copy(), op.copy(), item.copy(), score, rows.rank, former)

    def _make_room(self, events: Events) -> None:
        """Let no list that is held open be filled by the objects that come or move in a batch."""
        if not any(key < 0 or key > widths.NARROW for key in self._listings.shelves):
            return
        x, y = self._world.objects["x"][events.row], self._world.objects["y"][events.row]
        there, was = ~np.isnan(events.y), ~np.isnan(y)
        comes = there & (~was | (x != events.x).any(axis=1))
        goes = was & (~there | comes)
        self._listings.make_room(events.x[comes], int(goes.sum()), self._world.k_of)

    def _former(self, touched: Rows, old: Floats, op: NDArray[np.int8], item: Rows) -> Floats:
        """The scores that items had before the batch, NaN for those that enter."""
        score: Floats = self._world.objects["y"].copy()
        score[touched] = old
        return np.where(op == ENTER, np.nan, score[item])

    def _follow(self, events: Events) -> None:
        """Give the object index the labels of new objects, or of all if they were spread anew."""
        objects = self._world.objects
        rows = np.unique(events.row)
        if objects.relabelled != self._relabelled:
            rows, self._relabelled = objects.live(), objects.relabelled
        self._index.set_labels(rows, objects.label[rows])

    def _count_questions(self, before: Ints) -> None:
        asked = self._painter.tally - before
        for name, which in (("firstk", FIRSTK), ("miny", MINY), ("snap", SNAP)):
            self._world.count[name] += int(asked[which])

    def _refresh(self) -> None:
        """Fill all boards again if they are stale."""
        if self._stale:
            self._listings.refill(self._world.k_of)
            self._stale = False

    def disseminate(self, events: Events, method: str, epsilon: float | None, *, batch: bool) -> TileRows:
        """Paint the batch and hand the tiles out; the boards are stale afterwards."""
        self._follow(events)
        tally = self._painter.tally.copy()
        points = None if method in BLIND else self._listings.points()
        sender = Sender(self._world, self._painter, NOBODY if points is None else points)
        tiles = sender.send(events, method, epsilon, batch=batch)
        self._count_questions(tally)
        self._stale = True
        return tiles


def _under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
