"""Zones for maps: as GeoJSON (RFC 7946), as GeoArrow, as H3 cells.

All functions take a table from `zones()` of a moving engine, or the second table of `publish(...,
zones=True)`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Set
from typing import Any

import pyarrow as pa

from rankcast.errors import InputError, required
from rankcast.zone import distance

_POINT, _LINE, _POLYGON, _MANY = 1, 2, 3, 6
_EXTENSION = b"ARROW:extension:name"
_RINGS = 64  # of cells around the one in the middle that are looked at


def geojson(zones: pa.Table, wanted: Set[str] = frozenset()) -> dict[str, Any]:
    """A feature collection with one feature per zone, its subscription as `id`; `wanted` selects zones.

    A circle is a point with the properties `radius` (null: unbounded) and `members`; a sphere has three
    coordinates and `sphere_radius` instead, so it cannot be taken for a circle. A void zone has no geometry.

    >>> table = pa.table({"subscription": [7], "x": [1.0], "y": [2.0], "radius": [3.0], "members": [["a"]]})
    >>> geojson(table)["features"][0]["geometry"]
    {'type': 'Point', 'coordinates': [1.0, 2.0]}
    """
    found = []
    for row in zones.to_pylist():
        name = row.pop("subscription")
        if wanted and str(name) not in wanted:
            continue
        geometry: dict[str, Any] | None = None
        if "geometry" in row:
            data = row.pop("geometry")
            geometry = None if data is None else _geometry(memoryview(data), 0)[0]
        else:
            place = [row.pop(name) for name in ("x", "y", "z") if name in row]
            radius = row.pop("radius")
            geometry = None if radius is None else {"type": "Point", "coordinates": place}
            row["radius" if len(place) == len("xy") else "sphere_radius"] = radius
        properties = {"subscription": name, **{key: _finite(value) for key, value in row.items()}}
        found.append({"type": "Feature", "id": name, "geometry": geometry, "properties": properties})
    return {"type": "FeatureCollection", "features": found}


def geoarrow(zones: pa.Table) -> pa.Table:
    """The same zones with a column `geometry` in GeoArrow's format.

    Polygons and lines are `geoarrow.wkb`; the centres of circles are `geoarrow.point`, instead of `x` and
    `y`.

    >>> table = pa.table({"subscription": [7], "x": [1.0], "y": [2.0], "radius": [3.0]})
    >>> geoarrow(table).column_names
    ['subscription', 'geometry', 'radius']
    """
    if "geometry" in zones.column_names:
        place = zones.column_names.index("geometry")
        field = pa.field("geometry", pa.binary(), metadata={_EXTENSION: b"geoarrow.wkb"})
        return zones.set_column(place, field, zones["geometry"])
    axes = [name for name in ("x", "y", "z") if name in zones.column_names]
    points = pa.StructArray.from_arrays([zones[name].combine_chunks() for name in axes], axes)
    field = pa.field("geometry", points.type, metadata={_EXTENSION: b"geoarrow.point"})
    place = zones.column_names.index("x")
    return zones.drop_columns(axes).add_column(place, field, points)


def h3_cells(zones: pa.Table, resolution: int) -> pa.Table:
    """The H3 cells inside zones on the globe: `subscription` and `cells`, a list of their names.

    For zones of `metric="haversine"`; needs the library (`pip install "rankcast[h3]"`). A position in one of
    the cells is inside the zone. A zone that is void, or smaller than a cell, has no cells; for a very wide
    zone only the cells around its centre are listed.

        h3_cells(engine.zones(), resolution=9)
    """
    if "radius" not in zones.column_names:
        raise InputError("zones are no circles", expected='zones of metric="haversine"')
    h3 = required("h3", "h3")
    found = []
    for x, y, radius in zip(*(zones[name].to_pylist() for name in ("x", "y", "radius")), strict=True):
        found.append(_cells(h3, (x, y), radius, resolution) if radius else [])
    return pa.table({"subscription": zones["subscription"], "cells": pa.array(found, pa.list_(pa.string()))})


def _cells(h3: Any, centre: tuple[float, float], radius: float, resolution: int) -> list[str]:
    """The cells inside a circle, ring by ring, until a ring has none.

    A circle of less than a quarter of the globe contains the edge between any two corners that it contains.
    """
    middle, found = h3.latlng_to_cell(centre[1], centre[0], resolution), []
    radius = min(radius, 9e6) * (1 - 1e-9)
    for ring in range(_RINGS):
        inside = [
            cell
            for cell in h3.grid_ring(middle, ring)
            if all(distance((x, y), centre, "haversine") < radius for y, x in h3.cell_to_boundary(cell))
        ]
        if ring and not inside:
            break
        found += inside
    return sorted(found)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _geometry(data: memoryview, at: int) -> tuple[dict[str, Any], int]:
    """A geometry from WKB, and where it ends."""
    order = "<" if data[at] else ">"
    (kind,) = struct.unpack_from(f"{order}I", data, at + 1)
    at += 5
    if kind == _POINT:
        return {"type": "Point", "coordinates": list(struct.unpack_from(f"{order}dd", data, at))}, at + 16
    (count,) = struct.unpack_from(f"{order}I", data, at)
    at += 4
    if kind == _LINE:
        numbers = struct.unpack_from(f"{order}{2 * count}d", data, at)
        line = [list(pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
        return {"type": "LineString", "coordinates": line}, at + 16 * count
    if kind == _POLYGON:
        rings = []
        for _ in range(count):
            (size,) = struct.unpack_from(f"{order}I", data, at)
            numbers = struct.unpack_from(f"{order}{2 * size}d", data, at + 4)
            rings.append([list(pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)])
            at += 4 + 16 * size
        return {"type": "Polygon", "coordinates": rings}, at
    if kind == _MANY:
        parts = []
        for _ in range(count):
            part, at = _geometry(data, at)
            parts.append(part["coordinates"])
        return {"type": "MultiPolygon", "coordinates": parts}, at
    raise ValueError(f"a geometry of kind {kind}")
