"""Messages and lists for receivers whom an engine does not know: what `rankcast serve` sends to gateways.

A tiler has an engine of its own with the same objects, which keeps no lists and knows no subscription, and
paints with "dense". So whatever the first engine does for those who listen to deltas is not slowed, and the
tiler may lag behind it; it is given the same batches, in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import pyarrow as pa

from rankcast.errors import InputError
from rankcast.range_topk.engine import RangeTopK


class RangeTiler:
    """Makes the messages of batches, from where an engine is now; see `rankcast.core.spec.Tiler`."""

    def __init__(self, engine: RangeTopK) -> None:
        own = {"method": "dense", "epsilon": None, "lists": False, "tuning": None}
        self._settings = {**engine.state()[0]["settings"], **own}
        self._objects: pa.Table | None = engine.objects()

    @cached_property
    def _server(self) -> RangeTopK:
        """The engine; it is made when it is first used, perhaps on another thread."""
        server = RangeTopK(**self._settings)
        server.disseminate({"id": []}, batch=True)  # refuses boxes
        server.disseminate(self._objects, method="relax", batch=True)
        self._objects = None
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
        told = [table for table in found if table.num_rows]
        return pa.concat_tables(told) if told else pa.table({})

    def lists(self, rows: Any) -> pa.Table:
        """The current lists of ranges, of the engine's k: `subscription, rank, item, score`."""
        if any("k" in row for row in rows):
            raise InputError(
                "is there", where="ranges", column="k", expected="the k of the engine, and no column"
            )
        return self._server.preview(rows)
