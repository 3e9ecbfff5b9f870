"""`RangeTopK`: the k best objects in a range, for every subscription, kept current."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast import boxes, deltas, settings, tables
from rankcast.boxes import Boxes
from rankcast.columns import Column, Floats, Rows
from rankcast.deltas import Changes, Lists
from rankcast.engines import range_events
from rankcast.engines.base import ID, Part
from rankcast.engines.brute_force import tiles
from rankcast.engines.brute_force.range_topk import Objects, top_k
from rankcast.engines.lists import ListEngine
from rankcast.engines.range_events import Steps
from rankcast.errors import InputError, SettingError
from rankcast.indexes.slots import Slots, select

METHODS = ("scan", "unicast")
LATER = ("dense", "sparse", "relax")


class RangeTopK(ListEngine):
    """The k objects of smallest `by` inside each subscription's range over `over`.

    Args:
        over: the attribute that ranges are over, or a list of up to three.
        by: the attribute that ranks.
        k: how many objects a subscription wants, unless it says so itself.
        order: "asc" for the smallest `by`, "desc" for the largest; ties go to the smaller id.
        method: how affected subscriptions are found.
        epsilon: share of k by which approximate dissemination may exceed it.
        extra: "forbid" or "ignore" columns that are not known.
        tuning: none yet.

    >>> engine = RangeTopK(over="risk", by="pe", k=2)
    >>> engine.publish({"id": ["ACME", "BOLT", "CORE"], "risk": [3, 5, 8], "pe": [12.0, 9.5, 7.0]}).num_rows
    0
    >>> engine.subscribe({"id": [1], "risk_lo": [2], "risk_hi": [6]}).select(["op", "item"]).to_pylist()
    [{'op': 'enter', 'item': 'BOLT'}, {'op': 'enter', 'item': 'ACME'}]
    >>> engine.publish({"id": ["CORE"], "risk": [6]}).select(["op", "item", "rank"]).to_pylist()
    [{'op': 'leave', 'item': 'ACME', 'rank': None}, {'op': 'enter', 'item': 'CORE', 'rank': 1}]
    """

    variants = tuple({"method": method} for method in METHODS)
    counters = ("firstk", "miny", "snap", "messages", "affected")

    def __init__(
        self,
        *,
        over: str | Sequence[str] = "x",
        by: str = "y",
        k: int = 10,
        order: str = "asc",
        method: str = "scan",
        epsilon: float | None = None,
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        self._over = settings.attributes("over", over, most=3, reserved=("id", "item"))
        self._by = settings.attributes("by", by, most=1, reserved=("id", "item", *self._over))[0]
        self._k = settings.whole("k", k)
        self._order = settings.one_of("order", order, ["asc", "desc"])
        self._method = settings.one_of("method", method, METHODS, later=LATER)
        self._refuse_epsilon(epsilon)
        super().__init__(
            {
                "over": self._over,
                "by": self._by,
                "k": k,
                "order": order,
                "method": method,
                "epsilon": epsilon,
            },
            extra=extra,
            tuning=tuning,
        )
        width = len(self._over)
        self._slots = Slots({"lo": (np.float64, width), "hi": (np.float64, width), "k": np.int64})
        self._objects = Slots({"x": (np.float64, width), "y": np.float64}, ordered=True)

    # What the base asks for

    @property
    def _subscriptions(self) -> Slots:
        return self._slots

    @property
    def _items(self) -> Slots:
        return self._objects

    def _parts(self) -> dict[str, Part]:
        return {"subscription": self._slots, "object": self._objects}

    def _columns(self) -> list[Column]:
        return boxes.columns(self._over)

    def _fields(self, batch: tables.Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        held = None if rows is None else self._boxes(rows)
        return boxes.read(batch, self._over, held, where="subscriptions")._asdict()

    def _lists(self, rows: Rows) -> Lists:
        objects = self._all_objects()
        found = top_k(self._boxes(rows), self._k_of(rows), objects)
        items = [objects.row[places] for places in found]
        return deltas.gather_lists(rows, items, [self._objects["y"][item] for item in items])

    def _publish(self, rows: Any) -> Changes:
        steps = self._read_events(rows)
        live = self._slots.live()
        before = self._lists(live)
        self._apply(steps, steps.last())
        changes = deltas.difference(before, self._lists(live), self._slots.place)
        self._count["candidates"] += live.size
        self._count["affected"] += np.unique(changes.subscription).size
        return changes

    # Dissemination

    def disseminate(
        self, rows: Any, *, method: str | None = None, epsilon: float | None = None, batch: bool = False
    ) -> pa.Table:
        """Apply a batch and return the tiles a server would send into a content-driven network.

        One row a message, in sending order. A message goes to every subscription with
        `lo_outer < lo <= lo_inner` and `hi_inner <= hi < hi_outer`; a null outer end is no bound.
        With `batch` the messages are those of the net change, otherwise of event after event.
        """
        settings.one_of("method", method or self._method, METHODS, later=LATER)
        self._refuse_epsilon(epsilon)
        self._refuse_own_k()
        steps = self._read_events(rows)
        live = self._slots.live()
        ends = np.unique(np.hstack(self._boxes(live)), axis=0)
        ranges = Boxes(*np.hsplit(ends, 2))
        told: list[tiles.Message] = []
        before = self._all_objects()
        for part in [steps.last()] if batch else np.arange(steps.of.size)[:, None]:
            for after in self._moments(steps, part, whole=batch):
                fresh = tiles.messages(ranges, self._k, before, after)
                self._count["affected"] += len({message.box for message in fresh})
                told += fresh
                before = after
        self._count["candidates"] += live.size
        self._count["messages"] += len(told)
        table = self._tile_table(ranges, told)
        self._settle()
        return table

    def _moments(self, steps: Steps, part: Rows, *, whole: bool) -> Iterator[Objects]:
        """All objects after some events; a single move passes through a moment without the object."""
        row = (
            self._objects.find(steps.ids, where="events")[steps.of[part[0]]]
            if part.size and not whole
            else -1
        )
        if (
            row >= 0
            and not np.isnan(steps.y[part[0]])
            and (self._objects["x"][row] != steps.x[part[0]]).any()
        ):
            objects = self._all_objects()
            yield Objects(*(column[objects.row != row] for column in objects))
        self._apply(steps, part)
        yield self._all_objects()

    def _tile_table(self, ranges: Boxes, told: list[tiles.Message]) -> pa.Table:
        """Messages as rows; a tile holds exactly one range."""
        box = [message.box for message in told]
        columns: dict[str, Any] = {}
        for place, name in enumerate(self._over):
            lo, hi = ranges.lo[box, place], ranges.hi[box, place]
            columns[f"{name}_lo_outer"] = pa.array(np.nextafter(lo, -np.inf), mask=lo == -np.inf)
            columns[f"{name}_lo_inner"] = lo
            columns[f"{name}_hi_inner"] = hi
            columns[f"{name}_hi_outer"] = pa.array(np.nextafter(hi, np.inf), mask=hi == np.inf)
        columns["item"] = self._objects.take([message.row for message in told])
        for place, name in enumerate(self._over):
            columns[name] = pa.array([message.x[place] for message in told], pa.float64())
        score = self._key(np.array([message.key for message in told], np.float64))
        columns[self._by] = pa.array(score, mask=np.isnan(score))
        return pa.table(columns)

    # Explanation

    def explain(self, subscription: Any, item: Any) -> dict[str, Any]:
        """Why an object is or is not in a result: score, rank, the score to beat, what keeps it out."""
        mine = self._find_one(self._slots, subscription, "subscription")
        row = self._find_one(self._objects, item, "item")
        score = float(self._objects["y"][row])
        k = int(self._k_of(np.array([mine], np.int32))[0])
        lists = self._lists(np.array([mine], np.int32))
        place = self._objects["x"][row]
        outside = (place < self._slots["lo"][mine]) | (place > self._slots["hi"][mine])
        told: dict[str, Any] = {"subscription": subscription, "item": item, "score": score, "rank": None}
        told["in_result"] = bool((lists.item == row).any())
        told["score_to_beat"] = float(lists.score[k - 1]) if lists.item.size == k else None
        if outside.any():
            name = self._over[int(np.argmax(outside))]
            told["reason"] = f"{name} is outside the range"
            return told
        objects = self._all_objects()
        everyone = top_k(self._boxes([mine]), np.array([objects.row.size]), objects)[0]
        told["rank"] = int(np.flatnonzero(objects.row[everyone] == row)[0]) + 1
        told["reason"] = "in the result" if told["in_result"] else f"{k} objects in the range are better"
        return told

    # Helpers

    def _boxes(self, rows: Any) -> Boxes:
        return Boxes(self._slots["lo"][rows], self._slots["hi"][rows])

    def _key(self, y: Floats) -> Floats:
        """What is ranked ascending."""
        return y if self._order == "asc" else -y

    def _all_objects(self) -> Objects:
        live = np.flatnonzero(self._objects["sequence"][: self._objects.used] >= 0).astype(np.int32)
        return Objects(
            live, self._objects["x"][live], self._key(self._objects["y"][live]), self._objects.label[live]
        )

    def _read_events(self, rows: Any) -> Steps:
        columns = [Column(name, required=False, nullable=True) for name in [*self._over, self._by]]
        batch = self._read(rows, [ID, *columns], "events")
        steps = range_events.resolve(batch, self._objects, self._over, self._by)
        self._count["events"] += batch.size
        return steps

    def _apply(self, steps: Steps, part: Rows) -> None:
        """Bring objects to what the given events (one an object at most) make of them."""
        of, x, y = steps.of[part], steps.x[part], steps.y[part]
        ids = select(steps.ids, of)
        row = self._objects.find(ids, where="events")
        stays = ~np.isnan(y)
        self._objects.release(row[(row >= 0) & ~stays])
        new = stays & (row < 0)
        row[new] = self._objects.add(select(ids, np.flatnonzero(new)))
        self._objects["x"][row[stays]] = x[stays]
        self._objects["y"][row[stays]] = y[stays]

    def _refuse_epsilon(self, epsilon: float | None) -> None:
        if epsilon is not None:
            settings.number("epsilon", epsilon, low=0, high=1, above=True)
            raise SettingError("epsilon is not available yet", expected="None")

    def _refuse_own_k(self) -> None:
        live = self._slots.live()
        own = live[self._slots["k"][live] > 0]
        if own.size:
            first = self._slots.take(own[:1])[0].as_py()
            raise InputError(
                f"subscription {first!r} has a k of its own",
                where="disseminate",
                expected="only subscriptions with the engine's k",
                hint="Amend k to null, or use publish.",
            )
