"""Systems beside ours answer as the plain programs do, whatever arrives; a wrong one counts for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankcast import CoveringTable
from rankcast.bench.baselines.covering import BlockedScan
from rankcast.bench.baselines.differential import DifferentialRanges, differential_installed
from rankcast.bench.baselines.embedded import (
    DuckdbRanges,
    RtreeForwarded,
    SqliteCovering,
    SqliteRanges,
)
from rankcast.bench.baselines.geotext_tables import DuckdbGeotext
from rankcast.bench.baselines.lucene import LuceneGeotext, lucene_installed
from rankcast.bench.baselines.postgres import PostgresCovering, postgres_installed
from rankcast.bench.baselines.range_topk import AllAnew
from rankcast.bench.cases.geotext_steady import steady
from rankcast.bench.workloads import Columns

RANGES = {"SQLite": SqliteRanges, "DuckDB": DuckdbRanges, "differential-dataflow": DifferentialRanges}
COVERING = {"rtree": RtreeForwarded, "SQLite": SqliteCovering, "PostgreSQL": PostgresCovering}
GEOTEXT = {"DuckDB": DuckdbGeotext, "Lucene": LuceneGeotext}
INSTALLED = {
    "differential-dataflow": differential_installed,
    "Lucene": lucene_installed,
    "PostgreSQL": postgres_installed,
}


def needs(name: str) -> None:
    if name in ("DuckDB", "rtree", "SQLite"):
        pytest.importorskip({"DuckDB": "duckdb"}.get(name, "rtree"))
    if name in INSTALLED and not INSTALLED[name]():
        pytest.skip(f"{name} is not set up")


@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("name", RANGES)
def test_lists_of_ranges_with_ties_and_repeats_are_those_of_the_plain_program(name: str, k: int) -> None:
    needs(name)
    rng = np.random.default_rng(k)
    count, many = 33, 60
    objects: Columns = {
        "id": np.arange(count),
        "x": rng.integers(0, 12, count).astype(float),
        "y": rng.integers(-4, 4, count).astype(float),
    }
    ends = rng.integers(-1, 13, (2, many)).astype(float)
    asked: Columns = {"id": np.arange(many), "x_lo": ends.min(0), "x_hi": ends.max(0) - 0.5}
    kind: Any = RANGES[name]
    system, plain = kind(objects, asked, k), AllAnew(objects, asked, k)
    seen = set()
    for _ in range(4):
        events: Columns = {"id": rng.integers(0, count, 20), "y": rng.integers(-4, 4, 20).astype(float)}
        for target in (system, plain):
            target.publish(events)
        lists = [plain.items(row) for row in range(many)]
        assert [system.items(row) for row in range(many)] == lists
        seen |= {len(each) for each in lists}
    assert {0, min(k, 33)} <= seen or k > 12
    assert max(seen) > min(k - 1, 12)


@pytest.mark.parametrize("name", COVERING)
def test_boxes_are_forwarded_as_by_the_plain_program(name: str) -> None:
    needs(name)
    rng, over, known, fresh = np.random.default_rng(3), ["a", "b"], 60, 60
    low, size = rng.integers(0, 8, (known + fresh, 2)), rng.integers(1, 6, (known + fresh, 2))
    rows: Columns = {"id": np.arange(known + fresh)}
    for axis, name_of in enumerate(over):
        rows[f"{name_of}_lo"] = low[:, axis].astype(float)
        rows[f"{name_of}_hi"] = (low + size)[:, axis].astype(float)
    first = {name_of: column[:known] for name_of, column in rows.items()}
    above = CoveringTable(over=over).subscribe(first)["covered_by"].to_numpy(zero_copy_only=False)
    covered_by = np.nan_to_num(above, nan=-1).astype(np.int64)
    kind: Any = COVERING[name]
    system, plain = kind(over, rows), BlockedScan(over, rows)
    for target in (system, plain):
        target.load(first, covered_by)
        target.subscribe({name_of: column[known:] for name_of, column in rows.items()})
    assert system.forwarded() == plain.forwarded()
    assert 0 < sum(row >= known for row in system.forwarded()) < fresh
    getattr(system, "close", int)()


@pytest.mark.parametrize("k", [1, 7])
@pytest.mark.parametrize("name", GEOTEXT)
def test_lists_of_messages_are_those_of_the_plain_program_over_a_turnover(name: str, k: int) -> None:
    needs(name)
    made = steady({"data": "synthetic", "window": 300, "subscriptions": 200, "k": k, "events": 350})
    plain = made.plain()
    kind: Any = GEOTEXT[name]
    system = kind(plain)
    filled = 0
    for count in (1, 49, 300):  # the last one turns the window over at once
        filled += system.turn(count) or 0
        plain.turn(count)
        for row in range(200):
            found, expected = system.best(row), plain.best(row)
            assert len(found) == len(expected)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert filled > 0 or name == "DuckDB"
