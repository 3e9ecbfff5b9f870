"""Scores: formulas, order of operations, weights, what is undefined, one's own functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from rankcast.errors import InputError, SettingError, SnapshotError
from rankcast.moving import scoring
from rankcast.structures.jit import EXACT
from rankcast.tables.schema import Floats

OVER = ["price", "stars"]
ATTRIBUTES = np.array([[2.0, 5.0], [0.5, 0.25], [7.0, 0.1]])
DISTANCE = np.array([3.0, 0.0, 0.7])
POSITIVE = st.floats(1e-3, 1e3)
WEIGHT = st.one_of(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.floats(0, 3))


def one(score: scoring.Score, attributes: list[float], distance: float) -> float:
    return float(score(np.array([attributes]), np.array([distance]))[0])


@given(st.lists(POSITIVE, min_size=2, max_size=2), POSITIVE, st.lists(WEIGHT, min_size=3, max_size=3))
def test_each_formula_is_computed_in_the_order_that_the_module_says(
    a: list[float], d: float, w: list[float]
) -> None:
    total = w[0] * a[0] + w[1] * a[1]
    product = math.pow(a[0], w[0]) * math.pow(a[1], w[1]) * math.pow(d, w[2])
    assert one(scoring.weighted_sum(w), a, d) == total + w[2] * d
    assert one(scoring.weighted_product(w), a, d) == product
    assert one(scoring.waspas(w, 0.3), a, d) == 0.3 * (total + w[2] * d) + (1 - 0.3) * product
    if total > 0:
        assert one(scoring.weighted_distance(w[:2]), a, d) == d / total


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _compiled_product(attributes: Floats, distance: Floats, w: Floats) -> Floats:
    out = np.empty(distance.size)
    for i in range(distance.size):
        total = attributes[i, 0] ** w[0]
        for j in range(1, attributes.shape[1]):
            total *= attributes[i, j] ** w[j]
        out[i] = total * distance[i] ** w[-1]
    return out


def test_compiled_code_gives_the_same_bits_as_the_weighted_product() -> None:
    rng = np.random.default_rng(3)
    attributes, distance = 10 ** rng.uniform(-3, 3, (5000, 2)), 10 ** rng.uniform(-3, 3, 5000)
    for w in ([0.5, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3], [2.0, 0.0, 1.0]):
        found = scoring.weighted_product(w)(attributes, distance)
        assert np.array_equal(found, _compiled_product(attributes, distance, np.array(w)))


@pytest.mark.parametrize(
    "score",
    [scoring.weighted_sum(), scoring.weighted_product(), scoring.weighted_distance(), scoring.waspas()],
)
def test_a_score_depends_on_its_object_alone(score: scoring.Weighted) -> None:
    whole = score(ATTRIBUTES, DISTANCE)
    for row in range(3):
        assert score(ATTRIBUTES[row : row + 1], DISTANCE[row : row + 1])[0] == whole[row]


def test_default_weights_are_equal_and_add_up_to_one() -> None:
    assert scoring.weighted_sum().fitted(OVER).w == (1 / 3, 1 / 3, 1 / 3)
    assert scoring.weighted_distance().fitted(OVER).w == (0.5, 0.5)
    assert one(scoring.weighted_sum(), [3.0, 6.0], 9.0) == pytest.approx(6.0)


def test_without_attributes_the_default_score_is_the_distance() -> None:
    score = scoring.weighted_sum().fitted([])
    assert np.array_equal(score(np.empty((3, 0)), DISTANCE), DISTANCE)


@pytest.mark.parametrize("w", [[1, -1], [math.nan], [math.inf], ["1"], "12", 3, [None], [[1, 2]]])
def test_weights_are_finite_numbers_and_not_negative(w: Any) -> None:
    for make in (scoring.weighted_sum, scoring.weighted_product, scoring.weighted_distance, scoring.waspas):
        with pytest.raises(SettingError, match="none below 0"):
            make(w)


def test_the_number_of_weights_must_fit_the_attributes() -> None:
    with pytest.raises(SettingError, match="has 2 weights, expected 3: for price, stars, distance"):
        scoring.weighted_sum([1, 1]).fitted(OVER)
    with pytest.raises(SettingError, match="has 3 weights, expected 2: for price, stars"):
        scoring.weighted_distance([1, 1, 1]).fitted(OVER)


def test_weighted_distance_needs_something_to_divide_by() -> None:
    with pytest.raises(SettingError, match="above 0"):
        scoring.weighted_distance([0, 0])
    with pytest.raises(SettingError, match="needs an attribute"):
        scoring.weighted_distance().fitted([])


@pytest.mark.parametrize("lam", [-0.1, 1.1, math.nan, "half"])
def test_lam_is_a_share(lam: Any) -> None:
    with pytest.raises(SettingError, match="lam"):
        scoring.waspas(None, lam)


def test_weights_may_be_an_array_and_the_score_is_a_frozen_value() -> None:
    score = scoring.waspas(np.array([1, 2]), 0.5)
    assert score == scoring.waspas([1.0, 2.0]) != scoring.waspas([1.0, 3.0])
    assert len({score, scoring.waspas([1, 2])}) == 1
    with pytest.raises(AttributeError):
        score.w = None  # type: ignore[misc]


def test_a_product_is_undefined_where_an_attribute_that_counts_is_not_above_zero() -> None:
    attributes = np.array([[0.0, 0.0], [1.0, -1.0], [1.0, 2.0]])
    for score in (scoring.weighted_product([1, 0, 1]), scoring.waspas([1, 0, 1])):
        assert score.undefined(attributes)[0].tolist() == [[True, False], [False, False], [False, False]]
    assert scoring.weighted_product().undefined(attributes)[0].tolist()[1] == [False, True]
    assert not scoring.weighted_sum().undefined(attributes)[0].any()


def test_weighted_distance_is_undefined_where_the_sum_is_not_above_zero() -> None:
    attributes = np.array([[0.0, 0.0], [1.0, -1.0], [1.0, 0.0]])
    assert scoring.weighted_distance().undefined(attributes)[0].any(axis=1).tolist() == [True, True, False]


def test_only_weighted_distance_falls_in_attributes() -> None:
    assert scoring.falls(scoring.weighted_distance(), OVER).tolist() == [True, True]
    assert scoring.falls(scoring.waspas(), OVER).tolist() == [False, False]
    own = scoring.function(lambda a, d: d - a[:, 1], falling=["stars"])
    assert scoring.falls(own, OVER).tolist() == [False, True]


def test_too_large_is_infinite_not_an_error_of_its_own() -> None:
    assert one(scoring.weighted_product([3, 1]), [1e300], 1.0) == math.inf


@pytest.mark.parametrize(
    ("f", "falling", "message"),
    [
        (lambda a, d: d - a[:, 0], [], "falls when price grows"),
        (lambda a, d: a[:, 0] - d, [], "falls when distance grows"),
        (lambda a, d: d + a[:, 0], ["price"], "rises when price grows"),
        (lambda a, d: d + np.sin(a[:, 1]), [], "falls when stars grows"),
        (lambda a, d: d + a[:, 0] / a[:, 0].max(), [], "depends on the other objects"),
        (lambda a, d: a, [], "expected numbers of shape"),
        (lambda a, d: 1.0, [], "expected numbers of shape"),
        (lambda a, d: d.astype(str), [], "expected numbers of shape"),
        (lambda a, d: a[:, 9], [], "fails on a sample: IndexError"),
        (lambda a: a, [], "fails on a sample: TypeError"),
        (lambda a, d: d * np.nan, [], "finite for no sample"),
        (lambda a, d: d, ["pric"], 'Did you mean "price"'),
    ],
)
def test_a_function_that_breaks_the_rules_is_refused(f: Any, falling: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        scoring.function(f, falling=falling).fitted(OVER)


@pytest.mark.parametrize(
    ("f", "falling"),
    [
        (lambda a, d: a @ np.array([0.3, 0.7]) + d, []),
        (lambda a, d: np.floor(d) + np.minimum(a[:, 0], 1), []),
        (lambda a, d: np.log(d) - np.log(1 - a[:, 1]), []),
        (lambda a, d: d - a.sum(axis=1), "all"),
        (lambda a, d: np.zeros(d.size, np.int64), []),
        (njit(lambda a, d: a[:, 0] * d), []),
    ],
)
def test_a_monotonic_function_is_accepted(f: Any, falling: Any) -> None:
    scoring.function(f, falling=falling).fitted(OVER)


def test_a_function_may_write_into_what_it_is_given() -> None:
    def rude(attributes: Floats, distance: Floats) -> Floats:
        attributes *= 2
        distance += attributes[:, 0]
        return distance

    attributes, distance = ATTRIBUTES.copy(), DISTANCE.copy()
    assert scoring.function(rude)(attributes, distance).tolist() == (DISTANCE + 2 * ATTRIBUTES[:, 0]).tolist()
    assert np.array_equal(attributes, ATTRIBUTES)
    assert np.array_equal(distance, DISTANCE)


def test_a_function_is_not_asked_about_nothing() -> None:
    score = scoring.function(lambda a, d: d - d.min())
    assert score(np.empty((0, 2)), np.empty(0)).tolist() == []


def test_a_result_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(InputError, match=r"returned float64 of shape \(3, 2\) for 3 objects"):
        scoring.function(lambda a, d: a)(ATTRIBUTES, DISTANCE)


def test_a_score_is_a_score_or_a_function() -> None:
    for odd in ("weighted_sum", 3, [1, 2]):
        with pytest.raises(SettingError, match="a score or a function"):
            scoring.as_score(odd)


@pytest.mark.parametrize(
    "score",
    [
        scoring.weighted_sum([1, 0.1, 2]),
        scoring.weighted_product(),
        scoring.weighted_distance([1, 3]),
        scoring.waspas([1, 2, 3], 0.1),
    ],
)
def test_a_score_comes_back_from_its_json_form(score: scoring.Weighted) -> None:
    assert scoring.restored(score.as_json()) == score
    assert scoring.restored(score.as_json(), score) == score
    with pytest.raises(SnapshotError, match="was saved with"):
        scoring.restored(score.as_json(), scoring.weighted_sum([9, 9, 9]))


def test_a_function_has_to_be_given_again() -> None:
    score = scoring.function(lambda a, d: d - a[:, 0], falling=["price"])
    assert scoring.restored(score.as_json(), score) is score
    with pytest.raises(SnapshotError, match=r"load\(path, score=f\)"):
        scoring.restored(score.as_json())
    with pytest.raises(SnapshotError, match="was saved with"):
        scoring.restored(score.as_json(), score.f)
