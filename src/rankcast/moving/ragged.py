"""Runs of values by row: each row has a stretch of shared arrays, which grow and are compacted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.structures import integrity
from rankcast.structures.arrays import grown, ranges
from rankcast.tables.schema import Bools, Ints, Rows

BY_ROW = ("start", "count", "room")
SPARE = 1024


class Runs:
    """Stretches of values by row, of any length; `start` and `count` say where those of a row lie.

    - Changing: `put`, `drop`.
    - Snapshots: `state`, `restore`, `check_restored`; `check` for tests.

    A new stretch that is no longer than the old one takes its place, others go to the end; when there is no
    room all are moved together. Memory: 24 bytes a row, values at most four times.
    """

    def __init__(self, **kinds: Any) -> None:
        none = np.zeros(0, np.int64)
        self.start, self.count, self.room = none, none, none
        self.values: dict[str, NDArray[Any]] = {name: np.zeros(0, kind) for name, kind in kinds.items()}
        self._used = 0

    def put(self, rows: Rows, counts: Ints, values: Mapping[str, NDArray[Any]]) -> None:
        """Set the stretches of rows, each once; the values of all lie one after the other."""
        if not rows.size:
            return
        self._reserve_rows(int(rows.max()) + 1)
        self._claim(rows, counts)
        self.count[rows] = counts
        places = ranges(self.start[rows], counts)
        for name, array in self.values.items():
            array[places] = values[name]

    def drop(self, rows: Rows) -> None:
        """Forget the stretches of rows."""
        self.count[rows] = self.room[rows] = 0

    def _reserve_rows(self, rows: int) -> None:
        if rows > self.count.size:
            length = max(rows, 2 * self.count.size, 16)
            for name in BY_ROW:
                setattr(self, name, grown(getattr(self, name), length, 0))

    def _claim(self, rows: Rows, counts: Ints) -> None:
        """Give rows room for so many values, whatever they hold now."""
        more = counts > self.room[rows]
        if self._used + int(counts[more].sum()) > self._length():
            self.count[rows] = 0
            self._compact(int(counts.sum()))
            more = counts > 0
        ends = self._used + np.cumsum(counts[more])
        self.start[rows[more]], self.room[rows[more]] = ends - counts[more], counts[more]
        self._used = int(ends[-1]) if ends.size else self._used

    def _length(self) -> int:
        return next(iter(self.values.values())).size

    def _compact(self, spare: int) -> None:
        """Move everything together, with room for some more."""
        live = int(self.count.sum())
        length = max(self._length(), SPARE)
        while length < 2 * live or length < live + spare:
            length *= 2
        rows = np.flatnonzero(self.count)
        places = ranges(self.start[rows], self.count[rows])
        for name, array in self.values.items():
            self.values[name] = np.zeros(length, array.dtype)
            self.values[name][:live] = array[places]
        self.room[:] = self.count
        self.start[rows] = np.cumsum(self.count[rows]) - self.count[rows]
        self._used = live

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        return {"used": self._used}, {**{name: getattr(self, name) for name in BY_ROW}, **self.values}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        rows = arrays["start"].size if "start" in arrays else 0
        values = {name: arrays[name].size for name in self.values if name in arrays}
        size = next(iter(values.values()), 0)
        lengths = dict.fromkeys(BY_ROW, rows)
        known = self.state()[1]
        integrity.forms(arrays, {n: integrity.like(a, length=lengths.get(n, size)) for n, a in known.items()})
        self._used = integrity.whole(header, "used", 0, size)
        self.start, self.count, self.room = (arrays[name] for name in BY_ROW)
        self.values = {name: arrays[name] for name in self.values}
        return self

    def check_restored(self, live: Bools, name: str) -> None:
        """Refuse stretches from a snapshot that are not of `live` rows, or not within what is used."""
        check_stretches(name, live, (self.start, self.count, self.room), self._used)

    def check(self) -> None:
        """Assert the invariants: every stretch has room, and no two share any."""
        assert (self.count <= self.room).all()
        taken = np.zeros(self._length() + 1, np.int64)
        rows = np.flatnonzero(self.room)
        np.add.at(taken, ranges(self.start[rows], self.room[rows]), 1)
        assert taken.max(initial=0) <= 1
        assert taken[self._used :].sum() == 0


def check_stretches(name: str, live: Bools, runs: tuple[Ints, Ints, Ints], used: int) -> None:
    """Refuse starts, counts and rooms by row that are not within what is used, or of rows that are gone."""
    start, count, room = runs
    rows = np.flatnonzero(live)
    integrity.need(rows.max(initial=-1) < count.size, f"{name}count", "is too short")
    integrity.within(room, 0, used + 1, f"{name}room")
    integrity.need(((count >= 0) & (count <= room)).all(), f"{name}count", "exceeds the room")
    gone = np.ones(count.size, np.bool_)
    gone[rows] = False
    integrity.need(not room[gone].any(), f"{name}room", "is of rows that are gone")
    integrity.need(int(room.sum()) <= used, f"{name}room", f"adds up to more than {used}")
    integrity.within(start[rows], 0, used + 1, f"{name}start")
    integrity.within(start[rows] + room[rows], 0, used + 1, f"{name}start")
