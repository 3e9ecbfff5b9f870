"""Cases of shards on a host: opening one whose arrays are there, restoring one that was lost."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from rankcast import RankedMatcher
from rankcast.bench.case import Contender, Parameters, Trial, case
from rankcast.bench.cases.spark_streams import folder
from rankcast.state import batches, checkpoint, recovery
from rankcast.state.checkpoint import Mark
from rankcast.state.depot import Depot
from rankcast.state.hosted import Hosted, Live, Place, Standing
from rankcast.state.journal import Record

KIND = "RankedMatcher"
BOXES_A_MEGABYTE = 20_000


@case(
    "spark.open",
    small={"megabytes": [50]},
    full={"megabytes": [500]},
    seed=63,
    unit="shard",
    runs=9,
)
def open_(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Open a shard whose arrays are on the host (a hit), beside reading its snapshot whole."""
    made = _made(parameters["megabytes"], rng)

    def hit(root: Path) -> int:
        live = Live(root)
        with live.held():
            place = live.place()
            assert place is not None  # noqa: S101
            kind: Any = RankedMatcher
            return len(live.open(kind, {}))

    def whole(root: Path) -> int:
        return sum(len(file.read_bytes()) for file in root.glob("*.array"))

    size = _size(made / "live")
    return Trial(
        1,
        [
            Contender("hit", prepare=lambda: made / "live", run=hit, bytes=lambda _: size),
            Contender("read all bytes", prepare=lambda: made / "live", run=whole),
        ],
        baseline="read all bytes",
    )


@case(
    "spark.restore",
    small={"megabytes": [50], "batches": [10]},
    full={"megabytes": [500], "batches": [10]},
    seed=64,
    unit="shard",
    runs=3,
)
def restore(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Restore a lost shard from its snapshot and a log of batches, on a local file system."""
    made = _made(parameters["megabytes"], rng)
    depot = Depot.open(str(made / "depot"))
    mark = checkpoint.mark_of(depot.peek("0").header)
    standing = Standing(mark.number, mark.token, "0", mark.number)
    log: list[Record] = []
    data = [_rescores(rng) for _ in range(parameters["batches"] + 1)]
    for each in data[:-1]:
        step = _hosted(made / "origin", depot).step(standing, each, lambda: log)
        log.append(step.record)
        standing = Standing(step.record.number, step.record.token, "0", mark.number)

    def fresh() -> Path:
        shutil.rmtree(made / "lost", ignore_errors=True)
        return made / "lost"

    return Trial(
        1,
        [
            Contender(
                "restore",
                prepare=fresh,
                run=lambda root: _hosted(root, depot).step(standing, data[-1], lambda: log).seconds,
                bytes=lambda _: _size(made / "live"),
            )
        ],
    )


def _made(megabytes: int, rng: np.random.Generator) -> Path:
    """A shard of so many megabytes: live arrays, and a snapshot of them."""
    place = folder()
    engine = RankedMatcher(over=["x"], k=3)
    count = megabytes * BOXES_A_MEGABYTE
    low = rng.random(count)
    engine.subscribe({"id": np.arange(count), "x_lo": low, "x_hi": low + 1e-6, "score": rng.random(count)})
    header, arrays = engine.state()
    mark = Mark(0, batches.first_token(KIND, {}, {}))
    depot = Depot.open(str(place / "depot"))
    depot.write("0", checkpoint.KIND, checkpoint.header_of(KIND, mark, header), arrays)
    live = Live(place / "live")
    with live.held():
        held: Any = engine
        live.commit(held, Place(0, mark.token, ""), b"")
    return place


def _size(root: Path) -> int:
    return sum(file.stat().st_size for file in root.glob("*.array"))


def _rescores(rng: np.random.Generator) -> bytes:
    """A batch whose work is small, so that a replay is measured and not an engine."""
    rows = {"id": rng.permutation(1000), "score": rng.random(1000)}
    return batches.encode(batches.commands_of([("rescore", rows)], RankedMatcher.calls))


def _hosted(root: Path, depot: Depot) -> Hosted[Any]:
    kind: Any = RankedMatcher
    return Hosted(Live(root), depot, kind, {}, lambda engine, data, _: recovery.run(engine, data))
