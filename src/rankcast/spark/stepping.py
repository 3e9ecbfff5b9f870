"""One batch of one shard, from packed rows to the table that comes out: all of it but Spark.

The bytes of a batch hold everything that stays of it, so that it can be replayed: the rows of each input and,
as `clock`, the highest sequence number that all answers reflect. Of events that are matched nothing stays:
the bytes have a checksum in place of them, which tells batches apart, and the log stays short.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rankcast.core import snapshot
from rankcast.core.engine import Engine
from rankcast.spark import answers, applying
from rankcast.spark.keeping import Aside
from rankcast.spark.packing import NO_SEQ
from rankcast.spark.plan import Plan
from rankcast.spark.roles import ROLES
from rankcast.state import batches
from rankcast.state.depot import Depot

CLOCK = "clock"
PASSING = "passing"  # instead of rows of which nothing stays
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
        self._passing: dict[str, tuple[str, pa.Table]] = {}  # by checksum: input and rows
        self.candidates = 0

    @property
    def whole(self) -> bool:
        """Whether the bytes of the batch hold all its rows."""
        return not self._passing

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
        names = [role.name for role in self._roles if role.name in inputs]
        rows = batches.commands_of([(name, inputs[name]) for name in names], names)
        fleeting = [role.name for role in self._roles if not role.lasting]
        for place, (name, table) in enumerate(rows):
            if name in fleeting:
                checksum = snapshot.digest(batches.to_bytes(table))
                self._passing[checksum] = (name, table)
                rows[place] = (PASSING, pa.table({"checksum": [checksum]}))
        return batches.encode([(CLOCK, clock), *rows])

    def answer_of(self, engine: Engine, data: bytes, number: int) -> bytes:
        """Apply the bytes of a batch; the bytes of its answer."""
        (_, clock), *rows = [self._passed(*command) for command in batches.decode(data)]
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

    def _passed(self, name: str, rows: pa.Table) -> tuple[str, pa.Table]:
        """The rows that a checksum stands for; none if they passed in an earlier batch."""
        return (
            self._passing.get(rows["checksum"][0].as_py(), (name, rows)) if name == PASSING else (name, rows)
        )

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
    has; queries, of which each shard has its own, have no say (`rankcast.moving.engine`).
    """
    return Aside(strict=strict, told=shard == plan.shards[0])
