"""How long zones of skylines last, by query, and where none is worth keeping.

A skyline with its zone costs about 1.3 times a skyline alone (`moving-skyline.zone`), so a zone does not
pay if its query always leaves it with the next position. Zones that last a little pay all the same: where
a query leaves one, the next is found from it. With a bar of 1.5 positions skylines of a city took 1.6 times
as long. Of each query this is known, and part of the state:

- `steps`: positions since its zone was made.
- `lasted`: how many positions zones served; an average in which each zone counts half as much as the next;
  0 as long as it has not left one.
- `plain`: positions in a row for which no zone was kept. Every 32nd gets one all the same, to see whether the
  place or the pace has changed.

No clock is read: equal histories give equal zones. What is not kept is found when somebody wants to see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Bools, Rows

WORTH = 1.001  # positions that a zone has to serve: below are queries that left some ten at once, in a row
LATEST = 0.5  # what the last zone counts
HOPE = 2.0  # positions that the first zone counts for at least: one alone tells nothing
LOOK_AGAIN = 32
KINDS = {"steps": np.int64, "lasted": np.float64, "plain": np.int64}
MOST_STEPS = 1 << 62


class SkylinePaces:
    """What is known of the zones of queries, by row. 24 bytes a query."""

    def __init__(self) -> None:
        self._known: dict[str, NDArray[Any]] = {name: np.zeros(0, kind) for name, kind in KINDS.items()}

    def _reserve(self, rows: Rows) -> None:
        used, needed = self._known["steps"].size, int(rows.max(initial=-1)) + 1
        if needed > used:
            length = max(needed, 2 * used, 16)
            self._known = {name: grown(array, length) for name, array in self._known.items()}

    def moved(self, rows: Rows) -> None:
        """Queries, each once, have come to their next positions."""
        self._reserve(rows)
        self._known["steps"][rows] += 1

    def left(self, rows: Rows) -> None:
        """Queries have left zones with these positions."""
        lasted = self._known["lasted"]
        now, before = self._known["steps"][rows], lasted[rows]
        lasted[rows] = np.where(before > 0.0, before + LATEST * (now - before), np.maximum(now, HOPE))

    def bare(self, rows: Rows) -> Bools:
        """For which queries no zone is worth finding now."""
        self._reserve(rows)
        lasted, plain = self._known["lasted"][rows], self._known["plain"][rows]
        found: Bools = (lasted > 0.0) & (lasted < WORTH) & (plain < LOOK_AGAIN)
        return found

    def made(self, rows: Rows, bare: Bools) -> None:
        """Queries have new zones, or none."""
        self._reserve(rows)
        self._known["steps"][rows] = 0
        self._known["plain"][rows] = np.where(bare, self._known["plain"][rows] + 1, 0)

    def forget(self, rows: Rows) -> None:
        """Know nothing of queries that go."""
        rows = rows[rows < self._known["steps"].size]
        for array in self._known.values():
            array[rows] = 0

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state (none) and the arrays."""
        return {}, dict(self._known)

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        length = arrays["steps"].size if "steps" in arrays else 0
        integrity.forms(arrays, {name: (kind, (length,)) for name, kind in KINDS.items()})
        self._known = dict(arrays)
        return self

    def check_restored(self) -> None:
        """Refuse what are no counts."""
        for name in ("steps", "plain"):
            integrity.within(self._known[name], 0, MOST_STEPS, name)
        lasted = self._known["lasted"]
        integrity.finite(lasted, "lasted")
        integrity.need((lasted >= 0.0).all(), "lasted", "is below 0")
