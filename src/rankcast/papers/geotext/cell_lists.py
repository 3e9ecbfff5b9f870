"""Subscriptions by word in the cells of a quadtree that cover the space: the baseline CIQ [Geo §2.2]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.kernels.bounds import Bits, Frame
from rankcast.geotext.kernels.match import Posts, Readers, Switches
from rankcast.geotext.kernels.terms import Scratch, Texts
from rankcast.geotext.kernels.verify import Hits
from rankcast.geotext.kernels.word_lists import Owners
from rankcast.papers.geotext import ciq
from rankcast.papers.geotext.ciq import LEVELS, CellLists
from rankcast.range_topk.objects import grown
from rankcast.structures import integrity
from rankcast.tables.schema import Bools, Floats, Ints, Rows

PAIRS = 1 << 16  # hits of several messages at a time


class CellIndex:
    """Lists by word and cell, made anew at the next message after subscriptions came or went.

    It has the calls of `WordIndex`. What it needs to know of a subscription follows from the engine's state,
    so its own is no more than which subscriptions there are.

    Memory: 80 bytes a word of a subscription (in ten cells each), 48 a subscription, 16 a word and cell.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._member: Bools = np.zeros(0, np.bool_)
        self._stale: Rows | None = None  # whose needs are to be noted; None: all lists are to be made
        self.lists = _no_lists()

    def know(self, words: int) -> None:
        """Words have no arrays here."""

    def add(self, rows: Rows, texts: Texts, idf: Floats, owners: Owners) -> None:
        """Add subscriptions."""
        if rows.size:
            self._member = grown(self._member, max(self._member.size, int(rows.max()) + 1), 0)
            self._member[rows], self._stale = True, None

    def drop(self, rows: Rows, texts: Texts, stamps: Bits) -> None:
        """Subscriptions go."""
        if rows.size:
            self._member[rows], self._stale = False, None

    def update(self, rows: Rows, texts: Texts, idf: Floats, owners: Owners) -> None:
        """Thresholds of subscriptions have moved."""
        if self._stale is not None:
            self._stale = np.union1d(self._stale, rows)

    def disseminate(
        self, readers: Readers, posts: Posts, idf: Floats, scratch: Scratch, on: Switches, counters: Ints,
        listed: Floats,
    ) -> Hits | None:  # fmt: skip
        """The hits of messages; None if they are too many to be taken together."""
        if self._stale is None:
            self._make(readers)
            self._stale = np.flatnonzero(self._member).astype(np.int32)
        ciq.set_needs(self._stale, readers, listed, self._frame, self.lists.need)
        self._stale = np.zeros(0, np.int32)
        room = PAIRS if posts.rows.size > 1 else self._member.size
        found, counted = (
            Hits(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room)),
            np.zeros_like(counters),
        )
        used = ciq.disseminate(self.lists, readers, posts, idf, scratch, self._frame, found, counted)
        if used < 0:
            return None
        counters += counted
        order = np.argsort(found.subscription[:used], kind="stable")
        return Hits._make(column[:used][order] for column in found)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Which subscriptions there are."""
        return {}, {"member": self._member}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        integrity.forms(arrays, {"member": (np.bool_, (None,))})
        self._member, self._stale = arrays["member"], None
        return self

    def check_restored(self, texts: Texts, stamps: Bits, live: Bools) -> None:
        """Refuse members from a snapshot that are not the `live` subscriptions."""
        same = np.array_equal(np.flatnonzero(self._member), np.flatnonzero(live))
        integrity.need(same, "readers_member", "is not of the subscriptions that are there")

    def _make(self, readers: Readers) -> None:
        """Make all lists: by word and cell, in order of subscriptions. Cost: O(n log n)."""
        members = np.flatnonzero(self._member).astype(np.int32)
        key, row, weight = ciq.postings(members, readers, self._frame)
        order = np.lexsort((row, key))
        keys, first = np.unique(key[order], return_index=True)
        need = np.zeros((self._member.size, 4 * LEVELS), np.float32)
        self.lists = CellLists(keys, np.append(first, order.size), row[order], weight[order], need)


def _no_lists() -> CellLists:
    weight, need = np.zeros(0, np.float32), np.zeros((0, 4 * LEVELS), np.float32)
    return CellLists(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32), weight, need)
