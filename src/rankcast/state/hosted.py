"""A shard whose journal is somebody else's: a store that commits, and that may send it to any host.

The store remembers little of a shard (its `Standing`) and the log of batches since the last snapshot. The
arrays live on a host (`rankcast.state.live`), as a cache. A batch finds one of three things there:

| what is there                                       | what is done                                         |
| --------------------------------------------------- | ---------------------------------------------------- |
| the arrays after the last batch committed: a hit    | map them, apply the batch                            |
| the arrays after this very batch: a redo            | answer from the receipt (an attempt was given up)    |
| anything else, or nothing: a restore                | fetch the snapshot, replay the log, apply the batch  |

Tokens tell them apart, and equal tokens mean equal histories. A batch that the store never commits leaves
arrays whose token it does not know, so they are never taken for its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from rankcast.core import snapshot as manifest
from rankcast.errors import JournalError, ShardError, SnapshotError
from rankcast.state import batches, checkpoint
from rankcast.state.batches import Token
from rankcast.state.checkpoint import Mark
from rankcast.state.depot import Depot
from rankcast.state.journal import Record
from rankcast.state.live import Live, Place
from rankcast.state.recovery import Engine, repeat

E = TypeVar("E", bound=Engine)
How: TypeAlias = Literal["hit", "redo", "restore"]
AnswerOf: TypeAlias = Callable[[E, bytes, int], bytes]
Log: TypeAlias = Callable[[], Iterable[Record]]

UNCHECKED = bytes(32)  # in a log, instead of the checksum of an answer


@dataclass(frozen=True)
class Standing:
    """What the store remembers of a shard: where it stands, and from which snapshot on its log goes."""

    number: int
    token: Token
    snapshot: str
    covered: int

    @property
    def mark(self) -> Mark:
        """Number and token of the last batch."""
        return Mark(self.number, self.token)


class Step(NamedTuple):
    """One batch applied: the record for the log (its answer is a checksum), the answer, and how it went."""

    record: Record
    answer: bytes
    how: How
    seconds: float  # that restoring took


class Hosted(Generic[E]):
    """One shard on this host.

    Args:
        live: its arrays here.
        depot: where snapshots are.
        engine: the class of the engine.
        given: what a snapshot cannot hold, passed to the engine's `restore`.
        answer_of: applies the bytes of the batch of a number to the engine; must be deterministic.
    """

    def __init__(
        self, live: Live, depot: Depot, engine: type[E], given: Mapping[str, Any], answer_of: AnswerOf[E]
    ) -> None:
        self._live = live
        self._depot = depot
        self._engine = engine
        self._given = given
        self._answer_of = answer_of

    def step(
        self,
        standing: Standing,
        data: bytes,
        log: Log,
        *,
        whole: bool = True,
        after: Callable[[E, Mark, int], None] | None = None,
    ) -> Step:
        """Apply the bytes of a batch; `after` may read the engine before anybody else changes it.

        If this raises, the arrays here do not count any more, and nothing else has changed.

        Args:
            standing: where the shard stands.
            data: the bytes.
            log: the batches since the snapshot.
            whole: whether the bytes are all that the answer depends on; if not, a replay does not compare it.
            after: called with the engine, where it stands then, and the size of the batch.
        """
        number, token = standing.number + 1, batches.chain(standing.token, data)
        with self._live.held():
            place = self._live.place()
            answer = (
                self._live.answer() if place is not None and place[1:] == (token, standing.token) else None
            )
            if answer is not None:
                record = Record(number, standing.token, token, data, checksum(answer) if whole else UNCHECKED)
                return Step(record, answer, "redo", 0.0)
            started = time.perf_counter()
            engine = self._hit() if place is not None and place.token == standing.token else None
            hit = engine is not None
            if engine is None:
                engine = self._restore(standing, log)
            seconds = 0.0 if hit else time.perf_counter() - started
            self._live.begin()
            answer = self._answer_of(engine, data, number)
            self._live.commit(engine, Place(number, token, standing.token), answer)
            if after is not None:
                after(engine, Mark(number, token), len(data))
            record = Record(number, standing.token, token, data, checksum(answer) if whole else UNCHECKED)
            return Step(record, answer, "hit" if hit else "restore", seconds)

    def _hit(self) -> E | None:
        """The engine over the arrays here, None if a file is gone or has another length."""
        try:
            return self._live.open(self._engine, self._given, ours=True)
        except SnapshotError:
            return None

    def _restore(self, standing: Standing, log: Log) -> E:
        """The engine as of the last batch committed, from the snapshot and the log."""
        self._live.clear()
        found = self._depot.fetch(standing.snapshot, self._live.here)
        mark = checkpoint.mark_of(found.header)
        if found.header["kind"] != self._engine.__name__:
            raise ShardError(
                f"{standing.snapshot} is of a {found.header['kind']}, not of a {self._engine.__name__}"
            )
        self._live.take(found, Place(mark.number, mark.token, ""))
        engine = self._live.open(self._engine, self._given)
        self._live.begin()
        records = sorted(record for record in log() if record.number > mark.number)
        mark, _ = repeat(records, lambda record: self._again(engine, record), mark, same=bytes.__eq__)
        if mark != standing.mark:
            raise JournalError(
                "the log does not go on from the snapshot to where the shard stands",
                detail=f"It ends at batch {mark.number}, the shard is at batch {standing.number}.",
            )
        return engine

    def _again(self, engine: E, record: Record) -> bytes:
        answer = self._answer_of(engine, record.batch or b"", record.number)
        return UNCHECKED if record.answer == UNCHECKED else checksum(answer)


def checksum(answer: bytes) -> bytes:
    """What a log keeps of an answer: enough to see that a replay gives the same."""
    return bytes.fromhex(manifest.digest(answer))
