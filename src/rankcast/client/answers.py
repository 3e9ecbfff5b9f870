"""The answers of the service's calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Id: TypeAlias = int | str
Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Any  # a list of `Row`; a pyarrow Table if a table was sent


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream: its engine, its number of subscriptions, and the number of its last write."""

    name: str
    engine: str
    settings: Mapping[str, Any]
    subscriptions: int
    sequence: int
    stats: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Written:
    """A write: its number, how many deltas it caused, and their rows if requested."""

    sequence: int
    deltas: int
    rows: Rows = None


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscription that was registered, replaced or amended, with its list."""

    id: Id
    results: list[Row]
    sequence: int


@dataclass(frozen=True, slots=True)
class Results:
    """A list as of a write."""

    rows: list[Row]
    sequence: int


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a subscription would have received between two writes, and its list at the end."""

    rows: list[Row]
    results: list[Row]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message to a listener: `snapshot`, `delta`, `tiles` or `gap` (something was missed).

    `after` is the sequence of the previous tiles.
    """

    event: str
    rows: list[Row]
    sequence: int
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook: where deltas are posted; `delivered` is the last write it has finished.

    Only the answer to `put_webhook` contains the secret.
    """

    name: str
    url: str
    subscriptions: list[str] | None
    delivered: int
    secret: str | None = None
