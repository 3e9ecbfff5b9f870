"""Which indexes an engine has, by its settings: of subscriptions, and of the messages of the window."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol, Self

from numpy.typing import NDArray

from rankcast.errors import SettingError, shown
from rankcast.geotext.brute_force import GeoTextState
from rankcast.geotext.buffers import BufferLimits, buffer_limits
from rankcast.geotext.kernels.arrange import Shape
from rankcast.geotext.kernels.match import Prunings
from rankcast.geotext.kernels.pair_scores import Hits
from rankcast.geotext.kernels.postings import ListedColumns
from rankcast.geotext.kernels.score import (
    Bits,
    MessageColumns,
    Scratch,
    SubscriptionColumns,
    TermVectors,
)
from rankcast.geotext.postings import CELL, MessagePostings, SubscriptionPostings
from rankcast.geotext.vector_index import VectorMessages, VectorReaders, sketches_of
from rankcast.tables import schema
from rankcast.tables.schema import Bools, Floats, Ints, Rows

PRUNINGS = Prunings._fields
CELL_INDEX = "rankcast.papers.geotext.ciq:CellIndex"  # loaded for method="ciq" alone


class SubscriptionIndex(Protocol):
    """Which subscriptions a message may enter; `SubscriptionPostings` by default."""

    @property
    def lists(self) -> Any:
        """The arrays that it holds."""

    def know(self, terms: int) -> None:
        """Make room for rows of terms up to `terms`."""

    def add(self, rows: Rows, texts: TermVectors, idf: Floats, listed: ListedColumns) -> None:
        """Index subscriptions that are not indexed."""

    def drop(self, rows: Rows, texts: TermVectors, stamps: Bits) -> None:
        """Forget subscriptions."""

    def update(self, rows: Rows, texts: TermVectors, idf: Floats, listed: ListedColumns) -> None:
        """Take over new thresholds of subscriptions."""

    def disseminate(
        self, subscriptions: SubscriptionColumns, messages: MessageColumns, idf: Floats, scratch: Scratch,
        on: Prunings, counters: Ints, listed: Floats,
    ) -> Hits | None:  # fmt: skip
        """The hits of messages; None if there are too many candidates to hold at once."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Header and arrays of a snapshot."""

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a snapshot."""

    def check_restored(self, texts: TermVectors, stamps: Bits, live: Bools) -> None:
        """Refuse a snapshot that is not of the `live` subscriptions."""


class LiveSettings(NamedTuple):
    """The method, the refill, groups in a cell of the posting lists, how large buffers get, prunings."""

    method: str
    refill: str
    groups: int
    limits: BufferLimits
    prune: Prunings


def live_settings(method: str, refill: str, tuning: Mapping[str, Any]) -> LiveSettings:
    """What an engine's settings and tuning ask for, checked."""
    prune = tuning["prune"]
    if not isinstance(prune, list | tuple):
        raise SettingError(f"prune is {shown(prune)}", expected=f"a list of: {', '.join(PRUNINGS)}")
    for name in prune:
        schema.one_of("prune", name, PRUNINGS)
    on = Prunings(*(name in prune for name in PRUNINGS))
    return LiveSettings(method, refill, schema.whole("groups", tuning["groups"]), buffer_limits(tuning), on)


def indexes(state: GeoTextState, settings: LiveSettings) -> tuple[SubscriptionIndex, MessagePostings]:
    """Empty indexes of subscriptions and of messages; where vectors count, those of the default method."""
    if state.meanings is None:
        return subscription_index(settings.method, state, settings.groups), MessagePostings(state.frame)
    if not state.meanings.alone:
        return subscription_index("igpt", state, settings.groups), MessagePostings(state.frame)
    *kinds, projection = sketches_of(state)
    both = kinds[0], kinds[1]
    return VectorReaders(state, both, projection), VectorMessages(state, both, projection)


def subscription_index(method: str, state: GeoTextState, groups: int) -> SubscriptionIndex:
    """The empty index of subscriptions of a method; `groups` are those in a cell of the posting lists."""
    if method != "ciq":
        return SubscriptionPostings(state.frame, Shape(CELL, groups), state.interests)
    module, _, name = CELL_INDEX.partition(":")
    found: SubscriptionIndex = getattr(import_module(module), name)(state.frame)
    return found
