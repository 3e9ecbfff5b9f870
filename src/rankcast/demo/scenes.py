"""What a demonstration plays: an engine, those who follow it, and the calls that come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from rankcast.core.engine import Engine
from rankcast.errors import plain

NAMES = ("stocks", "ads", "news", "taxi", "hotels", "router")

Row = dict[str, Any]


@dataclass(frozen=True)
class Scene:
    """One demonstration.

    Attributes:
        title: what is shown, in a line.
        engine: the engine, its first subscriptions and items in place.
        calls: what comes, batch after batch: (call, rows).
        columns: headings of the live table.
        tell: a row of an answer as cells of that table, None if it is not worth showing.
    """

    title: str
    engine: Engine
    calls: Iterator[tuple[str, Any]]
    columns: tuple[str, ...]
    tell: Callable[[Row], tuple[str, ...] | None]


def build(name: str, *, batches: int, seed: int = 7, variant: dict[str, Any] | None = None) -> Scene:
    """The scene of that name with so many batches, its engine under a variant if one is given."""
    module = import_module(f"rankcast.demo.{name}")
    scene: Scene = module.scene(np.random.default_rng(seed), batches, **(variant or {}))
    return scene


PEOPLE = ("Ada", "Bela", "Chen", "Dina", "Emil", "Fay", "Goran", "Hana", "Ilir", "Juno", "Kofi", "Lena")


def tell_change(row: Row) -> tuple[str, ...] | None:
    """A delta of a subscriber with a name; deltas of the crowd are only counted."""
    if not str(row["subscription"])[0].isalpha() or row["subscription"].startswith("user "):
        return None
    signs = {"enter": "[green]+ enters[/]", "leave": "[red]- leaves[/]", "update": "[yellow]~ changes[/]"}
    score = "" if row["score"] is None else f"{row['score']:.2f}"
    rank = "" if row["rank"] is None else f"#{row['rank']}"
    return cell(row["subscription"]), signs[row["op"]], cell(row["item"]), rank, score


def cell(value: object) -> str:
    """An id in a cell: no markup of its own, and escapes for what does not print."""
    from rich.markup import escape  # noqa: PLC0415

    return escape(plain(str(value)))


CHANGE_COLUMNS = ("who", "change", "item", "rank", "score")


def crowd(size: int) -> list[str]:
    """Names of subscribers: a few people, then numbered users."""
    return [*PEOPLE[:size], *(f"user {place}" for place in range(len(PEOPLE), size))]
