"""Words of texts as terms: numbered, counted, looked up, weighed, and given back.

See `rankcast.geotext.vocabulary` for what a weight is. Words are put in code point order, so that sums along
a vector are always added in the same order.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.score import TermVectors
from rankcast.structures import hashing
from rankcast.structures.arrays import borrowed
from rankcast.structures.hashing import FREE, LEAST, Keys, Register
from rankcast.structures.jit import EXACT
from rankcast.structures.strings import before

RUN = 8  # so many words are sorted by insertion

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class KnownWords(NamedTuple):
    """Distinct words of texts in code point order: their terms, or -1; the new ones, and where they are.

    And the bags of the texts: distinct words of each; per word of a text its place and how often it comes.
    """

    found: Rows
    unknown: Keys
    fresh: Rows
    sizes: Ints
    word: Ints
    frequency: Ints


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
def bags(
    starts: Ints, offsets: Ints, data: NDArray[np.uint8], texts: Rows, seed: int
) -> tuple[Rows, Ints, Ints, Ints, Ints]:
    """Some texts as bags: where each distinct word is, and then the fields of `Bags` after `words`."""
    words, numbers, counts = _number_words(starts, _keys_of(offsets, data, seed), texts)
    sizes, owner, word, frequency = _count_words(numbers, counts, words.size)
    return words, sizes, owner, word, frequency


@njit(**EXACT)
def unit_weights(counts: Ints, word: Ints, frequency: Ints, idf: Floats) -> Floats:
    """The weight of each term of each text, given the idf of each word; see the module's head."""
    weight, at = np.empty(word.size), 0
    for count in counts:
        squares = 0.0
        for i in range(at, at + count):
            weight[i] = frequency[i] * idf[word[i]]
            squares += weight[i] * weight[i]
        norm = math.sqrt(squares) if squares > 0.0 else 1.0
        for i in range(at, at + count):
            weight[i] /= norm
        at += count
    return weight


@njit(**EXACT)
def reweigh(texts: TermVectors, frequency: Rows, idf: Floats) -> None:
    """Give all vectors the weights that terms of these idf have; see the module's head."""
    begins, sizes, terms, weights = texts
    for row in range(begins.size):
        begin, end, squares = begins[row], begins[row] + sizes[row], 0.0
        for i in range(begin, end):
            weights[i] = frequency[i] * idf[terms[i]]
            squares += weights[i] * weights[i]
        norm = math.sqrt(squares) if squares > 0.0 else 1.0
        for i in range(begin, end):
            weights[i] /= norm


@njit(**EXACT)
def look_up(texts: tuple[Ints, Ints, NDArray[np.uint8]], rows: Rows, register: Register) -> KnownWords:
    """The words of some texts, as terms where they are known; changes nothing."""
    starts, offsets, data = texts
    keys, held = _keys_of(offsets, data, register.seed), hashing.keys_in(register)
    words, numbers, counts = _number_words(starts, keys, rows)
    table, codes, code = register.table, held.code, keys.code
    found, new = np.empty(words.size, np.int32), 0
    for i in range(words.size):
        found[i] = table[hashing.seek(table, codes, code[words[i]], held, keys, np.int64(words[i]))]
        new += found[i] < 0
    fresh, at = np.empty(new, np.int32), 0
    for i in range(words.size):
        if found[i] < 0:
            fresh[at] = words[i]
            at += 1
    sizes, _, word, frequency = _count_words(numbers, counts, words.size)
    unknown = Keys(code[fresh], keys.start[fresh], keys.length[fresh], data, register.seed)
    return KnownWords(found, unknown, fresh, sizes, word, frequency)


@njit(**EXACT)
def take(
    known: KnownWords, register: Register, references: Ints, idf: Floats, unseen: float
) -> tuple[bool, Rows, Floats]:
    """Terms and weights of texts that were looked up, with a reference to each; False if there is no room."""
    found, unknown, fresh, sizes, word, frequency = known
    rows, at = np.empty(fresh.size, np.int32), 0
    if fresh.size > 0 and not hashing.admit(register, unknown, rows):
        return False, fresh, idf[:0]
    own = np.empty(found.size)
    for i in range(found.size):
        if found[i] < 0:
            found[i], idf[rows[at]] = rows[at], unseen
            at += 1
        own[i] = idf[found[i]]
    term = np.empty(word.size, np.int32)
    for i in range(word.size):
        term[i] = found[word[i]]
        references[term[i]] += 1
    return True, term, unit_weights(sizes, word, frequency, own)


@njit(**EXACT)
def acquire(
    texts: tuple[Ints, Ints, NDArray[np.uint8]], rows: Rows, plain: tuple[Any, ...], references: Ints,
    idf: Floats, unseen: float,
) -> tuple[bool, Ints, Rows, Floats, Ints]:  # fmt: skip
    """See `LiveTerms.acquire`; False, and which words are new, if room must be made for them first."""
    register = hashing.register_of(borrowed(plain))
    known = look_up(texts, rows, register)
    done, term, weight = take(known, register, references, idf, unseen)
    return done, known.sizes, term, weight, known.frequency


@njit(**EXACT)
def give_back(references: Ints, terms: Rows) -> Rows:
    """Give references back, one for each time a term is named; returns the terms without any, ascending."""
    last, count = np.empty_like(terms), 0
    for term in terms:
        references[term] -= 1
        if references[term] == 0:
            last[count] = term
            count += 1
    return np.sort(last[:count])


@njit(**EXACT)
def clear(texts: TermVectors, rows: Rows) -> Rows:
    """Empty the vectors of rows; returns the terms they had."""
    begins, sizes, terms, _ = texts
    total = 0
    for row in rows:
        total += sizes[row]
    cleared, at = np.empty(total, np.int32), 0
    for row in rows:
        for i in range(begins[row], begins[row] + sizes[row]):
            cleared[at] = terms[i]
            at += 1
        sizes[row] = 0
    return cleared


@njit(**EXACT)
def pack(texts: TermVectors, frequency: Rows, term: Rows, weight: Floats, frequencies: Rows) -> int:
    """Move all vectors to the front of other arrays, in order of rows; returns how much is used then."""
    begins, sizes, terms, weights = texts
    used = 0
    for row in range(begins.size):
        begin, size = begins[row], sizes[row]
        if size > 0:
            term[used : used + size] = terms[begin : begin + size]
            weight[used : used + size] = weights[begin : begin + size]
            frequencies[used : used + size] = frequency[begin : begin + size]
            begins[row] = used
            used += size
    return used


@njit(**EXACT)
def most(rows: Rows) -> int:
    """The largest of some rows, -1 if there is none."""
    largest = -1
    for row in rows:
        largest = max(largest, row)
    return largest


@njit(**EXACT)
def replace(
    texts: TermVectors, rows: Rows, counts: Ints, term: Rows, weight: Floats, used: int
) -> tuple[Rows, Bools]:
    """Give rows the vectors that `term` and `weight` hold, `counts[i]` terms each, from `used` on.

    Returns the terms the rows had, and which rows had the same vector.
    """
    begins, sizes, terms, weights = texts
    total, place = 0, 0
    for row in rows:
        total += sizes[row]
    former, same, total = np.empty(total, np.int32), np.empty(rows.size, np.bool_), 0
    for i in range(rows.size):
        begin, size, count = begins[rows[i]], sizes[rows[i]], counts[i]
        equal = size == count
        for j in range(size):
            former[total + j] = terms[begin + j]
            equal = equal and term[place + j] == terms[begin + j] and weight[place + j] == weights[begin + j]
        for j in range(count):
            terms[used + place + j], weights[used + place + j] = term[place + j], weight[place + j]
        begins[rows[i]], sizes[rows[i]], same[i] = used + place, count, equal
        total, place = total + size, place + count
    return former, same
