"""Cases of how a call begins: a process and its first calls; a table checked, its ids given rows."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.bench.runner import Answers, Contender, Parameters, Trial, case
from rankcast.structures.ids import Slots
from rankcast.tables import read
from rankcast.tables.schema import Column, Kind, Rows

COLUMNS = (Column("id", Kind.ID), Column("x"), Column("y"))

POINTS = {"id": ["p", "q"], "x": [2.0, 3.0], "y": [2.0, 1.0]}
PLACED = {"id": ["a"], "x": [1.0], "y": [1.0]}
OBJECTS = ("upsert", {**POINTS, "a": [1.0, 2.0]})
MOVES = (("subscribe", PLACED), ("publish", {**PLACED, "x": [2.0]}))
FIRST: dict[str, tuple[dict[str, Any], tuple[tuple[str, Any], ...]]] = {
    "RangeTopK": ({"over": "x", "k": 2}, (("subscribe", {"id": ["a"], "x_lo": [1.0]}), ("publish", POINTS))),
    "CoveringTable": (
        {"over": ["x", "y"]},
        (("subscribe", {"id": ["a", "b"], "x_lo": [1.0, 2.0], "y_hi": [5.0, 4.0]}), ("publish", POINTS)),
    ),
    "RankedMatcher": (
        {"over": ["x"], "k": 2},
        (("subscribe", {"id": ["a"], "x_lo": [1.0], "score": [1.0]}), ("publish", {"id": ["p"], "x": [2.0]})),
    ),
    "GeoTextTopK": (
        {"bounds": [0, 0, 10, 10], "k": 2, "window": 10},
        (("subscribe", {**PLACED, "terms": [["a"]]}), ("publish", {**POINTS, "terms": [["a"], ["a", "b"]]})),
    ),
    "MovingTopK": ({"over": ["a"], "k": 2}, (OBJECTS, *MOVES)),
    "MovingSkyline": ({"over": ["a"]}, (OBJECTS, *MOVES)),
}
PROGRAM = """
import json, sys, time
import numba, numpy, pyarrow
began = time.process_time()
if len(sys.argv) > 1:
    import rankcast
    settings, calls = json.loads(sys.argv[2])
    engine = getattr(rankcast, sys.argv[1])(**settings)
    for call, rows in calls:
        getattr(engine, call)(rows)
print(time.process_time() - began)
"""


@case(
    "start.first-call",
    small={"engine": list(FIRST)},
    full={"engine": list(FIRST)},
    seed=13,
    unit="process",
    runs=5,
)
def first_call(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """A process that makes an engine and calls it twice or thrice, its kernels compiled before."""

    def run(*arguments: str) -> float:
        command = [sys.executable, "-c", PROGRAM, *arguments]
        return float(subprocess.run(command, capture_output=True, check=True).stdout)  # noqa: S603

    def above(_: Any, seconds: float) -> dict[str, float]:
        return {"processor_seconds_above_imports": seconds}

    told = json.dumps(FIRST[parameters["engine"]])
    return Trial(
        1,
        [
            Contender("first calls", run=lambda _: run(parameters["engine"], told), counters=above),
            Contender("NumPy, Numba and PyArrow imported", run=lambda _: run()),
        ],
        baseline="NumPy, Numba and PyArrow imported",
    )


@case(
    "tables.intake",
    small={"rows": [100_000], "ids": ["string", "integer"]},
    full={"rows": [1_000_000], "ids": ["string", "integer"]},
    seed=11,
    unit="row",
    runs=5,
)
def intake(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Read a table of new ids and two numbers, check it and give each id a row, ordered by id."""
    count = parameters["rows"]
    keys = rng.permutation(count)
    ids = (
        pa.array([f"item-{key:08d}" for key in keys.tolist()])
        if parameters["ids"] == "string"
        else pa.array(keys)
    )
    table = pa.table({"id": ids, "x": rng.random(count), "y": rng.random(count)})

    def run(slots: Slots) -> tuple[Slots, Rows]:
        batch = read.read(table, COLUMNS, where="rows")
        slots.require_new(batch.ids, where="rows")
        return slots, slots.add(batch.ids)

    def agrees(answers: Answers) -> bool:
        slots, rows = answers["slots"]
        by_label = slots.take(rows[np.argsort(slots.label[rows])])
        given = ids.to_pylist()
        return bool(slots.take(rows).to_pylist() == given and by_label.to_pylist() == sorted(given))

    return Trial(
        work=count,
        contenders=[
            Contender("slots", prepare=lambda: Slots(ordered=True), run=run),
            Contender("dict and sort", run=lambda _: _dict_and_order(ids)),
        ],
        baseline="dict and sort",
        agrees=agrees,
    )


def _dict_and_order(ids: pa.Array) -> tuple[dict[object, int], list[object]]:
    """Do what plain Python would: a dict from id to row, and the ids in order."""
    given = ids.to_pylist()
    return {key: row for row, key in enumerate(given)}, sorted(given)
