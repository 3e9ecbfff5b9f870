"""Compiles the kernels once, into Numba's cache: `python -m rankcast.warm [--every]`.

A kernel is compiled at its first call with new types, which takes about a second; afterwards it comes from
the cache on disk in milliseconds. So every engine plays a part of its demonstration here, one process a
core, with a word on how long that took; with `--every` under each of its methods or indexes, not the
default alone.
"""

from __future__ import annotations

import gc
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from rankcast import contract
from rankcast.demo import scenes

SCENES = {
    "range_topk": "stocks",
    "covering": "router",
    "matching": "ads",
    "geotext": "news",
    "moving_topk": "taxi",
    "moving_skyline": "hotels",
}


def play(name: str, variant: dict[str, Any]) -> None:
    """Play the beginning of a scene; the collector rests until its end, for a tenth of the time."""
    gc.collect()
    gc.disable()
    scene = scenes.build(name, batches=20, variant=variant)
    for call, rows in scene.calls:
        getattr(scene.engine, call)(rows)
    if hasattr(scene.engine, "results"):
        scene.engine.results()


def parts(every: bool) -> list[tuple[str, dict[str, Any]]]:
    """Scenes with variants of their engines; the defaults, which share most with the others, come first."""
    wanted = [subject for subject in contract.subjects() if every or subject.default]
    wanted.sort(key=lambda subject: not subject.default)
    return [(SCENES[subject.family], subject.variant) for subject in wanted]


def main() -> None:
    """Play every part; an exception of one of them comes out here."""
    began = time.perf_counter()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        list(processes.map(play, *zip(*parts("--every" in sys.argv[1:]), strict=True)))
    sys.stderr.write(f"kernels ready in {time.perf_counter() - began:.1f} s\n")


if __name__ == "__main__":
    main()
