"""Subscriptions by word, in blocks with bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.columns import Floats, Ints, Rows
from rankcast.errors import SnapshotError
from rankcast.indexes.objects import grown
from rankcast.kernels import igpt, verify, word_order
from rankcast.kernels import word_lists as kernel
from rankcast.kernels.geo_bounds import Bits, Frame
from rankcast.kernels.igpt import Posts, Readers, Switches
from rankcast.kernels.term_order import Scratch, Texts
from rankcast.kernels.verify import Hits
from rankcast.kernels.word_lists import BLOCK, FACTS, NODE, STEP, Lists, Owners, Shape

BY_WORD = ("begin", "main", "joint", "size", "room", "dead")
SPARE = 64
PAIRS = 1 << 18  # candidates of several messages at a time
LAST_STAMP = 65535


class WordIndex:
    """Inverted lists by word; see the kernel for what is in them.

    - Changing: `add`, `drop` (after which an owner's entries are void: its stamp changes), `update`.
    - Asking: `disseminate`; `lists`, for kernels.
    - Keeping: `state`, `restore`.

    Memory: 24 bytes an entry and 5 for its node, 28 a word, and up to a fifth as much again for growth.
    """

    def __init__(self, frame: Frame, shape: Shape) -> None:
        self._frame, self._shape = frame, shape
        self.lists = _with_room(_empty(8), SPARE)
        self._used = 0

    def know(self, words: int) -> None:
        """Let there be so many words; to be called before kernels ask for a new one."""
        if words > self.lists.begin.size:
            length = max(words, self.lists.begin.size * 9 // 8)
            larger = {name: grown(getattr(self.lists, name), length, 0) for name in BY_WORD}
            self.lists = self.lists._replace(**larger)

    def add(self, rows: Rows, texts: Texts, idf: Floats, owners: Owners) -> None:
        """Add owners that are not in the lists, by texts of known words. Cost: O(1) an entry."""
        if not rows.size:
            return
        words, counts = _words_of(rows, texts)
        self._reserve(words, counts, owners)
        kernel.append(self.lists, rows, texts, idf, owners, self._frame)
        unsettled, firsts = kernel.due(self.lists, words, self._shape.cell)
        self._arrange(unsettled, firsts, owners.stamp)

    def drop(self, rows: Rows, texts: Texts, stamps: Bits) -> None:
        """Owners go; their texts are still what they were when they were added. Cost: O(1) an entry.

        Stamps begin again after the last one; before that no entry may be left that has an old one.
        """
        if not rows.size:
            return
        kernel.discount(self.lists, rows, texts)
        if (stamps[rows] == LAST_STAMP).any():
            self._tidy(stamps)
        stamps[rows] += 1

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

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How much is used, and the arrays."""
        return {"used": self._used}, self.lists._asdict()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        lists = Lists(**{name: arrays[name] for name in Lists._fields})
        words, entries = lists.begin.size, lists.row.size
        fits = [array.dtype for array in lists] == [array.dtype for array in self.lists]
        fits &= all(getattr(lists, name).shape == (words,) for name in BY_WORD)
        for name in Lists._fields[len(BY_WORD) :]:
            fits &= getattr(lists, name).shape == _shape(name, entries)
        if not fits or not 0 <= int(header["used"]) <= entries:
            raise SnapshotError("the arrays of lists by word do not fit together")
        self.lists, self._used = lists, int(header["used"])
        return self

    def _arrange(self, words: Rows, firsts: Rows, stamps: Bits) -> None:
        if words.size:
            word_order.arrange(self.lists, words, firsts, stamps, self._shape)

    def _arrange_all_of(self, words: Rows, stamps: Bits) -> None:
        self._arrange(words, np.zeros(words.size, np.int32), stamps)

    def _tidy(self, stamps: Bits) -> None:
        """Leave no entry in any list that no longer counts."""
        self._arrange_all_of(np.flatnonzero(self.lists.dead).astype(np.int32), stamps)

    def _reserve(self, words: Rows, counts: Ints, owners: Owners) -> None:
        """Let there be room for `counts` more entries of `words`."""
        full = self._full(words, counts)
        if full.any():
            crowded = words[full]
            worth = self.lists.dead[crowded] > self.lists.size[crowded] // 8
            self._arrange_all_of(crowded[worth], owners.stamp)
            full = self._full(words, counts)
        rooms = _rooms(self.lists.size[words[full]] + counts[full])
        if self._used + rooms.sum() > self.lists.row.size:
            self._compact(words, counts, owners)
        elif rooms.size:
            self._used = int(kernel.move(self.lists, self.lists, words[full], rooms, self._used))

    def _full(self, words: Rows, counts: Ints) -> NDArray[np.bool_]:
        return self.lists.size[words] + counts > self.lists.room[words]

    def _compact(self, words: Rows, counts: Ints, owners: Owners) -> None:
        """Move all lists together, without what is gone, with room for `counts` more of `words`."""
        self._tidy(owners.stamp)
        size = self.lists.size.astype(np.int64)
        size[words] += counts
        held = np.flatnonzero(size).astype(np.int32)
        rooms = _rooms(size[held])
        capacity = int(rooms.sum()) * 17 // 16 // STEP * STEP + SPARE
        packed = _with_room(self.lists, capacity)
        packed.room[:] = 0
        self._used = int(kernel.move(self.lists, packed, held, rooms, 0))
        self.lists = packed


def _words_of(rows: Rows, texts: Texts) -> tuple[Rows, Ints]:
    """The distinct words of some texts, and how often each comes."""
    sizes = texts.size[rows].astype(np.int64)
    before = np.cumsum(sizes) - sizes
    place = np.repeat(texts.begin[rows] - before, sizes) + np.arange(sizes.sum())
    words, counts = np.unique(texts.term[place], return_counts=True)
    return words, counts


def _rooms(sizes: Ints) -> Rows:
    """Room for lists of these sizes: an eighth more, a multiple of `STEP`."""
    wanted: Rows = ((sizes + sizes // 8 + STEP - 1) // STEP * STEP).astype(np.int32)
    return wanted


def _empty(words: int) -> Lists:
    """No entries for so many words."""
    main, joint, size, room, dead = (np.zeros(words, np.int32) for _ in BY_WORD[1:])
    fact, node = np.zeros((0, FACTS, STEP), np.uint16), np.zeros((0, NODE), np.float32)
    begin, row = np.zeros(words, np.int64), np.zeros(0, np.int32)
    return Lists(begin, main, joint, size, room, dead, row, fact, node)


def _shape(name: str, entries: int) -> tuple[int, ...]:
    """The shape of an array for so many entries."""
    tiles = entries // STEP
    shapes = {"row": (entries,), "fact": (tiles, FACTS, STEP), "node": (tiles, NODE)}
    return shapes[name]


def _with_room(lists: Lists, entries: int) -> Lists:
    """The same arrays by word over new, empty arrays for so many entries."""
    fresh = {}
    for name in Lists._fields[len(BY_WORD) :]:
        fresh[name] = np.zeros(_shape(name, entries), getattr(lists, name).dtype)
    return lists._replace(**fresh)
