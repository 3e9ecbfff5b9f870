"""Values that move while the number of subscriptions stays: answers, and what codes are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankcast import RankedMatcher
from rankcast.matching.boxes import FARTHEST, MARGIN, outside, quantiles
from rankcast.matching.kernels.box_tree import CELLS, Columns, encode


def moved(rng: np.random.Generator, ids: Any, d: int, at: float) -> dict[str, Any]:
    """Boxes of small width near a place."""
    lo = at + rng.random((len(ids), d))
    ends = {f"a{j}_{end}": lo[:, j] + more for j in range(d) for end, more in (("lo", 0.0), ("hi", 0.1))}
    return {"id": ids, "score": np.round(rng.random(len(ids)), 2), **ends}


@pytest.mark.parametrize("index", ["auto", "box-tree", "inverted"])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_answers_follow_values_that_move_far_away_and_back(d: int, index: str) -> None:
    rng, over, size = np.random.default_rng(d), [f"a{j}" for j in range(d)], 400
    engines = [RankedMatcher(over=over, k=5, index=each) for each in (index, "scan")]
    for each in engines:
        each.subscribe(moved(np.random.default_rng(0), np.arange(size), d, 0.0))
    for turn in range(24):
        at = [0.1 * turn, -3.0 * turn, 1e6, 2.0**turn][turn % 4]
        gone, come = np.arange(turn * 50, turn * 50 + 50), np.arange(size + turn * 50, size + turn * 50 + 50)
        rows = moved(rng, come, d, at)
        events = {"id": np.arange(8), **{name: at + rng.random(8) for name in over}}
        for each in engines:
            each.unsubscribe(gone)
            each.subscribe(rows)
        assert engines[0].publish(events).equals(engines[1].publish(events))


@pytest.mark.parametrize("d", [1, 2])
def test_codes_are_made_anew_where_values_have_moved(d: int) -> None:
    rng, over = np.random.default_rng(3), [f"a{j}" for j in range(d)]
    engine = RankedMatcher(over=over, index="box-tree" if d > 1 else "auto")
    engine.subscribe(moved(rng, np.arange(1000), d, 0.0))
    for turn in range(40):
        engine.subscribe(moved(rng, np.arange(1000 + 50 * turn, 1050 + 50 * turn), d, 50.0 + turn))
        engine.unsubscribe(np.arange(50 * turn, 50 * turn + 50))
    cuts = engine.state()[1]["index.cuts"]
    margin = cuts.shape[1] // MARGIN
    assert (cuts[:, margin] > 40).all()


@pytest.mark.parametrize("ends", [[0.0, 1.0], [5.0], [-FARTHEST, FARTHEST], [1e-300, 2e-300]])
def test_cuts_ascend_and_reach_beyond_all_ends(ends: list[float]) -> None:
    values = np.array(ends)[:, None]
    cuts = quantiles(values, values, CELLS + 1)
    assert np.isfinite(cuts).all()
    assert (cuts[:, 1:] >= cuts[:, :-1]).all()
    assert cuts[0, 0] <= min(ends) <= max(ends) <= cuts[0, -1]
    columns = Columns(values, values, values[:, 0], np.empty((len(ends), 0)), np.arange(len(ends)))
    assert outside(cuts, columns, np.arange(len(ends), dtype=np.int32)) == 0
    span = max(ends) - min(ends)
    if 0 < span < 1:
        beyond = [encode(cuts, 0, max(ends) + span * part, 2**15 - 2) for part in (0.1, 0.2, 0.5, 0.9, 3.0)]
        assert beyond == sorted(set(beyond))


def test_rows_are_filed_under_their_rarest_attribute() -> None:
    rng, count = np.random.default_rng(5), 4000
    over = [f"a{j}" for j in range(8)]
    rows: dict[str, Any] = {"id": np.arange(count), "score": rng.random(count)}
    for place, name in enumerate(over):
        common = np.zeros(count) if place < 7 else np.arange(count).astype(float)
        rows[f"{name}_lo"] = rows[f"{name}_hi"] = common
    engine, plain = (RankedMatcher(over=over, index=index, k=3) for index in ("inverted", "scan"))
    events = {"id": np.arange(20), **{name: np.zeros(20) for name in over[:7]}, "a7": np.arange(20) * 50.0}
    for each in (engine, plain):
        each.subscribe(rows)
    assert engine.publish(events).equals(plain.publish(events))
    assert engine.stats()["candidates"] < 200  # a common value would have 4,000 candidates an event
