"""`maxima`: the boxes that no other box contains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rankcast.core.engine import ID
from rankcast.covering.maxima import maximal
from rankcast.structures.ids import Slots, select
from rankcast.tables import boxes, read, schema
from rankcast.tables.schema import arrow


def maxima(rows: Any, *, over: str | Sequence[str]) -> pa.Table:
    """The boxes that no other box contains, as a table with the column `id`, in the order given.

    `rows` has `id` and, for each attribute of `over`, `<attribute>_lo` and `<attribute>_hi` (null or absent:
    unbounded). Of equal boxes the first stays. Cost: a sort, and for each box a search among those that stay.

    >>> maxima({"id": [1, 2, 3], "x_lo": [0, 1, 4], "x_hi": [3, 2, 5]}, over="x")["id"].to_pylist()
    [1, 3]
    """
    names = schema.attributes("over", over)
    batch = read.read(rows, [ID, *boxes.columns(names)], where="boxes")
    Slots.refuse_duplicates(batch.ids, where="boxes")
    given = boxes.read(batch, names, where="boxes")
    return pa.table({"id": arrow(select(batch.ids, maximal(given)))})
