"""Cases that redraw the covering paper: reporting modes, indexes by commands and attributes, graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankcast.bench.baselines.covering import EarlyExitScan
from rankcast.bench.cases.covering import following, play, same_forwarded
from rankcast.bench.runner import Contender, Figure, Parameters, Trial, case
from rankcast.bench.workloads import covering

INDEXES = ("kdtree", "zcurve")
PAPER_TABLES = {  # thousands in 60,000 commands: nodes visited, points compared, by subscribe, unsubscribe
    0.05: {
        1: (782, 31, 5993, 154),
        2: (974, 9, 9852, 115),
        3: (1131, 9, 12973, 138),
        4: (1266, 9, 15663, 153),
        5: (1390, 10, 18111, 163),
        6: (1498, 10, 20237, 170),
    },
    0.4: {
        1: (415, 141, 4684, 1508),
        2: (529, 105, 7376, 1576),
        3: (615, 99, 9365, 1661),
        4: (683, 97, 10936, 1725),
        5: (740, 99, 12260, 1790),
        6: (789, 100, 13389, 1844),
    },
}
PAPER_COUNTERS = (
    "nodes_visited_subscribe",
    "nodes_visited_unsubscribe",
    "point_comparisons_subscribe",
    "point_comparisons_unsubscribe",
)


@case(
    "covering.reporting-mode",
    small={"commands": [6_000], "attributes": [5], "p": [0.05, 0.4], "k": [1, 2, 6]},
    full={"commands": [60_000], "attributes": [5], "p": [0.05, 0.4], "k": [1, 2, 3, 4, 5, 6]},
    seed=23,
    unit="command",
    reproduces="[Covering figures 8, 9, tables I, II]",
    runs=3,
    figures=[
        Figure("Run time by reporting mode", x="k", y="seconds", series=("p",)),
        Figure("Queries caused by unsubscribes", x="k", y="queries_unsubscribe", series=("p",)),
    ],
)
def reporting_mode(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """The graph G_k for several k over both indexes; nodes visited and points compared as in the paper.

    The length of a side is drawn first, then where it lies: of the ways to read the paper this one gives
    its counts.
    """
    over, k = covering.attributes(parameters["attributes"]), parameters["k"]
    commands = covering.commands(parameters["commands"], over, rng, p=parameters["p"], kind="length-first")
    counts = PAPER_TABLES[parameters["p"]][k]
    paper = {name: 1000 * count / 60_000 for name, count in zip(PAPER_COUNTERS, counts, strict=True)}
    contenders = [following(index, over, commands, index=index, graph=k) for index in INDEXES]
    contenders[0] = replace(contenders[0], paper=paper)
    return Trial(work=parameters["commands"], contenders=contenders, baseline="zcurve", agrees=same_forwarded)


@case(
    "covering.commands",
    small={"commands": [5_000], "attributes": [3, 8], "p": [0.15]},
    full=[
        {"commands": [10_000, 40_000, 70_000, 100_000], "attributes": [3, 5, 8], "p": [0.15]},
        {"commands": [60_000], "attributes": [4, 6, 7], "p": [0.15]},
    ],
    seed=24,
    unit="command",
    reproduces="[Covering figures 10 to 12]",
    runs=3,
    figures=[
        Figure("Run time by commands", x="commands", y="seconds", series=("attributes",), log_y=True),
        Figure("Gain over an early-exit scan", x="attributes", y="ratio", series=("commands",)),
    ],
)
def by_commands(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Uniform boxes over both indexes, from empty; the paper's scan with early exit beside them."""
    over = covering.attributes(parameters["attributes"])
    commands = covering.commands(parameters["commands"], over, rng, p=parameters["p"])
    steps = list(covering.steps(commands))
    gain = {"kdtree": 10.0, "zcurve": 5.0} if parameters["attributes"] == 8 else {}
    contenders = [
        replace(following(index, over, commands, index=index), paper={"ratio": gain[index]} if gain else {})
        for index in INDEXES
    ]
    scan = Contender(
        "early-exit scan",
        prepare=lambda: EarlyExitScan(over, commands.boxes),
        run=lambda table: play(table, steps),
        runs=1,
    )
    return Trial(
        work=parameters["commands"],
        contenders=[*contenders, scan],
        baseline="early-exit scan",
        agrees=same_forwarded,
    )


@case(
    "covering.graphs",
    small={"commands": [1_000], "attributes": [3], "p": [0.15]},
    full={"commands": [10_000], "attributes": [3, 5], "p": [0.05, 0.4]},
    seed=28,
    unit="command",
    reproduces="[Covering figures 1 to 4]",
    runs=1,
)
def graphs(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """What it costs to keep G_1, G_2, all relations (G*) and the strict poset, over one index."""
    over = covering.attributes(parameters["attributes"])
    commands = covering.commands(parameters["commands"], over, rng, p=parameters["p"])
    kept = {"G_1": 1, "G_2": 2, "G*": "full", "poset": "poset"}
    contenders = [following(name, over, commands, graph=graph) for name, graph in kept.items()]
    return Trial(work=parameters["commands"], contenders=contenders, baseline="G*", agrees=same_forwarded)
