"""Cases of reading input: a table checked, its ids given rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rankcast.bench.runner import Answers, Contender, Parameters, Trial, case
from rankcast.structures.ids import Slots
from rankcast.tables import read
from rankcast.tables.schema import Column, Kind, Rows

COLUMNS = (Column("id", Kind.ID), Column("x"), Column("y"))


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
