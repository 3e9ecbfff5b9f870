"""Lists of listeners at the beginning and at the end of a run: what they must be, by an engine of their own.

The witness is a `RangeTopK` with the listeners' subscriptions alone, to which the same objects and events are
published. It shares nothing with the engine whose messages are sent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rankcast import settings
from rankcast.columns import Floats, Ints, Rows
from rankcast.engines.range_topk import RangeTopK
from rankcast.network.workload import Columns, with_nulls

NOTHING = -1
MOST_KEPT = 500_000  # objects in all lists together, of those who keep every object in their range


class Checked(NamedTuple):
    """What came of the check at the end of a run."""

    exact: bool  # everybody who was checked
    listeners: int  # how many were checked
    lists: int  # how many kept a list; of the others only the updates they heard are known to be right


class Boards(NamedTuple):
    """Lists, a line a listener: items best first, then -1; their scores, then infinity."""

    item: Rows
    score: Floats


def chosen(subscriptions: Ints, most: int | None, rng: np.random.Generator) -> Ints:
    """Who is checked, in rising order: all, or some at random. Leaves the generator where it is."""
    if most is None or settings.whole("listeners", most) >= len(subscriptions):
        return subscriptions
    return np.sort(rng.spawn(1)[0].choice(subscriptions, most, replace=False))


def spread_over(listeners: int, objects: int) -> Ints:
    """Some of the listeners, evenly spread: as many as may keep a list of all objects."""
    most = min(listeners, max(1, MOST_KEPT // max(1, objects)))
    return np.unique(np.linspace(0, listeners - 1, most).astype(np.int64))


def boards(results: pa.Table, lines: int, width: int) -> Boards:
    """The lists of a table of results, or of all first results; subscriptions are 0, 1, ..."""
    item, score = np.full((lines, width), NOTHING, np.int32), np.full((lines, width), np.inf)
    line, rank = results["subscription"].to_numpy(), results["rank"].to_numpy() - 1
    item[line, rank], score[line, rank] = results["item"].to_numpy(), results["score"].to_numpy()
    return Boards(item, score)


class Witness:
    """What listeners must know; `begin` before the events, `end` after all of them.

    Both are lists of the k best; `everything` are all objects in a range, which CN-Relax makes one keep.
    """

    def __init__(self, over: list[str], k: int, objects: Columns, ranges: Columns) -> None:
        lines = len(next(iter(ranges.values())))
        self._lines, self.k = lines, k
        self._ranges = {"id": np.arange(lines), **with_nulls(ranges)}
        self._over, self._objects = over, objects
        self._engine = RangeTopK(over=over, k=k)
        self._engine.publish(objects)
        self.begin = boards(self._engine.subscribe(self._ranges), lines, k)

    def everything(self) -> Boards:
        """All objects in each range, best first, before the events."""
        width = max(self.k, len(self._objects["id"]))
        engine = RangeTopK(over=self._over, k=width)
        engine.publish(self._objects)
        return boards(engine.subscribe(self._ranges), self._lines, width)

    def follow(self, events: Columns) -> None:
        """Publish the events to the witness itself."""
        self._engine.publish(events)
        self.end = boards(self._engine.results(), self._lines, self.k)

    def agrees(self, heard: Boards) -> bool:
        """Whether lists that were kept by hearing messages are what they must be."""
        items = heard.item[:, : self.k]
        same = items == self.end.item
        known = items != NOTHING
        return bool(same.all() and (heard.score[:, : self.k][known] == self.end.score[known]).all())
