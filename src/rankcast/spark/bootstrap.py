"""Making shards by a batch job: from tables without order, and from the whole history of a stream.

Every shard applies what it is sent to a copy of the empty engine, by the same code that streams run through,
and writes a snapshot that a stream can begin with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

from rankcast.core.engine import Engine
from rankcast.core.spec import Axes, Input, engine_type, given_of
from rankcast.errors import InputError, shown
from rankcast.spark import applying
from rankcast.spark.applying import REFUSED_FILE, Refusals, Run, by_seq, refusals_of, unpack
from rankcast.spark.inputs import COPY, Source
from rankcast.spark.packing import NO_SEQ, point_column
from rankcast.spark.plan import SEQ, Plan, Split, learn
from rankcast.state import batches, checkpoint
from rankcast.state.checkpoint import Mark
from rankcast.state.depot import Depot

ANSWER_FILE = "answer"
MADE = "shard int, name string, top long"
_SAMPLE = 20_000
_MADE = pa.schema([("shard", pa.int32()), ("name", pa.string()), ("top", pa.int64())])


@dataclass(frozen=True)
class Making:
    """Makes one shard from what was packed for it; called with the Arrow table of its packed rows.

    Attributes:
        plan: the plan.
        empty: the state of the empty engine.
        strict: raise at the first bad row.
        state: where the shard's snapshot goes, and ...
        folder: ... where there; None: write nothing, give the answer back.
    """

    plan: str
    empty: tuple[Any, Any]
    strict: bool
    state: str = ""
    folder: str | None = None

    def __call__(self, packed: pa.Table) -> pa.Table:
        """The shard's answer, or where it was written."""
        plan = Plan.from_json(self.plan)
        shard = packed["shard"][0].as_py()
        header, arrays = self.empty
        copied = {name: array.copy() for name, array in arrays.items()}
        kind = engine_type(plan.kind)
        engine = kind.restore(header, copied, **given_of(kind, plan.score))
        columns = (packed[name].to_pylist() for name in ("input", "top", "data"))
        tables, tops = unpack(zip(*columns, strict=True), _ordered)
        top = max(tops.values())
        answer = run(plan, shard, engine, tables, top, strict=self.strict)
        if self.folder is None:
            return answer
        name = f"{self.folder}/{shard}"
        self._leave(Depot.open(self.state), name, engine, answer, told=plan.told)
        return pa.Table.from_pylist([{"shard": shard, "name": name, "top": top}], schema=_MADE)

    def _leave(self, depot: Depot, name: str, engine: Engine, answer: pa.Table, *, told: bool) -> None:
        """Write the shard, and of its answer what is still to be told."""
        write_engine(depot, name, engine)
        if told:
            depot.put(f"{name}/{ANSWER_FILE}", batches.to_bytes(answer))
        else:
            refused = answer.filter(pc.equal(answer["op"], applying.REFUSED))
            depot.put(f"{name}/{REFUSED_FILE}", batches.to_bytes(refused))


def run(
    plan: Plan, shard: int, engine: Engine, tables: Mapping[str, pa.Table], top: int, *, strict: bool
) -> pa.Table:
    """Apply all rows to an engine as one batch; the answer in the form of the plan's output."""
    spec = type(engine).spec
    refusals = refusals_of(plan, shard, strict=strict)
    fresh = {}
    for each in spec.inputs:
        if each.name in tables:
            rows = tables[each.name]
            if COPY in rows.column_names:
                _second(each, rows, refusals)
                rows = rows.filter(pc.equal(rows[COPY], 1)).drop_columns([COPY])
            fresh[each.name] = rows
    seq = None if top == NO_SEQ or not all(each.lasting for each in spec.inputs) else top
    kept = applying.apply(engine, fresh, refusals, clock=seq, first=True)
    return applying.answer_table(kept, applying.schema(spec, plan.ids, plan.settings)).combine_chunks()


def write_engine(depot: Depot, name: str, engine: Engine) -> None:
    """Write what a shard begins with."""
    kind, (header, arrays) = type(engine).__name__, engine.state()
    mark = Mark(0, batches.first_token(kind, header, arrays))
    depot.write(name, checkpoint.KIND, checkpoint.header_of(kind, mark, header), arrays)


def packed_of(sources: Iterable[Source], plan: Plan, partitions: int) -> Any:
    """All inputs, packed and sent to their shards."""
    axes = axes_of(plan)
    parts = [
        each.packed(plan.shards, axes=axes, split=plan.zones if each.input.name == "subscriptions" else None)
        for each in sources
    ]
    return reduce(lambda one, other: one.unionAll(other), parts).repartition(partitions, F.col("shard"))


def made_of(packed: Any, making: Making, form: str) -> Any:
    """What making every shard gives."""

    def made(rows: pa.Table) -> pa.Table:
        return making(rows)  # Spark counts the arguments of a function, and miscounts those of an object

    return packed.groupBy("shard").applyInArrow(made, form)


def make(
    sources: Iterable[Source],
    plan: Plan,
    engine: Engine,
    state: str,
    folder: str,
    *,
    strict: bool,
    partitions: int,
) -> Plan:
    """Make the shards of a plan and name them in it; those that no row was sent to begin empty."""
    making = Making(plan.to_json(), engine.state(), strict, state, folder)
    made = made_of(packed_of(sources, plan, partitions), making, MADE).toArrow().to_pylist()
    initial = {**plan.initial, **{str(row["shard"]): row["name"] for row in made}}
    top = max((row["top"] for row in made), default=NO_SEQ)
    return replace(plan, initial=initial, cut=None if top == NO_SEQ else top)


def zones_of(kind: str, settings: Mapping[str, Any], subscriptions: Source, shards: int) -> Split:
    """How to divide a table of subscriptions, learnt from a sample of it; None for engines without places."""
    axes = engine_type(kind).spec.axes(settings)
    if not axes or shards == 1:
        return None
    names = [name for name, _ in axes if name in subscriptions.frame.columns]
    if not names:
        return None
    sample = (
        subscriptions.frame.orderBy(F.xxhash64("id")).select(*(f"`{name}`" for name in names)).limit(_SAMPLE)
    )
    rows = sample.toArrow()
    return learn(np.column_stack([point_column(rows, name, missing) for name, missing in axes]), shards)


def axes_of(plan: Plan) -> Axes:
    """The columns of a subscription that say where it is, if it is divided by zones."""
    return engine_type(plan.kind).spec.axes(plan.settings) if plan.zones is not None else ()


def _ordered(rows: pa.Table) -> pa.Table:
    """Rows by sequence number, or, in a table without, by id."""
    return by_seq(rows) if SEQ in rows.column_names else rows.sort_by([("id", "ascending")])


def _second(of: Input, rows: pa.Table, refusals: Refusals) -> None:
    """Set rows of a table aside whose id another row has."""
    second = Run(of, "", rows.filter(pc.greater(rows[COPY], 1)))
    for row, name in enumerate(second.rows["id"].to_pylist()):
        what = f"is {shown(name)} a second time"
        refusals.put(second, row, InputError(what, where=of.name, column="id", expected="each id once"))
