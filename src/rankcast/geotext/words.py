"""Texts inside an engine: live terms as rows, and a unit vector of weighted terms by row.

`LiveTerms` gives every term in use a row and counts who refers to it: the vocabulary, messages,
subscriptions. A term that nobody refers to any more is forgotten. `Vectors` keeps the terms and weights of
messages or subscriptions, flat; the terms of one row are in code point order, so that whoever adds up along a
vector does it in the same order, whatever came before.

Memory: by what is live. Terms: as `Slots`, 16 bytes more; vectors: 12 bytes a row and 12 a term of it, and up
to an eighth more for growth.

Inverted lists by word in shared arrays: what those of subscriptions and of messages have in common.

Subscriptions by word, in blocks with bounds.

Messages of the window by word, for subscriptions that look for their best ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.kernels import checks, match, verify, word_lists
from rankcast.geotext.kernels import messages as message_kernels
from rankcast.geotext.kernels import word_lists as kernel
from rankcast.geotext.kernels import word_lists as word_kernels
from rankcast.geotext.kernels.bounds import Bits, Frame
from rankcast.geotext.kernels.match import Posts, Readers, Switches
from rankcast.geotext.kernels.messages import NODE as MESSAGE_NODE
from rankcast.geotext.kernels.messages import Places
from rankcast.geotext.kernels.terms import Scratch, Texts, replace
from rankcast.geotext.kernels.verify import Hits
from rankcast.geotext.kernels.word_lists import BLOCK, FACTS, NODE, STAMP, STEP, Lists, Owners, Shape
from rankcast.geotext.vocabulary import Vocabulary, bags_of, inverse_frequency, positions, unit_weights
from rankcast.range_topk.objects import grown
from rankcast.structures import integrity
from rankcast.structures.ids import Slots, select
from rankcast.tables.schema import Bools, Floats, Ints, Rows, Terms


class Entries(NamedTuple):
    """Terms of several vectors, one vector behind the other: `owner` counts the vectors from 0."""

    owner: Ints
    term: Rows
    weight: Floats


class Replaced(NamedTuple):
    """Terms of the vectors that rows had before, and whose vector is the same."""

    term: Rows
    same: Bools


class LiveTerms:
    """Terms in use as rows, with their idf and the number of references to them.

    Invariant: a row that is free has no references.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._documents = vocabulary.documents
        self.slots = Slots({"references": np.int64, "idf": np.float64})
        words = vocabulary.words  # copied: kernels are compiled for arrays that can be written
        known = self.slots.add(words._replace(offsets=words.offsets.copy(), data=words.data.copy()))
        self.slots["references"][known] = 1
        self.slots["idf"][known] = vocabulary.idfs()

    def acquire(self, terms: Terms, rows: Rows | None = None) -> tuple[Ints, Entries]:
        """The vectors of texts (only those of `rows`, if given), with a reference to each of their terms.

        Returns how many terms each vector has, and the vectors.
        """
        bags = bags_of(terms, rows)
        found = self.slots.find(bags.words, where="terms")
        new = np.flatnonzero(found < 0)
        if new.size:
            found[new] = self.slots.add(select(bags.words, new))
            self.slots["idf"][found[new]] = inverse_frequency(self._documents, 0)
        self.slots["references"][found] += np.bincount(bags.word, minlength=found.size)
        weight = unit_weights(bags, self.slots["idf"][found])
        return bags.counts, Entries(bags.owner, found[bags.word], weight)

    def drop(self, terms: Rows) -> None:
        """Give references back, one for each time a term is named."""
        references = self.slots["references"]
        np.subtract.at(references, terms, 1)
        last = terms[references[terms] == 0]
        if last.size:
            self.slots.release(np.unique(last))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The terms and what is known of them."""
        header, arrays = self.slots.state()
        return {**header, "documents": self._documents}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        self._documents = integrity.whole(header, "documents")
        self.slots.restore(header, arrays)
        return self

    def check_restored(self, uses: Ints) -> None:
        """Refuse terms from a snapshot with fewer references than vectors use them (`uses`, by row)."""
        live = self.slots["sequence"] >= 0
        references, idf = self.slots["references"], self.slots["idf"]
        integrity.within(references, 0, integrity.MOST, "references")
        integrity.need((references[: uses.size] >= uses).all(), "references", "counts too few")
        integrity.need(not references[~live].any(), "references", "counts terms that are gone")
        integrity.finite(idf[live], "idf")
        integrity.need((idf[live] > 0).all(), "idf", "is not above 0")


class Vectors:
    """A vector of weighted terms by row; rows that have none are empty."""

    def __init__(self) -> None:
        self._begin: Ints = np.zeros(8, np.int64)
        self._size: Rows = np.zeros(8, np.int32)
        self._term: Rows = np.zeros(64, np.int32)
        self._weight: Floats = np.zeros(64)
        self._used = 0  # entries below this have been written since the last tidying

    def store(self, rows: Rows, counts: Ints, entries: Entries) -> Replaced:
        """Give vectors to rows; says what these had before. Cost: O(1) a term, amortised."""
        self._make_rows(int(rows.max(initial=-1)) + 1)
        self._make_room(entries.term.size)
        replaced = Replaced(*replace(self.texts(), rows, counts, entries.term, entries.weight, self._used))
        self._used += entries.term.size
        return replaced

    def clear(self, rows: Rows) -> Rows:
        """Empty some rows; returns the terms they had."""
        terms = self.entries(rows).term
        self._size[rows] = 0
        return terms

    def entries(self, rows: Rows) -> Entries:
        """The vectors of some rows, in that order."""
        sizes = self._size[rows].astype(np.int64)
        place = positions(self._begin[rows], sizes)
        return Entries(np.repeat(np.arange(sizes.size), sizes), self._term[place], self._weight[place])

    def texts(self) -> Texts:
        """All vectors, for kernels; valid until the next `store`."""
        return Texts(self._begin, self._size, self._term, self._weight)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How much is used, and the arrays."""
        return {"used": self._used}, {
            "begin": self._begin,
            "size": self._size,
            "term": self._term,
            "weight": self._weight,
        }

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave. Cost: O(1), whatever the arrays hold."""
        rows, entries = (arrays[name].size if name in arrays else 0 for name in ("begin", "term"))
        by_row = {"begin": (np.int64, (rows,)), "size": (np.int32, (rows,))}
        integrity.forms(
            arrays, {**by_row, "term": (np.int32, (entries,)), "weight": (np.float64, (entries,))}
        )
        self._used = integrity.whole(header, "used", 0, entries)
        self._begin, self._size, self._term, self._weight = (
            arrays[name] for name in ("begin", "size", "term", "weight")
        )
        return self

    def check_restored(self, live: Rows, terms: int) -> Ints:
        """Refuse vectors from a snapshot that are not of `live` rows; how often each of the terms is used."""
        integrity.need(live.max(initial=-1) < self._size.size, "size", "is too short")
        held, used = np.flatnonzero(self._size), self._used
        integrity.within(self._size, 0, used + 1, "size")
        integrity.need(
            np.isin(held, live, assume_unique=True).all(), "size", "has vectors of rows that are gone"
        )
        begin, size = self._begin[held], self._size[held].astype(np.int64)
        integrity.within(begin, 0, used + 1, "begin")
        integrity.within(begin + size, 0, used + 1, "begin")
        integrity.need(int(size.sum()) <= used, "size", f"adds up to more than {used}")
        entries = self.entries(held.astype(np.int32))
        integrity.within(entries.term, 0, terms, "term")
        integrity.finite(entries.weight, "weight")
        uses: Ints = np.bincount(entries.term, minlength=terms)
        return uses

    def _make_rows(self, rows: int) -> None:
        """Let there be so many rows."""
        if rows > self._begin.size:
            more = max(rows, self._begin.size * 9 // 8) - self._begin.size
            self._begin = np.concatenate([self._begin, np.zeros(more, np.int64)])
            self._size = np.concatenate([self._size, np.zeros(more, np.int32)])

    def _make_room(self, entries: int) -> None:
        """Room for so many more entries: if there is none, move what is held to the front of new arrays."""
        if self._used + entries <= self._term.size:
            return
        held = np.flatnonzero(self._size).astype(np.int32)
        kept, sizes = self.entries(held), self._size[held].astype(np.int64)
        self._used = kept.term.size
        self._begin[held] = np.cumsum(sizes) - sizes
        capacity = (self._used + entries) * 9 // 8 + 64
        self._term, self._weight = np.zeros(capacity, np.int32), np.zeros(capacity)
        self._term[: self._used], self._weight[: self._used] = kept.term, kept.weight


BY_WORD = ("begin", "main", "joint", "size", "room", "dead")
KINDS = {"row": np.int32, "fact": np.uint16, "node": np.float32}
SPARE = 64
TIDY = 8  # lists that are moved together first lose what is void if it is more than one in so many


class ByWord(ABC):
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
        main, joint, size, room, dead = (np.zeros(8, np.int32) for _ in BY_WORD[1:])
        self.lists = Lists(np.zeros(8, np.int64), main, joint, size, room, dead, **self._entries(SPARE))
        self._used = 0
        # Not part of the state: by word, 0 between calls.
        self._seen = np.zeros(0, np.int32)

    def know(self, words: int) -> None:
        """Let there be so many words; to be called before kernels ask for a new one."""
        if words > self.lists.begin.size:
            length = max(words, self.lists.begin.size * 9 // 8)
            larger = {name: grown(getattr(self.lists, name), length, 0) for name in BY_WORD}
            self.lists = self.lists._replace(**larger)

    def drop(self, rows: Rows, texts: Texts, stamps: Bits) -> None:
        """Owners go; their texts are still what they were when they were added. Cost: O(1) an entry.

        Stamps begin again after the last one; before that no entry may be left that has an old one.
        """
        if not rows.size:
            return
        if kernel.discount(self.lists.dead, rows, texts, stamps):
            self._tidy(stamps)
        stamps[rows] += 1

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How much is used, and the arrays."""
        return {"used": self._used}, self.lists._asdict()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        words, entries = (arrays[name].size if name in arrays else 0 for name in ("begin", "row"))
        wanted: dict[str, integrity.Form] = {
            name: (getattr(self.lists, name).dtype, (words,)) for name in BY_WORD
        }
        wanted |= {name: (KINDS[name], shape) for name, shape in self._shapes(entries).items()}
        integrity.forms(arrays, wanted)
        integrity.need(entries % STEP == 0, "row", f"is not tiles of {STEP} entries")
        self._used = integrity.whole(header, "used", 0, entries)
        integrity.need(self._used % STEP == 0, "used", f"is not a multiple of {STEP}")
        self.lists = Lists(**{name: arrays[name] for name in Lists._fields})
        return self

    def check_restored(self, texts: Texts, stamps: Bits, live: Bools) -> None:
        """Refuse lists from a snapshot that do not hang together or hold just the words of `live` owners."""
        found = checks.word_lists(self.lists, self._used, self.stamp_at, texts, stamps, live)
        integrity.need(found == checks.FITS, "row", "does not list the words of those who are there")

    def _words_of(self, rows: Rows, texts: Texts) -> tuple[Rows, Ints]:
        """The distinct words of some texts, and how often each comes."""
        if self._seen.size < self.lists.begin.size:
            self._seen = np.zeros(self.lists.begin.size, np.int32)
        words, counts = kernel.words_of(texts, rows, self._seen)
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
        word_kernels.append(self.lists, rows, texts, idf, owners, self._frame)
        unsettled, firsts = word_kernels.due(self.lists, words, self._shape.cell)
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
        pairs = match.find_pairs(self.lists, posts, idf, scratch.place, self._frame, on, keys, counted)
        if pairs < 0:
            return None
        ordered = verify.sort_pairs(keys[:pairs], posts.rows.size, readers.stamp)
        hits: Hits = verify.score_pairs(ordered, readers, posts, self._frame, on.current, counted)
        counters += counted
        return hits

    def _arrange(self, words: Rows, firsts: Rows, stamps: Bits) -> None:
        if words.size:
            word_lists.arrange(self.lists, words, firsts, stamps, self._shape)


class MessageIndex(ByWord):
    """Inverted lists by word; see the kernel for what is in them. `add` adds, `lists` is for kernels.

    Memory: 20 bytes an entry and 2 for its node, 28 a word, and up to half as much again for growth.
    """

    facts, node, slack, tail, worth = 8, MESSAGE_NODE, 3, 1, 16
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
        message_kernels.append(self.lists, rows, texts, idf, places, self._frame)
        unsettled, firsts = message_kernels.due(self.lists, words)
        self._arrange(unsettled, firsts, places.stamp)

    def _arrange(self, words: Rows, firsts: Rows, stamps: Bits) -> None:
        if words.size:
            message_kernels.arrange(self.lists, words, firsts, stamps)
