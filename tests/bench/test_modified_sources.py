"""Records say what they ran: committed ones take no measurement of modified sources unless told so."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast import cli
from rankcast.bench import records
from rankcast.bench import runner as declaring
from rankcast.bench.runner import Contender, LeftOutError, Trial, case
from rankcast.errors import InputError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(place: Path, *words: str) -> str:
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(place), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a source file and committed records, which the benchmark takes for its sources."""
    root = tmp_path / "checkout"
    (root / "benchmarks" / "records").mkdir(parents=True)
    (root / "benchmarks" / "records" / "old.case.jsonl").write_text("")
    (root / "source.py").write_text("one = 1\n")
    (root / ".gitignore").write_text("out/\n")
    git(tmp_path, "init", "--quiet", str(root))
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "first")
    monkeypatch.setattr(records, "_SOURCE", root)
    monkeypatch.chdir(root)
    return root


@pytest.fixture(autouse=True)
def one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaring, "_DECLARED", {})
    monkeypatch.setattr("rankcast.bench.cases.MODULES", ())

    def body(parameters: dict[str, Any], rng: np.random.Generator) -> Trial:
        """Add numbers."""
        return Trial(3, [Contender("sum", run=lambda _: sum(range(9)))], agrees=lambda answers: True)

    case("tiny.sum", small={"n": [1, 2]}, full={}, seed=1, unit="sum")(body)


def commits(place: Path) -> list[str]:
    return [json.loads(line)["commit"] for line in (place / "tiny.sum.jsonl").read_text().splitlines()]


MODIFIED: dict[str, Callable[[Path], Any]] = {
    "edited": lambda root: (root / "source.py").write_text("one = 2\n"),
    "staged": lambda root: ((root / "source.py").write_text("one = 2\n"), git(root, "add", "source.py")),
    "removed": lambda root: (root / "source.py").unlink(),
    "untracked": lambda root: (root / "an other.py").write_text("two = 2\n"),
}


def test_committed_records_are_added_to_again_and_again_from_committed_sources(checkout: Path) -> None:
    for _ in range(2):  # the second time the records of the first are not committed
        assert cli.main(["bench", "run"]) == 0
    assert commits(checkout / "benchmarks" / "records") == [git(checkout, "rev-parse", "--short", "HEAD")] * 4


@pytest.mark.parametrize("how", MODIFIED)
def test_modified_sources_are_refused_with_what_to_do(
    checkout: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    MODIFIED[how](checkout)
    for target in (
        "benchmarks/records",
        str(checkout / "benchmarks" / "records"),
        "out/../benchmarks/records",
    ):
        (checkout / "out").mkdir(exist_ok=True)
        assert cli.main(["bench", "run", "--out", target]) == 2
        said = capsys.readouterr().err
        assert "an other.py" in said if how == "untracked" else "source.py" in said
        assert "--out out/records" in said
        assert "--dirty" in said
    assert [path.name for path in Path("benchmarks/records").iterdir()] == ["old.case.jsonl"]


@pytest.mark.parametrize("how", MODIFIED)
def test_modified_sources_are_marked_where_they_are_taken(checkout: Path, how: str) -> None:
    MODIFIED[how](checkout)
    marked = git(checkout, "rev-parse", "--short", "HEAD") + "-dirty"
    assert cli.main(["bench", "run", "--dirty"]) == 0
    assert commits(checkout / "benchmarks" / "records") == [marked] * 2
    assert cli.main(["bench", "run", "--out", "out/records"]) == 0
    assert commits(checkout / "out" / "records") == [marked] * 2


def test_an_edit_during_a_run_ends_it(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = records.append

    def edit(record: records.Record, directory: Path) -> Path:
        MODIFIED["edited"](checkout)
        return append(record, directory)

    monkeypatch.setattr("rankcast.bench.commands.append", edit)
    assert cli.main(["bench", "run"]) == 2
    assert len(commits(checkout / "benchmarks" / "records")) == 1


def test_many_modified_files_are_counted(checkout: Path) -> None:
    for number in range(5):
        (checkout / f"new{number}.py").write_text("")
    with pytest.raises(InputError, match=r"new0\.py, new1\.py, new2\.py and 2 more"):
        records.check_target(Path("benchmarks/records"))


def test_outside_a_checkout_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_SOURCE", tmp_path)
    records.check_target(tmp_path)
    records.check_target(tmp_path / "absent")
    assert records.modified() == []
    assert records.commit() is None


def test_a_case_that_cannot_run_here_is_left_out(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a word on what is missing; the others run."""

    def body(parameters: dict[str, Any], rng: np.random.Generator) -> Trial:
        """Need what is not there."""
        raise LeftOutError("there is no broker")

    case("tiny.queue", small={}, full={}, seed=1, unit="sum")(body)
    assert cli.main(["bench", "run"]) == 0
    assert "tiny.queue is left out: there is no broker" in capsys.readouterr().err
    assert len(commits(checkout / "benchmarks" / "records")) == 2
