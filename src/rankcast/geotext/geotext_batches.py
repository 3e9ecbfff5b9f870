"""Batches of messages of `GeoTextTopK`, resolved: who is late, who stays, whose id is taken over.

Rows apply in order: an arrival moves the window first, and then its id must not be that of a live message. So
an id may come again in one batch, once its former bearer has gone. A late message is ignored, whatever its
id. All of it is worked out before anything changes, without a loop over rows. Cost: O(n log n) for n messages
that come or go.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.errors import InputError
from rankcast.geotext.windows import Window
from rankcast.structures import hashing
from rankcast.structures.ids import Slots, keys_of, show
from rankcast.tables.schema import Ids, Ints, Rows


class Plan(NamedTuple):
    """What a batch does to the window."""

    late: int  # arrivals that are ignored
    leaving: int  # held messages that leave: the first so many of the window
    staying: Rows  # arrivals that are in the window at the end
    held: Rows  # for each of them the row of the held message whose id it takes over, -1 if none


def plan(ids: Ids, times: Ints, window: Window, messages: Slots) -> Plan:
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
