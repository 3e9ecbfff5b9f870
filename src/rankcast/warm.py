"""Compiles the kernels once, into Numba's cache: `python -m rankcast.warm`.

A kernel is compiled at its first call with new types, which takes about a second; afterwards it comes from
the cache on disk in milliseconds. So every engine plays a part of its demonstration here, with a word
on how long that took.
"""

from __future__ import annotations

import sys
import time

from rankcast.demo import scenes


def main() -> None:
    """Play the beginning of every scene."""
    began = time.perf_counter()
    for name in scenes.NAMES:
        scene = scenes.build(name, batches=20)
        for call, rows in scene.calls:
            getattr(scene.engine, call)(rows)
        if hasattr(scene.engine, "results"):
            scene.engine.results()
    sys.stderr.write(f"kernels ready in {time.perf_counter() - began:.1f} s\n")


if __name__ == "__main__":
    main()
