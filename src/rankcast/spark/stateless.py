"""Streams without state: events of which nothing stays, against tables that do not change.

Where a stream has no input whose rows answers to later rows reflect (`Input.lasting`), what comes of an event
depends on it and on the tables alone. So there is nothing to commit, nothing to send to the one place that
has it, and no order to keep: every task answers the rows that it reads. Its plan has no shards; the engine
that holds the tables is written once, copied once to every host and mapped by every Python worker, which
keeps it from task to task. A stream is then as parallel as its source: one task a partition of it.

Answers, refused rows and `seq` are those of `rankcast.spark.applying`. What guarantee the sink has is that of
the stream. With `trace`, a row is named by what it is an answer to, so that it has the same name wherever it
is made again: `shard` is the `seq` of the event and `n` the place among its matches from 0, -1 for a refused
event. Rows without a `seq` (events that have none, rows that the tables were refused) have a negative `shard`
by task.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812

from rankcast.core.engine import Engine
from rankcast.spark import applying, scratch, shard
from rankcast.spark.applying import REFUSED_FILE, Refusals, by_seq
from rankcast.spark.inputs import Source
from rankcast.spark.packing import Packing
from rankcast.spark.plan import ONLY, TRACED, Plan
from rankcast.spark.shard import METRICS, without_raw
from rankcast.state import batches
from rankcast.state.checkpoint import mark_of
from rankcast.state.shard_cache import Live, Place

TRACE = ", query string, batch long, shard long, n long, raw binary"
_TRACE = {
    "query": pa.string(),
    "batch": pa.int64(),
    "shard": pa.int64(),
    "n": pa.int64(),
    "raw": pa.binary(),
}
_SUMS = ("rows", "deltas", "refused", "candidates")
_TIMES = ("seconds", "restore_seconds")
_KEPT: dict[tuple[str, str], Engine] = {}  # the engine of this process, by plan and query


@dataclass(frozen=True)
class Answering:
    """Answers the events of one partition; called with its Arrow batches.

    Attributes:
        plan: the plan, as text.
        state: the URI of snapshots.
        packing: how rows are read.
        strict: raise at the first bad row.
        trace: tell of every row where it comes from.
    """

    plan: str
    state: str
    packing: Packing
    strict: bool
    trace: bool

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The answers to each batch; then one row with counters, which nobody sees."""
        started = time.perf_counter()
        plan, *_ = shard.parsed_plan(self.plan)
        query, batch = shard.query_and_batch()
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        engine, how, restoring = self._engine(query)
        form = self._form(plan)
        before = engine.stats()["candidates"]
        told = dict.fromkeys(_SUMS, 0)
        unnamed = 0  # rows without a number, so far
        tables = self._refused_before(plan) if batch == 0 and task == 0 and not plan.told else None
        for whole, answer in self._answers(engine, parts, tables, plan):
            refused = pc.sum(pc.equal(answer["op"], applying.REFUSED)).as_py() or 0
            told["rows"] += whole.num_rows
            told["deltas"] += answer.num_rows - refused
            told["refused"] += refused
            if self.trace:
                answer = named(answer, whole, query, batch, task, unnamed)  # noqa: PLW2901
                unnamed += answer["seq"].null_count
            yield from _batches(answer, form, None)
        told["candidates"] = engine.stats()["candidates"] - before
        spent = {"seconds": round(time.perf_counter() - started, 6), "restore_seconds": round(restoring, 6)}
        yield from _batches(None, form, json.dumps({"how": how, **told, **spent}))

    def _answers(
        self, engine: Engine, parts: Iterable[pa.RecordBatch], tables: pa.Table | None, plan: Plan
    ) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Rows as they came and what is answered to them, batch by batch; first what tables were refused."""
        form = applying.schema(type(engine).spec, plan.ids, plan.settings)
        if tables is not None and tables.num_rows:
            yield tables.slice(0, 0), tables
        for part in parts:
            whole = by_seq(self.packing.rows(part))
            if whole.num_rows:
                kept = applying.apply(
                    engine, {self.packing.input: without_raw(whole)}, Refusals(strict=self.strict)
                )
                yield whole, applying.answer_table(kept, form)

    def _engine(self, query: str) -> tuple[Engine, str, float]:
        """The engine with the tables, how it was found, and how long that took."""
        root = scratch.of_shard(query, 0)  # also says that the query is in use
        found = _KEPT.get((self.plan, query))
        if found is not None:
            return found, "hit", 0.0
        started = time.perf_counter()
        plan, _, kind, given = shard.parsed_plan(self.plan)
        depot, live = shard.depot_of(self.state), Live(root)
        mark = mark_of(depot.peek(plan.initial[ONLY]).header)
        with live.held():
            place = live.place()
            if place is None or place.token != mark.token:
                live.clear()
                copied = depot.fetch(plan.initial[ONLY], live.here)
                live.take(copied, Place(mark.number, mark.token, ""))
            engine = live.open(kind, given, mode="copy-on-write")
        _KEPT.clear()  # a worker serves one stream at a time, or finds its engine on the host again
        _KEPT[self.plan, query] = engine
        return engine, "restore", time.perf_counter() - started

    def _refused_before(self, plan: Plan) -> pa.Table | None:
        """Rows of the tables that were refused when the engine was made."""
        depot, name = shard.depot_of(self.state), f"{plan.initial[ONLY]}/{REFUSED_FILE}"
        return batches.from_bytes(depot.get(name)) if depot.exists(name) else None

    def _form(self, plan: Plan) -> pa.Schema:
        """What Spark is given: `op` is made there, from `reason`."""
        _, _, kind, _ = shard.parsed_plan(self.plan)
        form = applying.schema(kind.spec, plan.ids, plan.settings)
        fields = [field for field in form if field.name != "op"]
        fields += [pa.field(name, each) for name, each in _TRACE.items()] if self.trace else []
        return pa.schema([*fields, pa.field(METRICS, pa.string())])


def named(answer: pa.Table, whole: pa.Table, query: str, batch: int, task: int, unnamed: int) -> pa.Table:
    """An answer with the columns that name its rows, and what refused rows were as they came."""
    answer = shard.traced(answer, [whole], query, batch)
    refused = pc.equal(answer["op"], applying.REFUSED).to_numpy(zero_copy_only=False)
    lacking = answer["seq"].is_null().to_numpy()
    place = np.where(refused, -1, answer["rank"].fill_null(0).to_numpy() - 1)
    place[lacking] = np.arange(unnamed, unnamed + lacking.sum())
    home = np.where(lacking, -1 - task, answer["seq"].fill_null(0).to_numpy())
    at = answer.column_names.index("n")
    return answer.set_column(at, "n", pa.array(place)).append_column("shard", pa.array(home))


def _batches(answer: pa.Table | None, form: pa.Schema, counters: str | None) -> list[pa.RecordBatch]:
    if answer is None:
        return list(pa.Table.from_pylist([{METRICS: counters}], schema=form).to_batches())
    answer = answer.append_column(METRICS, pa.nulls(answer.num_rows, pa.string()))
    return list(answer.select(form.names).cast(form).combine_chunks().to_batches())


def answers(source: Source, plan: Plan, state: str, *, strict: bool, trace: bool, observed: str) -> Any:
    """The answers of a plan without shards, as a streaming DataFrame; `observed` names their counters."""
    _, _, kind, _ = shard.parsed_plan(plan.to_json())
    columns = applying.columns(kind.spec, plan.ids, plan.settings)
    packing = Packing(source.input.name, (), True, source.seq, source.op, beyond=plan.cut)
    answering = Answering(plan.to_json(), state, packing, strict, trace)
    form = ", ".join(f"{name} {each}" for name, each in columns.items() if name != "op")
    form += (TRACE if trace else "") + f", {METRICS} string"
    out = source.frame.mapInArrow(answering, form).observe(observed, _counters().alias("shard_0"))
    op = F.when(F.col("reason").isNull(), applying.MATCH).otherwise(applying.REFUSED)
    named_columns = [op.alias("op") if name == "op" else F.col(name) for name in columns]
    return out.where(F.col(METRICS).isNull()).select(*named_columns, *(TRACED if trace else ()))


def _counters() -> Any:
    """The counters of all tasks of a micro-batch, added up, as those of one shard."""
    kinds = [f"{name} long" for name in _SUMS] + [f"{name} double" for name in _TIMES]
    each = F.from_json(F.col(METRICS), ", ".join(["how string", *kinds]))
    sums = [F.sum(each[name]).alias(name) for name in (*_SUMS, *_TIMES)]
    nothing = [F.lit(0).alias(name) for name in ("snapshot_bytes", "log_bytes")]
    return F.to_json(F.struct(F.max(each["how"]).alias("how"), *sums, *nothing))
