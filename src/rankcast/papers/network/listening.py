"""Lists of listeners at the beginning and at the end of a run: what they must be, by engines of their own.

The witness asks for the first results of the listeners' subscriptions, over the objects as they are at the
beginning and as the events leave them. It shares nothing with the engine whose messages are sent, and paints
no tiles: first results are looked up among the objects.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.papers.network.workload import Columns, with_nulls
from rankcast.range_topk.engine import RangeTopK
from rankcast.tables import schema
from rankcast.tables.schema import Floats, Ints, Rows

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
    if most is None or schema.whole("listeners", most) >= len(subscriptions):
        return subscriptions
    return np.sort(rng.spawn(1)[0].choice(subscriptions, most, replace=False))


def spread_over(listeners: int, objects: int) -> Ints:
    """Some of the listeners, evenly spread: as many as may keep a list of all objects."""
    most = min(listeners, max(1, MOST_KEPT // max(1, objects)))
    return np.unique(np.linspace(0, listeners - 1, most).astype(np.int64))


def boards(results: pa.Table, lines: int, width: int) -> Boards:
    """The lists of a table of first results; subscriptions are 0, 1, ..."""
    item, score = np.full((lines, width), NOTHING, np.int32), np.full((lines, width), np.inf)
    line, rank = results["subscription"].to_numpy(), results["rank"].to_numpy() - 1
    item[line, rank], score[line, rank] = results["item"].to_numpy(), results["score"].to_numpy()
    return Boards(item, score)


class Witness:
    """What listeners must know; `begin` before the events, `end` after all of them.

    Both are lists of the k best; `everything` are all objects in a range, which CN-Relax makes one keep.
    """

    def __init__(self, over: list[str], k: int, objects: Columns, ranges: Columns) -> None:
        self._lines, self.k = len(next(iter(ranges.values()))), k
        self._ranges = {"id": np.arange(self._lines), **with_nulls(ranges)}
        self._over, self._objects = over, objects
        self.begin = self._asked(objects, k)

    def everything(self) -> Boards:
        """All objects in each range, best first, before the events."""
        return self._asked(self._objects, max(self.k, len(self._objects["id"])))

    def follow(self, events: Columns) -> None:
        """Let the events change the objects, and ask anew."""
        y = self._objects["y"].copy()
        for item, value in zip(events["id"], events["y"], strict=True):
            y[item] = value
        self.end = self._asked({**self._objects, "y": y}, self.k)

    def _asked(self, objects: Columns, width: int) -> Boards:
        """The first results of all ranges over some objects, whose ids are their places."""
        engine = RangeTopK(over=self._over, k=width)
        engine.publish(objects)
        return boards(engine.subscribe(self._ranges), self._lines, width)

    def agrees(self, heard: Boards) -> bool:
        """Whether lists that were kept by hearing messages are what they must be."""
        items = heard.item[:, : self.k]
        same = items == self.end.item
        known = items != NOTHING
        return bool(same.all() and (heard.score[:, : self.k][known] == self.end.score[known]).all())
