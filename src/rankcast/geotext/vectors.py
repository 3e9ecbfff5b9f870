"""Texts inside an engine: live terms as rows, and a unit vector of weighted terms by row.

`LiveTerms` gives every term in use a row and counts who refers to it: the vocabulary, messages,
subscriptions. A term that nobody refers to any more is forgotten. `Vectors` keeps the terms and weights of
messages or subscriptions, flat; the terms of one row are in code point order, so that whoever adds up along a
vector does it in the same order, whatever came before.

Memory: by what is live. Terms: as `Slots`, 16 bytes more; vectors: 12 bytes a row and 12 a term of it, and up
to an eighth more for growth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.kernels.term_order import Texts, replace
from rankcast.geotext.vocabulary import Vocabulary, bags_of, inverse_frequency, positions, unit_weights
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
