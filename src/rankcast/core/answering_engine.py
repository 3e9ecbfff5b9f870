"""The base class of engines over boxes that keep no results: a call has its own answer, or none."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from rankcast.core import locking
from rankcast.core.engine import ID, IDS, Command, Engine, Part, Refused
from rankcast.core.spec import Reading
from rankcast.structures import integrity
from rankcast.structures.ids import Slots, select
from rankcast.tables import boxes
from rankcast.tables.boxes import Boxes, check_boxes
from rankcast.tables.schema import Batch, Column, Form, Ids, Rows, arrow


class AnsweringEngine(Engine):
    """An engine whose subscriptions are boxes and whose events are points that it does not keep.

    It remembers only whether the ids of events are integers or strings: `_event_ids` never holds a row
    beyond the call that settles it.
    """

    _form: Form  # the columns of subscriptions

    def __init__(
        self,
        configuration: dict[str, Any],
        columns: Mapping[str, DTypeLike | tuple[DTypeLike, int]],
        *,
        over: list[str],
        ordered: bool,
        extra: str,
        tuning: Mapping[str, Any] | None,
        width: int | None = None,  # of boxes, if they have more columns than attributes
    ) -> None:
        super().__init__({"over": over, **configuration}, extra=extra, tuning=tuning)
        self._over, columns_of_boxes = over, len(over) if width is None else width
        ends = {"lo": (np.float64, columns_of_boxes), "hi": (np.float64, columns_of_boxes)}
        self._slots = Slots({**ends, **columns}, ordered=ordered)
        self._event_ids = Slots()
        self._event_form = Form([ID, *map(Column, over)])

    @property
    def _subscriptions(self) -> Slots:
        return self._slots

    def _parts(self) -> dict[str, Part]:
        return {"subscription": self._slots, "event": self._event_ids}

    def _check_restored(self) -> None:
        check_boxes(*self._intervals())
        integrity.need(not len(self._event_ids), "event.sequence", "holds events, which are not kept")

    @locking.inside
    def reads(self, call: str) -> Reading:
        """The columns that a call takes with these settings, and how errors name its rows."""
        if call == "publish":
            return Reading(self._event_form, "events")
        return Reading(self._form, "subscriptions") if call in ("subscribe", "amend") else IDS

    @abstractmethod
    def publish(self, events: Any) -> pa.Table:
        """Answer a batch of events; an empty batch gives an empty table."""

    def apply(
        self, commands: Iterable[Command | tuple[str, Any]], *, refused: Refused | None = None
    ) -> pa.Table:
        """Apply several calls in order; returns their answers one after the other. See `Engine.apply`.

        If the answers have different columns, the table has all of them, with nulls. Without any answer
        it is the empty answer of `publish`.
        """
        answers = self._accepted(commands, refused, self._own)
        told = [answer for answer in answers if answer is not None]
        if not told:
            return self._own("publish", {name: [] for name in ["id", *self._over]})
        full = [answer for answer in told if answer.num_rows]
        return pa.concat_tables(full or told[-1:], promote_options="permissive")

    # Helpers for subclasses

    def _intervals(self) -> Boxes:
        """The interval attributes of the boxes of all rows."""
        return Boxes(self._slots["lo"], self._slots["hi"])

    def _boxes(self, rows: Any) -> Boxes:
        return Boxes(self._slots["lo"][rows], self._slots["hi"][rows])

    def _read_boxes(self, batch: Batch, rows: Rows | None = None) -> Boxes:
        """The boxes of new subscriptions, or of live `rows`, which keep what is not given."""
        held = None if rows is None else self._boxes(rows)
        return boxes.read(batch, self._over, held, where="subscriptions")

    def _note_events(self, ids: Ids) -> None:
        """Count events, and remember the kind of their ids."""
        if self._event_ids.kind is None and ids.size:
            self._event_ids.release(self._event_ids.add(select(ids, [0])))
            self._event_ids.settle()
        self._count["events"] += ids.size

    def _events_at(self, ids: Ids, places: Any) -> pa.Array:
        """The ids of the events at some positions, of the settled kind even if there are none."""
        return arrow(select(ids, places)) if len(places) else self._event_ids.take(places)

    def _write(self, rows: Rows, fields: Mapping[str, NDArray[Any]]) -> None:
        for name, values in fields.items():
            self._slots[name][rows] = values
