"""Every mistake in a pipeline's file is told by name, with its place, before Spark starts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankcast import InputError, cli
from rankcast.pipeline import read
from rankcast.pipeline.toml_reader import ConfigError, lines_of

GOOD = """\
checkpoint = "checkpoint"

[engine]
name = "RangeTopK"
over = "risk"
by = "price"

[events]
format = "parquet"
path = "quotes"
columns = { id = "ticker" }

[subscriptions]
format = "csv"
path = "subscriptions.csv"
schema = "id string, risk_lo double, risk_hi double"

[sink]
format = "results"
path = "results.parquet"
"""
GEO = GOOD.replace(
    'name = "RangeTopK"\nover = "risk"\nby = "price"', 'name = "GeoTextTopK"\nbounds = [0, 0, 1, 1]'
)
MOVING = GOOD.replace(
    'name = "RangeTopK"\nover = "risk"\nby = "price"', 'name = "MovingTopK"\nover = ["price"]'
)
MATCHING = GOOD.replace(
    'name = "RangeTopK"\nover = "risk"\nby = "price"', 'name = "RankedMatcher"\nover = ["risk"]'
).replace("risk_hi double", "risk_hi double, score double")
COMMANDS = 'schema = "id string, risk_lo double, risk_hi double"'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "quotes").mkdir()
    rows = pa.table({"seq": [1], "ticker": ["a"], "risk": [1.0], "price": [2.0]})
    pq.write_table(rows, tmp_path / "quotes" / "0.parquet")
    (tmp_path / "subscriptions.csv").write_text("ann,1,2\n")
    (tmp_path / "notes").mkdir()
    (tmp_path / "empty").mkdir()
    notes = pa.table({"id": [1], "x": [0.5], "y": [0.5], "body": ["some text"], "words": [["some"]]})
    pq.write_table(notes, tmp_path / "notes" / "0.parquet")
    return tmp_path


def written(folder: Path, text: str) -> Path:
    path = folder / "pipeline.toml"
    path.write_text(text)
    return path


def told(folder: Path, text: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        read(written(folder, text), environment or {}, trust=True)
    return str(caught.value).replace(str(folder), "")


MISTAKES: list[tuple[str, str, str, str]] = [  # what is replaced, by what, the line, what is told
    ("checkpoint", "checkpiont", "1", 'checkpiont is no key or table here, expected one of: .*"checkpoint"'),
    ('checkpoint = "checkpoint"', "", "", "checkpoint is missing, expected a folder"),
    ('checkpoint = "checkpoint"', "checkpoint = 3", "1", "checkpoint is 3, expected a string"),
    ("[engine]", "[engin]", "3", 'engin is no key or table here.*Did you mean "engine"'),
    ("[sink]", "[sinks]", "18", 'sinks is no key or table here.*Did you mean "sink"'),
    ('name = "RangeTopK"\n', "", "3", r"\[engine\] name is missing, expected the name of an engine"),
    ('"RangeTopK"', '"RangeTopk"', "4", 'name is "RangeTopk", which is no engine.*Did you mean "RangeTopK"'),
    ('"RangeTopK"', '"CoveringTable"', "4", "CoveringTable, which cannot run continuously.*uncovered"),
    ('by = "price"', 'bye = "price"', "6", r'\[engine\] bye is no key here.*Did you mean "by"'),
    ('by = "price"', 'by = "price"\nk = 0', "7", r"\[engine\] k is 0, expected a whole number from 1"),
    ('by = "price"', 'by = "price"\nk = "3"', "7", r"\[engine\] k is '3', expected a whole number from 1"),
    ('by = "price"', 'order = "up"', "6", r'\[engine\] order unknown value "up", expected one of: asc, desc'),
    (
        'by = "price"',
        'by = "price"\nnulls = "no"',
        "7",
        r'nulls unknown value "no", expected one of: delete, k',
    ),
    ('by = "price"', 'by = "op"', "6", r'\[engine\] by names "op", which is a column of its own'),
    ('id = "ticker"', 'id = "ticker", op = "seq"', "11", r'column "op" of "events" has the type int64'),
    ('by = "price"', "by = 3", "6", r"\[engine\] by is 3, expected a name"),
    ('format = "parquet"\n', "", "8", r"\[events\] format is missing, expected a format of Spark's"),
    ("columns", "column", "11", r'\[events\] column is no key here.*Did you mean "columns"'),
    ("columns", "stream = false\ncolumns", "11", r"\[events\] stream is no key here"),
    ('path = "quotes"\n', "", "8", r"\[events\] path is missing, expected where the parquet files are"),
    ('"quotes"', '"quote"', "10", r"\[events\] path is /quote, which is not there"),
    ('"quotes"', '"empty"', "10", r"\[events\] path cannot be read"),
    (
        '"ticker"',
        '"tickr"',
        "11",
        r'id is "tickr", which is no column.*seq, ticker.*mean "ticker"',
    ),
    ('"ticker" }', '"ticker", price = "cost" }', "11", 'price is "cost", which is no column of the source'),
    ('id = "ticker"', 'id = "price"', "11", 'unknown column "ticker".*extra = "ignore"'),
    ('"ticker" }', '"ticker", price = "ticker" }', "11", 'column "price" of "events"'),
    ("columns = {", 'seq = "ticker"\ncolumns = {', "11", "seq has the type string.*a whole number"),
    ("columns = {", 'seq = "number"\ncolumns = {', "11", 'seq is "number", which is no column'),
    ("columns = {", "options = { a = [1] }\ncolumns = {", "11", r"\[events.options\] a is a list"),
    (
        "columns = {",
        'values = "json"\ncolumns = {',
        "11",
        "values is there, but parquet is no format",
    ),
    ("columns = {", 'text = { colunm = "a" }\ncolumns = {', "11", 'colunm is no key.*Did you mean "column"'),
    ("columns = {", "text = {}\ncolumns = {", "11", r"\[events.text\] column is missing"),
    ("columns = {", 'text = { column = "risk" }\ncolumns = {', "11", 'is "risk", which has the type double'),
    (
        "columns = {",
        'expressions = { y = { sql = "1" } }\ncolumns = {',
        "11",
        r"y\] type is missing",
    ),
    (
        "columns = {",
        'expressions.y = { sql = "1", type = "dubble" }\ncolumns = {',
        "11",
        "is no type",
    ),
    (COMMANDS, "", "13", r"\[subscriptions\] schema is missing, expected columns and types"),
    ("risk_lo double", "risk_lo dubble", "16", r'\[subscriptions\] schema has "dubble", which is no type'),
    ("risk_lo double, risk_hi double", "risk_lo", "16", 'schema has no type for the column "risk_lo"'),
    ("risk_lo double", "risk_lo double!", "16", 'schema has "!, risk_hi'),
    ("id string, risk_lo", "id string, id string, risk_lo", "16", 'names the column "id" twice'),
    ("id string, risk_lo", "id double, risk_lo", "13", 'column "id" of "subscriptions"'),
    ("risk_lo double", "risk_lo string", "13", 'column "risk_lo" of "subscriptions"'),
    ("risk_lo double", "risk_low double", "13", 'unknown column "risk_low".*Did you mean "risk_lo"'),
    (
        '"csv"',
        '"csv"\nstream = true',
        "13",
        'has no column "op", expected a string, one of: subscribe',
    ),
    ('"csv"', '"csv"\nstream = "yes"', "15", r'\[subscriptions\] stream is "yes", expected true or false'),
    (COMMANDS, f'stream = true\n{COMMANDS[:-1]}, op long"', "13", "op has the type int64"),
    (
        COMMANDS,
        f'stream = true\n{COMMANDS[:-1]}, op string"',
        "13",
        'no column "seq", but events has one',
    ),
    (
        '"results"\n',
        '"results"\nrows = 3\n',
        "20",
        r"\[sink\] rows is no key here.*: format, path",
    ),
    ('path = "results.parquet"\n', "", "18", r"\[sink\] path is missing, expected where to write"),
    ('format = "results"\n', "", "18", r"\[sink\] format is missing, expected results, console, serve or"),
    (
        'format = "results"\npath = "results.parquet"',
        'format = "serve"\nstream = "s"',
        "18",
        r"\[sink\] url is missing, expected where the service is",
    ),
    (
        'format = "results"\npath = "results.parquet"',
        'format = "serve"\nurl = "http://127.0.0.1:8765"',
        "18",
        r"\[sink\] stream is missing, expected the name of an external stream",
    ),
    (
        'format = "results"\npath = "results.parquet"',
        'format = "serve"\nstream = "s"\nurl = "ftp://there"',
        "21",
        r"\[sink\] url is 'ftp://there', expected an address like",
    ),
    (
        'format = "results"\npath = "results.parquet"',
        'format = "serve"\nstream = "s"\nurl = "http://ann:hush@there"',
        "21",
        r"\[sink\] url is .*, expected an address like",
    ),
    (
        'format = "results"\npath = "results.parquet"',
        'format = "serve"\nstream = "s"\nurl = "http://there"\noptions = {}',
        "22",
        r"\[sink\] options is no key here",
    ),
    (
        'format = "results"\npath = "results.parquet"',
        'format = "serve"\nstream = "s"\nurl = "http://there"\nretry_for = "soon"',
        "22",
        r"\[sink\] retry_for is .*expected a span of time",
    ),
    ("[sink]", "[objects]\n[sink]", "18", "objects is there, but RangeTopK has no objects"),
    ("[sink]", '[trigger]\ninterval = "5 parsecs"\n[sink]', "19", r"\[trigger\] interval is .*5 seconds"),
    ("[sink]", '[trigger]\ninterval = "5 s"\navailable_now = true\n[sink]', "19", "are both there"),
    ("[sink]", "[spark]\nmaster = 2\n[sink]", "19", r"\[spark\] master is 2, expected a string"),
    ("[sink]", "[spark]\ndriver.memory = [2]\n[sink]", "19", r"\[spark.driver\] memory is a list"),
    ("[engine]", "shards = 0\n[engine]", "3", "shards is 0, expected a whole number from 1"),
    (
        "[engine]",
        'bad_rows = "drop"\n[engine]',
        "3",
        'bad_rows is "drop".*one of: fail, keep',
    ),
    ('"checkpoint"\n', '"${PLACE}/checkpoint"\n', "1", "checkpoint needs the environment variable PLACE"),
    (
        '"ticker"',
        '"${ID}"',
        "11",
        r"\[events.columns\] id needs the environment variable ID",
    ),
    ("[engine]", "[engine", "", "is not TOML"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), MISTAKES)
def test_a_mistake_is_told_by_name_and_place(
    old: str, new: str, line: str, message: str, folder: Path
) -> None:
    assert old in GOOD
    found = " ".join(told(folder, GOOD.replace(old, new, 1)).splitlines())
    assert found.startswith(f"/pipeline.toml:{line}: " if line else "/pipeline.toml: "), found
    assert re.search(message, found), found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            GOOD.replace('columns = { id = "ticker" }\n', ""),
            'unknown column "ticker", expected one of: id, op, price',
        ),
        (
            GOOD.replace('columns = { id = "ticker" }\n', "").replace("by =", 'extra = "ignore"\nby ='),
            'column "id" of "events" is missing.*The source has: seq, ticker, risk, price',
        ),
        (GEO.replace("[0, 0, 1, 1]", "[0, 0, 1]"), "bounds"),
        (GEO.replace("[0, 0, 1, 1]", '[0, 0, 1, 1]\nwindow = "1 fortnight"'), "window is .*a span of time"),
        (GEO.replace("[0, 0, 1, 1]", '[0, 0, 1, 1]\nhalf_life = "soon"'), "half_life is .*a span of time"),
        (
            GEO.replace("[0, 0, 1, 1]", '[0, 0, 1, 1]\nwindow = 9\nhalf_life = "1 hour"'),
            "half_life is set, but the window is a count",
        ),
        (GEO.replace("[0, 0, 1, 1]", '[0, 0, 1, 1]\nvocabulary = { path = "no" }'), "path has no documents"),
        (
            GEO.replace('"quotes"\ncolumns = { id = "ticker" }', '"notes"').replace(
                "risk_lo double, risk_hi double", "x double, y double, terms array<string>"
            ),
            'unknown column "body"',
        ),
        (MOVING, "objects is missing, expected a table .objects.: MovingTopK has objects"),
        (MOVING.replace('["price"]', '["price"]\nscore = "os:no"'), "score 'os:no' cannot be imported"),
        (MOVING.replace('["price"]', '["price"]\nscore = { name = "sum" }'), 'name is "sum".*weighted_sum'),
        (
            MOVING.replace('["price"]', '["price"]\nscore = { name = "weighted_sum", weights = [1] }'),
            "1 weights, expected 2",
        ),
        (
            GOOD.replace(
                'name = "RangeTopK"\nover = "risk"\nby = "price"', 'name = "RankedMatcher"\nover = ["risk"]'
            )
            .replace("risk_hi double", "risk_hi double, score double")
            .replace('"ticker" }', '"ticker" }\nexpressions = { price = { sql = "1", type = "double" } }'),
            'unknown column "price"',
        ),
    ],
)
def test_what_an_engine_refuses_is_told(text: str, message: str, folder: Path) -> None:
    found = " ".join(told(folder, text).splitlines())
    assert re.search(message, found), found


def test_results_of_matching_are_refused(folder: Path) -> None:
    (folder / "subscriptions.csv").write_text("ann,1,2,3\n")
    text = GOOD.replace(
        'name = "RangeTopK"\nover = "risk"\nby = "price"', 'name = "RankedMatcher"\nover = ["risk"]'
    )
    text = text.replace("risk_hi double", "risk_hi double, score double").replace(
        'columns = { id = "ticker" }', 'columns = { id = "ticker" }'
    )
    text = text.replace("over =", 'extra = "ignore"\nover =')
    assert 'format is "results", but RankedMatcher keeps no results' in told(folder, text)


def test_a_good_file_is_read(folder: Path) -> None:
    config = read(written(folder, GOOD), {})
    assert config.engine.kind == "RangeTopK"
    assert config.checkpoint == str(folder / "checkpoint")
    assert config.state == str(folder / "checkpoint" / "rankcast")
    assert config.fits["events"] == {
        "seq": "`seq`",
        "risk": "`risk`",
        "price": "`price`",
        "id": "`ticker`",
    }
    assert list(config.fits["subscriptions"] or {}) == ["id", "risk_lo", "risk_hi"]
    assert config.bad_rows == "keep"


def test_nulls_are_refused_unless_the_file_says_otherwise(folder: Path) -> None:
    event = {"id": ["a"], "price": [None]}
    for said, stays in (("", True), ('nulls = "keep"', True), ('nulls = "delete"', False)):
        made: Any = read(written(folder, GOOD.replace("by =", f"{said}\nby =")), {}).engine.engine()
        made.subscribe({"id": [1]})
        made.publish({"id": ["a"], "risk": [1], "price": [2]})
        if not said:
            with pytest.raises(InputError, match='column "price" of "events" is null'):
                made.publish(event)
        else:
            made.publish(event)
        assert made.results().num_rows == stays


def test_a_source_may_say_what_its_events_do(folder: Path) -> None:
    text = GOOD.replace('id = "ticker"', 'id = "ticker", op = "ticker"')
    events = read(written(folder, text), {}).fits["events"]
    assert events is not None
    assert events["op"] == "`ticker`"


def test_variables_are_filled_in_and_escaped(folder: Path) -> None:
    text = GOOD.replace('"quotes"', '"${WHERE}"').replace(
        "columns = {", 'options = { password = "${SECRET}", plain = "$${SECRET}" }\ncolumns = {'
    )
    config = read(written(folder, text), {"WHERE": "quotes", "SECRET": "hush"})
    assert config.sources["events"].options == {"password": "hush", "plain": "${SECRET}"}
    assert "hush" not in repr(config)


def test_further_columns_are_left_out_if_that_is_wanted(folder: Path) -> None:
    (folder / "subscriptions.csv").write_text("ann,1,2,3\n")
    text = GOOD.replace('by = "price"', 'by = "price"\nextra = "ignore"').replace(
        "risk_hi double", "risk_hi double, note string"
    )
    config = read(written(folder, text), {})
    assert "note" not in (config.fits["subscriptions"] or {})


def test_formats_that_only_spark_knows_are_left_to_it(folder: Path) -> None:
    text = GOOD.replace('"parquet"', '"delta"', 1)
    config = read(written(folder, text), {})
    assert config.fits["events"] is None


def test_texts_in_a_queue_have_the_declared_columns(folder: Path) -> None:
    text = GOOD.replace(
        'format = "parquet"\npath = "quotes"\ncolumns = { id = "ticker" }',
        'format = "kafka"\nschema = "ticker string, risk double, price double"\n'
        'options = { "kafka.bootstrap.servers" = "127.0.0.1:9092", subscribe = "quotes" }\n'
        'columns = { id = "ticker" }\nseq = "offset"',
    )
    config = read(written(folder, text), {})
    assert set(config.fits["events"] or {}) == {"id", "risk", "price", "seq"}
    without = read(written(folder, text.replace('\nseq = "offset"', "")), {})
    assert set(without.fits["events"] or {}) == {"id", "risk", "price"}
    assert without.sources["events"].topics == ["quotes"]
    for wrong, told in (
        (text.replace("subscribe", "suscribe"), "name no topic"),
        (text.replace("kafka.bootstrap", "bootstrap"), 'have no "kafka.bootstrap.servers"'),
        (text.replace('"kafka"', '"socket"').replace("seq =", 'values = "arrow"\nseq ='), "format of texts"),
    ):
        with pytest.raises(ConfigError, match=told):
            read(written(folder, wrong), {})


def test_the_example_of_a_queue_is_in_order() -> None:
    config = read(Path(__file__).parent.parent.parent / "examples" / "kafka.toml", {})
    assert [config.sources[name].topics for name in ("events", "subscriptions")] == [["quotes"], ["wishes"]]


def test_a_queue_takes_answers_and_refused_rows_apart(folder: Path) -> None:
    start = GOOD[: GOOD.index("[sink]")]
    options = 'options = { "kafka.bootstrap.servers" = "127.0.0.1:9092", topic = "deltas" }\n'
    sink = f'[sink]\nformat = "kafka"\n{options}refused = "refused"\nvalues = "arrow"\n'
    config = read(written(folder, start + sink), {})
    assert (config.sink.refused, config.sink.values) == ("refused", "arrow")
    with pytest.raises(ConfigError, match="name no topic"):
        read(written(folder, start + sink.replace("topic =", "topc =")), {})


def test_settings_of_spark_are_dotted_or_quoted(folder: Path) -> None:
    text = GOOD + '[spark]\nmaster = "local[2]"\nui.enabled = true\n"spark.driver.memory" = "2g"\n'
    config = read(written(folder, text), {})
    assert config.master == "local[2]"
    assert config.settings == {"spark.ui.enabled": "true", "spark.driver.memory": "2g"}


def test_the_command_says_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = written(folder, GOOD.replace("format", "formt", 1))
    assert cli.main(["run", str(bad), "--check"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert 'Did you mean "format"?' in err
    assert cli.main(["run", str(folder / "none.toml"), "--check"]) == 2
    assert "none.toml: No such file" in capsys.readouterr().err
    assert cli.main(["run", str(bad), "--metrics-port", "-1"]) == 2
    assert cli.main(["run", str(written(folder, GOOD)), "--check"]) == 0
    assert "valid: RangeTopK" in capsys.readouterr().out


def test_a_check_imports_no_spark_and_compiles_nothing(folder: Path) -> None:
    code = (
        "import sys; from rankcast.cli import main; code = main(['run', sys.argv[1], '--check'])\n"
        "import numba, os\n"
        "assert not {'pyspark', 'py4j', 'pandas'} & set(sys.modules)\n"
        "assert numba.config.DISABLE_JIT and 'NUMBA_DISABLE_JIT' not in os.environ\n"
        "sys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", code, str(written(folder, GOOD))], check=True, capture_output=True)


def test_places_are_lines_of_the_file() -> None:
    text = 'a = """\n[b]\nc = 1\n"""\n[d]\n"e f" = 1\nd.e = 2\n'
    assert lines_of(text) == {("a",): 1, ("d",): 5, ("d", "e f"): 6, ("d", "d", "e"): 7}


ICEBERG = GOOD.replace('format = "results"\npath = "results.parquet"', 'format = "iceberg"\npath = "lists"')


OWN = '[spark]\njars.packages = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"\n'


@pytest.mark.parametrize("own", ["", OWN])
def test_iceberg_is_refused_with_the_reason(
    folder: Path, capsys: pytest.CaptureFixture[str], own: str
) -> None:
    """No connector is published for a Spark of our range, so nothing was written for it."""
    file = folder / "pipeline.toml"
    file.write_text(f"{ICEBERG}\n{own}")
    for words in (["run", str(file), "--check"], ["run", str(file)]):
        assert cli.main(words) != 0
        told = capsys.readouterr().err
        assert "there is no connector for iceberg and Spark 4." in told
        assert "iceberg-spark-runtime-4.1" in told, "what there is"
        assert 'Use format = "delta"' in told, "what to do"


@pytest.mark.parametrize(
    ("before", "after", "line", "what"),
    [
        (
            "checkpoint =",
            'output = "tile"\ncheckpoint =',
            "1",
            'output .*"tile".*tiles',
        ),
        ("checkpoint =", "shards = 2\ncheckpoint =", "2", "shards is 2, but the tiles are one sequence"),
        ('by = "price"', 'by = "price"\nmethod = "relax"', "", "output method is .relax., whose receivers"),
        ('over = "risk"', 'over = ["risk", "z"]\nmethod = "dense"', "", "must know which side"),
        ('format = "parquet"\npath = "out"', 'format = "console"', "", "but RangeTiles keeps no results"),
        ('format = "parquet"\npath = "out"', 'format = "delta"\npath = "out"', "", "keeps no results"),
    ],
)
def test_tiles_are_checked_before_spark_starts(
    before: str, after: str, line: str, what: str, folder: Path
) -> None:
    good = GOOD.replace('format = "results"\npath = "results.parquet"', 'format = "parquet"\npath = "out"')
    tiles = 'output = "tiles"\n' + good
    config = read(written(folder, tiles))
    assert config.engine.spec.answer.kind == "tiles"
    assert config.shards is None
    base = good if "output" in after else tiles
    assert re.search(
        rf"/pipeline.toml:{line or '[0-9]+'}: .*{what}", told(folder, base.replace(before, after))
    )


def test_engines_without_tiles_say_so(folder: Path) -> None:
    text = 'output = "tiles"\n' + MATCHING.replace('"results"', '"parquet"')
    assert 'output is "tiles", but RankedMatcher has none' in told(folder, text)
