"""Ranges around a value and below a category."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast import Hierarchy, InputError, RangeTopK, near


@given(st.integers(-9, 9), st.integers(0, 5), st.integers(-20, 20))
def test_near_holds_exactly_what_is_near(x: int, r: int, value: int) -> None:
    lo, hi = near(x, r)
    assert (lo <= value <= hi) == (abs(value - x) <= r)


@pytest.mark.parametrize(("x", "r"), [(1.0, -0.1), (float("nan"), 1.0), (1.0, float("inf")), ([1.0], [-1.0])])
def test_near_refuses_what_is_no_distance(x: Any, r: Any) -> None:
    with pytest.raises(InputError):
        near(x, r)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, str | None]:
    parents: dict[str, str | None] = {}
    for place, name in enumerate(draw(st.permutations("abcdefgh"))):
        known = list(parents)
        parents[name] = draw(st.sampled_from([None, *known])) if place else None
    return parents


@given(trees())
def test_a_range_of_categories_holds_exactly_what_is_below(parents: dict[str, str | None]) -> None:
    hierarchy = Hierarchy(parents)
    assert len(hierarchy) == len(parents)
    for upper in parents:
        lo, hi = hierarchy.range(upper)
        for category in parents:
            step: str | None = category
            while step is not None and step != upper:
                step = parents[step]
            assert (lo <= hierarchy.code(category) <= hi) == (step == upper)


def test_roots_may_be_named_as_parents_only() -> None:
    assert Hierarchy({"apple": "fruit"}).range("fruit") == (0.0, 1.0)


def test_cycles_and_unknown_categories_are_refused() -> None:
    with pytest.raises(InputError, match="ancestor"):
        Hierarchy({"a": "b", "b": "a"})
    with pytest.raises(InputError, match='Did you mean "apple"'):
        Hierarchy({"apple": "fruit"}).code("aple")


def test_both_make_subscriptions() -> None:
    goods = Hierarchy({"apple": "fruit", "rye": "bread"})
    engine = RangeTopK(over="kind", by="price", k=1)
    engine.publish({"id": ["a", "r"], "kind": [goods.code("apple"), goods.code("rye")], "price": [2, 1]})
    lo, hi = goods.range("fruit")
    engine.subscribe(
        {"id": ["fruit", "near rye"], "kind_lo": [lo, near(goods.code("rye"), 0.5).lo], "kind_hi": [hi, None]}
    )
    assert engine.results()["item"].to_pylist() == ["a", "r"]
