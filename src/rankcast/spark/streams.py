"""`continuous`: an engine over streaming DataFrames; `split`: its deltas apart from refused rows.

The counters of shards travel as an observed metric, so every listener and the progress log have them:
`progress.observedMetrics["rankcast"]` has one field per shard, `shard_<id>`, a JSON object:

| key               | meaning                                                                           |
| ----------------- | --------------------------------------------------------------------------------- |
| `how`             | `hit`, `redo` or `restore`: what the batch found on the host                      |
| `restore_seconds` | time for restoring                                                                |
| `rows`            | input rows                                                                        |
| `deltas`          | output rows, without refused ones                                                 |
| `refused`         | rows refused or late                                                              |
| `candidates`      | candidates that the engine tried                                                  |
| `seconds`         | total time of the shard for the batch                                             |
| `snapshot_bytes`  | bytes of a snapshot that was finished since the previous batch                    |
| `log_bytes`       | bytes of rows since the last snapshot                                             |
"""

from __future__ import annotations

import json
import logging
import os
import threading
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.listener import StreamingQueryListener

from rankcast.core.engine import Engine
from rankcast.core.spec import (
    Input,
    Spec,
    answering,
    divided_spec,
    given_of,
    known_names,
    name_of,
    reference_of,
)
from rankcast.errors import InputError
from rankcast.spark import applying, bootstrap, inputs, plan, scratch, sessions, stateless
from rankcast.spark.inputs import Source
from rankcast.spark.packing import shard_ids
from rankcast.spark.plan import TRACED, Plan
from rankcast.spark.shard import METRICS, Limits, ShardProcessor
from rankcast.state.depot import Depot
from rankcast.tables import schema

OBSERVED = "rankcast"
_TRACE = ", query string, batch long, n long, raw binary"
_LOG = logging.getLogger(__name__)
_SUMS = ("restore_seconds", "rows", "deltas", "refused", "candidates", "seconds", "snapshot_bytes")


def expressions(shards: Sequence[int], column: str) -> list[Any]:
    """The aggregates that carry the counters of each shard."""
    return [F.max(F.when(F.col("shard") == shard, F.col(column))).alias(f"shard_{shard}") for shard in shards]


class Watcher(StreamingQueryListener):
    """Sums the counters of every shard of every query; logs one line per micro-batch.

    Register it with `spark.streams.addListener(watcher)`.

    Args:
        forget: when a query ends, remove its files from this host's scratch directory. The query can
            still continue later; its shards are then restored.
    """

    def __init__(self, *, forget: bool = False) -> None:
        self._forget = forget
        self._turn = threading.Lock()
        self._totals: dict[str, dict[int, Counter[str]]] = {}

    def totals(self, query: str) -> dict[int, dict[str, float]]:
        """By shard: `batches`, `hits`, `redos`, `restores` and the sums of the counters, since the start."""
        with self._turn:
            return {shard: dict(counted) for shard, counted in self._totals.get(query, {}).items()}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Add the counters of one micro-batch."""
        told = counters(event.progress.observedMetrics.get(OBSERVED))
        if not told:
            return
        with self._turn:
            mine = self._totals.setdefault(str(event.progress.id), {})
            for shard, counted in told.items():
                total = mine.setdefault(shard, Counter())
                total.update({"batches": 1, f"{counted['how']}s": 1})
                total.update({name: counted[name] for name in _SUMS})
        _LOG.info("batch %s: %s", event.progress.batchId, _line(told))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Clean up, if asked to."""
        if self._forget:
            scratch.forget(str(event.id))


def counters(observed: Any) -> dict[int, dict[str, Any]]:
    """The counters in an observed metric, by shard."""
    if observed is None:
        return {}
    fields = observed.asDict() if hasattr(observed, "asDict") else dict(observed)
    return {
        int(name.removeprefix("shard_")): json.loads(text)
        for name, text in fields.items()
        if name.startswith("shard_") and text is not None
    }


def _line(told: dict[int, dict[str, Any]]) -> str:
    """One line on a micro-batch: a hot shard stands out by its rows and seconds."""
    parts = [
        f"shard {shard} {counted['how']} {counted['rows']} rows {counted['deltas']} deltas "
        f"{counted['refused']} refused {counted['seconds']:.3f} s"
        for shard, counted in sorted(told.items())
    ]
    return "; ".join(parts)


BAD_ROWS = ("keep", "fail")


def continuous(
    engine: Engine,
    events: Any,
    subscriptions: Any,
    *,
    state: str | os.PathLike[str],
    objects: Any = None,
    seq: str = "seq",
    shards: int | None = None,
    bad_rows: str = "keep",
    output: str | None = None,
    score: str | None = None,
    snapshot_batches: int = 64,
    snapshot_bytes: int = 64 << 20,
    trace: bool = False,
) -> Any:
    """Run an engine over streaming DataFrames; returns its deltas (matching: matches) as one DataFrame.

    Args:
        engine: configured and empty.
        events: a streaming DataFrame with the engine's columns and `seq`.
        subscriptions: a table, read once, when `state` is empty; or a stream of commands with the columns
            `op` (`subscribe`, `amend`, `unsubscribe`) and `seq`.
        state: an absolute URI that the driver and every executor can reach, for this stream only. Snapshots
            go there.
        objects: for moving engines, a table or a stream of commands (`upsert`, `remove`, `advance`).
        seq: a unique integer column of every stream, one sequence over all of them.
        shards: the number of shards; by default the number of cores, at most one per shuffle partition. Fixed
            when `state` is created.
        bad_rows: "keep" outputs refused and late rows with `op` `refused` and a `reason`; "fail" stops the
            stream at the first.
        output: "tiles" outputs, instead of deltas, the numbered messages that a server sends into a
            content-driven network (`RangeTopK.disseminate`), by the engine's method. All objects are in one
            shard.
        score: where executors find your own score function, as "module:name"; needed only if the name cannot
            be derived from the function.
        snapshot_batches: a shard writes a snapshot after so many micro-batches ...
        snapshot_bytes: ... or after so many bytes of rows, whichever comes first.
        trace: add the columns `query`, `batch`, `shard` and `n`, which together identify a row and are the
            same after a retry, so that readers can drop duplicates; and `raw`, the original of a refused row,
            if the stream has it in a column `__message`.

    `rankcast.spark.applying` describes the columns of the output and the meaning of `seq` there. Nothing is
    lost or duplicated across restarts from the same checkpoint, and the deltas are the same for any number of
    shards.

    Raises:
        InputError: an argument or a column that cannot be accepted.
        ShardError: `state` was made for another engine, other settings or another number of shards.
    """
    schema.one_of("bad_rows", bad_rows, BAD_ROWS)
    if output is not None and isinstance(engine, Engine):
        engine = _made_for(engine, output)
    given = read_inputs(
        engine, {"events": events, "subscriptions": subscriptions, "objects": objects}, seq, history=False
    )
    if not given["events"].frame.isStreaming:
        raise InputError(
            "is a static DataFrame", where="events", expected="a streaming one", hint="Use snapshot for it."
        )
    spark = events.sparkSession
    sessions.check(spark)
    uri = os.fspath(state)
    depot = Depot.open(uri)
    streams = {name: each for name, each in given.items() if each.frame.isStreaming}
    fixed = _planned(engine, given, streams, depot, uri, shards, score, strict=bad_rows == "fail")
    if fixed.stateless:
        strict = bad_rows == "fail"
        return stateless.answers(given["events"], fixed, uri, strict=strict, trace=trace, observed=OBSERVED)
    sessions.check_driver(spark)
    processor = ShardProcessor(
        fixed.to_json(),
        uri,
        strict=bad_rows == "fail",
        limits=Limits(
            schema.whole("snapshot_batches", snapshot_batches),
            schema.whole("snapshot_bytes", snapshot_bytes),
            int(spark.conf.get("spark.sql.streaming.minBatchesToRetain")),
        ),
        trace=trace,
    )
    packed = [each.packed(fixed.shards, beyond=fixed.cut) for each in streams.values()]
    columns = applying.columns(type(engine).spec, fixed.ids, fixed.settings)
    form = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    form += _TRACE if trace else ""
    out = (
        reduce(lambda one, other: one.unionAll(other), packed)
        .groupBy("shard")
        .transformWithStateInPandas(processor, f"{form}, shard int, {METRICS} string", "Append", "None")
        .observe(OBSERVED, *expressions(fixed.shards, METRICS))
    )
    return out.where(F.col(METRICS).isNull()).select(*columns, *(TRACED if trace else ()))


def split(frame: Any) -> tuple[Any, Any]:
    """The output of `continuous` or `snapshot` as two DataFrames: deltas (or matches), and refused rows.

    Two streaming queries over them would each run the whole stream. To write both with one query, call this
    inside `foreachBatch`.
    """
    refused = F.col("op") == applying.REFUSED
    names = [
        name for name in frame.columns if name != "reason" and (name != "op" or "event" not in frame.columns)
    ]
    return frame.where(~refused).select(*names), frame.where(refused).drop("score", "rank")


def read_inputs(engine: Engine, frames: Mapping[str, Any], seq: str, *, history: bool) -> dict[str, Source]:
    """The DataFrames of a stream, or of a history, by input, checked.

    Streams have an order, and events. A static DataFrame of anything else is a table without one, but in a
    history it may have one.
    """
    if not isinstance(engine, Engine):
        raise InputError(
            f"engine is {engine if isinstance(engine, type) else type(engine).__name__}",
            expected=f"one of: {', '.join(known_names())}",
        )
    known = {each.name: each for each in divided_spec(type(engine)).inputs}
    if len(engine):
        raise InputError("the engine has subscriptions", expected="an engine that is configured and empty")
    found = {}
    for name, frame in frames.items():
        if name not in known and frame is not None:
            raise InputError(f"{type(engine).__name__} has no {name}", where=name, expected="None")
        if name in known:
            found[name] = _read_input(known[name], frame, seq, history=history)
    for name, each in known.items():
        if each.ids_of is not None and found[name].ids != found[each.ids_of].ids:
            raise InputError(f"has other ids than the {each.ids_of}", where=name, column="id")
    return {name: found[name] for name in known}


def _read_input(of: Input, frame: Any, seq: str, *, history: bool) -> Source:
    if frame is None:
        raise InputError("is None", where=of.name, expected="a Spark DataFrame")
    ordered = of.name == "events" or bool(getattr(frame, "isStreaming", False))
    return inputs.read(of, frame, seq=seq, ordered=None if history and not ordered else ordered)


def draft(
    engine: Engine, given: Mapping[str, Source], score: str | None, shards: tuple[int, ...], *, told: bool
) -> Plan:
    """A plan without zones and without a beginning; checks the columns of every input on the way."""
    reference = reference_of(engine, score)
    inputs.check(engine, given_of(type(engine), reference), given)
    header, _ = engine.state()
    ids = {name: each.ids for name, each in given.items()}
    return Plan(name_of(type(engine)), header["settings"], reference, ids, shards, None, {}, None, told)


def begin(plan_: Plan, engine: Engine, depot: Depot) -> tuple[Plan, str]:
    """Write the empty engine, with which every shard begins; return the folder of this attempt, too."""
    folder = f"{plan.INITIAL}/{uuid.uuid4().hex[:12]}"
    bootstrap.write_engine(depot, f"{folder}/empty", engine)
    names = {str(shard): f"{folder}/empty" for shard in plan_.shards}
    return replace(plan_, initial=names), folder


def _made_for(engine: Engine, output: str) -> Engine:
    """An empty engine with the settings of another, which must be empty, too, that answers with an output."""
    kind = answering(type(engine), output)
    if kind is type(engine):
        return engine
    if len(engine):
        raise InputError("the engine has subscriptions", expected="an engine that is configured and empty")
    return kind.configured(engine.state()[0]["settings"])


def how_many(spec: Spec, shards: int | None, spark: Any) -> int:
    """How many shards a stream is to have: as many as there are cores, if nobody says."""
    wanted = None if shards is None else schema.whole("shards", shards)
    if not spec.is_alone:
        return sessions.cores(spark) if wanted is None else wanted
    if wanted not in (None, 1):
        raise InputError(
            f"shards is {wanted}",
            expected="1",
            detail=f"The {spec.answer.kind} are one sequence, made where all rows are.",
        )
    return 1


def _planned(
    engine: Engine,
    given: Mapping[str, Source],
    streams: Mapping[str, Source],
    depot: Depot,
    uri: str,
    shards: int | None,
    score: str | None,
    *,
    strict: bool,
) -> Plan:
    """The plan in the state, or a new one, with shards that hold the tables given."""
    spark = given["events"].frame.sparkSession
    size = how_many(type(engine).spec, shards, spark)
    there = plan.read(depot)
    if there is not None:
        wanted = draft(engine, given, score, there.shards, told=there.told)
        there.go_on(wanted, uri, shards, commands="subscriptions" in streams)
        return there
    partitions = sessions.partitions(spark)
    passing = not any(each.input.lasting for each in streams.values())
    size = 1 if passing else size
    wanted = draft(engine, given, score, shard_ids(size, partitions), told=False)
    fresh, folder = begin(wanted, engine, depot)
    tables = [each for name, each in given.items() if name not in streams]
    if tables:
        if "subscriptions" not in streams:
            zones = bootstrap.zones_of(fresh.kind, fresh.settings, given["subscriptions"], size)
            fresh = replace(fresh, zones=zones)
        fresh = bootstrap.make(tables, fresh, engine, uri, folder, strict=strict, partitions=partitions)
    fresh = without_shards(fresh) if passing else fresh
    plan.write(depot, fresh)
    return fresh


def without_shards(made: Plan) -> Plan:
    """The plan of a stream of which nothing stays, from one whose shards all hold the same."""
    return replace(made, shards=(), zones=None, initial={plan.ONLY: made.initial[str(made.shards[0])]})
