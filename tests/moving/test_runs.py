"""Runs of values by row against a dict of lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.moving.ragged import Runs

ROWS = st.lists(st.integers(0, 12), unique=True, max_size=6)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.booleans(), ROWS, st.integers(0, 400)), max_size=12), st.integers(0, 10**6))
def test_runs_hold_what_was_put(steps: list[tuple[bool, list[int], int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs = Runs(one=np.int32, two=np.float64)
    held: dict[int, list[int]] = {}
    for drops, rows, most in steps:
        if drops:
            gone = [row for row in rows if row in held]
            runs.drop(np.array(gone, np.int32))
            for row in gone:
                del held[row]
        else:
            counts = rng.integers(0, most + 1, len(rows))
            values = rng.integers(0, 99, int(counts.sum())).astype(np.int32)
            runs.put(np.array(rows, np.int32), counts, {"one": values, "two": values / 2})
            parts = np.split(values, np.cumsum(counts)[:-1]) if rows else []
            held |= {row: part.tolist() for row, part in zip(rows, parts, strict=True)}
        runs.check()
        for row, values_of in held.items():
            there = slice(int(runs.start[row]), int(runs.start[row] + runs.count[row]))
            assert runs.values["one"][there].tolist() == values_of
            assert (2 * runs.values["two"][there]).tolist() == values_of
    header, arrays = runs.state()
    again = Runs(one=np.int32, two=np.float64).restore(header, arrays)
    again.check()
    assert again.values["one"] is arrays["one"]
