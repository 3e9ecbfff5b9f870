"""What is checked: engines, their variants, and workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from rankcast.core.engine import Engine
from rankcast.core.spec import ENGINES, engine_type

Step = tuple[str, Any]
Make = Callable[[dict[str, Any]], Engine]
Plain = Callable[[Engine, list[dict[str, Any]]], list[dict[str, Any]]]


@dataclass(frozen=True)
class Workload:
    """Settings of an engine and calls that are valid one after the other: (call, rows)."""

    settings: dict[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()


class Model(Protocol):
    """What an engine is compared with."""

    def call(self, name: str, rows: Any) -> list[dict[str, Any]] | None:
        """The expected answer of a call."""

    def results(self) -> list[dict[str, Any]] | None:
        """The expected results, None if the engine keeps none."""


@dataclass(frozen=True)
class Subject:
    """An engine under one variant."""

    family: str
    engine: type[Engine]
    variant: dict[str, Any]
    default: bool

    def make(self, settings: dict[str, Any]) -> Engine:
        """The engine with these settings."""
        return self.engine(**settings, **self.variant)

    def __str__(self) -> str:
        told = "-".join(str(value) for value in self.variant.values())
        return f"{self.family}[{told}]"


def subjects() -> Iterator[Subject]:
    """Every engine of the package under every variant it has; its first variant is the default."""
    for family, home in ENGINES.items():
        engine = engine_type(home)
        for place, variant in enumerate(engine.variants):
            yield Subject(family, engine, variant, place == 0)
