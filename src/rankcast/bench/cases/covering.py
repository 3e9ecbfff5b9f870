"""Cases of `CoveringTable` and `maxima` at size: streams of commands, one that frees many, maximal boxes.

Contenders play the same commands through the calls of a table, or of a baseline that has the same calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import CoveringTable, maxima
from rankcast.bench.baselines.covering import (
    BlockedScan,
    EarlyExitScan,
    NumpyCovering,
    RtreeCovering,
    rtree_installed,
)
from rankcast.bench.runner import Answers, Contender, Parameters, Trial, case
from rankcast.bench.workloads import Columns, covering
from rankcast.bench.workloads.covering import Commands
from rankcast.core.engine import Engine
from rankcast.covering.brute_force import maximal
from rankcast.tables.boxes import Boxes

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


def weigh(engine: Engine) -> int:
    """The bytes of an engine's state."""
    return sum(array.nbytes for array in engine.state()[1].values())


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


PREFIXES = {
    "calls": 4_000,
    "calls of tables": 4_000,
    "single calls": 1_000,
    "numpy": 1_000,
    "early-exit scan": 4_000,
    "blocked scan": 4_000,
    "rtree": 300,
}
BATCH = 1_000


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
    """15% unsubscribes over a full table: followed in one call, or in batches; the others do a prefix."""
    over, size = covering.attributes(parameters["attributes"]), parameters["first"]
    commands = covering.commands(
        parameters["commands"], over, rng, p=0.15, kind=parameters["boxes"], first=size
    )
    first = {name: column[:size] for name, column in commands.boxes.items()}
    later = covering.later(commands, size)
    steps, batches = list(covering.steps(later)), batched(later, BATCH)
    names = CoveringTable(over=over).subscribe(first)["covered_by"].to_numpy(zero_copy_only=False)
    above = np.nan_to_num(names, nan=-1).astype(np.int64)

    def other(name: str, make: Callable[[], Any]) -> Contender:
        def prepare() -> Any:
            made = make()
            made.load(first, above)
            return made

        part, done = prefix(steps, PREFIXES[name])
        return Contender(name, prepare=prepare, run=lambda made: play(made, part), work=done, runs=2)

    def calling(name: str, cut: Callable[[Steps], Steps]) -> Contender:
        part, done = prefix(steps, PREFIXES[name])
        part = cut(part)
        return Contender(
            name, prepare=lambda: loaded(over, first), run=lambda table: play(table, part), work=done
        )

    contenders = [
        *(following(index, over, later, first=first, index=index) for index in ("kdtree", "zcurve")),
        Contender("batches", prepare=lambda: loaded(over, first), run=lambda table: play(table, batches)),
        calling("calls", lambda part: part),
        calling("calls of tables", as_tables),
        calling("single calls", one_by_one),
        other("numpy", lambda: NumpyCovering(over, len(commands.boxes["id"]))),
        other("early-exit scan", lambda: EarlyExitScan(over, commands.boxes)),
        other("blocked scan", lambda: BlockedScan(over, commands.boxes)),
    ]
    if rtree_installed():
        contenders.append(other("rtree", lambda: RtreeCovering(over, commands.boxes)))

    def agrees(answers: Answers) -> bool:
        for name in PREFIXES.keys() & answers.keys():
            twin = play(loaded(over, first), prefix(steps, PREFIXES[name])[0])
            if sorted(twin.forwarded()) != sorted(answers[name].forwarded()):
                return False
        twin = play(loaded(over, first, index="zcurve"), batches)
        if not same_forwarded({"batches": answers["batches"], "zcurve": twin}):
            return False
        whole = play(loaded(over, first), steps)
        return same_forwarded({"calls": whole, **{name: answers[name] for name in ("kdtree", "zcurve")}})

    return Trial(work=parameters["commands"], contenders=contenders, baseline="numpy", agrees=agrees)


@case(
    "covering.blocks",
    small={"first": [5_000], "fresh": [2_000], "attributes": [3], "boxes": ["heavy-tailed", "uniform"]},
    full={
        "first": [20_000, 100_000],
        "fresh": [20_000],
        "attributes": [3, 8],
        "boxes": ["heavy-tailed", "uniform"],
    },
    seed=28,
    unit="subscription",
    runs=3,
)
def blocks(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Subscribes over a full table in batches; beside it a scan of the forwarded boxes in blocks.

    The scan gets arrays and answers with rows; the table reads tables, looks ids up and answers with ids.
    """
    over, size = covering.attributes(parameters["attributes"]), parameters["first"]
    rows = covering.boxes(size + parameters["fresh"], over, rng, parameters["boxes"])
    first = {name: column[:size] for name, column in rows.items()}
    names = CoveringTable(over=over).subscribe(first)["covered_by"].to_numpy(zero_copy_only=False)
    above = np.nan_to_num(names, nan=-1).astype(np.int64)
    steps: Steps = [
        ("subscribe", {name: column[start : start + BATCH] for name, column in rows.items()})
        for start in range(size, size + parameters["fresh"], BATCH)
    ]

    def scan() -> BlockedScan:
        made = BlockedScan(over, rows)
        made.load(first, above)
        return made

    return Trial(
        work=parameters["fresh"],
        contenders=[
            Contender(
                "kdtree",
                prepare=lambda: loaded(over, first),
                run=lambda table: play(table, steps),
                stats=CoveringTable.stats,
                counters=lambda table, answer: {"forwarded": len(table.forwarded())},
            ),
            Contender("blocked scan", prepare=scan, run=lambda made: play(made, steps)),
        ],
        baseline="blocked scan",
        agrees=same_forwarded,
    )


FEW = 5_000
ORDERS = ["ascending", "descending", "growing", "shrinking", "random"]


@case(
    "covering.arrivals",
    small={"size": [10_000], "attributes": [1, 3], "order": ORDERS},
    full={"size": [160_000], "attributes": [1, 2, 3, 8], "order": ORDERS},
    seed=29,
    unit="subscription",
    runs=3,
)
def arrivals(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Subscribes in an order that is hard to keep, over many and over 5,000 that came in the same order."""
    over, size = covering.attributes(parameters["attributes"]), parameters["size"]
    rows = covering.ordered(size + BATCH, over, rng, parameters["order"])

    def cut(start: int, stop: int) -> Columns:
        return {name: column[start:stop] for name, column in rows.items()}

    def at(count: int) -> Contender:
        steps: Steps = [("subscribe", cut(count, count + BATCH))]
        return Contender(
            f"over {count:,}",
            prepare=lambda: loaded(over, cut(0, count)),
            run=lambda table: play(table, steps),
            stats=CoveringTable.stats,
            counters=lambda table, answer: {"forwarded": len(table.forwarded())},
        )

    def agrees(answers: Answers) -> bool:
        part = cut(0, 2 * BATCH)
        tables = {index: CoveringTable(over=over, index=index) for index in ("kdtree", "scan")}
        for table in tables.values():
            table.subscribe(part)
        return same_forwarded(tables)

    return Trial(work=BATCH, contenders=[at(size), at(FEW)], baseline=f"over {FEW:,}", agrees=agrees)


@case(
    "covering.drift",
    small={"size": [5_000], "attributes": [1, 3], "turnover": [3]},
    full={"size": [100_000], "attributes": [1, 2, 3, 8], "turnover": [3]},
    seed=30,
    unit="command",
    runs=3,
)
def drift(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Values that move on while old subscriptions go: a table after some turnovers, and a fresh one."""
    over, size = covering.attributes(parameters["attributes"]), parameters["size"]
    last = (1 + parameters["turnover"]) * size
    rows = covering.ordered(last + BATCH, over, rng, "drifting")
    longest = {"drifted": 0.0}

    def cut(start: int, stop: int) -> Columns:
        return {name: column[start:stop] for name, column in rows.items()}

    def pair(table: CoveringTable, start: int, count: int) -> float:
        began = time.perf_counter()
        table.subscribe(cut(start, start + count))
        table.unsubscribe(rows["id"][start - size : start - size + count])
        return time.perf_counter() - began

    def drifted() -> CoveringTable:
        table = loaded(over, cut(0, size))
        pauses = [pair(table, start, 10) for start in range(size, last, 10)]
        longest["drifted"] = max(pauses)
        return table

    def run(table: CoveringTable) -> CoveringTable:
        pair(table, last, BATCH)
        return table

    return Trial(
        work=2 * BATCH,
        contenders=[
            Contender(
                "drifted",
                prepare=drifted,
                run=run,
                counters=lambda table, answer: {"longest_ms": 1000 * longest["drifted"]},
            ),
            Contender("fresh", prepare=lambda: loaded(over, cut(last - size, last)), run=run),
        ],
        baseline="fresh",
        agrees=lambda answers: len({len(table) for table in answers.values()}) == 1,
    )


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
                prepare=lambda: loaded(over, rows),
                run=lambda table: leave(table, parameters["limit"]),
                counters=counters,
            ),
            Contender(
                "at once",
                prepare=lambda: loaded(over, rows),
                run=lambda table: leave(table, None),
                counters=counters,
            ),
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
