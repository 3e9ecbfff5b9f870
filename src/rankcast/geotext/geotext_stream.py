"""Messages that come and go in `GeoTextTopK`: the window, their words, what a batch counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rankcast.core.lists import ListEngine
from rankcast.geotext import geotext_batches
from rankcast.geotext.decay import Decay
from rankcast.geotext.geotext_batches import Plan
from rankcast.geotext.geotext_live import Live
from rankcast.geotext.places import Space
from rankcast.geotext.vectors import LiveTerms, Vectors
from rankcast.geotext.windows import TimeWindow, Window
from rankcast.structures.ids import Slots, select
from rankcast.tables import deltas
from rankcast.tables.deltas import Changes
from rankcast.tables.schema import Batch, Floats, Form, Ints, Rows


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
        plan = geotext_batches.plan(batch.ids, time, self._window, self._messages)
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
