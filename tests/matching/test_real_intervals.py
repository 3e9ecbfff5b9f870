"""Real intervals: IP ranges, exons, salary ranges; every index against brute force on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from rankcast import RankedMatcher
from rankcast.matching.indexes import INDEXES

DATA = Path(__file__).parents[3] / "shared" / "data"


def table(name: str) -> Any:
    path = DATA / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"real data is not here: ../shared/data/{path.name}")
    return pq.read_table(path)


def agrees(over: list[str], rows: dict[str, Any], events: dict[str, Any], index: str) -> RankedMatcher:
    """Match, rescore and remove some, match again; all as by brute force."""
    engines = [RankedMatcher(over=over, k=5, index=name) for name in (index, "scan")]
    for engine in engines:
        engine.subscribe(rows)
    few = {name: values[:40] for name, values in events.items()}
    changed = rows["id"][::17]
    for call, given in [
        ("publish", few),
        ("rescore", {"id": changed, "score": rows["score"][::17] - 0.5}),
        ("unsubscribe", rows["id"][::29]),
        ("publish", few),
    ]:
        answers = [getattr(engine, call)(given) for engine in engines]
        assert answers[0] is None or answers[0].equals(answers[1])
    return engines[0]


@pytest.mark.parametrize("index", [name for name in INDEXES if name != "scan"])
def test_networks_of_an_address(index: str) -> None:
    found = table("ip_ranges_asn")
    lo, hi = (found[name].to_numpy().astype(float)[::7] for name in ("start_ip", "end_ip"))
    rng = np.random.default_rng(1)
    rows = {"id": np.arange(lo.size), "ip_lo": lo, "ip_hi": hi, "score": lo - hi}
    picked = rng.integers(0, lo.size, 40)
    agrees(["ip"], rows, {"id": np.arange(40), "ip": np.where(picked % 2, lo[picked], hi[picked])}, index)


@pytest.mark.parametrize("index", [name for name in INDEXES if name != "scan"])
def test_exons_at_a_place(index: str) -> None:
    found = table("human_exons_bed")
    start, end = (found[name].to_numpy().astype(float)[:40_000] for name in ("start", "end"))
    rng = np.random.default_rng(2)
    rows = {"id": np.arange(start.size), "x_lo": start, "x_hi": end - 1, "score": end - start}
    places = start[rng.integers(0, start.size, 40)] + rng.integers(-5, 100, 40)
    agrees(["x"], rows, {"id": np.arange(40), "x": places}, index)


@pytest.mark.parametrize("index", [name for name in INDEXES if name != "scan"])
def test_jobs_for_a_salary(index: str) -> None:
    found = table("nyc_job_salary_ranges").to_pandas()
    found = found[found["salary_range_from"] <= found["salary_range_to"]].reset_index()
    rows = {
        "id": found.index.to_numpy(),
        "salary_lo": found["salary_range_from"].to_numpy(float),
        "salary_hi": found["salary_range_to"].to_numpy(float),
        "positions_lo": np.ones(len(found)),
        "positions_hi": found["of_positions"].to_numpy(float),
        "score": -(found["salary_range_to"] - found["salary_range_from"]).to_numpy(float),
    }
    rng = np.random.default_rng(3)
    salaries = found["salary_range_from"].to_numpy(float)[rng.integers(0, len(found), 40)]
    events = {"id": np.arange(40), "salary": salaries, "positions": rng.integers(1, 4, 40)}
    agrees(["salary", "positions"], rows, events, index)
