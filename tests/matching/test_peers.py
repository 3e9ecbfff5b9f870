"""The peers of ranked matching answer right: a slow contender that is wrong would flatter everybody."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankcast.bench.baselines.matching import (
    DuckdbTop,
    IntervalTreeAll,
    NclsAll,
    NumpyChunks,
    NumpyMatching,
    RtreeAll,
    SqliteScores,
)
from rankcast.bench.workloads import matching

ONE = [NumpyChunks, SqliteScores, NclsAll, DuckdbTop, IntervalTreeAll, RtreeAll]


def answers(peer: Any, rows: Any, over: list[str], events: Any) -> list[list[int]]:
    return [ids.tolist() for ids, _ in peer(rows, over, 7).publish(events)]


@pytest.mark.parametrize("peer", ONE, ids=lambda peer: peer.__name__)
@pytest.mark.parametrize("kind", ["A", "B", "C"])
def test_intervals(peer: Any, kind: str) -> None:
    rows, events = matching.crowded(kind, 3000, 60, np.random.default_rng(2))
    assert answers(peer, rows, ["a0"], events) == answers(NumpyMatching, rows, ["a0"], events)


@pytest.mark.parametrize("peer", [NumpyChunks, DuckdbTop, RtreeAll], ids=lambda peer: peer.__name__)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_boxes(peer: Any, kind: str) -> None:
    over = ["a0", "a1", "a2"]
    rows, events = matching.heavy_boxes(kind, 3, 3000, 60, np.random.default_rng(2))
    assert answers(peer, rows, over, events) == answers(NumpyMatching, rows, over, events)
