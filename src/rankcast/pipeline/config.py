"""A pipeline's file, read and checked before Spark starts: see `read`.

    checkpoint = "checkpoint"             # where Spark notes how far it has come
    [engine]
    name = "RangeTopK"                    # and its settings
    over = "risk"
    by = "price"
    [events]
    format = "parquet"                    # any format that Spark has
    path = "quotes"
    columns = { id = "ticker" }           # the engine's column = the source's
    [subscriptions]
    format = "parquet"
    path = "subscriptions.parquet"
    [sink]
    format = "results"                    # or console, or any format that Spark has
    path = "results.parquet"

All keys: docs/guides/first-pipeline.md.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rankcast.errors import shown
from rankcast.pipeline import checking, engines
from rankcast.pipeline.engines import Made
from rankcast.pipeline.mistakes import ConfigError, Document
from rankcast.pipeline.reading import Sink, Trigger, read_sink, read_source, read_spark, read_trigger
from rankcast.pipeline.sources import Source
from rankcast.pipeline.tables import Table, filled

KEYS = ("name", "checkpoint", "state", "shards", "bad_rows")
TABLES = ("engine", "events", "subscriptions", "objects", "sink", "trigger", "spark")
BAD_ROWS = ("keep", "fail")


@dataclass(frozen=True)
class Config:
    """A pipeline, checked.

    Attributes:
        path: the file.
        name: what the query is called.
        engine: the engine and its settings.
        sources: its inputs by name.
        fits: by input, the engine's columns, each as an expression of Spark's; None: Spark must tell first.
        sink: where deltas go.
        checkpoint: where Spark notes how far it has come.
        state: where shards lie.
        trigger: when micro-batches begin.
        master: where Spark runs.
        settings: Spark's settings.
        shards: how many, None for one a core.
        bad_rows: `keep` or `fail`.
        hidden: values that errors must not show, and what they say instead.
        unchecked: what was not looked at, in words.
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
    master: str
    settings: Mapping[str, str] = field(repr=False)
    shards: int | None
    bad_rows: str
    hidden: Mapping[str, str] = field(repr=False, default_factory=dict)
    unchecked: tuple[str, ...] = ()


def read(
    path: str | os.PathLike[str], environment: Mapping[str, str] = os.environ, *, trust: bool = False
) -> Config:
    """Read a pipeline's file and check all of it that can be checked without Spark.

    Of large folders a bounded part is looked at; `unchecked` says what was not.

    Args:
        path: the file. Relative paths in it count from its folder.
        environment: what `${NAME}` in any string stands for.
        trust: also import a `module:name` that the file names, which runs that module. Otherwise that is left
            to whoever runs the pipeline.

    Raises:
        ConfigError: the first mistake, by name and with its place in the file.
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
    engine = engines.read(_table(top, "engine"), trust=trust)
    roles = {role.name: role for role in engine.roles}
    for name in ("events", "subscriptions", "objects"):
        if name in top and name not in roles:
            raise document.mistake((name,), f"is there, but {engine.kind} has no {name}")
    for name in roles:
        top.need(name, f"a table [{name}]: {engine.kind} has {name}")
    sources = {name: read_source(_table(top, name), name) for name in roles}
    fits, unchecked = checking.fit_all(document, engine, sources)
    if not engine.is_whole:
        unchecked.insert(0, f"score {shown(engine.score)} was not imported (--trust does, and runs it)")
    sink = read_sink(_table(top, "sink"), engine)
    checkpoint = top.place("checkpoint")
    state = top.place("state")
    master, settings = read_spark(top.table("spark"))
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
        shards=top.whole("shards"),
        bad_rows=top.one_of("bad_rows", BAD_ROWS) or "keep",
        hidden=document.hidden,
        unchecked=tuple(unchecked),
    )


def _table(top: Table, name: str) -> Table:
    found = top.table(name)
    if found is None:
        raise top.mistake(name, "is missing", expected=f"a table [{name}]")
    return found
