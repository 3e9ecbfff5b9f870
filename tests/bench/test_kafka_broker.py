"""The broker of trials: where its jars are missing, it says how to get them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rankcast.bench.cases import kafka_broker


def test_a_broker_without_jars_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANKCAST_BROKER_JARS", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda _: "java")
    monkeypatch.setattr(sys, "argv", ["kafka_broker", str(tmp_path / "log")])
    assert kafka_broker.main() == 2
    assert "`make broker` fetches them" in capsys.readouterr().err
    assert not (tmp_path / "log").exists()
