"""Dry runs equal what a live subscription would have heard; copies are whole."""

from __future__ import annotations

import json
import tarfile
import threading
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from rankcast import cli
from rankcast.errors import InputError
from rankcast.service.app import Service
from rankcast.service.operating.backup import backup, restore
from rankcast.service.settings import read

from .conftest import Opened, make_stocks

STREAM = "/v1/streams/stocks"
WISH = {"risk_lo": 0, "risk_hi": 5, "k": 3}


def fill(client: TestClient, count: int) -> None:
    for place in range(count):
        event = {"id": f"s{place % 9}", "risk": place * 7 % 10, "pe": float(place * 13 % 17)}
        assert client.post(f"{STREAM}/events", json=event).status_code == 200


def test_a_dry_run_hears_what_a_live_one_would_have_heard(client: TestClient) -> None:
    make_stocks(client)
    fill(client, 20)
    told = client.post(f"{STREAM}/dryrun", json=WISH).json()
    assert (told["from"], told["to"]) == (0, 22)
    client.delete(STREAM)  # the same again, with the subscription there from the first
    client.put(STREAM, json={"engine": "RangeTopK", "settings": {"over": "risk", "by": "pe", "k": 2}})
    heard: list[dict[str, object]] = []
    client.put(f"{STREAM}/subscriptions/live", json=WISH)
    rows = [
        {"id": "ACME", "risk": 3, "pe": 12.0},
        {"id": "BOLT", "risk": 5, "pe": 9.5},
        {"id": "CORE", "risk": 8, "pe": 7.0},
    ]
    events: list[object] = [{"rows": rows}]
    events += [
        {"id": f"s{place % 9}", "risk": place * 7 % 10, "pe": float(place * 13 % 17)} for place in range(20)
    ]
    for event in events:
        answer = client.post(f"{STREAM}/events?return=deltas", json=event).json()
        heard += answer["rows"]
    mine = [{key: row[key] for key in ("op", "item", "score", "rank")} for row in heard]
    assert [{key: row[key] for key in ("op", "item", "score", "rank")} for row in told["rows"]] == mine
    assert {row["subscription"] for row in told["rows"]} == {None}
    results = client.get(f"{STREAM}/subscriptions/live/results").json()["rows"]
    assert [(row["item"], row["score"]) for row in told["results"]] == [
        (row["item"], row["score"]) for row in results
    ]


def test_a_dry_run_begins_with_a_snapshot_where_the_log_does(opened: Opened) -> None:
    client = opened(log_bytes=1 << 20)
    make_stocks(client)
    large = {"rows": [{"id": f"n{x}", "risk": x % 10, "pe": 50.0 + x} for x in range(3000)]}
    for place in range(30):
        fill(client, 40)
        assert client.post(f"{STREAM}/events", json=large).status_code == 200, place
    told = client.post(f"{STREAM}/dryrun", json=WISH).json()
    now = client.get(STREAM).json()["sequence"]
    assert 0 < told["from"] <= told["to"] == now
    made = client.put(f"{STREAM}/subscriptions/new", json=WISH).json()["results"]
    assert [(row["item"], row["score"]) for row in told["results"]] == [
        (row["item"], row["score"]) for row in made
    ]
    state: dict[str, float] = {}
    for row in told["rows"]:
        if row["op"] == "leave":
            del state[row["item"]]
        else:
            state[row["item"]] = row["score"]
    assert state == {row["item"]: row["score"] for row in told["results"]}


def test_a_dry_run_changes_nothing_and_is_refused_as_any_other(client: TestClient) -> None:
    make_stocks(client)
    before = client.get(STREAM).json()
    assert client.post(f"{STREAM}/dryrun", json={"colour": 1}).status_code == 400
    assert client.post(f"{STREAM}/dryrun", json={"risk_lo": 2, "risk_hi": 1}).status_code == 400
    assert client.post(f"{STREAM}/dryrun", json={"id": "x"}).status_code == 422
    assert client.post(f"{STREAM}/dryrun", json={"k": 10**6}).status_code == 400
    assert client.post(f"{STREAM}/dryrun", json={}).json()["to"] == 2
    after = client.get(STREAM).json()
    assert before.pop("load")["written"] == after.pop("load")["written"] == 2
    assert after == before


@pytest.mark.parametrize(
    ("engine", "settings", "calls", "wish"),
    [
        (
            "RankedMatcher",
            {"over": ["a"]},
            [("events", {"id": 1, "a": 3}), ("events", {"id": 2, "a": 30})],
            {"a_lo": 0, "a_hi": 9, "score": 2.0},
        ),
        (
            "GeoTextTopK",
            {"bounds": [0, 0, 1, 1]},
            [("events", {"id": 1, "x": 0.5, "y": 0.5, "terms": ["rain"]})],
            {"x": 0.5, "y": 0.5, "terms": ["rain"]},
        ),
        (
            "MovingTopK",
            {"over": ["p"]},
            [
                ("subscriptions", {"id": "me", "x": 0.0, "y": 0.0}),
                ("objects", {"id": 1, "x": 0.5, "y": 0.5, "p": 1.0}),
                ("events", {"id": "me", "x": 1.0, "y": 0.0}),
            ],
            {"x": 0.5, "y": 0.5},
        ),
    ],
)
def test_every_engine_runs_dry(
    client: TestClient, engine: str, settings: object, calls: list[tuple[str, object]], wish: object
) -> None:
    client.put("/v1/streams/s", json={"engine": engine, "settings": settings})
    for call, row in calls:
        assert client.post(f"/v1/streams/s/{call}", json=row).status_code < 300
    told = client.post("/v1/streams/s/dryrun", json=wish)
    assert told.status_code == 200, told.text
    assert len(told.json()["rows"]) == 1


# Copies


def test_a_copy_is_taken_while_the_service_writes(opened: Opened, tmp_path: Path) -> None:
    client = opened()
    make_stocks(client)
    ended = threading.Event()
    acknowledged = [0]

    def write() -> None:
        while not ended.is_set():
            fill(client, 5)
            acknowledged[0] = client.get(STREAM).json()["sequence"]

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for place in range(3):
            least = acknowledged[0]
            assert backup(tmp_path / "data", tmp_path / f"copy{place}.tar") == 1
            assert restore(tmp_path / f"copy{place}.tar", tmp_path / f"restored{place}") == 1
            service = Service(read(None, {"data": tmp_path / f"restored{place}"}))
            assert service.streams.find("stocks").sequence >= least
            service.close()
    finally:
        ended.set()
        writing.join()


def test_the_commands_copy_and_restore(
    opened: Opened, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = opened()
    make_stocks(client)
    client.put(f"{STREAM}/subscriptions/eve", json={"risk_lo": 1})
    listed = client.get(f"{STREAM}/subscriptions/ada/results").json()
    data, file = str(tmp_path / "data"), str(tmp_path / "c.tar")
    assert cli.main(["backup", data, file]) == 0
    assert cli.main(["backup", data, file]) == 2
    assert cli.main(["backup", str(tmp_path / "none"), str(tmp_path / "d.tar")]) == 2
    assert cli.main(["restore", file, data]) == 2
    assert cli.main(["restore", file, str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.count("1 streams") == 2
    client = opened(data=tmp_path / "new")
    assert client.get(f"{STREAM}/subscriptions/ada/results").json() == listed
    assert client.get(f"{STREAM}/subscriptions/eve").json() == {"id": "eve", "risk_lo": 1}
    assert client.post(f"{STREAM}/events", json={"id": "X", "risk": 1, "pe": 1}).json()["sequence"] == 4


def test_a_copy_that_is_none_is_refused(opened: Opened, tmp_path: Path) -> None:
    make_stocks(opened())
    good = tmp_path / "good.tar"
    backup(tmp_path / "data", good)
    data = good.read_bytes()
    (tmp_path / "cut.tar").write_bytes(data[: len(data) // 2])
    spot = data.index(b'"engine": "RangeTopK"')
    (tmp_path / "bent.tar").write_bytes(data[:spot] + b'"engine": "RangeTopX"' + data[spot + 21 :])
    (tmp_path / "no.tar").write_bytes(b"nothing")
    with tarfile.open(tmp_path / "evil.tar", "w") as packed:
        (tmp_path / "m").write_text(json.dumps({"format": 1, "files": {"../evil": [1, "x"]}}))
        packed.add(tmp_path / "m", "rankcast-backup.json")
        packed.add(tmp_path / "m", "../evil")
    for place, name in enumerate(("cut", "bent", "no", "evil")):
        with pytest.raises(InputError):
            restore(tmp_path / f"{name}.tar", tmp_path / f"to{place}")
    assert not (tmp_path / "evil").exists()
