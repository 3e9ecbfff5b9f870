"""Lists of listeners at the beginning and at the end of a run: what they must be, by an engine of their own.

The witness is a `RangeTopK` with the listeners' subscriptions alone, to which the same objects and events are
published. It shares nothing with the engine whose messages are sent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.columns import Floats, Rows
from rankcast.engines.range_topk import RangeTopK
from rankcast.network.workload import Columns, with_nulls

NOTHING = -1


class Boards(NamedTuple):
    """Lists, a line a listener: items best first, then -1; their scores, then infinity."""

    item: Rows
    score: Floats


def boards(results: pa.Table, lines: int, width: int) -> Boards:
    """The lists of a table of results whose subscriptions are 0, 1, ..."""
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
        self._engine.subscribe(self._ranges)
        self.begin = boards(self._engine.results(), lines, k)

    def everything(self) -> Boards:
        """All objects in each range, best first, before the events."""
        width = max(self.k, len(self._objects["id"]))
        engine = RangeTopK(over=self._over, k=width)
        engine.publish(self._objects)
        engine.subscribe(self._ranges)
        return boards(engine.results(), self._lines, width)

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
