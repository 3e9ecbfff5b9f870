"""`rankcast simulate`: a file in, figures and plots out; mistakes answered in one line with exit code 2."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from rankcast import cli
from rankcast.errors import SettingError
from rankcast.network.config import KEYS, experiment, read

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = """
seed = 3
[topology]
kind = "tree"
nodes = 30
brokers = 6
[workload]
objects = 30
subscriptions = [40, 80]
events = 10
k = [1, 3]
"""


def simulate(tmp_path: Path, text: str) -> tuple[int, Path]:
    file = tmp_path / "small.toml"
    file.write_text(text)
    return cli.main(["simulate", str(file), "--out", str(tmp_path / "out")]), tmp_path / "out"


def figures(out: Path) -> list[dict[str, str]]:
    with (out / "figures.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_content_driven_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = simulate(
        tmp_path, SMALL + '[content]\nmethods = ["unicast", "relax", "sparse", "sparse(1)"]\n'
    )
    told = capsys.readouterr().out.splitlines()
    assert code == 0
    assert told[-2].startswith("lists exact at the end: 16 of 16 runs")
    rows = figures(out)
    assert len(rows) == 16
    assert all(row["exact_lists"] == "True" for row in rows)
    names = {path.name for path in out.iterdir()}
    plots = {"traffic-by-k.png", "traffic-by-method.png", "traffic-by-subscriptions.png", "zones.png"}
    assert names == {"figures.csv", *plots}
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in plots)


def test_an_acyclic_network(tmp_path: Path) -> None:
    code, out = simulate(tmp_path, 'network = "acyclic"\n' + SMALL)
    assert code == 0
    rows = figures(out)
    assert [row["method"] for row in rows] == ["no covering", "covering"] * 4
    assert all(row["exact_lists"] == "True" and row["missed"] == "0" for row in rows)


def test_several_servers(tmp_path: Path) -> None:
    code, out = simulate(tmp_path, SMALL + '[content]\nmethods = ["sparse"]\nservers = 5\n')
    assert code == 0
    assert all(row["exact_lists"] == "True" for row in figures(out))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sead = 7", 'unknown key "sead", expected one of: '),
        ("[workload]\nsubscription = 5", 'Did you mean "subscriptions"?'),
        ("[wordload]\nk = 5", 'Did you mean "workload"?'),
        ("[workload]\nk = 0", "k is 0, expected a whole number from 1"),
        ("[workload]\nk = []", "k is empty"),
        ("[content]\nmethods = ['sparce']", 'Did you mean "sparse"?'),
        ("[content]\nmethods = 5", "methods is 5"),
        ("[topology]\nkind = 'star'", 'unknown value "star"'),
        ("[topology]\nnodes = 5\nbrokers = 6", "brokers is 6, expected at most nodes"),
        ("out = 5", "out is 5, expected a directory"),
        ("workload = 3", 'unknown key "workload"'),
        ("[seed]", 'unknown key "seed"'),
        ("k = ", "is no TOML file"),
    ],
)
def test_mistakes_are_answered_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    code, out = simulate(tmp_path, text)
    error = capsys.readouterr().err
    assert code == 2
    assert told in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", str(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err.endswith("none.toml: No such file or directory\n")


def test_defaults_and_examples_are_accepted() -> None:
    plain = experiment({}, default_out="out/here")
    assert (plain.network, plain.k, plain.subscriptions, plain.out) == (
        "content",
        [10],
        [50_000],
        Path("out/here"),
    )
    assert [each.name for each in plain.methods] == KEYS["content"]["methods"][1]
    for file in sorted(EXAMPLES.glob("*_network.toml")):
        assert read(file).out == Path("out") / file.stem


def test_values_are_sorted_and_taken_once() -> None:
    given: dict[str, Any] = {"workload": {"k": [5, 1, 5]}}
    assert experiment(given, default_out="out").k == [1, 5]
    with pytest.raises(SettingError, match="over names 4 attributes"):
        experiment({"workload": {"over": ["a", "b", "c", "d"]}}, default_out="out")
