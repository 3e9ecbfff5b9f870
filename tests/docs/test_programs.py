"""The programs under examples: each runs as one command, and what it says is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import courier_on_roads, gateways, job_matching, local_alerts, pacing, stock_screener

from rankcast import Gateway, MovingTopK, RangeTopK
from rankcast.gateway import Lists, answer

FOLDER = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path.name for path in FOLDER.glob("*.py") if "\n    main()\n" in path.read_text())


def test_there_is_one_for_each_purpose() -> None:
    assert len(PROGRAMS) == 7
    told = (FOLDER / "README.md").read_text()
    assert all(f"`python examples/{name}`" in told for name in PROGRAMS)
    others = {path.name for path in FOLDER.iterdir() if path.is_file()} - {"README.md", *PROGRAMS}
    assert all(f"`{name}`" in told or f"({name})" in told for name in others)


@pytest.mark.parametrize("name", PROGRAMS)
def test_its_text_says_how_to_run_it(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert f"\n    python examples/{name}\n" in text.split('"""')[1]


def test_a_program_is_one_command() -> None:
    asked = [sys.executable, "-W", "error", str(FOLDER / "stock_screener.py")]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert told.stdout.startswith("500 stocks.")
    assert "Traceback" not in told.stderr


def test_the_screener_lists_the_cheapest(capsys: pytest.CaptureFixture[str]) -> None:
    screener = stock_screener.main(size=200, hours=3)
    printed = capsys.readouterr().out
    assert printed.count(":00, 25 quotes") == 3
    assert printed.splitlines()[-1].endswith("risk is outside the range")
    objects = screener.objects().to_pylist()
    assert len(objects) == 199  # one was taken off the market
    for watcher in stock_screener.WATCHERS:
        low, high = watcher["risk_lo"] or -np.inf, watcher["risk_hi"] or np.inf
        inside = sorted((each["pe"], each["id"]) for each in objects if low <= each["risk"] <= high)
        found = screener.results([watcher["id"]])["item"].to_pylist()
        assert found == [name for _, name in inside[: watcher["k"] or 3]]


def test_alerts_are_near_recent_and_about_the_words(capsys: pytest.CaptureFixture[str]) -> None:
    alerts = local_alerts.main(size=200)
    printed = capsys.readouterr().out
    lists = dict(re.findall(r'^(\w+), .*: ".*"\n((?:  0\.\d\d  .*\n)*)', printed, re.MULTILINE))
    assert list(lists) == ["Anna", "Beat", "Chloé", "Dario"]
    words = {
        "Anna": "road|accident",
        "Beat": "[Ss]now|Storm",
        "Chloé": "[Tt]rain",
        "Dario": "concert|open-air",
    }
    for name, word in words.items():
        lines = lists[name].splitlines()
        assert lines
        assert all(re.search(word, line) for line in lines), lines
    assert "Lost: grey cat" not in printed
    assert len(alerts) == 4


def test_nobody_spends_more_than_the_budget_and_pacing_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    server = pacing.main()
    unpaced, paced = (part.splitlines() for part in capsys.readouterr().out.split("\nPaced"))
    assert all(0 <= left < 1.5 for left in server.left.values())
    assert all(line.split("|")[1].endswith("  ") for line in unpaced[1:])  # money is out before midnight
    assert all(" " not in line.split("|")[1] for line in paced[1:])  # there is some in every hour


def test_offers_go_to_whom_they_suit(capsys: pytest.CaptureFixture[str]) -> None:
    job_matching.main(size=300)
    parts = capsys.readouterr().out.split("\n\n")
    first = [re.search(r"1\. (\S+(?: \d+)?)", part) for part in parts[1:7]]
    names = [found[1] if found else None for found in first]
    assert [name for name in names if name is not None and "seeker" not in name] == [
        "Ben",
        "Ann",
        "Cem",
        "Dea",
        "Ann",
    ]
    assert "Cem" not in parts[4]  # no dishwashing
    assert "Ben" not in parts[6].split("\n", 1)[1]  # excluded
    assert "icu nurse: Ben, 1.50" in parts[7]
    assert "Ann" not in parts[7].split("\n", 1)[1]


def test_restaurants_are_the_best_by_road(capsys: pytest.CaptureFixture[str]) -> None:
    engine = courier_on_roads.main()
    printed = capsys.readouterr().out
    assert printed.count("minutes until food is in the bag") == 4
    assert re.search(r"half an hour\.\n  .*-E", printed)  # a kitchen across the bridge
    scan = MovingTopK(
        over=["wait"], k=3, score=engine.score, metric="network", graph=engine.graph, method="scan"
    )
    scan.upsert(engine.objects())
    scan.subscribe([{"id": "courier", "x": 10.0, "y": 5.0}])
    scan.update_roads([{"id": "East Bridge", "length": courier_on_roads.BLOCK}])
    assert scan.results().equals(engine.results())


def test_the_lost_message_is_noticed_and_mended(capsys: pytest.CaptureFixture[str]) -> None:
    found = gateways.main()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].endswith("Tokyo does not hear of it")
    mended = re.search(r"Tokyo notices a gap, asks, and mends (\d+) lists", printed[1])
    assert mended
    assert int(mended[1]) > 0
    assert [city.stats()["gaps"] for city in found.values()] == [0, 1, 0]
    assert all(line.endswith("0 wrong lists") for line in printed[4:7])
    assert printed[7].endswith("as the server says")


@pytest.mark.parametrize("seed", range(3))
def test_without_numbers_the_loss_would_stay(seed: int) -> None:
    """The message that is lost matters: a gateway that only misses it has a wrong list."""
    rng = np.random.default_rng(seed)
    server = RangeTopK(over="risk", by="pe", k=3, method="dense", lists=False)
    names, risk = list(range(50)), rng.uniform(0, 100, 50)
    server.disseminate({"id": names, "risk": risk, "pe": rng.uniform(5, 50, 50)})

    def ask(ranges: list[dict[str, Any]]) -> Lists:
        return answer(ranges, lambda rows: server.preview(rows).to_pylist(), 0)

    gateway = Gateway(ask, over="risk", by="pe", k=3)
    gateway.resynchronise(0)
    gateway.subscribe(gateways.people(rng, "Paris", 100))
    server.disseminate({"id": [7], "pe": [1.0]})  # nobody hears of it
    assert gateway.check()
