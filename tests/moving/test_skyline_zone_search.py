"""Zones of skylines against geometry by brute force: which points have the skyline of the query."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rankcast import MovingSkyline
from rankcast.bench.workloads import moving
from rankcast.moving.brute_force import skyline
from rankcast.moving.skyline_zones import SkylineZones
from rankcast.tables.schema import Bools, Floats

UNIVERSE = (-2.0, -2.0, 8.0, 8.0)
NEAR = 1e-6


def rings_of(wkb: bytes) -> list[Floats]:
    """The rings of a WKB polygon; a point is one of four corners at the same place."""
    order, kind, count = struct.unpack_from("<BII", wkb)
    if kind == 1:
        assert len(wkb) == 21
        return [np.tile(np.frombuffer(wkb, "<f8", 2, 5), (4, 1))]
    assert (order, kind) == (1, 3)
    rings, at = [], 9
    for _ in range(count):
        (size,) = struct.unpack_from("<I", wkb, at)
        ring = np.frombuffer(wkb, "<f8", 2 * size, at + 4).reshape(size, 2)
        assert size >= 4
        assert (ring[0] == ring[-1]).all()
        rings.append(ring)
        at += 4 + 16 * size
    assert at == len(wkb)
    return rings


def contains(rings: list[Floats], points: Floats) -> Bools:
    """Which points are inside: an odd number of edges to the right of them."""
    found = np.zeros(len(points), np.bool_)
    x, y = points.T
    for ring in rings:
        for (ax, ay), (bx, by) in itertools.pairwise(ring):
            with np.errstate(all="ignore"):
                found ^= ((ay > y) != (by > y)) & (x < (bx - ax) * (y - ay) / (by - ay) + ax)
    return found


def away(rings: list[Floats], points: Floats) -> Floats:
    """How far points are from the nearest edge."""
    least = np.full(len(points), np.inf)
    for ring in rings:
        for a, b in itertools.pairwise(ring):
            along = b - a
            t = np.clip((points - a) @ along / max(along @ along, 1e-300), 0, 1)
            least = np.minimum(least, np.hypot(*(points - a - t[:, None] * along).T))
    return least


def beside(rings: list[Floats], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Points just inside and just outside of edges, away from corners."""
    inner, outer = [], []
    for number, ring in enumerate(rings):
        turn = 1 if number == 0 else -1  # holes go round the other way
        x, y = (ring[:-1] - ring[0]).T
        area = np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))
        assert turn * area > 0
        for a, b in itertools.pairwise(ring):
            length = np.hypot(*(b - a))
            if length < 100 * NEAR:
                continue
            normal = np.array([a[1] - b[1], b[0] - a[0]]) / length  # to the left: inside
            spot = a + rng.uniform(0.2, 0.8) * (b - a)
            inner.append(spot + NEAR * normal)
            outer.append(spot - NEAR * normal)
    return np.array(inner).reshape(-1, 2), np.array(outer).reshape(-1, 2)


def skyline_at(objects: Floats, place: Floats) -> list[int]:
    dx, dy = place[0] - objects[:, 0], place[1] - objects[:, 1]
    return sorted(skyline(np.sqrt(dx * dx + dy * dy), objects[:, 2:]).tolist())


def crowd(seed: int, size: int, attributes: int, grid: int) -> Floats:
    """Objects x, y, attributes; with a grid on whole numbers, so that places and attributes repeat."""
    rng = np.random.default_rng(seed)
    if grid:
        places, values = rng.integers(0, 7, (size, 2)), rng.integers(0, grid, (size, attributes))
        return np.column_stack([places, values]).astype(np.float64)
    return np.column_stack([rng.random((size, 2)) * 6, rng.random((size, attributes))])


def engine_of(objects: Floats, **given: Any) -> MovingSkyline:
    over = [f"a{i}" for i in range(objects.shape[1] - 2)]
    engine = MovingSkyline(over=over, tuning={"universe": UNIVERSE}, **given)
    columns = {name: objects[:, 2 + i] for i, name in enumerate(over)}
    engine.upsert({"id": np.arange(len(objects)), "x": objects[:, 0], "y": objects[:, 1], **columns})
    return engine


def check_zone(objects: Floats, place: Floats, rings: list[Floats], rng: np.random.Generator) -> None:
    """The zone is right: the same skyline inside, another one just outside, and the query is in it."""
    expected = skyline_at(objects, place)
    low, high = rings[0].min(axis=0), rings[0].max(axis=0)
    points = rng.uniform(low, high, (60, 2))
    points = points[contains(rings, points) & (away(rings, points) > NEAR)]
    inner, outer = beside(rings, rng)
    for point in [*points, *inner[contains(rings, inner)]]:
        assert skyline_at(objects, point) == expected, point
    inside_universe = ((outer > UNIVERSE[0]) & (outer < UNIVERSE[2])).all(axis=1)
    for point in outer[inside_universe & ~contains(rings, outer)]:
        assert skyline_at(objects, point) != expected, point
    assert contains(rings, place[None])[0] or away(rings, place[None])[0] < NEAR


@settings(max_examples=150)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0, 1, 2, 3, 6, 12, 30, 60]),
    st.integers(0, 3),
    st.sampled_from([0, 0, 2, 4]),
)
@example(0, 60, 1, 0)
@example(1, 12, 0, 2)
def test_a_zone_is_where_the_skyline_is_the_same(seed: int, size: int, attributes: int, grid: int) -> None:
    rng = np.random.default_rng(seed)
    objects = crowd(seed, size, attributes, grid)
    engine = engine_of(objects)
    places = rng.integers(0, 7, (3, 2)).astype(float) if grid else rng.random((3, 2)) * 6
    engine.subscribe({"id": np.arange(3), "x": places[:, 0], "y": places[:, 1]})
    for place, wkb in zip(places, engine.zones()["geometry"].to_pylist(), strict=True):
        rings = rings_of(wkb)
        if len(rings[0]) == 4 and (rings[0] == place).all():
            around = place + 1e-5 * rng.normal(0, 1, (12, 2))
            assert not all(skyline_at(objects, point) == skyline_at(objects, place) for point in around)
        else:
            check_zone(objects, place, rings, rng)


@pytest.mark.parametrize("kind", ["unif", "norm", "corr", "anti"])
@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
def test_zones_along_a_walk_in_every_distribution(kind: Any, seed: int, attributes: int, twins: bool) -> None:
    rng = np.random.default_rng(seed)
    drawn = moving.objects(60, attributes, rng, kind, universe=6.0)
    objects = np.column_stack([drawn[name] for name in drawn if name != "id"])
    if twins:
        objects[40:] = objects[:20]
    engine = engine_of(objects)
    places = 3 + np.cumsum(rng.normal(0, 0.2, (6, 2)), axis=0)
    engine.subscribe({"id": [1], "x": places[:1, 0], "y": places[:1, 1]})
    for place in places:
        engine.publish({"id": [1], "x": place[:1], "y": place[1:]})
        assert sorted(engine.results()["item"].to_pylist()) == skyline_at(objects, place)
        check_zone(objects, place, rings_of(engine.zones()["geometry"][0].as_py()), rng)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 2), st.sampled_from([0, 0, 3]))
def test_explain_tells_the_nearest_place_from_which_an_object_is_seen(
    seed: int, attributes: int, grid: int
) -> None:
    rng = np.random.default_rng(seed)
    objects = crowd(seed, 12, attributes, grid)
    engine = engine_of(objects)
    here = rng.random(2) * 6
    engine.subscribe({"id": [1], "x": here[:1], "y": here[1:]})
    for item in range(len(objects)):
        told = engine.explain(1, item)
        assert told["in_result"] == (item in skyline_at(objects, here))
        if told["appears_at"] is None:
            assert item not in skyline_at(objects, objects[item, :2])
            continue
        at = np.array(told["appears_at"])
        assert item in skyline_at(objects, at + NEAR * (objects[item, :2] - at))
        angle, share = rng.random(6) * 2 * np.pi, rng.random(6) * (1 - NEAR)
        nearer = here + np.hypot(*(at - here)) * (share * np.array([np.cos(angle), np.sin(angle)])).T
        assert told["in_result"] or not any(item in skyline_at(objects, point) for point in nearer)
        if not told["in_result"]:
            above = objects[told["dominated_by"]]
            distances = [np.hypot(*(each[:2] - here)) for each in (above, objects[item])]
            assert (above[2:] <= objects[item, 2:]).all()
            assert distances[0] <= distances[1]


# Objects of which none is better than another are everywhere in the skyline; one that is worse than all of
# them is in it only around itself.
AROUND = [(1.0, 3.0, 0.0, 3.0), (5.0, 3.0, 1.0, 2.0), (3.0, 1.0, 2.0, 1.0), (3.0, 5.0, 3.0, 0.0)]


def test_a_zone_can_have_a_hole() -> None:
    objects = np.array([*AROUND, (3.0, 3.0, 4.0, 4.0)])
    engine = engine_of(objects)
    engine.subscribe({"id": [1], "x": [0.0], "y": [0.0]})
    rings = rings_of(engine.zones()["geometry"][0].as_py())
    assert [len(ring) - 1 for ring in rings] == [4, 4]
    assert np.allclose([rings[1].min(axis=0), rings[1].max(axis=0)], [[2, 2], [4, 4]])
    check_zone(objects, np.array([0.0, 0.0]), rings, np.random.default_rng(0))


@pytest.mark.parametrize(("x", "low", "high"), [(0.0, -2.0, 2.0), (7.0, 4.0, 8.0), (3.5, 2.0, 4.0)])
def test_a_zone_is_the_part_that_holds_the_query(x: float, low: float, high: float) -> None:
    objects = np.array([*AROUND[:2], (3.0, 3.0, 4.0, 4.0)])
    engine = engine_of(objects)
    engine.subscribe({"id": [1], "x": [x], "y": [3.0]})
    (ring,) = rings_of(engine.zones()["geometry"][0].as_py())
    assert np.allclose([ring[:, 0].min(), ring[:, 0].max()], [low, high])


def test_a_query_that_is_all_alone_has_the_universe() -> None:
    engine = engine_of(np.empty((0, 3)))
    engine.subscribe({"id": [1], "x": [3.0], "y": [3.0]})
    (ring,) = rings_of(engine.zones()["geometry"][0].as_py())
    assert sorted(map(tuple, ring[:-1].tolist())) == [(-2, -2), (-2, 8), (8, -2), (8, 8)]


def test_a_query_outside_of_the_universe_has_a_point() -> None:
    engine = engine_of(crowd(1, 5, 1, 0))
    engine.subscribe({"id": [1], "x": [30.0], "y": [3.0]})
    assert engine.zones()["geometry"][0].as_py() == struct.pack("<BIdd", 1, 1, 30.0, 3.0)


@pytest.mark.parametrize("seed", range(4))
def test_zones_along_a_walk_cover_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    engine = engine_of(crowd(seed, 80, 2, 0))
    places = 3 + np.cumsum(rng.normal(0, 0.05, (60, 2)), axis=0)
    engine.subscribe({"id": [1], "x": places[:1, 0], "y": places[:1, 1]})
    for place in places:
        engine.publish({"id": [1], "x": place[:1], "y": place[1:]})
        rings = rings_of(engine.zones()["geometry"][0].as_py())
        assert contains(rings, place[None])[0]
    assert engine.stats()["recomputed"] < 60


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([3, 12, 60]), st.sampled_from([0, 0, 3]))
def test_a_disc_around_a_query_is_inside_its_zone(seed: int, size: int, grid: int) -> None:
    rng = np.random.default_rng(seed)
    engine = engine_of(crowd(seed, size, 1, grid))
    places = 3 + np.cumsum(rng.normal(0, 0.1, (10, 8, 2)), axis=0)
    engine.subscribe({"id": np.arange(8), "x": places[0, :, 0], "y": places[0, :, 1]})
    for x, y in places[1:].transpose(0, 2, 1):
        engine.publish({"id": np.arange(8), "x": x, "y": y})
    zoned = engine._zones
    assert isinstance(zoned, SkylineZones)
    disc = zoned.zones.kept.disc[:8]
    for (x, y, square), wkb in zip(disc, engine.zones()["geometry"].to_pylist(), strict=True):
        if square > 0:
            rings, spot = rings_of(wkb), np.array([[x, y]])
            assert contains(rings, spot)[0]
            assert away(rings, spot)[0] >= np.sqrt(square)
    assert (disc[:, 2] > 0).any()
