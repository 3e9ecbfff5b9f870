"""The front table has a row a task, the best of others beside us, and a factor below 1 where we lose."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rankcast.bench import front, limits
from rankcast.bench.cases import front as cases
from rankcast.bench.cases import front_geotext, front_spark, load
from rankcast.bench.records import Measurement, Record
from tests.bench.test_records import record


def measured(name: str, seconds: float, work: int = 10) -> Measurement:
    return Measurement(name=name, work=work, seconds=[seconds] * 3, first_seconds=1.0, compile_seconds=0.0)


def made(case: str, parameters: dict[str, Any], *contenders: Measurement) -> Record:
    return record(
        case=case, parameters=parameters, contenders=list(contenders), size="full", baseline="rankcast"
    )


RANGE = {"subscriptions": 10_000, "objects": 10_000, "k": 10, "batch": 1_000}


def test_the_best_of_others_stands_beside_us() -> None:
    others = (
        measured("DuckDB", 8.0),
        measured("PostgreSQL", 2.0, work=5),
        measured("Numba, all lists anew", 0.5),
    )
    [row] = front.rows([made("front.range", RANGE, measured("rankcast", 1.0), *others)])
    assert (row.system, row.system_factor, row.systems) == ("PostgreSQL", 4.0, 2)
    assert (row.plain, row.plain_factor) == ("all lists anew", 0.5)
    assert row.ours == "100 ms/event"
    assert (row.task, row.size) == ("10 best of a range, batches of 1,000", "10,000 ranges")


def test_the_table_says_how_many_systems_took_part() -> None:
    ours, plain = measured("rankcast", 1.0), measured("Numba, threshold scan", 3.0)
    names = ("DuckDB", "PostgreSQL", "SQLite")
    for count in (1, 2, 3):
        systems = [measured(name, 2.0 + place) for place, name in enumerate(names[:count])]
        assert f"| DuckDB ({count}) | 2.00 |" in front.markdown(
            [made("front.range", RANGE, ours, plain, *systems)]
        )


def test_our_engine_without_spark_is_no_system() -> None:
    others = (measured("rankcast in one process", 0.5), measured("Spark SQL, grid join", 4.0))
    parameters = {"subscriptions": 10, "rows": 100, "batches": 2}
    [row] = front.rows([made("front.spark-matching", parameters, measured("rankcast", 1.0), *others)])
    assert (row.system, row.system_factor, row.systems) == ("Spark SQL, grid join", 4.0, 1)
    assert (row.plain, row.plain_factor) == ("rankcast in one process", 0.5)


def test_a_row_where_we_lose_says_by_how_much() -> None:
    others = (measured("DuckDB", 0.8), measured("SQLite", 3.0), measured("Numba, threshold scan", 0.5))
    text = front.markdown([made("front.range", RANGE, measured("rankcast", 1.0), *others)])
    assert "| DuckDB (2) | 0.800 (1.25 times slower) | threshold scan | 0.500 (2.00 times slower) |" in text


def test_the_limit_and_the_bytes_to_touch_come_from_the_rates_of_the_machine() -> None:
    counters = {limits.NAMED: 100.0, limits.WRITTEN: 1_000.0}
    ours = dataclasses.replace(measured("rankcast", 1.0), counters=counters, bytes=2_500_000)
    rates = {limits.COPY: 1e-10, limits.SCAN: 1e-9, limits.MISS: 1e-7, limits.ROWS: 1e-8}
    machine = record(
        case=limits.CASE,
        parameters={},
        size="full",
        contenders=[measured(name, rate, work=1) for name, rate in rates.items()],
    )
    text = front.markdown([made("front.range", RANGE, ours, measured("DuckDB", 2.0)), machine])
    least = 100 * 1e-7 + 1_000 * 1e-8  # 20 microseconds, of 100 ms
    assert f"| {0.1 / least:,.0f} (39.4 kB) | 2.50 MB |" in text
    assert text.splitlines()[0].endswith("| times the limit (must touch) | memory |")
    assert all(line.count("|") == text.splitlines()[0].count("|") for line in text.splitlines()[:-2])


def test_made_up_data_are_said_once() -> None:
    contenders = [measured(f"{name} (generated)", 1.0) for name in ("rankcast", "Lucene", "DuckDB")]
    parameters = {"subscriptions": 10, "window": 50_000, "events": 250, "k": 100, "data": "reviews"}
    [row] = front.rows([made("front.geotext", parameters, *contenders)])
    assert row.task == "100 best of a window of reviews (generated)"
    assert row.size == "10 subscriptions, window of 50,000"
    assert row.system == "Lucene"


def test_a_task_without_systems_says_so_and_others_are_no_rows() -> None:
    alone = made("front.range", RANGE, measured("rankcast", 1.0), measured("Numba, threshold scan", 3.0))
    text = front.markdown([alone, made("matching.one", {}, measured("auto", 1.0))])
    assert "| none that ends |  | threshold scan | 3.00 |" in text
    assert text.count("\n| 10 best") == 1
    assert front.markdown([]) == ""


@pytest.mark.parametrize("size", ["small", "full"])
def test_every_front_case_has_words_for_its_tasks(size: str) -> None:
    found = {name: case for name, case in load().items() if name.startswith("front.")}
    assert set(found) == set(front._TASKS)
    for name, case in found.items():
        for parameters in case.parameters(size):
            [row] = front.rows([made(name, parameters, measured(cases.OURS, 1.0))])
            assert "{" not in row.task + row.size
    assert all(name.startswith(front.PLAIN) for name in (*cases.PLAIN, front_geotext.PLAIN))
    assert {cases.OURS, front_geotext.OURS, front_spark.OURS} == {front.OURS}
    assert front_spark.ALONE.startswith(front.OURS)
