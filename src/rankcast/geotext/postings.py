"""Posting lists by term in shared arrays: those of subscriptions, and those of the messages of the window.

`PostingLists` has what both have in common: lists grow, lose entries by their stamps, and move. What an
entry knows and how a list is ordered is in the kernels, `subscription_postings` and `message_postings`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.kernels import checks, match, score, subscription_postings
from rankcast.geotext.kernels import message_postings as message_kernels
from rankcast.geotext.kernels import subscription_postings as kernel
from rankcast.geotext.kernels import subscription_postings as word_kernels
from rankcast.geotext.kernels.match import Prunings
from rankcast.geotext.kernels.message_postings import NODE as MESSAGE_NODE
from rankcast.geotext.kernels.message_postings import PlaceColumns
from rankcast.geotext.kernels.score import (
    Bits,
    Frame,
    Hits,
    MessageColumns,
    Scratch,
    SubscriptionColumns,
    TermVectors,
)
from rankcast.geotext.kernels.subscription_postings import (
    BLOCK,
    FACTS,
    NODE,
    STAMP,
    STEP,
    ListedColumns,
    Postings,
    Shape,
)
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Bools, Floats, Ints, Rows

BY_TERM = ("begin", "main", "joint", "size", "room", "dead")
KINDS = {"row": np.int32, "fact": np.uint16, "node": np.float32}
SPARE = 64
TIDY = 8  # lists that are moved together first lose what is void if it is more than one in so many


class PostingLists(ABC):
    """Lists that grow, lose entries and move together; how a list is ordered is left to subclasses.

    - Changing: `know`, `drop` (after which an owner's entries are void: its stamp changes).
    - Keeping: `state`, `restore`.

    Attributes:
        facts: how many numbers an entry has, beside its owner.
        node: how many bounds a tile of entries has.
        slack: sixteenths of its size that a list has as room to grow.
        tail: sixteenths of all rooms that are kept free for lists that move.
        worth: a list that is full is first arranged anew if more than one in so many of its entries is void.
        stamp_at: which number of an entry is its stamp.
    """

    facts: int
    node: int
    slack: int
    tail: int
    worth: int
    stamp_at: int

    def __init__(self) -> None:
        main, joint, size, room, dead = (np.zeros(8, np.int32) for _ in BY_TERM[1:])
        self.lists = Postings(np.zeros(8, np.int64), main, joint, size, room, dead, **self._entries(SPARE))
        self._used = 0
        # Not part of the state: by word, 0 between calls.
        self._seen = np.zeros(0, np.int32)

    def know(self, words: int) -> None:
        """Let there be so many words; to be called before kernels ask for a new one."""
        if words > self.lists.begin.size:
            length = max(words, self.lists.begin.size * 9 // 8)
            larger = {name: grown(getattr(self.lists, name), length, 0) for name in BY_TERM}
            self.lists = self.lists._replace(**larger)

    def drop(self, rows: Rows, texts: TermVectors, stamps: Bits) -> None:
        """Owners go; their texts are still what they were when they were added. Cost: O(1) an entry.

        Stamps begin again after the last one; before that no entry may be left that has an old one.
        """
        if not rows.size:
            return
        if kernel.count_dead(self.lists.dead, rows, texts, stamps):
            self._tidy(stamps)
        stamps[rows] += 1

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How much is used, and the arrays."""
        return {"used": self._used}, self.lists._asdict()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        words, entries = (arrays[name].size if name in arrays else 0 for name in ("begin", "row"))
        wanted: dict[str, integrity.Form] = {
            name: (getattr(self.lists, name).dtype, (words,)) for name in BY_TERM
        }
        wanted |= {name: (KINDS[name], shape) for name, shape in self._shapes(entries).items()}
        integrity.forms(arrays, wanted)
        integrity.need(entries % STEP == 0, "row", f"is not tiles of {STEP} entries")
        self._used = integrity.whole(header, "used", 0, entries)
        integrity.need(self._used % STEP == 0, "used", f"is not a multiple of {STEP}")
        self.lists = Postings(**{name: arrays[name] for name in Postings._fields})
        return self

    def check_restored(self, texts: TermVectors, stamps: Bits, live: Bools) -> None:
        """Refuse lists from a snapshot that do not hang together or hold just the words of `live` owners."""
        found = checks.check_postings(self.lists, self._used, self.stamp_at, texts, stamps, live)
        integrity.need(found == checks.FITS, "row", "does not list the words of those who are there")

    def _words_of(self, rows: Rows, texts: TermVectors) -> tuple[Rows, Ints]:
        """The distinct words of some texts, and how often each comes."""
        if self._seen.size < self.lists.begin.size:
            self._seen = np.zeros(self.lists.begin.size, np.int32)
        words, counts = kernel.distinct_terms(texts, rows, self._seen)
        return words, counts

    @abstractmethod
    def _arrange(self, words: Rows, firsts: Rows, stamps: Bits) -> None:
        """Order the lists of words anew, each from some entry on, without those that are void."""

    def _arrange_all_of(self, words: Rows, stamps: Bits) -> None:
        self._arrange(words, np.zeros(words.size, np.int32), stamps)

    def _tidy(self, stamps: Bits) -> None:
        """Leave no entry in any list that no longer counts."""
        self._arrange_all_of(np.flatnonzero(self.lists.dead).astype(np.int32), stamps)

    def _reserve(self, words: Rows, counts: Ints, stamps: Bits) -> None:
        """Let there be room for `counts` more entries of `words`; what is void makes room, if it is much."""
        full = self._full(words, counts)
        if not np.count_nonzero(full):
            return
        crowded = words[full]
        void = self.lists.dead[crowded] > self.lists.size[crowded] // self.worth
        self._arrange_all_of(crowded[void], stamps)
        full = self._full(words, counts)
        rooms = self._rooms(self.lists.size[words[full]] + counts[full])
        if self._used + rooms.sum() > self.lists.row.size:
            self._compact(words, counts, stamps)
        elif rooms.size:
            self._used = int(kernel.move(self.lists, self.lists, words[full], rooms, self._used))

    def _full(self, words: Rows, counts: Ints) -> NDArray[np.bool_]:
        return self.lists.size[words] + counts > self.lists.room[words]

    def _compact(self, words: Rows, counts: Ints, stamps: Bits) -> None:
        """Move all lists together, without most of what is void, with room for `counts` more of `words`."""
        worth = self.lists.dead > self.lists.size // TIDY
        self._arrange_all_of(np.flatnonzero(worth).astype(np.int32), stamps)
        size = self.lists.size.astype(np.int64)
        size[words] += counts
        held = np.flatnonzero(size).astype(np.int32)
        rooms = self._rooms(size[held])
        capacity = int(rooms.sum()) * (16 + self.tail) // 16 // STEP * STEP + SPARE
        packed = self.lists._replace(**self._entries(capacity))
        packed.room[:] = 0
        self._used = int(kernel.move(self.lists, packed, held, rooms, 0))
        self.lists = packed

    def _rooms(self, sizes: Ints) -> Rows:
        """Room for lists of these sizes, a multiple of `STEP`."""
        wanted: Rows = ((sizes * (16 + self.slack) // 16 + STEP - 1) // STEP * STEP).astype(np.int32)
        return wanted

    def _shapes(self, room: int) -> dict[str, tuple[int, ...]]:
        """The shapes of arrays for so many entries."""
        tiles = room // STEP
        return {"row": (room,), "fact": (tiles, self.facts, STEP), "node": (tiles, self.node)}

    def _entries(self, room: int) -> dict[str, NDArray[Any]]:
        """Empty arrays for so many entries."""
        return {name: np.zeros(shape, KINDS[name]) for name, shape in self._shapes(room).items()}


MAX_CANDIDATES = 1 << 18  # candidates of several messages at a time


class SubscriptionPostings(PostingLists):
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

    def add(self, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns) -> None:
        """Add owners that are not in the lists, by texts of known words. Cost: O(1) an entry."""
        if not rows.size:
            return
        words, counts = self._words_of(rows, texts)
        self._reserve(words, counts, owners.stamp)
        word_kernels.append(self.lists, rows, texts, idf, owners, self._frame)
        unsettled, firsts = word_kernels.due(self.lists, words, self._shape.cell)
        self._arrange(unsettled, firsts, owners.stamp)

    def update(self, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns) -> None:
        """Thresholds of owners have moved: list them anew."""
        self.drop(rows, texts, owners.stamp)
        self.add(rows, texts, idf, owners)

    def disseminate(
        self, subscriptions: SubscriptionColumns, messages: MessageColumns, idf: Floats, scratch: Scratch,
        on: Prunings, counters: Ints, listed: Floats,
    ) -> Hits | None:  # fmt: skip
        """The hits of messages; None if they are too many to be taken together."""
        room = MAX_CANDIDATES if messages.rows.size > 1 else self._used + BLOCK
        keys, counted = np.empty(room, np.int64), np.zeros_like(counters)
        pairs = match.find_candidates(
            self.lists, messages, idf, scratch.place, self._frame, on, keys, counted
        )
        if pairs < 0:
            return None
        ordered = score.sort_pairs(keys[:pairs], messages.rows.size, subscriptions.stamp)
        hits: Hits = score.score_pairs(ordered, subscriptions, messages, self._frame, on.current, counted)
        counters += counted
        return hits

    def _arrange(self, words: Rows, firsts: Rows, stamps: Bits) -> None:
        if words.size:
            subscription_postings.arrange(self.lists, words, firsts, stamps, self._shape)


class MessagePostings(PostingLists):
    """Inverted lists by word; see the kernel for what is in them. `add` adds, `lists` is for kernels.

    Memory: 20 bytes an entry and 2 for its node, 28 a word, and up to half as much again for growth.
    """

    facts, node, slack, tail, worth = 8, MESSAGE_NODE, 3, 1, 16
    stamp_at = STAMP

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self._frame = frame

    def add(self, rows: Rows, texts: TermVectors, idf: Floats, places: PlaceColumns) -> None:
        """Add messages that are not in the lists, by texts of known words. Cost: O(1) an entry."""
        if not rows.size:
            return
        self.know(idf.size)
        words, counts = self._words_of(rows, texts)
        self._reserve(words, counts, places.stamp)
        message_kernels.append(self.lists, rows, texts, idf, places, self._frame)
        unsettled, firsts = message_kernels.due(self.lists, words)
        self._arrange(unsettled, firsts, places.stamp)

    def _arrange(self, words: Rows, firsts: Rows, stamps: Bits) -> None:
        if words.size:
            message_kernels.arrange(self.lists, words, firsts, stamps)
