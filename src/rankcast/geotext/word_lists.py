"""Subscriptions by word, in blocks with bounds."""

from __future__ import annotations

import numpy as np

from rankcast.geotext.by_word import ByWord
from rankcast.geotext.kernels import igpt, verify, word_order
from rankcast.geotext.kernels import word_lists as kernel
from rankcast.geotext.kernels.geo_bounds import Bits, Frame
from rankcast.geotext.kernels.igpt import Posts, Readers, Switches
from rankcast.geotext.kernels.term_order import Scratch, Texts
from rankcast.geotext.kernels.verify import Hits
from rankcast.geotext.kernels.word_lists import BLOCK, FACTS, NODE, STAMP, Owners, Shape
from rankcast.tables.schema import Floats, Ints, Rows

PAIRS = 1 << 18  # candidates of several messages at a time


class WordIndex(ByWord):
    """Inverted lists by word; see the kernel for what is in them.

    - Changing: `add`, `update`.
    - Asking: `disseminate`; `lists`, for kernels.

    Memory: 24 bytes an entry and 5 for its node, 28 a word, and up to a quarter as much again for growth.
    """

    facts, node, slack, tail, worth = FACTS, NODE, 2, 2, 64
    stamp_at = STAMP

    def __init__(self, frame: Frame, shape: Shape) -> None:
        super().__init__()
        self._frame, self._shape = frame, shape

    def add(self, rows: Rows, texts: Texts, idf: Floats, owners: Owners) -> None:
        """Add owners that are not in the lists, by texts of known words. Cost: O(1) an entry."""
        if not rows.size:
            return
        words, counts = self._words_of(rows, texts)
        self._reserve(words, counts, owners.stamp)
        kernel.append(self.lists, rows, texts, idf, owners, self._frame)
        unsettled, firsts = kernel.due(self.lists, words, self._shape.cell)
        self._arrange(unsettled, firsts, owners.stamp)

    def update(self, rows: Rows, texts: Texts, idf: Floats, owners: Owners) -> None:
        """Thresholds of owners have moved: list them anew."""
        self.drop(rows, texts, owners.stamp)
        self.add(rows, texts, idf, owners)

    def disseminate(
        self, readers: Readers, posts: Posts, idf: Floats, scratch: Scratch, on: Switches, counters: Ints,
        listed: Floats,
    ) -> Hits | None:  # fmt: skip
        """The hits of messages; None if they are too many to be taken together."""
        room = PAIRS if posts.rows.size > 1 else self._used + BLOCK
        keys, counted = np.empty(room, np.int64), np.zeros_like(counters)
        pairs = igpt.find_pairs(self.lists, posts, idf, scratch.place, self._frame, on, keys, counted)
        if pairs < 0:
            return None
        ordered = verify.sort_pairs(keys[:pairs], posts.rows.size, readers.stamp)
        hits: Hits = verify.score_pairs(ordered, readers, posts, self._frame, on.current, counted)
        counters += counted
        return hits

    def _arrange(self, words: Rows, firsts: Rows, stamps: Bits) -> None:
        if words.size:
            word_order.arrange(self.lists, words, firsts, stamps, self._shape)
