"""What engines with moving queries share: objects that come and go, queries that move.

A subscription is a query at a place; its result depends on the place and on all objects. A subclass says how
objects are scored from a place (`_scores`) and which of them are the result (`_result`); by itself that makes
the brute force, `method="scan"`. A subclass with another method overrides what is done when queries
(`_move`) and objects (`_store`, `_forget`) change.

Objects and queries that move: where they are, and whether every object has a score from every query.

Which places and objects of moving queries are accepted: what they and the settings alone tell.

- x and y of objects and queries are within `reach` of 0 (on the globe: any place);
- an object has a finite score at distance 0 and at the farthest that two such places may be apart.

Scores never fall as distance grows: what is finite at both ends is finite between them, from every query
there may be. So whether an object is accepted does not depend on queries, nor the other way round, and
shards that have some of the queries each accept the same objects. A function of one's own may well be
infinite at the farthest and of use where the queries are: it is asked about those.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core.engine import ID, Engine, Part
from rankcast.core.lists import ListEngine
from rankcast.errors import InputError, shown
from rankcast.moving import scoring
from rankcast.moving.brute_force import Objects, distances_to
from rankcast.moving.kernels.zone_follow import last_of_each, rows_in_order
from rankcast.moving.places import PLACE, check_globe, fixed, unscored
from rankcast.moving.scoring import Score
from rankcast.moving.undo import Step, Undo, columns_of, release
from rankcast.structures import hashing, integrity
from rankcast.structures.distance import HALF_CIRCUMFERENCE
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.tables import deltas, read, schema
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Batch, Column, Floats, Ids, Rows

_EXPONENTS = range(150, -1, -1)  # of reach; the square of a distance is still a number
_ROOM = 1e150  # what a score may be at the farthest, of attributes of 1: the rest is left to other attributes


@dataclass(frozen=True)
class Reach:
    """How far places may be from 0, and objects from queries.

    Attributes:
        score: what is checked at both ends of distance; None: nothing is.
        reach: the largest x or y, infinite on the globe.
        farthest: the largest distance.
        certain: whether what is accepted has finite scores from everywhere.
    """

    score: Score | None
    reach: float
    farthest: float
    certain: bool

    def check_places(self, x: Floats, y: Floats, where: str) -> None:
        """Refuse places that are too far from 0."""
        for name, values in (("x", x), ("y", y)):
            far = np.abs(values) > self.reach
            if far.any():
                row = int(np.argmax(far))
                expected = f"a number within {self.reach:g} of 0"
                raise InputError(f"is {values[row]:g}", where=where, column=name, row=row, expected=expected)

    def check_scores(self, ids: Ids, attributes: Floats) -> None:
        """Refuse objects that have no finite score at both ends of distance."""
        if self.score is None or not len(attributes):
            return
        with np.errstate(all="ignore"):
            ends = [self.score(attributes, np.full(len(attributes), end)) for end in (0.0, self.farthest)]
        odd = np.flatnonzero(~np.isfinite(ends).all(0))
        if odd.size:
            raise unscored(f"object {show(ids, odd[0])}", "objects", odd[0])


def reach_of(settings: Mapping[str, Any]) -> Reach:
    """The reach of a moving engine, from its settings as they are saved."""
    form = settings.get("score")
    own = form is not None and form["name"] == "function"
    score = None if own or form is None else scoring.restored(form)
    if settings["metric"] == "haversine":
        return Reach(score, np.inf, HALF_CIRCUMFERENCE, not own)
    for exponent in _EXPONENTS:
        reach = 10.0**exponent
        farthest = 4 * reach  # along both axes; the straight way is shorter
        with np.errstate(all="ignore"):
            ones = np.ones((1, len(settings["over"])))
            if score is None or score(ones, np.array([farthest]))[0] <= _ROOM:
                break
    return Reach(score, reach, farthest, not own)


MANY = 64  # events, of which it pays to see whether they come in order


class MovingChecks(ListEngine):
    """Subscriptions in `_slots`, objects in `_objects`, both with places.

    Invariant: every live object has a finite score from the place of every live subscription.
    """

    _slots: Slots
    _objects: Slots
    _metric: str

    @cached_property
    def _reach(self) -> Reach:
        return reach_of(self._configuration)

    @abstractmethod
    def _scores(self, x: float, y: float, objects: Objects) -> Floats:
        """The scores of objects from a place."""

    def _check_attributes(self, attributes: Floats) -> None:
        """Refuse attributes (n, d) of objects for which there is no score anywhere."""

    def _all_scored(self, x: Floats, y: Floats) -> bool:
        """Whether it is certain, at little cost, that all objects have finite scores from these places."""
        return False

    def _scored_from_all(self, x: Floats, y: Floats, attributes: Floats) -> bool:
        """Whether it is certain, at little cost, that these objects have finite scores from all queries."""
        return False

    def _known(self, ids: Ids) -> Rows:
        """The rows of live subscriptions, which may come several times.

        Many that come as they were registered are found without looking each of them up.
        """
        slots = self._slots
        if ids.size >= MANY and ids.kind == slots.kind == "int":
            found: Rows = rows_in_order(slots["code"], slots["sequence"], slots.used, fixed(ids.values))
            if found.size:
                return found
        row = slots.find(ids, where="events")
        if (row < 0).any():
            first = int(np.argmax(row < 0))
            raise InputError(
                f"is {show(ids, first)}, which is not known",
                where="events",
                column="id",
                row=first,
                expected="a live subscription",
            )
        return row

    def _check_places(self, x: Floats, y: Floats, where: str) -> None:
        """Refuse places of queries that are too far, or from which an object has no finite score."""
        if self._metric == "haversine":
            check_globe(x, y, where)
        self._reach.check_places(x, y, where)
        if self._reach.certain or self._all_scored(x, y):
            return
        objects = self._all_objects()
        for row, place in enumerate(zip(x, y, strict=True)):
            odd = np.flatnonzero(~np.isfinite(self._scores(*place, objects)))
            if odd.size:
                item = self._objects.take(objects.row[odd[:1]])[0].as_py()
                raise unscored(f"object {shown(item)} from here", where, row)

    def _check_objects(self, ids: Ids, x: Floats, y: Floats, attributes: Floats) -> None:
        """Refuse objects that are too far, or have no finite score from where a query is or may be."""
        if self._metric == "haversine":
            check_globe(x, y, "objects")
        self._reach.check_places(x, y, "objects")
        self._check_attributes(attributes)
        self._reach.check_scores(ids, attributes)
        if self._reach.certain or self._scored_from_all(x, y, attributes):
            return
        objects = Objects(np.arange(x.size, dtype=np.int32), x.copy(), y.copy(), attributes)
        for subscription in self._slots.live():
            odd = np.flatnonzero(~np.isfinite(self._scores(*self._place(subscription), objects)))
            if odd.size:
                query = self._slots.take([subscription])[0].as_py()
                raise unscored(
                    f"object {show(ids, odd[0])} from subscription {shown(query)}", "objects", odd[0]
                )

    # Helpers

    def _place(self, row: int) -> tuple[float, float]:
        return float(self._slots["x"][row]), float(self._slots["y"][row])

    def _all_objects(self) -> Objects:
        """The live objects by id, so that a score is always asked for in the same order."""
        live = np.flatnonzero(self._objects["sequence"][: self._objects.used] >= 0).astype(np.int32)
        live = live[np.argsort(self._objects.label[live])]
        return Objects(live, *(self._objects[name][live] for name in ("x", "y", "attributes")))

    def _distances(self, x: float, y: float, objects: Objects) -> Floats:
        return distances_to(objects, x, y, self._metric)


METRICS = ("euclidean", "manhattan", "haversine")
METRICS_LATER = ("network",)
OBJECT = ("x", "y", "attributes")


def names_of(over: str | Sequence[str]) -> list[str]:
    """The setting `over`: attributes of objects, or none."""
    return schema.attributes("over", over, least=0, reserved=("id", "x", "y"))


class MovingEngine(MovingChecks):
    """The common ground of `MovingTopK` and `MovingSkyline`."""

    calls = (*Engine.calls, "upsert", "remove")
    counters: ClassVar[tuple[str, ...]] = ("recomputed", "nodes_accessed")
    methods: ClassVar[tuple[str, ...]] = ("scan",)
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"method": "scan"},)
    scores_move = True
    _amendable: ClassVar[tuple[str, ...]] = ("x", "y")

    def __init__(
        self,
        configuration: dict[str, Any],
        *,
        over: list[str],
        metric: str,
        method: str,
        extra: str,
        tuning: Mapping[str, Any] | None,
    ) -> None:
        self._over = over
        self._metric = schema.one_of("metric", metric, METRICS, later=METRICS_LATER)
        self._method = schema.one_of("method", method, self.methods)
        shared = {"over": self._over, "metric": self._metric, "method": self._method}
        super().__init__({**shared, **configuration}, extra=extra, tuning=tuning)
        place = {"x": np.float64, "y": np.float64}
        self._slots = self._new_slots()
        self._objects = Slots({**place, "attributes": (np.float64, len(self._over))}, ordered=True)
        self._undo = Undo(self._count, self._standing)

    # What a subclass provides

    @abstractmethod
    def _result(self, row: int, objects: Objects) -> tuple[Rows, Floats]:
        """The result of a subscription: places among all objects, best first, and their scores."""

    def _new_slots(self) -> Slots:
        """Subscriptions, none yet."""
        return Slots({"x": np.float64, "y": np.float64})

    # Functions of one's own, which may fail in the middle of a change

    def _subscribe_alone(self, rows: Any) -> pa.Table:
        with self._undo():
            return super()._subscribe_alone(rows)

    def _subscribe(self, rows: Any) -> Changes:
        with self._undo():
            return super()._subscribe(rows)

    def _amend(self, rows: Any) -> Changes:
        with self._undo():
            return super()._amend(rows)

    def _standing(self) -> Step:
        """A step that says that a call which had begun to change the engine has changed nothing after all."""
        turn = getattr(self, "_turn", None)
        begun, changing = getattr(turn, "begun", 0), getattr(turn, "changing", False)

        def back() -> None:
            if turn is not None:
                turn.begun, turn.changing = begun, changing

        return back

    # What the base asks for

    @property
    def _subscriptions(self) -> Slots:
        return self._slots

    @property
    def _items(self) -> Slots:
        return self._objects

    @property
    def _updates(self) -> bool:
        return False

    def _parts(self) -> dict[str, Part]:
        return {"subscription": self._slots, "object": self._objects}

    def _check_restored(self) -> None:
        for slots, name in ((self._slots, "subscription"), (self._objects, "object")):
            live = slots._live()
            x, y = slots["x"][live], slots["y"][live]
            integrity.finite(x, f"{name}.x")
            integrity.finite(y, f"{name}.y")
            if self._metric == "haversine":
                check_globe(x, y, name)
            self._reach.check_places(x, y, name)
        attributes = self._objects["attributes"][live]
        integrity.finite(attributes, "object.attributes")
        self._check_attributes(attributes)
        self._reach.check_scores(self._objects._ids_at(live), attributes)

    def _columns(self) -> list[Column]:
        return PLACE

    def _fields(self, batch: Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        place = {name: batch[name] if name in batch else self._slots[name][rows] for name in ("x", "y")}
        self._check_places(place["x"], place["y"], "subscriptions")
        return place

    def _entered(self, rows: Rows) -> None:
        self._undo.note(lambda: release(self._slots, rows))
        self._placed(rows)

    def _amending(self, rows: Rows) -> None:
        if self._undo.noting:
            self._undo.note(columns_of(self._slots, self._amendable, rows))

    def _amended(self, rows: Rows) -> None:
        self._placed(rows)

    def _placed(self, rows: Rows) -> None:
        """Subscriptions are new, or have changed."""
        self._count_recomputed(rows.size)

    def _lists(self, rows: Rows) -> Lists:
        objects = self._all_objects()
        found = [self._result(row, objects) for row in rows]
        items = [objects.row[places] for places, _ in found]
        return deltas.gather_lists(rows, items, [scores for _, scores in found])

    def _publish(self, rows: Any) -> Changes:
        batch = self._read(rows, [ID, *PLACE], "events")
        row = self._known(batch.ids)
        self._check_places(batch["x"], batch["y"], "events")
        with self._undo():
            self._begin()
            self._count["events"] += batch.size
            if (row[1:] > row[:-1]).all():
                return self._move(row, batch["x"], batch["y"])
            last = last_of_each(row, self._slots.used)
            return self._move(row[last], batch["x"][last], batch["y"][last])

    def _move(self, rows: Rows, x: Floats, y: Floats) -> Changes:
        """Bring queries, each once, to new places."""
        before = self._lists(rows)
        if self._undo.noting:
            self._undo.note(columns_of(self._slots, ("x", "y"), rows))
        self._write(rows, {"x": x, "y": y})
        self._count_recomputed(rows.size)
        return deltas.difference(before, self._lists(rows), self._slots.place, updates=False)

    # Objects

    def upsert(self, rows: Any) -> pa.Table:
        """Insert objects, or replace those that are there; returns the changes of results.

        Rows need `id`, `x`, `y` and every attribute. Of rows with the same id the last one holds.
        """
        return self._answer(self._upsert(rows))

    def remove(self, ids: Any) -> pa.Table:
        """Remove objects; returns the changes of results."""
        return self._answer(self._remove(ids))

    def _upsert(self, rows: Any) -> Changes:
        batch = self._read(rows, [ID, *PLACE, *map(Column, self._over)], "objects")
        row = self._objects.find(batch.ids, where="objects")
        attributes = np.empty((batch.size, len(self._over)))
        for place, name in enumerate(self._over):
            attributes[:, place] = batch[name]
        self._check_objects(batch.ids, batch["x"], batch["y"], attributes)
        number, first = hashing.distinct(keys_of(batch.ids))
        last = np.empty(first.size, np.int64)
        last[number] = np.arange(batch.size)
        given = Objects(row[first], batch["x"][last], batch["y"][last], attributes[last])
        ids = select(batch.ids, first)
        with self._undo():
            self._begin()
            return self._store(ids, given)

    def _store(self, ids: Ids, given: Objects) -> Changes:
        """Store objects, each once; a row of -1 is new."""
        live = self._slots.live()
        before = self._lists(live)
        self._write_objects(ids, given)
        return self._changed(live, before)

    def _write_objects(self, ids: Ids, given: Objects) -> Rows:
        """Give rows to new objects and write all of them; returns their rows."""
        row, new = given.row.copy(), given.row < 0
        if self._undo.noting:
            self._undo.note(columns_of(self._objects, OBJECT, given.row[~new]))
        row[new] = self._objects.add(select(ids, np.flatnonzero(new)))
        for name, values in (("x", given.x), ("y", given.y), ("attributes", given.attributes)):
            self._objects[name][row] = values
        self._undo.note(lambda: release(self._objects, row[new]))
        return row

    def _remove(self, ids: Any) -> Changes:
        gone = self._objects.require(self._ids(ids), where="ids")
        with self._undo():
            self._begin()
            return self._forget(gone)

    def _forget(self, gone: Rows) -> Changes:
        """Forget objects."""
        live = self._slots.live()
        before = self._lists(live)
        if self._undo.noting:
            ids = read.read_ids(self._objects.take(gone), where="ids")
            held = Objects(np.full_like(gone, -1), *(self._objects[name][gone] for name in OBJECT))
            self._undo.note(lambda: self._come_back(ids, held))
        self._objects.release(gone)
        return self._changed(live, before)

    def _come_back(self, ids: Ids, held: Objects) -> None:
        """Let objects be there again that were released."""
        self._write_objects(ids, held)

    def _changed(self, live: Rows, before: Lists) -> Changes:
        """The changes that other objects cause; here a new score is told."""
        self._count_recomputed(live.size)
        return deltas.difference(before, self._lists(live), self._slots.place)

    # Helpers

    def _circles(
        self, rows: Rows, centre: tuple[Floats, Floats], radius: Floats, members: Sequence[Rows]
    ) -> pa.Table:
        """Zones as a table: circles with members."""
        ends = np.cumsum([0, *(len(each) for each in members)])
        joined = np.concatenate([*members, np.empty(0, np.int32)])
        return pa.table(
            {
                "subscription": self._slots.take(rows),
                "x": centre[0],
                "y": centre[1],
                "radius": radius,
                "members": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), self._objects.take(joined)),
            }
        )

    def _points(self, rows: Rows, members: Sequence[Rows]) -> pa.Table:
        """Zones of radius 0: nothing is known beyond the place itself."""
        return self._circles(
            rows, (self._slots["x"][rows], self._slots["y"][rows]), np.zeros(rows.size), members
        )

    def _count_recomputed(self, size: int) -> None:
        """Results that were computed anew, each from all objects."""
        self._count["recomputed"] += size
        self._count["candidates"] += size * len(self._objects)
