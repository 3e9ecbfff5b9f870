"""How many files a reader must open to follow one event through an engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

# What one publish enters at most; 12 of them are the shared ones of `core`, `structures` and `tables`. A
# micro-batch also maps the engine's arrays, and restores it over them.
MOST = {
    "RangeTopK": 16,
    "GeoTextTopK": 22,
    "RankedMatcher": 17,
    "CoveringTable": 16,
    "MovingTopK": 16,
    "MovingSkyline": 17,  # it also learns how long zones last
    "micro-batch": 30,
}

UNCOMPILED = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.parametrize("way", MOST)
def test_an_event_passes_few_files(way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.house.count_files", way],
        cwd=ROOT,
        env=UNCOMPILED,
        capture_output=True,
        text=True,
        check=True,
    )
    *files, number = done.stdout.split()
    assert len(files) == int(number)
    assert int(number) <= MOST[way], done.stdout


def test_publishing_ranges_loads_no_dissemination() -> None:
    script = (
        "import sys, rankcast\n"
        "for over in (['x'], ['x', 'z']):\n"
        "    engine = rankcast.RangeTopK(over=over, k=1)\n"
        "    engine.subscribe({'id': [1], 'x_lo': [0.0], 'x_hi': [9.0]})\n"
        "    engine.publish({'id': [1], 'y': [1.0], **{name: [1.0] for name in over}})\n"
        "print([name for name in sys.modules if 'range_topk.dissemination' in name])\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, env=UNCOMPILED, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
