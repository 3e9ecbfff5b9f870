"""What the golden files hold. `python -m tests.state.golden DIRECTORY` writes those of the current format."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.core import snapshot
from rankcast.state import Shard

from .toy_engine import ToyCounter

KIND = "Golden"
HEADER = {"settings": {"k": 3, "over": ["x", "y"]}, "text": "größer, 更大", "number": 0.1, "none": None}
BATCHES = 7


def arrays() -> dict[str, NDArray[Any]]:
    """One array of every type, and odd shapes."""
    made: dict[str, NDArray[Any]] = {
        f"type_{dtype[1:]}": (np.arange(12) % 2).astype(dtype).reshape(3, 4) for dtype in snapshot.DTYPES
    }
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324])
    return {**made, "special": special, "empty": np.empty((0, 3), np.int32), "scalar.part": np.array(7)}


def batch(number: int) -> list[tuple[str, dict[str, list[int]]]]:
    """The batches of the shard; the first snapshot covers the first three."""
    events = {"id": [number % 4, (number + 1) % 4], "add": [number, 10 * number]}
    if number == 1:
        return [("subscribe", {"id": [0, 1, 2, 3]}), ("publish", events)]
    return [("publish", events)] if number != 5 else [("publish", events), ("subscribe", {"id": [50]})]


def write(root: Path) -> None:
    """Write the golden snapshots of the current format under `root`; refuses to change old ones."""
    root.mkdir(parents=True)
    snapshot.write(root / "arrays", kind=KIND, header=HEADER, arrays=arrays())
    with Shard.open(root / "shard", ToyCounter()) as shard:
        for number in range(1, BATCHES + 1):
            shard.apply(batch(number), after=shard.token)
            if number == 3:
                shard.snapshot()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
