"""What searches for messages cost, by subscription, and how often buffers need one: what decides their sizes.

A search costs its work, that of the last one of a subscription [Geo §6.2] or else the mean, times two prices:

- What a unit of work costs against a step of a buffer's upkeep. Both were measured. Over a small window they
  are alike; the longer the lists of messages are, the more a search, which comes seldom and meets them cold,
  waits for memory.
- How often buffers were filled in a window's turnover against what a random walk expects. Real messages come
  in bursts, and large batches show only the ends of a walk.

Neither looks at a clock: engines with the same history are alike, on any machine, also after a snapshot.
Every subscription's size follows once in a window's turnover, in the order of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rankcast.geotext.kernels import costs as kernel
from rankcast.geotext.kernels.message_search import SearchResults
from rankcast.geotext.kernels.results import Buffers
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Floats, Ints, Rows

FIRST_COST = 4000  # the estimated work of a search, before there was one
MAX_WORK = 2**31 - 1
UNIT, PER_OCTAVE = 0.3, 2.2  # the price of a unit of work, and how much more for lists twice as long
CACHED = 1 << 18  # entries of the lists of messages, below which they hardly matter
FEW_FILLS = 16.0  # what is expected counts so many fills more than what is known
MOST = 16.0  # no more, and no less often, than so many times what is expected


class SearchCosts:
    """The work of searches, and how often there was one.

    - Changing: `make_rows`, `searched`, `filled`, `forget`, `follow`.
    - Reading: `of`.
    - Snapshots: `header`, `restore`.

    Attributes:
        work: by subscription, that of its last search, 0 if it is not known.
        entries: of the lists of messages, to be told before a search and `follow`.
        gone: messages that have left since buffers followed, to be told, too.
    """

    def __init__(self, price: float) -> None:
        self._price = price
        self.work, self.entries = np.zeros(0, np.int32), 0
        self._searches = self._work = 0  # that left something out, and their work
        self.gone = self._filled = self._next = 0  # fills since buffers followed, and whose turn it is
        self._observed = self._expected = 0.0  # fills in about the last turnover

    def make_rows(self, subscriptions: int) -> None:
        """Grow the array by subscription."""
        self.work = grown(self.work, subscriptions, 0)

    def searched(self, rows: Rows, wanted: Rows, found: SearchResults) -> None:
        """Note the work of searches for so many messages."""
        some = found.size == wanted  # others found all that there was: they tell nothing of a search to come
        work = np.minimum(found.work[some], MAX_WORK)
        self._searches, self._work = self._searches + work.size, self._work + int(work.sum())
        self.work[rows[some]] = work

    def forget(self, rows: Rows) -> None:
        """Subscriptions leave."""
        self.work[rows] = 0

    def of(self, rows: Rows) -> Floats:
        """What a search costs for subscriptions, in steps of upkeep, times how often it comes."""
        last = self.work[rows]
        return np.where(last > 0, last, self._mean()) * self._unit()

    def filled(self, count: int) -> None:
        """So many buffers ran short and were filled."""
        self._filled += count

    def follow(self, window: int, held: Buffers, k: Ints, used: int) -> None:
        """Messages have left a window; let their share of the buffers keep what is cheapest now."""
        rows = used if self.gone >= window else used * self.gone // window
        if not rows:
            return
        share, expected, price = min(1.0, self.gone / max(1, window)), 0.0, self._unit()
        while rows:
            first = self._next if self._next < used else 0
            last = min(used, first + rows)
            expected += kernel.follow(
                held.keep, held.room, held.threshold, k, self.work, self._mean(), price, first, last
            )
            self._next, rows = last, rows - (last - first)
        self._expected = (1.0 - share) * self._expected + expected
        self._observed = (1.0 - share) * self._observed + self._filled
        self.gone = self._filled = 0

    def header(self) -> dict[str, Any]:
        """For a snapshot, beside `work`."""
        fills = [self._observed, self._expected]
        counts = [self.entries, self.gone, self._filled, self._next]
        return {"searches": self._searches, "work": self._work, "turnover": [*fills, *counts]}

    def restore(self, header: Mapping[str, Any], work: Rows) -> None:
        """Take over a snapshot; an older one has no turnover, or nothing."""
        known = {"searches": 0, "work": 0, "turnover": [0.0, 0.0, 0, 0, 0, 0], **header}
        self._searches, self._work = (integrity.whole(known, name) for name in ("searches", "work"))
        turnover = known["turnover"]
        fits = type(turnover) is list and len(turnover) == 6
        fits = fits and all(type(each) in (int, float) and 0 <= each < 1 << 62 for each in turnover)
        integrity.need(fits, "turnover", f"is {turnover!r:.40}, expected six numbers")
        self._observed, self._expected = map(float, turnover[:2])
        self.entries, self.gone, self._filled, self._next = map(int, turnover[2:])
        self.work = work

    def _mean(self) -> float:
        return (self._work + FIRST_COST) / (self._searches + 1)

    def _unit(self) -> float:
        """The price of a unit of work."""
        often = (self._observed + FEW_FILLS) / (self._expected + FEW_FILLS)
        unit = UNIT + PER_OCTAVE * math.log2(1.0 + self.entries / CACHED)
        return self._price * unit * min(MOST, max(1.0 / MOST, often))
