"""Messages and lists for receivers whom an engine does not know: what `rankcast serve` sends to gateways.

A tiler has an engine of its own with the same objects, which keeps no lists. With "dense" it knows no
subscription; with "sparse" it knows those of the first engine, and no message is for others. So whatever the
first engine does for those who listen to deltas is not slowed, and the tiler may lag behind it; it is given
the same batches, in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.errors import InputError
from rankcast.range_topk.engine import RangeTopK


class RangeTiler:
    """Makes the messages of batches, from where an engine is now; see `rankcast.core.spec.Tiler`."""

    def __init__(self, engine: RangeTopK, method: str = "dense") -> None:
        own = {"method": method, "epsilon": None, "needless": None, "lists": False, "tuning": None}
        self._settings = {**engine.state()[0]["settings"], **own}
        self._follows = ("subscribe", "amend", "unsubscribe") if method == "sparse" else ()
        self._objects: pa.Table | None = engine.objects()
        self._subscriptions = subscriptions_of(engine) if self._follows else None

    @cached_property
    def _server(self) -> RangeTopK:
        """The engine; it is made when it is first used, perhaps on another thread."""
        server = RangeTopK(**self._settings)
        server.disseminate({"id": []}, batch=True)  # refuses boxes
        server.disseminate(self._objects, method="relax", batch=True)
        if self._subscriptions is not None:
            server.subscribe(self._subscriptions)
        self._objects = self._subscriptions = None
        return server

    def apply(self, commands: Iterable[tuple[str, pa.Table]]) -> pa.Table:
        """The messages of a batch, those of each command for its net change, in sending order."""
        found: list[pa.Table] = []
        for call, rows in commands:
            if call == "publish":
                found.append(self._server.disseminate(rows, batch=True))
            elif call == "remove" and rows.num_rows:
                gone = {"id": rows.column("id"), "op": pa.array(["remove"] * rows.num_rows)}
                found.append(self._server.disseminate(pa.table(gone), batch=True))
            elif call in self._follows:
                ids = call == "unsubscribe"
                getattr(self._server, call)(rows.column("id").to_pylist() if ids else rows)
        told = [table for table in found if table.num_rows]
        return pa.concat_tables(told) if told else pa.table({})

    def lists(self, rows: Any) -> pa.Table:
        """The current lists of ranges, of the engine's k: `subscription, rank, item, score`."""
        if any("k" in row for row in rows):
            raise InputError(
                "is there", where="ranges", column="k", expected="the k of the engine, and no column"
            )
        return self._server.preview(rows)


def subscriptions_of(engine: RangeTopK) -> pa.Table:
    """The live subscriptions of an engine as `subscribe` takes them; an end that is null is unbounded."""
    table = engine._state.subscriptions
    rows = table.live()
    found: dict[str, pa.Array] = {"id": table.take(rows)}
    for place, name in enumerate(engine._over):
        for end in ("lo", "hi"):
            values = table[end][rows, place]
            found[f"{name}_{end}"] = pa.array(values, mask=~np.isfinite(values))
    own = table["k"][rows]
    if own.any():
        found["k"] = pa.array(own, mask=own == 0)
    return pa.table(found)
