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
a vector are always added in the same order.

Memory: by what is live. Terms: as `Slots`, 16 bytes more; vectors: 12 bytes a row and 12 a term of it, and
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
from numba import njit
from numpy.typing import NDArray

from rankcast.errors import InputError, shown
from rankcast.geotext.kernels import score
from rankcast.geotext.kernels.score import TermVectors
from rankcast.structures import hashing, integrity
from rankcast.structures.arrays import grown, ranges
from rankcast.structures.hashing import FREE, LEAST, Keys
from rankcast.structures.ids import PROCESS, Slots, select
from rankcast.structures.jit import EXACT
from rankcast.structures.strings import before
from rankcast.tables import read
from rankcast.tables.schema import NO_VALUES, Bools, Column, Floats, Ids, Ints, Kind, Rows, Terms

# mypy: disallow-untyped-decorators=False

TERMS = Column("terms", Kind.TERMS)
NO_WORDS = Ids("str", NO_VALUES, np.zeros(1, np.int64), np.empty(0, np.uint8))
RUN = 8  # so many words are sorted by insertion


@njit(**EXACT)
def _keys_of(offsets: Ints, data: NDArray[np.uint8], seed: int) -> Keys:
    """Words as kernels look them up."""
    lengths = np.empty(offsets.size - 1, np.int32)
    for i in range(lengths.size):
        lengths[i] = offsets[i + 1] - offsets[i]
    return Keys(hashing.hash_strings(offsets, data, seed), offsets[:-1], lengths, data, seed)


@njit(**EXACT)
def _prefix(keys: Keys, word: int) -> np.uint64:
    """The first eight bytes of a word as a number: words with other numbers are ordered by them."""
    number, start = np.uint64(0), keys.start[word]
    for step in range(min(8, keys.length[word])):
        number |= np.uint64(keys.data[start + step]) << np.uint64(56 - 8 * step)
    return number


@njit(**EXACT)
def _sort_words(keys: Keys, words: Rows) -> None:
    """Put places of distinct words in code point order: runs by insertion, then merged."""
    size, spare = words.size, np.empty_like(words)
    first, firsts = np.empty(size, np.uint64), np.empty(size, np.uint64)
    for i in range(size):
        word, prefix, at = words[i], _prefix(keys, words[i]), i
        while at % RUN > 0 and (
            first[at - 1] > prefix or (first[at - 1] == prefix and before(keys, word, words[at - 1]))
        ):
            words[at], first[at] = words[at - 1], first[at - 1]
            at -= 1
        words[at], first[at] = word, prefix
    run = RUN
    while run < size:
        for start in range(0, size, 2 * run):
            middle, end = min(start + run, size), min(start + 2 * run, size)
            i, j = start, middle
            for at in range(start, end):
                other = i == middle
                if not other and j < end:
                    other = first[j] < first[i]
                    if first[j] == first[i]:
                        other = before(keys, words[j], words[i])
                chosen = j if other else i
                spare[at], firsts[at] = words[chosen], first[chosen]
                i, j = (i, j + 1) if other else (i + 1, j)
        words[:], first[:] = spare, firsts
        run *= 2


@njit(**EXACT)
def _number_words(starts: Ints, keys: Keys, texts: Rows) -> tuple[Rows, Ints, Ints]:
    """Number the distinct words of some texts in code point order.

    Returns where each is found first, the number of every word of these texts, and how many words each has.
    """
    counts, total, used = np.empty(texts.size, np.int64), 0, 0
    for i in range(texts.size):
        counts[i] = starts[texts[i] + 1] - starts[texts[i]]
        total += counts[i]
    code, table = keys.code, np.full(2 * total + LEAST, FREE, np.int32)
    words, spots = np.empty(total, np.int32), np.empty(total, np.uint64)
    at = 0
    for text in texts:
        for word in range(starts[text], starts[text + 1]):
            spot = hashing.seek(table, code, code[word], keys, keys, word)
            if table[spot] == FREE:
                table[spot] = words[used] = word
                used += 1
            spots[at] = spot
            at += 1
    words = words[:used].copy()
    _sort_words(keys, words)
    number, numbers = np.empty(table.size, np.int32), np.empty(total, np.int64)
    for i in range(used):
        number[hashing.seek(table, code, code[words[i]], keys, keys, np.int64(words[i]))] = i
    for at in range(total):
        numbers[at] = number[spots[at]]
    return words, numbers, counts


@njit(**EXACT)
def _count_words(words: Ints, counts: Ints, distinct: int) -> tuple[Ints, Ints, Ints, Ints]:
    """The bags of texts of `counts` words each, one behind the other; words are numbers below `distinct`.

    Returns how many distinct words each text has, and for each of these its text, the word (rising within a
    text) and how often it comes. Cost: O(words), two passes of counting.
    """
    ends, texts, token = np.zeros(distinct + 1, np.int64), np.empty(words.size, np.int64), 0
    for word in words:
        ends[word + 1] += 1
    for word in range(distinct):
        ends[word + 1] += ends[word]
    for text in range(counts.size):
        for _ in range(counts[text]):
            texts[ends[words[token]]] = text
            ends[words[token]] += 1
            token += 1
    begins = np.cumsum(counts) - counts
    after, found, times = begins.copy(), np.empty(words.size, np.int64), np.zeros(words.size, np.int64)
    token = 0
    for word in range(distinct):
        for text in texts[token : ends[word]]:
            last = after[text] - 1
            fresh = last < begins[text] or found[last] != word
            found[last + fresh] = word
            times[last + fresh] += 1
            after[text] += fresh
        token = ends[word]
    sizes = after - begins
    kept = 0
    for text in range(counts.size):
        for at in range(begins[text], after[text]):
            texts[kept], found[kept], times[kept] = text, found[at], times[at]
            kept += 1
    return sizes, texts[:kept], found[:kept], times[:kept]


@njit(**EXACT)
def _bags(
    starts: Ints, offsets: Ints, data: NDArray[np.uint8], texts: Rows, seed: int
) -> tuple[Rows, Ints, Ints, Ints, Ints]:
    """Some texts as bags: where each distinct word is, and then the fields of `Bags` after `words`."""
    words, numbers, counts = _number_words(starts, _keys_of(offsets, data, seed), texts)
    sizes, owner, word, frequency = _count_words(numbers, counts, words.size)
    return words, sizes, owner, word, frequency


@njit(**EXACT)
def _unit_weights(counts: Ints, word: Ints, frequency: Ints, idf: Floats) -> Floats:
    """The weight of each term of each text, given the idf of each word; see the module's head."""
    weight, at = np.empty(word.size), 0
    for count in counts:
        squares = 0.0
        for i in range(at, at + count):
            weight[i] = frequency[i] * idf[word[i]]
            squares += weight[i] * weight[i]
        norm = math.sqrt(squares)
        for i in range(at, at + count):
            weight[i] /= norm
        at += count
    return weight


@njit(**EXACT)
def _acquire(
    starts: Ints, offsets: Ints, data: NDArray[np.uint8], texts: Rows, plain: tuple[Any, ...],
    references: Ints, idf: Floats, unseen: float,
) -> tuple[bool, Ints, Rows, Floats]:  # fmt: skip
    """See `LiveTerms.acquire`; False, and which words are new, if room must be made for them first."""
    register = hashing.register_of(plain)
    keys, held = _keys_of(offsets, data, register.seed), hashing.keys_in(register)
    words, numbers, counts = _number_words(starts, keys, texts)
    table, codes, code = register.table, held.code, keys.code
    found, new = np.empty(words.size, np.int32), 0
    for i in range(words.size):
        found[i] = table[hashing.seek(table, codes, code[words[i]], held, keys, np.int64(words[i]))]
        new += found[i] < 0
    if new > 0:
        places = words[found < 0]
        fresh = Keys(code[places], keys.start[places], keys.length[places], data, register.seed)
        rows = np.empty(new, np.int32)
        if not hashing.admit(register, fresh, rows):
            return False, counts, places, idf[:0]
        idf[rows] = unseen
        found[found < 0] = rows
    sizes, _, word, frequency = _count_words(numbers, counts, words.size)
    term = found[word]
    for row in term:
        references[row] += 1
    return True, sizes, term, _unit_weights(sizes, word, frequency, idf[found])


@njit(**EXACT)
def _give_back(references: Ints, terms: Rows) -> Rows:
    """Give references back, one for each time a term is named; returns the terms without any, ascending."""
    last, count = np.empty_like(terms), 0
    for term in terms:
        references[term] -= 1
        if references[term] == 0:
            last[count] = term
            count += 1
    return np.sort(last[:count])


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
    """Document frequencies of terms; made by `fit`, never changed afterwards.

    Without a vocabulary, or with `Vocabulary.fit` of no documents, every idf is 1.

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
    def fit(cls, rows: Any) -> Vocabulary:
        """Count in how many rows each term of the column `terms` is; other columns are ignored.

        Cost: O(n log n) for n terms in all rows.
        """
        batch = read.read(rows, [TERMS], where="documents", extra="ignore")
        counted = bags_of(batch["terms"])
        frequency = np.bincount(counted.word, minlength=counted.words.size).astype(np.int64)
        return cls.of(counted.words, frequency, batch.size)

    @classmethod
    def fit_spark(cls, frame: Any, column: str = "terms") -> Vocabulary:
        """The same over a column of a static Spark DataFrame, as a batch job."""
        fitted: Vocabulary = import_module("rankcast.spark.geotext_jobs").fit(frame, column)
        return fitted

    @classmethod
    def of(cls, words: Ids, frequency: Ints, documents: int) -> Vocabulary:
        """Made of counts: distinct terms in code point order, and in how many documents each is."""
        for fixed in (frequency, words.offsets, words.data):
            fixed.setflags(write=False)
        return cls(words, frequency, documents)

    @classmethod
    def empty(cls) -> Vocabulary:
        """No documents: every idf is 1."""
        return cls(NO_WORDS, np.empty(0, np.int64), 0)

    def __repr__(self) -> str:
        return f"Vocabulary(terms={self.size}, documents={self.documents})"

    @property
    def size(self) -> int:
        """How many distinct terms the documents have."""
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


def inverse_frequency(documents: int, frequency: int) -> float:
    """The idf of a term that `frequency` of `documents` have."""
    return math.log((1 + documents) / (1 + frequency)) + 1.0


def bags_of(terms: Terms, rows: Rows | None = None) -> Bags:
    """The texts of a column (only those of `rows`, in that order, if given) as bags.

    Cost: O(n) for n terms, and O(m log m) for the m that are distinct.
    """
    chosen = np.arange(terms.starts.size - 1, dtype=np.int32) if rows is None else rows
    words, *gathered = _bags(terms.starts, terms.words.offsets, terms.words.data, chosen, PROCESS)
    return Bags(select(terms.words, words), *gathered)


def unit_weights(texts: Bags, idf: Floats) -> Floats:
    """The weight of each term of each text, given the idf of each of `texts.words`; see the module's head."""
    weight: Floats = _unit_weights(texts.counts, texts.word, texts.frequency, idf)
    return weight


class TextVectors(NamedTuple):
    """Vectors of texts, one behind the other: how many terms each has, the terms, their weights."""

    counts: Ints
    term: Rows
    weight: Floats


class VectorEntries(NamedTuple):
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

    def acquire(self, terms: Terms, rows: Rows | None = None) -> TextVectors:
        """The vectors of texts (only those of `rows`, if given), with a reference to each of their terms."""
        chosen = np.arange(terms.starts.size - 1, dtype=np.int32) if rows is None else rows
        slots, words, unseen = self.slots, terms.words, inverse_frequency(self._documents, 0)
        if slots.kind is None:
            slots.make_room(NO_WORDS)
        while True:
            references, idf = slots["references"], slots["idf"]
            done, *found = _acquire(
                terms.starts, words.offsets, words.data, chosen, slots.register(), references, idf, unseen
            )
            if done:
                return TextVectors(*found)
            slots.make_room(select(words, found[1]))

    def drop(self, terms: Rows) -> None:
        """Give references back, one for each time a term is named."""
        last = _give_back(self.slots["references"], terms)
        if last.size:
            self.slots.release(last)

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
    """A vector of weighted terms by row; rows that have none are empty.

    Attributes:
        texts: all vectors, for kernels; valid until the next `store`.
    """

    def __init__(self) -> None:
        self.texts = TermVectors(
            np.zeros(8, np.int64), np.zeros(8, np.int32), np.zeros(64, np.int32), np.zeros(64)
        )
        self._used = 0  # entries below this have been written since the last tidying

    def store(self, rows: Rows, given: TextVectors) -> Replaced:
        """Set the vectors of rows; returns what they had before. Cost: O(1) a term, amortised."""
        self._make_rows(score.most(rows) + 1)
        self._make_room(given.term.size)
        replaced = Replaced(*score.replace(tuple(self.texts), rows, *given, self._used))
        self._used += given.term.size
        return replaced

    def clear(self, rows: Rows) -> Rows:
        """Empty some rows; returns the terms they had."""
        terms: Rows = score.clear(tuple(self.texts), rows)
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
        return {"used": self._used}, self.texts._asdict()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave. Cost: O(1), whatever the arrays hold."""
        rows, entries = (arrays[name].size if name in arrays else 0 for name in ("begin", "term"))
        by_row = {"begin": (np.int64, (rows,)), "size": (np.int32, (rows,))}
        integrity.forms(
            arrays, {**by_row, "term": (np.int32, (entries,)), "weight": (np.float64, (entries,))}
        )
        self._used = integrity.whole(header, "used", 0, entries)
        self.texts = TermVectors(**{name: arrays[name] for name in TermVectors._fields})
        return self

    def check_restored(self, live: Rows, terms: int) -> Ints:
        """Refuse vectors from a snapshot that are not of `live` rows; how often each of the terms is used."""
        integrity.need(live.max(initial=-1) < self.texts.size.size, "size", "is too short")
        held, used = np.flatnonzero(self.texts.size), self._used
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
        uses: Ints = np.bincount(entries.term, minlength=terms)
        return uses

    def _make_rows(self, rows: int) -> None:
        """Grow the arrays by row to at least `rows`."""
        if rows > self.texts.begin.size:
            length = max(rows, self.texts.begin.size * 9 // 8)
            begin, size = grown(self.texts.begin, length), grown(self.texts.size, length)
            self.texts = self.texts._replace(begin=begin, size=size)

    def _make_room(self, entries: int) -> None:
        """Room for so many more entries: if there is none, move what is held to the front of new arrays."""
        if self._used + entries <= self.texts.term.size:
            return
        held = np.flatnonzero(self.texts.size).astype(np.int32)
        kept, sizes = self.entries(held), self.texts.size[held].astype(np.int64)
        self._used = kept.term.size
        self.texts.begin[held] = np.cumsum(sizes) - sizes
        capacity = (self._used + entries) * 9 // 8 + 64
        self.texts = self.texts._replace(term=grown(kept.term, capacity), weight=grown(kept.weight, capacity))
