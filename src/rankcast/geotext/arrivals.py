"""Messages that come and go in `GeoTextTopK`: the window, their words, what a batch counts.

Batches of messages of `GeoTextTopK`, resolved: who is late, who stays, whose id is taken over.

Rows apply in order: an arrival moves the window first, and then its id must not be that of a live message. So
an id may come again in one batch, once its former bearer has gone. A late message is ignored, whatever its
id. All of it is worked out before anything changes, without a loop over rows. Cost: O(n log n) for n messages
that come or go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rankcast.core.lists import ListEngine
from rankcast.errors import InputError
from rankcast.geotext.live import Live
from rankcast.geotext.places import Space
from rankcast.geotext.window import Decay, TimeWindow, Window
from rankcast.geotext.words import LiveTerms, Vectors
from rankcast.structures import hashing
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.tables import deltas
from rankcast.tables.deltas import Changes
from rankcast.tables.schema import Batch, Floats, Form, Ids, Ints, Rows


class Plan(NamedTuple):
    """What a batch does to the window."""

    late: int  # arrivals that are ignored
    leaving: int  # held messages that leave: the first so many of the window
    staying: Rows  # arrivals that are in the window at the end
    held: Rows  # for each of them the row of the held message whose id it takes over, -1 if none


def plan_arrivals(ids: Ids, times: Ints, window: Window, messages: Slots) -> Plan:
    """Resolve a batch; raises if an id is that of a live message when it comes."""
    gone_held, gone = window.departures(times)
    late = gone <= np.arange(times.size)
    bearer = messages.find(ids, where="messages")
    bearer_gone = _gone_by_row(bearer, window.rows()[: gone_held.size], gone_held, times.size)
    number, _ = hashing.distinct(keys_of(ids))
    order = np.flatnonzero(~late)
    order = order[np.argsort(number[order], kind="stable")]  # arrivals that count, grouped by id
    again = np.diff(number[order], prepend=-1) == 0
    former_gone = np.where(again, np.roll(gone[order], 1), bearer_gone[order])
    clash = order[former_gone > order]
    if clash.size:
        row = int(clash.min())
        raise InputError(
            f"is {show(ids, row)}, which is that of a live message",
            where="messages",
            column="id",
            row=row,
            expected="an id that no live message has",
        )
    staying = np.flatnonzero(~late & (gone >= times.size)).astype(np.int32)
    return Plan(int(late.sum()), gone_held.size, staying, bearer[staying])


def _gone_by_row(rows: Rows, leaving: Rows, gone: Ints, size: int) -> Ints:
    """When the messages of `rows` leave: an arrival, `size` for one that stays, -1 for no row."""
    found = np.where(rows >= 0, size, -1)
    if leaving.size:
        order = np.argsort(leaving)
        place = order[np.minimum(np.searchsorted(leaving, rows, sorter=order), leaving.size - 1)]
        found = np.where(leaving[place] == rows, gone[place], found)
    return found


class MessageStream(ListEngine):
    """Adds `publish` to an engine with a window of messages; results are live, or else found by a scan."""

    _space: Space
    _window: Window
    _decay: Decay | None
    _arrivals: Form
    _slots: Slots
    _messages: Slots
    _texts: Vectors
    _terms: LiveTerms
    _live: Live | None

    def _publish(self, rows: Any) -> Changes:
        timed = isinstance(self._window, TimeWindow)
        batch = self._read(rows, self._arrivals, "messages")
        places = self._space.read(batch, "messages")
        time = batch["time"] if timed else np.zeros(batch.size, np.int64)
        plan = plan_arrivals(batch.ids, time, self._window, self._messages)
        leaving = self._window.rows()[: plan.leaving].copy()
        self._begin()
        self._age(time)

        def move() -> Rows:
            return self._move(batch, places, time, plan, leaving)

        self._tally(batch.size, plan)
        if self._live is not None:
            return self._live.turn(leaving, move, time[plan.staying])
        live = self._slots.live()
        before = self._lists(live)
        move()
        self._tally_scan(batch.size - plan.late, live.size)
        return deltas.difference(before, self._lists(live), self._slots.place)

    def _move(
        self, batch: Batch, places: Mapping[str, Floats], time: Ints, plan: Plan, leaving: Rows
    ) -> Rows:
        """Let messages come and go. References to terms are taken before any is given back."""
        staying = None if plan.staying.size == batch.size else plan.staying
        counts, entries = self._terms.acquire(batch["terms"], staying)
        self._terms.drop(self._texts.clear(leaving))
        self._messages.release(leaving[~np.isin(leaving, plan.held)])
        row, new = plan.held.copy(), plan.held < 0
        row[new] = self._messages.add(select(batch.ids, plan.staying[new]))
        for name, values in places.items():
            self._messages[name][row] = values[plan.staying]
        if self._decay is not None:
            self._messages["gain"][row] = self._decay.gains(time[plan.staying])
        self._texts.store(row, counts, entries)
        self._window.advance(plan.leaving, row, time[plan.staying])
        return row

    def _age(self, time: Ints) -> None:
        """Messages of some times come: where scores fade, see that gains stay numbers."""
        factor = 1.0 if self._decay is None else self._decay.advance(time)
        if factor != 1.0:
            if factor:
                self._messages["gain"][:] *= factor
            if self._live is not None:
                self._live.rescale(factor)

    def _tally(self, size: int, plan: Plan) -> None:
        """Count the messages of a batch."""
        self._count["events"] += size
        self._count["late"] += plan.late
        self._count["expired"] += plan.leaving + size - plan.late - plan.staying.size

    def _tally_scan(self, taken: int, live: int) -> None:
        """The scan tries and verifies every pair, and evaluates every result anew."""
        self._count["candidates"] += taken * live
        self._count["verified"] += taken * live
        self._count["reevaluations"] += live if taken else 0
