"""Phrases: words that a message must have one behind the other, and what messages say, word by word.

The place of a word is its place in `terms`, or in the terms of an analysed `text`. Both sides are lists of
rows of terms in order, by row. Those of messages are kept only with the setting `phrases=True`: 12 bytes a
message and 4 a word. Words of phrases are referred to as terms are; those of a message already are, by its
vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.kernels.phrases import END, OrderedWords, Phrases
from rankcast.geotext.text import Analyzer, as_terms
from rankcast.structures import integrity
from rankcast.structures.arrays import grown, ranges
from rankcast.structures.ids import Slots, select
from rankcast.tables.schema import Bools, Column, Ids, Ints, Kind, Rows, Terms, arrow

PHRASES = Column("phrases", Kind.TERMS, required=False, nullable=True)


class WantedPhrases(NamedTuple):
    """The phrases of some rows: words of all, one behind the other, and by row where its phrases end."""

    words: Ids
    ends: list[list[int]]


def read_phrases(given: Terms, analyzer: Analyzer | None, where: str) -> WantedPhrases:
    """Lists of phrases: the words of each, by blanks or as they are analysed; one without words is none."""
    texts, words = arrow(given.words).to_pylist(), list[str]()
    ends: list[list[int]] = []
    for first, last in pairwise(given.starts.tolist()):
        ends.append([])
        for text in texts[first:last]:
            found = text.split() if analyzer is None else analyzer(text)
            words += found
            if found:
                ends[-1].append(len(words))
    return WantedPhrases(as_terms([words], where).words, ends)


class OrderedTerms:
    """Rows of terms in order, by row; rows that have none are empty.

    - Changing: `want` and `hear`, `clear`.
    - Reading: `columns`, `said_by`, `uses`.
    """

    def __init__(self) -> None:
        self._held = OrderedWords(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(64, np.int32))
        self._used = 0

    def columns(self) -> OrderedWords:
        """For kernels; valid until the next change."""
        return self._held

    def want(self, rows: Rows, wanted: WantedPhrases, terms: Rows) -> None:
        """Set the phrases of subscriptions, which are empty; `terms` are those of the words."""
        parts, counts, start = [], [], 0
        for ends in wanted.ends:
            size = 0
            for end in ends:
                parts += [terms[start:end], np.array([END], np.int32)]
                size, start = size + end - start + 1, end
            counts.append(size)
        joined = np.concatenate(parts) if parts else terms[:0]
        self._write(rows, np.array(counts, np.int64), joined.astype(np.int32))

    def hear(self, rows: Rows, texts: Terms, places: Rows, terms: Slots) -> None:
        """Messages at some places of a batch, whose terms are known, have come to these rows."""
        counts = np.diff(texts.starts)[places]
        words = select(texts.words, ranges(texts.starts[:-1][places], counts).astype(np.int32))
        self._write(rows, counts, terms.find(words, where="messages"))

    def clear(self, rows: Rows) -> Rows:
        """Empty some rows; returns the terms they had, each as often."""
        held = rows[rows < self._held.size.size]
        words = self._words(held)
        self._held.size[held] = 0
        named: Rows = words[words != END]
        return named

    def said_by(self, rows: Rows) -> list[list[int]]:
        """The words of some rows."""
        sizes = np.zeros(rows.size, np.int64)
        inside = rows < self._held.size.size
        sizes[inside] = self._held.size[rows[inside]]
        words, ends = self._words(rows[inside]).tolist(), [0, *np.cumsum(sizes).tolist()]
        return [words[first:last] for first, last in pairwise(ends)]

    def phrases_of(self, row: int) -> list[list[int]]:
        """The phrases of one row, each as its words."""
        found: list[list[int]] = [[]]
        for word in self.said_by(np.array([row], np.int32))[0]:
            if word == END:
                found.append([])
            else:
                found[-1].append(word)
        return found[:-1]

    def uses(self, terms: int) -> Ints:
        """How often rows name each of so many terms."""
        words = self._words(np.flatnonzero(self._held.size).astype(np.int32))
        found: Ints = np.bincount(words[words != END], minlength=terms)
        return found

    def make_rows(self, rows: int) -> None:
        """Grow the arrays by row to at least so many."""
        if rows > self._held.begin.size:
            length = max(rows, self._held.begin.size * 9 // 8 + 8)
            begin, size = grown(self._held.begin, length), grown(self._held.size, length)
            self._held = self._held._replace(begin=begin, size=size)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How much is used, and the arrays."""
        return {"used": self._used}, self._held._asdict()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` gave."""
        rows, words = (arrays[name].size if name in arrays else 0 for name in ("begin", "word"))
        forms = {"begin": (np.int64, (rows,)), "size": (np.int32, (rows,)), "word": (np.int32, (words,))}
        integrity.forms(arrays, forms)
        self._used = integrity.whole(header, "used", 0, words)
        self._held = OrderedWords(**{name: arrays[name] for name in OrderedWords._fields})
        return self

    def check_restored(self, live: Rows, terms: int, *, phrases: bool) -> None:
        """Refuse lists from a snapshot that are not of `live` rows; `phrases` have ends."""
        held, used = np.flatnonzero(self._held.size).astype(np.int32), self._used
        integrity.within(self._held.size, 0, used + 1, "size")
        integrity.need(np.isin(held, live).all(), "size", "has words of rows that are gone")
        begin, size = self._held.begin[held], self._held.size[held].astype(np.int64)
        integrity.within(begin, 0, used + 1, "begin")
        integrity.within(begin + size, 0, used + 1, "begin")
        integrity.need(int(size.sum()) <= used, "size", f"adds up to more than {used}")
        integrity.within(self._words(held), END if phrases else 0, terms, "word")
        if phrases:
            integrity.need((self._held.word[begin + size - 1] == END).all(), "word", "has no end")

    def _words(self, rows: Rows) -> Rows:
        words: Rows = self._held.word[ranges(self._held.begin[rows], self._held.size[rows].astype(np.int64))]
        return words

    def _write(self, rows: Rows, counts: Ints, words: Rows) -> None:
        """Give rows that are empty these words, `counts[i]` each."""
        self.make_rows(int(rows.max(initial=-1)) + 1)
        if self._used + words.size > self._held.word.size:
            held = np.flatnonzero(self._held.size).astype(np.int32)
            kept, sizes = self._words(held), self._held.size[held].astype(np.int64)
            self._held.begin[held], self._used = np.cumsum(sizes) - sizes, kept.size
            self._held = self._held._replace(word=grown(kept, (kept.size + words.size) * 9 // 8 + 64))
        self._held.begin[rows] = self._used + np.cumsum(counts) - counts
        self._held.size[rows] = counts
        self._held.word[self._used : self._used + words.size] = words
        self._used += words.size


NOTHING_SAID = OrderedTerms().columns()
NO_PHRASES = Phrases(NOTHING_SAID, NOTHING_SAID)


def saying(texts: list[list[int]], phrases: list[list[int]]) -> Bools:
    """Which texts have all phrases."""
    return np.array([all(_occurs(phrase, text) for phrase in phrases) for text in texts], np.bool_)


def _occurs(phrase: list[int], text: list[int]) -> bool:
    return any(text[at : at + len(phrase)] == phrase for at in range(len(text) - len(phrase) + 1))
