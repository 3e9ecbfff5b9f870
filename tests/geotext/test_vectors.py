"""Live terms with counted references, and vectors by row, against dicts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast import SnapshotError, Vocabulary
from rankcast.geotext.text import TERMS
from rankcast.geotext.vocabulary import LiveTerms, Vectors
from rankcast.tables import read
from rankcast.tables.schema import Rows, Terms

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "d", "é"]), max_size=4)
MOVES = st.lists(st.tuples(st.integers(0, 20), st.none() | TEXTS), max_size=30)


def rows(*values: int) -> Rows:
    return np.array(values, np.int32)


def terms_of(*texts: list[str]) -> Terms:
    column = pa.array(texts, pa.list_(pa.string()))
    found: Terms = read.read(pa.table({"terms": column}), [TERMS], where="texts")["terms"]
    return found


def words(terms: LiveTerms, vectors: Vectors, row: int) -> list[str]:
    found: list[str] = terms.slots.take(vectors.entries(rows(row)).term).to_pylist()
    return found


@given(MOVES, st.sampled_from([[], [["a", "c"]]]))
def test_rows_hold_their_last_text_and_terms_live_as_long_as_somebody_refers_to_them(
    moves: list[tuple[int, list[str] | None]], documents: list[list[str]]
) -> None:
    vocabulary = Vocabulary.fit({"terms": documents})
    terms, vectors, held = LiveTerms(vocabulary), Vectors(), dict[int, list[str]]()
    for row, text in moves:
        if text is None:
            if row in held:
                terms.drop(vectors.clear(rows(row)))
                del held[row]
        else:
            given = terms.acquire(terms_of(text))
            terms.drop(vectors.store(rows(row), given).term)
            held[row] = text
        terms.slots.settle()
        known = {word for document in documents for word in document}
        live = terms.slots.live()
        assert set(terms.slots.take(live).to_pylist()) == known.union(*map(set, held.values()))
        references = Counter(word for text in held.values() for word in set(text)) + Counter(known)
        for name, count in zip(
            terms.slots.take(live).to_pylist(), terms.slots["references"][live], strict=True
        ):
            assert references[name] == count
        for mine, its_text in held.items():
            assert words(terms, vectors, mine) == sorted(set(its_text))


def test_idf_comes_from_the_vocabulary_also_for_terms_it_never_saw() -> None:
    vocabulary = Vocabulary.fit({"terms": [["a"], ["a", "b"], ["c"]]})
    terms = LiveTerms(vocabulary)
    entries = terms.acquire(terms_of(["a", "a", "new"]))
    weights = np.array([2 * vocabulary.idf("a"), vocabulary.idf("new")])
    assert entries.weight.tolist() == (weights / np.sqrt(weights[0] ** 2 + weights[1] ** 2)).tolist()


def test_a_term_that_comes_again_after_it_was_forgotten_counts_from_none() -> None:
    terms, vectors = LiveTerms(Vocabulary.empty()), Vectors()
    for _ in range(3):
        given = terms.acquire(terms_of(["a", "b"], ["a"]))
        vectors.store(rows(0, 1), given)
        assert sorted(terms.slots["references"][terms.slots.live()].tolist()) == [1, 2]
        terms.drop(vectors.clear(rows(1, 0)))
        terms.slots.settle()
        assert len(terms.slots) == 0


def test_memory_of_vectors_follows_what_is_held() -> None:
    terms, vectors = LiveTerms(Vocabulary.empty()), Vectors()
    for turn in range(300):
        given = terms.acquire(terms_of([f"{turn}-{i}" for i in range(20)]))
        terms.drop(vectors.store(rows(turn % 5), given).term)
        terms.slots.settle()
    _, arrays = vectors.state()
    assert arrays["term"].size <= 2 * (5 + 1) * 20
    assert len(terms.slots) == 100


def test_vectors_keep_their_order_when_tidied_up() -> None:
    terms, vectors = LiveTerms(Vocabulary.empty()), Vectors()
    for row in range(60):
        given = terms.acquire(terms_of([f"{row}b", f"{row}a", f"{row}c"]))
        vectors.store(rows(row), given)
    assert [words(terms, vectors, row) for row in (59, 0)] == [["59a", "59b", "59c"], ["0a", "0b", "0c"]]
    both = vectors.entries(rows(7, 3))
    assert both.owner.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_state_that_does_not_fit_is_refused() -> None:
    vectors = Vectors()
    header, arrays = vectors.state()
    for bad in ({"weight": arrays["weight"][:1]}, {"size": arrays["size"][:1]}, {"term": arrays["weight"]}):
        with pytest.raises(SnapshotError):
            Vectors().restore(header, {**arrays, **bad})
    with pytest.raises(SnapshotError):
        Vectors().restore({"used": 1000}, arrays)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=6))
def test_storing_says_what_was_there_and_who_has_the_same_as_before(
    pairs: list[tuple[list[str], list[str]]],
) -> None:
    terms, vectors, mine = LiveTerms(Vocabulary.empty()), Vectors(), rows(*range(len(pairs)))[::-1].copy()
    held = []
    for texts in zip(*pairs[::-1], strict=True):
        replaced = vectors.store(mine, terms.acquire(terms_of(*texts)))
        held.append([[each.tolist() for each in vectors.entries(rows(row))[1:]] for row in mine])
    if pairs:
        gone = terms.slots.take(replaced.term).to_pylist()
        assert gone == [word for text, _ in pairs[::-1] for word in sorted(set(text))]
        assert replaced.same.tolist() == [one == other for one, other in zip(*held, strict=True)]
