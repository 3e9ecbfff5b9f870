"""An engine of one's own: the k most similar of the most recent vectors, for every subscription.

It derives from `rankcast.core.list_engine.ListEngine`, which turns current results into deltas, batches and
snapshots, and says in `spec` what Spark, pipelines and shards need to know. Nothing in the package knows it:
`engine.name = "examples.similar_vectors:SimilarVectors"` in a pipeline's file is all it takes, as long as
this module can be imported. Results are found by brute force: a batch of events costs O(s w d) for s
subscriptions, a window of w vectors and d numbers each.

>>> engine = SimilarVectors(size=2, k=1, window=2)
>>> engine.publish({"id": ["east", "north"], "vector": [[1.0, 0.0], [0.0, 2.0]]}).num_rows
0
>>> engine.subscribe({"id": [7], "vector": [[3.0, 1.0]]}).select(["op", "item", "rank"]).to_pylist()
[{'op': 'enter', 'item': 'east', 'rank': 1}]
>>> engine.publish({"id": ["west"], "vector": [[-1.0, 0.0]]}).select(["op", "item"]).to_pylist()
[{'op': 'leave', 'item': 'east'}, {'op': 'enter', 'item': 'north'}]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import ID, Part
from rankcast.core.list_engine import ListEngine
from rankcast.core.spec import COMMANDS, Answer, Input, Spec
from rankcast.errors import InputError
from rankcast.structures import integrity
from rankcast.structures.ids import Slots, select
from rankcast.tables import deltas, schema
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Batch, Column, Floats, Form, Ids, Ints, Kind, Rows


class SimilarVectors(ListEngine):
    """The k vectors of the window with the highest cosine to each subscription's vector.

    Events have `id` and `vector`. The window holds the vectors of the `window` ids that were published last;
    an id that is published again has its new vector and is the newest. Equal cosines: the newer one first.

    Args:
        size: how many numbers a vector has.
        k: how many vectors a subscription wants, unless it says so itself.
        window: how many vectors are kept.
        extra: "forbid" or "ignore" columns that are not known.
        tuning: none.
    """

    spec = Spec(
        (
            Input("subscriptions", COMMANDS, divided=True, column="subscription"),
            Input("events", ("publish",), divided=False, column="item"),
        ),
        Answer("deltas", item="item", source="events"),
        title="the k most similar of the most recent vectors",
    )

    def __init__(
        self,
        *,
        size: int,
        k: int = 10,
        window: int = 1000,
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        self._size = schema.whole("size", size, most=65_536)
        self._k = schema.whole("k", k)
        self._window = schema.whole("window", window)
        settings = {"size": self._size, "k": self._k, "window": self._window}
        super().__init__(settings, extra=extra, tuning=tuning)
        self._vector = Column("vector", Kind.VECTOR, size=self._size)
        self._event_form = Form([ID, self._vector])
        unit = (np.float64, self._size)
        self._slots = Slots({"unit": unit, "k": np.int64})
        self._recent = Slots({"unit": unit, "arrival": np.int64})

    # What the base asks for

    @property
    def _subscriptions(self) -> Slots:
        return self._slots

    @property
    def _items(self) -> Slots:
        return self._recent

    def _parts(self) -> dict[str, Part]:
        return {"subscription": self._slots, "vector": self._recent}

    def _check_restored(self) -> None:
        """Refuse what no call can have left: vectors of another length, too many of them, equal arrivals."""
        integrity.within(self._slots["k"][self._slots.live()], 0, integrity.MOST, "subscription.k")
        for slots, name in ((self._slots, "subscription.unit"), (self._recent, "vector.unit")):
            lengths = (slots["unit"][slots.live()] ** 2).sum(axis=1)
            integrity.need((np.abs(lengths - 1.0) < 1e-9).all(), name, "is not of length 1")
        arrival = self._recent["arrival"][self._recent.live()]
        integrity.need(arrival.size <= self._window, "vector.arrival", "is of more than the window holds")
        integrity.need(np.unique(arrival).size == arrival.size, "vector.arrival", "comes twice")
        integrity.need((arrival >= 0).all(), "vector.arrival", "is below 0")

    def _columns(self) -> list[Column]:
        return [self._vector]

    def _slot_values(self, batch: Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        return {"unit": units(batch["vector"], "subscriptions")} if "vector" in batch else {}

    def _lists(self, rows: Rows) -> Lists:
        held = self._recent.live()
        vectors, newest = self._recent["unit"][held], -self._recent["arrival"][held]
        items, scores = [], []
        for row, k in zip(rows, self._k_of(rows), strict=True):
            # A sum a row, and no matrix product: how that is rounded depends on what else is multiplied.
            cosine = (vectors * self._slots["unit"][row]).sum(axis=1)
            best = np.lexsort((newest, -cosine))[:k]
            items.append(held[best])
            scores.append(cosine[best])
        return deltas.gather_lists(rows, items, scores)

    def _publish(self, rows: Any) -> Changes:
        batch = self._read(rows, self._event_form, "events")
        given = units(batch["vector"], "events")
        known = self._recent.find(batch.ids, where="events")
        self._begin()
        live = self._slots.live()
        before = self._lists(live)
        self._store(batch.ids, known, given)
        self._count["events"] += batch.size
        self._count["candidates"] += live.size * len(self._recent)
        return deltas.difference(before, self._lists(live), self._slots.place)

    def _store(self, ids: Ids, known: Rows, given: Floats) -> None:
        """Let vectors come, and the oldest go that the window has no room for.

        Of an id that comes several times the last one holds, so what stays are the last ids of all that are
        held and that come, each where it comes last. `known` are their rows, -1 of those that are new.
        """
        recent = self._recent
        last = _last_places(ids)
        held = recent.live()
        first = int(recent["arrival"][held].max(initial=-1)) + 1
        held = held[np.argsort(recent["arrival"][held])]
        held = held[~np.isin(held, known)]
        staying = last[max(0, last.size - self._window) :]
        room = self._window - staying.size
        gone = held[: max(0, held.size - room)]
        replaced = known[last[: last.size - staying.size]]
        recent.release(np.concatenate([gone, replaced[replaced >= 0]]).astype(np.int32))
        row = known[staying]
        row[row < 0] = recent.add(select(ids, staying[row < 0]))
        recent["unit"][row] = given[staying]
        recent["arrival"][row] = first + np.arange(row.size)


def _last_places(ids: Ids) -> Ints:
    """The places of ids, each where it comes last, in order."""
    names = schema.arrow(ids).to_pylist()
    return np.sort(np.array(list({name: place for place, name in enumerate(names)}.values()), np.int64))


def units(vectors: Floats, where: str) -> Floats:
    """Vectors (n, d) of length 1, in the same direction; one that has no direction is refused."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    if not largest.all():
        row = int(np.argmin(largest != 0))
        what = "has no direction"
        raise InputError(what, where=where, column="vector", row=row, expected="a number that is not 0")
    scaled = vectors / largest[:, None]  # its square is a number, however large or small the vector is
    found: Floats = scaled / np.sqrt((scaled**2).sum(axis=1))[:, None]
    return found
