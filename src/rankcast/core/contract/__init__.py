"""The laws of every engine, as checks that run on any engine with any method or index.

A `Subject` is an engine class with one variant (a `method` or an `index`). An engine of the package gets
every law by being in `rankcast.core.spec.ENGINES`, a new variant by being in its class's `variants`. A
check takes a way to make the engine and a `Workload`, runs it, and raises `AssertionError` with what differed
and where. Checks need no test library, so they also run on your own engine. `run` makes the `Run`
that most of them compare with.

| check     | law                                                                                       |
| --------- | ----------------------------------------------------------------------------------------- |
| `follow`  | answers equal the model's, step by step; deltas replay                                     |
| `cut`     | one batch of n and n batches of one end in the same results                               |
| `reload`  | saving, loading and continuing is the same as never stopping, to the last bit             |
| `refuse`  | a call that raises has changed nothing, and its text names the column and the row         |
| `net`     | several calls as one batch return the net change                                          |
| `apart`   | inputs are never written to, and nothing depends on them after the call                   |
| `bounded` | memory does not grow with the number of past events                                       |
| `threads` | calls of several threads are as if made one after the other; no list is read half changed |
"""

from rankcast.core.contract.checks import (
    Make,
    Model,
    Reference,
    Run,
    Step,
    Subject,
    Workload,
    apart,
    bounded,
    cut,
    divide,
    follow,
    net,
    refuse,
    reload,
    results_of,
    run,
    same_rows,
    same_state,
    subjects,
)
from rankcast.core.contract.spoilers import SPOILERS, Bad, Spoiler
from rankcast.core.contract.threads import threads
from rankcast.core.spec import ENGINES

__all__ = [
    "ENGINES",
    "SPOILERS",
    "Bad",
    "Make",
    "Model",
    "Reference",
    "Run",
    "Spoiler",
    "Step",
    "Subject",
    "Workload",
    "apart",
    "bounded",
    "cut",
    "divide",
    "follow",
    "net",
    "refuse",
    "reload",
    "results_of",
    "run",
    "same_rows",
    "same_state",
    "subjects",
    "threads",
]
