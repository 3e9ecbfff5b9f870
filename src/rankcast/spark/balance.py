"""`boundaries`: where the zones of shards lie, and how many subscriptions each of them has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from rankcast.core.engine import Engine
from rankcast.core.spec import divided_spec, known_types, name_of, no_axes
from rankcast.errors import InputError
from rankcast.spark import bootstrap, inputs
from rankcast.spark.packing import point_column
from rankcast.spark.plan import Split, zone_of
from rankcast.tables import schema

Box = dict[int, tuple[float, float]]


def boundaries(engine: Engine, subscriptions: Any, *, shards: int) -> pa.Table:
    """How `continuous` would divide a table of subscriptions over so many shards, and how evenly.

    Zones of about equal size are learnt from a sample, the same for the same rows; then all rows are counted.
    Returns one row a shard: `zone`, for each coordinate that zones are cut along (`x` and `y` of a
    geo-text subscription, `<over>_lo` and `<over>_hi` of a range) `<coordinate>_from` and
    `<coordinate>_below` (null: no bound), and `subscriptions`, how many lie there.

    Raises:
        InputError: the engine's subscriptions have no places: they are divided by a hash of their ids.
    """
    size = schema.whole("shards", shards)
    spec = divided_spec(type(engine))
    given = inputs.read(spec.input("subscriptions"), subscriptions, seq="", ordered=False)
    settings = engine.state()[0]["settings"]
    axes = spec.axes(settings)
    if not axes:
        raise InputError(
            f"{type(engine).__name__} divides subscriptions by a hash of their ids",
            expected=" or ".join(each.__name__ for each in known_types() if each.spec.axes is not no_axes),
        )
    split = bootstrap.zones_of(name_of(type(engine)), settings, given, size)
    counting = Counting(axes, 0 if split is None else split)
    counted = subscriptions.mapInArrow(counting, "zone int, subscriptions long").groupBy("zone")
    found = counted.agg(F.sum("subscriptions").alias("subscriptions")).toArrow().to_pylist()
    counts = {row["zone"]: row["subscriptions"] for row in found}
    rows = [_row(zone, box, axes, counts) for zone, box in sorted(_boxes(counting.split, {}))]
    return pa.Table.from_pylist(rows, schema=_schema(axes))


@dataclass(frozen=True)
class Counting:
    """Counts the rows of a partition by zone."""

    axes: tuple[tuple[str, float], ...]
    split: Split

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each batch and zone."""
        for part in parts:
            rows = pa.Table.from_batches([part])
            points = np.column_stack([point_column(rows, name, missing) for name, missing in self.axes])
            zones, counts = np.unique(zone_of(self.split, points), return_counts=True)
            columns = [pa.array(zones, pa.int32()), pa.array(counts, pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, names=["zone", "subscriptions"])


def _boxes(split: Split, box: Box) -> Iterator[tuple[int, Box]]:
    """Every zone of a split with its bounds by axis."""
    if isinstance(split, int):
        yield split, box
        return
    axis, border, below, above = split
    low, high = box.get(axis, (-np.inf, np.inf))
    yield from _boxes(below, {**box, axis: (low, min(border, high))})
    yield from _boxes(above, {**box, axis: (max(border, low), high)})


def _row(zone: int, box: Box, axes: tuple[tuple[str, float], ...], counts: dict[int, int]) -> dict[str, Any]:
    row: dict[str, Any] = {"zone": zone}
    for axis, (name, _) in enumerate(axes):
        low, high = box.get(axis, (-np.inf, np.inf))
        row |= {
            f"{name}_from": low if low > -np.inf else None,
            f"{name}_below": high if high < np.inf else None,
        }
    return {**row, "subscriptions": counts.get(zone, 0)}


def _schema(axes: tuple[tuple[str, float], ...]) -> pa.Schema:
    ends = [(f"{name}_{end}", pa.float64()) for name, _ in axes for end in ("from", "below")]
    return pa.schema([("zone", pa.int32()), *ends, ("subscriptions", pa.int64())])
