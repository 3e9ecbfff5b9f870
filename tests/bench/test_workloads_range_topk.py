"""The range top-k workloads: ranges, shapes, seeds, and distributions that would be seen to be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.bench.workloads import Columns, batches, draw, occurrences, range_topk, zipf_weights

OBJECT_KINDS = ("uniform", "clustered", "skewed")
SUBSCRIPTION_KINDS = ("uniform", "clustered", "correlated", "anti-correlated", "skewed")


def rng(seed: int = 3) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(keys=st.lists(st.integers(-3, 3)))
def test_occurrences_count_equal_ones_before(keys: list[int]) -> None:
    expected = [keys[:place].count(key) for place, key in enumerate(keys)]
    assert occurrences(np.array(keys, np.int64)).tolist() == expected


@given(size=st.integers(1, 7), length=st.integers(0, 20))
def test_batches_are_the_rows_in_order(size: int, length: int) -> None:
    rows = {"id": np.arange(length), "x": np.arange(length) * 0.5}
    cut = batches(rows, size)
    assert all(len(batch["id"]) == size for batch in cut[:-1])
    assert [value for batch in cut for value in batch["id"].tolist()] == list(range(length))


@given(count=st.integers(1, 30), skew=st.floats(0.0, 3.0))
def test_zipf_weights_fall_by_rank(count: int, skew: float) -> None:
    weights = zipf_weights(count, skew)
    assert weights.sum() == pytest.approx(1.0)
    assert np.allclose(weights / weights[0], np.arange(1, count + 1) ** -skew)


def test_draw_follows_the_weights() -> None:
    counts = np.bincount(draw(np.array([0.0, 3.0, 1.0, 0.0]), 40_000, rng()), minlength=4)
    assert counts[0] == counts[3] == 0
    assert counts[1] / counts[2] == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("kind", OBJECT_KINDS)
def test_objects_lie_in_the_unit_square(kind: Any) -> None:
    made = range_topk.objects(5_000, rng(), kind)
    assert made["id"].tolist() == list(range(5_000))
    for column in (made["x"], made["y"]):
        assert column.min() >= 0.0
        assert column.max() <= 1.0
        assert np.unique(column).size > 4_900


@pytest.mark.parametrize("kind", SUBSCRIPTION_KINDS)
def test_subscriptions_are_ranges_in_the_unit_interval(kind: Any) -> None:
    made = range_topk.subscriptions(5_000, rng(), kind)
    assert len(made["id"]) == 5_000
    assert np.all((made["x_lo"] >= 0.0) & (made["x_lo"] <= made["x_hi"]) & (made["x_hi"] <= 1.0))


@pytest.mark.parametrize(
    "make",
    [
        *(lambda g, kind=kind: range_topk.objects(50, g, kind) for kind in OBJECT_KINDS),
        *(lambda g, kind=kind: range_topk.subscriptions(50, g, kind) for kind in SUBSCRIPTION_KINDS),
        lambda g: range_topk.uniform_events(range_topk.objects(9, g), 50, g),
        lambda g: range_topk.gaussian_events(range_topk.objects(9, g), 50, g, c=1.0),
    ],
)
def test_the_seed_decides(make: Callable[[np.random.Generator], Columns]) -> None:
    once, again, other = make(rng(1)), make(rng(1)), make(rng(2))
    assert all(np.array_equal(once[name], again[name]) for name in once)
    assert any(not np.array_equal(once[name], other[name]) for name in once)


def test_clusters_hold_a_tenth_of_the_objects_each() -> None:
    x = range_topk.objects(10_000, rng(), "clustered")["x"]
    nearest = np.abs(x[:, None] - range_topk.CENTRES).argmin(axis=1)
    assert np.all(np.abs(np.bincount(nearest, minlength=10) - 1_000) <= 5)
    distance = x - range_topk.CENTRES[nearest]
    assert distance.std() == pytest.approx(range_topk.SEGMENT / 8, rel=0.05)


def test_uniform_subscriptions_fill_the_triangle_evenly() -> None:
    made = range_topk.subscriptions(100_000, rng())
    lower = np.mean((made["x_lo"] < 0.5) & (made["x_hi"] < 0.5))
    across = np.mean((made["x_lo"] < 0.5) & (made["x_hi"] >= 0.5))
    assert lower == pytest.approx(0.25, abs=0.01)
    assert across == pytest.approx(0.5, abs=0.01)


def test_correlated_ranges_hold_objects_and_anti_correlated_ones_do_not() -> None:
    x = np.sort(range_topk.objects(10_000, rng(), "clustered")["x"])

    def held(kind: Any) -> float:
        made = range_topk.subscriptions(5_000, rng(), kind)
        inside = np.searchsorted(x, made["x_hi"], "right") - np.searchsorted(x, made["x_lo"], "left")
        return float(inside.mean())

    assert held("correlated") > 20 * held("anti-correlated")


def test_clustered_subscriptions_crowd_more_when_the_spread_is_small() -> None:
    def pairs(spread: float) -> float:
        made = range_topk.subscriptions(4_000, rng(), "clustered", spread=spread)
        cells = np.floor(made["x_lo"] * 50) * 50 + np.floor(made["x_hi"] * 50)
        return float((np.unique(cells, return_counts=True)[1] ** 2).sum())

    assert pairs(0.05) > 3 * pairs(0.5)


@given(count=st.integers(1, 60), covered=st.integers(1, 60), seed=st.integers(0, 99))
def test_narrow_ranges_cover_as_many_objects_as_asked(count: int, covered: int, seed: int) -> None:
    x = rng(seed).random(60)
    made = range_topk.narrow_subscriptions(count, x, covered, rng(seed))
    inside = (x >= made["x_lo"][:, None]) & (x <= made["x_hi"][:, None])
    assert np.all(inside.sum(axis=1) == covered)


def test_half_bounded_adds_one_bound() -> None:
    made = range_topk.half_bounded(range_topk.subscriptions(1_000, rng()), rng())
    assert set(made) == {"id", "x_lo", "x_hi", "z_hi"}
    assert made["z_hi"].mean() == pytest.approx(0.5, abs=0.05)


def walk(objects: Columns, events: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Give the value before and after each event, one event at a time."""
    y, before = dict(zip(objects["id"].tolist(), objects["y"].tolist(), strict=True)), []
    for key, value in zip(events["id"].tolist(), events["y"].tolist(), strict=True):
        before.append(y[key])
        y[key] = value
    return np.array(before), events["y"]


def test_uniform_events_go_either_way_to_a_uniform_place_before_that_end() -> None:
    objects = range_topk.objects(200, rng())
    before, after = walk(objects, range_topk.uniform_events(objects, 40_000, rng(5)))
    up = after > before
    assert up.mean() == pytest.approx(0.5, abs=0.01)
    share = np.where(up, (after - before) / (1.0 - before), (before - after) / before)
    assert np.all((share >= 0.0) & (share <= 1.0))
    assert np.allclose(np.histogram(share, 10, (0.0, 1.0))[0] / share.size, 0.1, atol=0.01)


@pytest.mark.parametrize("c", [0.25, 1.0])
def test_gaussian_events_step_by_an_eighth_of_c(c: float) -> None:
    objects = range_topk.objects(500, rng())
    before, after = walk(objects, range_topk.gaussian_events(objects, 40_000, rng(5), c=c))
    assert after.min() >= 0.0
    assert after.max() <= 1.0
    central = (before > 0.4) & (before < 0.6)
    assert (after - before)[central].std() == pytest.approx(c / 8, rel=0.05)
    assert np.unique(after).size == after.size


def test_no_events_no_rows() -> None:
    objects = range_topk.objects(5, rng())
    assert len(range_topk.uniform_events(objects, 0, rng())["id"]) == 0


@pytest.mark.parametrize("make", [range_topk.objects, range_topk.subscriptions])
def test_an_unknown_kind_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        make(3, rng(), "odd")


def test_more_objects_than_there_are_cannot_be_covered() -> None:
    with pytest.raises(ValueError, match="cannot cover"):
        range_topk.narrow_subscriptions(3, np.array([0.5]), 2, rng())
