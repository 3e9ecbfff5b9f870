"""A shard behind Spark's stateful operator; `ShardProcessor` is the one place that knows its API.

Spark's state store holds, for each shard, where it stands and the log of batches since its last snapshot; the
arrays are on the host (`rankcast.state.shard_cache`). What the store commits with a micro-batch is all
there is to know: if the task fails or the host is lost, the next attempt begins from there.

The store has one map from numbers to bytes. Under the number of a batch is its record, until a snapshot
covers it; under 0, since batches count from 1, is where the shard stands. Spark makes encoders for every
column of every variable of the store, in every task, which costs more than a small batch: so there is one
variable, and it has one column.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from rankcast.core.spec import engine_type, given_of
from rankcast.errors import ShardError
from rankcast.spark import applying, scratch
from rankcast.spark.applying import BatchRunner, by_seq, unpack
from rankcast.spark.packing import NO_SEQ
from rankcast.spark.plan import RAW, REASON, SEQ, Plan
from rankcast.state import batches
from rankcast.state.checkpoint import Mark, mark_of
from rankcast.state.depot import Depot
from rankcast.state.journal import Record
from rankcast.state.shard_cache import Hosted, Live, Note, Standing, Step, Uploader

_HERE = 0
_HASH = 32  # bytes of a token, and of the checksum of an answer


@dataclass
class Memory:
    """Where a shard stands.

    Attributes:
        plan: the name of its plan.
        standing: its last batch and its last snapshot.
        sizes: bytes of each batch in the log.
        retired: snapshots before the last, and the micro-batch that let go of each.
        seq: highest sequence number of all rows that came in and that later answers reflect.
    """

    plan: str
    standing: Standing
    sizes: list[int]
    retired: list[tuple[str, int]]
    seq: int

    def to_bytes(self) -> bytes:
        """As the state store keeps it."""
        return json.dumps({**vars(self), "standing": vars(self.standing)}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Memory:
        """What `to_bytes` gave."""
        told = json.loads(data)
        retired = [(str(name), int(batch)) for name, batch in told["retired"]]
        return cls(**{**told, "standing": Standing(**told["standing"]), "retired": retired})


class Store:
    """The state store's map of the shard whose turn it is."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def recall(self) -> Memory | None:
        """Where the shard stands, None if it has not begun."""
        data = self._get(_HERE)
        return None if data is None else Memory.from_bytes(data)

    def keep(self, memory: Memory, record: Record) -> None:
        """Remember one batch more, and where the shard stands now."""
        self._put(record.number, _packed(record))
        self._put(_HERE, memory.to_bytes())

    def clear(self) -> None:
        """Forget the shard: it begins anew."""
        self._state.clear()

    def token(self, number: int) -> str | None:
        """The token after a batch that is in the log."""
        data = self._get(number)
        return None if data is None else _record(number, data).token

    def records(self) -> Iterator[Record]:
        """The log, in no order."""
        for (number,), (data,) in self._state.iterator():
            if number != _HERE:
                yield _record(int(number), bytes(data))

    def forget(self, numbers: Iterable[int]) -> None:
        """Take batches out of the log."""
        for number in numbers:
            self._state.removeKey((number,))

    def _get(self, number: int) -> bytes | None:
        row = self._state.getValue((number,))
        return None if row is None else bytes(row[0])

    def _put(self, number: int, data: bytes) -> None:
        self._state.updateValue((number,), (bytearray(data),))


def _packed(record: Record) -> bytes:
    head = bytes.fromhex(record.prev) + bytes.fromhex(record.token) + record.digest
    return head + (record.batch or b"")


def _record(number: int, data: bytes) -> Record:
    prev, token, digest = (data[at : at + _HASH] for at in range(0, 3 * _HASH, _HASH))
    return Record(number, prev.hex(), token.hex(), data[3 * _HASH :], digest)


_ROWS_A_FRAME = 50_000


class Hosting:
    """Runs shards of a plan; one object serves all shards of a task, one after the other.

    Args:
        plan: the plan, as text.
        state: the URI of snapshots.
        strict: raise at the first bad row.
        limits: when to write snapshots.
        store: the state store's map of the shard whose turn it is.
        trace: tell of every row where it comes from.
    """

    def __init__(
        self, plan: str, state: str, *, strict: bool, limits: Limits, store: Any, trace: bool = False
    ) -> None:
        self._plan, self._name, self._kind, self._given = parsed_plan(plan)
        self._state = state
        self._strict = strict
        self._limits = limits
        self._store = Store(store)
        self._trace = trace

    def run(self, shard: int, rows: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Apply what a micro-batch has for one shard."""
        started = time.perf_counter()
        packed = [
            row for frame in rows for row in zip(frame["input"], frame["top"], frame["data"], strict=True)
        ]
        whole, tops = unpack(packed, by_seq)
        inputs = {name: without_raw(table) for name, table in whole.items()}
        depot = depot_of(self._state)
        memory = self._remember(shard, depot)
        runner = BatchRunner(self._plan, self._kind.spec, shard, depot, strict=self._strict)
        clock, memory.seq = runner.clock(memory.seq, tops)
        data = runner.encode(inputs, clock)
        step, told = self._step(shard, depot, runner, memory, data)
        answer = batches.from_bytes(step.answer)
        refused = pc.sum(pc.equal(answer["op"], applying.REFUSED)).as_py() or 0
        told |= {
            "how": step.how,
            "restore_seconds": round(step.seconds, 6),
            "rows": sum(table.num_rows for table in inputs.values()),
            "deltas": answer.num_rows - refused,
            "refused": refused,
            "candidates": runner.candidates,
            "seconds": round(time.perf_counter() - started, 6),
        }
        if self._trace:
            answer = traced(answer, whole.values(), *query_and_batch())
        yield from _frames(answer, shard, told)

    def _step(
        self, shard: int, depot: Depot, runner: BatchRunner, memory: Memory, data: bytes
    ) -> tuple[Step, dict[str, Any]]:
        """Apply a batch, and tell the state store."""
        query, batch = query_and_batch()
        live = Live(scratch.of_shard(query, shard))
        uploader = Uploader(live.root / "snapshot", depot, f"queries/{query}/{shard}")
        named = memory.standing.snapshot  # by what was committed; this attempt may be given up
        taken = self._adopt(memory, uploader, batch)

        def after(engine: Any, mark: Mark, size: int) -> None:
            wait = self._due(memory, mark.number, size, shard)
            if wait is not None:
                keep = [named, *(name for name, _ in memory.retired)]
                uploader.start(self._kind.__name__, mark, engine.state(), keep=keep, wait=wait)

        hosted: Hosted[Any] = Hosted(live, depot, self._kind, self._given, runner.answer_of)
        step = hosted.step(memory.standing, data, self._store.records, whole=runner.whole, after=after)
        at = memory.standing
        memory.standing = Standing(step.record.number, step.record.token, at.snapshot, at.covered)
        memory.sizes.append(len(data))
        self._store.keep(memory, step.record)
        return step, {"snapshot_bytes": taken, "log_bytes": sum(memory.sizes)}

    def _remember(self, shard: int, depot: Depot) -> Memory:
        """What the state store has of a shard, or its beginning."""
        memory = self._store.recall()
        if memory is not None and memory.plan in self._plan.former:
            self._store.clear()
            memory = None
        if memory is None:
            return beginning(self._plan, shard, depot)
        if memory.plan != self._name:
            raise ShardError(
                "the checkpoint belongs to another plan than the state",
                detail="Engine, settings, shards or first tables were others when it was begun.",
                hint="Give the stream the state URI it began with, or begin with a new checkpoint.",
            )
        return memory

    def _adopt(self, memory: Memory, uploader: Uploader, batch: int) -> int:
        """Let a snapshot that was finished meanwhile be the last one; return its bytes.

        It must be of the history that was committed: a batch that was given up may have been snapped, too.
        """
        memory.retired = [each for each in memory.retired if batch - each[1] <= self._limits.retain]
        note, at = uploader.note(), memory.standing
        if note is None or not self._is_ours(note, at):
            return 0
        self._store.forget(range(at.covered + 1, note.number + 1))
        memory.sizes = memory.sizes[note.number - at.covered :]
        if not at.snapshot.startswith("genesis/"):
            memory.retired.append((at.snapshot, batch))
        memory.standing = Standing(at.number, at.token, note.name, note.number)
        return note.bytes

    def _is_ours(self, note: Note, at: Standing) -> bool:
        if not at.covered < note.number <= at.number:
            return False
        return note.token == (at.token if note.number == at.number else self._store.token(note.number))

    def _due(self, memory: Memory, number: int, size: int, shard: int) -> bool | None:
        """Whether to write a snapshot now: None for no, True to wait for it. Shards take turns."""
        waiting, log = number - memory.standing.covered, sum(memory.sizes) + size
        limits = self._limits
        if waiting >= 4 * limits.batches or log >= 4 * limits.bytes:
            return True
        turn = (number + self._plan.shards.index(shard)) % limits.batches == 0
        return False if turn or log >= limits.bytes or waiting >= limits.batches else None


def beginning(plan: Plan, shard: int, depot: Depot) -> Memory:
    """Where a shard of a plan stands before its first batch."""
    name = plan.initial[str(shard)]
    mark = mark_of(depot.peek(name).header)
    seq = plan.clock if plan.clock is not None else plan.cut
    standing = Standing(mark.number, mark.token, name, mark.number)
    return Memory(plan.name, standing, [], [], NO_SEQ if seq is None else seq)


def without_raw(rows: pa.Table) -> pa.Table:
    """Rows as engines and logs have them: what a row was as it came is for whoever is told of a refusal."""
    return rows.drop_columns([RAW]) if RAW in rows.column_names else rows


def traced(answer: pa.Table, rows: Iterable[pa.Table], query: str, batch: int) -> pa.Table:
    """An answer with `query`, `batch`, `n`, the number of a row in it, and `raw`, what refused rows were."""
    size = answer.num_rows
    columns = {
        "query": pa.repeat(query, size),
        "batch": pa.array(np.full(size, batch, np.int64)),
        "n": pa.array(np.arange(size)),
        "raw": _raws(answer, [table for table in rows if RAW in table.column_names]),
    }
    for name, column in columns.items():
        answer = answer.append_column(name, column)
    return answer


def _raws(answer: pa.Table, rows: list[pa.Table]) -> pa.Array:
    """What refused rows were as they came, found by their number, their id and why they were refused."""
    places = np.flatnonzero(pc.equal(answer["op"], applying.REFUSED).to_numpy(zero_copy_only=False))
    found: list[bytes | None] = [None] * answer.num_rows
    refused = answer.take(pa.array(places)).to_pylist() if rows else []
    waiting: dict[tuple[Any, Any], list[tuple[str | None, bytes | None]]] = {}
    numbers = pa.array([row["seq"] for row in refused], pa.int64())
    for table in rows if refused else ():
        table = table.filter(pc.is_in(table[SEQ], value_set=numbers))  # noqa: PLW2901
        why = table[REASON].to_pylist() if REASON in table.column_names else [None] * table.num_rows
        keys = zip(table[SEQ].to_pylist(), table["id"].to_pylist(), strict=True)
        for key, *told in zip(keys, why, table[RAW].to_pylist(), strict=True):
            waiting.setdefault(key, []).append((told[0], told[1]))
    ids = [name for name in answer.column_names if name not in ("op", "score", "rank", "seq", "reason")]
    for place, row in zip(places, refused, strict=False):
        key = (row["seq"], next((row[name] for name in ids if row[name] is not None), None))
        mine = waiting.get(key, [])
        exact = [each for each in mine if each[0] == row["reason"]]
        others = [each for each in mine if each[0] is None] or (mine if len(mine) == 1 else [])
        chosen = next(iter(exact or others), None)  # a reason may be told with other characters
        if chosen is not None:
            mine.remove(chosen)
            found[place] = chosen[1]
    return pa.array(found, pa.binary())


@lru_cache(maxsize=8)
def parsed_plan(text: str) -> tuple[Plan, str, Any, dict[str, Any]]:
    """A plan, its name, its engine and what snapshots of that lack, found once in a process."""
    plan = Plan.from_json(text)
    kind = engine_type(plan.kind)
    return plan, plan.name, kind, given_of(kind, plan.score)


@lru_cache(maxsize=8)
def depot_of(state: str) -> Depot:
    """Opened once in a process: the client of an object store is not cheap."""
    scratch.tidy()
    return Depot.open(state)


def query_and_batch() -> tuple[str, int]:
    """The id of the streaming query and the number of the micro-batch that this task belongs to."""
    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context else None
    batch = context.getLocalProperty("streaming.sql.batchId") if context else None
    if query is None or batch is None:
        raise ShardError("a shard runs only inside a streaming query")
    return query, int(batch)


def _frames(answer: pa.Table, shard: int, told: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    """The answer as Spark takes it: columns stay Arrow, only their frame is pandas.

    Its last row has the counters; it is taken out again before anybody sees it.
    """
    shards, none = np.full(answer.num_rows, shard, np.int32), pa.nulls(answer.num_rows, pa.string())
    answer = answer.append_column("shard", pa.array(shards)).append_column(METRICS, none)
    row = {"shard": shard, METRICS: json.dumps(told)}
    answer = pa.concat_tables([answer, pa.Table.from_pylist([row], schema=answer.schema)])
    for start in range(0, answer.num_rows, _ROWS_A_FRAME):
        part = answer.slice(start, _ROWS_A_FRAME).combine_chunks()  # Spark takes one chunk a column
        columns = zip(part.column_names, part.columns, strict=True)
        yield pd.DataFrame(
            {name: pd.arrays.ArrowExtensionArray(column) for name, column in columns}, copy=False
        )


if TYPE_CHECKING:
    import pandas as pd

NUMBER = StructType([StructField("number", LongType())])  # as text, Spark would parse it in every task
KEPT = StructType([StructField("data", BinaryType())])
METRICS = "metrics"
STATE = "shard"  # what the map in the state store is called


@dataclass(frozen=True)
class Limits:
    """When a shard writes a snapshot, and how long old ones stay.

    Attributes:
        batches: after so many batches ...
        bytes: ... or so many bytes in the log, whichever comes first; at four times either, the batch waits.
        retain: for how many micro-batches a snapshot stays that is no longer the last.
    """

    batches: int = 64
    bytes: int = 64 << 20
    retain: int = 100


class ShardProcessor(StatefulProcessor):
    """What Spark calls; arguments as those of `rankcast.spark.shard.Hosting`."""

    def __init__(self, plan: str, state: str, *, strict: bool, limits: Limits, trace: bool = False) -> None:
        self._trace = trace
        self._plan = plan
        self._state = state
        self._strict = strict
        self._limits = limits

    def init(self, handle: Any) -> None:
        """Declare the state; Spark calls this first."""
        self._store = handle.getMapState(STATE, NUMBER, KEPT)

    def handleInputRows(  # noqa: N802
        self, key: tuple[Any, ...], rows: Iterable[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Apply what a micro-batch has for one shard."""
        hosting = Hosting(
            self._plan,
            self._state,
            strict=self._strict,
            limits=self._limits,
            store=self._store,
            trace=self._trace,
        )
        yield from hosting.run(int(key[0]), rows)

    def close(self) -> None:
        """Nothing stays open between tasks."""
