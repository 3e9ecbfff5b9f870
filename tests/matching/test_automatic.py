"""What `auto` chooses, that it says so, and that a change of mind changes no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import RankedMatcher
from rankcast.matching.indexes import AutomaticIndex
from tests.matching.histories import columns, follow


def boxes(count: int, over: list[str], bounded: int, rng: np.random.Generator) -> dict[str, Any]:
    """Boxes that bound some of the attributes, each its own."""
    chosen = rng.permuted(np.tile(np.arange(len(over)) < bounded, (count, 1)), axis=1)
    rows: dict[str, Any] = {"id": np.arange(count), "score": rng.random(count)}
    for place, name in enumerate(over):
        lo, free = rng.random(count), ~chosen[:, place]
        rows[f"{name}_lo"], rows[f"{name}_hi"] = pa.array(lo, mask=free), pa.array(lo + 0.01, mask=free)
    return rows


@pytest.mark.parametrize(
    ("attributes", "bounded", "expected"),
    [(1, 1, "interval-grid"), (3, 3, "box-tree"), (100, 2, "inverted")],
)
def test_the_choice_follows_dimensions_and_overlap(attributes: int, bounded: int, expected: str) -> None:
    rng = np.random.default_rng(3)
    over = [f"a{place}" for place in range(attributes)]
    engine, plain = RankedMatcher(over=over, k=5), RankedMatcher(over=over, k=5, index="scan")
    rows = boxes(20_000, over, bounded, rng)
    events = {"id": np.arange(10), **{name: rng.random(10) for name in over}}
    for each in (engine, plain):
        each.subscribe(rows)
    assert engine.publish(events).equals(plain.publish(events))
    stats = engine.stats()
    assert stats["index"] == expected == min(stats["index_costs"], key=stats["index_costs"].get)


def test_events_that_are_intervals_and_their_end_change_its_mind() -> None:
    rng = np.random.default_rng(4)
    engine, plain = RankedMatcher(over="x", k=5), RankedMatcher(over="x", k=5, index="scan")
    rows = {"id": np.arange(2000), "x_lo": np.arange(2000) / 9, "score": rng.random(2000)}
    for each in (engine, plain):
        each.subscribe(rows)
    chosen = []
    for _ in range(12):
        lo = rng.random(400) * 300
        spans = {"id": np.arange(400), "x_lo": lo, "x_hi": lo + 3}
        assert engine.publish(spans).equals(plain.publish(spans))
        chosen.append(engine.stats()["index"])
    assert (chosen[0], chosen[-1]) == ("interval-grid", "box-tree")


@pytest.mark.parametrize(("dimensions", "combine"), [(1, None), (2, "sum")])
def test_a_restless_index_answers_as_brute_force(
    dimensions: int, combine: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, turns = np.random.default_rng(7), iter(range(10**6))

    def any_costs(*_: Any, **__: Any) -> dict[str, float]:
        names = ["box-tree", "inverted", "interval-grid"][: 3 if dimensions == 1 else 2]
        turn = next(turns)
        return {name: 4.0 ** ((place + turn) % len(names)) for place, name in enumerate(names)}

    monkeypatch.setattr("rankcast.matching.indexes.expected", any_costs)
    monkeypatch.setattr(AutomaticIndex, "_chooses", lambda self, rows: True)
    index, seen = AutomaticIndex(dimensions, combine=combine), set[str]()
    original = AutomaticIndex._make

    def make(self: AutomaticIndex, name: str) -> Any:
        seen.add(name)
        return original(self, name)

    monkeypatch.setattr(AutomaticIndex, "_make", make)
    c = columns(dimensions, combine, rng, ties=True)
    follow(index, c, combine, rng)
    assert len(seen) >= 2
