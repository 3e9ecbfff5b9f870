"""Ranked matching by other means: score order, or all matches and then the best of them.

In score order look `NumpyChunks`, `ScoreOrder` (compiled) and `SqliteScores`. `RarestPredicate` has posting
lists of equalities. All matches find `NclsAll` (nested containment lists),
`IntervalTreeAll`, the conventional interval tree, which keeps at each centre its intervals by lower and by
upper end and reads from the side the event is on, and `RtreeAll` (libspatialindex). DuckDB scans and keeps
the best by itself. `NumpyMatching` compares every event with every subscription.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from rankcast.bench.workloads import Columns, Floats, Integers
from rankcast.papers.matching import trees
from rankcast.structures.jit import EXACT

# mypy: disallow-untyped-decorators=False

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


@njit(**EXACT)
def _in_score_order(lo: Floats, hi: Floats, points: Floats, k: int, found: Integers) -> None:
    """Write the places of the first k boxes (n, d) that contain each point, -1 behind them."""
    for e in range(points.shape[0]):
        held, place = 0, 0
        while place < lo.shape[0] and held < k:
            inside = True
            for j in range(lo.shape[1]):
                inside &= (lo[place, j] <= points[e, j]) & (points[e, j] <= hi[place, j])
            if inside:
                found[e, held] = place
                held += 1
            place += 1
        found[e, held:] = -1


class ScoreOrder:
    """Boxes in score order, compiled: compared one after the other until k are found."""

    def __init__(self, rows: Columns, over: Sequence[str], k: int) -> None:
        order = np.lexsort((rows["id"], -rows["score"]))
        self._lo = np.stack([rows[f"{name}_lo"][order] for name in over], axis=1)
        self._hi = np.stack([rows[f"{name}_hi"][order] for name in over], axis=1)
        self._id, self._score, self._over, self._k = rows["id"][order], rows["score"][order], list(over), k

    def publish(self, events: Columns) -> Best:
        """Give ids and scores of the best subscriptions for each event."""
        points = np.stack([events[name] for name in self._over], axis=1)
        found = np.empty((len(points), self._k), np.int64)
        _in_score_order(self._lo, self._hi, points, self._k, found)
        return [(self._id[each[each >= 0]], self._score[each[each >= 0]]) for each in found]


class RarestPredicate:
    """Equalities in posting lists: each row stands in the list of its rarest (attribute, value)."""

    def __init__(self, rows: Columns, over: Sequence[str], k: int) -> None:
        self._values = np.stack([rows[f"{name}_lo"] for name in over], axis=1)
        self._bounded = np.isfinite(self._values)
        self._id, self._score, self._over, self._k = rows["id"], rows["score"], list(over), k
        often = np.full(self._values.shape, np.inf)
        for j in range(len(over)):
            held = np.flatnonzero(self._bounded[:, j])
            _, which, count = np.unique(self._values[held, j], return_inverse=True, return_counts=True)
            often[held, j] = count[which]
        rarest = often.argmin(axis=1)
        value = self._values[np.arange(len(rarest)), rarest]
        order = np.lexsort((value, rarest))
        ends = np.flatnonzero(np.diff(rarest[order]) | (np.diff(value[order]) != 0)) + 1
        lists = np.split(order, ends)
        self._lists = {(int(rarest[each[0]]), float(value[each[0]])): each for each in lists}

    def publish(self, events: Columns) -> Best:
        """Give ids and scores of the best subscriptions for each event."""
        points = np.stack([events[name] for name in self._over], axis=1)
        return [self._best(point) for point in points]

    def _best(self, point: Floats) -> tuple[Integers, Floats]:
        pairs = enumerate(point.tolist())
        lists = [self._lists[pair] for pair in pairs if pair in self._lists]
        found = np.concatenate([np.empty(0, np.int64), *lists])
        met = ((self._values[found] == point) | ~self._bounded[found]).all(axis=1)
        return best_of(found[met], self._id, self._score, self._k)


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
        query = "select id, score from s where lo <= ? and hi >= ? order by score desc, id limit ?"
        answers = [self._base.execute(query, (x, x, self._k)).fetchall() for x in events[self._name].tolist()]
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


def best_of(found: Integers, ids: Integers, scores: Floats, k: int) -> tuple[Integers, Floats]:
    """Give ids and scores of the k best of some rows, ties to the smaller id."""
    score = scores[found]
    if found.size > k:
        bound = np.partition(score, -k)[-k]
        found, score = found[score >= bound], score[score >= bound]
    best = np.lexsort((ids[found], -score))[:k]
    return ids[found[best]], score[best]


class IntervalTreeAll:
    """A conventional interval tree, its lists sorted by ends."""

    def __init__(self, rows: Columns, over: Sequence[str], k: int) -> None:
        (self._name,) = over
        self._k, self._rows = k, rows
        lo, hi = rows[f"{self._name}_lo"], rows[f"{self._name}_hi"]
        self._centre, self._child, first, listed = trees.centre_tree(lo, hi)
        self._first = first
        node = np.repeat(np.arange(first.size - 1), np.diff(first))
        self._by_lo, self._by_hi = (
            listed[np.lexsort((lo[listed], node))],
            listed[np.lexsort((hi[listed], node))],
        )
        self._lo, self._hi = lo[self._by_lo], hi[self._by_hi]

    def publish(self, events: Columns) -> Best:
        """Give ids and scores of the best subscriptions for each event."""
        ids, scores = self._rows["id"], self._rows["score"]
        return [best_of(self._stabbed(x), ids, scores, self._k) for x in events[self._name].tolist()]

    def _stabbed(self, x: float) -> Integers:
        """Give all intervals that contain a value."""
        node, found = 0, [self._by_lo[:0]]
        while node >= 0:
            first, last = self._first[node], self._first[node + 1]
            if x <= self._centre[node]:
                end = first + np.searchsorted(self._lo[first:last], x, "right")
                found.append(self._by_lo[first:end])
            else:
                start = first + np.searchsorted(self._hi[first:last], x, "left")
                found.append(self._by_hi[start:last])
            node = int(self._child[node, int(x > self._centre[node])]) if x != self._centre[node] else -1
        return np.concatenate(found)


class RtreeAll:
    """All boxes that contain a point by `rtree`; one dimension is doubled, since it knows two at least."""

    def __init__(self, rows: Columns, over: Sequence[str], k: int) -> None:
        names = list(over) if len(over) > 1 else [over[0], over[0]]
        self._names, self._k, self._rows = names, k, rows
        lo, hi = (np.stack([rows[f"{name}_{end}"] for name in names], axis=1) for end in ("lo", "hi"))
        module: Any = importlib.import_module("rtree.index")
        property_ = module.Property(dimension=len(names))
        self._tree: Any = module.Index((rows["id"].astype(np.int64), lo, hi), properties=property_)

    def publish(self, events: Columns) -> Best:
        """Give ids and scores of the best subscriptions for each event."""
        points = np.stack([events[name] for name in self._names], axis=1)
        found, counts = self._tree.intersection_v(points, points)
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        ids, scores = self._rows["id"], self._rows["score"]
        return [best_of(found[a:b].astype(np.int64), ids, scores, self._k) for a, b in pairwise(ends)]


class DuckdbTop:
    """A scan by DuckDB that keeps the k best, on one thread, a query an event."""

    def __init__(self, rows: Columns, over: Sequence[str], k: int) -> None:
        self._names, module = list(over), importlib.import_module("duckdb")
        self._base: Any = module.connect(config={"threads": 1})
        self._base.register("given", rows)
        self._base.execute("create table s as select * from given")
        tests = " and ".join(f"{name}_lo <= ? and {name}_hi >= ?" for name in self._names)
        self._asked = f"select id, score from s where {tests} order by score desc, id limit {int(k)}"  # noqa: S608

    def publish(self, events: Columns) -> Best:
        """Give ids and scores of the best subscriptions for each event."""
        answers = []
        for point in zip(*(events[name].tolist() for name in self._names), strict=True):
            found = self._base.execute(self._asked, [value for x in point for value in (x, x)]).fetchnumpy()
            answers.append((np.asarray(found["id"], np.int64), np.asarray(found["score"])))
        return answers


class NumpyMatching:
    """Answers exact matching if the subscriptions have a `score`, relaxed matching (sum) otherwise."""

    def __init__(self, subscriptions: Columns, over: Sequence[str], k: int) -> None:
        self._rows, self._over, self._k = subscriptions, list(over), k

    def publish(self, events: Columns) -> list[tuple[Integers, Floats]]:
        """Give ids and scores of the best subscriptions for each event."""
        points = np.stack([events[name] for name in self._over], axis=1)
        return [self._best(point) for point in points]

    def _best(self, point: Floats) -> tuple[Integers, Floats]:
        """Give the k best for one event, ties to the smaller id."""
        rows = self._rows
        inside = [
            (rows[f"{name}_lo"] <= value) & (value <= rows[f"{name}_hi"])
            for name, value in zip(self._over, point, strict=True)
        ]
        if "score" in rows:
            score = np.where(np.all(inside, axis=0), rows["score"], -np.inf)
            matches = np.flatnonzero(score > -np.inf)
        else:
            score = np.zeros(len(rows["id"]))
            for name, within in zip(self._over, inside, strict=True):
                score += np.where(within, rows[f"{name}_weight"], 0.0)
            matches = np.flatnonzero(score > 0.0)
        return best_of(matches, rows["id"], score, self._k)
