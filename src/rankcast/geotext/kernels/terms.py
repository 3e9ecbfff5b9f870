"""Vectors of terms in the order that prefixes need: the rarest term first [Geo §3].

Rarer is a larger idf, and of equal idf the larger row: terms that were first met later are rarer as a rule.
The order of two terms stands as long as somebody refers to both.

Texts as bags of words: which words each has, in order, and how often.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Texts(NamedTuple):
    """Vectors by row: `size[row]` terms with weights from `begin[row]` on, in code point order."""

    begin: Ints
    size: Rows
    term: Rows
    weight: Floats


class Scratch(NamedTuple):
    """By term: its weight in the vector at hand, 0 if it has none, and its place in the order there."""

    weight: Floats
    place: Rows


@njit(**EXACT)
def rarest_first(texts: Texts, row: int, idf: Floats) -> tuple[Rows, Floats, Floats]:
    """The terms of a vector, the rarest first, their weights, and the length of what comes after each."""
    begins, sizes, terms, weights = texts
    begin, size = begins[row], sizes[row]
    term, weight = terms[begin : begin + size].copy(), weights[begin : begin + size].copy()
    for i in range(1, size):
        named, weighs, j = term[i], weight[i], i
        while j > 0 and (
            idf[term[j - 1]] < idf[named] or (idf[term[j - 1]] == idf[named] and term[j - 1] < named)
        ):
            term[j], weight[j] = term[j - 1], weight[j - 1]
            j -= 1
        term[j], weight[j] = named, weighs
    rest, square = np.empty(size), 0.0
    for i in range(size - 1, -1, -1):
        rest[i] = math.sqrt(square)
        square += weight[i] * weight[i]
    return term, weight, rest


@njit(**EXACT)
def replace(
    texts: Texts, rows: Rows, counts: Ints, term: Rows, weight: Floats, used: int
) -> tuple[Rows, Bools]:
    """Give rows the vectors that `term` and `weight` hold, `counts[i]` terms each, from `used` on.

    Returns the terms the rows had, and which rows had the same vector.
    """
    begins, sizes, terms, weights = texts
    total, place = 0, 0
    for row in rows:
        total += sizes[row]
    before, same, total = np.empty(total, np.int32), np.empty(rows.size, np.bool_), 0
    for i in range(rows.size):
        begin, size, count = begins[rows[i]], sizes[rows[i]], counts[i]
        equal = size == count
        for j in range(size):
            before[total + j] = terms[begin + j]
            equal = equal and term[place + j] == terms[begin + j] and weight[place + j] == weights[begin + j]
        for j in range(count):
            terms[used + place + j], weights[used + place + j] = term[place + j], weight[place + j]
        begins[rows[i]], sizes[rows[i]], same[i] = used + place, count, equal
        total, place = total + size, place + count
    return before, same


@njit(**EXACT)
def note(scratch: Scratch, term: Rows, weight: Floats) -> None:
    """Let `scratch` hold a vector."""
    weights, places = scratch
    for i in range(term.size):
        weights[term[i]], places[term[i]] = weight[i], i


@njit(**EXACT)
def clear(scratch: Scratch, term: Rows) -> None:
    """Let `scratch` hold nothing again."""
    weights, _ = scratch
    for i in range(term.size):
        weights[term[i]] = 0.0


@njit(**EXACT)
def cosine_from(
    term: Rows, weight: Floats, begin: int, end: int, noted: Floats, places: Rows, place: int
) -> float:
    """The cosine of the vector at begin..end and the noted one, -1 if they share a term before `place`.

    Adds the products of common terms in code point order, one after the other, as brute force does.
    """
    total = 0.0
    for i in range(begin, end):
        theirs = noted[term[i]]
        if theirs > 0.0:
            if places[term[i]] < place:
                return -1.0
            total += weight[i] * theirs
    return total


@njit(**EXACT)
def prefixes(offsets: Ints, data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The first eight bytes of each string as a number: strings with other numbers are ordered by them."""
    numbers = np.zeros(offsets.size - 1, np.uint64)
    for i in range(numbers.size):
        for step in range(min(8, offsets[i + 1] - offsets[i])):
            byte = np.uint64(data[offsets[i] + step])
            numbers[i] |= byte << np.uint64(56 - 8 * step)
    return numbers


@njit(**EXACT)
def collect(words: Ints, counts: Ints, distinct: int) -> tuple[Ints, Ints, Ints, Ints]:
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
