"""The picture of a zone: it is drawn, and has in it what it says."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from rankcast import InputError, MovingTopK
from rankcast.plot import zone

pytest.importorskip("matplotlib")


def city(metric: str) -> MovingTopK:
    rng = np.random.default_rng(3)
    engine = MovingTopK(over=["price"], k=3, m=3, metric=metric, tuning={"threads": 1})
    engine.upsert(
        {"id": np.arange(300), "x": rng.random(300) * 10, "y": rng.random(300) * 10, "price": rng.random(300)}
    )
    engine.subscribe({"id": ["taxi"], "x": [5.0], "y": [5.0], "price_hi": [0.9]})
    return engine


@pytest.mark.parametrize(
    ("metric", "shape"), [("euclidean", "Ellipse"), ("manhattan", "Polygon"), ("haversine", "Ellipse")]
)
def test_a_zone_is_drawn_in_every_metric(metric: str, shape: str, tmp_path: Path) -> None:
    engine = city(metric)
    figure = zone(engine, "taxi", track=[(4, 4), (5, 5)])
    axes = figure.axes[0]
    assert [type(patch).__name__ for patch in axes.patches] == [shape]
    assert {text.get_text() for text in axes.texts} == {"1", "2", "3"}
    figure.savefig(tmp_path / "zone.png")
    assert (tmp_path / "zone.png").stat().st_size > 10_000


def test_a_zone_that_is_everywhere_has_no_rim() -> None:
    engine = MovingTopK(over=[], k=3)
    engine.upsert({"id": ["a"], "x": [1], "y": [2]})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert not zone(engine, 1).axes[0].patches
    assert math.isinf(engine.view(1)["zone"]["radius"])


def test_a_view_knows_members_and_results_and_leaves_out_what_a_filter_does() -> None:
    engine = city("euclidean")
    told = engine.view("taxi")
    assert [told["items"][place] for place in told["result"]] == engine.results()["item"].to_pylist()
    assert set(told["result"]) <= set(told["members"])
    assert len(told["items"]) < 300
    with pytest.raises(InputError, match="not known"):
        engine.view("bus")
