"""Cases of `CoveringTable` and `maxima`: the covering paper's figures and tables, and streams at size."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rankcast import CoveringTable, maxima
from rankcast.bench.baselines import rtree_covering
from rankcast.bench.baselines.early_exit import EarlyExitScan
from rankcast.bench.baselines.numpy_covering import NumpyCovering
from rankcast.bench.baselines.rtree_covering import RtreeCovering
from rankcast.bench.case import Answers, Contender, Figure, Parameters, Trial, case
from rankcast.bench.workloads import Columns, covering
from rankcast.boxes import Boxes
from rankcast.engines.brute_force.covering import maximal
from rankcast.indexes.relation import RelationGraph
from rankcast.kernels.covering_buckets import World

Steps = list[tuple[str, Any]]
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
    """The graph G_k for several k over both indexes; nodes visited and points compared as in the paper."""
    over, k = covering.attributes(parameters["attributes"]), parameters["k"]
    commands = covering.commands(parameters["commands"], over, rng, p=parameters["p"])
    counts = PAPER_TABLES[parameters["p"]][k]
    paper = {name: 1000 * count / 60_000 for name, count in zip(PAPER_COUNTERS, counts, strict=True)}
    unsubscribes = max(1, int(commands.leaves.sum()))
    contenders = [
        Contender(
            index,
            prepare=lambda index=index: PlainGraph(over, commands.boxes, index=index, k=k),  # type: ignore[misc]
            run=lambda graph: graph.play(commands),
            stats=PlainGraph.stats,
            counters=lambda graph, answer: {
                "queries_an_unsubscribe": graph.stats()["queries_unsubscribe"] / unsubscribes
            },
            paper=paper if index == "kdtree" else {},
        )
        for index in ("kdtree", "zcurve")
    ]
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
        Contender(
            index,
            prepare=lambda index=index: PlainGraph(over, commands.boxes, index=index),  # type: ignore[misc]
            run=lambda graph: graph.play(commands),
            stats=PlainGraph.stats,
            paper={"ratio": gain[index]} if gain else {},
        )
        for index in ("kdtree", "zcurve")
    ]
    contenders.append(
        Contender(
            "early-exit scan",
            prepare=lambda: EarlyExitScan(over, commands.boxes),
            run=lambda table: play(table, steps),
            runs=1,
        )
    )
    return Trial(
        work=parameters["commands"],
        contenders=contenders,
        baseline="early-exit scan",
        agrees=same_forwarded,
    )


@case(
    "covering.stream",
    small={"first": [5_000], "commands": [3_000], "attributes": [3], "boxes": ["heavy-tailed", "uniform"]},
    full=[
        {
            "first": [100_000],
            "commands": [60_000],
            "attributes": [3, 8],
            "boxes": ["heavy-tailed", "uniform"],
        }
    ],
    seed=25,
    unit="command",
    runs=3,
)
def stream(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """15% unsubscribes over a full table; the others do a prefix, and `calls` the same through the table."""
    over, first = covering.attributes(parameters["attributes"]), parameters["first"]
    commands = covering.commands(
        parameters["commands"], over, rng, p=0.15, kind=parameters["boxes"], first=first
    )
    loaded = {name: column[:first] for name, column in commands.boxes.items()}
    later = commands._replace(leaves=commands.leaves[first:], target=commands.target[first:])
    steps = list(covering.steps(later))
    table = CoveringTable(over=over)
    names = table.subscribe(loaded)["covered_by"].to_numpy(zero_copy_only=False)
    above = np.nan_to_num(names, nan=-1).astype(np.int64)

    def full_table() -> CoveringTable:
        made = CoveringTable(over=over)
        made.subscribe(loaded)
        return made

    def other(name: str, make: Callable[[], Any], work: int) -> Contender:
        def prepare() -> Any:
            made = make()
            made.load(loaded, above)
            return made

        prefix, done = _prefix(steps, work)
        return Contender(name, prepare=prepare, run=lambda made: play(made, prefix), work=done, runs=2)

    capacity = len(commands.boxes["id"])
    contenders = [
        Contender(
            index,
            prepare=lambda index=index: PlainGraph(over, commands.boxes, index=index, first=first),  # type: ignore[misc]
            run=lambda graph: graph.play(later),
            stats=PlainGraph.stats,
            counters=lambda graph, answer: {"forwarded": len(graph.forwarded())},
        )
        for index in ("kdtree", "zcurve")
    ]
    prefix, done = _prefix(steps, 4_000)
    contenders.append(
        Contender("calls", prepare=full_table, run=lambda made: play(made, prefix), work=done, bytes=_bytes)
    )
    contenders.append(other("numpy", lambda: NumpyCovering(over, capacity), 1_000))
    contenders.append(other("early-exit scan", lambda: EarlyExitScan(over, commands.boxes), 4_000))
    if rtree_covering.installed():
        contenders.append(other("rtree", lambda: RtreeCovering(over, commands.boxes), 300))

    def agrees(answers: Answers) -> bool:
        for name, work in (("calls", 4_000), ("numpy", 1_000), ("early-exit scan", 4_000), ("rtree", 300)):
            if name in answers:
                twin = play(full_table(), _prefix(steps, work)[0])
                if sorted(twin.forwarded()) != sorted(answers[name].forwarded()):
                    return False
        return same_forwarded({name: answers[name] for name in ("kdtree", "zcurve")})

    return Trial(work=parameters["commands"], contenders=contenders, baseline="numpy", agrees=agrees)


@case(
    "covering.release",
    small={"covered": [5_000], "limit": [500], "attributes": [3]},
    full={"covered": [100_000], "limit": [500, 2_000], "attributes": [3]},
    seed=26,
    unit="covered subscription",
    runs=3,
)
def release(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """One unsubscribe that frees every other subscription, at once and in portions; the longest pause."""
    over, count = covering.attributes(parameters["attributes"]), parameters["covered"]
    corner = rng.random((count, len(over)))
    rows: dict[str, Any] = {"id": np.arange(count + 1)}
    for place, name in enumerate(over):
        rows[f"{name}_lo"] = np.r_[-1.0, corner[:, place]]
        rows[f"{name}_hi"] = np.r_[2.0, corner[:, place] + 1e-4]

    def full_table() -> CoveringTable:
        table = CoveringTable(over=over)
        table.subscribe(rows)
        return table

    def leave(table: CoveringTable, limit: int | None) -> dict[str, Any]:
        longest, portions, left = 0.0, 0, True
        while left:
            start = time.perf_counter()
            answer = table.unsubscribe([0], limit=limit)
            longest = max(longest, time.perf_counter() - start)
            portions += 1
            left = "withdraw" not in answer["action"].to_pylist()
        return {"longest": longest, "portions": portions, "forwarded": table.forwarded()}

    def counters(table: CoveringTable, answer: Any) -> dict[str, float]:
        return {"longest_ms": 1000 * answer["longest"], "portions": answer["portions"]}

    return Trial(
        work=count,
        contenders=[
            Contender(
                "portions",
                prepare=full_table,
                run=lambda table: leave(table, parameters["limit"]),
                counters=counters,
            ),
            Contender("at once", prepare=full_table, run=lambda table: leave(table, None), counters=counters),
        ],
        baseline="at once",
        agrees=lambda answers: answers["portions"]["forwarded"] == answers["at once"]["forwarded"],
    )


@case(
    "covering.maxima",
    small={"boxes": [20_000], "attributes": [3], "kind": ["uniform", "heavy-tailed"]},
    full={"boxes": [1_000_000], "attributes": [3], "kind": ["uniform", "heavy-tailed"]},
    seed=27,
    unit="box",
    runs=3,
)
def maxima_of_boxes(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """The boxes that no other contains; NumPy does the first 20,000, which flatters it: fewer stay there."""
    over = covering.attributes(parameters["attributes"])
    rows = covering.boxes(parameters["boxes"], over, rng, parameters["kind"])
    prefix = {name: column[:20_000] for name, column in rows.items()}
    lo = np.stack([prefix[f"{name}_lo"] for name in over], axis=1)
    hi = np.stack([prefix[f"{name}_hi"] for name in over], axis=1)
    none = Boxes(lo[:0], hi[:0])
    return Trial(
        work=parameters["boxes"],
        contenders=[
            Contender("maxima", run=lambda _: maxima(rows, over=over)),
            Contender("numpy", run=lambda _: maximal(Boxes(lo, hi), none)[0], work=len(lo), runs=1),
        ],
        baseline="numpy",
        agrees=lambda answers: maxima(prefix, over=over)["id"].to_pylist() == answers["numpy"].tolist(),
    )


class PlainGraph:
    """The relation graph on arrays, without tables and ids: rows are the places of boxes given in advance.

    A call of the table costs a fraction of a millisecond for reading and checking its rows, whatever the
    index; the scans beside it read nothing. So indexes and graphs are compared below the door.
    """

    def __init__(
        self, over: list[str], boxes: Columns, *, index: str = "kdtree", k: int = 1, first: int = 0
    ) -> None:
        lo = np.stack([boxes[f"{name}_lo"] for name in over], axis=1)
        hi = np.stack([boxes[f"{name}_hi"] for name in over], axis=1)
        self._world = World(lo, hi, np.zeros(len(lo), np.int8), np.arange(len(lo)))
        self._graph = RelationGraph(index, len(over), k)
        self._graph.subscribe(self._world, np.arange(first, dtype=np.int32))
        self._graph.tally()
        self._counts = dict.fromkeys(("queries_unsubscribe", *PAPER_COUNTERS), 0)

    def play(self, commands: covering.Commands) -> PlainGraph:
        """Play commands in the runs of `covering.steps`."""
        leaves, rows = commands.leaves, commands.target.astype(np.int32)
        borders = np.flatnonzero(np.r_[True, leaves[1:] | leaves[:-1], True]).tolist()
        for start, stop in itertools.pairwise(borders):
            if leaves[start]:
                told = self._graph.unsubscribe(self._world, rows[start:stop])
                self._counts["queries_unsubscribe"] += told.freed
            else:
                self._graph.subscribe(self._world, rows[start:stop])
            nodes, comparisons = self._graph.tally()
            call = "unsubscribe" if leaves[start] else "subscribe"
            self._counts[f"nodes_visited_{call}"] += nodes
            self._counts[f"point_comparisons_{call}"] += comparisons
        return self

    def stats(self) -> dict[str, int]:
        """Counters since the table was full."""
        return dict(self._counts)

    def forwarded(self) -> list[int]:
        """The forwarded places."""
        return [int(row) for row in self._graph.front.rows()]


def play(table: Any, steps: Steps) -> Any:
    """Give the commands to a table one call after the other."""
    for call, rows in steps:
        getattr(table, call)(rows)
    return table


def same_forwarded(answers: Answers) -> bool:
    """Whether every contender forwards the same subscriptions in the end."""
    return len({tuple(sorted(table.forwarded())) for table in answers.values()}) == 1


def _prefix(steps: Steps, commands: int) -> tuple[Steps, int]:
    """The first steps that make up so many commands, and how many they are."""
    taken, done = 0, 0
    while done < commands and taken < len(steps):
        call, rows = steps[taken]
        done += len(rows) if call == "unsubscribe" else len(rows["id"])
        taken += 1
    return steps[:taken], done


def _bytes(table: CoveringTable) -> int:
    """The size of the state."""
    return sum(array.nbytes for array in table.state()[1].values())
