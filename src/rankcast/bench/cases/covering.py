"""Cases of `CoveringTable`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast import CoveringTable
from rankcast.bench.baselines.numpy_covering import NumpyCovering
from rankcast.bench.case import Answers, Contender, Parameters, Trial, case
from rankcast.bench.workloads import covering


@case(
    "covering.scan",
    small={"commands": [1_000], "attributes": [3], "p": [0.15], "boxes": ["uniform", "heavy-tailed"]},
    full={"commands": [5_000], "attributes": [3, 8], "p": [0.15], "boxes": ["uniform", "heavy-tailed"]},
    seed=22,
    unit="command",
    runs=5,
)
def scan(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Subscribe and unsubscribe with the brute-force index; plain NumPy beside it."""
    over = covering.attributes(parameters["attributes"])
    commands = covering.commands(
        parameters["commands"], over, rng, p=parameters["p"], kind=parameters["boxes"]
    )
    steps = list(covering.steps(commands))
    return Trial(
        work=parameters["commands"],
        contenders=[
            Contender(
                "scan",
                prepare=lambda: CoveringTable(over=over, index="scan"),
                run=lambda table: play(table, steps),
                stats=CoveringTable.stats,
                counters=lambda table, answer: {"forwarded": len(table.forwarded())},
            ),
            Contender(
                "numpy",
                prepare=lambda: NumpyCovering(over, len(commands.boxes["id"])),
                run=lambda table: play(table, steps),
            ),
        ],
        baseline="numpy",
        agrees=same_forwarded,
    )


def play(table: Any, steps: list[tuple[str, Any]]) -> Any:
    """Give the commands to a table one call after the other."""
    for call, rows in steps:
        getattr(table, call)(rows)
    return table


def same_forwarded(answers: Answers) -> bool:
    """Whether every contender forwards the same subscriptions in the end."""
    return len({tuple(sorted(table.forwarded())) for table in answers.values()}) == 1
