"""How a session begins: settings reach Java, and nobody else."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rankcast.errors import InputError, ShardError
from rankcast.spark import scratch, sessions
from tests.spark import hosts
from tests.spark.conftest import SECRET, SETTING


def test_settings_do_not_stand_on_a_command_line(spark: Any) -> None:
    """The shared session was given a secret: Spark has it as it is, no process shows it, no file is left."""
    assert spark.sparkContext.getConf().get(SETTING) == SECRET
    assert spark.conf.get(sessions.PARTITIONS) == "2"
    java = spark.sparkContext._gateway.proc.pid
    shown = "".join(hosts.command(pid) for pid in (java, os.getpid(), *hosts.children(java)))
    assert "SparkSubmit" in shown
    assert "hush" not in shown
    assert SETTING not in shown
    assert list(scratch.private("settings").iterdir()) == []
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ


def test_the_file_is_private_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scratch.VARIABLE, str(tmp_path))
    own = tmp_path / "own.properties"
    own.write_text("a=1")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {own} --conf b=2 pyspark-shell")
    with sessions._in_a_file({"spark.password": "hush hush"}):
        (path,) = scratch.private("settings").iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text() == "a=1\nspark.password=hush\\u0020hush\n"
        told = os.environ["PYSPARK_SUBMIT_ARGS"].split()
    rest = ["--load-spark-defaults", "--conf", "b=2", "pyspark-shell"]
    assert told == ["--properties-file", str(path), *rest]
    assert not path.exists()
    assert str(own) in os.environ["PYSPARK_SUBMIT_ARGS"]


@pytest.mark.parametrize("how", ["link", "open", "file"])
def test_a_directory_that_others_can_reach_is_refused(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, other = tmp_path / "scratch", tmp_path / "other"
    place.mkdir(mode=0o700)
    other.mkdir(mode=0o700)
    monkeypatch.setenv(scratch.VARIABLE, str(place))
    assert stat.S_IMODE(scratch.private("fine").stat().st_mode) == 0o700
    if how == "link":
        (place / "mine").symlink_to(other)
    elif how == "open":
        (place / "mine").mkdir()
        (place / "mine").chmod(0o750)
    else:
        (place / "mine").write_text("")
    with pytest.raises((ShardError, FileExistsError)):
        scratch.private("mine")


def test_the_file_goes_if_java_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scratch.VARIABLE, str(tmp_path))
    with pytest.raises(KeyError), sessions._in_a_file({}):
        raise KeyError
    assert list(scratch.private("settings").iterdir()) == []


def test_a_python_that_the_driver_lacks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors find it in an archive; where the driver finds it by the same name, nothing is said."""
    monkeypatch.chdir(tmp_path)
    name = "./environment/bin/python"
    session = SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=name))
    with pytest.raises(InputError, match="environment/bin/python on the driver") as caught:
        sessions.check_driver(session)
    assert "Submit from a folder" in str(caught.value)
    Path(name).parent.mkdir(parents=True)
    Path(name).symlink_to(sys.executable)
    sessions.check_driver(session)
    sessions.check_driver(SimpleNamespace())  # behind Spark Connect there is no context
