"""What Spark's state store keeps of a shard: one map from numbers to bytes.

Under the number of a batch is its record, until a snapshot covers it; under 0, since batches count from 1, is
where the shard stands. Spark makes encoders for every column of every variable of the store, in every task,
which costs more than a small batch: so there is one variable, and it has one column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rankcast.state.hosted import Standing
from rankcast.state.journal import Record

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
    head = bytes.fromhex(record.prev) + bytes.fromhex(record.token) + record.answer
    return head + (record.batch or b"")


def _record(number: int, data: bytes) -> Record:
    prev, token, answer = (data[at : at + _HASH] for at in range(0, 3 * _HASH, _HASH))
    return Record(number, prev.hex(), token.hex(), data[3 * _HASH :], answer)
