"""Preferred circles: safe at every place inside, and the closed forms as large as can be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.moving.kernels import scores as zone_scores
from rankcast.moving.kernels.circles import preferred as preferred_of
from rankcast.moving.kernels.scores import (
    CLOSED,
    DISTANCE,
    LEMMA,
    PRODUCT,
    SUM,
    TRIM,
    WASPAS,
    ScoreForm,
    value,
)
from rankcast.structures.distance import CODES, distance
from rankcast.tables.schema import Floats, Ints

KINDS = {"sum": SUM, "product": PRODUCT, "distance": DISTANCE, "waspas": WASPAS}
LABEL: Ints = np.array([5, 3])
ANGLES = np.linspace(0, 2 * np.pi, 240, endpoint=False)
places = st.tuples(st.integers(-8, 8), st.integers(-8, 8))


def form_of(kind: str, metric: str, way: int, weight: float = 1.0) -> ScoreForm:
    lam = 0.5 if kind == "waspas" else 1.0
    weight = 1.0 if kind == "distance" else weight
    return ScoreForm(KINDS[kind], CODES[metric], weight, lam, 1 - lam, way, 1e-4, 100)


def preferred(
    form: ScoreForm, record: Floats, label: Ints, o: int, p: int, here: tuple[float, float], limit: float
) -> float:
    d_o, d_p = (distance(form.metric, *here, record[row, 0], record[row, 1]) for row in (o, p))
    return float(preferred_of(form, record, label, (o, p, d_o, d_p), (*here, 0.0), limit))


def score(form: ScoreForm, record: Floats, row: int, x: float, y: float) -> float:
    d = distance(form.metric, x, y, record[row, 0], record[row, 1])
    return float(value(form, record[row, 2], record[row, 3], d))


def rim(metric: str, x: float, y: float, radius: float) -> list[tuple[float, float]]:
    """Places on the rim of a circle and inside it, as near to it as the metric allows."""
    inner = radius * (1 - 1e-13)
    if metric == "manhattan":
        sides = np.abs(np.cos(ANGLES)) + np.abs(np.sin(ANGLES))
        return [
            (x + inner * c, y + inner * s)
            for c, s in zip(np.cos(ANGLES) / sides, np.sin(ANGLES) / sides, strict=True)
        ]
    return [(x + inner * c, y + inner * s) for c, s in zip(np.cos(ANGLES), np.sin(ANGLES), strict=True)]


@settings(max_examples=300)
@given(
    st.sampled_from(list(KINDS)),
    st.sampled_from(["euclidean", "manhattan"]),
    st.sampled_from([CLOSED, TRIM, LEMMA]),
    st.sampled_from([0.25, 1.0, 3.0]),
    places,
    places,
    places,
    st.tuples(*[st.sampled_from([0.5, 1.0, 1.0, 2.0, 6.0])] * 4),
)
def test_o_stays_before_p_inside(
    kind: str, metric: str, way: int, weight: float, o: Any, p: Any, q: Any, statics: Any
) -> None:
    form = form_of(kind, metric, way, weight)
    record = np.array([[*o, *statics[:2]], [*p, *statics[2:]]], np.float64)
    here = float(q[0]), float(q[1])
    radius = preferred(form, record, LABEL, 0, 1, here, np.inf)
    assert radius >= 0
    first, second = score(form, record, 0, *here), score(form, record, 1, *here)
    if first > second:
        assert radius == 0
        return
    reach = min(radius, 1e6)
    for scale in (1.0, 0.5, 0.01) if radius > 0 else ():
        for x, y in rim(metric, *here, reach * scale):
            first, second = score(form, record, 0, x, y), score(form, record, 1, x, y)
            assert first < second, (radius, scale, x, y)
    limit = radius / 2 if math.isfinite(radius) else 10.0
    assert preferred(form, record, LABEL, 0, 1, here, limit) <= limit


@settings(max_examples=200)
@given(
    st.sampled_from(["sum", "product", "distance"]),
    places,
    places,
    places,
    st.tuples(*[st.sampled_from([0.5, 1.0, 1.0, 2.0, 6.0])] * 4),
)
def test_a_closed_form_touches_the_border(kind: str, o: Any, p: Any, q: Any, statics: Any) -> None:
    form = form_of(kind, "euclidean", CLOSED)
    record = np.array([[*o, *statics[:2]], [*p, *statics[2:]]], np.float64)
    here = float(q[0]), float(q[1])
    radius = preferred(form, record, LABEL, 0, 1, here, np.inf)
    foci = math.dist(o, p)
    never = foci == 0 or (kind == "sum" and statics[2] - statics[0] >= foci)  # p is never before o
    if never or not 1e-3 < radius < 1e3:
        return
    beyond = radius * (1 + 1e-5)
    to_p, to_o = (math.atan2(each[1] - q[1], each[0] - q[0]) for each in (p, o))
    angles = np.concatenate(
        [np.linspace(0, 2 * np.pi, 4001), *(np.linspace(a - 0.1, a + 0.1, 4001) for a in (to_p, to_o))]
    )
    x, y = here[0] + beyond * np.cos(angles), here[1] + beyond * np.sin(angles)
    first, second = (
        scores(form, record[row], np.hypot(x - record[row, 0], y - record[row, 1])) for row in (0, 1)
    )
    assert (second - first).min() < 1e-7


def scores(form: ScoreForm, record: Floats, away: Floats) -> Floats:
    """The scores of one object at many distances; the weight of distance is 1."""
    found: Floats = {
        SUM: record[2] + away,
        PRODUCT: record[3] * away,
        DISTANCE: away / record[2],
    }[form.kind]
    return found


@pytest.mark.parametrize("kind", ["sum", "product", "distance"])
def test_a_closed_form_is_at_least_as_large_as_the_others(kind: str) -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        record = np.column_stack([rng.random((2, 2)) * 10, rng.random((2, 2)) + 0.5])
        here = tuple(rng.random(2) * 10)
        found = [
            preferred(form_of(kind, "euclidean", way), record, LABEL, 0, 1, here, 100.0)
            for way in (CLOSED, TRIM, LEMMA)
        ]
        assert found[0] >= found[1] * (1 - 1e-6)
        assert found[1] >= found[2] * (1 - 1e-6)


@settings(max_examples=200)
@given(
    st.sampled_from(list(KINDS)),
    st.sampled_from(list(CODES)),
    st.sampled_from([0.25, 1.0, 3.0]),
    st.tuples(st.sampled_from([0.5, 1.0, 6.0]), st.sampled_from([0.5, 1.0, 6.0])),
    st.sampled_from([0.0, 1e-9, 0.5, 3.0, 1e7]),
    st.sampled_from([0.0, 1e-9, 0.5, 2.9, 3.0, 1e6, np.inf]),
)
def test_a_score_falls_no_further_than_it_may(
    kind: str, metric: str, weight: float, statics: Any, d: float, radius: float
) -> None:
    form = form_of(kind, metric, CLOSED, weight)
    sure = zone_scores.may_fall_to(form, value(form, *statics, d), d, radius)
    assert sure <= zone_scores.lowest(form, *statics, d, radius)


def test_twins_at_one_place_never_change_order() -> None:
    record = np.array([[1.0, 2.0, 3.0, 3.0]] * 2)
    for kind in KINDS:
        form = form_of(kind, "euclidean", CLOSED)
        assert preferred(form, record, np.array([1, 2]), 0, 1, (9.0, 9.0), np.inf) == np.inf
        assert preferred(form, record, np.array([2, 1]), 0, 1, (9.0, 9.0), np.inf) == 0.0


def test_without_weight_of_distance_order_is_forever() -> None:
    record = np.array([[1.0, 2.0, 3.0, 3.0], [5.0, 2.0, 4.0, 4.0]])
    form = form_of("sum", "haversine", CLOSED, weight=0.0)
    assert preferred(form, record, LABEL, 0, 1, (9.0, 9.0), np.inf) == np.inf
    assert preferred(form, record, LABEL, 1, 0, (9.0, 9.0), np.inf) == 0.0


@settings(max_examples=300)
@given(
    st.floats(-180, 180),
    st.floats(-90, 90),
    st.lists(st.floats(-180, 180), min_size=2, max_size=2).map(sorted),
    st.lists(st.floats(-90, 90), min_size=2, max_size=2).map(sorted),
    st.integers(0, 999),
)
def test_no_place_of_a_box_on_the_globe_is_nearer(
    x: float, y: float, lons: Any, lats: Any, seed: int
) -> None:
    least = zone_scores.box_distance(CODES["haversine"], x, y, lons[0], lons[1], lats[0], lats[1])
    rng = np.random.default_rng(seed)
    share = np.concatenate([rng.random((30, 2)), [[0, 0], [0, 1], [1, 0], [1, 1], [0, 0.5], [1, 0.5]]])
    found = [
        distance(
            CODES["haversine"], x, y, lons[0] + (lons[1] - lons[0]) * a, lats[0] + (lats[1] - lats[0]) * b
        )
        for a, b in share
    ]
    assert least <= min(found)


def test_the_distance_to_a_box_on_the_globe_is_reached() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        lons, lats = np.sort(rng.uniform(-180, 180, 2)), np.sort(rng.uniform(-90, 90, 2))
        x, y = rng.uniform(-180, 180), rng.uniform(-90, 90)
        least = zone_scores.box_distance(CODES["haversine"], x, y, *lons, *lats)
        grid = np.linspace(0, 1, 400)
        found = min(
            distance(CODES["haversine"], x, y, lon, lat)
            for lon in (*lons, np.clip(x, *lons))
            for lat in (*(lats[0] + (lats[1] - lats[0]) * grid), np.clip(y, *lats))
        )
        assert least == pytest.approx(found, rel=1e-3, abs=100.0)
