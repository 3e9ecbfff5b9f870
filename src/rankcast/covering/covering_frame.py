"""The frame of a `CoveringTable`: what its rows are to the relations, what it answers, and what it counts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core.answering import AnsweringEngine
from rankcast.covering import covering_answers
from rankcast.covering.covering_direct import DirectCalls
from rankcast.covering.departures import Relations
from rankcast.covering.kernels.covering_buckets import World
from rankcast.tables import boxes
from rankcast.tables.schema import Rows


class TableFrame(AnsweringEngine):
    """Counts queries, nodes visited and points compared, apart for those that come and that go."""

    counters = (
        "queries_subscribe",
        "queries_unsubscribe",
        "nodes_visited",
        "nodes_visited_subscribe",
        "nodes_visited_unsubscribe",
        "point_comparisons",
        "point_comparisons_subscribe",
        "point_comparisons_unsubscribe",
        "freed",
        "freed_most",
    )
    _relations: Relations
    _direct: DirectCalls | None

    def stats(self) -> dict[str, Any]:
        """Counters since the start."""
        return self._reckoned()

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The whole state: a small JSON header and named arrays (not copied)."""
        header, arrays = super().state()
        return {**header, "counters": self._reckoned()}, arrays

    def _reckoned(self) -> dict[str, int]:
        """The counters, with what direct calls have counted."""
        return dict(self._count) if self._direct is None else self._direct.reckoned(self._count)

    def _free(self, freed: int, most: int | None = None) -> None:
        """Count covered ones that had to look for another cover, and the most that did so at once."""
        self._count["queries_unsubscribe"] += freed
        self._count["freed"] += freed
        self._count["freed_most"] = max(self._count["freed_most"], freed if most is None else most)

    def _tally(self, call: str | None) -> int:
        """Count what the relations have searched, also for a call; returns the boxes compared."""
        searched = self._relations.tally()
        self._search(call, searched)
        return int(searched[1])

    def _search(self, call: str | None, searched: tuple[int, int]) -> None:
        """Count nodes visited and boxes compared, also for a call."""
        for name, value in zip(("nodes_visited", "point_comparisons"), searched, strict=True):
            self._count[name] += value
            if call is not None:
                self._count[f"{name}_{call}"] += value

    def _world(self) -> World:
        """What the relations know of each row."""
        slots = self._slots
        return World(slots["lo"], slots["hi"], slots["standing"], slots["sequence"])

    def _write_boxes(self, rows: Rows, given: boxes.Boxes) -> None:
        self._slots["lo"][rows], self._slots["hi"][rows] = given

    def _answer(self, rows: Rows, action: Any, covered_by: Rows | None = None) -> pa.Table:
        """The table of actions, by default with nobody who covers; ends the batch."""
        self._count["deltas"] += rows.size
        names = self._slots.take(rows)
        if covered_by is None or (rows.size == 1 and covered_by[0] < 0):
            above = covering_answers.nobody(rows.size, names.type)
        else:
            above = self._slots.take_known(covered_by)
        self._slots.settle()
        return covering_answers.table(names, action, above)
