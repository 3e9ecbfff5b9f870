"""Peers of ranked matching that look in score order, or find all matches and sort: NumPy, SQLite, ncls."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rankcast.bench.workloads import Columns, Floats, Integers

Best = list[tuple[Integers, Floats]]


class NumpyChunks:
    """Boxes in score order, chunk by chunk until k are found; what NumPy does best where many match."""

    def __init__(self, rows: Columns, over: Sequence[str], k: int, chunk: int = 4096) -> None:
        order = np.lexsort((rows["id"], -rows["score"]))
        self._lo = [rows[f"{name}_lo"][order] for name in over]
        self._hi = [rows[f"{name}_hi"][order] for name in over]
        self._id, self._score = rows["id"][order], rows["score"][order]
        self._over, self._k, self._chunk = list(over), k, chunk

    def publish(self, events: Columns) -> Best:
        """Give ids and scores of the best subscriptions for each event."""
        points = np.stack([events[name] for name in self._over], axis=1)
        return [self._best(point) for point in points]

    def _best(self, point: Floats) -> tuple[Integers, Floats]:
        found: list[Integers] = []
        number, start, size = 0, 0, self._chunk
        while number < self._k and start < self._id.size:
            part = slice(start, start + size)
            inside = np.ones(self._id[part].size, bool)
            for lo, hi, value in zip(self._lo, self._hi, point, strict=True):
                inside &= (lo[part] <= value) & (value <= hi[part])
            found.append(np.flatnonzero(inside) + start)
            number, start, size = number + found[-1].size, start + size, min(2 * size, 65536)
        places = np.concatenate(found)[: self._k]
        return self._id[places], self._score[places]


class SqliteScores:
    """Intervals in SQLite under a covering index by score."""

    def __init__(self, rows: Columns, over: Sequence[str], k: int) -> None:
        (name,) = over
        self._name, self._k = name, k
        self._base = sqlite3.connect(":memory:", check_same_thread=False)
        self._base.execute("create table s (id integer primary key, lo real, hi real, score real)")
        values = zip(
            *(rows[each].tolist() for each in ("id", f"{name}_lo", f"{name}_hi", "score")), strict=True
        )
        self._base.executemany("insert into s values (?, ?, ?, ?)", values)
        self._base.execute("create index by_score on s (score desc, id, lo, hi)")

    def publish(self, events: Columns) -> Best:
        """Give ids and scores of the best subscriptions for each event."""
        asked = "select id, score from s where lo <= ? and hi >= ? order by score desc, id limit ?"
        answers = [self._base.execute(asked, (x, x, self._k)).fetchall() for x in events[self._name].tolist()]
        return [
            (np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows]))
            for rows in answers
        ]


class NclsAll:
    """All intervals that are stabbed by ncls (nested containment lists), then the best of them.

    Its ends are integers, none negative: 40 bits of [-1, 2], so an answer may differ at a border.
    """

    def __init__(self, rows: Columns, over: Sequence[str], k: int) -> None:
        (name,) = over
        self._name, self._k, self._rows = name, k, rows
        lo, hi = (np.floor((1.0 + rows[f"{name}_{end}"]) * 2.0**40).astype(np.int64) for end in ("lo", "hi"))
        self._list: Any = importlib.import_module("ncls").NCLS(lo, hi + 1, rows["id"].astype(np.int64))

    def publish(self, events: Columns) -> Best:
        """Give ids and scores of the best subscriptions for each event."""
        place = np.floor((1.0 + events[self._name]) * 2.0**40).astype(np.int64)
        event, found = self._list.all_overlaps_both(place, place + 1, np.arange(place.size))
        starts = np.searchsorted(event, np.arange(place.size + 1))
        score, best = self._rows["score"], []
        for first, last in pairwise(starts):
            mine = found[first:last]
            mine = mine[np.lexsort((mine, -score[mine]))][: self._k]
            best.append((mine, score[mine]))
        return best
