"""Long seeded histories of batches, and what must come of them: what killed shards are held to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.core.snapshot import digest
from rankcast.state import batches

from .toy_engine import ToyCounter


def toy() -> ToyCounter:
    return ToyCounter(ballast=200_000)


def toy_batch(number: int) -> Any:
    """Batch 1 subscribes; most others publish; some do several things at once."""
    rng = np.random.default_rng(number)
    if number == 1:
        return [("subscribe", {"id": np.arange(20)})]
    events = {"id": rng.integers(0, 20, 8), "add": rng.integers(0, 99, 8)}
    if number % 5:
        return events
    coming, going = 1000 + number, 1000 + number - 5
    commands = [("publish", events), ("subscribe", {"id": [coming]})]
    return commands if number == 5 else [*commands, ("unsubscribe", [going])]


def ranges() -> Any:
    from rankcast import RangeTopK

    return RangeTopK(over="x", by="y", k=3, method="scan")


def range_batch(number: int) -> Any:
    """Objects with string ids that come, move and go; subscriptions that come, change and go."""
    rng = np.random.default_rng(number)
    names = [f"object-{name}" for name in rng.integers(0, 30, 10)]
    events = {"id": names, "x": rng.integers(0, 20, 10), "y": rng.integers(0, 5, 10)}
    if number % 3:
        return events
    low = rng.integers(0, 10, 4)
    fresh = {"id": 4 * number + np.arange(4), "x_lo": low, "x_hi": low + 6}
    commands = [("subscribe", fresh), ("publish", events), ("amend", {"id": [4 * number], "x_hi": [20]})]
    return commands if number == 3 else [*commands, ("unsubscribe", 4 * (number - 3) + np.arange(3))]


MAKERS: dict[str, tuple[Callable[[], Any], Callable[[int], Any]]] = {
    "toy": (toy, toy_batch),
    "toy-small": (ToyCounter, toy_batch),
    "ranges": (ranges, range_batch),
}


@dataclass
class Reference:
    """A history applied to an engine in memory, one batch after the other, as far as asked for."""

    name: str
    tokens: list[str] = field(default_factory=list)
    answers: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        make, self._batch = MAKERS[self.name]
        self._engine = make()
        header, arrays = self._engine.state()
        self.tokens.append(batches.first_token(type(self._engine).__name__, header, arrays))
        self.answers.append(pa.table({}))
        self._states = [self.state_of(self._engine)]

    @staticmethod
    def state_of(engine: Any) -> tuple[Any, ...]:
        """The whole state of an engine, in a small form that compares."""
        header, arrays = engine.state()
        listed = {name: (array.dtype.str, array.shape, digest(array.data)) for name, array in arrays.items()}
        return json.dumps(header), listed

    def reach(self, number: int) -> None:
        """Apply batches up to this number."""
        for after in range(len(self.tokens), number + 1):
            commands = batches.commands_of(self._batch(after), self._engine.calls)
            self.tokens.append(batches.chain(self.tokens[-1], batches.encode(commands)))
            self.answers.append(self._engine.apply(commands))
            self._states.append(self.state_of(self._engine))

    def state(self, number: int) -> tuple[Any, ...]:
        """The state after so many batches."""
        return self._states[number]
