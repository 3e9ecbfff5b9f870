"""Running batches on an engine, the first time and again: both must come to the same.

Recovery trusts nothing it reads: each batch must follow the one before (number and token), its token must be
the hash of its bytes, and the answer it gives now must be the answer that was given then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol, Self

import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import FunctionError, InputError, JournalError, ShardError
from rankcast.state import batches
from rankcast.state.batches import Command
from rankcast.state.checkpoint import Mark
from rankcast.state.journal import Journal, Record


class Engine(Protocol):
    """What a shard asks of an engine; all engines of the package have it."""

    calls: ClassVar[tuple[str, ...]]

    def check_rows(self, call: str, rows: Any) -> None:
        """Refuse what rows of a call hold that would be lost where they become an Arrow table."""

    def apply(self, commands: Iterable[Command], /) -> pa.Table:
        """Apply commands in order and answer with their net change; deterministic."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON header, with the key `settings`, and the arrays; not copied."""

    @classmethod
    def restore(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], **given: Any) -> Self:
        """An engine that goes on from a state."""


def refused_at_the_door(engine: Engine, error: InputError) -> bool:
    """Whether a single call that raised has certainly changed nothing.

    Rows are checked before anything changes. A function of one's own may fail later: an engine takes such a
    change back as far as anybody can see, but not to the last bit. One `in_doubt` does not count at all.
    """
    return not isinstance(error, FunctionError) and not getattr(engine, "in_doubt", False)


def run(engine: Engine, data: bytes) -> bytes:
    """The answer of an engine to a batch, both as bytes.

    The engine is given the batch as decoded from its bytes, never the caller's own tables, so that it sees
    the same when the batch is replayed.
    """
    answer = engine.apply(batches.decode(data))
    return batches.to_bytes(answer)


def replay(journal: Journal, engine: Engine, mark: Mark) -> tuple[Mark, int]:
    """Apply the batches after `mark` to an engine that is there; return where it ends, and their size."""
    mark, size = repeat(journal.after(mark.number), lambda record: run(engine, record.batch or b""), mark)
    newest = journal.newest()
    if mark != newest and (newest is not None or mark.number > 0):
        raise JournalError("the journal does not go on from the snapshot")
    return mark, size


def repeat(
    records: Iterable[Record],
    answer_of: Callable[[Record], bytes],
    mark: Mark,
    *,
    same: Callable[[bytes, bytes], bool] | None = None,
) -> tuple[Mark, int]:
    """Run the batches after `mark` again; return where that ends, and their size.

    Args:
        records: the batches, in order.
        answer_of: runs one of them.
        mark: where the engine stands.
        same: whether two answers are the same; by default, whether they are the same table.
    """
    size = 0
    for record in records:
        _follows(record, mark)
        try:
            answer = answer_of(record)
        except FunctionError:  # which says nothing of the batch
            raise
        except InputError as error:
            raise _unlike(record) from error
        if answer != record.answer and not (same or _same_table)(answer, record.answer):
            raise _unlike(record)
        size += len(record.batch or b"") + len(record.answer)
        mark = Mark(record.number, record.token)
    return mark, size


def _follows(record: Record, mark: Mark) -> None:
    """Refuse a batch that is not the next one, or that is not what its token says."""
    next_one = (record.number, record.prev) == (mark.number + 1, mark.token)
    if not next_one or record.batch is None or batches.chain(mark.token, record.batch) != record.token:
        raise JournalError(
            "the journal is damaged", detail=f"Batch {record.number} does not follow batch {mark.number}."
        )


def _same_table(one: bytes, other: bytes) -> bool:
    return bool(batches.from_bytes(one).equals(batches.from_bytes(other)))


def _unlike(record: Record) -> ShardError:
    return ShardError(
        f"the shard cannot be recovered: batch {record.number} has another answer than it had",
        detail="An engine must be deterministic; it may have changed since the batch was applied.",
        hint="Open the shard with the version of rankcast that wrote it, and take a snapshot there.",
    )
