"""Peers of ranked matching without ranked indexes: all matches, then the best of them.

The conventional interval tree keeps, at each centre, its intervals by lower and by upper end; an event reads
from the side it is on. `rtree` is libspatialindex. DuckDB scans and keeps the best by itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rankcast.bench.baselines.score_order import Best
from rankcast.bench.workloads import Columns, Floats, Integers
from rankcast.papers.matching import routes


def best_of(found: Integers, rows: Columns, k: int) -> tuple[Integers, Floats]:
    """Give ids and scores of the k best of some rows, whose ids are their places."""
    score = rows["score"][found]
    if found.size > k:
        bound = np.partition(score, -k)[-k]
        found, score = found[score >= bound], score[score >= bound]
    best = np.lexsort((found, -score))[:k]
    return rows["id"][found[best]], score[best]


class IntervalTreeAll:
    """A conventional interval tree, its lists sorted by ends."""

    def __init__(self, rows: Columns, over: Sequence[str], k: int) -> None:
        (self._name,) = over
        self._k, self._rows = k, rows
        lo, hi = rows[f"{self._name}_lo"], rows[f"{self._name}_hi"]
        self._centre, self._child, first, listed = routes.centre_tree(lo, hi)
        self._first = first
        node = np.repeat(np.arange(first.size - 1), np.diff(first))
        self._by_lo, self._by_hi = (
            listed[np.lexsort((lo[listed], node))],
            listed[np.lexsort((hi[listed], node))],
        )
        self._lo, self._hi = lo[self._by_lo], hi[self._by_hi]

    def publish(self, events: Columns) -> Best:
        """Give ids and scores of the best subscriptions for each event."""
        return [best_of(self._stabbed(x), self._rows, self._k) for x in events[self._name].tolist()]

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
        return [best_of(found[a:b].astype(np.int64), self._rows, self._k) for a, b in pairwise(ends)]


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
