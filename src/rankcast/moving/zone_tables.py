"""Zones as tables: circles with members, what members are, and which zones a call has changed.

An index of zones (`ZoneIndex`, `SkylineZoneIndex`) notes the rows whose zones it is given as long as somebody
watches. On roads, where zones of nearest neighbours change without being stored, all are compared instead.
A zone that is but a point serves nobody who holds it: it is told as void, with a null radius or geometry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankcast.structures.ids import Slots
from rankcast.tables.schema import Floats, Rows

POINT = 21  # bytes of a point in WKB


def listed(members: Sequence[Rows], objects: Slots) -> pa.Array:
    """A column of lists of ids."""
    ends = np.cumsum([0, *(len(each) for each in members)])
    joined = np.concatenate([*members, np.empty(0, np.int32)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), objects.take(joined))


def described(members: Sequence[Rows], objects: Slots, axes: tuple[str, ...], over: list[str]) -> pa.Array:
    """A column of lists of places and attributes, member by member: what rescoring takes."""
    ends = np.cumsum([0, *(len(each) for each in members)])
    joined = np.concatenate([*members, np.empty(0, np.int32)])
    attributes = objects["attributes"][joined]
    columns = [pa.array(objects[name][joined]) for name in axes]
    columns += [pa.array(attributes[:, place]) for place in range(len(over))]
    each = pa.StructArray.from_arrays(columns, [*axes, *over])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), each)


def circles(subscription: pa.Array, centre: dict[str, Floats], radius: Floats, members: pa.Array) -> pa.Table:
    """Zones that are circles, or spheres, with members."""
    return pa.table({"subscription": subscription, **centre, "radius": radius, "members": members})


@contextmanager
def watching(zones: Any) -> Iterator[list[Rows] | None]:
    """Note the rows whose zones are set meanwhile; None if zones are not stored."""
    index = getattr(zones, "zones", None)
    if index is None:
        yield None
        return
    noted: list[Rows] = []
    index.noted = noted
    try:
        yield noted
    finally:
        index.noted = None


def voided(zones: pa.Table) -> pa.Table:
    """The same zones, with a null radius or geometry where one is but a point."""
    for name in ("radius", "geometry"):
        if name in zones.column_names:
            place, column = zones.column_names.index(name), zones[name]
            size = column if name == "radius" else pc.subtract(pc.binary_length(column), POINT)
            void = pc.equal(size, 0)
            zones = zones.set_column(place, name, pc.if_else(void, pa.scalar(None, column.type), column))
    return zones
