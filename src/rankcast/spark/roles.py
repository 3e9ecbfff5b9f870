"""What goes into each engine, and what of it is divided over shards and what every shard gets.

| engine                        | divided over shards      | to every shard |
| ----------------------------- | ------------------------ | -------------- |
| `RangeTopK`, `GeoTextTopK`    | subscriptions            | events         |
| `RankedMatcher`               | events                   | subscriptions  |
| `MovingTopK`, `MovingSkyline` | subscriptions, positions | objects        |

Answers are joined by union: no two shards answer for the same subscription (matching: for the same event).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rankcast
from rankcast.errors import InputError

if TYPE_CHECKING:
    from rankcast.core.engine import Engine

SEQ, OP = "__seq", "__op"  # what an input's own columns for order and command are called once packed
REASON = "__reason"  # a column of any input: why a row is refused before an engine sees it, null if it is not


@dataclass(frozen=True)
class Role:
    """One input of an engine.

    Attributes:
        name: `subscriptions`, `objects` or `events`.
        calls: the calls its rows stand for; the first is what a row without a command means.
        divided: whether each row goes to one shard.
        column: the output column that names its rows when they are refused.
        early: whether its rows of a micro-batch are applied before those of other inputs. For objects of
            moving queries that changes no result, and lets all shards cut them into the same calls, whatever
            else they are sent; so all of them agree on which objects have changed.
        lasting: whether answers to later rows reflect its rows; nothing stays of events that are matched.
    """

    name: str
    calls: tuple[str, ...]
    divided: bool
    column: str
    early: bool = False
    lasting: bool = True


_COMMANDS = ("subscribe", "amend", "unsubscribe")
_LISTS = (Role("subscriptions", _COMMANDS, True, "subscription"), Role("events", ("publish",), False, "item"))
_MOVING = (
    Role("objects", ("upsert", "remove"), False, "item", early=True),
    Role("subscriptions", _COMMANDS, True, "subscription"),
    Role("events", ("publish",), True, "subscription"),
)
_MATCHING = (
    Role("subscriptions", (*_COMMANDS, "rescore"), False, "subscription"),
    Role("events", ("publish",), True, "event", lasting=False),
)

ROLES: dict[str, tuple[Role, ...]] = {
    "RangeTopK": _LISTS,
    "GeoTextTopK": _LISTS,
    "RankedMatcher": _MATCHING,
    "MovingTopK": _MOVING,
    "MovingSkyline": _MOVING,
}


def roles_of(engine: Engine) -> tuple[Role, ...]:
    """The inputs of an engine; those applied first at the same place in the sequence come first."""
    kind = type(engine).__name__
    if kind == "CoveringTable":
        raise InputError(
            "CoveringTable cannot run continuously on Spark",
            detail="A router's table is one sequence of commands, which does not divide over shards.",
            hint="Use rankcast.spark.uncovered for boxes in bulk, or the engine itself in one process.",
        )
    if kind not in ROLES or type(engine) is not engine_type(kind):
        raise InputError(
            f"engine is {engine if isinstance(engine, type) else type(engine).__name__}",
            expected=f"one of: {', '.join(ROLES)}",
        )
    return ROLES[kind]


def engine_type(kind: str) -> Any:
    """The class of an engine by its name."""
    return getattr(rankcast, kind)


def names_of(kind: str) -> tuple[str, str, str]:
    """Output columns that hold ids: of subscriptions, of the other side, and the input that one is from."""
    if kind == "RankedMatcher":
        return "subscription", "event", "events"
    return "subscription", "item", "objects" if ROLES[kind] is _MOVING else "events"
