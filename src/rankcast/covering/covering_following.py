"""A `CoveringTable` that follows a sequence of commands in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.covering.covering_commands import WHERE, Commands
from rankcast.covering.covering_commands import read as read_commands
from rankcast.covering.covering_frame import TableFrame
from rankcast.covering.departures import NOBODY
from rankcast.covering.kernels.relation_follow import ACTION, BY, ROW
from rankcast.structures.ids import select
from rankcast.tables.schema import Form


class FollowingTable(TableFrame):
    """Adds `follow`."""

    _commands: Form

    def follow(self, commands: Any) -> pa.Table:
        """Follow a sequence of commands, each by itself; the columns of `subscribe`, in turn.

        `commands` has `op` (`subscribe` or `unsubscribe`), `id` and the columns of boxes, which say nothing
        of an unsubscribe. The same as a call for every row, but without the price of one, which is that of
        reading a table. An id may come, go and come again. All are refused if one does not fit.

        >>> from rankcast import CoveringTable
        >>> table = CoveringTable(over=["x"])
        >>> ops = ["subscribe", "subscribe", "unsubscribe"]
        >>> commands = {"op": ops, "id": [1, 2, 1], "x_lo": [0, 1, None], "x_hi": [9, 2, None]}
        >>> table.follow(commands).select(["subscription", "action"]).to_pydict()
        {'subscription': [1, 2, 1, 2], 'action': ['forward', 'covered', 'withdraw', 'forward']}
        """
        batch = self._read(commands, self._commands, WHERE)
        parts = list(read_commands(batch, self._over, self._slots).stretches())
        self._begin()
        answers = [self._follow_part(part) for part in parts]
        return pa.concat_tables(answers) if answers else self._answer(NOBODY, NOBODY.astype(np.int8))

    def _follow_part(self, part: Commands) -> pa.Table:
        """Follow commands in which an id comes, goes, or comes and then goes."""
        come = ~part.leaves
        fresh = self._slots.add(select(part.ids, np.flatnonzero(come)))
        self._write_boxes(fresh, part.boxes.at(come))
        rows = self._slots.find(part.ids, where=WHERE)
        story = self._relations.follow(self._world(), part.leaves, rows)
        self._slots.release(rows[part.leaves])
        self._count["queries_subscribe"] += fresh.size
        self._free(story.freed, story.freed_most)
        self._search("subscribe", story.subscribing)
        self._search("unsubscribe", story.unsubscribing)
        rows, action, by = (np.ascontiguousarray(story.told[:, field]) for field in (ROW, ACTION, BY))
        return self._answer(rows, action.astype(np.int8), by)
