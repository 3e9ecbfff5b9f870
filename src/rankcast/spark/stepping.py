"""One batch of one shard, from packed rows to the table that comes out: all of it but Spark.

The bytes of a batch hold everything its answer depends on, so that it can be replayed: the rows of each input
and, as `clock`, the highest sequence number that all answers reflect.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rankcast.engines.base import Engine
from rankcast.spark import answers, applying
from rankcast.spark.keeping import Aside
from rankcast.spark.packing import NO_SEQ
from rankcast.spark.plan import Plan
from rankcast.spark.roles import ROLES
from rankcast.state import batches
from rankcast.state.depot import Depot

CLOCK = "clock"
REFUSED_FILE = "refused"


class Stepping:
    """How a shard of a plan applies a batch.

    Attributes:
        candidates: how many candidates the last batch had tried.
    """

    def __init__(self, plan: Plan, shard: int, depot: Depot, *, strict: bool) -> None:
        self._plan = plan
        self._depot = depot
        self._shard = shard
        self._strict = strict
        self._roles = ROLES[plan.kind]
        self._form = answers.schema(plan.kind, plan.ids)
        self.candidates = 0

    def clock(self, before: int, tops: Mapping[str, int]) -> tuple[int, int]:
        """The sequence number that all answers of a batch reflect, and that the next batch begins with.

        Args:
            before: what this batch begins with.
            tops: by input, the highest of this batch.
        """
        lasting = [role.name for role in self._roles if role.lasting]
        after = max([before, *(top for name, top in tops.items() if name in lasting)])
        return (after if len(lasting) == len(self._roles) else before), after

    def encode(self, inputs: Mapping[str, pa.Table], seq: int) -> bytes:
        """The canonical bytes of a batch: rows in order by input, and the clock."""
        clock = pa.table({"seq": pa.array([None if seq == NO_SEQ else seq], pa.int64())})
        rows = [(role.name, inputs[role.name]) for role in self._roles if role.name in inputs]
        calls = [CLOCK, *(role.name for role in self._roles)]
        return batches.encode(batches.commands_of([(CLOCK, clock), *rows], calls))

    def answer_of(self, engine: Engine, data: bytes, number: int) -> bytes:
        """Apply the bytes of a batch; the bytes of its answer."""
        (_, clock), *rows = batches.decode(data)
        before = engine.stats()["candidates"]
        first = number == 1 and not self._plan.told
        aside = aside_of(self._plan, self._shard, strict=self._strict)
        seq = clock["seq"][0].as_py()
        kept = applying.apply(engine, dict(rows), self._roles, aside, clock=seq, first=first)
        self.candidates = engine.stats()["candidates"] - before
        table = answers.table(kept, self._form)
        if first:
            table = pa.concat_tables([table, self._refused_before()])
        return batches.to_bytes(table.combine_chunks())

    def _refused_before(self) -> pa.Table:
        """Rows that were refused when the shard was made."""
        name = f"{self._plan.genesis[str(self._shard)]}/{REFUSED_FILE}"
        return (
            batches.from_bytes(self._depot.get(name))
            if self._depot.exists(name)
            else self._form.empty_table()
        )


def aside_of(plan: Plan, shard: int, *, strict: bool) -> Aside:
    """What takes the rows that a shard refuses; of rows that every shard gets, the first shard tells.

    All shards refuse the same of those: engines check them against themselves and against what every shard
    has, and `rankcast.spark.reach` sees to it that no query of one shard alone has a say.
    """
    return Aside(strict=strict, told=shard == plan.shards[0])
