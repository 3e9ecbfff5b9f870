"""Amending many subscriptions: deltas that are told in parts, and points that several calls have moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import RangeTopK
from rankcast.engines import range_painted


def drawn(rng: np.random.Generator, ids: list[Any]) -> dict[str, Any]:
    ends = np.sort(rng.integers(0, 12, (len(ids), 2))) * 0.5
    return {"id": ids, "x_lo": ends[:, 0], "x_hi": ends[:, 1]}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([int, str]), st.sampled_from([int, str]), st.booleans())
def test_parts_are_the_whole(seed: int, kind: type, other: type, own: bool) -> None:
    rng = np.random.default_rng(seed)
    engines = [RangeTopK(k=2), RangeTopK(k=2, method="scan")]
    objects = {"id": [other(i) for i in range(9)], "x": rng.integers(0, 12, 9) * 0.5, "y": rng.random(9)}
    given_k = {"k": rng.integers(1, 4, 24)} if own else {}
    everybody = drawn(rng, [kind(i) for i in range(24)]) | given_k
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_painted, "PART", 1)
        for engine in engines:
            engine.publish(objects)
            engine.subscribe(everybody)
        for _ in range(2):
            some = [kind(i) for i in rng.permutation(24)[: rng.integers(0, 25)].tolist()]
            rows = drawn(rng, some)
            told, expected = (engine.amend(rows) for engine in engines)
            assert told.schema == expected.schema
            assert told.to_pylist() == expected.to_pylist()
        event = {"id": [other(3)], "y": [-1.0]}
        told, expected = (engine.publish(event) for engine in engines)
        assert told.to_pylist() == expected.to_pylist()


def test_large_answers_come_in_parts() -> None:
    engine, rng = RangeTopK(k=2), np.random.default_rng(3)
    engine.publish({"id": np.arange(9), "x": rng.random(9) * 6, "y": rng.random(9)})
    engine.subscribe(drawn(rng, list(range(200))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_painted, "PART", 1)
        told = engine.amend(drawn(rng, list(range(200))))
    assert told.column("item").num_chunks > 1
