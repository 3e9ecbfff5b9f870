"""Terms and their weights: the vocabulary, the terms in use, and texts as unit vectors of weighted terms.

A text is a bag of terms. The weight of a term in it is tf x idf, with idf = ln((1 + N) / (1 + df)) + 1 for N
documents of which df have the term (scikit-learn's default formula), and vectors have unit length. No term
is unknown: a term that no document has has df 0 and counts. Without documents every idf is 1.

Weights order results, so they are computed in one way only, which does not depend on what came before: the
terms of a text in code point order; tf times idf; the root of the sum of the squares, added from the first
term to the last; each product divided by that root.

Inside an engine `LiveTerms` gives every term in use a row and counts the references to it: of the
vocabulary, messages, subscriptions. A term without references is forgotten. `Vectors` keeps the terms and
weights of messages or subscriptions, flat; the terms of one row are in code point order, so that sums along
a vector are always added in the same order. They also keep how often each term is in its text, so that
another vocabulary can take the place of the first (`LiveTerms.reweigh`, `Vectors.reweigh`).

Memory: by what is live. Terms: as `Slots`, 16 bytes more; vectors: 12 bytes a row and 16 a term of it, and
up to an eighth more for growth.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import InputError, shown
from rankcast.geotext.kernels import words as kernel
from rankcast.geotext.kernels.score import TermVectors
from rankcast.geotext.text import TERMS, TEXT, Analyzer, read_terms
from rankcast.structures import integrity
from rankcast.structures.arrays import grown, ranges
from rankcast.structures.ids import PROCESS, Slots, select
from rankcast.tables import read
from rankcast.tables.schema import (
    NO_VALUES,
    Bools,
    Column,
    Floats,
    Form,
    Ids,
    Ints,
    Kind,
    Names,
    Rows,
    Terms,
    arrow,
)

EVERYWHERE = np.frombuffer(
    "\U0010ffff".encode(), np.uint8
)  # no character, and behind all others in their order
EVERY = Ids("str", NO_VALUES, np.array([0, EVERYWHERE.size]), EVERYWHERE.copy())
NO_WORDS = Ids("str", NO_VALUES, np.zeros(1, np.int64), np.empty(0, np.uint8))
TERM, DOCUMENTS = Column("term", Kind.NAME, nullable=True), Column("documents", Kind.COUNT)
MOST_FACTOR = 64  # frequencies of snapshots of before are told from weights, if the least is below this


class Bags(NamedTuple):
    """Texts as bags of terms, one behind the other.

    `words` are the distinct terms of all of them, in code point order; text i has `counts[i]` distinct terms.
    Per term of a text: `owner` (which text), `word` (place in `words`, rising within a text), `frequency`.
    """

    words: Ids
    counts: Ints
    owner: Ints
    word: Ints
    frequency: Ints


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary:
    """Document frequencies of terms; created by `fit`, never changed afterwards.

    Without a vocabulary, or with `Vocabulary.fit` of no documents, every idf is 1. As an Arrow table it has
    the columns `term` and `documents`, the number of documents with the term; the row without a term counts
    all documents.

    >>> vocabulary = Vocabulary.fit({"terms": [["pizza", "pizza", "wine"], ["pizza"], ["sushi"]]})
    >>> vocabulary
    Vocabulary(terms=3, documents=3)
    >>> round(vocabulary.idf("pizza"), 4), round(vocabulary.idf("ramen"), 4)
    (1.2877, 2.3863)
    """

    words: Ids  # distinct, in code point order
    frequency: Ints  # documents that have each
    documents: int

    @classmethod
    def fit(cls, rows: Any, *, analyzer: Analyzer | Mapping[str, Any] | None = None) -> Vocabulary:
        """Count the rows that contain each term of the column `terms`; other columns are ignored.

        With an analyzer, or its settings, rows have a column `text` instead.

        Cost: O(n log n) for n terms in all rows.
        """
        made = Analyzer.of(analyzer)
        batch = read.read(rows, [TERMS if made is None else TEXT], where="documents", extra="ignore")
        terms = batch["terms"] if made is None else read_terms(batch, made, "documents")
        counted = bags_of(terms)
        frequency = np.bincount(counted.word, minlength=counted.words.size).astype(np.int64)
        return cls.of(counted.words, frequency, batch.size)

    @classmethod
    def fit_spark(cls, frame: Any, column: str = "terms") -> Vocabulary:
        """The same over a column of a static Spark DataFrame, as a batch job."""
        fitted: Vocabulary = import_module("rankcast.spark.geotext_jobs").fit(frame, column)
        return fitted

    @classmethod
    def of(cls, words: Ids, frequency: Ints, documents: int) -> Vocabulary:
        """Create it from counts: distinct terms in code point order, and the documents with each."""
        for fixed in (frequency, words.offsets, words.data):
            fixed.setflags(write=False)
        return cls(words, frequency, documents)

    @classmethod
    def read(cls, rows: Any) -> Vocabulary:
        """Create it from its table form: `term`, `documents`; the row without a term counts all documents."""
        if isinstance(rows, Vocabulary):
            return rows
        where = "vocabulary"
        batch = read.read(rows, FORM, where=where)
        counts: Ints = np.asarray(batch["documents"], np.int64)
        if not batch.size:
            return cls.empty()
        names: Names = batch["term"]
        everything, known = np.flatnonzero(~names.known), np.flatnonzero(names.known)
        if known.size and names.ids.kind != "str":
            raise InputError(
                "holds integers", where=where, column="term", row=int(known[0]), expected="a string or null"
            )
        if everything.size != 1:
            raise InputError(
                f"is null in {everything.size} rows",
                where=where,
                column="term",
                row=int(everything[1]) if everything.size else None,
                expected="one row without a term, which counts all documents",
            )
        documents, ids = int(counts[everything[0]]), select(names.ids, known)
        if known.size and counts[known].max() > documents:
            row = int(known[np.argmax(counts[known] > documents)])
            raise InputError(
                f"is {counts[row]}", where=where, column="documents", row=row,
                expected=f"at most all documents, which are {documents}",
            )  # fmt: skip
        try:
            Slots.refuse_duplicates(ids, where=where, column="term")
        except InputError as error:
            raise (error if error.row is None else error.at(int(known[error.row]))) from None
        if not known.size:
            return cls.of(NO_WORDS, np.empty(0, np.int64), documents)
        counted = bags_of(Terms(np.arange(known.size + 1), ids))  # in code point order
        frequency = np.empty(known.size, np.int64)
        frequency[counted.word] = counts[known]
        return cls.of(counted.words, frequency, documents)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The vocabulary as an Arrow table; see `read`."""
        terms, counts = arrow(self.words).to_pylist(), self.frequency.tolist()
        if self.documents:
            terms, counts = [None, *terms], [self.documents, *counts]
        table = pa.table({"term": pa.array(terms, pa.string()), "documents": pa.array(counts, pa.int64())})
        return table.__arrow_c_stream__(requested_schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    @classmethod
    def empty(cls) -> Vocabulary:
        """No documents: every idf is 1."""
        return cls(NO_WORDS, np.empty(0, np.int64), 0)

    def __repr__(self) -> str:
        return f"Vocabulary(terms={self.size}, documents={self.documents})"

    @property
    def size(self) -> int:
        """The number of distinct terms."""
        return self.words.size

    def idf(self, term: str) -> float:
        """The inverse document frequency of a term, seen or not. Cost: O(log size)."""
        if not isinstance(term, str):
            raise InputError(f"term is {shown(term)}", expected="a string")
        offsets, data = self.words.offsets, self.words.data
        key = term.encode()
        at = bisect_left(range(self.size), key, key=lambda i: data[offsets[i] : offsets[i + 1]].tobytes())
        found = at < self.size and data[offsets[at] : offsets[at + 1]].tobytes() == key
        return inverse_frequency(self.documents, int(self.frequency[at]) if found else 0)

    def idfs(self) -> Floats:
        """The inverse document frequency of each of `words`; the same bits as `idf`."""
        counts, place = np.unique(self.frequency, return_inverse=True)
        return np.array([inverse_frequency(self.documents, int(count)) for count in counts])[place]

    def digest(self) -> str:
        """A checksum of terms and frequencies: equal for equal vocabularies."""
        checksum = hashlib.blake2b(str(self.documents).encode(), digest_size=16)
        for part in (self.words.offsets, self.words.data, self.frequency):
            checksum.update(np.ascontiguousarray(part).data)
        return checksum.hexdigest()


FORM = Form([TERM, DOCUMENTS])


def inverse_frequency(documents: int, frequency: int) -> float:
    """The idf of a term that `frequency` of `documents` have."""
    return math.log((1 + documents) / (1 + frequency)) + 1.0


def with_every(terms: Terms, chosen: Bools) -> Terms:
    """The same texts, the chosen ones with the term of all messages behind their own."""
    ends, words = terms.starts[1:], terms.words
    places = words.offsets - words.offsets[0]
    size, count = EVERYWHERE.size, int(np.count_nonzero(chosen))
    lengths = np.insert(np.diff(places), ends[chosen], size)
    data = words.data[words.offsets[0] : words.offsets[-1]]
    data = np.insert(data, np.repeat(places[ends[chosen]], size), np.tile(EVERYWHERE, count))
    starts = np.concatenate([[0], ends + np.cumsum(chosen)])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Terms(starts.astype(np.int64), Ids("str", NO_VALUES, offsets.astype(np.int64), data))


def bags_of(terms: Terms, rows: Rows | None = None) -> Bags:
    """The texts of a column (only those of `rows`, in that order, if given) as bags.

    Cost: O(n) for n terms, and O(m log m) for the m that are distinct.
    """
    chosen = np.arange(terms.starts.size - 1, dtype=np.int32) if rows is None else rows
    words, *gathered = kernel.bags(terms.starts, terms.words.offsets, terms.words.data, chosen, PROCESS)
    return Bags(select(terms.words, words), *gathered)


def unit_weights(texts: Bags, idf: Floats) -> Floats:
    """The weight of each term of each text, given the idf of each of `texts.words`; see the module's head."""
    weight: Floats = kernel.unit_weights(texts.counts, texts.word, texts.frequency, idf)
    return weight


class TextVectors(NamedTuple):
    """Vectors of texts, one behind the other: how many terms each has, the terms, weights, frequencies."""

    counts: Ints
    term: Rows
    weight: Floats
    frequency: Ints


class VectorEntries(NamedTuple):
    """Terms of several vectors, one vector behind the other: `owner` counts the vectors from 0."""

    owner: Ints
    term: Rows
    weight: Floats


class Replaced(NamedTuple):
    """Terms of the vectors that rows had before, and whose vector is the same."""

    term: Rows
    same: Bools


def _writable(words: Ids) -> Ids:
    """A copy: kernels are compiled for arrays that can be written."""
    return words._replace(offsets=words.offsets.copy(), data=words.data.copy())


class LiveTerms:
    """Terms in use as rows, with their idf and the number of references to them.

    Invariant: a row that is free has no references.
    """

    def __init__(self, vocabulary: Vocabulary, *, everywhere: bool = False) -> None:
        """`everywhere`: there is a term of idf 0 that all messages have (`EVERY`)."""
        self._documents = vocabulary.documents
        self._unseen = inverse_frequency(self._documents, 0)
        self.slots = Slots({"references": np.int64, "idf": np.float64})
        known = self.slots.add(_writable(vocabulary.words))
        self.slots["references"][known] = 1
        self.slots["idf"][known] = vocabulary.idfs()
        if everywhere:
            row = self.slots.add(EVERY)
            self.slots["references"][row], self.slots["idf"][row] = 1, 0.0

    def acquire(self, terms: Terms, rows: Rows | None = None) -> TextVectors:
        """The vectors of texts (only those of `rows`, if given), with a reference to each of their terms."""
        chosen = np.arange(terms.starts.size - 1, dtype=np.int32) if rows is None else rows
        slots, words = self.slots, terms.words
        texts = (terms.starts, words.offsets, words.data)
        while True:
            done, *found = kernel.acquire(texts, chosen, *self.for_kernels())
            if done:
                return TextVectors(*found)
            slots.make_room(select(words, found[1]))

    def for_kernels(self) -> tuple[tuple[Any, ...], Ints, Floats, float]:
        """The register of terms, references and idf by row, and the idf of a term that is new."""
        slots = self.slots
        if slots.kind is None:
            slots.make_room(NO_WORDS)
        return slots.register(), slots["references"], slots["idf"], self._unseen

    def make_room(self, terms: Terms, rows: Rows) -> None:
        """Let the terms of some texts come that are new."""
        words = bags_of(terms, rows).words
        self.slots.make_room(select(words, np.flatnonzero(self.slots.find(words, where="") < 0)))

    def drop(self, terms: Rows) -> None:
        """Give references back, one for each time a term is named."""
        last = kernel.give_back(self.slots["references"], terms)
        if last.size:
            self.slots.release(last)

    def reweigh(self, vocabulary: Vocabulary, vectors: tuple[Vectors, ...]) -> None:
        """Let another vocabulary count, also in all vectors that there are.

        References of the new one are taken before those of the old one are given back. Cost: O(terms of all).
        """
        slots, live = self.slots, self.slots._live()
        uses = sum(each.uses(slots.used) for each in vectors)
        every = live[slots["idf"][live] == 0.0]
        former = live[slots["references"][live] > np.asarray(uses)[live]]
        former = former[~np.isin(former, every)]
        self._documents = vocabulary.documents
        self._unseen = inverse_frequency(self._documents, 0)
        slots["idf"][live] = self._unseen
        slots["idf"][every] = 0.0
        words = _writable(vocabulary.words)
        rows = slots.find(words, where="vocabulary")
        fresh = np.flatnonzero(rows < 0)
        if fresh.size:
            rows[fresh] = slots.add(select(words, fresh))
            slots["references"][rows[fresh]] = 0
        slots["references"][rows] += 1
        slots["idf"][rows] = vocabulary.idfs()
        slots["idf"][every] = 0.0
        self.drop(former)
        for each in vectors:
            each.reweigh(slots["idf"])

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The terms and what is known of them."""
        header, arrays = self.slots.state()
        return {**header, "documents": self._documents}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        self._documents = integrity.whole(header, "documents")
        self._unseen = inverse_frequency(self._documents, 0)
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
        integrity.need((idf[live] >= 0).all(), "idf", "is below 0")


class Vectors:
    """A vector of weighted terms by row; rows that have none are empty.

    Attributes:
        texts: all vectors, for kernels; valid until the next `store`.
        frequency: by entry, how often a term is in its text; 0 in a snapshot of before, until `recover`.
        used: entries below this have been written since the last tidying.
    """

    def __init__(self) -> None:
        self.texts = TermVectors(
            np.zeros(8, np.int64), np.zeros(8, np.int32), np.zeros(64, np.int32), np.zeros(64)
        )
        self.frequency = np.zeros(64, np.int32)
        self.used = 0

    def store(self, rows: Rows, given: TextVectors) -> Replaced:
        """Set the vectors of rows; returns what they had before. Cost: O(1) a term, amortised."""
        self.make_rows(kernel.most(rows) + 1)
        self.make_room(given.term.size)
        counts, term, weight, frequency = given
        replaced = Replaced(*kernel.replace(tuple(self.texts), rows, counts, term, weight, self.used))
        self.frequency[self.used : self.used + term.size] = frequency
        self.used += term.size
        return replaced

    def uses(self, terms: int) -> Ints:
        """How often vectors use each of so many terms."""
        held = np.flatnonzero(self.texts.size).astype(np.int32)
        uses: Ints = np.bincount(self.entries(held).term, minlength=terms)
        return uses

    def reweigh(self, idf: Floats) -> None:
        """Weigh all vectors by another idf of their terms. Cost: O(terms of all)."""
        kernel.reweigh(tuple(self.texts), self.frequency, idf)

    def recover(self, idf: Floats) -> None:
        """Tell frequencies that a snapshot does not have from weights, but for a common factor of a text."""
        held = np.flatnonzero(self.texts.size).astype(np.int32)
        sizes = self.texts.size[held].astype(np.int64)
        place = ranges(self.texts.begin[held], sizes)
        if not place.size or self.frequency[place].all():
            return
        own = idf[self.texts.term[place]]
        share = self.texts.weight[place] / np.where(own > 0, own, 1.0)
        share[share <= 0.0] = np.inf
        firsts = np.cumsum(sizes) - sizes
        least = np.minimum.reduceat(share, firsts)
        share[np.isinf(share)] = 0.0  # of the term of all messages
        ratio = share / np.repeat(np.where(np.isinf(least), 1.0, least), sizes)
        open_, found = np.ones(held.size, np.bool_), np.ones(place.size, np.int64)
        for factor in range(1, MOST_FACTOR):
            tried = np.rint(factor * ratio)
            off = np.maximum.reduceat(np.abs(tried - factor * ratio) / np.maximum(tried, 1.0), firsts)
            fits = open_ & (off < 1e-9)
            found = np.where(np.repeat(fits, sizes), np.maximum(tried, 1), found)
            open_ &= ~fits
        self.frequency[place] = np.minimum(found, np.iinfo(np.int32).max)

    def clear(self, rows: Rows) -> Rows:
        """Empty some rows; returns the terms they had."""
        terms: Rows = kernel.clear(tuple(self.texts), rows)
        return terms

    def entries(self, rows: Rows) -> VectorEntries:
        """The vectors of some rows, in that order."""
        sizes = self.texts.size[rows].astype(np.int64)
        place = ranges(self.texts.begin[rows], sizes)
        return VectorEntries(
            np.repeat(np.arange(sizes.size), sizes), self.texts.term[place], self.texts.weight[place]
        )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How much is used, and the arrays."""
        return {"used": self.used}, {**self.texts._asdict(), "frequency": self.frequency}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave. Cost: O(1), whatever the arrays hold."""
        rows, entries = (arrays[name].size if name in arrays else 0 for name in ("begin", "term"))
        by_row = {"begin": (np.int64, (rows,)), "size": (np.int32, (rows,))}
        by_entry = {"term": (np.int32, (entries,)), "weight": (np.float64, (entries,))}
        arrays = {"frequency": np.zeros(entries, np.int32), **arrays}  # once there was none
        integrity.forms(arrays, {**by_row, **by_entry, "frequency": (np.int32, (entries,))})
        self.used = integrity.whole(header, "used", 0, entries)
        self.texts = TermVectors(**{name: arrays[name] for name in TermVectors._fields})
        self.frequency = arrays["frequency"]
        return self

    def check_restored(self, live: Rows, terms: int) -> Ints:
        """Refuse vectors from a snapshot that are not of `live` rows; how often each of the terms is used."""
        integrity.need(live.max(initial=-1) < self.texts.size.size, "size", "is too short")
        held, used = np.flatnonzero(self.texts.size), self.used
        integrity.within(self.texts.size, 0, used + 1, "size")
        integrity.need(
            np.isin(held, live, assume_unique=True).all(), "size", "has vectors of rows that are gone"
        )
        begin, size = self.texts.begin[held], self.texts.size[held].astype(np.int64)
        integrity.within(begin, 0, used + 1, "begin")
        integrity.within(begin + size, 0, used + 1, "begin")
        integrity.need(int(size.sum()) <= used, "size", f"adds up to more than {used}")
        entries = self.entries(held.astype(np.int32))
        integrity.within(entries.term, 0, terms, "term")
        integrity.finite(entries.weight, "weight")
        integrity.within(self.frequency[:used], 0, integrity.MOST, "frequency")
        uses: Ints = np.bincount(entries.term, minlength=terms)
        return uses

    def make_rows(self, rows: int) -> None:
        """Grow the arrays by row to at least `rows`."""
        if rows > self.texts.begin.size:
            length = max(rows, self.texts.begin.size * 9 // 8)
            begin, size = grown(self.texts.begin, length), grown(self.texts.size, length)
            self.texts = self.texts._replace(begin=begin, size=size)

    def make_room(self, entries: int) -> None:
        """Room for so many more entries: if there is none, move what is held to the front of new arrays."""
        if self.used + entries <= self.texts.term.size:
            return
        held = int(self.texts.size.sum(dtype=np.int64))
        capacity = (held + entries) * 9 // 8 + 64
        term, weight = np.zeros(capacity, np.int32), np.zeros(capacity)
        frequency = np.zeros(capacity, np.int32)
        self.used = int(kernel.pack(tuple(self.texts), self.frequency, term, weight, frequency))
        self.texts, self.frequency = self.texts._replace(term=term, weight=weight), frequency
