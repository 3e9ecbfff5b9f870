"""The difference of two results, against dicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.structures.topk_lists import ENTER, LEAVE, UPDATE
from rankcast.tables import deltas
from rankcast.tables.deltas import Changes, External, Lists

Result = list[tuple[int, float]]
RESULTS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([0.0, 1.0, 2.0])),
    max_size=5,
    unique_by=lambda entry: entry[0],
)


def flat(results: dict[int, Result], order: list[int]) -> Lists:
    rows = [(who, item, score, rank) for who in order for rank, (item, score) in enumerate(results[who], 1)]
    kinds = (np.int32, np.int32, np.float64, np.int64)
    return Lists._make(np.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds))


def told(changes: Changes) -> list[tuple[Any, ...]]:
    return [tuple(None if np.isnan(value) else value for value in row) for row in zip(*changes, strict=True)]


def expected(who: int, old: Result, new: Result, *, updates: bool) -> list[tuple[Any, ...]]:
    before, after = dict(old), dict(new)
    rows: list[tuple[Any, ...]] = [
        (who, LEAVE, item, None, 0, score) for item, score in old if item not in after
    ]
    for rank, (item, score) in enumerate(new, 1):
        if item not in before:
            rows.append((who, ENTER, item, score, rank, None))
        elif updates and before[item] != score:
            rows.append((who, UPDATE, item, score, rank, before[item]))
    return rows


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_difference_tells_leaves_then_entries_by_registration(data: st.DataObject) -> None:
    everybody = list(range(data.draw(st.integers(0, 5))))
    before = {who: data.draw(RESULTS) for who in everybody}
    after = {who: data.draw(RESULTS) for who in everybody}
    sequence = np.array(data.draw(st.permutations(everybody)), np.int64)
    order, updates = data.draw(st.permutations(everybody)), data.draw(st.booleans())
    found = deltas.difference(flat(before, order), flat(after, order), sequence, updates=updates)
    assert told(found) == [
        row
        for who in sorted(everybody, key=lambda who: int(sequence[who]))
        for row in expected(who, before[who], after[who], updates=updates)
    ]


@pytest.mark.parametrize("kind", ["left", "entered"])
def test_all_of_a_result_comes_or_goes(kind: str) -> None:
    results, sequence = {0: [(3, 1.0), (1, 2.0)], 1: [(2, 0.5)]}, np.array([9, 4])
    lists = flat(results, [1, 0])
    found = deltas.left(lists, sequence) if kind == "left" else deltas.entered(lists)
    nothing = flat({0: [], 1: []}, [0, 1])
    pair = (lists, nothing) if kind == "left" else (nothing, lists)
    assert told(found) == told(deltas.difference(*pair, sequence))


@pytest.mark.parametrize("op", [ENTER, LEAVE])
@pytest.mark.parametrize("size", [0, 1, deltas.CHUNK, deltas.CHUNK + 1, 2 * deltas.CHUNK])
def test_whole_results_are_told_as_their_changes_are(op: int, size: int) -> None:
    rows = np.arange(size, dtype=np.int32)
    lists = Lists(rows, rows[::-1].copy(), rows.astype(np.float64) * 0.5, np.ones(size, np.int64))
    changes = deltas.entered(lists) if op == ENTER else deltas.left(lists, rows.astype(np.int64))
    subscription, item = pa.array(lists.subscription), pa.array(lists.item)
    table = deltas.whole(External(subscription, item, lists.score, lists.rank), op)
    assert table.equals(deltas.to_table(changes, subscription, item))
    assert table.column("op").type == deltas.OP
