"""A network that loses messages, and brokers that fail: every list is right in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rankcast.errors import SettingError
from rankcast.papers.network.config import experiment
from rankcast.papers.network.lossy import lossy

from .test_simulate import figures, simulate

SMALL: dict[str, Any] = {
    "network": "lossy",
    "topology": {"kind": "tree", "nodes": 40, "brokers": 8},
    "workload": {"objects": 60, "subscriptions": 150, "events": 150, "k": [1, 4]},
    "lossy": {"loss": [0.0, 0.1, 0.6], "fail": 0.05, "doubled": 0.1, "late": 0.1, "batch": 6, "signs": 7},
}


def played(**given: Any) -> list[dict[str, Any]]:
    made = {**SMALL, **{name: {**SMALL.get(name, {}), **values} for name, values in given.items()}}
    return lossy(experiment(made, default_out="out"), lambda step: None).rows


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_list_is_right_in_the_end_and_extra_traffic_is_counted(seed: int) -> None:
    rows = lossy(experiment({**SMALL, "seed": seed}, default_out="out"), lambda step: None).rows
    assert len(rows) == 6
    assert all(row["exact_lists"] for row in rows)
    assert all(row["subscribers"] == row["checked"] == row["lists"] == 150 for row in rows)
    for k in (1, 4):
        calm, rough, storm = (row for row in rows if row["k"] == k)
        assert calm["tile_bytes"] == rough["tile_bytes"] == storm["tile_bytes"] > 0
        assert calm["lost"] < storm["lost"]  # what is sent to brokers that are down is lost, too
        assert calm["extra_bytes"] < storm["extra_bytes"]
        assert storm["failed"] > 0
        assert storm["gaps"] > 0


def test_nothing_is_extra_where_nothing_is_lost_but_signs_of_life() -> None:
    calm = {"loss": 0, "fail": 0, "doubled": 0, "late": 0}
    for row in played(lossy=calm):
        assert row["exact_lists"]
        assert (row["lost"], row["gaps"], row["doubled"], row["asked"]) == (0, 0, 0, 0)
        assert 0 < row["extra_bytes"] <= 16 * row["signs"] * 40


def test_without_signs_of_life_and_resynchronising_lists_would_be_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check can fail: a gateway that takes any part as the next one ends with wrong lists."""
    from rankcast.gateway import Gateway

    def deaf(self: Gateway, rows: Any, *, sequence: int, after: int) -> list[Any]:
        if sequence > after:
            for row in rows:
                list(self._deliver(row, sequence))
        self._sequence = max(sequence, self._sequence or 0)
        return []

    monkeypatch.setattr(Gateway, "receive", deaf)
    assert not all(row["exact_lists"] for row in played(lossy={"loss": [0.6]}))


def test_several_attributes() -> None:
    rows = played(workload={"over": ["x", "z"], "subscriptions": 60, "events": 60}, lossy={"loss": 0.3})
    assert all(row["exact_lists"] for row in rows)


def test_the_command_plays_it(tmp_path: Path) -> None:
    text = 'network = "lossy"\n[topology]\nkind = "ring"\nnodes = 20\nbrokers = 4\n'
    text += "[workload]\nobjects = 20\nsubscriptions = 30\nevents = 30\nk = 2\n[lossy]\nloss = [0, 0.5]\n"
    code, out = simulate(tmp_path, text)
    assert code == 0
    assert [row["method"] for row in figures(out)] == ["loss 0", "loss 0.5"]
    assert (out / "traffic-by-method.png").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"loss": 1}, "loss is 1"),
        ({"come": 0.6, "move": 0.6}, "more than 1"),
        ({"loss": []}, "loss is empty"),
        ({"down": 0}, "down"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingError, match=told):
        experiment({**SMALL, "lossy": given}, default_out="out")
