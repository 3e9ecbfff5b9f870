"""The indexes of `RankedMatcher` by name, and `AutomaticIndex`, which chooses one by what it has seen.

The choice uses a small cost model, in microseconds per event, of three indexes that are all exact:

| index | an event costs | a change costs |
| --- | --- | --- |
| `interval-grid` (one attribute) | one list per level; an interval event: all it overlaps | a search |
| `box-tree` | the blocks that no attribute excludes, each in all dimensions | one descent |
| `inverted` | its values, and the entries stabbed in the attribute under which rows are filed | one descent |

The model knows the dimensions; from a sample of rows how many bound an attribute and how much of its values
an interval contains (overlap); from the calls so far how many rows changed per event, besides the first
arrival of the present ones (update rate), and how many events were intervals. It chooses again when the
number of rows, of events, or of rows in all calls has doubled, or the rows have halved; it switches to
another index that promises a third less, or if there is none yet. The new index is built from the present
rows, so answers do not depend on the choice. Building costs O(n log n), amortised O(log n) per row.

A model may err, so it is also tested. Searches count what they read, and `priced` converts that into time,
the same on every machine. When events have cost as much as building the other indexes would, these are built
and answer the next `TRIED` events as well; the cheapest one stays. The measured cost of each, compared with
the model, corrects the model from then on. The next trial comes after twice as long: trials never cost more
than the events have cost.

In exact matching a `Probe` precedes the index: if the best few hundred rows suffice for most
events, only the others reach the index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.core.spec import load
from rankcast.matching.boxes import BoxTreeIndex
from rankcast.matching.grid import IntervalGrid
from rankcast.matching.inverted import InvertedIndex
from rankcast.matching.kernels.box_tree import FILL, Columns
from rankcast.matching.kernels.candidate_filter import Wants
from rankcast.matching.probe import Probe
from rankcast.matching.search import Found
from rankcast.structures import integrity
from rankcast.tables.schema import Bools, Floats, Rows

# Indexes of the paper that exist to compare with: loaded when named.
PAPERS = {
    "r-tree": "rankcast.papers.matching.intervals:IntervalIndex",
    "interval-tree": "rankcast.papers.matching.intervals:IntervalIndex",
    "ir-tree": "rankcast.papers.matching.intervals:IntervalIndex",
    "sopt-r-tree": "rankcast.papers.matching.static_intervals:StaticIntervalIndex",
    "segment-tree": "rankcast.papers.matching.static_intervals:StaticIntervalIndex",
}
INDEXES = ("auto", "scan", "box-tree", "inverted", *PAPERS)
SAMPLE = 500
SMALL = 64
BETTER = 1.5
SEEN = ("events", "intervals", "changes")
TRIED = 64  # events of a trial
BUILDING = 2.0  # microseconds a row to build an index, roughly
WORTH = 1.25  # another index must be cheaper by so much to be taken after a trial


class MatchIndex(Part, Protocol):
    """Finds the best rows; the engine owns the columns by row."""

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Add absent rows."""

    def remove(self, columns: Columns, rows: Rows) -> None:
        """Remove present rows; the columns still hold their old values."""

    def rescore(self, columns: Columns, rows: Rows) -> None:
        """Update after scores or weights have changed."""

    def search(self, columns: Columns, below: Floats, above: Floats, k: int, threads: int = 1) -> Found:
        """The k best rows for each event."""

    def stats(self) -> dict[str, Any]:
        """The statistics of this index, besides its name."""

    def check_restored(self, columns: Columns, wanted: Bools) -> None:
        """Refuse a state from a snapshot that does not belong to the `wanted` rows; see `integrity`."""


class JudgingIndex(MatchIndex, Protocol):
    """An index that also handles wishes of events and conditions of subscriptions besides boxes."""

    def search(
        self,
        columns: Columns,
        below: Floats,
        above: Floats,
        k: int,
        threads: int = 1,
        wants: Wants | None = None,
    ) -> Found:
        """The k best rows for each event, or as many as it wants."""


class LiveIndex(JudgingIndex, Protocol):
    """An index that `AutomaticIndex` can choose: it also knows its rows."""

    def present(self) -> Rows:
        """The present rows, in ascending order."""

    def __len__(self) -> int: ...


class AutomaticIndex:
    """The best subscriptions for an event, by the index that should be fastest."""

    def __init__(self, dimensions: int, *, combine: str | None) -> None:
        self._dimensions, self._combine = dimensions, combine
        self._seen = dict.fromkeys(SEEN, 0)
        self._decided = {"rows": 0, "calls": 0, "events": 0}  # how much there was at the last choice
        self._spent, self._patience = 0.0, 1.0  # on events since the last trial; how long until the next
        self._sample = np.empty((0, 2, dimensions))  # events for a trial
        self._learned: dict[str, float] = {}  # by index, what it takes as a multiple of what the model says
        self.costs: dict[str, float] = {}
        self.chosen = "interval-grid" if dimensions == 1 else "box-tree"
        self._index = self._make(self.chosen)
        self._probe = Probe()  # weights are added up by event: of no use in relaxed matching

    def __len__(self) -> int:
        return len(self._index)

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Add absent rows."""
        self._seen["changes"] += rows.size
        self._probe.insert(columns, rows)
        if self._chooses(len(self) + rows.size) and rows.size:
            self._choose(columns, np.concatenate([self._index.present(), rows]), rows)
        else:
            self._index.insert(columns, rows)

    def remove(self, columns: Columns, rows: Rows) -> None:
        """Remove present rows."""
        self._seen["changes"] += rows.size
        self._probe.remove(columns, rows)
        self._index.remove(columns, rows)
        if self._chooses(len(self)):
            self._choose(columns, self._index.present(), rows[:0])

    def rescore(self, columns: Columns, rows: Rows) -> None:
        """Update after scores or weights have changed."""
        self._seen["changes"] += rows.size
        self._probe.rescore(columns, rows)
        self._index.rescore(columns, rows)

    def search(
        self,
        columns: Columns,
        below: Floats,
        above: Floats,
        k: int,
        threads: int = 1,
        wants: Wants | None = None,
    ) -> Found:
        """The k best rows for each event with the ends `above` to `below`, or as many as it wants."""
        self._seen["events"] += len(below)
        if above is not below:
            self._seen["intervals"] += int(np.count_nonzero((above < below).any(axis=1)))
        if self._chooses(len(self)):
            self._choose(columns, self._index.present(), np.empty(0, np.int32))
        if wants is None and self._combine is None:
            return self._probe.search(self, columns, below, above, k, threads)
        return self.ask(columns, below, above, k, threads, wants)[0]

    def present(self) -> Rows:
        """The present rows, in ascending order."""
        return self._index.present()

    def ask(
        self,
        columns: Columns,
        below: Floats,
        above: Floats,
        k: int,
        threads: int,
        wants: Wants | None = None,
    ) -> tuple[Found, float]:
        """The answer of the chosen index, and its cost in microseconds."""
        found, cost = self._index.search(columns, below, above, k, threads, wants), 0.0
        if len(below):
            cost = len(below) * self._priced(self.chosen, found, len(below))
            self._spent += cost
            if self._spent > self._patience * BUILDING * (len(self) + SMALL):
                self._try(columns, below, above, k)
        return found, cost

    def _priced(self, name: str, found: Found, events: int) -> float:
        return priced(name, self._dimensions, found, events, relaxed=self._combine is not None)

    def _try(self, columns: Columns, below: Floats, above: Floats, k: int) -> None:
        """Use some events for a trial of all indexes; once they are enough, keep the cheapest."""
        more = np.stack([below, above], axis=1)[: TRIED - len(self._sample)]
        self._sample = np.concatenate([self._sample, more])
        if len(self._sample) < TRIED:
            return
        ends = np.ascontiguousarray(self._sample[:, 0]), np.ascontiguousarray(self._sample[:, 1])
        rows, tried = self._index.present(), {self.chosen: self._index}
        reading, changing = expected(columns, rows, relaxed=self._combine is not None, **self._seen)
        measured = {}
        for name in reading:
            if name not in tried:
                tried[name] = self._make(name)
                tried[name].insert(columns, rows)
            cost = self._priced(name, tried[name].search(columns, *ends, k), TRIED)
            measured[name] = cost + changing[name]
            self._learned[name] = cost / reading[name]  # which is never 0
        best = min(measured, key=lambda name: measured[name])
        if measured[self.chosen] > WORTH * measured[best]:
            self.chosen, self._index = best, tried[best]
            self._probe.forget()
        self.costs = {name: round(cost, 3) for name, cost in measured.items()}
        self._sample, self._spent, self._patience = self._sample[:0], 0.0, 2.0 * self._patience

    def stats(self) -> dict[str, Any]:
        """The chosen index, and the microseconds per event behind the choice."""
        return {"index": self.chosen, "index_costs": dict(self.costs)}

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        header, arrays = self._index.state()
        mine = {"chosen": self.chosen, "seen": self._seen, "decided": self._decided, "costs": self.costs}
        trial = {"spent": self._spent, "patience": self._patience, "learned": self._learned}
        probe, head = self._probe.state()
        own = {**mine, "trial": trial, "probe": probe, "index": header}
        return own, {**arrays, "sample": self._sample, "head": head}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        known = ["box-tree", "inverted", *(["interval-grid"] if self._dimensions == 1 else [])]
        chosen, costs = header["chosen"], header["costs"]
        integrity.need(chosen in known, "chosen", "is not an index")
        trial = header.get("trial", {"spent": 0.0, "patience": 1.0, "learned": {}})
        for name, table in (("costs", costs), ("learned", trial["learned"])):
            plain = isinstance(table, Mapping) and all(
                each in known and type(cost) in (int, float) and 0 <= cost < np.inf
                for each, cost in table.items()
            )
            integrity.need(plain, name, "is not a number for each index")
        self.chosen, self.costs, self._learned = chosen, dict(costs), dict(trial["learned"])
        self._spent, self._patience = float(trial["spent"]), float(trial["patience"])
        integrity.need(self._spent >= 0 and self._patience >= 1, "trial", "has numbers that are none")
        for name, held in (("seen", self._seen), ("decided", self._decided)):
            given = {"events": 0, **header[name]}  # former versions did not note at how many they decided
            integrity.need(given.keys() == held.keys(), name, "has other names")
            held.update({each: integrity.whole(given, each) for each in held})
        arrays = dict(arrays)
        if "probe" in header:
            self._probe.restore(header["probe"], arrays.pop("head", self._probe.head))
        sample = arrays.pop("sample", self._sample)
        integrity.forms({"sample": sample}, {"sample": integrity.like(self._sample)})
        integrity.no_nan(sample, "sample")
        integrity.need(len(sample) < TRIED, "sample", "has too many events")
        self._sample = sample
        self._index = self._make(self.chosen)
        self._index.restore(header["index"], arrays)
        return self

    def check_restored(self, columns: Columns, wanted: Bools) -> None:
        """Refuse a state from a snapshot that does not belong to the `wanted` rows; see `integrity`."""
        self._index.check_restored(columns, wanted)
        self._probe.check_restored(columns, wanted)

    def _make(self, name: str) -> LiveIndex:
        if name == "interval-grid":
            return IntervalGrid(combine=self._combine)
        if name == "inverted":
            return InvertedIndex(self._dimensions, combine=self._combine)
        return BoxTreeIndex(self._dimensions, combine=self._combine)

    def _chooses(self, rows: int) -> bool:
        """Whether enough has changed to choose again, with so many rows."""
        before, calls = self._decided["rows"], self._seen["events"] + self._seen["changes"]
        if rows > 2 * before + SMALL or 2 * rows + SMALL < before:
            return True
        if self._seen["events"] > 2 * self._decided["events"] + SMALL:
            return True
        return calls > 2 * self._decided["calls"] + SMALL

    def _choose(self, columns: Columns, rows: Rows, fresh: Rows) -> None:
        """Choose an index for `rows`, of which `fresh` are new, and fill it."""
        events, before = self._seen["events"], self._decided["rows"]
        if rows.size > 2 * before or 2 * rows.size < before:
            self._spent, self._patience = 0.0, 1.0
            self._probe.forget()
        calls = events + self._seen["changes"]
        self._decided = {"rows": int(rows.size), "calls": calls, "events": events}
        reading, changing = expected(columns, rows, relaxed=self._combine is not None, **self._seen)
        self.costs = {
            name: round(cost * self._learned.get(name, 1.0) + changing[name], 3)
            for name, cost in reading.items()
        }
        best = min(self.costs, key=lambda name: self.costs[name])
        least = 1.0 if len(self._index) == 0 else BETTER
        if best != self.chosen and self.costs[self.chosen] > least * self.costs[best]:
            self.chosen, self._index = best, self._make(best)
            self._index.insert(columns, rows)
            self._probe.forget()
        else:
            self._index.insert(columns, fresh)


Costs = dict[str, float]


def priced(name: str, d: int, found: Found, events: int, *, relaxed: bool) -> float:
    """Microseconds per event for what a search has read: blocks, or entries of a grid, and rows tried."""
    looked, tried = found.looked / events, found.tried / events
    if name == "interval-grid":
        return 0.4 + 0.02 * (looked + tried)
    if name == "inverted":
        dear = (
            1.0 if relaxed else 0.4
        )  # with guards a candidate is half of a cache line that has been asked for
        return dear * (1.0 + 0.06 * d + 0.35 * looked) + (0.06 if relaxed else 0.015) * tried
    return 0.5 + (0.03 + (0.018 if relaxed else 0.006) * d) * looked + 0.05 * tried


def expected(
    columns: Columns, rows: Rows, *, relaxed: bool, events: int, intervals: int, changes: int
) -> tuple[Costs, Costs]:
    """Microseconds per event by index, as far as the model knows: for reading, and for changes."""
    d, sample = columns.lo.shape[1], rows[:: rows.size // SAMPLE + 1]
    bounded, width = shapes(columns.lo[sample], columns.hi[sample])
    counts = columns.weight[sample] > 0 if relaxed else bounded
    rate, spread = max(0, changes - rows.size) / (events + 1.0), intervals / (events + 1.0)
    blocks = rows.size / FILL
    # Halving a layer again and again parts its rows in the attributes that most of them bound. Where few do,
    # it takes some halvings until a part has no row that leaves the attribute open.
    passed = np.where(bounded, width, 1.0).mean(axis=0) if sample.size else np.ones(d)
    share = bounded.mean(axis=0) if sample.size else np.ones(d)
    first = np.argsort(passed)
    halvings = float(np.log2(blocks + 1.0))
    taken = np.cumsum(1.0 - np.log2(np.maximum(share[first], 1e-3)))
    entered = 2.0 * halvings + blocks * float(np.prod(passed[first][taken <= halvings]))
    block = 0.1 + (0.018 if relaxed else 0.006) * d
    # A row is a candidate if the event is in the narrowest of its intervals, or in any with a weight.
    held = np.where(counts, width, 0.0 if relaxed else 1.0)
    stabbed = np.minimum(held.sum(axis=1), 1.0) if relaxed else held.min(axis=1)
    candidates = rows.size * (float(stabbed.mean()) if sample.size else 0.0)
    filed = float(counts.sum(axis=1).mean()) if relaxed and sample.size else 1.0
    read = 0.08 * d + 0.6 * min(blocks * filed, d) + 0.1 * candidates
    if not relaxed:
        read = 0.03 * d + 0.15 * min(blocks, d) + 0.02 * candidates
    reading = {"box-tree": 1.5 + block * entered, "inverted": 1.0 + read}
    changing = {"box-tree": rate * (2.5 + 0.2 * d), "inverted": rate * (0.01 * d + 4.0 * filed)}
    if d == 1:
        reading["interval-grid"], changing["interval-grid"] = 1.0 + 0.02 * rows.size * spread, 2.1 * rate
    return reading, changing


def shapes(lo: Floats, hi: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Which intervals (n, d) have a bound, and the share of ends in its attribute that each contains."""
    bounded, width = np.isfinite(lo) | np.isfinite(hi), np.ones(lo.shape)
    for j in np.flatnonzero(bounded.any(axis=0)):
        ends = np.concatenate([lo[:, j], hi[:, j]])
        ends = np.sort(ends[np.isfinite(ends)])
        inside = np.searchsorted(ends, hi[:, j], "right") - np.searchsorted(ends, lo[:, j], "left")
        own = np.isfinite(lo[:, j]).astype(np.int64) + np.isfinite(hi[:, j])
        width[:, j] = (inside - own) / np.maximum(ends.size - own, 1)
    return bounded, width


def make(name: str, d: int, *, combine: str | None, branching: int) -> MatchIndex:
    """The index of a name other than "scan", over d attributes; `combine` is None for exact matching."""
    if name in PAPERS:
        index_class: Callable[..., MatchIndex] = load(PAPERS[name])
        return index_class(name, d, combine=combine, branching=branching)
    made: dict[str, Callable[..., MatchIndex]] = {
        "auto": AutomaticIndex,
        "box-tree": BoxTreeIndex,
        "inverted": InvertedIndex,
    }
    return made[name](d, combine=combine)
