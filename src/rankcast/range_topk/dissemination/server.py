"""The server of a content-driven network as an engine: what comes out of a batch are the messages it sends.

`RangeTiles` is a `RangeTopK` whose `apply` answers with numbered messages instead of deltas, so that whatever
runs engines runs a server, with its journal and its replays: a batch that comes again gives the same messages
under the same numbers. The numbers are part of the state (`stats()["messages"]`).

Events are sent as `disseminate` sends them: those of one call for their net change; event by event with
`epsilon` or `needless`, which save nothing otherwise, and where "sparse" over two attributes keeps no lists.
A `subscribe` or an `amend` is also a question: the list of each subscription is sent in its place among the
messages, to exactly its range. The first message of a list has no item and empties what a receiver has; the
others are bids for its places. So a receiver that comes late, or has missed something, needs no other source.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from rankcast.core.engine import Command, Refused
from rankcast.core.list_engine import ListEngine
from rankcast.core.spec import Answer, Settings, no_axes
from rankcast.errors import SettingError, shown
from rankcast.range_topk.dissemination import protocol
from rankcast.range_topk.engine import RangeTopK
from rankcast.range_topk.state import Slack
from rankcast.tables.schema import Rows, attributes

ENDS = ("lo_outer", "lo_inner", "hi_inner", "hi_outer")
K, SEQUENCE = "k", "sequence"
# what messages have beside attributes, and what runtimes add to them
_TAKEN = (K, SEQUENCE, "item", "op", "subscription", "seq", "reason", "query", "batch", "shard", "n", "raw")


def tile_numbers(settings: Settings) -> tuple[str, ...]:
    """The columns of a message that are numbers, but for `k` and `sequence`."""
    over = attributes("over", settings["over"])
    return (*(f"{name}_{end}" for name in over for end in ENDS), *over, settings["by"])


class RangeTiles(RangeTopK):
    """A `RangeTopK` that answers batches of commands with the messages of their events; same settings.

    >>> server = RangeTiles(over="risk", by="pe", k=2, method="dense")
    >>> told = server.apply([("publish", {"id": ["ACME"], "risk": [3], "pe": [12.0]})])
    >>> told.select(["sequence", "item", "risk_lo_inner", "risk_hi_inner", "pe"]).to_pylist()
    [{'sequence': 1, 'item': 'ACME', 'risk_lo_inner': 3.0, 'risk_hi_inner': 3.0, 'pe': 12.0}]
    >>> told = server.apply([("subscribe", {"id": [1], "risk_lo": [2], "risk_hi": [6]})])
    >>> told.select(["sequence", "item", "risk_lo_inner", "risk_hi_inner", "pe"]).to_pylist()[0]
    {'sequence': 2, 'item': None, 'risk_lo_inner': 2.0, 'risk_hi_inner': 6.0, 'pe': None}
    """

    spec = replace(
        RangeTopK.spec,
        inputs=tuple(replace(each, divided=False) for each in RangeTopK.spec.inputs),  # objects in one place
        answer=Answer("tiles", numbers=tile_numbers),
        axes=no_axes,
        tiler=None,
        title="messages for those who keep the k best objects in their range themselves",
    )
    calls: ClassVar[tuple[str, ...]] = ListEngine.calls

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if self._method == "relax":
            expected = 'one of: "sparse", "dense", "unicast", "scan"'
            raise SettingError('method is "relax", whose receivers must keep every object', expected=expected)
        for name in self._numbers:
            if name.lower() in _TAKEN:
                raise SettingError(f"an attribute is {shown(name)}", expected="no name of a message's column")
        blind = self._listless and self._method == "sparse" and len(self._over) > 1
        self._send_by = "online" if blind or self._slack != Slack() else "net"
        if self._kept is not None:
            self._kept.refuse(self._method, batch=self._send_by == "net")

    def apply(
        self, commands: Iterable[Command | tuple[str, Any]], *, refused: Refused | None = None
    ) -> pa.Table:
        """Apply several calls, in order, as one batch; returns their messages in sending order.

        Columns are those of `disseminate`, with `k` in any case, and `sequence`.
        """
        found = self._accepted(commands, refused, self._step)
        self._begin()
        told = [table for table in found if table.num_rows]
        return pa.concat_tables(told) if told else self._messages([], [])

    def _step(self, call: str, rows: Any) -> pa.Table:
        """The messages of one call."""
        if call == "publish":
            return self._numbered(self._disseminate(rows, self._method, Slack(), self._send_by))
        changed = np.empty(0, np.int32)
        if call == "subscribe":
            changed = self._register(rows)
        elif call == "amend":
            changed, fields = self._amendment(rows)
            self._change(changed, fields)
        else:
            self._dismiss(self._subscriptions.require(self._ids(rows), where="ids"))
        table = self._told_lists(self._in_order(changed))
        self._settle()
        return table

    def _told_lists(self, rows: Rows) -> pa.Table:
        """The lists of some subscriptions as messages to their ranges.

        While there was no object and no message yet, every list is empty, and everybody knows it.
        """
        if not rows.size or (not self._count["messages"] and not len(self._items)):
            return self._messages([], [])
        state, boxes, k = self._state, self._state.boxes(rows), self._state.k_of(rows)
        if self._listless:
            lists = self._lists_method.preview(boxes, k)
            at = np.asarray(lists.subscription, np.int64)
        else:
            lists = self._lists_method.lists(rows)
            at = np.argsort(rows)[np.searchsorted(np.sort(rows), lists.subscription)]
        owner = np.concatenate([np.arange(rows.size), at])  # the messages that empty lists, then the others
        order = np.argsort(owner, kind="stable")
        owner = owner[order]
        item = np.concatenate([np.full(rows.size, -1, np.int32), lists.item])[order]
        empties = item < 0
        lo_outer, hi_outer = protocol.outer(*boxes)
        ends = [lo_outer, boxes.lo, boxes.hi, hi_outer]
        x = state.objects["x"][item]
        x[empties] = np.nan
        y = np.concatenate([np.full(rows.size, np.nan), lists.score])[order]
        numbers = [each[owner, place] for place in range(len(self._over)) for each in ends]
        numbers += [x[:, place] for place in range(len(self._over))]
        own = pa.array(np.asarray(k)[owner], pa.int64(), mask=np.full(owner.size, not state.owned))
        known = self._items.take(item[~empties]) if (~empties).any() else pa.array([], self._items.type)
        names = known.take(pa.array(np.cumsum(~empties) - 1, mask=empties))
        self._count["messages"] += owner.size
        return self._numbered(self._messages([*numbers, y], names, own))

    def _messages(self, numbers: Any, items: Any, k: Any = None) -> pa.Table:
        """Messages without their numbers; none if there are no `numbers`."""
        columns = tile_numbers(self._configuration)
        given = numbers or [np.empty(0) for _ in columns]
        found = {
            name: pa.array(values, pa.float64(), from_pandas=True)
            for name, values in zip(columns, given, strict=True)
        }
        first = columns.index(self._over[0])  # ends, item, attributes: as `disseminate` has them
        item = items if numbers else pa.array([], self._items.type)
        own = pa.array([], pa.int64()) if k is None else k
        told = {name: found[name] for name in columns[:first]} | {"item": item}
        told |= {name: found[name] for name in columns[first:]} | {K: own}
        return pa.table(told if numbers else {**told, SEQUENCE: pa.array([], pa.int64())})

    def _numbered(self, table: pa.Table) -> pa.Table:
        """Messages that were counted just now, with their numbers, and with a column `k`."""
        if K not in table.column_names:
            table = table.append_column(K, pa.nulls(table.num_rows, pa.int64()))
        last = int(self._count["messages"])
        numbers = np.arange(last - table.num_rows + 1, last + 1)
        return table.append_column(SEQUENCE, pa.array(numbers, pa.int64()))
