"""The true radius of a safe zone, by looking around: how far a query may go until its zone would be wrong.

A zone promises that an object that is no member stays behind each of the k best of its centre [Moving
Algorithm 6]. Places on circles around the centre, each larger by a fifth than the one before, are tried in
many directions by brute force, until from one of them that is not so. Between that circle and the one before
it is bisected. What lies between two directions is not seen, so this is the true radius or a little more.

With `anyone`, the other members may stand in for the k best: the zone is wrong only where a result is no
member. That is more than a zone promises, and so farther away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rankcast.bench.workloads import Columns, Floats
from rankcast.structures.distance import CODES, EARTH_RADIUS, distances
from rankcast.tables.schema import Bools

DIRECTIONS = 36
GROWTH, FARTHEST, BISECTIONS = 1.2, 100, 6


class World(NamedTuple):
    """Objects with attributes (n, d), a score, a metric and k."""

    objects: Columns
    attributes: Floats
    score: Callable[[Floats, Floats], Floats]
    metric: str
    k: int

    def scores(self, x: float, y: float) -> Floats:
        """The scores of all objects from a place."""
        away = distances(CODES[self.metric], x, y, self.objects["x"], self.objects["y"])
        return self.score(self.attributes, away)

    def holds(self, members: Bools, best: Bools, x: float, y: float) -> bool:
        """Whether no other than the members comes before the k-th of the best from a place."""
        scores = self.scores(x, y)
        worst = np.partition(scores[best], self.k - 1)[self.k - 1]
        return not (scores[~members] < worst).any()


def rim(metric: str, x: float, y: float, radius: float) -> tuple[Floats, Floats]:
    """Places all around another, so far away."""
    angle = np.linspace(0, 2 * np.pi, DIRECTIONS, endpoint=False)
    east, north = np.sin(angle), np.cos(angle)
    if metric != "haversine":
        sides = np.abs(east) + np.abs(north) if metric == "manhattan" else 1.0
        return x + radius * east / sides, y + radius * north / sides
    way, here = radius / EARTH_RADIUS, np.radians(y)
    there = np.arcsin(np.clip(np.sin(here) * np.cos(way) + np.cos(here) * np.sin(way) * north, -1.0, 1.0))
    turn = np.arctan2(east * np.sin(way) * np.cos(here), np.cos(way) - np.sin(here) * np.sin(there))
    return (x + np.degrees(turn) + 180.0) % 360.0 - 180.0, np.degrees(there)


def true_radius(world: World, zone: dict[str, Any], *, anyone: bool = False) -> float:
    """How far a query may go from the centre of a zone, a row of `zones()`, until the zone would be wrong."""
    members = np.isin(world.objects["id"], zone["members"])
    x, y, low = float(zone["x"]), float(zone["y"]), float(zone["radius"])
    best = members
    if not anyone:
        best = np.zeros(members.size, np.bool_)
        best[np.argsort(world.scores(x, y), kind="stable")[: world.k]] = True

    def holds(radius: float) -> bool:
        around = zip(*rim(world.metric, x, y, radius), strict=True)
        return all(world.holds(members, best, *place) for place in around)

    for _ in range(FARTHEST):
        high = low * GROWTH
        if (world.metric == "haversine" and high > np.pi * EARTH_RADIUS) or not holds(high):
            break
        low = high
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
