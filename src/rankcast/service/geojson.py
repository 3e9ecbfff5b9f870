"""Safe zones as GeoJSON (RFC 7946): polygons from WKB, circles as points with a radius."""

from __future__ import annotations

import math
import struct
from collections.abc import Set
from typing import Any

import pyarrow as pa

_POINT, _POLYGON, _MANY = 1, 3, 6


def features(zones: pa.Table, wanted: Set[str] = frozenset()) -> dict[str, Any]:
    """A collection with a feature a zone, its subscription as `id`; only those wanted, if any are named.

    A circle is a point with the properties `radius` (null: without end) and `members`.
    """
    found = []
    for row in zones.to_pylist():
        name = row.pop("subscription")
        if wanted and str(name) not in wanted:
            continue
        if "geometry" in row:
            geometry = None if row["geometry"] is None else _geometry(memoryview(row["geometry"]), 0)[0]
            more = {}
        else:
            geometry = {"type": "Point", "coordinates": [row.pop("x"), row.pop("y")]}
            more = {key: _finite(value) for key, value in row.items()}
        properties = {"subscription": name, **more}
        found.append({"type": "Feature", "id": name, "geometry": geometry, "properties": properties})
    return {"type": "FeatureCollection", "features": found}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _geometry(data: memoryview, at: int) -> tuple[dict[str, Any], int]:
    """A geometry of WKB, and where it ends."""
    order = "<" if data[at] else ">"
    (kind,) = struct.unpack_from(f"{order}I", data, at + 1)
    at += 5
    if kind == _POINT:
        return {"type": "Point", "coordinates": list(struct.unpack_from(f"{order}dd", data, at))}, at + 16
    (count,) = struct.unpack_from(f"{order}I", data, at)
    at += 4
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
