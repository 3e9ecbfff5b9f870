"""Moving queries by looking at every object from every place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.structures.distance import CODES, distances
from rankcast.tables.schema import Bools, Floats, Rows

Place = tuple[float, ...]


class Objects(NamedTuple):
    """All objects at one moment, in the order of their ids: rows, places and attributes (n, d).

    In the plane `z` is that of the place: 0.
    """

    row: Rows
    x: Floats
    y: Floats
    attributes: Floats
    z: Floats


def distances_to(objects: Objects, place: Place, metric: str) -> Floats:
    """The distance of a place, (x, y) or (x, y, z), to each object."""
    x, y, *third = map(float, place)
    if third:
        dx, dy, dz = objects.x - x, objects.y - y, objects.z - third[0]
        return np.sqrt(dx * dx + dy * dy + dz * dz)
    found: Floats = distances(CODES[metric], x, y, objects.x, objects.y)
    return found


def ranked(scores: Floats) -> Rows:
    """The places of objects from the smallest score to the largest, ties by id. Cost: O(n log n)."""
    return np.argsort(scores, kind="stable").astype(np.int32)


def dominates(values: Floats, one: Floats) -> Bools:
    """Which rows of values (n, d), small is good, are at least as good as `one` in all and better in one."""
    found: Bools = np.all(values <= one, axis=1) & np.any(values < one, axis=1)
    return found


def skyline(distance: Floats, attributes: Floats) -> Rows:
    """The places of objects that no other dominates, by distance, ties by id; small attributes are good.

    Objects are taken by distance, then by attributes: whatever dominates an object comes before it, so the
    first one left is in the skyline, and what it dominates can go. Cost: O(s n d) for a skyline of s.
    """
    values = np.column_stack([distance, attributes])
    left = np.lexsort(values.T[::-1])
    found = []
    while left.size:
        first, left = left[0], left[1:]
        found.append(first)
        beaten = (values[left] >= values[first]).all(axis=1) & (values[left] > values[first]).any(axis=1)
        left = left[~beaten]
    places = np.sort(np.array(found, np.int32))
    return places[np.argsort(distance[places], kind="stable")]
