"""The command: exit codes, one line for a mistake, nothing imported that is not needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankcast
from rankcast import cli
from rankcast.bench import runner as declaring
from rankcast.bench.cases import MODULES, load
from rankcast.bench.runner import Contender, Trial, case
from rankcast.bench.workloads.range_topk import STOCKS

REAL = {
    "range-topk.table-5",
    "range-topk.table-6",
    "network.figure-17",
}  # nothing to run without the real trace


@pytest.fixture
def small_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only two tiny cases are declared: one that agrees and one that does not."""
    monkeypatch.setattr(declaring, "_DECLARED", {})
    monkeypatch.setattr("rankcast.bench.cases.MODULES", ())

    def body(parameters: dict[str, Any], rng: np.random.Generator) -> Trial:
        """Add numbers."""
        agrees = parameters["agrees"]
        return Trial(3, [Contender("sum", run=lambda _: sum(range(9)))], agrees=lambda answers: agrees)

    case("tiny.good", small={"agrees": [True], "n": [1, 2]}, full={}, seed=1, unit="sum")(body)
    case("tiny.bad", small={"agrees": [False]}, full={}, seed=1, unit="sum")(body)


def mistake(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that is the user's mistake and return its one line."""
    assert cli.main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert told.err.endswith("\n")
    return told.err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"rankcast {rankcast.__version__}\n"


def test_a_mistyped_command_gets_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dmo"]) == cli.USAGE_MISTAKE
    told = capsys.readouterr().err
    assert told.endswith("(did you mean 'demo'? see rankcast --help)\n")
    assert cli.main(["xyzzy"]) == cli.USAGE_MISTAKE
    assert "did you mean" not in capsys.readouterr().err


def test_help_lists_the_commands_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(command.name in told and command.summary.split()[0] in told for command in cli.COMMANDS)
    for command in cli.COMMANDS:
        assert cli.main([command.name, "--help"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nothing"],
        ["bench"],
        ["bench", "nothing"],
        ["bench", "run", "--size", "huge"],
        ["bench", "run", "--nothing"],
        ["bench", "run", "no.such.case"],
        ["bench", "compare", "one"],
        ["bench", "compare", "absent-one", "absent-two"],
        ["bench", "report", "--records", "absent"],
    ],
)
def test_a_mistake_gets_one_line(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert mistake(capsys, *words).startswith("rankcast")


@pytest.mark.usefixtures("small_cases")
def test_an_unknown_case_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "tiny.good" in mistake(capsys, "bench", "run", "tiny.god")


def test_a_broken_record_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.b.jsonl").write_text("{}\n")
    assert "a.b.jsonl:1" in mistake(capsys, "bench", "report", "--records", str(tmp_path))


@pytest.mark.usefixtures("small_cases")
def test_cases_are_listed_with_what_they_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "list"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told] == ["tiny.bad", "tiny.good"]
    assert all("Add numbers." in line for line in told)


@pytest.mark.usefixtures("small_cases")
def test_run_records_report_and_compare_work_together(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = tmp_path / "records"
    for _ in range(2):
        assert cli.main(["bench", "run", "*.good", "--out", str(place)]) == 0
    written = [json.loads(line) for line in (place / "tiny.good.jsonl").read_text().splitlines()]
    assert [line["parameters"]["n"] for line in written] == [1, 2, 1, 2]
    assert [path.name for path in place.iterdir()] == ["tiny.good.jsonl"]
    page = tmp_path / "new" / "page.html"
    assert cli.main(["bench", "report", "--records", str(place), "--out", str(page)]) == 0
    assert "tiny.good" in page.read_text()
    capsys.readouterr()
    assert cli.main(["bench", "compare", str(place), str(place)]) == 0
    assert "2 compared, 0 slower" in capsys.readouterr().out


@pytest.mark.usefixtures("small_cases")
def test_a_disagreement_is_an_exit_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["bench", "run", "--out", str(tmp_path)]) == 1
    assert "tiny.bad agrees=False" in capsys.readouterr().err.splitlines()[-1]
    assert (tmp_path / "tiny.good.jsonl").exists()


@pytest.mark.parametrize(("package", "extra"), [("rich.console", "bench"), ("matplotlib.figure", "plot")])
@pytest.mark.usefixtures("small_cases")
def test_a_missing_extra_is_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    package: str,
    extra: str,
) -> None:
    words = ["bench", "run", "tiny.good", "--out", str(tmp_path)]
    if extra == "plot":
        figure = declaring.Figure("n", x="n", y="rate")
        good = declaring._DECLARED["tiny.good"]
        declaring._DECLARED["tiny.good"] = declaring.Case(**{**vars(good), "figures": (figure,)})
        assert cli.main(words) == 0
        capsys.readouterr()
        words = ["bench", "report", "--records", str(tmp_path), "--out", str(tmp_path / "page.html")]
    monkeypatch.setitem(sys.modules, package, None)
    assert f'pip install "rankcast[{extra}]"' in mistake(capsys, *words)


def test_a_directory_that_cannot_be_written_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "a.b.jsonl").write_text("{}\n")
    told = mistake(capsys, "bench", "report", "--records", str(tmp_path / "file" / "below"))
    assert "file" in told


def test_the_version_costs_no_heavy_import() -> None:
    code = "import sys; from rankcast import cli; cli.main(['--version']); print(*sys.modules)"
    asked = [sys.executable, "-c", code]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    heavy = {"numpy", "numba", "pyarrow", "rich", "matplotlib", "pandas", "pyspark"}
    assert not heavy & set(told.stdout.splitlines()[-1].split())


def test_a_reader_that_leaves_early_is_no_error() -> None:
    code = "import sys; from rankcast.cli import main; sys.exit(main(['bench', 'list']))"
    reading, writing = os.pipe()
    os.close(reading)
    told = subprocess.run(
        [sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (told.returncode, told.stderr) == (0, "")


def test_every_recorded_case_is_still_declared() -> None:
    records = Path(__file__).parents[1] / "benchmarks" / "records"
    assert {path.stem for path in records.glob("*.jsonl")} <= set(load())


def test_every_module_declares_something() -> None:
    cases = load()
    modules = {found.body.__module__ for found in cases.values()}
    assert modules == set(MODULES)
    nothing = {
        name
        for name, found in cases.items()
        if not all(list(found.parameters(size)) for size in declaring.SIZES)
    }
    assert nothing == (set() if STOCKS.exists() else REAL)
