"""Circles by gains and rings: safe inside, on the globe too, and nearly as large as can be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import MovingTopK
from rankcast.bench.baselines.zone_radius import World, rim, true_radius
from rankcast.moving import scoring
from rankcast.moving.kernels.circles import preferred
from rankcast.moving.kernels.gain import box_ahead
from rankcast.moving.kernels.rings import farthest
from rankcast.moving.kernels.scores import (
    CLOSED,
    DISTANCE,
    PRODUCT,
    SUM,
    WASPAS,
    ScoreForm,
    box_distance,
    value,
)
from rankcast.structures.distance import CODES, distance
from rankcast.tables.schema import Floats

KINDS = {"sum": SUM, "product": PRODUCT, "distance": DISTANCE, "waspas": WASPAS}
METRICS = ("euclidean", "manhattan", "haversine")
NO_Z = np.empty(0)


def spots(metric: str, seed: int, count: int, spread: float) -> tuple[Floats, tuple[float, float]]:
    """Objects close to each other, and a place near or far: at poles, the date line, far from the origin."""
    rng = np.random.default_rng(seed)
    far = 10 ** rng.uniform(-1, 2.5)
    turn = rng.uniform(0, 2 * math.pi)
    cloud = rng.normal(0, spread, (count, 2))
    here = np.array([far * math.cos(turn), far * math.sin(turn)])
    if rng.random() < 0.3:
        cloud, here = np.round(cloud), np.round(here)
    if metric != "haversine":
        base = rng.choice([0.0, 1e9])
        return cloud + base, (float(here[0] + base), float(here[1] + base))
    lat = float(rng.choice([0.0, 48.0, 89.9, -89.99, 90.0, rng.uniform(-90, 90)]))
    lon = float(rng.choice([0.0, 180.0, -179.9, rng.uniform(-180, 180)]))
    scale = float(rng.choice([1e-5, 0.01, 0.5, 3.0]))
    places = np.vstack([cloud, here]) * scale
    x = (lon + places[:, 0] / max(0.02, math.cos(math.radians(lat))) + 180) % 360 - 180
    y = np.clip(lat + places[:, 1], -90, 90)
    return np.column_stack([x, y])[:-1], (float(x[-1]), float(y[-1]))


def around(metric: str, x: float, y: float, radius: float) -> list[tuple[float, float]]:
    """Places in a circle, as the engine counts it, many of them near its rim."""
    found = []
    for share in (1 - 1e-12, 1 - 1e-6, 0.97, 0.6, 0.2):
        places = np.column_stack(rim(metric, x, y, radius * share)).tolist()
        found += [place for place in places if distance(CODES[metric], x, y, *place) <= radius]
    return found


@settings(max_examples=250)
@given(
    st.sampled_from(list(KINDS)),
    st.sampled_from(METRICS),
    st.sampled_from([0.25, 1.0, 2.0]),
    st.integers(0, 10**6),
    st.tuples(*[st.floats(0.3, 3.0)] * 4),
    st.sampled_from([0.0, 1e-3, 1.0, 1e5]),
)
def test_o_stays_before_p_in_its_circle(
    kind: str, metric: str, weight: float, seed: int, statics: Any, worth: float
) -> None:
    lam = 0.5 if kind == "waspas" else 1.0
    form = ScoreForm(
        KINDS[kind], CODES[metric], 1.0 if kind == "distance" else weight, lam, 1 - lam, CLOSED, 1e-4, 100
    )
    objects, here = spots(metric, seed, 2, 1.0)
    record = np.column_stack([objects, np.reshape(statics, (2, 2))])
    if kind in ("sum", "waspas"):
        record[:, 2] *= worth
    away = [float(distance(form.metric, *here, *record[row, :2])) for row in (0, 1)]
    first, second = (float(value(form, *record[row, 2:], away[row])) for row in (0, 1))
    o, p = (0, 1) if first < second else (1, 0)
    radius = float(preferred(form, record, np.array([0, 1]), (o, p, away[o], away[p]), (*here, 0.0), np.inf))
    assert radius >= 0
    if first == second or not 0 < radius < 1e8:
        return
    for x, y in around(metric, *here, radius):
        mine, other = (
            value(form, *record[row, 2:], distance(form.metric, x, y, *record[row, :2])) for row in (o, p)
        )
        assert mine < other, (radius, x, y)


@settings(max_examples=150)
@given(st.sampled_from(METRICS), st.integers(0, 10**6), st.floats(0.01, 3.0), st.integers(1, 12))
def test_no_place_of_a_ring_is_farther(metric: str, seed: int, share: float, parts: int) -> None:
    objects, (x, y) = spots(metric, seed, 2, 1.0)
    code = CODES[metric]
    record = np.column_stack([objects, np.zeros((2, 2))])
    d_p = float(distance(code, x, y, *objects[1]))
    radius = min(share * d_p, 5e6)
    edges = np.linspace(max(0.0, d_p - radius), d_p + radius, parts + 1)
    pairs = np.zeros(parts, np.int32), np.ones(parts, np.int32)
    most = farthest(
        code,
        record,
        (np.array([x]), np.array([y]), NO_Z),
        np.zeros(parts, np.int64),
        pairs,
        np.array([radius]),
        (edges[:-1].copy(), edges[1:].copy()),
    )
    for place in around(metric, x, y, radius):
        a, b = distance(code, *place, *objects[0]), distance(code, *place, *objects[1])
        ring = min(max(int(np.searchsorted(edges, b)) - 1, 0), parts - 1)
        assert a <= most[ring], (place, ring)


@settings(max_examples=150)
@given(st.sampled_from(METRICS), st.integers(0, 10**6), st.floats(0.001, 0.9))
def test_no_object_of_a_box_gains_more(metric: str, seed: int, share: float) -> None:
    objects, here = spots(metric, seed, 6, 1.0)
    code, o, others = CODES[metric], objects[0], objects[1:]
    low, high = others.min(axis=0), others.max(axis=0)
    box = (low[0], high[0], low[1], high[1])
    near = float(box_distance(code, *here, *box))
    d_o = float(distance(code, *here, *o))
    way = share * max(near, 0.1 * d_o)
    most = box_ahead(code, (o[0], o[1], 0.0), d_o, box, near, (*here, 0.0), way)
    for place in around(metric, *here, way):
        a = distance(code, *place, *o)
        assert all(a - distance(code, *place, *p) <= most for p in others), place


def own(attributes: Floats, away: Floats) -> Floats:
    found: Floats = np.sqrt(away / 20_000.0) + attributes.sum(axis=1)
    return found


SCORES: dict[str, Any] = {
    "sum": scoring.weighted_sum([1, 1, 1 / 20_000]),
    "distance": scoring.weighted_distance([1, 1], offset=0.1),
    "product": scoring.weighted_product([1, 1, 1], offset=0.1),
    "waspas": scoring.waspas([1, 1, 1 / 20_000], 0.5, offset=0.1),
    "own": own,
}


def far_from_a_cluster(metric: str, name: str) -> tuple[World, list[dict[str, Any]]]:
    rng = np.random.default_rng(5)
    size, k = 400, 5
    place, drawn = rng.normal(0, 5_000, (size, 2)), rng.random((size, 2))
    turn, far = rng.random(7) * 2 * np.pi, 10 ** rng.uniform(4.3, 5.5, 7)
    queries = np.column_stack([far * np.cos(turn), far * np.sin(turn)])
    if metric == "haversine":
        place, queries = (np.array([179.95, 48.0]) + each / [74_400, 111_195] for each in (place, queries))
        place[:, 0], queries[:, 0] = (place[:, 0] + 180) % 360 - 180, (queries[:, 0] + 180) % 360 - 180
    objects = {"id": np.arange(size), "x": place[:, 0].copy(), "y": place[:, 1].copy()}
    engine = MovingTopK(over=["a", "b"], k=k, m=4, score=SCORES[name], metric=metric)
    engine.upsert({**objects, "a": drawn[:, 0], "b": drawn[:, 1]})
    engine.subscribe({"id": np.arange(7), "x": queries[:, 0].copy(), "y": queries[:, 1].copy()})
    return World(objects, drawn, engine.score, metric, k), engine.zones().to_pylist()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", SCORES)
def test_zones_far_from_a_cluster_are_safe_and_nearly_as_large_as_can_be(metric: str, name: str) -> None:
    world, zones = far_from_a_cluster(metric, name)
    shares = []
    for zone in zones:
        members = np.isin(world.objects["id"], zone["members"])
        for place in around(metric, zone["x"], zone["y"], zone["radius"]):
            assert world.holds(members, members, *place)
        shares.append(zone["radius"] / true_radius(world, zone))
    assert np.median(shares) > (0.3 if name == "own" else 0.7), shares
