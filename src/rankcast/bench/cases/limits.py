"""What the machine allows: the rates that no program on it can beat, measured beside the others.

Bytes a second that are copied; intervals a second that a scan without a branch looks at; seconds for one read
that depends on the one before and is in no cache; rows of deltas a second that are written.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankcast.bench.baselines.machine import count_holding, walk, write_rows
from rankcast.bench.limits import CASE, COPY, MISS, ROWS, SCAN, UNITS
from rankcast.bench.runner import Contender, Parameters, Trial, case

LINE = 8  # numbers of 8 bytes in a cache line


def cycle(lines: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """One walk through all cache lines of an array, in random order."""
    order = rng.permutation(lines).astype(np.int64) * LINE
    following = np.zeros(lines * LINE, np.int64)
    following[order] = np.roll(order, -1)
    return following


@case(
    CASE,
    small={"megabytes": [16]},
    full={"megabytes": [512]},
    seed=98,
    unit="byte, interval, read or row",
    runs=5,
)
def machine(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Copy memory, scan intervals, follow pointers, write rows: as fast as this machine does each."""
    size = parameters["megabytes"] << 20
    source, target = np.zeros(size // 16), np.zeros(size // 16)
    low = rng.random(size // 16)
    high, following, steps = low + 0.1, cycle(size // 64, rng), max(1_000, size // 512)
    rows = size // UNITS[ROWS]
    columns = (
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int8),
        np.zeros(rows, np.int64),
        np.zeros(rows),
        np.zeros(rows, np.int64),
    )
    return Trial(
        work=1,
        contenders=[
            Contender(COPY, lambda _: np.copyto(target, source), work=2 * source.nbytes),
            Contender(SCAN, lambda _: count_holding(low, high, 0.5), work=low.size),
            Contender(MISS, lambda _: walk(following, steps), work=steps),
            Contender(ROWS, lambda _: write_rows(columns, rows), work=rows),
        ],
    )
