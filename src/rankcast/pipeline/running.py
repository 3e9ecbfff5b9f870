"""A pipeline as a streaming query: `start` it, watch its `progress`, `wait` for its end or `stop` it.

Spark's errors are reduced to one line for the user.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

from rankcast.core import snapshot
from rankcast.errors import RankcastError, ShardError
from rankcast.pipeline import frames, sinks
from rankcast.pipeline.config import QUEUE, Config
from rankcast.pipeline.progress import Following, Progress
from rankcast.pipeline.sinks import Tell
from rankcast.pipeline.sources import SEQ
from rankcast.pipeline.toml_reader import PipelineError, local, veiled

_OURS = re.compile(r"rankcast(?:\.\w+)*\.\w+Error: (.+)(?:\n *Detail: (.+))?(?:\n *Hint: (.+))?")
_PYTHON = re.compile(
    r"Traceback \(most recent call last\):\n.*?^ *(\w[\w.]*(?:Error|Exception)\b[^\n]*)", re.S | re.M
)
_CALL = re.compile(r"^An error occurred while calling \S+\s*: ")
_CONDITION = re.compile(r"^(?:[\w.]+Exception: )?\[([A-Z0-9_.]+)\]\s*")
_NOISE = re.compile(r"\s*(SQLSTATE: \w+|JVM stacktrace:|=== Streaming Query ===).*", re.S)
_FILE = re.compile(r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (.+?)\.\s")
_COLUMN = re.compile(
    r"mismatches when reading Parquet column \[(.+?)\]\. Expected Spark type (.+?), actual Parquet type (\w+)"
)
_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: (.*?)\s+Schema: (.*?)\n.*?CSV file: (\S+)", re.S
)
_CAUSE = re.compile(r"Caused by: (?:[\w.$]+(?:Exception|Error): )([^\n]+)")
_AGAIN = (
    "Write it anew under the same name, or remove it and set sql.files.ignoreMissingFiles = true in [spark]; "
    "then start again: the pipeline goes on where it stopped."
)
_JARS = 'Name its package in [spark], for example jars.packages = "group:artifact:version".'


@contextmanager
def told(hidden: Mapping[str, str] | None = None) -> Iterator[None]:
    """Let errors of Spark's come out as what, detail and hint, without what is hidden; all others pass."""
    try:
        yield
    except RankcastError:
        raise
    except Exception as error:
        if not is_sparks(error):
            raise
        raise explained(veiled(str(error), hidden or {})) from error


def is_sparks(error: BaseException) -> bool:
    """Whether an error comes from Spark."""
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j")


def explained(text: str) -> PipelineError:
    """What matters of a text of Spark's: our own word inside it, that of Python, or its first line."""
    ours, python = _OURS.search(text), _PYTHON.search(text)
    if ours is not None:
        detail, hint = (part and part.strip() for part in ours.groups()[1:])
        return PipelineError(f"the pipeline has stopped: {ours[1].strip()}", detail=detail, hint=hint)
    file = _file(text)
    if file is not None:
        return file
    if python is not None:
        return PipelineError(f"a Python worker has failed: {python[1].strip()}")
    plain = _NOISE.sub("", _CONDITION.sub("", _CALL.sub("", text))).strip().splitlines()
    missing = "DATA_SOURCE_NOT_FOUND" in text or "ClassNotFoundException" in text
    told = plain[0].strip() if plain else text[:200]
    return PipelineError(f"Spark says: {told}", hint=_JARS if missing else None)


def _file(text: str) -> PipelineError | None:
    """What is said of a file that does not fit its source any more; None if it is not about one."""
    header, found = _HEADER.search(text), _FILE.search(text)
    if header is not None:
        return PipelineError(
            f"the pipeline has stopped: {header[3]} has other columns than the source",
            detail=f"It has {header[1]}; declared are {header[2]}.",
            hint=_AGAIN,
        )
    if found is None:
        return None
    column = _COLUMN.search(text, found.start())
    if column is not None:
        name, wanted, given = column.groups()
        what = f'the column "{name}" has the type {given}, expected {wanted}'
        return PipelineError(
            f"the pipeline has stopped: in {found[1]} {what}",
            detail="A source has the types that it had when the pipeline was started.",
            hint=_AGAIN,
        )
    cause = _CAUSE.search(text, found.end())
    why = cause[1].strip() if cause is not None else "Spark does not say why."
    return PipelineError(f"the pipeline has stopped: {found[1]} cannot be read", detail=why, hint=_AGAIN)


GRACE = 5.0
STARTS = 12  # at a load of eight processes a core, five were too few
_TOO_LATE = "Python worker failed to connect back"
_BUSY = "Spark waits 10 seconds for a first Python process on the driver, which is too busy. Start it again."


class Running:
    """A running pipeline.

    When a query starts, Spark waits for a Python process on the driver, for ten seconds and no setting. On a
    machine that is too busy for that the query is started again: nothing has been done yet.

    Attributes:
        query: Spark's streaming query.
    """

    def __init__(
        self, query: Any, again: Callable[[], Any], cleanup: ExitStack, hidden: Mapping[str, str]
    ) -> None:
        self.query = query
        self._again = again
        self._starts = 1
        self._hidden = hidden
        self._following = Following()
        self._cleanup = cleanup
        self._ended: Progress | None = None

    @property
    def progress(self) -> Progress:
        """The progress since the start: rates, times of micro-batches, counters of every shard."""
        return self._ended or self._following.take(self.query)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, at most so long; returns whether it has ended.

        Raises:
            PipelineError: the pipeline has failed.
        """
        while True:
            try:
                with told(self._hidden):
                    if seconds is None:
                        self.query.awaitTermination()
                        return True
                    return bool(self.query.awaitTermination(seconds))
            except PipelineError as error:
                if _TOO_LATE not in str(error) or self.query.lastProgress is not None:
                    raise
                if self._starts == STARTS:
                    raise PipelineError(error.what, hint=_BUSY) from error
            self._starts += 1
            with told(self._hidden):
                self.query = self._again()

    def stop(self) -> None:
        """Stop it, between two micro-batches if one ends soon, and release everything.

        An interrupted micro-batch is repeated when the pipeline is started again.
        """
        with self._cleanup:
            limit = time.monotonic() + GRACE
            while self.query.isActive and self.query.status["isTriggerActive"] and time.monotonic() < limit:
                time.sleep(0.02)
            self.query.stop()
            self._ended = self._following.take(self.query)


def start(config: Config, session: Any = None, *, once: bool = False, tell: Tell | None = None) -> Running:
    """Start a pipeline.

    Args:
        config: what `read` returned.
        session: the Spark session to run in; by default a new one, which is stopped with the pipeline.
        once: process the available input and stop.
        tell: called with the number of each micro-batch and the table of its output, once it is written;
            for the sinks `results` and `console`.

    Raises:
        ConfigError: columns that only Spark can check do not fit.
        PipelineError: Spark cannot start it.
        ShardError: state, checkpoint or results belong to another pipeline.
    """
    with ExitStack() as cleanup:
        lock(config, cleanup)
        with told(config.hidden):
            spark = session if session is not None else begin(config, cleanup)
            again = partial(_query, config, spark, once=once, tell=tell)
            query = again()
        return Running(query, again, cleanup.pop_all(), config.hidden)


def begin(config: Config, cleanup: ExitStack, *, quiet: bool = True) -> Any:
    """A session with the settings of a pipeline, which ends with `cleanup`; or the one that runs already.

    With `quiet`, whatever Java writes to standard error is dropped; what goes wrong is raised here.
    """
    from rankcast.spark import connectors, session  # noqa: PLC0415
    from rankcast.spark.sessions import is_submitted  # noqa: PLC0415

    spark = sys.modules.get("pyspark")
    others = spark is not None and spark.SparkContext._active_spark_context is not None
    formats = [config.sink.format, *(source.format for source in config.sources.values())]
    settings = dict(config.settings)
    if not (others or is_submitted()):  # spark-submit sees to the jars of what it starts
        settings |= connectors.settings(formats, settings)
    with silence() if quiet else nullcontext():
        made = session(master=config.master, name=config.name, settings=settings)
    if not others:
        cleanup.callback(made.stop)
    return made


@contextmanager
def silence() -> Iterator[None]:
    """Processes that are started meanwhile have nowhere to write their errors."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _query(config: Config, spark: Any, *, once: bool, tell: Tell | None) -> Any:
    from rankcast.spark import continuous  # noqa: PLC0415

    collecting = sinks.collecting(config, tell)
    given = frames.open_all(config, spark, history=False)
    deltas = continuous(
        config.engine.engine(),
        given["events"],
        given["subscriptions"],
        objects=given.get("objects"),
        state=config.state,
        seq=SEQ,
        shards=config.shards,
        bad_rows=config.bad_rows,
        output=config.output,
        score=config.engine.score,
        trace=config.sink.format == QUEUE,
    )
    writer = sinks.written(config, deltas, collecting).queryName(config.name)
    writer = writer.option("checkpointLocation", config.checkpoint)
    if once or config.trigger.available_now:
        writer = writer.trigger(availableNow=True)
    elif config.trigger.interval is not None:
        writer = writer.trigger(processingTime=config.trigger.interval)
    if collecting is None:
        return writer.start()
    begun: list[Any] = []
    known = threading.Event()

    def query_id() -> str:
        known.wait()
        return str(begun[0].id)

    collecting.query = query_id
    begun.append(writer.start())
    known.set()
    return begun[0]


def lock(config: Config, cleanup: ExitStack) -> None:
    """Hold the checkpoint, if it is on this machine: two processes on one would spoil it."""
    path = local(config.checkpoint)
    if path is None:
        return
    path.mkdir(parents=True, exist_ok=True)
    try:
        cleanup.enter_context(snapshot.locked(path, wait=False))
    except BlockingIOError as error:
        raise ShardError(
            f"{config.checkpoint} is in use: another process runs this pipeline",
            hint="Stop that one first, or give this one a checkpoint of its own.",
        ) from error
