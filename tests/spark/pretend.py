"""All of the Spark runtime but Spark: packed rows, a state store that commits or gives up, and hosts.

Shards run through the very processor that Spark runs, over a store that is a dict. So the laws and thousands
of faults are tried in seconds, without a JVM.
"""

from __future__ import annotations

import copy
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from rankcast.core.engine import Engine
from rankcast.core.spec import changed_settings, name_of, reference_of
from rankcast.spark import bootstrap, scratch, shard
from rankcast.spark.bootstrap import Making
from rankcast.spark.inputs import COPY
from rankcast.spark.packing import _SCHEMA, Packing, point_column, shard_ids
from rankcast.spark.plan import Plan, learn
from rankcast.spark.resharding import Collecting, Dividing, planned, zones_for
from rankcast.spark.shard import Limits, ShardProcessor, Store
from rankcast.state.depot import Depot
from rankcast.state.shard_cache import Standing
from tests.spark.stories import Batch, Row, Story, told_of

LIMITS = Limits(batches=3, bytes=1 << 20, retain=2)


class Entries:
    """The state of one shard: a map from numbers to bytes."""

    def __init__(self, state: dict[Any, Any]) -> None:
        self._state = state

    def updateValue(self, key: Any, row: Any) -> None:  # noqa: N802
        self._state[key] = row

    def getValue(self, key: Any) -> Any:  # noqa: N802
        return self._state.get(key)

    def removeKey(self, key: Any) -> None:  # noqa: N802
        self._state.pop(key, None)

    def clear(self) -> None:
        self._state.clear()

    def iterator(self) -> Iterator[Any]:
        return iter(list(self._state.items()))


class Handle:
    """What Spark gives a processor."""

    def __init__(self, state: dict[Any, Any]) -> None:
        self._state = state

    def getMapState(self, name: str, key: Any, schema: Any) -> Entries:  # noqa: N802
        return Entries(self._state)


class GivenUpError(Exception):
    """An attempt that the store does not commit."""


class Cluster:
    """A stream over a story, with so many shards; `outputs` are what was committed."""

    def __init__(
        self,
        story: Story,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        shards: int = 2,
        limits: Limits = LIMITS,
        strict: bool = False,
        depot: Depot | None = None,
    ) -> None:
        self.story = story
        self.folder = folder
        self.limits = limits
        self.strict = strict
        self.state = str(folder / "state")
        self.query = str(uuid.uuid4())
        self.batch = 0
        self.outputs: list[pa.Table] = []
        self.metrics: list[dict[str, Any]] = []
        self.depot = depot or Depot.open(self.state)
        self._patch = monkeypatch
        monkeypatch.setattr(shard, "query_and_batch", lambda: (self.query, self.batch))
        monkeypatch.setattr(shard, "depot_of", lambda _: self.depot)
        self.move("first")
        self.plan = self._planned(shards)
        self.store: dict[int, dict[Any, Any]] = {each: {} for each in self.plan.shards}

    def move(self, host: str) -> None:
        """Let the next shards run on another host."""
        place = self.folder / "hosts" / host
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._patch.setenv(scratch.VARIABLE, str(place))

    def run(self, batch: Batch) -> None:
        """One micro-batch, committed."""
        packed = self.packed(batch)
        for each in self.plan.shards:
            self.commit(each, packed)
        self.batch += 1

    def commit(self, each: int, packed: pd.DataFrame) -> None:
        """One shard's part of a micro-batch, committed."""
        state, output, told = self.attempt(each, packed)
        self.store[each] = state
        self.outputs.append(output)
        self.metrics.append(told)

    def attempt(self, each: int, packed: pd.DataFrame) -> tuple[dict[Any, Any], pa.Table, dict[str, Any]]:
        """What a shard makes of its part of a micro-batch: the state it would have, and its output."""
        import json

        state = copy.deepcopy(self.store[each])
        processor = ShardProcessor(self.plan.to_json(), self.state, strict=self.strict, limits=self.limits)
        processor.init(Handle(state))
        mine = packed[packed["shard"] == each]
        frames = list(processor.handleInputRows((each,), [mine], None))
        answer = pa.Table.from_batches(
            [pa.RecordBatch.from_pandas(frame, preserve_index=False) for frame in frames]
        )
        told = json.loads(answer["metrics"][-1].as_py())
        return state, answer.slice(0, answer.num_rows - 1), told

    def standing(self, each: int) -> Standing:
        """Where the state store has a shard."""
        memory = Store(Entries(self.store[each])).recall()
        assert memory is not None
        return memory.standing

    def packed(self, batch: Batch) -> pd.DataFrame:
        """A micro-batch, packed from partitions of a few rows."""
        inputs = {each.name: each for each in self.story.make().spec.inputs}
        found: list[pa.RecordBatch] = []
        for name, rows in batch.items():
            form = self.story.schema(name)
            table = pa.Table.from_pylist(rows, schema=form)
            packing = Packing(
                name,
                self.plan.shards,
                inputs[name].divided,
                "seq",
                len(inputs[name].calls) > 1,
                beyond=self.plan.cut,
            )
            for start in range(0, len(rows), 7):
                found += packing(table.slice(start, 7).to_batches())
        frame = pa.Table.from_batches(found).to_pandas() if found else pd.DataFrame(columns=_SCHEMA.names)
        return frame.sample(frac=1, random_state=self.batch)

    def migrate(self, make: Any) -> None:
        """Go on with the settings of another engine."""
        engine = make()
        settings = engine.state()[0]["settings"]
        changed_settings(type(engine), self.plan.settings, settings)
        self.reshard(len(self.plan.shards), settings=settings)

    def reshard(self, size: int, partitions: int = 2, settings: Any = None, loads: Any = None) -> None:
        """Go on with so many shards, in a new state; the state store stays what it is."""
        here = str(self.folder / f"state-{uuid.uuid4().hex[:6]}")
        collecting = Collecting(self.plan.to_json(), self.state, here, "former")
        kept = [
            collecting(each, {number: bytes(row[0]) for (number,), row in self.store.get(each, {}).items()})
            for each in self.plan.shards
        ]
        depot = Depot.open(here)
        split = zones_for(depot, "former", self.plan, size, loads)
        shards = shard_ids(size, partitions)
        dividing = Dividing(self.plan.to_json(), here, "former", "genesis/b", shards, split, settings)
        names = [dividing(each) for each in shards]
        self.plan = planned(self.plan, shards, split, names, [each.seq for each in kept], settings)
        self.state, self.depot = here, depot
        self.store |= {each: {} for each in shards if each not in self.store}

    def told(self) -> list[tuple[Any, ...]]:
        """All committed deltas, without refused rows, as the story tells them."""
        rows = [row for table in self.outputs for row in table.to_pylist()]
        return sorted((told_of(row) for row in rows if row["op"] != "refused"), key=str)

    def refused(self) -> list[Row]:
        """All refused rows, by sequence number."""
        rows = [row for table in self.outputs for row in table.to_pylist() if row["op"] == "refused"]
        return sorted(rows, key=lambda row: (row["seq"] is None, row["seq"]))

    def _planned(self, size: int) -> Plan:
        engine = self.story.make()
        ids = {
            name: "string" if columns["id"] == pa.string() else "long"
            for name, columns in self.story.columns.items()
        }
        score = reference_of(engine, None)
        settings = engine.state()[0]["settings"]
        plan = Plan(
            name_of(type(engine)), settings, score, ids, shard_ids(size, 2), None, {}, None, told=False
        )
        bootstrap.write_engine(self.depot, "genesis/a/empty", engine)
        names = {str(each): "genesis/a/empty" for each in plan.shards}
        if self.story.tables:
            plan, names = self._with_tables(plan, names, engine, size)
        return Plan(**{**vars(plan), "initial": names})

    def _with_tables(
        self, plan: Plan, names: dict[str, str], engine: Engine, size: int
    ) -> tuple[Plan, dict[str, str]]:
        tables = {
            name: pa.Table.from_pylist(rows, schema=self.story.schema(name))
            for name, rows in self.story.tables.items()
        }
        axes = engine.spec.axes(plan.settings)
        if axes:
            points = [point_column(tables["subscriptions"], name, missing) for name, missing in axes]
            zones = learn(pd.DataFrame(points).T.to_numpy(), size)
            plan = Plan(**{**vars(plan), "zones": zones})
        packed = []
        for of in engine.spec.inputs:
            if of.name in tables:
                rows = tables[of.name]
                rows = rows.append_column(COPY, pa.array([1] * rows.num_rows))
                split = plan.zones if of.name == "subscriptions" else None
                packed += list(
                    Packing(of.name, plan.shards, of.divided, None, False, axes, split)(rows.to_batches())
                )
        joined = pa.Table.from_batches(packed)
        making = Making(plan.to_json(), engine.state(), self.strict, self.state, "genesis/a")
        with self._patch.context() as patch:
            patch.setattr(Depot, "open", staticmethod(lambda _: self.depot))
            for each in plan.shards:
                made = making(joined.filter(pa.compute.equal(joined["shard"], each)))
                names = {**names, str(each): made["name"][0].as_py()}
        return plan, names


def settle() -> None:
    """Wait for snapshots that are being written."""
    for thread in threading.enumerate():
        if thread.name == "rankcast-snapshot":
            thread.join()
