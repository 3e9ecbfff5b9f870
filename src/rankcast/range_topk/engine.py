"""`RangeTopK`: the k best objects in a range, for every subscription, kept current and explained.

The explanations of one attribute show an object's influence region. With c better objects at the same x, the
object is in the lists of ranges that hold at most k - 1 - c better ones elsewhere. Let l_1 > l_2 > ... be the
x of better objects to the left and r_1 < r_2 < ... those to the right; then the region is a staircase of
tiles, one for each way to hold a on the left and at most k - 1 - c - a on the right. [Range §II-D]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core import turns
from rankcast.core.engine import ID, Part
from rankcast.core.lists import ListEngine
from rankcast.core.spec import LISTS, Setting
from rankcast.errors import InputError, SettingError
from rankcast.range_topk.brute_force import BruteForce, top_k
from rankcast.range_topk.kept_lists import KeptLists
from rankcast.range_topk.state import (
    NULLS,
    OP,
    Events,
    Method,
    Objects,
    RangeState,
    emptied,
    refuse_nan,
    resolve,
)
from rankcast.structures import integrity
from rankcast.structures.ids import Slots
from rankcast.tables import boxes, deltas, schema
from rankcast.tables.deltas import Changes, External, Lists
from rankcast.tables.read import attempted
from rankcast.tables.schema import Batch, Column, Floats, Form, Rows


class Influence(NamedTuple):
    """The region of one object: better objects nearest to it, and a tile a step from west to east.

    A tile is lo_outer < lo <= lo_inner, hi_inner <= hi < hi_outer; an outer end of NaN is no bound.
    """

    left: Rows
    right: Rows
    tiles: Floats  # (steps, 4)


def influence(objects: Objects, row: int, k: int) -> Influence:
    """The region of the object in `row`. Cost: one pass over the objects."""
    place, k = int(np.flatnonzero(objects.row == row)[0]), min(k, objects.row.size)
    x, key, label = objects.x[:, 0], objects.key, objects.label
    mine = x[place]
    better = (key < key[place]) | ((key == key[place]) & (label < label[place]))
    steps = k - int((better & (x == mine)).sum())
    west, east = np.flatnonzero(better & (x < mine)), np.flatnonzero(better & (x > mine))
    left = west[np.argsort(-x[west], kind="stable")][: max(steps, 0)]
    right = east[np.argsort(x[east], kind="stable")][: max(steps, 0)]
    lows = np.concatenate([[mine], x[left], np.full(max(steps, 0) + 1, np.nan)])
    highs = np.concatenate([x[right], np.full(max(steps, 0) + 1, np.nan)])
    tiles = [
        [lows[a + 1], lows[a], mine, highs[steps - 1 - a]] for a in range(steps) if not np.isnan(lows[a])
    ]
    kept = np.array([tile for tile in tiles[::-1] if tile[0] != tile[1]], np.float64).reshape(-1, 4)
    return Influence(objects.row[left], objects.row[right], kept)


def explain(state: RangeState, over: list[str], subscription: int, item: int, lists: Lists) -> dict[str, Any]:
    """Score, rank, the score to beat, what keeps an object out; `lists` is the subscription's result."""
    mine = np.array([subscription], np.int32)
    k = int(state.k_of(mine)[0])
    report: dict[str, Any] = {
        "score": float(state.objects["y"][item]),
        "rank": None,
        "in_result": bool((lists.item == item).any()),
        "score_to_beat": float(lists.score[k - 1]) if lists.item.size == k else None,
    }
    box, place = state.boxes(mine), state.objects["x"][item]
    outside = ((place < box.lo) | (place > box.hi))[0]
    if outside.any():
        return {**report, "reason": f"{over[int(np.argmax(outside))]} is outside the range"}
    objects = state.live_objects()
    everyone = objects.row[top_k(box, np.array([objects.row.size]), objects)[0]]
    ahead = int(np.flatnonzero(everyone == item)[0])
    report |= {"rank": ahead + 1, "better": state.objects.take(everyone[:ahead][:k]).to_pylist()}
    if len(over) == 1:
        report["tiles"] = influence(objects, item, k).tiles.tolist()
    if report["in_result"]:
        return {**report, "reason": "in the result"}
    need = ahead - k + 1
    return {
        **report,
        "reason": f"{k} objects in the range are better; {need} of those ahead must fall behind",
    }


def region(state: RangeState, item: int, live: Rows, held: Lists) -> dict[str, Any]:
    """The influence region of an object in one attribute; `live` with the results `held` are those shown."""
    objects = state.live_objects()
    found = influence(objects, item, state.k)
    box = state.boxes(live)
    return {
        "x": float(state.objects["x"][item, 0]),
        "y": float(state.objects["y"][item]),
        "tiles": found.tiles,
        "left": state.objects.take(found.left).to_pylist(),
        "right": state.objects.take(found.right).to_pylist(),
        "objects_x": objects.x[:, 0],
        "objects_y": state.key(objects.key),
        "bounding": np.flatnonzero(np.isin(objects.row, [*found.left, *found.right])),
        "lo": box.lo[:, 0].copy(),
        "hi": box.hi[:, 0].copy(),
        "lists": np.isin(live, held.subscription[held.item == item]),
    }


METHODS = ("sparse", "dense", "unicast", "relax", "scan")
APPROXIMATE = ("sparse", "dense")


def _ends(settings: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """The columns of a range, and what a null in each means."""
    ends = (("lo", -np.inf), ("hi", np.inf))
    return tuple((f"{name}_{end}", missing) for name in settings["over"] for end, missing in ends)


class RangeTopK(ListEngine):
    """The k objects of smallest `by` inside each subscription's range over `over`.

    Args:
        over: the attribute that ranges are over, or a list of up to three.
        by: the attribute that ranks.
        k: how many objects a subscription wants, unless it says so itself; up to 2**31 - 1. A list costs what
            it holds, whatever its k.
        order: "asc" for the smallest `by`, "desc" for the largest; ties go to the smaller id.
        method: how affected subscriptions are found: "sparse", "dense", "unicast" or "relax", which differ
            in what `disseminate` sends, or "scan", the brute force.
        epsilon: share of k by which dissemination with "sparse" or "dense" may exceed it, in (0, 1].
        nulls: what a null in the column `by` of an event does: "delete" deletes the object, "keep" keeps its
            value, "refuse" refuses the batch.
        max_k: what no k may exceed, neither the engine's nor a subscription's.
        extra: "forbid" or "ignore" columns that are not known.
        tuning: "sketch": how many boxes stand for all subscriptions when `disseminate` paints with "sparse";
            fewer know less, and cost more messages, some of which reach nobody (0: no sketch).

    Events have `id` and attributes: a new id inserts and needs all of them; a known id updates what is given,
    and a column that is absent, or a null in a column of `over`, keeps its value. Where the rows of a batch
    give different attributes, a null in `by` is as likely to mean nothing as to mean deletion: the optional
    column `op` says it outright. "remove" deletes the object, whatever the other columns hold; "upsert"
    inserts or updates, and then a null in `by` keeps the value of a known object as in any other column; with
    nulls="refuse" it is refused all the same. `remove` deletes by id. NaN is never a null, not even in a
    frame of pandas', where one writes pd.NA in a nullable type ("Float64") for a null.

    >>> engine = RangeTopK(over="risk", by="pe", k=2)
    >>> engine.publish({"id": ["ACME", "BOLT", "CORE"], "risk": [3, 5, 8], "pe": [12.0, 9.5, 7.0]}).num_rows
    0
    >>> engine.subscribe({"id": [1], "risk_lo": [2], "risk_hi": [6]}).select(["op", "item"]).to_pylist()
    [{'op': 'enter', 'item': 'BOLT'}, {'op': 'enter', 'item': 'ACME'}]
    >>> engine.publish({"id": ["CORE"], "risk": [6]}).select(["op", "item", "rank"]).to_pylist()
    [{'op': 'leave', 'item': 'ACME', 'rank': None}, {'op': 'enter', 'item': 'CORE', 'rank': 1}]
    >>> engine.remove(["CORE"]).select(["op", "item", "rank"]).to_pylist()
    [{'op': 'leave', 'item': 'CORE', 'rank': None}, {'op': 'enter', 'item': 'ACME', 'rank': 2}]
    """

    spec = replace(
        LISTS,
        axes=_ends,
        settings={"nulls": Setting(default="refuse")},  # in a file, a null is hardly meant to delete
        title="the k best objects in a range",
    )
    calls = (*ListEngine.calls, "remove")
    variants = tuple({"method": method} for method in METHODS)
    counters = ("firstk", "miny", "snap", "messages", "affected")
    known_tuning: ClassVar[dict[str, Any]] = {"sketch": 0}

    def __init__(
        self,
        *,
        over: str | Sequence[str] = "x",
        by: str = "y",
        k: int = 10,
        order: str = "asc",
        method: str = "sparse",
        epsilon: float | None = None,
        nulls: str = "delete",
        max_k: int | None = None,
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        own = ("id", "item", "op")
        self._over = schema.attributes("over", over, most=3, reserved=own)
        self._by = schema.attributes("by", by, most=1, reserved=(*own, *self._over))[0]
        self._k = schema.whole("k", k)
        self._max_k = schema.ceiling("max_k", max_k, "k", self._k)
        self._order = schema.one_of("order", order, ["asc", "desc"])
        self._method = schema.one_of("method", method, METHODS)
        self._epsilon = _epsilon(epsilon, method)
        self._nulls = schema.one_of("nulls", nulls, NULLS)
        super().__init__(
            {
                "over": self._over,
                "by": self._by,
                "k": self._k,
                "order": self._order,
                "method": self._method,
                "epsilon": self._epsilon,
                # defaults are left out: states of before there was a choice have the same settings
                **({} if nulls == "delete" else {"nulls": nulls}),
                **({} if max_k is None else {"max_k": self._max_k}),
            },
            extra=extra,
            tuning=tuning,
        )
        self._state = RangeState(
            len(self._over),
            self._k,
            self._order == "desc",
            self._count,
            schema.whole('tuning["sketch"]', self._tuning["sketch"], least=0),
        )
        self._ends = self._columns()
        numbers = [Column(name, required=False, nullable=True) for name in [*self._over, self._by]]
        self._event_form = Form([ID, *numbers, OP])
        self._no_own_k = False  # known not to be: no live subscription has a k of its own
        self._former_k = np.empty(0, np.int64)  # of the subscriptions that are being amended
        self._kept = None if method == "scan" else KeptLists(self._state)
        self._lists_method: Method = self._kept or BruteForce(self._state)

    # What the base asks for

    @property
    def _subscriptions(self) -> Slots:
        return self._state.subscriptions

    @property
    def _items(self) -> Slots:
        return self._state.objects

    def _parts(self) -> dict[str, Part]:
        return {**self._state.parts(), **self._lists_method.parts()}

    def _check_restored(self) -> None:
        boxes.check_boxes(self._state.subscriptions["lo"], self._state.subscriptions["hi"])
        integrity.within(self._state.subscriptions["k"], 0, integrity.MOST, "subscription.k")
        self._lists_method.check()

    def _columns(self) -> list[Column]:
        return boxes.columns(self._over)

    def _fields(self, batch: Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        whole = rows is None or all(column.name in batch for column in self._ends)
        held = None if whole or rows is None else self._state.boxes(rows)
        return boxes.read(batch, self._over, held, where="subscriptions")._asdict()

    def _lists(self, rows: Rows) -> Lists:
        return self._lists_method.lists(rows)

    def _external(self, rows: Rows, *, scored: bool) -> External:
        names = None if self._kept is None else self._kept.names()
        if self._kept is None or names is None:
            return super()._external(rows, scored=scored)
        return self._kept.external(rows, names, scored=scored)

    def _entered(self, rows: Rows) -> None:
        self._no_own_k = False
        self._lists_method.entered(rows)

    def _amending(self, rows: Rows) -> None:
        self._former_k = self._state.k_of(rows)

    def _amended(self, rows: Rows) -> None:
        self._no_own_k = False
        self._lists_method.amended(rows, self._former_k)

    def _leaving(self, rows: Rows) -> None:
        self._lists_method.leaving(rows)

    def _held(self, rows: Rows) -> Any:
        return self._lists_method.held(rows)

    def _since(self, held: Any, rows: Rows) -> Changes:
        return self._lists_method.since(held, rows)

    def _amend_alone(self, rows: Any) -> pa.Table:
        changed, fields = self._amendment(rows)
        names = None if self._kept is None or "k" in fields else self._kept.names()
        if self._kept is None or names is None:
            self._state.alone = True
            try:
                return self._answer(self._change(changed, fields))
            finally:
                self._state.alone = False
        self._begin()
        self._write(changed, fields)
        return self._told(deltas.exchanged(*self._kept.replace(self._in_order(changed), names)))

    def _publish_alone(self, rows: Any) -> pa.Table:
        self._state.alone = True
        try:
            return self._answer(self._follow(self._read_events(rows)))
        finally:
            self._state.alone = False

    def _publish(self, rows: Any) -> Changes:
        return self._follow(self._read_events(rows))

    def _read_events(self, rows: Any) -> Events:
        self._refuse_nan(rows)
        given = attempted(lambda: emptied(rows, [*self._over, self._by]), "events")
        batch = self._read(given, self._event_form, "events")
        steps = resolve(batch, self._items, self._over, self._by, self._nulls)
        self._begin()
        self._count["events"] += batch.size
        return self._state.begin(steps)

    @turns.inside
    def check_rows(self, call: str, rows: Any) -> None:
        """Refuse a NaN of pandas' among the numbers of events: in an Arrow table it would be a null."""
        if call == "publish":
            self._refuse_nan(rows)

    def _refuse_nan(self, rows: Any) -> None:
        attempted(lambda: refuse_nan(rows, [*self._over, self._by]), "events")

    def remove(self, ids: Any) -> pa.Table:
        """Delete objects; returns the changes of results. Each of them is an event in `stats()`."""
        self._state.alone = True
        try:
            return self._answer(self._remove(ids))
        finally:
            self._state.alone = False

    def _remove(self, ids: Any) -> Changes:
        gone = self._items.require(self._ids(ids), where="ids")
        self._begin()
        self._count["events"] += gone.size
        x, y = self._state.objects["x"][gone], np.full(gone.size, np.nan)
        return self._follow(Events(gone, x, y, gone.size))

    def _follow(self, events: Events) -> Changes:
        """Bring objects and results to what events make of them."""
        changes = self._lists_method.publish(events)
        if events.gone:
            self._state.end(events)
        return changes

    # Dissemination

    def disseminate(
        self, rows: Any, *, method: str | None = None, epsilon: float | None = None, batch: bool = False
    ) -> pa.Table:
        """Apply a batch and return the tiles a server would send into a content-driven network.

        One row a message, in sending order. A message goes to every subscription with
        `lo_outer < lo <= lo_inner` and `hi_inner <= hi < hi_outer`; a null outer end is no bound.
        With `batch` the messages are those of the net change, otherwise of event after event.
        `epsilon` is for "sparse" and "dense"; the engine's own counts there alone. It saves messages event
        after event; with `batch` they are exact whatever it is, as nobody then hears of an item that did not
        change in its list.
        An engine that scans answers every method but "relax" alike, exactly.

        In `stats()`, `affected` grows where exact messages are made by looking at subscriptions; "dense"
        and "relax" never do, so they cannot count it, nor can a sketch or epsilon.
        """
        return self._disseminate(rows, method or self._method, epsilon, "net" if batch else "online")

    def _disseminate(self, rows: Any, method: str, epsilon: float | None, plan: str) -> pa.Table:
        """Disseminate by a plan: "online" (event after event), "coalesce" or "net" (Paint-Batch).

        "coalesce" is event after event, but with one event an object, its last. [Range §V]
        """
        from rankcast.range_topk.dissemination import protocol  # noqa: PLC0415  on first use

        chosen = schema.one_of("method", method, METHODS)
        batch = schema.one_of("plan", plan, ["online", "coalesce", "net"]) == "net"
        approximate = _epsilon(epsilon, chosen)
        if epsilon is None and chosen in APPROXIMATE:
            approximate = self._epsilon
        if not self._no_own_k:
            protocol.refuse_own_k(self._subscriptions)
            self._no_own_k = True
        if self._kept is not None:
            self._kept.refuse(chosen)
        events = self._read_events(rows)
        applied = events.coalesced() if plan == "coalesce" else events
        tiles = self._lists_method.disseminate(applied, chosen, None if batch else approximate, batch=batch)
        self._count["messages"] += tiles.row.size
        table = protocol.to_table(tiles, self._over, self._by, self._items)
        self._state.end(events)
        self._settle()
        return table

    # Explanation

    def explain(self, subscription: Any, item: Any) -> dict[str, Any]:
        """Why an object is or is not in a result: score, rank, the score to beat, what keeps it out.

        `better` are the first k objects ahead of it in the range: when enough of them fall behind, it is
        exposed. `tiles` are its influence region, lines (lo_outer, lo_inner, hi_inner, hi_outer) with NaN for
        no bound: it is in the result exactly if (lo, hi) of the subscription lies in one of them.
        """
        mine = self._find_one(self._subscriptions, subscription, "subscription")
        row = self._find_one(self._items, item, "item")
        lists = self._lists(np.array([mine], np.int32))
        report = explain(self._state, self._over, mine, row, lists)
        return {"subscription": subscription, "item": item, **report}

    def influence(self, item: Any) -> dict[str, Any]:
        """The influence region of an object in one attribute: whose lists it is in, and what bounds that.

        `tiles` are lines (lo_outer, lo_inner, hi_inner, hi_outer), NaN for no bound, that hold exactly the
        ranges of `lo` and `hi` with `lists`; only subscriptions with the engine's k are shown. `bounding` are
        the places, among `objects_x` and `objects_y`, of the better objects that the region's steps lie at.
        """
        if len(self._over) > 1:
            raise InputError("the engine has several range attributes", where="influence", expected="one")
        row = self._find_one(self._items, item, "item")
        live = self._subscriptions.live()
        live = live[self._subscriptions["k"][live] == 0]
        report = region(self._state, row, live, self._lists(live))
        return {"item": item, "over": self._over[0], "by": self._by, **report}


def _epsilon(epsilon: float | None, method: str) -> float | None:
    """An epsilon, checked; only approximate methods take one."""
    if epsilon is None:
        return None
    share = schema.number("epsilon", epsilon, low=0, high=1, above=True)
    if method not in APPROXIMATE:
        raise SettingError(f'epsilon is not for method="{method}"', expected="sparse or dense")
    return share
