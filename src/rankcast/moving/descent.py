"""Going down an R-tree for many queries at once, level by level, as a test over arrays says."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rankcast.moving.kernels import rtree_spread
from rankcast.moving.kernels.rtree import Rtree
from rankcast.moving.kernels.rtree_search import Queries
from rankcast.moving.kernels.rtree_spread import Corner, Entries
from rankcast.tables.schema import Bools, Floats, Ints, Rows

Test = Callable[[Ints, Floats, Floats], Bools]  # of queries, values and distances


class Reached(NamedTuple):
    """Points that queries came to, query by query, and what it took: blocks opened, points looked at."""

    query: Ints
    row: Rows
    distance: Floats
    nodes: int
    tried: int


def descend(
    tree: Rtree, metric: int, queries: Queries, corner: Corner, keep: Test, *, every: bool = False
) -> Reached:
    """The points that `keep` keeps, below blocks that it keeps; or `every` point below these."""
    found: list[tuple[Ints, Rows, Floats]] = [(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0))]
    query, block = rtree_spread.roots(tree, queries.x.size)
    nodes = tried = 0
    while query.size:
        entries = _kept(rtree_spread.children(tree, metric, queries, query, block, corner), keep)
        leaf = entries.child >= 0
        points = rtree_spread.points(tree, metric, queries, entries.query[leaf], entries.child[leaf], corner)
        nodes += query.size + int(leaf.sum())
        tried += points.query.size
        points = points if every else _kept(points, keep)
        found.append((points.query, points.child.astype(np.int32), points.distance))
        query, block = entries.query[~leaf], ~entries.child[~leaf]
    of, row, away = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(of, kind="stable")
    return Reached(of[order], row[order], away[order], nodes, tried)


def _kept(entries: Entries, keep: Test) -> Entries:
    kept = keep(entries.query, entries.values, entries.distance)
    return Entries._make(column[kept] for column in entries)
