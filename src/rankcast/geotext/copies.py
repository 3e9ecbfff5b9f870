"""Equal texts at one place, of which only the newest is told.

Two messages are copies if they have the same place and the same terms, each as often, and the same vector, if
they have vectors. For every subscription they have the same score, and the newer one ranks first; so which of
them counts does not depend on who asks: the newest is shown, and the others stay in the window hidden, in no
list. When the one that is shown leaves before its time (it is taken back, edited, or ends by itself), the
newest of the others is shown again.

Cost: one look-up a message, in Python; what is shown again is found by a pass over the window.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.geotext.vectors import VECTOR
from rankcast.geotext.window import Window
from rankcast.structures import integrity
from rankcast.structures.ids import Slots, select
from rankcast.tables import read
from rankcast.tables.schema import Batch, Bools, Ids, Ints, Rows, arrow

COPY = "copy"  # the column of messages: which text at which place a message is


class Shown(NamedTuple):
    """What a batch shows and hides.

    `hidden` rows are no longer shown, `again` those that are, and of the arrivals that stay those at `first`.
    """

    keys: Ids
    hidden: Rows
    again: Rows
    first: Ints


class Copies:
    """Texts at places that live messages have, by rows of their own, and the message that each shows.

    - Working out a batch: `plan`; carrying it out: `write`.
    - Reading: `shows`.
    """

    def __init__(self, messages: Slots) -> None:
        self._messages = messages
        self.slots = Slots({"alive": np.int64, "row": np.int32, "time": np.int64})

    def shows(self, rows: Rows) -> Bools:
        """Which messages are shown."""
        shown: Bools = self.slots["row"][self._messages[COPY][rows]] == rows
        return shown

    def plan(self, batch: Batch, staying: Rows, times: Ints, gone: Rows, window: Window) -> Shown:
        """What is shown once rows `gone` have left and those at `staying` of a batch have come."""
        keys, lost = _keys(batch, staying), np.unique(self._messages[COPY][gone[self.shows(gone)]])
        found = self.slots.find(keys, where="messages")
        best: dict[int, int] = {}  # the newest arrival by text; negative numbers are of new texts
        number = {key: -1 - at for at, key in enumerate(sorted(set(arrow(keys).to_pylist())))}
        for at, (row, key) in enumerate(zip(found.tolist(), arrow(keys).to_pylist(), strict=True)):
            group = row if row >= 0 else number[key]
            if group not in best or times[at] >= times[best[group]]:
                best[group] = at
        hidden, again = [], []
        missing = set(lost.tolist())
        left = self._left(missing, gone, window)
        for group in [*best, *(each for each in missing if each not in best)]:
            at, (row, time) = best.get(group, -1), (-1, 0)
            if group in missing:
                row, time = left.get(group, (-1, 0))
            elif group >= 0:
                row, time = int(self.slots["row"][group]), int(self.slots["time"][group])
            if row >= 0 and at >= 0 and times[at] >= time:
                hidden += [] if group in missing else [row]
            elif row >= 0:
                best.pop(group, None)
                again += [row] if group in missing else []
        first = np.array(sorted(best.values()), np.int64)
        return Shown(keys, np.array(hidden, np.int32), np.array(again, np.int32), first)

    def write(self, shown: Shown, rows: Rows, times: Ints, former: Rows, window: Window) -> None:
        """The arrivals have rows and times, and messages that had these `former` texts are gone."""
        slots, ids = self.slots, shown.keys
        found = slots.find(ids, where="messages")
        new = np.flatnonzero(found < 0)
        if new.size:
            fresh = read.read_ids(pa.array(dict.fromkeys(arrow(select(ids, new)).to_pylist())), where="texts")
            added = slots.add(fresh)
            slots["alive"][added] = 0
            found = slots.find(ids, where="messages")
        np.add.at(slots["alive"], found, 1)
        self._messages[COPY][rows] = found
        slots["row"][found[shown.first]] = rows[shown.first]
        slots["time"][found[shown.first]] = times[shown.first]
        if shown.again.size:
            held = window.rows()
            at = np.flatnonzero(np.isin(held, shown.again))
            slots["row"][self._messages[COPY][held[at]]] = held[at]
            slots["time"][self._messages[COPY][held[at]]] = window.times()[at]
        np.subtract.at(slots["alive"], former, 1)
        once = np.unique(former)
        slots.release(np.ascontiguousarray(once[slots["alive"][once] == 0]))

    def check_restored(self, rows: Rows, times: Ints) -> None:
        """Refuse texts from a snapshot that are not those of the messages of a window, in its order."""
        used, copies = self.slots.used, self._messages[COPY][rows]
        integrity.within(copies, 0, used, f"message.{COPY}")
        live = self.slots._live()
        counted, newest = np.bincount(copies, minlength=used), np.full(used, -1)
        newest[copies] = np.arange(rows.size)  # the last one of each stays
        alive = np.zeros(used, np.int64)
        alive[live] = self.slots["alive"][live]
        integrity.need(np.array_equal(counted, alive), "copy.alive", "is not how many messages there are")
        integrity.need((alive[live] > 0).all(), "copy.alive", "is 0")
        fits = (self.slots["row"][live] == rows[newest[live]]).all()
        integrity.need(bool(fits), "copy.row", "is not the newest message")
        fits = (self.slots["time"][live] == times[newest[live]]).all()
        integrity.need(bool(fits), "copy.time", "is not that of the newest message")

    def _left(self, groups: set[int], gone: Rows, window: Window) -> dict[int, tuple[int, int]]:
        """The newest message that stays of each text whose shown one goes, and its time."""
        if not groups:
            return {}
        if (self.slots["alive"][sorted(groups)] == 1).all():  # none has a copy
            return {}
        rows, copies = window.rows(), self._messages[COPY][window.rows()]
        places = np.flatnonzero(np.isin(copies, list(groups)) & ~np.isin(rows, gone))
        times = window.times()
        return {int(copies[at]): (int(rows[at]), int(times[at])) for at in places.tolist()}


def _keys(batch: Batch, staying: Rows) -> Ids:
    """What tells copies from others, of messages at some places of a batch."""
    starts, words = batch["terms"].starts.tolist(), arrow(batch["terms"].words).to_pylist()
    terms = [words[first:last] for first, last in pairwise(starts)]
    x, y = (batch["x"] + 0.0).tolist(), (batch["y"] + 0.0).tolist()  # 0 has one sign
    dense = batch.apart.get(VECTOR)

    def text_of(at: int) -> tuple[Any, ...]:
        """What is said: the terms in order, and what they mean if that counts."""
        words = sorted(terms[at])
        return (words,) if dense is None else (words, (dense[at] + 0.0).tobytes().hex())

    keys = [json.dumps((x[at], y[at], *text_of(at))) for at in staying.tolist()]
    return read.read_ids(pa.array(keys, pa.string()), where="texts")
