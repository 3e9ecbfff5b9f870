"""How cases of covering play commands: through the calls of a table, or of something that has the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rankcast import CoveringTable
from rankcast.bench.case import Answers, Contender
from rankcast.bench.workloads import Columns, covering
from rankcast.bench.workloads.covering import Commands

Steps = list[tuple[str, Any]]


def following(
    name: str, over: list[str], commands: Commands, *, first: Columns | None = None, **more: Any
) -> Contender:
    """A table that follows commands in one call, after a call for `first`; `more` are its settings."""
    rows, unsubscribes = covering.sequence(commands), max(1, int(commands.leaves.sum()))

    def run(table: CoveringTable) -> CoveringTable:
        table.follow(rows)
        return table

    return Contender(
        name,
        prepare=lambda: loaded(over, first, **more),
        run=run,
        stats=CoveringTable.stats,
        counters=lambda table, answer: {
            "forwarded": len(table.forwarded()),
            "queries_an_unsubscribe": table.stats()["queries_unsubscribe"] / unsubscribes,
            "bytes_a_subscription": weigh(table) / len(table) - 16 * len(over),
        },
        bytes=weigh,
    )


def loaded(over: list[str], first: Columns | None, **more: Any) -> CoveringTable:
    """A table with some subscriptions."""
    table = CoveringTable(over=over, **more)
    if first is not None:
        table.subscribe(first)
    return table


def weigh(table: CoveringTable) -> int:
    """The size of the state."""
    return sum(array.nbytes for array in table.state()[1].values())


def play(table: Any, steps: Steps) -> Any:
    """Give the commands to a table one call after the other."""
    for call, rows in steps:
        getattr(table, call)(rows)
    return table


def one_by_one(steps: Steps) -> Steps:
    """The same commands, a call for each."""
    single: Steps = []
    for call, rows in steps:
        if call == "unsubscribe":
            single += [(call, [name]) for name in rows]
        else:
            parts = (slice(at, at + 1) for at in range(len(rows["id"])))
            single += [(call, {name: column[part] for name, column in rows.items()}) for part in parts]
    return single


def as_tables(steps: Steps) -> Steps:
    """The same calls with Arrow tables."""
    return [(call, pa.table(rows if call == "subscribe" else {"id": rows})) for call, rows in steps]


def batched(commands: Commands, size: int) -> Steps:
    """The same commands in batches: a call for the subscribes of each, and a call for its unsubscribes."""
    calls: Steps = []
    for start in range(0, commands.leaves.size, size):
        part = slice(start, start + size)
        leaves, rows = commands.leaves[part], commands.target[part]
        calls.append(("subscribe", {name: column[rows[~leaves]] for name, column in commands.boxes.items()}))
        calls.append(("unsubscribe", commands.boxes["id"][rows[leaves]]))
    return calls


def prefix(steps: Steps, commands: int) -> tuple[Steps, int]:
    """The first steps that make up so many commands, and how many they are."""
    taken, done = 0, 0
    while done < commands and taken < len(steps):
        call, rows = steps[taken]
        done += len(rows) if call == "unsubscribe" else len(rows["id"])
        taken += 1
    return steps[:taken], done


def same_forwarded(answers: Answers) -> bool:
    """Whether every contender forwards the same subscriptions in the end."""
    return len({tuple(sorted(table.forwarded())) for table in answers.values()}) == 1
