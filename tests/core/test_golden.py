"""Engines saved by every format version can still be loaded, and go on as ever.

A new version of the format gets its golden engines once, by `python -m tests.core.test_golden`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rankcast.core import snapshot
from rankcast.core.contract import results_of
from tests.core.histories import HISTORIES

GOLDEN = Path(__file__).parents[1] / "golden"
SAVED = sorted(path.parent for path in GOLDEN.glob("v*/engines/*/header.json"))


def test_the_current_format_has_every_engine() -> None:
    current = {path.name for path in SAVED if path.parents[1].name == f"v{snapshot.FORMAT}"}
    assert current == set(HISTORIES)


@pytest.mark.parametrize("path", SAVED, ids=lambda path: "-".join(path.parts[-3::2]))
def test_a_golden_engine_goes_on_as_a_fresh_one(path: Path) -> None:
    history = HISTORIES[path.name]
    loaded, fresh = history.engine.load(path), history.run()
    assert results_of(loaded) == results_of(fresh)
    call, rows = history.further
    answer, expected = getattr(loaded, call)(rows), getattr(fresh, call)(rows)
    assert answer.num_rows > 0
    assert answer.equals(expected)
    assert (loaded.stats(), len(loaded)) == (fresh.stats(), len(fresh))


if __name__ == "__main__":
    for name, history in HISTORIES.items():
        history.run().save(GOLDEN / f"v{snapshot.FORMAT}" / "engines" / name)
