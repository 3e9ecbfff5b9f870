"""Messages of the window by word, for subscriptions that look for their best ones."""

from __future__ import annotations

from rankcast.geotext.by_word import ByWord
from rankcast.geotext.kernels import message_lists as kernel
from rankcast.geotext.kernels.geo_bounds import Bits, Frame
from rankcast.geotext.kernels.message_lists import NODE, STAMP, Places
from rankcast.geotext.kernels.term_order import Texts
from rankcast.tables.schema import Floats, Rows


class MessageIndex(ByWord):
    """Inverted lists by word; see the kernel for what is in them. `add` adds, `lists` is for kernels.

    Memory: 20 bytes an entry and 2 for its node, 28 a word, and up to half as much again for growth.
    """

    facts, node, slack, tail, worth = 8, NODE, 3, 1, 16
    stamp_at = STAMP

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self._frame = frame

    def add(self, rows: Rows, texts: Texts, idf: Floats, places: Places) -> None:
        """Add messages that are not in the lists, by texts of known words. Cost: O(1) an entry."""
        if not rows.size:
            return
        self.know(idf.size)
        words, counts = self._words_of(rows, texts)
        self._reserve(words, counts, places.stamp)
        kernel.append(self.lists, rows, texts, idf, places, self._frame)
        unsettled, firsts = kernel.due(self.lists, words)
        self._arrange(unsettled, firsts, places.stamp)

    def _arrange(self, words: Rows, firsts: Rows, stamps: Bits) -> None:
        if words.size:
            kernel.arrange(self.lists, words, firsts, stamps)
