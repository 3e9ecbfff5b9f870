"""`rankcast simulate`: a file in, figures and plots out; mistakes answered in one line with exit code 2."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from rankcast import cli
from rankcast.errors import SettingError
from rankcast.papers.network import plots
from rankcast.papers.network.config import KEYS, experiment, read

EXAMPLES = Path(__file__).parents[3] / "examples"
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
    assert "lists exact at the end: 16 of 16 runs; subscribers checked: 40 of 40, 80 of 80" in told
    conclusion = told[told.index("") + 1 :]
    assert told[0] == "bytes between brokers an update, 80 subscriptions, k = 3"
    assert [line.split()[0] for line in told[1:5]] == ["unicast", "relax", "sparse", "sparse(1)"]
    assert max(line.count("█") for line in told[1:5]) == 40
    assert len(told) == 6 + len(conclusion)
    assert len(conclusion) <= 5
    assert conclusion[0].startswith("least: sparse")
    assert conclusion[1].startswith("from 40 to 80 subscriptions and 1 to 3 k, times: unicast ")
    assert ": figures.csv has all 16 rows; traffic-by-" in conclusion[-1]
    rows = figures(out)
    assert len(rows) == 16
    assert all(row["exact_lists"] == "True" for row in rows)
    names = {path.name for path in out.iterdir()}
    plots = {"traffic-by-k.png", "traffic-by-method.png", "traffic-by-subscriptions.png", "zones.png"}
    assert names == {"figures.csv", *plots}
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in plots)


def test_an_acyclic_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = simulate(tmp_path, 'network = "acyclic"\n' + SMALL)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "entries a routing table, 80 subscriptions, k = 3"
    assert told[4].startswith("least: covering, ")
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
        ("workload = 3", "workload is no section, expected one section [workload]"),
        ("content = [1]", "content is no section, expected one section [content]"),
        ("[[content]]", "content is no section, expected one section [content]"),
        ("[seed]", "seed is a section, expected a value: seed = ..."),
        ("seed = -1", "seed is -1, expected a whole number from 0"),
        (
            "[workload]\nevents = 3000000000",
            "events is 3000000000, expected a whole number from 1 to 2147483647",
        ),
        ("[topology]\nkind = 'internet'\nnodes = 6\nbrokers = 2", "nodes is 6, expected at least 7 for kind"),
        (
            "[content]\nmethods = ['sparse(0.5']",
            'method is "sparse(0.5", expected a name as sparse, sparse(0.5)',
        ),
        (
            "[workload]\nover = ['x', 'z']\n[content]\nmethods = ['sparse-unmerged']",
            '"sparse-unmerged", which is not',
        ),
        (
            "[workload]\nover = ['x', 'z']\n[content]\nmethods = ['dense*5']",
            'methods has "dense*5", which is not',
        ),
        (
            "[workload]\nover = ['x', 'z']\none_sided = ['x']\n[content]\nmethods = ['dense']",
            "the second in one_sided",
        ),
        ("[workload]\none_sided = ['z']", 'one_sided names "z", expected attributes of over: x'),
        ("[workload]\none_sided = [3]", "one_sided is [3], expected a name"),
        ("[workload]\nobjects = 3\n[content]\nservers = 4", "servers is 4, expected at most the 3 objects"),
        (
            "[workload]\nover = ['x', 'z']\n[content]\nservers = 2",
            "servers is 2, expected 1, as over has several",
        ),
        ("network = 'acyclic'\n[acyclic]\ngone = 1", "gone is 1, expected a share below 1"),
        ("[check]\nlisteners = 0", "listeners is 0, expected a whole number from 1"),
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
    assert "small.toml" in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_what_is_found_late_is_one_line_and_leaves_no_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise SettingError("space cannot be cut into 6 zones", expected="fewer brokers")

    monkeypatch.setattr("rankcast.papers.network.simulation.cut_space", refuse)
    code, out = simulate(tmp_path, SMALL)
    assert code == 2
    assert capsys.readouterr().err == "rankcast: space cannot be cut into 6 zones, expected fewer brokers\n"
    assert not out.exists()


def test_a_file_in_the_way_is_found_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("mine")
    code, out = simulate(tmp_path, SMALL)
    assert code == 2
    assert capsys.readouterr().err.endswith("out' is a file, expected a directory\n")
    assert out.read_text() == "mine"


def test_some_subscribers_are_checked_if_a_file_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SMALL + '[content]\nmethods = ["sparse", "relax"]\n[check]\nlisteners = 50\n'
    assert simulate(tmp_path, text)[0] == 0
    told = capsys.readouterr().out.splitlines()
    assert "lists exact at the end: 8 of 8 runs; subscribers checked: 40 of 40, 50 of 80" in told


def test_those_who_keep_everything_are_said_to_be_checked_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankcast.papers.network.traffic.MOST_KEPT", 300)
    assert simulate(tmp_path, SMALL + '[content]\nmethods = ["sparse", "relax"]\n')[0] == 0
    told = capsys.readouterr().out
    assert "subscribers checked: 40 of 40, 80 of 80\n" in told
    assert (
        "\nrelax: receivers keep every object in their range; all were checked by the updates they heard, 10 "
        in told
    )


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ("", ["unicast", "relax", "sparse", "sparse(1)"]),
        ('one_sided = ["z"]\n', ["unicast", "relax", "dense", "sparse", "sparse(1)"]),
    ],
)
def test_defaults_fit_the_attributes(tmp_path: Path, more: str, names: list[str]) -> None:
    code, out = simulate(tmp_path, SMALL + 'over = ["x", "z"]\n' + more)
    assert code == 0
    rows = figures(out)
    assert [row["method"] for row in rows] == names * 4
    assert all(row["exact_lists"] == "True" and row["checked"] == row["subscriptions"] for row in rows)


def test_any_seed_is_accepted() -> None:
    assert experiment({"seed": 2**80}, default_out="out").seed == 2**80


def test_lines_in_plots_stay_below_the_upper_edge() -> None:
    rows: list[dict[str, Any]] = [
        {"k": 3, "subscriptions": count, "method": "covering", **dict.fromkeys(plots.ACYCLIC, value)}
        for count, value in ((10, 500.0), (20, 510.0), (40, 508.0))
    ]
    far = [{**row, "overlay_bytes": row["subscriptions"] ** 3} for row in rows]
    for drawn in (rows, far):
        for panel in plots._lines(drawn, "subscriptions", plots.ACYCLIC).axes:
            top = max(panel.get_lines()[0].get_ydata())
            low, high = panel.transData.inverted().transform(panel.transAxes.transform([(0, 0), (0, 0.97)]))
            assert low[1] < top < high[1]


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
