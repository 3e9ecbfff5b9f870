"""What exists to compare with is loaded when it is named, and only then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rankcast import CoveringTable, RankedMatcher
from rankcast.core.spec import load
from rankcast.covering.graph import GRAPHS
from rankcast.matching.indexes import PAPERS

COVERING = """
import sys
from rankcast import CoveringTable, maxima
table = CoveringTable(over=["x"])
table.subscribe({"id": [1, 2, 3], "x_lo": [0, 1, 4], "x_hi": [9, 2, 5]})
table.amend({"id": [2], "x_lo": [1], "x_hi": [3]})
table.publish({"id": [1], "x": [2.0]})
table.covers({"id": [1], "x_lo": [1], "x_hi": [1]}, k=2)
table.follow({"op": ["unsubscribe"], "id": [3], "x_lo": [None], "x_hi": [None]})
table.unsubscribe([1], limit=1)
table.save(sys.argv[1])
CoveringTable.load(sys.argv[1]).stats()
maxima({"id": [1], "x_lo": [0], "x_hi": [1]}, over="x")
"""
MATCHING = """
import sys
from rankcast import RankedMatcher
for over in (["x"], ["x", "y"]):
    matcher = RankedMatcher(over=over, k=2)
    matcher.subscribe({"id": [1, 2], "x_lo": [0, 1], "x_hi": [9, 2], "score": [1.0, 2.0]})
    matcher.rescore({"id": [1], "score": [3.0]})
    matcher.publish({"id": [1], **{name: [1.5] for name in over}})
    matcher.unsubscribe([1])
    matcher.save(sys.argv[1])
    RankedMatcher.load(sys.argv[1]).stats()
"""


@pytest.mark.parametrize("calls", [COVERING, MATCHING], ids=["covering", "matching"])
def test_a_default_engine_loads_no_comparator(calls: str, tmp_path: Path) -> None:
    listing = "print([name for name in sys.modules if name.startswith('rankcast.papers')])"
    command = [sys.executable, "-c", f"{calls}\n{listing}", str(tmp_path / "saved")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_graph_is_loaded_by_its_name(graph: str) -> None:
    assert isinstance(CoveringTable(over=["x"], graph=graph)._relations, load(GRAPHS[graph]))


@pytest.mark.parametrize("index", PAPERS)
def test_an_index_is_loaded_by_its_name(index: str) -> None:
    assert isinstance(RankedMatcher(over=["x"], index=index)._index, load(PAPERS[index]))
