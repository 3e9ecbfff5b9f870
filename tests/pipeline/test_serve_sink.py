"""The sink `serve`: micro-batches into an external stream of the service, each once."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankcast import Client, RangeTopK
from rankcast.pipeline import read
from rankcast.pipeline.config import Sink
from rankcast.pipeline.sinks import Collecting, Served, collecting, parts
from rankcast.pipeline.toml_reader import PipelineError
from tests.pipeline.test_results import FORM, formed, refused
from tests.service.conftest import Running

TOML = """
checkpoint = "checkpoint"
[engine]
name = "RangeTopK"
over = "risk"
[events]
format = "json"
path = "events"
schema = "id string, risk double, y double"
[subscriptions]
format = "json"
path = "subscriptions"
schema = "id string"
[sink]
format = "serve"
url = "{url}"
stream = "lists"
token = "${{RANKCAST_TOKEN}}"
retry_for = "20 seconds"
path = "refused"
"""


class Frame:
    """A micro-batch as Spark hands it to `foreachBatch`."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self.table


class Servers:
    """A service that can be ended and started again on the same data, at another port."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.server = Running(data)

    def restart(self) -> None:
        self.server.stop()
        self.server = Running(self.data)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"


@pytest.fixture
def servers() -> Iterator[Servers]:
    with tempfile.TemporaryDirectory() as folder:
        found = Servers(Path(folder) / "data")
        with Client(found.url) as client:
            client.put_stream("lists", "external")
        yield found
        found.server.stop()


def collector(servers: Servers, query: str = "q", **more: Any) -> Collecting:
    sink = Sink("serve", more.pop("path", None), {}, url=servers.url, stream="lists", retry_for=20.0, **more)
    found = Collecting(Served(sink), None)
    found.query = lambda: query
    return found


def story() -> tuple[RangeTopK, list[pa.Table]]:
    """An engine, and what Spark would hand out of its micro-batches."""
    engine = RangeTopK(k=2)
    ids = [f"s{each}" for each in range(5)]
    engine.subscribe({"id": ids, "x_lo": [0, 1, 2, 3, None], "x_hi": [4, 5, 6, None, None]})
    batches = [{"id": [1, 2, 3], "x": [1, 3, 5], "y": [4.0, 2.0, 3.0]}]
    batches += [{"id": [4, 1], "x": [2, 6], "y": [1.0, 0.5]}, {"id": [2], "x": [3], "y": [None]}]
    return engine, [formed(engine.publish(batch)) for batch in batches]


def current(servers: Servers) -> list[dict[str, Any]]:
    with Client(servers.url) as client:
        return [row for each in range(5) for row in client.results("lists", f"s{each}").rows]


def test_every_batch_once_whatever_is_repeated(servers: Servers) -> None:
    engine, batches = story()
    for number, told in enumerate(batches):
        take = collector(servers)  # as after a crash of the driver
        take(Frame(told), number)
        take(Frame(told), number)
        servers.restart()
        collector(servers)(Frame(told), number)
    order = lambda row: (row["subscription"], row["rank"])  # noqa: E731
    assert sorted(current(servers), key=order) == sorted(engine.results().to_pylist(), key=order)
    with Client(servers.url) as client:
        assert client.get_stream("lists").sequence == len(batches)
        message = next(client.listen("lists", after=0))
        assert (message.event, message.sequence) == ("delta", 1)
        assert len(message.rows) == batches[0].num_rows


def test_parts_are_whole_lists_and_go_on_where_they_stopped(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankcast.pipeline.sinks.parts", lambda deltas: parts(deltas, 4))
    engine, batches = story()
    take = collector(servers)
    push = Client.push
    pushed: list[Any] = []

    def breaks(self: Client, stream: str, batch: int, rows: Any, **more: Any) -> Any:
        if len(pushed) == 1:
            pushed.append("broken")
            raise KeyboardInterrupt
        pushed.append((batch, more["part"]))
        return push(self, stream, batch, rows, **more)

    monkeypatch.setattr(Client, "push", breaks)
    with pytest.raises(KeyboardInterrupt):
        take(Frame(batches[0]), 0)
    for number, told in enumerate(batches):
        take(Frame(told), number)
    assert pushed[:4] == [(0, 0), "broken", (0, 0), (0, 1)]
    assert {row["item"] for row in current(servers)} == {row["item"] for row in engine.results().to_pylist()}


@pytest.mark.parametrize("size", [1, 3, 4, 7, 100])
def test_parts(size: int) -> None:
    owners = [0, 0, 0, 3, 1, 1, 2, 0, 5, 5, 5, 5, 5, 4]
    table = pa.table({"subscription": owners, "item": range(len(owners))})
    found = list(parts(table, size))
    rows = [row for part in found for row in part.to_pylist()]
    assert sorted(rows, key=lambda row: row["item"]) == table.to_pylist()
    sets = [set(part["subscription"].to_pylist()) for part in found]
    assert sum(map(len, sets)) == len(set(owners))
    assert all(part.num_rows <= size or len(own) == 1 for part, own in zip(found, sets, strict=True))
    assert list(parts(table.slice(0, 0), size)) == []


def test_refused_rows_are_kept_apart(
    servers: Servers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = pa.concat_tables([story()[1][0], refused(2).cast(FORM)])
    take = collector(servers, path=str(tmp_path / "aside"))
    take(Frame(told), 7)
    assert pq.read_table(tmp_path / "aside" / "000000007.parquet").num_rows == 2
    with caplog.at_level(logging.WARNING):
        collector(servers)(Frame(refused(3)), 8)
    assert "micro-batch 8: 3 rows were refused" in caplog.text
    with Client(servers.url) as client:
        assert client.get_stream("lists").sequence == 1


def test_what_is_refused_is_one_line(servers: Servers) -> None:
    told = Frame(story()[1][0])
    collector(servers)(told, 0)
    with pytest.raises(
        PipelineError, match=r"does not take micro-batch 0 into lists: Conflict .409.. Batches"
    ):
        collector(servers, "another")(told, 0)
    with pytest.raises(PipelineError, match=r"Bad Request .400.. column .item. is in the list") as caught:
        collector(servers, token="hush-hush")(told, 1)  # noqa: S106
    assert "\n" not in str(caught.value)


def test_a_file_says_it_all(servers: Servers, tmp_path: Path) -> None:
    for name in ("events", "subscriptions"):
        (tmp_path / name).mkdir()
    file = tmp_path / "pipeline.toml"
    file.write_text(TOML.format(url=servers.url))
    config = read(file, {"RANKCAST_TOKEN": "rk_secret"})
    sink = config.sink
    assert (sink.url, sink.stream, sink.token, sink.retry_for) == (servers.url, "lists", "rk_secret", 20.0)
    assert sink.path == str(tmp_path / "refused")
    assert "rk_secret" not in repr(config)
    assert "rk_secret" in config.hidden
    take = collecting(config, None)
    assert take is not None
    take.query = lambda: "q"
    take(Frame(story()[1][0]), 0)
    with Client(servers.url) as client:
        assert client.get_stream("lists").subscriptions == 5
