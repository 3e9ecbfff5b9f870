"""Messages of the window by word, for subscriptions that look for their best ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.columns import Floats, Ints, Rows
from rankcast.errors import SnapshotError
from rankcast.indexes.objects import grown
from rankcast.kernels import message_lists as kernel
from rankcast.kernels import word_lists
from rankcast.kernels.geo_bounds import Frame
from rankcast.kernels.message_lists import NODE, Places
from rankcast.kernels.term_order import Texts
from rankcast.kernels.word_lists import STEP, Lists
from rankcast.vocabulary import positions

BY_WORD = ("begin", "main", "joint", "size", "room", "dead")
LAST_STAMP = 65535


class MessageIndex:
    """Inverted lists by word; see the kernel for what is in them.

    - Changing: `add`, `drop` (after which a message's entries are void: its stamp changes).
    - Asking: `lists`, for kernels.
    - Keeping: `state`, `restore`.

    Memory: 20 bytes an entry and 2 for its node, 28 a word, and up to half as much again for growth.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        main, joint, size, room, dead = (np.zeros(8, np.int32) for _ in BY_WORD[1:])
        by_word = (np.zeros(8, np.int64), main, joint, size, room, dead)
        self.lists = Lists(*by_word, **_entries(STEP))
        self._used = 0

    def know(self, words: int) -> None:
        """Let there be so many words; to be called before kernels ask for a new one."""
        if words > self.lists.begin.size:
            length = max(words, self.lists.begin.size * 9 // 8)
            larger = {name: grown(getattr(self.lists, name), length, 0) for name in BY_WORD}
            self.lists = self.lists._replace(**larger)

    def add(self, rows: Rows, texts: Texts, idf: Floats, places: Places) -> None:
        """Add messages that are not in the lists, by texts of known words. Cost: O(1) an entry."""
        if not rows.size:
            return
        self.know(idf.size)
        sizes = texts.size[rows].astype(np.int64)
        words, counts = np.unique(texts.term[positions(texts.begin[rows], sizes)], return_counts=True)
        self._reserve(words, counts, places)
        kernel.append(self.lists, rows, texts, idf, places, self._frame)
        unsettled, firsts = kernel.due(self.lists, words)
        self._arrange(unsettled, firsts, places)

    def drop(self, rows: Rows, texts: Texts, places: Places) -> None:
        """Messages go; their texts are still what they were when they came. Cost: O(1) an entry.

        Stamps begin again after the last one; before that no entry may be left that has an old one.
        """
        if not rows.size:
            return
        word_lists.discount(self.lists, rows, texts)
        if (places.stamp[rows] == LAST_STAMP).any():
            self._tidy(places)
        places.stamp[rows] += 1

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How much is used, and the arrays."""
        return {"used": self._used}, self.lists._asdict()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        lists = Lists(**{name: arrays[name] for name in Lists._fields})
        words, entries = lists.begin.size, lists.row.size
        fits = [array.dtype for array in lists] == [array.dtype for array in self.lists]
        fits &= all(getattr(lists, name).shape == (words,) for name in BY_WORD)
        fits &= all(array.shape == getattr(lists, name).shape for name, array in _entries(entries).items())
        if not fits or not 0 <= int(header["used"]) <= entries:
            raise SnapshotError("the arrays of messages by word do not fit together")
        self.lists, self._used = lists, int(header["used"])
        return self

    def _arrange(self, words: Rows, firsts: Rows, places: Places) -> None:
        if words.size:
            kernel.arrange(self.lists, words, firsts, places.stamp)

    def _arrange_all_of(self, words: Rows, places: Places) -> None:
        self._arrange(words, np.zeros(words.size, np.int32), places)

    def _tidy(self, places: Places) -> None:
        """Leave no entry in any list that no longer counts."""
        self._arrange_all_of(np.flatnonzero(self.lists.dead).astype(np.int32), places)

    def _reserve(self, words: Rows, counts: Ints, places: Places) -> None:
        """Let there be room for `counts` more entries of `words`; what is gone makes room, if it is much."""
        crowded = words[self.lists.size[words] + counts > self.lists.room[words]]
        self._arrange_all_of(crowded[self.lists.dead[crowded] > self.lists.size[crowded] // 16], places)
        sizes = self.lists.size[words] + counts
        full = sizes > self.lists.room[words]
        rooms = _rooms(sizes[full])
        if self._used + rooms.sum() > self.lists.row.size:
            self._compact(words, counts, places)
        elif rooms.size:
            self._used = int(word_lists.move(self.lists, self.lists, words[full], rooms, self._used))

    def _compact(self, words: Rows, counts: Ints, places: Places) -> None:
        """Move all lists together, without what is gone, with room for `counts` more of `words`."""
        self._tidy(places)
        size = self.lists.size.astype(np.int64)
        size[words] += counts
        held = np.flatnonzero(size).astype(np.int32)
        self.lists.room[:] = 0
        rooms = _rooms(size[held])
        capacity = int(rooms.sum()) * 17 // 16 // STEP * STEP + STEP
        packed = self.lists._replace(**_entries(capacity))
        self._used = int(word_lists.move(self.lists, packed, held, rooms, 0))
        self.lists = packed


def _rooms(sizes: Ints) -> Rows:
    """Room for lists of these sizes: three sixteenths more, a multiple of `STEP`."""
    wanted: Rows = ((sizes * 19 // 16 + STEP - 1) // STEP * STEP).astype(np.int32)
    return wanted


def _entries(room: int) -> dict[str, NDArray[Any]]:
    """Empty arrays for so many entries."""
    tiles = room // STEP
    fact, node = np.zeros((tiles, 8, STEP), np.uint16), np.zeros((tiles, NODE), np.float32)
    return {"row": np.zeros(room, np.int32), "fact": fact, "node": node}
