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
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from rankcast.errors import InputError, shown
from rankcast.geotext.kernels import score
from rankcast.structures import hashing, ids, strings
from rankcast.structures.arrays import ranges
from rankcast.structures.hashing import KeyArrays
from rankcast.tables import read
from rankcast.tables.schema import NO_VALUES, Column, Floats, Ids, Ints, Kind, Rows, Terms, arrow

TERMS = Column("terms", Kind.TERMS)


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
        fitted: Vocabulary = import_module("rankcast.spark.batch").fit(frame, column)
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
        return cls(
            Ids("str", NO_VALUES, np.zeros(1, np.int64), np.empty(0, np.uint8)), np.empty(0, np.int64), 0
        )

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
    counts, words = np.diff(terms.starts), terms.words
    keys = _keys_of(words)
    if rows is not None:
        chosen = ranges(terms.starts[rows], counts[rows]).astype(np.int32)
        words, counts = Ids("str", NO_VALUES, *strings.gather(keys, chosen)), counts[rows]
        keys = _keys_of(words)
    number, first = hashing.distinct(keys)
    order = _code_point_order(words, keys, first)
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    gathered = score.count_terms(rank[number], counts, order.size)
    return Bags(Ids("str", NO_VALUES, *strings.gather(keys, first[order])), *gathered)


def _keys_of(words: Ids) -> KeyArrays:
    """Words as kernels look them up."""
    lengths = np.diff(words.offsets).astype(np.int32)
    codes = hashing.hash_strings(words.offsets, words.data, ids.PROCESS)
    return codes, words.offsets[:-1], lengths, words.data, ids.PROCESS


def _code_point_order(words: Ids, keys: KeyArrays, places: Rows) -> Ints:
    """Distinct words at some places in code point order: by their first bytes, where these differ."""
    prefix = score.prefixes(words.offsets, words.data)[places]
    order: Ints = prefix.argsort()
    ranked = prefix[order]
    same = ranked[1:] == ranked[:-1]
    if np.count_nonzero(same):
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        some = order[tied]
        texts = arrow(Ids("str", NO_VALUES, *strings.gather(keys, places[some])))
        # of equal first bytes all are one after the other, so that they may be ordered together
        order[tied] = some[pc.sort_indices(texts).to_numpy()]
    return order


def unit_weights(texts: Bags, idf: Floats) -> Floats:
    """The weight of each term of each text, given the idf of each of `texts.words`; see the module's head.

    `bincount` adds one after the other in the order given.
    """
    weight: Floats = texts.frequency * idf[texts.word]
    norm = np.sqrt(np.bincount(texts.owner, weight * weight, minlength=texts.counts.size))
    return weight / norm[texts.owner]
