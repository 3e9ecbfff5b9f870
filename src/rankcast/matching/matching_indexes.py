"""The indexes of `RankedMatcher` by name, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rankcast.core.engine import Part
from rankcast.matching.automatic import AutomaticIndex
from rankcast.matching.boxes import BoxIndex
from rankcast.matching.inverted import InvertedIndex
from rankcast.matching.kernels.box_tree_pack import Columns
from rankcast.matching.search import Found
from rankcast.papers.matching.intervals import KINDS, IntervalIndex
from rankcast.papers.matching.static_intervals import KINDS as STATIC_KINDS
from rankcast.papers.matching.static_intervals import StaticIntervalIndex
from rankcast.tables.schema import Bools, Floats, Rows

INDEXES = ("auto", "scan", "box-tree", "inverted", *KINDS, *STATIC_KINDS)


class Index(Part, Protocol):
    """What finds the best rows; the columns by row are the engine's."""

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Add absent rows."""

    def remove(self, columns: Columns, rows: Rows) -> None:
        """Take present rows out; the columns still hold what they were."""

    def rescore(self, columns: Columns, rows: Rows) -> None:
        """Follow scores or weights that have changed."""

    def search(self, columns: Columns, below: Floats, above: Floats, k: int, threads: int = 1) -> Found:
        """The k best rows for each event."""

    def check_restored(self, columns: Columns, wanted: Bools) -> None:
        """Refuse a state from a snapshot that is not that of the `wanted` rows; see `integrity`."""


def make(name: str, d: int, *, combine: str | None, branching: int) -> Index:
    """The index of a name other than "scan", over d attributes; `combine` is None for exact matching."""
    if name in KINDS or name in STATIC_KINDS:
        of_intervals = IntervalIndex if name in KINDS else StaticIntervalIndex
        return of_intervals(name, d, combine=combine, branching=branching)
    made: dict[str, Callable[..., Index]] = {
        "auto": AutomaticIndex,
        "box-tree": BoxIndex,
        "inverted": InvertedIndex,
    }
    return made[name](d, combine=combine)
