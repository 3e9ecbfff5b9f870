"""Boxes by what contains them: a k-d tree or a Z-curve over packed points, as an object that grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.covering.kernels import index as index_kernels
from rankcast.covering.kernels import kdtree, zcurve
from rankcast.covering.kernels.codes import encode, levels_for, words_for
from rankcast.covering.kernels.containment import (
    BUCKET,
    BUCKET_USED,
    BUCKETS,
    COMPARISONS,
    CUT,
    GENERATION,
    HOT,
    KDTREE,
    KIND,
    LEAF,
    META,
    NODES_VISITED,
    POINTS,
    RECODED,
    SIZE,
    ZCURVE,
    IndexArrays,
    Subscriptions,
    gather,
)
from rankcast.covering.kernels.hot import hot_fits
from rankcast.covering.kernels.kdtree import HOLDS, LEAVES, LEFT, LOPSIDED, PARENT, RIGHT, SLACK
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Bools, Rows

KINDS = {"kdtree": KDTREE, "zcurve": ZCURVE}
FIELDS = {KDTREE: kdtree.FIELDS, ZCURVE: zcurve.FIELDS}
SPARE = 4


class ContainmentIndex:
    """Rows with boxes, found by a box that they contain.

    - Changing and searching: the kernels of `rankcast.covering.kernels.index`, over `index`; before an insert
      the index must be prepared.
    - Snapshots: `state`, `restore`, `check_restored`.

    Memory: 8 bytes for each eight attributes and 4 bytes per slot, 64 slots a bucket, buckets about two
    thirds full, and 16 bytes an attribute for each of their nodes; 4 bytes for each row number.
    """

    def __init__(self, kind: str, attributes: int) -> None:
        self._kind, self._attributes = KINDS[kind], attributes
        self._outdated = False  # an older version has written it: to be made anew from the rows
        self.index = self._empty(SPARE)
        index_kernels.clear(self.index)

    def __len__(self) -> int:
        return int(self.index.meta[POINTS])

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`."""
        if rows > self.index.where.size:
            self.index = self.index._replace(where=grown(self.index.where, rows, -1))

    def prepare(self, subs: Subscriptions) -> None:
        """Make an insert possible."""
        self.reserve(subs.status.size)
        if index_kernels.unprepared(self.index):
            self._extend()

    def rows(self) -> Rows:
        """The rows in the index, ascending."""
        used = self.index.row[HOT + 1 : self.index.meta[BUCKET_USED]]
        return np.sort(used[:, :BUCKET][np.arange(BUCKET) < used[:, SIZE, None]])

    def tally(self) -> tuple[int, int]:
        """Nodes visited and points compared since the last call."""
        meta = self.index.meta
        nodes, comparisons = meta[NODES_VISITED : COMPARISONS + 1].tolist()
        meta[NODES_VISITED : COMPARISONS + 1] = 0
        return nodes, comparisons

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The arrays."""
        return {}, self.index._asdict()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> ContainmentIndex:
        """Take over what `state` returned; of one that has codes alone, only that it was there."""
        if "where" not in arrays:
            self._outdated = True
            return self
        buckets = len(arrays["row"]) if "row" in arrays and arrays["row"].ndim else 0
        lengths = {"words": buckets, "row": buckets, "node": 2 * buckets, "corner": 2 * buckets}
        lengths["where"] = arrays["where"].size
        wanted = {
            name: integrity.like(each, length=lengths.get(name, len(each)))
            for name, each in self.index._asdict().items()
        }
        integrity.forms(arrays, wanted)
        integrity.need(arrays["meta"][KIND] == self._kind, "meta", "is of an index of another kind")
        self.index = IndexArrays(**{name: np.array(arrays[name]) for name in IndexArrays._fields})
        if not self._is_recoded():
            # A former version could leave an empty bucket with old codes: all are looked through again.
            self.index.meta[RECODED] = HOT + 1
        return self

    def _is_recoded(self) -> bool:
        """Whether all buckets have the newest codes, if none is left to take them over."""
        meta = self.index.meta
        used = self.index.row[HOT + 1 : max(0, meta[BUCKET_USED])]
        return bool(meta[RECODED] < meta[BUCKET_USED] or (used[:, CUT] == meta[GENERATION]).all())

    def check_restored(self, subs: Subscriptions, wanted: Bools, name: str) -> None:
        """Refuse an index from a snapshot that is inconsistent or does not hold just the `wanted` rows."""
        integrity.no_nan(self.index.cuts, f"{name}.cuts")
        fits = kdtree.fits if self._kind == KDTREE else zcurve.fits
        held = fits(self.index, subs, wanted) and hot_fits(self.index, subs, wanted)
        integrity.need(held, f"{name}.row", "does not hold the boxes it should")

    def complete(self, subs: Subscriptions, wanted: Bools) -> None:
        """Rebuild the index from the `wanted` rows, if a former version has written it."""
        if self._outdated:
            self.insert_rows(subs, np.flatnonzero(wanted).astype(np.int32))
            self._outdated = False

    def insert_rows(self, subs: Subscriptions, rows: Rows) -> None:
        """Insert rows."""
        done = 0
        while done < rows.size:
            self.prepare(subs)
            done = index_kernels.insert_rows(self.index, subs, rows, done)

    def _extend(self) -> None:
        old = self.index
        buckets = old.row.shape[0] + max(SPARE, old.row.shape[0] // 8)
        wider = self._empty(buckets)
        for name in ("words", "row", "node", "corner"):
            getattr(wider, name)[: getattr(old, name).shape[0]] = getattr(old, name)
        self.index = old._replace(words=wider.words, row=wider.row, node=wider.node, corner=wider.corner)

    def _empty(self, buckets: int) -> IndexArrays:
        """Arrays for so many buckets, with two nodes each."""
        dimensions = 2 * self._attributes
        words = words_for(dimensions)
        meta = np.zeros(META, np.int64)
        meta[KIND] = self._kind
        return IndexArrays(
            words=np.zeros((buckets, words, BUCKET), np.uint64),
            row=np.zeros((buckets, BUCKET + 3), np.int32),
            node=np.zeros((2 * buckets, FIELDS[self._kind]), np.int32),
            corner=np.zeros((2 * buckets, dimensions + 1)),
            hot=np.full((dimensions, BUCKET), np.nan),
            cuts=np.full((2, dimensions, levels_for(dimensions) - 1), np.inf),
            where=np.empty(0, np.int32),
            meta=meta,
        )

    def check(self, subs: Subscriptions) -> None:
        """Assert the invariants: every row is there once, with its codes, and corners are tight."""
        index, rows = self.index, self.rows()
        live = self._live()
        assert len(np.unique(rows)) == len(self) == sum(self._check_bucket(b, subs) for b in live)
        assert len(live) + 1 == index.meta[BUCKETS]
        assert self._is_recoded()
        if self._kind == KDTREE:
            self._check_node(0)
        wanted = np.zeros(subs.status.size, np.bool_)
        wanted[rows] = True
        assert hot_fits(index, subs, wanted)
        assert (kdtree.fits if self._kind == KDTREE else zcurve.fits)(index, subs, wanted)

    def _live(self) -> list[int]:
        """The buckets in use."""
        index = self.index
        if self._kind == ZCURVE:
            return [int(bucket) for bucket in index.node[: index.meta[BUCKETS] - 1, 0]]
        stack, found = [0], []
        while stack:
            node = stack.pop()
            if index.node[node, HOLDS] >= 0:
                found.append(int(index.node[node, HOLDS]))
            else:
                stack += index.node[node, [LEFT, RIGHT]].tolist()
        return found

    def _check_bucket(self, bucket: int, subs: Subscriptions) -> int:
        index, size = self.index, int(self.index.row[bucket, SIZE])
        assert not index.words[bucket, :, size:].any()
        key, points = np.empty(index.words.shape[1], np.uint64), gather(index, subs, bucket)
        for slot in range(size):
            encode(index.cuts[index.row[bucket, CUT]], points[slot], key)
            assert np.array_equal(key, index.words[bucket, :, slot])
        node = index.row[bucket, LEAF] if self._kind == KDTREE else 2 * bucket
        dimensions = points.shape[1]
        assert np.array_equal(index.corner[node, :dimensions], points.max(axis=0, initial=-np.inf))
        return size

    def _check_node(self, node: int) -> None:
        index = self.index
        if index.node[node, HOLDS] < 0:
            assert not kdtree.lower_corner(index, node)
            children = index.node[node, [LEFT, RIGHT]]
            most = int(index.node[children, LEAVES].max())
            assert most <= LOPSIDED * index.node[node, LEAVES] + SLACK
            for child in children.tolist():
                assert index.node[child, PARENT] == node
                assert index.node[child, HOLDS] < 0 or index.row[index.node[child, HOLDS], SIZE] > 0
                self._check_node(child)
