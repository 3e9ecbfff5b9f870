"""The best few hundred rows, which may suffice before an index is searched (`Probe`).

If many rows match, the k best for an event are among the best of all, and comparing these one after the other
is cheaper than any index. If few match, it is wasted. So it is tested by what both have read: on some events
the index also answers what the head has answered, and if the index is more expensive, the head goes first
from then on. The probe keeps account of what it saves and costs, and stops once it has lost `LOSS`
microseconds. The next trial comes when events have cost several times what all trials have, so that the loss
stays a small part of the total. Times are those of a model, the same on every machine: what an engine does
depends only on its history. Answers do not depend on any of this.

The head is the best present rows, best first, whatever their number. So a removed row leaves the best, and a
new row enters if it is better than the last. Cost: a pass over all scores to build a head, again when half of
it has gone; for a row that enters or leaves a sort of the head. Memory: 16 d + 12 bytes for each of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankcast.matching.kernels import probe
from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.kernels.probe import BLOCK, MISSED
from rankcast.matching.search import Found, search_all
from rankcast.structures import integrity
from rankcast.tables.schema import Bools, Floats, Rows

HEAD = 1024
TRIED = 64  # events of a trial
LOSS = 500.0
FIRST, AGAIN, MOST = 1.0, 4.0, 256.0  # how many times the price of a trial events must cost before one
CALL = 4.0  # microseconds to hand an index to a kernel
MAKING = 0.01  # microseconds a row to find the best
OFF, TRIAL, ON = range(3)
NO_ROWS = np.empty(0, np.int32)


class Behind(Protocol):
    """The index behind a probe."""

    def __len__(self) -> int: ...

    def present(self) -> Rows:
        """The present rows."""

    def ask(
        self, columns: Columns, below: Floats, above: Floats, k: int, threads: int
    ) -> tuple[Found, float]:
        """The k best rows for each event, and the cost in microseconds."""


class Probe:
    """The head of all rows, and whether it is worth looking at.

    - Updating: `insert`, `remove`, `rescore`; `forget` when everything is different.
    - Searching: `search`, given the index behind it.
    - Snapshots: `state`, `restore`, `check_restored`.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start again."""
        self.head = NO_ROWS
        self._laid: tuple[NDArray[Any], ...] | None = (
            None  # the head as the kernel takes it, if it is current
        )
        self.mode = OFF
        self._spent, self._patience = 0.0, FIRST  # by events since the last trial; how long until the next
        self._balance = 0.0  # microseconds won since the trial began, at most LOSS
        self._looked, self._asked, self._took = 0, 0, 0.0  # events in a trial; those asked twice; their price

    # Following

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Update for new rows."""
        if self.head.size:
            score, last = columns.score[rows], self.head[-1]
            floor = columns.score[last]
            better = (score > floor) | ((score == floor) & (columns.label[rows] < columns.label[last]))
            if better.any():
                self._take(columns, np.concatenate([self.head, rows[better]]))

    def remove(self, columns: Columns, rows: Rows) -> None:
        """Update for removed rows; the columns still hold their old values."""
        if self.head.size and (columns.score[rows] >= columns.score[self.head[-1]]).any():
            self._drop(rows)

    def rescore(self, columns: Columns, rows: Rows) -> None:
        """Update after scores have changed."""
        if self.head.size:
            self._drop(rows)
            self.insert(columns, rows)

    def _drop(self, rows: Rows) -> None:
        kept = ~np.isin(self.head, rows)
        if not kept.all():
            self.head, self._laid = self.head[kept], None

    def _take(self, columns: Columns, rows: Rows) -> None:
        """Make the head from some rows, which include all that are better than the last of them."""
        self.head, self._laid = _best(columns, rows, HEAD), None

    # Searching

    def search(
        self, index: Behind, columns: Columns, below: Floats, above: Floats, k: int, threads: int
    ) -> Found:
        """The k best rows for each event."""
        if self.mode == OFF and self._spent > self._patience * (MAKING * len(index) + LOSS):
            self.mode, self._balance = TRIAL, 0.0
            self._looked, self._asked, self._took = 0, 0, 0.0
        if self.mode == OFF or not len(below):
            found, cost = index.ask(columns, below, above, k, threads)
            self._spent += cost
            return found
        if 2 * self.head.size < min(HEAD, len(index)):
            self._take(columns, index.present())
            self._balance -= MAKING * len(index) if self.mode == ON else 0.0
        first = search_all(
            probe.search, (self._lay(columns), self.head.size == len(index), k), below, above, threads
        )
        missed = first.number == MISSED
        misses = int(np.count_nonzero(missed))
        if self.mode == TRIAL:
            again = np.flatnonzero(~missed)[:TRIED]
            if again.size:
                self._asked, self._took = (
                    self._asked + again.size,
                    self._took + index.ask(columns, *_some(again, below, above), k, threads)[1],
                )
        self._account(columns.lo.shape[1], len(below), misses, first.looked)
        if not misses:
            return first
        if misses == len(below):
            rest = index.ask(columns, below, above, k, threads)[0]
            return rest._replace(looked=rest.looked + first.looked)
        rest = index.ask(columns, *_some(np.flatnonzero(missed), below, above), k, threads)[0]
        number, row, score = probe.fill(*first[:3], *rest[:3])
        return Found(number, row, score, first.tried + rest.tried, first.looked + rest.looked)

    def _lay(self, columns: Columns) -> tuple[NDArray[Any], ...]:
        """The head in the form of the kernel, in full blocks."""
        if self._laid is None:
            rows, size = self.head, -(-self.head.size // BLOCK) * BLOCK
            ends = np.full((2, columns.lo.shape[1], size), np.nan)
            ends[0, :, : rows.size], ends[1, :, : rows.size] = columns.lo[rows].T, columns.hi[rows].T
            row, score = np.zeros(size, np.int32), np.zeros(size)
            row[: rows.size], score[: rows.size] = rows, columns.score[rows]
            self._laid = ends[0], ends[1], row, score
        return self._laid

    def _account(self, d: int, events: int, misses: int, blocks: int) -> None:
        """Record the gain or loss of looking at the head, and decide whether to continue."""
        if self.mode == OFF:  # the index has been exchanged meanwhile, and all that was learned is void
            return
        saved = (events - misses) * self._took / max(self._asked, 1) + (CALL if not misses else 0.0)
        paid = CALL + 0.02 * events + (0.005 + 0.015 * d) * blocks
        self._balance = min(self._balance + saved - paid, LOSS)
        if self.mode == TRIAL:
            self._looked += events
            if self._looked < TRIED:
                return
            self.mode = ON if self._balance > 0 else OFF
        elif self._balance < -LOSS:
            self.mode = OFF
        elif self._balance == LOSS:
            self._patience = FIRST
        if self.mode == OFF:
            self.head, self._laid = NO_ROWS, None
            self._spent, self._patience = 0.0, min(AGAIN * self._patience, MOST)

    # Keeping

    def state(self) -> tuple[dict[str, Any], NDArray[Any]]:
        """What was learned, and the head."""
        numbers = (self._spent, self._patience, self._balance, self._took)
        return {
            "mode": self.mode,
            "looked": self._looked,
            "asked": self._asked,
            "prices": [float(each) for each in numbers],
        }, self.head

    def restore(self, header: Mapping[str, Any], head: NDArray[Any]) -> None:
        """Take over what `state` returned."""
        integrity.forms({"head": head}, {"head": (np.int32, (None,))})
        self.mode, self._looked, self._asked = (
            integrity.whole(header, name) for name in ("mode", "looked", "asked")
        )
        prices = header.get("prices")
        plain = (
            isinstance(prices, list)
            and len(prices) == 4
            and all(type(each) in (int, float) and abs(each) < np.inf for each in prices)
        )
        integrity.need(plain and self.mode <= ON, "probe", "has numbers that are none")
        self._spent, self._patience, self._balance, self._took = map(float, prices)  # type: ignore[arg-type]
        integrity.need(
            min(self._spent, self._took) >= 0 and FIRST <= self._patience <= MOST and self._balance <= LOSS,
            "probe",
            "has numbers that are none",
        )
        self.head, self._laid = head, None

    def check_restored(self, columns: Columns, wanted: Bools) -> None:
        """Refuse a head from a snapshot that is not the best of the `wanted` rows, best first."""
        integrity.within(self.head, 0, wanted.size, "head")
        if self.head.size:
            best = _best(columns, np.flatnonzero(wanted).astype(np.int32), min(self.head.size, HEAD))
            integrity.need(np.array_equal(self.head, best), "head", "is not the best rows")


def _best(columns: Columns, rows: Rows, size: int) -> Rows:
    """So many of the rows, or all there are: the best, best first."""
    if rows.size > 4 * size:
        least = np.partition(columns.score[rows], rows.size - size)[rows.size - size]
        rows = rows[columns.score[rows] >= least]
    best: Rows = rows[np.lexsort((columns.label[rows], -columns.score[rows]))[:size]]
    return best


def _some(places: NDArray[Any], below: Floats, above: Floats) -> tuple[Floats, Floats]:
    """Some events; points stay one array, seen twice."""
    some = below[places]
    return some, some if above is below else above[places]
