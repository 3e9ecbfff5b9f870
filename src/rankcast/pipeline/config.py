"""A pipeline file, read and checked before Spark starts: see `read`.

    checkpoint = "checkpoint"             # where Spark records its progress
    [engine]
    name = "RangeTopK"                    # and its settings
    over = "risk"
    by = "price"
    [events]
    format = "parquet"                    # any format that Spark has
    path = "quotes"
    columns = { id = "ticker" }           # engine column = source column
    [subscriptions]
    format = "parquet"
    path = "subscriptions.parquet"
    [sink]
    format = "results"                    # or console, or any format that Spark has
    path = "results.parquet"

All keys: docs/guides/first-pipeline.md. `rankcast.pipeline.engines` reads the table `[engine]`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from rankcast.core.spec import OUTPUTS
from rankcast.errors import InputError, shown
from rankcast.pipeline import checking, engines, sources
from rankcast.pipeline.engines import Made
from rankcast.pipeline.sources import DECLARED, ENGLISH, FILES, PATTERNS, VALUES, Source, Text
from rankcast.pipeline.toml_reader import ConfigError, Document, Table, filled, local

SOURCE = ("format", "path", "options", "schema", "values", "stream", "columns", "expressions", "text", "seq")
TEXT = ("column", "tokenise", "lowercase", "stop_words")
OWN_SINKS = ("results", "console", "serve")
RETRY_FOR = 600.0  # seconds for which a service that does not answer is asked again
QUEUE = "kafka"
TABLES_OF_A_LAKE = ("delta", "iceberg")
_SERVERS, _TOPICS = "kafka.bootstrap.servers", ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True)
class Sink:
    """Where deltas go: `results`, `console`, `serve`, a queue, tables, or one of Spark's formats.

    Attributes:
        format: the name of the format.
        path: where it is; for `serve`, a folder for refused rows; for tables, their folder.
        options: further options for Spark.
        rows: how many subscriptions the console shows.
        url: the address of the service.
        stream: the external stream of the service.
        token: the token for the service.
        retry_for: seconds for which to retry if the service does not answer.
        values: the format of a queue's values, `json` or `arrow`.
        refused: the topic of a queue's refused rows; None: they are counted and dropped.
    """

    format: str
    path: str | None
    options: Mapping[str, str] = field(repr=False)
    rows: int = 10
    url: str | None = None
    stream: str | None = None
    token: str | None = field(default=None, repr=False)
    retry_for: float = RETRY_FOR
    values: str = "json"
    refused: str | None = None


@dataclass(frozen=True)
class Trigger:
    """When a micro-batch starts: every `interval`, or at once; with `available_now` until all is done."""

    interval: str | None = None
    available_now: bool = False


def read_source(table: Table, name: str) -> Source:
    """One of `[events]`, `[subscriptions]` and `[objects]`."""
    known = SOURCE if name != "events" else tuple(key for key in SOURCE if key != "stream")
    table = Table(table.document, table.key, table.values, known)
    table.need("format", "a format of Spark's, for example parquet")
    format_, schema = str(table.text("format")), table.text("schema")
    path = table.place("path")
    if format_ in FILES:
        table.need("path", f"where the {format_} files are")
        _check_path(table, str(path))
    if format_ in DECLARED and schema is None:
        raise table.mistake(
            "schema",
            "is missing",
            expected='columns and types, for example "id long, x double"',
            detail=f"What columns {format_} files have is not known before they are read.",
        )
    _check_types(table, "schema", schema)
    values = table.one_of("values", ("json", "csv", "arrow"))
    if values is not None and format_ not in VALUES:
        raise table.mistake("values", f"is there, but {format_} is no format of texts", expected=_or(VALUES))
    if values == "arrow" and format_ != QUEUE:
        raise table.mistake(
            "values", f'is "arrow", but {format_} is a format of texts', expected="json or csv"
        )
    if format_ == QUEUE:
        _check_queue(table, _TOPICS)
    return Source(
        name=name,
        format=format_,
        path=path,
        options=table.strings("options"),
        schema=schema,
        values=(values or "json") if format_ in VALUES and schema is not None else None,
        stream=name == "events" or bool(table.flag("stream")),
        columns=table.strings("columns"),
        expressions=_expressions(table),
        text=_text(table.table("text", TEXT)),
        seq=table.text("seq"),
    )


def _check_queue(table: Table, topics: tuple[str, ...]) -> None:
    """What Spark wants to know of a queue in any case."""
    given = {key.lower() for key in table.strings("options")}
    if _SERVERS not in given:
        expected = f'{{ "{_SERVERS}" = "host:9092" }}'
        raise table.mistake("options", f'have no "{_SERVERS}"', expected=expected)
    if not given & {each.lower() for each in topics}:
        raise table.mistake("options", "name no topic", expected=_or(topics))


def _or(words: tuple[str, ...]) -> str:
    return " or ".join(words)


def _check_path(table: Table, place: str) -> None:
    path = local(place)
    if path is not None and not any(sign in place for sign in "*?[") and not path.exists():
        raise table.mistake("path", f"is {place}, which is not there")


def _check_types(table: Table, name: str, text: str | None) -> None:
    try:
        if text is not None:
            sources.parse(text)
    except ValueError as error:
        expected = 'columns and types, for example "id long, terms array<string>"'
        raise table.mistake(name, str(error), expected=expected) from error


def _expressions(table: Table) -> dict[str, tuple[str, str]]:
    """Computed columns: `x = { sql = "value % 100", type = "double" }`."""
    found = {}
    outer = table.table("expressions")
    for name in outer.values if outer is not None else ():
        assert outer is not None  # noqa: S101
        inner = outer.table(name, ("sql", "type"))
        assert inner is not None  # noqa: S101
        inner.need("sql", "an expression of Spark's")
        inner.need("type", "a type of Spark's, for example double")
        sql, kind = str(inner.text("sql")), str(inner.text("type"))
        try:
            sources.type_of(kind)
        except ValueError as error:
            raise inner.mistake("type", str(error), expected="a type of Spark's") from error
        found[name] = (sql, kind)
    return found


def _text(table: Table | None) -> Text | None:
    if table is None:
        return None
    table.need("column", "the column that has the text")
    stop = table.values.get("stop_words", [])
    if isinstance(stop, str) and stop != "english":
        raise table.mistake("stop_words", f'is "{stop}"', expected='"english" or a list of strings')
    lowercase = table.flag("lowercase")
    return Text(
        column=str(table.text("column")),
        tokenise=table.one_of("tokenise", tuple(PATTERNS)) or "words",
        lowercase=True if lowercase is None else lowercase,
        stop=ENGLISH if stop == "english" else table.words("stop_words"),
    )


def read_sink(table: Table, engine: Made) -> Sink:
    """The table `[sink]`."""
    table.need("format", f"{', '.join(OWN_SINKS)} or a format of Spark's")
    format_ = str(table.text("format"))
    own = {
        "results": ("path",),
        "console": ("rows",),
        "serve": ("url", "stream", "token", "retry_for", "path"),
        QUEUE: ("options", "values", "refused"),
        **dict.fromkeys(TABLES_OF_A_LAKE, ("path",)),
    }
    known = own.get(format_, ("path", "options"))
    table = Table(table.document, table.key, table.values, ("format", *known))
    answers = engine.spec.answer.kind if engine.is_imported else "deltas"
    no_lists = ("results", "serve", *(("console", *TABLES_OF_A_LAKE) if answers == "tiles" else ()))
    if answers != "deltas" and format_ in no_lists:
        raise table.mistake(
            "format",
            f'is "{format_}", but {engine.kind.rpartition(":")[2]} keeps no results',
            hint=f"{answers.title()} are told once: write them to files (parquet) or to a queue (kafka).",
        )
    if format_ in ("results", *TABLES_OF_A_LAKE, *FILES):
        table.need("path", "where to write")
    if format_ == "serve":
        return _read_serve(table)
    if format_ == QUEUE:
        _check_queue(table, ("topic",))
        values = table.one_of("values", ("json", "arrow")) or "json"
        return Sink(QUEUE, None, table.strings("options"), values=values, refused=table.text("refused"))
    return Sink(format_, table.place("path"), table.strings("options"), table.whole("rows") or 10)


def _read_serve(table: Table) -> Sink:
    """An external stream of the service."""
    table.need("url", "where the service is, for example http://127.0.0.1:8765")
    table.need("stream", "the name of an external stream")
    url, span = str(table.text("url")), table.duration("retry_for")
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
    except ValueError:
        fine = False
    if not fine:
        expected = "an address like http://127.0.0.1:8765, without a name or a password"
        raise table.mistake("url", f"is {shown(url)}", expected=expected)
    token = table.text("token")
    if token is not None:
        table.document.hide(token, "the token")
    return Sink(
        "serve",
        table.place("path"),
        {},
        url=url,
        stream=table.text("stream"),
        token=token,
        retry_for=RETRY_FOR if span is None else span.total_seconds(),
    )


def read_trigger(table: Table | None) -> Trigger:
    """The table `[trigger]`."""
    if table is None:
        return Trigger()
    if "interval" in table and table.flag("available_now"):
        raise table.mistake("interval", "and available_now are both there", expected="one of them")
    every = table.duration("interval")
    interval = None if every is None else f"{round(every.total_seconds() * 1000)} milliseconds"
    return Trigger(interval, bool(table.flag("available_now")))


def read_spark(table: Table | None) -> tuple[str | None, dict[str, str]]:
    """The table `[spark]`: the master, and settings with or without `spark.` in front."""
    if table is None:
        return None, {}
    master = table.text("master")
    rest = {name: value for name, value in table.values.items() if name != "master"}
    return master, dict(_flat(Table(table.document, table.key, rest), ""))


def _flat(table: Table, prefix: str) -> Iterator[tuple[str, str]]:
    """Settings of nested tables, as dotted names are in TOML."""
    for name, value in table.values.items():
        full = f"{prefix}{name}"
        if isinstance(value, dict):
            inner = Table(table.document, (*table.key, name), value)
            yield from _flat(inner, f"{full}.")
        else:
            yield full if full.startswith("spark.") else f"spark.{full}", table.plain(name)


KEYS = ("name", "checkpoint", "state", "shards", "bad_rows", "output")
TABLES = ("engine", "events", "subscriptions", "objects", "sink", "trigger", "spark")
INPUTS = ("events", "subscriptions", "objects")
BAD_ROWS = ("keep", "fail")


@dataclass(frozen=True)
class Config:
    """A checked pipeline.

    Attributes:
        path: the file.
        name: the name of the query.
        engine: the engine and its settings.
        sources: its inputs by name.
        fits: by input, the engine's columns, each as a Spark expression; None: only Spark can tell.
        sink: where deltas go.
        checkpoint: where Spark records its progress.
        state: where the shards are stored.
        trigger: when micro-batches start.
        master: where Spark runs; None: where `spark-submit` says, or on this machine.
        settings: Spark's settings.
        shards: the number of shards, None for one per core.
        bad_rows: `keep` or `fail`.
        output: `tiles`, or None for the engine's usual answer.
        hidden: values that errors must not show, and their replacements.
        unchecked: what was not checked, in words.
    """

    path: Path
    name: str
    engine: Made
    sources: Mapping[str, Source]
    fits: Mapping[str, Mapping[str, str] | None]
    sink: Sink
    checkpoint: str
    state: str
    trigger: Trigger
    master: str | None
    settings: Mapping[str, str] = field(repr=False)
    shards: int | None
    bad_rows: str
    output: str | None = None
    hidden: Mapping[str, str] = field(repr=False, default_factory=dict)
    unchecked: tuple[str, ...] = ()


def read(
    path: str | os.PathLike[str], environment: Mapping[str, str] = os.environ, *, trust: bool = False
) -> Config:
    """Read a pipeline file and check everything that can be checked without Spark.

    In large folders it looks at a limited part; `unchecked` names what it skipped.

    Args:
        path: the file. Relative paths in it start at its folder.
        environment: the values of `${NAME}` in any string.
        trust: also import a `module:name` that the file names, which runs that module. Otherwise that happens
            only when the pipeline runs.

    Raises:
        ConfigError: the first mistake, with its name and its line in the file.
    """
    file = Path(path)
    try:
        text = file.read_text()
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: is not TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not a text: {error.reason}") from error
    document = Document(file, text)
    top = Table(document, (), filled(document, (), values, environment), (*KEYS, *TABLES))
    return _read(document, top, trust=trust)


def _read(document: Document, top: Table, *, trust: bool) -> Config:
    for name in ("engine", "events", "subscriptions", "sink"):
        top.need(name, f"a table [{name}]")
    top.need("checkpoint", "a folder for Spark's checkpoint")
    output = top.one_of("output", OUTPUTS)
    engine = _read_engine(top, output, trust=trust)
    given = [name for name in INPUTS if name in top]
    if engine.is_imported:
        known = [each.name for each in engine.inputs]
        for name in given:
            if name not in known:
                raise document.mistake((name,), f"is there, but {engine.kind} has no {name}")
        for name in known:
            top.need(name, f"a table [{name}]: {engine.kind} has {name}")
        given = known
    sources = {name: read_source(_table(top, name), name) for name in given}
    fits: Mapping[str, Mapping[str, str] | None] = dict.fromkeys(given)
    unchecked = ["columns of " + ", ".join(given)]
    if engine.is_imported:
        fits, unchecked = checking.fit_all(document, engine, sources)
    if not engine.is_whole:
        what, reference = engine.left_out
        unchecked.insert(0, f"{what} {shown(reference)} was not imported (--trust does, and runs it)")
    sink = read_sink(_table(top, "sink"), engine)
    checkpoint = top.place("checkpoint")
    state = top.place("state")
    master, settings = read_spark(top.table("spark"))
    for name, format_ in (("sink", sink.format), *((each.name, each.format) for each in sources.values())):
        _check_connector(document, name, format_, settings)
    return Config(
        path=document.path,
        name=top.text("name") or document.path.stem,
        engine=engine,
        sources=sources,
        fits=fits,
        sink=sink,
        checkpoint=str(checkpoint),
        state=state or f"{checkpoint}/rankcast",
        trigger=read_trigger(top.table("trigger", ("interval", "available_now"))),
        master=master,
        settings=settings,
        shards=_read_shards(top, engine),
        bad_rows=top.one_of("bad_rows", BAD_ROWS) or "keep",
        output=output,
        hidden=document.hidden,
        unchecked=tuple(unchecked),
    )


def _read_engine(top: Table, output: str | None, *, trust: bool) -> Made:
    """The table `[engine]`; with `output`, the engine of the same settings that answers so."""
    engine = engines.read(_table(top, "engine"), trust=trust)
    if output is None or not engine.is_imported:
        return engine
    try:
        return engine.answering(output)
    except InputError as error:
        told = error.what.removeprefix("output ")
        raise top.mistake("output", told, detail=error.detail, hint=error.hint) from error


def _read_shards(top: Table, engine: Made) -> int | None:
    shards = top.whole("shards")
    if shards not in (None, 1) and engine.is_imported and engine.spec.is_alone:
        what = f"is {shards}, but the {engine.spec.answer.kind} are one sequence, made where all rows are"
        raise top.mistake("shards", what, expected="1, or nothing")
    return shards


def _check_connector(document: Document, name: str, format_: str, settings: Mapping[str, str]) -> None:
    """Refuse a format of which no jar is known for the Spark that is installed."""
    if format_ not in (QUEUE, *TABLES_OF_A_LAKE) or find_spec("pyspark") is None:
        return
    from rankcast.spark import connectors  # noqa: PLC0415  # needs the extra

    try:
        connectors.check(format_, settings)
    except InputError as error:
        what = f'is "{format_}", but {error.what}'
        raise document.mistake((name, "format"), what, detail=error.detail, hint=error.hint) from error


def _table(top: Table, name: str) -> Table:
    found = top.table(name)
    if found is None:
        raise top.mistake(name, "is missing", expected=f"a table [{name}]")
    return found
