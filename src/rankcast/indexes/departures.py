"""What an unsubscribe or an amendment does to a table of covering relations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rankcast.columns import Rows
from rankcast.kernels.covering_buckets import Box, World

NOBODY: Rows = np.empty(0, np.int32)


class Departure(NamedTuple):
    """Who is gone, who is forwarded now as registered, and how many had to look for another cover."""

    gone: Rows
    forwarded: Rows
    freed: int


class Relations(Protocol):
    """What keeps the standing of rows: brute force, or one of the relation graphs.

    The owner passes the `World` of all rows with every call; the relations set `standing` in it.
    """

    def subscribe(self, world: World, rows: Rows) -> Rows:
        """Register rows one after the other; returns for each one that covers it, or -1."""

    def unsubscribe(self, world: World, rows: Rows) -> Departure:
        """Remove rows, net: whoever is left without a cover is forwarded."""

    def release(self, world: World, row: int, limit: int) -> Departure:
        """Go on removing one row, looking at no more than `limit` of those it covers."""

    def amend(self, world: World, rows: Rows, write: Callable[[], None]) -> Departure:
        """Give rows other boxes, which `write` writes, net; they may be among the forwarded in the answer."""

    def coverers(self, world: World, rows: Rows) -> Rows:
        """For each row one that covers it, -1 for a forwarded one."""

    def covers(self, world: World, boxes: Box, k: int) -> Rows:
        """For each box up to k live rows that contain it, a line each, filled up with -1."""

    def stab(self, world: World, boxes: Box) -> tuple[Rows, NDArray[np.int64]]:
        """Rows that neighbours know and that contain each box, as registered, and where each list ends."""

    def tally(self) -> tuple[int, int]:
        """Nodes visited and points compared since the last call."""
