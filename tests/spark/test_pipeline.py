"""Pipelines on Spark, from files to files: each is what one process makes of the same micro-batches."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from rankcast import GeoTextTopK, cli
from rankcast.errors import ShardError
from rankcast.pipeline import read, replay, start
from rankcast.pipeline.toml_reader import PipelineError
from tests.service.conftest import Running as Service
from tests.spark import hosts, stories
from tests.spark.piped import ENGINES, PATIENCE, Command, Piped
from tests.spark.stories import told_of

SHORT = ("matching", "range_topk")


def as_told(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((told_of(row) for row in frame.toArrow().to_pylist()), key=str)


@pytest.mark.parametrize(
    "name",
    [name if name in SHORT else pytest.param(name, marks=pytest.mark.spark) for name in ENGINES],
)
def test_files_to_files(name: str, spark: Any, tmp_path: Path) -> None:
    """Deltas are those of one process; a replay of the files gives the results at their end."""
    given = {"table": True} if name in ("geotext", "moving_skyline") else {}
    given |= {"worded": True} if name == "range_topk" else {}
    story = getattr(stories, name)(41, count=2, size=20, **given)
    pipeline = Piped(spark, name, story, tmp_path)
    pipeline.offer(story.batches)
    done = pipeline.run().progress
    pipeline.check()
    assert 0 < sum(done.totals[name] for name in ("hits", "misses", "redos")) == 2 * done.batches
    assert as_told(replay(pipeline.config(), spark)) == _at_the_end(name, story)


def _at_the_end(name: str, story: stories.Story) -> list[tuple[Any, ...]]:
    whole = story.recut([])
    matches, engine = whole.expected()
    if name == "matching":
        return matches
    top = max(row["seq"] for rows in whole.batches[0].values() for row in rows)
    rows = engine.results().to_pylist()  # type: ignore[attr-defined]
    return sorted(
        ((r["subscription"], "enter", r["item"], r["score"], r["rank"], top) for r in rows), key=str
    )


def test_results_are_current_and_once_twice_does_nothing(spark: Any, tmp_path: Path) -> None:
    story = stories.range_topk(42, count=3, size=20, worded=True)
    pipeline = Piped(spark, "range_topk", story, tmp_path, "results")
    heard: list[int] = []
    for count in (2, 3):
        pipeline.offer(story.batches[pipeline.offered : count])
        pipeline.run(tell=lambda number, _: heard.append(number))
        engine = stories.Story(story.make, story.columns, story.batches[:count]).expected()[1]
        expected = engine.results().to_pylist()  # type: ignore[attr-defined]
        assert pipeline.results() == sorted(expected, key=lambda row: (row["subscription"], row["rank"]))
    written = (tmp_path / "results.parquet").stat().st_mtime_ns
    assert pipeline.run().progress.batches == 0
    assert (tmp_path / "results.parquet").stat().st_mtime_ns == written
    assert heard == [0, 1, 2]
    assert hosts.committed(tmp_path) == 3
    _refuses_others(pipeline)


def test_the_service_is_told_of_every_batch_once(spark: Any, tmp_path: Path) -> None:
    """Also when Spark has forgotten the last micro-batch and repeats it, and the service was restarted."""
    story = stories.range_topk(43, count=3, size=20, worded=True)
    pipeline = Piped(spark, "range_topk", story, tmp_path, "results")
    plain, data = pipeline.file.read_text(), tmp_path / "service"
    server = Service(data)
    server.http.put("/v1/streams/lists", json={"engine": "external"}).raise_for_status()
    for count in (2, 3, 3):
        serve = f'format = "serve"\nurl = "{server.http.base_url}"\nstream = "lists"'
        pipeline.file.write_text(plain.replace('format = "results"\npath = "results.parquet"', serve))
        pipeline.offer(story.batches[pipeline.offered : count])
        assert pipeline.run().progress.batches > 0
        for name in (f"{count - 1}", f".{count - 1}.crc"):
            (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
        server.stop()
        server = Service(data)
    listener = server.listen("/v1/streams/lists/deltas")
    event, sequence, told = listener.next()
    listener.close()
    server.stop()
    assert (event, sequence) == ("snapshot", 3)
    expected = story.expected()[1].results().to_pylist()  # type: ignore[attr-defined]
    order = lambda row: (row["subscription"], row["rank"])  # noqa: E731
    assert sorted(told["rows"], key=order) == sorted(expected, key=order)


def _refuses_others(pipeline: Piped) -> None:
    """Results of one checkpoint are not taken for those of another, nor run two at a time."""
    other = pipeline.file.read_text().replace('"checkpoint"', '"elsewhere"', 1)
    (pipeline.folder / "other.toml").write_text(other)
    with pytest.raises(PipelineError, match=r"results\.parquet has the results of another checkpoint"):
        start(read(pipeline.folder / "other.toml", {}), pipeline.spark, once=True).wait()
    running = pipeline.start()
    try:
        with pytest.raises(ShardError, match="is in use"):
            pipeline.start()
    finally:
        running.stop()


NEWS = """\
checkpoint = "checkpoint"
[engine]
name = "GeoTextTopK"
bounds = [0, 0, 10, 10]
k = 2
[events]
format = "json"
path = "news"
schema = "number long, lon double, lat double, body string"
columns = { id = "number", x = "lon", y = "lat" }
text = { column = "body", stop_words = "english" }
options = { maxFilesPerTrigger = 1 }
[subscriptions]
format = "csv"
path = "people.csv"
schema = "id string, x double, y double, wishes string"
options = { header = true }
text = { column = "wishes", tokenise = "whitespace" }
[sink]
format = "console"
"""
TEXTS = ["The Pizza of the year", "don't drink Wine", "WINE, pizza & wine", "no one here", "wine at the bar"]
WORDS = [["pizza", "year"], ["drink", "wine"], ["wine", "pizza", "wine"], ["one"], ["wine", "bar"]]


def test_texts_become_terms_and_rows_get_an_order(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pipeline.toml").write_text(NEWS)
    (tmp_path / "news").mkdir()
    rows = [{"number": n, "lon": float(n), "lat": 1.0, "body": text} for n, text in enumerate(TEXTS)]
    text = "".join(
        json.dumps(row) + "\n" for row in [*rows, {"number": 9, "lon": 99.0, "lat": 1.0, "body": "a"}]
    )
    (tmp_path / "news" / "0.json").write_text(text)
    (tmp_path / "people.csv").write_text("id,x,y,wishes\nann,0,0,pizza Wine\n")
    assert cli.main(["run", str(tmp_path / "pipeline.toml"), "--once", "--metrics-port", "0"]) == 0
    engine = GeoTextTopK(bounds=(0, 0, 10, 10), k=2)
    engine.subscribe({"id": ["ann"], "x": [0.0], "y": [0.0], "terms": [["pizza", "wine"]]})
    messages = {"id": list(range(5)), "x": [float(n) for n in range(5)], "y": [1.0] * 5, "terms": WORDS}
    engine.publish(messages)
    said = capsys.readouterr().err
    for row in engine.results().to_pylist():
        assert f"ann: +{row['item']} {row['score']:.4g} (rank {row['rank']})" in said
    assert "metrics: http://127.0.0.1:" in said
    assert "micro-batch 0: 6 rows, 2 deltas, 1 refused" in said
    one = tmp_path / "one.json"
    one.write_text('{"id": "bob", "x": 9.0, "y": 9.0, "wishes": "one"}')
    assert cli.main(["replay", str(tmp_path / "pipeline.toml"), "--subscription", str(one)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.replace('"', "").split(",")[:3] for line in lines[1:]] == [["bob", "enter", "3"]]


QUOTES = """\
checkpoint = "checkpoint"
[engine]
name = "RangeTopK"
over = "risk"
by = "pe"
[events]
format = "json"
path = "quotes"
schema = "id string, risk double, pe double, op string"
[subscriptions]
format = "csv"
path = "people.csv"
schema = "id string, risk_lo double"
[sink]
format = "json"
path = "out"
"""


def test_what_is_no_number_deletes_nothing(spark: Any, tmp_path: Path) -> None:
    """A text for a number, a misspelt key and a null are refused; only a word deletes."""
    lines = [{"id": name, "risk": 1, "pe": pe, "op": "upsert"} for pe, name in enumerate("abcde")]
    odd: list[dict[str, Any]] = [{"pe": "n/a"}, {"p/e": 7}, {"pe": None}]
    lines += [{"id": name, "op": "upsert", **each} for name, each in zip("abc", odd, strict=True)]
    lines += [{"id": name, "op": "remove"} for name in "de"]
    (tmp_path / "quotes").mkdir()
    (tmp_path / "quotes" / "0.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "people.csv").write_text("ann,\n")
    (tmp_path / "pipeline.toml").write_text(QUOTES)
    running = start(read(tmp_path / "pipeline.toml", {}), spark, once=True)
    assert running.wait(PATIENCE)
    running.stop()
    rows = [row.asDict() for row in spark.read.json(str(tmp_path / "out")).collect()]
    assert sorted(row["item"] for row in rows if row["op"] == "enter") == ["a", "b", "c"]
    reasons = {row["item"]: row["reason"] for row in rows if row["op"] == "refused"}
    assert 'has the key "p/e", which is not declared' in reasons["b"]
    assert 'column "pe" of "events" is null for object \'c\'' in reasons["c"]


COUPONS = """\
checkpoint = "checkpoint"
[engine]
name = "GeoTextTopK"
bounds = [0, 0, 10, 10]
k = 2
window = "1 hour"
duplicates = "edit"
analyzer = { stop_words = ["the"] }
[events]
format = "json"
path = "coupons"
schema = "op string, id long, x double, y double, body string, time timestamp, until timestamp"
columns = { text = "body" }
[subscriptions]
format = "json"
path = "people"
schema = "id string, x double, y double, text string, must array<string>"
[sink]
format = "results"
path = "results.parquet"
"""


def test_messages_are_edited_taken_back_and_end(spark: Any, tmp_path: Path) -> None:
    """Rows that do so have no more than they need; the engine of one process gives the same."""
    lines = [
        {
            "op": "publish",
            "id": i,
            "x": float(i),
            "y": 0.0,
            "body": f"The wine {i}",
            "time": f"2024-01-01T00:0{i}:00Z",
        }
        for i in range(6)
    ]
    lines[2]["until"] = "2024-01-01T00:07:00Z"
    lines += [{**lines[4], "body": "Tea", "time": "2024-01-01T00:06:00Z"}, {"op": "retract", "id": 0}]
    lines += [{"op": "retract", "id": 77}, {"op": "advance", "time": "2024-01-01T00:07:00Z"}]
    for name, rows in {"coupons": lines, "people": [{"id": "ann", "x": 0, "y": 0, "text": "WINE!"}]}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "pipeline.toml").write_text(COUPONS)
    running = start(read(tmp_path / "pipeline.toml", {}), spark, once=True)
    assert running.wait(PATIENCE)
    running.stop()
    found = pq.read_table(tmp_path / "results.parquet").to_pylist()
    assert [(row["subscription"], row["rank"], row["item"]) for row in found] == [
        ("ann", 1, 1),
        ("ann", 2, 3),
    ]
    refused = [row for path in tmp_path.glob("results*") for row in _refused(path)]
    assert [row["item"] for row in refused] == [77]


def _refused(path: Path) -> list[dict[str, Any]]:
    """Rows that were set aside, in files beside the results."""
    files = [each for each in path.rglob("*.parquet") if each.is_file()] if path.is_dir() else []
    return [row for each in files for row in pq.read_table(each).to_pylist()]


def test_what_spark_refuses_is_one_line(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = stories.range_topk(43, count=1, size=10, worded=True)
    pipeline = Piped(spark, "range_topk", story, tmp_path)
    pipeline.offer(story.batches)
    plain = pipeline.file.read_text()
    pipeline.file.write_text(plain.replace('format = "parquet"\npath = "out"', 'format = "nosuch"'))
    assert cli.main(["run", str(pipeline.file), "--once"]) == 2
    assert "Name its package in [spark]" in _only_line(capsys)
    bad = plain.replace("shards", 'bad_rows = "fail"\nshards').replace('"checkpoint"', '"second"', 1)
    pipeline.file.write_text(bad)
    pipeline.offer(
        [{"events": [{"seq": 999, "id": 77, "x": None, "y": 1.0, "op": "upsert"}], "subscriptions": []}]
    )
    assert cli.main(["run", str(pipeline.file), "--once"]) == 2
    assert "the pipeline has stopped: column" in _only_line(capsys)


def _only_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("micro-batch")]
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(
    ("kills", "number", "code"),
    [
        pytest.param(1, signal.SIGTERM, 0, marks=pytest.mark.spark),
        pytest.param(10, signal.SIGINT, 130, marks=pytest.mark.faults),
    ],
)
def test_a_killed_pipeline_goes_on(
    kills: int, number: int, code: int, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed at random moments, then run elsewhere until a signal ends it: the same results, quietly."""
    story = stories.range_topk(44, count=2 * kills + 2, size=20, worded=True)
    pipeline = Piped(spark, "range_topk", story, tmp_path, "results")
    pipeline.offer(story.batches)
    variables = hosts.environment(tmp_path / "scratch")
    rng = np.random.default_rng(kills)
    for _ in range(kills):
        command = Command(tmp_path, **variables)
        command.wait_for(min(hosts.committed(tmp_path) + 1, kills + 1))
        time.sleep(float(rng.uniform(0, 0.8)))
        command.kill()
    assert _ended_by(number, pipeline) == code
    pipeline.run()
    expected = story.expected()[1].results().to_pylist()  # type: ignore[attr-defined]
    assert pipeline.results() == sorted(expected, key=lambda row: (row["subscription"], row["rank"]))
    assert all(line.startswith("micro-batch") for line in capsys.readouterr().err.splitlines())


def _ended_by(number: int, pipeline: Piped) -> int:
    """Run a pipeline here, and send a signal once it has committed something, or waits; the exit code."""
    before = hosts.committed(pipeline.folder)

    def send() -> None:
        limit = time.monotonic() + PATIENCE
        while hosts.committed(pipeline.folder) == before and time.monotonic() < limit:
            active = pipeline.spark.streams.active
            if active and active[0].lastProgress and not active[0].status["isTriggerActive"]:
                break
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    code = cli.main(["run", str(pipeline.file)])
    sender.join()
    return code


RATE = """\
checkpoint = "checkpoint"
[engine]
name = "RankedMatcher"
over = ["x"]
k = 1
extra = "ignore"
[events]
format = "rate"
options = { rowsPerSecond = 50 }
columns = { id = "value" }
expressions = { x = { sql = "value % 4", type = "double" } }
[subscriptions]
format = "csv"
path = "boxes.csv"
schema = "id long, x_lo double, x_hi double, score double"
[sink]
format = "json"
path = "out"
[trigger]
interval = "500 ms"
"""


@pytest.mark.spark
def test_a_rate_is_a_source(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text("1,0,1,1\n2,1,2,2\n")
    (tmp_path / "pipeline.toml").write_text(RATE)
    running = start(read(tmp_path / "pipeline.toml", {}), spark)
    while running.progress.totals["deltas"] < 20:
        assert not running.wait(0.2)
    running.stop()
    found = {(row.event % 4, row.subscription) for row in spark.read.json(str(tmp_path / "out")).collect()}
    assert found == {(0, 1), (1, 2), (2, 2)}


@pytest.mark.spark
def test_a_socket_is_a_source(spark: Any, tmp_path: Path) -> None:
    """Lines of JSON become rows, in the order in which they come."""
    (tmp_path / "boxes.csv").write_text("1,0,1,1\n2,1,2,2\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        begin, end = RATE.index("format"), RATE.index("[subscriptions]")
        options = f'options = {{ host = "127.0.0.1", port = {port} }}'
        source = f'format = "socket"\n{options}\nschema = "id long, x double"\n'
        (tmp_path / "pipeline.toml").write_text(RATE[:begin] + source + RATE[end:])
        running = start(read(tmp_path / "pipeline.toml", {}), spark)
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"".join(b'{"id": %d, "x": %d}\n' % (n, n % 4) for n in range(8)))
            while running.progress.totals["deltas"] < 6:
                assert not running.wait(0.2)
            running.stop()
    found = {(row.event, row.subscription) for row in spark.read.json(str(tmp_path / "out")).collect()}
    assert found == {(0, 1), (1, 2), (2, 2), (4, 1), (5, 2), (6, 2)}
