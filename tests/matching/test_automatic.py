"""What `auto` chooses, that it says so, and that a change of mind changes no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import RankedMatcher
from rankcast.matching import indexes
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
    chosen = [engine.stats()["index"]]
    for _ in range(3):
        lo = rng.random(400) * 300
        spans = {"id": np.arange(400), "x_lo": lo, "x_hi": lo + 3}
        assert engine.publish(spans).equals(plain.publish(spans))
        chosen.append(engine.stats()["index"])
    assert chosen == ["interval-grid", "box-tree", "box-tree", "box-tree"]


@pytest.mark.parametrize(("dimensions", "combine"), [(1, None), (2, "sum")])
def test_a_restless_index_answers_as_brute_force(
    dimensions: int, combine: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, turns = np.random.default_rng(7), iter(range(10**6))

    def any_costs(*_: Any, **__: Any) -> tuple[dict[str, float], dict[str, float]]:
        names = ["box-tree", "inverted", "interval-grid"][: 3 if dimensions == 1 else 2]
        turn = next(turns)
        costs = {name: 4.0 ** ((place + turn) % len(names)) for place, name in enumerate(names)}
        return costs, dict.fromkeys(names, 0.0)

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


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_model_that_errs_is_found_out(one_by_one: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial counts what each index reads, keeps the cheapest, and corrects the model."""
    real = indexes.expected

    def wrong(*given: Any, **named: Any) -> Any:
        reading, changing = real(*given, **named)
        return {**reading, "inverted": 0.001}, changing

    monkeypatch.setattr(indexes, "expected", wrong)
    rng, over = np.random.default_rng(6), ["x", "y"]
    lo = rng.random((3000, 2))
    rows = {"id": np.arange(3000), "score": rng.random(3000)}
    rows |= {
        f"{name}_{end}": lo[:, j] + w for j, name in enumerate(over) for end, w in (("lo", 0), ("hi", 0.03))
    }
    engine, plain = (RankedMatcher(over=over, k=5, index=index) for index in ("auto", "scan"))
    for each in (engine, plain):
        each.subscribe(rows)
    assert engine.stats()["index"] == "inverted"
    events = {"id": np.arange(5000), **{name: rng.random(5000) for name in over}}
    cuts = range(5000) if one_by_one else range(0, 5000, 500)
    for start in cuts:
        part = {name: values[start : start + (1 if one_by_one else 500)] for name, values in events.items()}
        found = engine.publish(part)
        if start % 250 == 0:
            assert found.equals(plain.publish(part))
    stats = engine.stats()
    assert stats["index"] == "box-tree" == min(stats["index_costs"], key=stats["index_costs"].get)
