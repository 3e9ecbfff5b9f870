"""Boxes by what contains them: a k-d tree or a Z-curve over packed points, as an object that grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.covering.kernels import index as index_kernels
from rankcast.covering.kernels import kdtree, zcurve
from rankcast.covering.kernels.containment import (
    BUCKET,
    BUCKET_USED,
    BUCKETS,
    COMPARISONS,
    DUE,
    KDTREE,
    KIND,
    LEAF,
    META,
    NODES_VISITED,
    POINTS,
    SIZE,
    ZCURVE,
    IndexArrays,
    Subscriptions,
    close_corner,
    encode,
    levels_for,
    words_for,
)
from rankcast.covering.kernels.kdtree import HOLDS, LEFT, PARENT, RIGHT
from rankcast.structures import integrity
from rankcast.tables.schema import Bools, Rows

KINDS = {"kdtree": KDTREE, "zcurve": ZCURVE}
FIELDS = {KDTREE: kdtree.FIELDS, ZCURVE: zcurve.FIELDS}
SPARE = 4


class ContainmentIndex:
    """Rows with boxes, found by a box that they contain.

    - Changing and searching: the kernels of `rankcast.covering.kernels.index`, over `index`; before an insert
      the index must be prepared.
    - Snapshots: `state`, `restore`, `check_restored`.

    Memory: 8 bytes for each eight attributes and 4 bytes a slot, 64 slots a bucket, buckets about two thirds
    full.
    """

    def __init__(self, kind: str, attributes: int) -> None:
        self._kind, self._attributes = KINDS[kind], attributes
        self.index = self._empty(SPARE)
        index_kernels.clear(self.index)

    def __len__(self) -> int:
        return int(self.index.meta[POINTS])

    def prepare(self, subs: Subscriptions) -> None:
        """Make an insert possible: cut the codes anew if that is due, and make room."""
        index = self.index
        if index.meta[DUE] <= 0:
            rows, done = self.rows(), 0
            self.index = self._empty(SPARE + len(rows) * 4 // (3 * BUCKET))
            index_kernels.clear(self.index)
            self.index.meta[[NODES_VISITED, COMPARISONS]] = index.meta[[NODES_VISITED, COMPARISONS]]
            while done < len(rows):
                done = index_kernels.recut(self.index, subs, rows, done)
                if done < len(rows):
                    self._extend()
        if index_kernels.unprepared(self.index):
            self._extend()

    def rows(self) -> Rows:
        """The rows in the index, ascending."""
        used = self.index.row[: self.index.meta[BUCKET_USED]]
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
        """Take over a state that `state` gave."""
        buckets = len(arrays["row"]) if "row" in arrays and arrays["row"].ndim else 0
        lengths = {"words": buckets, "row": buckets, "node": 2 * buckets, "corner": 2 * buckets}
        wanted = {
            name: integrity.like(each, length=lengths.get(name, len(each)))
            for name, each in self.index._asdict().items()
        }
        integrity.forms(arrays, wanted)
        integrity.need(arrays["meta"][KIND] == self._kind, "meta", "is of an index of another kind")
        self.index = IndexArrays(**{name: np.array(arrays[name]) for name in IndexArrays._fields})
        return self

    def check_restored(self, subs: Subscriptions, wanted: Bools, name: str) -> None:
        """Refuse an index from a snapshot that does not hang together or hold just the `wanted` rows."""
        integrity.no_nan(self.index.cuts, f"{name}.cuts")
        fits = kdtree.fits if self._kind == KDTREE else zcurve.fits
        integrity.need(fits(self.index, subs, wanted), f"{name}.row", "does not hold the boxes it should")

    def _extend(self) -> None:
        old = self.index
        buckets = old.row.shape[0] + max(SPARE, old.row.shape[0] // 32)
        wider = self._empty(buckets)
        for name in ("words", "row", "node", "corner"):
            getattr(wider, name)[: getattr(old, name).shape[0]] = getattr(old, name)
        self.index = wider._replace(meta=old.meta, cuts=old.cuts)

    def _empty(self, buckets: int) -> IndexArrays:
        """Arrays for so many buckets, with two nodes each."""
        words = words_for(2 * self._attributes)
        meta = np.zeros(META, np.int64)
        meta[KIND], meta[DUE] = self._kind, index_kernels.FIRST_CUT
        return IndexArrays(
            words=np.zeros((buckets, words, BUCKET), np.uint64),
            row=np.zeros((buckets, BUCKET + 2), np.int32),
            node=np.zeros((2 * buckets, FIELDS[self._kind]), np.int32),
            corner=np.zeros((2 * buckets, words), np.uint64),
            cuts=np.full((2 * self._attributes, levels_for(2 * self._attributes) - 1), np.inf),
            meta=meta,
        )

    def check(self, subs: Subscriptions) -> None:
        """Assert the invariants: every row is there once, with its codes, and corners are tight."""
        index, rows = self.index, self.rows()
        assert len(np.unique(rows)) == len(self) == sum(self._check_bucket(b, subs) for b in self._live())
        assert len(self._live()) == index.meta[BUCKETS]
        if self._kind == KDTREE:
            self._check_node(0)

    def _live(self) -> list[int]:
        """The buckets in use."""
        index = self.index
        if self._kind == ZCURVE:
            return [int(bucket) for bucket in index.node[: index.meta[BUCKETS], 0]]
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
        rows = index.row[bucket, :size]
        assert not index.words[bucket, :, size:].any()
        key = np.empty(index.words.shape[1], np.uint64)
        for slot, row in enumerate(rows):
            encode(index.cuts, subs.lo, subs.hi, row, key)
            assert np.array_equal(key, index.words[bucket, :, slot])
        node = index.row[bucket, LEAF] if self._kind == KDTREE else 2 * bucket
        assert not close_corner(index, bucket, node)
        return size

    def _check_node(self, node: int) -> None:
        index = self.index
        if index.node[node, HOLDS] < 0:
            assert not kdtree.lower_corner(index, node)
            for child in index.node[node, [LEFT, RIGHT]].tolist():
                assert index.node[child, PARENT] == node
                assert index.node[child, HOLDS] < 0 or index.row[index.node[child, HOLDS], SIZE] > 0
                self._check_node(child)
