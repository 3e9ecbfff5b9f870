"""Safe zones on the client: is a position still inside, or must the client ask the server?

This is the Python version of the console's `rankcast-zone.js`. It needs only the standard library. Zones
are the GeoJSON features of `GET .../zones`: a polygon, a point with a `radius`, or in space a point with a
`sphere_radius`. While a position is strictly inside, the result of its query stays the same (for a circle: it
stays among the zone's members). If in doubt, a position counts as outside: asking is always correct.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

EARTH = 6_371_008.8  # metres, as the engines count
EDGE = 1e-12  # how near to an edge, by the square of its reach, counts as on it
CLOSE = 1e-9  # by which share of its radius a circle is taken as smaller: the engine rounds otherwise

Position = Sequence[float]
Zone = Mapping[str, Any]


class Follower:
    """Follows one moving query: decides for each position whether the client must ask the server, and counts.

    Set `zone` to the zone of every answer.

    >>> me = Follower()
    >>> me.must_ask((0.0, 0.0))
    True
    >>> centre = {"type": "Point", "coordinates": [0.0, 0.0]}
    >>> me.zone = {"type": "Feature", "geometry": centre, "properties": {"radius": 2.0}}
    >>> me.must_ask((1.0, 1.0)), me.must_ask((2.0, 0.0))
    (False, True)
    """

    def __init__(self, metric: str = "euclidean") -> None:
        self.metric = metric
        self.zone: Zone | None = None
        self.asked = 0
        self.saved = 0

    def must_ask(self, position: Position) -> bool:
        """Whether a position must be sent."""
        inside = is_inside(self.zone, position, self.metric)
        self.saved += inside
        self.asked += not inside
        return not inside


def is_inside(zone: Zone | None, position: Position, metric: str = "euclidean") -> bool:
    """Whether a position is strictly inside a zone.

    >>> centre = {"type": "Point", "coordinates": [0.0, 0.0]}
    >>> is_inside({"type": "Feature", "geometry": centre, "properties": {"radius": 2.0}}, (1.0, 1.0))
    True
    """
    geometry = None if zone is None else zone.get("geometry")
    if zone is None or not geometry or not all(map(math.isfinite, position)):
        return False
    shape, coordinates = geometry["type"], geometry["coordinates"]
    if shape == "Polygon":
        return _in_polygon(position, coordinates)
    if shape == "MultiPolygon":
        return any(_in_polygon(position, rings) for rings in coordinates)
    if shape != "Point":
        return False
    properties = zone.get("properties") or {}
    name = "sphere_radius" if len(coordinates) > len("xy") else "radius"
    if name not in properties or len(position) < len(coordinates):
        return False
    radius = properties[name]
    return radius is None or distance(position, coordinates, metric) < radius * (1 - CLOSE)


def distance(a: Position, b: Position, metric: str = "euclidean") -> float:
    """The distance of two places: in their own unit, or in metres on the globe (`haversine`).

    Places with three coordinates have their distance in space.

    >>> distance((0, 0), (3, 4)), round(distance((0, 0), (0, 1), "haversine"))
    (5.0, 111195)
    """
    dx, dy = a[0] - b[0], a[1] - b[1]
    if metric == "manhattan":
        return abs(dx) + abs(dy)
    if metric != "haversine":
        return math.hypot(dx, dy, *(p - q for p, q in zip(a[2:], b[2:], strict=False)))
    half = math.sin(math.radians(dy) / 2) ** 2
    other = math.cos(math.radians(a[1])) * math.cos(math.radians(b[1])) * math.sin(math.radians(dx) / 2) ** 2
    return 2 * EARTH * math.asin(min(1.0, math.sqrt(half + other)))


def _in_polygon(position: Position, rings: Sequence[Sequence[Position]]) -> bool:
    outer, *holes = rings
    return _side(position, outer) > 0 and all(_side(position, hole) < 0 for hole in holes)


def _side(position: Position, ring: Sequence[Position]) -> int:
    """1 inside a ring, -1 outside, 0 on its edge; by counting crossings."""
    x, y = position[0], position[1]
    side = -1
    for (ax, ay, *_), (bx, by, *_) in zip(ring, (ring[-1], *ring[:-1]), strict=True):
        cross = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        reach = abs(bx - ax) + abs(by - ay) + abs(x - ax) + abs(y - ay)
        between = min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by)
        if between and abs(cross) <= EDGE * reach * reach:
            return 0
        if (ay > y) != (by > y) and x < (bx - ax) * (y - ay) / (by - ay) + ax:
            side = -side
    return side
