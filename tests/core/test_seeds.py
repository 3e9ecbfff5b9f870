"""Seeds of hash tables: answers do not depend on them, tokens neither; they go with the state."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankcast.core import contract
from rankcast.core.contract import results_of
from rankcast.state import batches
from rankcast.structures import ids
from tests.core.histories import HISTORIES, History

every_engine = pytest.mark.parametrize("history", HISTORIES.values(), ids=list(HISTORIES))


@every_engine
def test_answers_and_tokens_do_not_depend_on_seeds(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    told, tokens, tables = [], [], []
    for seed in ("0", "12345", None):
        if seed is None:
            monkeypatch.delenv(ids.FIXED)
        else:
            monkeypatch.setenv(ids.FIXED, seed)
        engine = history.run()
        header, arrays = engine.state()
        tokens.append(batches.first_token(type(engine).__name__, header, arrays))
        tables.append(arrays["subscription.table"].tobytes())
        call, rows = history.further
        answer = getattr(engine, call)(rows)
        told.append((answer.to_pylist(), results_of(engine), engine.stats()))
    assert told[0] == told[1] == told[2]
    assert tokens[0] == tokens[1] == tokens[2]
    assert tables[0] != tables[1], "the seed decides nothing"


@every_engine
def test_a_seed_goes_with_the_state(
    history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(ids.FIXED, "5")
    engine = history.run()
    engine.save(tmp_path / "saved")
    monkeypatch.delenv(ids.FIXED)
    loaded = history.engine.load(tmp_path / "saved")
    contract.same_state(loaded, engine, "loaded")
    call, rows = history.further
    assert getattr(loaded, call)(rows).equals(getattr(engine, call)(rows))
    contract.same_state(loaded, engine, "after a further call")
