"""The influence region of an object, in numbers and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast import InputError, RangeTopK, plot

SPOTS = st.integers(0, 5)


def inside(tile: Any, lo: float, hi: float) -> bool:
    outer, inner, bottom, top = tile
    return bool(
        (np.isnan(outer) or outer < lo) and lo <= inner and bottom <= hi and (np.isnan(top) or hi < top)
    )


@given(
    st.lists(st.tuples(SPOTS, st.integers(0, 4)), min_size=1, max_size=8),
    st.lists(st.tuples(SPOTS | st.none(), SPOTS | st.none()), min_size=1, max_size=8),
    st.integers(1, 3),
    st.sampled_from(["asc", "desc"]),
)
def test_tiles_hold_exactly_those_who_list_the_object(objects: Any, ranges: Any, k: int, order: str) -> None:
    engine = RangeTopK(k=k, order=order)
    x, y = zip(*objects, strict=True)
    engine.publish({"id": list(range(len(x))), "x": x, "y": y})
    ends = [sorted(pair) if None not in pair else pair for pair in ranges]
    engine.subscribe(
        {"id": list(range(len(ends))), "x_lo": [e[0] for e in ends], "x_hi": [e[1] for e in ends]}
    )
    listed = {(row["subscription"], row["item"]) for row in engine.results().to_pylist()}
    for item in range(len(x)):
        told = engine.influence(item)
        for place in range(len(ends)):
            lo, hi = told["lo"][place], told["hi"][place]
            reached = [tile for tile in told["tiles"] if inside(tile, lo, hi)]
            assert len(reached) == ((place, item) in listed)
            assert told["lists"][place] == ((place, item) in listed)
            why = engine.explain(place, item)
            if why["rank"] is not None:
                assert any(inside(tile, lo, hi) for tile in why["tiles"]) == why["in_result"]
                assert len(why["better"]) == min(k, why["rank"] - 1)


def test_several_attributes_have_no_such_region() -> None:
    engine = RangeTopK(over=["x", "z"])
    engine.publish({"id": [1], "x": [0], "z": [0], "y": [0]})
    with pytest.raises(InputError, match="one"):
        engine.influence(1)


def test_the_picture_shows_every_tile_and_subscription(tmp_path: Path) -> None:
    engine = RangeTopK(k=2)
    engine.publish({"id": ["a", "b", "c", "d"], "x": [1, 2, 3, 4], "y": [2, 1, 5, 0]})
    engine.subscribe({"id": [1, 2, 3], "x_lo": [0, 1, None], "x_hi": [9, 2, None]})
    figure = plot.influence(engine, "a")
    objects, subscriptions = figure.axes
    assert len(subscriptions.patches) == len(engine.influence("a")["tiles"])
    assert sum(len(dots.get_offsets()) for dots in subscriptions.collections) == 3
    assert len(objects.collections[0].get_offsets()) == 4
    figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
