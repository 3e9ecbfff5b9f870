"""What `--check` looks at before Spark starts: files of sources, the state; and what it leaves alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankcast
import rankcast.pipeline
from rankcast import cli
from rankcast.errors import ShardError
from rankcast.pipeline import checking, read, resuming, sources
from rankcast.pipeline.running import told as spark_told
from rankcast.pipeline.sources import FILES_SAMPLES, files_at
from rankcast.pipeline.toml_reader import ConfigError, PipelineError
from rankcast.spark import plan
from rankcast.spark.plan import Plan
from rankcast.state.depot import Depot

PIPELINE = """\
checkpoint = "checkpoint"
[engine]
name = "RangeTopK"
over = "risk"
by = "pe"
[events]
format = "json"
path = "quotes"
schema = "ticker string, risk double, pe double"
columns = { id = "ticker" }
[subscriptions]
format = "csv"
path = "people.csv"
schema = "id string, risk_lo double, risk_hi double"
options = { header = true }
[sink]
format = "console"
"""
ROW = {"ticker": "A", "risk": 1.0, "pe": 2.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "quotes").mkdir()
    rows(tmp_path, ROW)
    (tmp_path / "people.csv").write_text("id,risk_lo,risk_hi\nann,1,2\n")
    write(tmp_path, PIPELINE)
    return tmp_path


def write(folder: Path, text: str) -> Path:
    (folder / "pipeline.toml").write_text(text)
    return folder / "pipeline.toml"


def rows(folder: Path, *given: Any) -> None:
    (folder / "quotes" / "0.json").write_text("".join(json.dumps(row) + "\n" for row in given))


def told(folder: Path, text: str | None = None) -> str:
    if text is not None:
        write(folder, text)
    with pytest.raises(ConfigError) as caught:
        read(folder / "pipeline.toml", {})
    return " ".join(str(caught.value).replace(str(folder), "").splitlines())


def test_public_names_are_where_they_are_looked_for() -> None:
    assert [getattr(rankcast.pipeline, name).__name__ for name in rankcast.pipeline.__all__] == [
        "Config", "Running", "read", "replay", "start",
    ]  # fmt: skip


def test_what_fits_is_in_order(folder: Path) -> None:
    assert read(folder / "pipeline.toml", {}).unchecked == ()
    rows(folder, {"ticker": "A"}, ROW)  # an update may leave columns out
    read(folder / "pipeline.toml", {})
    rows(folder)
    read(folder / "pipeline.toml", {})


def test_a_column_that_no_row_has_is_told(folder: Path) -> None:
    rows(folder, {"ticker": "A", "risk": 1.0, "pee": 2.0})
    assert (
        '/pipeline.toml:9: [events] schema names the column "pe", which no row of events has '
        'Detail: The source has: pee, risk, ticker. Hint: Did you mean "pee"?'
    ) in told(folder)
    rows(folder, {"risk": 1.0, "pe": 2.0})
    assert 'names the column "ticker", which no row of events has' in told(folder)
    rows(folder, {**ROW, "note": "x"})
    found = told(folder)
    assert 'schema does not declare the key "note", which all rows have' in found
    assert 'With extra = "ignore"' in found
    read(write(folder, PIPELINE.replace("over =", 'extra = "ignore"\nover =')), {})
    (folder / "quotes" / "0.json").write_text('{"ticker":\n"A"}')
    assert "0.json, which has no JSON object in a line of its own" in told(folder)
    assert "multiLine = true" in told(folder)


LIVING = """\
checkpoint = "checkpoint"
[engine]
name = "GeoTextTopK"
bounds = [0, 0, 10, 10]
window = "1 hour"
duplicates = "edit"
analyzer = { stop_words = ["the"] }
vocabulary = { path = "documents.parquet" }
[events]
format = "json"
path = "news"
schema = "op string, id long, x double, y double, body string, time timestamp, until timestamp"
columns = { text = "body" }
[subscriptions]
format = "json"
path = "people"
schema = "id string, x double, y double, text string, must array<string>, radius double, since timestamp"
[sink]
format = "console"
"""


def test_rows_that_take_messages_back_need_no_more_than_their_word(tmp_path: Path) -> None:
    """An engine reads the `op` of events itself, and knows what a row with it may leave out."""
    (tmp_path / "news").mkdir()
    (tmp_path / "people").mkdir()
    pq.write_table(pa.table({"text": ["The pizza", "wine"]}), tmp_path / "documents.parquet")
    row = {"op": "publish", "id": 1, "x": 1.0, "y": 1.0, "body": "a", "time": "2024-01-01T00:00:00"}
    lines = [row, {"op": "retract", "id": 1}, {"op": "advance", "time": "2024-01-01T00:30:00"}]
    (tmp_path / "news" / "0.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = read(write(tmp_path, LIVING), {})
    assert config.unchecked == ()
    engine, source = config.engine, config.sources["events"]
    events = next(each for each in engine.inputs if each.name == "events")
    given = source.given()
    assert given is not None
    assert checking.needed(engine, events, source, given) == {}
    assert set(config.fits["events"] or ()) == {"op", "id", "x", "y", "text", "time", "until"}
    vocabulary = engine.settings["vocabulary"]
    assert (vocabulary.documents, vocabulary.size) == (2, 2)
    plain = LIVING.replace("op string, ", "")
    (tmp_path / "news" / "0.json").write_text(json.dumps({**row, "op": None}))
    assert 'does not declare the key "op"' in told(tmp_path, plain)
    del row["op"]
    (tmp_path / "news" / "0.json").write_text(json.dumps(row))
    config = read(write(tmp_path, plain), {})
    source = config.sources["events"]
    given = source.given()
    assert given is not None
    assert list(checking.needed(config.engine, events, source, given)) == ["id", "x", "y", "text", "time"]
    text = LIVING.replace('columns = { text = "body" }', 'text = { column = "body" }')
    assert 'takes a column "text"' in told(tmp_path, text)
    pq.write_table(pa.table({"terms": [["pizza"]]}), tmp_path / "documents.parquet")
    assert "path has no documents" in told(tmp_path, LIVING)


def test_a_header_with_other_names_is_told(folder: Path) -> None:
    for header, message in {
        "id,risk_low,risk_hi": 'names the column "risk_lo".* Did you mean "risk_low"',
        "id,risk_hi,risk_lo": "has other columns, or another order, than /people.csv: id, risk_hi, risk_lo",
        "id,risk_lo": 'names the column "risk_hi", which no row of subscriptions has',
    }.items():
        (folder / "people.csv").write_text(f"{header}\nann,1,2\n")
        found = told(folder)
        assert all(part in found for part in message.split(".*")), found
    (folder / "people.csv").write_text("id,low,high\nann,1,2\n")
    read(write(folder, PIPELINE.replace("header = true", "header = true, enforceSchema = true")), {})
    read(write(folder, PIPELINE.replace("header = true", "")), {})
    (folder / "people.csv").write_text("ann;1;2\nbob;2;3\n")
    found = told(folder, PIPELINE.replace("header = true", ""))
    assert "[subscriptions] schema has 3 columns, but lines of /people.csv have 1 values" in found
    config = read(write(folder, PIPELINE.replace("header = true", 'sep = ";"')), {})
    assert config.unchecked == ()


def test_a_parquet_file_with_other_types_or_names_is_told(folder: Path) -> None:
    text = PIPELINE.replace('"json"', '"parquet"')
    (folder / "quotes" / "0.json").unlink()
    good = pa.Table.from_pylist([ROW])
    pq.write_table(good, folder / "quotes" / "0.parquet")
    read(write(folder, text), {})
    for kind in (pa.string(), pa.int64()):
        place = good.column_names.index("pe")
        pq.write_table(good.set_column(place, "pe", good["pe"].cast(kind)), folder / "quotes" / "1.parquet")
        for form in (text, text.replace('schema = "ticker', '# "')):
            found = told(folder, form)
            assert (
                f'/quotes/1.parquet, in which the column "pe" has the type {kind}, expected double' in found
            )
    pq.write_table(good.set_column(2, "pe", good["pe"].cast(pa.float32())), folder / "quotes" / "1.parquet")
    read(write(folder, text), {})
    (folder / "quotes" / "1.parquet").write_bytes(b"nothing")
    assert "1.parquet, which is no Parquet" in told(folder)
    (folder / "quotes" / "1.parquet").unlink()
    pq.write_table(good.rename_columns(["ticker", "risk", "pee"]), folder / "quotes" / "0.parquet")
    assert 'names the column "pe", which no row of events has' in told(folder)


def test_a_large_folder_is_looked_at_in_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files and bytes there are, few are opened, and the check says so."""
    (folder / "quotes" / "b").mkdir()
    for place in range(300):
        (folder / "quotes" / "b" / f"{place:05d}.json").symlink_to(folder / "quotes" / "0.json")
    monkeypatch.setattr(sources, "ENTRIES", 100)
    opened: list[Path] = []
    former = Path.open

    def note(path: Path, *words: Any, **given: Any) -> Any:
        opened.append(path)
        return former(path, *words, **given)

    monkeypatch.setattr(Path, "open", note)
    config = read(folder / "pipeline.toml", {})
    assert len([path for path in opened if path.suffix == ".json"]) == FILES_SAMPLES
    assert config.unchecked == (f"files of events behind the first {FILES_SAMPLES}",)
    listed = iter(range(100))
    monkeypatch.setattr(Path, "open", former)
    (folder / "many").mkdir()
    for place in range(300):
        (folder / "many" / f"_{place}").touch()
    scanned = sources._files(folder / "many")
    assert all(found is None for found, _ in zip(scanned, listed, strict=False))
    sample = files_at(str(folder / "quotes"))
    assert sample is not None
    assert (len(sample.files), sample.more) == (FILES_SAMPLES, True)
    (folder / "quotes" / "0.json").write_text((json.dumps(ROW) + "\n") * 100_000)
    assert len(sources.lines_of(folder / "quotes" / "0.json")) == sources.ROWS


MOVING = """\
checkpoint = "checkpoint"
[engine]
name = "MovingTopK"
over = ["price"]
score = "scores_of_mine:{name}"
[events]
format = "parquet"
path = "places.parquet"
[subscriptions]
format = "parquet"
path = "places.parquet"
[objects]
format = "parquet"
path = "objects.parquet"
[sink]
format = "console"
"""


def test_a_check_runs_no_code_but_with_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "scores_of_mine.py"
    module.write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef mine(values, distance):\n    return distance\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "scores_of_mine", raising=False)
    places = pa.table({"id": [1], "x": [1.0], "y": [1.0]})
    pq.write_table(places, tmp_path / "places.parquet")
    pq.write_table(places.append_column("price", pa.array([1.0])), tmp_path / "objects.parquet")
    path = write(tmp_path, MOVING.format(name="mine"))
    assert cli.main(["run", str(path), "--check"]) == 0
    assert (
        "score 'scores_of_mine:mine' was not imported (--trust does, and runs it)" in capsys.readouterr().out
    )
    config = read(path, {})
    assert config.engine.settings.get("score") is None
    assert not (tmp_path / "ran").exists()
    assert cli.main(["run", str(path), "--check", "--trust"]) == 0
    assert "not checked" not in capsys.readouterr().out
    assert (tmp_path / "ran").exists()
    assert config.engine.engine()._score.f is sys.modules["scores_of_mine"].mine  # type: ignore[attr-defined]
    path = write(tmp_path, MOVING.format(name="other"))
    assert cli.main(["run", str(path), "--check"]) == 0
    assert cli.main(["run", str(path), "--check", "--trust"]) == 2
    path = write(tmp_path, MOVING.replace("scores_of_mine:{name}", "nothing"))
    assert cli.main(["run", str(path), "--check"]) == 2


def state(folder: Path, **given: Any) -> None:
    """A state such as a stream of the pipeline leaves, or one of another."""
    header = rankcast.RangeTopK(over="risk", by="pe", nulls="refuse").state()[0]
    made = Plan(
        "RangeTopK",
        header["settings"],
        None,
        {"subscriptions": "string", "events": "string"},
        (0, 1),
        None,
        {},
        None,
        False,
    )
    (folder / "checkpoint" / "rankcast").mkdir(parents=True, exist_ok=True)
    plan.write(Depot.open(folder / "checkpoint" / "rankcast"), Plan(**{**vars(made), **given}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "GeoTextTopK"}, "its engine differ"),
        (
            {
                "settings": rankcast.RangeTopK(over="risk", by="pe", k=3, nulls="refuse").state()[0][
                    "settings"
                ]
            },
            "its settings differ",
        ),
        ({"ids": {"subscriptions": "string", "events": "long"}}, "its types of ids differ"),
        ({"shards": (0, 1, 2)}, "has 3 shards, not 2"),
    ],
)
def test_a_state_that_does_not_fit_is_told(
    given: dict[str, Any], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(folder, f"shards = 2\n{PIPELINE}")
    state(folder)
    assert cli.main(["run", str(path), "--check"]) == 0
    state(folder, **given)
    assert cli.main(["run", str(path), "--check"]) == 2
    assert message in capsys.readouterr().err
    (folder / "checkpoint" / "rankcast" / "plan.json").write_text("{}")
    assert cli.main(["run", str(path), "--check"]) == 2
    (folder / "checkpoint" / "rankcast" / "plan.json").unlink()
    assert cli.main(["run", str(path), "--check"]) == 0
    (folder / "checkpoint" / "commits").mkdir()
    (folder / "checkpoint" / "commits" / "0").write_text("")
    with pytest.raises(ShardError, match="belongs to a state that is not at"):
        resuming.check(read(path, {}))


SECRET = "hush-hush"  # noqa: S105


def test_secrets_are_in_no_word_that_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither when all is in order, nor in errors about the place, nor in those of Spark."""
    monkeypatch.setenv("SECRET", SECRET)
    text = PIPELINE + '[spark]\npassword = "${SECRET}"\n'
    path = write(folder, text)
    assert cli.main(["run", str(path), "--check"]) == 0
    config = read(path)
    assert config.settings == {"spark.password": SECRET}
    said = repr(config)
    for wrong in (
        text.replace("[events]", '[trigger]\ninterval = "${SECRET}"\n[events]'),
        text.replace('"console"', '"results"\npath = "x"\nrows = "${SECRET}"'),
        text.replace('format = "json"', 'format = "json"\nvalues = "${SECRET}"'),
        text.replace("header = true", 'header = ["${SECRET}"]'),
        text.replace('"${SECRET}"', '"${SECRET}"\nmaster = ["${SECRET}"]'),
    ):
        assert cli.main(["run", str(write(folder, wrong)), "--check"]) == 2
    with pytest.raises(PipelineError) as caught, spark_told(config.hidden):
        raise type("Strange", (Exception,), {"__module__": "pyspark.errors"})(f"cannot use {SECRET} here")
    captured = capsys.readouterr()
    said += captured.out + captured.err + str(caught.value)
    assert SECRET not in said
    assert "${SECRET}" in said


ROADS = """\
checkpoint = "checkpoint"
[engine]
name = "MovingTopK"
over = []
metric = "network"
graph = { edges = "edges.parquet", nodes = "nodes.parquet", metric = "haversine" }
[events]
format = "json"
path = "cars"
schema = "id string, x double, y double"
[objects]
format = "json"
path = "shops"
schema = "id string, x double, y double"
[subscriptions]
format = "json"
path = "people"
schema = "id string, x double, y double"
[sink]
format = "console"
"""


def test_roads_come_from_files(tmp_path: Path) -> None:
    for name in ("cars", "shops", "people"):
        (tmp_path / name).mkdir()
    pq.write_table(pa.table({"id": [1, 2], "x": [0.0, 1.0], "y": [50.0, 50.0]}), tmp_path / "nodes.parquet")
    edges = pa.table({"start": [1], "end": [2], "length": [70.0]})
    pq.write_table(edges, tmp_path / "edges.parquet")
    graph = read(write(tmp_path, ROADS), {}).engine.settings["graph"]
    assert (len(graph), graph.nodes) == (1, 2)
    pq.write_table(edges.set_column(1, "end", pa.array([3])), tmp_path / "edges.parquet")
    assert "is 3, which is not known" in told(tmp_path, ROADS)
    assert "cannot be read" in told(tmp_path, ROADS.replace("nodes.parquet", "none.parquet"))
    assert "a Parquet file of nodes" in told(tmp_path, ROADS.replace('nodes = "nodes.parquet", ', ""))


HOURS = """\
checkpoint = "checkpoint"
[engine]
name = "MovingTopK"
over = []
[events]
format = "json"
path = "people"
schema = "id string, x double, y double"
[subscriptions]
format = "json"
path = "people"
schema = "id string, x double, y double"
[objects]
format = "json"
path = "shops"
stream = true
schema = "op string, id string, x double, y double, opens timestamp, closes timestamp, time timestamp"
[sink]
format = "console"
"""


def test_objects_that_open_and_close(tmp_path: Path) -> None:
    for name in ("people", "shops"):
        (tmp_path / name).mkdir()
    shop = {"op": "upsert", "id": "a", "x": 1.0, "y": 1.0, "opens": "2024-01-01T08:00:00"}
    lines = [shop, {"op": "advance", "time": "2024-01-01T08:00:00"}, {"op": "remove", "id": "a"}]
    (tmp_path / "shops" / "0.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = read(write(tmp_path, HOURS), {})
    assert config.unchecked == ()
    assert set(config.fits["objects"] or ()) == {"op", "id", "x", "y", "opens", "closes", "time"}
    engine, source = config.engine, config.sources["objects"]
    objects = next(each for each in engine.inputs if each.name == "objects")
    given = source.given()
    assert given is not None
    assert checking.needed(engine, objects, source, given) == {"op": "op"}  # "advance" has no id
    assert "time" in told(tmp_path, HOURS.replace("time timestamp", "time boolean"))
