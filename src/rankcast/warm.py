"""Compiles the kernels once, into Numba's cache: `python -m rankcast.warm`.

A kernel is compiled at its first call with new types, which takes about a second; afterwards it comes from
the cache on disk in milliseconds. So every engine, under its default method or index, plays the beginning of
its demonstration here and then is called in every other way, one process a core, with a word on how long that
took. What is left, other methods and what they need, is compiled when it is first used.
"""

from __future__ import annotations

import gc
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from rankcast.demo import scenes

# By scene what its calls leave out; the scene that takes longest to compile comes first.
ENCORES: dict[str, tuple[tuple[str, Any], ...]] = {
    "ads": (
        ("subscribe", {"id": ["new"], "age_lo": [20.0], "score": [1.0]}),
        ("amend", {"id": ["tent 6"], "age_lo": [20.0]}),
        ("unsubscribe", ["tent 6"]),
    ),
    "news": (
        ("subscribe", {"id": ["new"], "x": [5.0], "y": [5.0], "terms": [["coffee"]]}),
        ("amend", {"id": ["Ada"], "terms": [["coffee", "jazz"]]}),
        ("unsubscribe", ["Ada"]),
    ),
    "stocks": (
        ("subscribe", {"id": ["new"], "risk_hi": [5.0]}),
        ("publish", {"id": ["NEW"], "risk": [5.0], "pe": [1.0]}),
        ("amend", {"id": ["Ada"], "risk_lo": [1.0], "k": [2]}),
        ("amend", {"id": ["Bela"], "risk_lo": [2.0], "risk_hi": [3.0]}),
        ("publish", {"id": ["NEW"], "pe": [None]}),
        ("unsubscribe", ["Ada"]),
    ),
    "router": (
        ("subscribe", {"id": ["all"], "price_lo": [0.0]}),
        ("amend", {"id": ["all"], "price_lo": [50.0]}),
        ("publish", {"id": ["event"], "price": [60.0], "size": [5.0]}),
        ("unsubscribe", ["all"]),
    ),
    "hotels": (
        ("upsert", {"id": ["new"], "x": [9.0], "y": [9.0], "price": [1.0], "rating": [5.0]}),
        ("remove", ["new"]),
        ("subscribe", {"id": ["new"], "x": [5.0], "y": [5.0]}),
        ("publish", {"id": ["Ada", "new", "Ada"], "x": [5.0, 6.0, 7.0], "y": [5.0, 6.0, 7.0]}),
        ("amend", {"id": ["Ada"], "x": [5.0]}),
        ("unsubscribe", ["Ada"]),
    ),
    "taxi": (
        ("remove", ["charger 6"]),
        ("subscribe", {"id": ["new"], "x": [5.0], "y": [5.0]}),
        ("publish", {"id": ["Ada", "new", "Ada"], "x": [5.0, 6.0, 7.0], "y": [5.0, 6.0, 7.0]}),
        ("amend", {"id": ["Ada"], "x": [50.0]}),
        ("unsubscribe", ["Ada"]),
    ),
}
BATCHES = 5


def play(name: str) -> None:
    """Play a scene; the collector rests until its end, for a tenth of the time."""
    gc.collect()
    gc.disable()
    scene = scenes.build(name, batches=BATCHES)
    for call, rows in (*scene.calls, *ENCORES[name]):
        getattr(scene.engine, call)(rows)
    if hasattr(scene.engine, "results"):
        scene.engine.results()


def main() -> None:
    """Play every scene; an exception of one of them comes out here."""
    began = time.perf_counter()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        list(processes.map(play, ENCORES))
    sys.stderr.write(f"kernels ready in {time.perf_counter() - began:.1f} s\n")


if __name__ == "__main__":
    main()
