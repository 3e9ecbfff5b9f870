"""Document frequencies, inverse document frequencies, bags of terms and unit vectors."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast import InputError, Vocabulary
from rankcast.geotext.text import TERMS
from rankcast.geotext.vocabulary import bags_of, unit_weights
from rankcast.structures.arrays import ranges
from rankcast.tables import read
from rankcast.tables.schema import Floats, Ids, Terms

WORDS = st.sampled_from(["", "a", "aa", "b", "é", "z", "\U0001f355", "\uffff"])
TEXTS = st.lists(st.lists(WORDS, max_size=6), max_size=6)


def terms_of(texts: list[list[str]]) -> Terms:
    column = pa.array(texts, pa.list_(pa.string()))
    found: Terms = read.read(pa.table({"terms": column}), [TERMS], where="texts")["terms"]
    return found


def strings(words: Ids) -> list[str]:
    return [
        words.data[a:b].tobytes().decode() for a, b in zip(words.offsets, words.offsets[1:], strict=False)
    ]


def test_idf_is_the_documented_formula() -> None:
    vocabulary = Vocabulary.fit({"terms": [["a", "b"], ["a"], ["a", "c"]]})
    assert vocabulary.idf("a") == math.log(4 / 4) + 1 == 1.0
    assert vocabulary.idf("b") == math.log(4 / 2) + 1


def test_a_term_counts_once_a_document() -> None:
    vocabulary = Vocabulary.fit({"terms": [["a", "a", "a"], ["b"]]})
    assert vocabulary.idf("a") == math.log(3 / 2) + 1


def test_a_term_never_seen_has_frequency_0() -> None:
    vocabulary = Vocabulary.fit({"terms": [["a"], ["m"], ["z"]]})
    for term in ("", "b", "zz"):
        assert vocabulary.idf(term) == math.log(4 / 1) + 1


def test_documents_without_terms_count_as_documents() -> None:
    assert Vocabulary.fit({"terms": [["a"], []]}).idf("a") == math.log(3 / 2) + 1


def test_no_documents_make_every_idf_1() -> None:
    fitted = Vocabulary.fit({"terms": []})
    assert fitted.size == 0
    assert fitted.idf("a") == Vocabulary.empty().idf("a") == 1.0


def test_other_columns_are_ignored() -> None:
    assert Vocabulary.fit({"id": [7], "terms": [["a", "b"]], "x": ["text"]}).size == 2


def test_a_missing_column_and_a_null_are_refused() -> None:
    with pytest.raises(InputError, match='"terms"'):
        Vocabulary.fit({"words": [["a"]]})
    with pytest.raises(InputError, match="row: 1"):
        Vocabulary.fit({"terms": [["a"], None]})


def test_it_cannot_be_changed() -> None:
    vocabulary = Vocabulary.fit({"terms": [["a"]]})
    with pytest.raises(dataclasses.FrozenInstanceError):
        vocabulary.documents = 5  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        vocabulary.frequency[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        vocabulary.words.data[0] = 5


def test_idf_takes_strings_only() -> None:
    with pytest.raises(InputError, match="a string"):
        Vocabulary.empty().idf(3)  # type: ignore[arg-type]


@given(TEXTS)
def test_idf_and_idfs_agree_with_counting(texts: list[list[str]]) -> None:
    vocabulary = Vocabulary.fit({"terms": pa.array(texts, pa.list_(pa.string()))})
    words = strings(vocabulary.words)
    assert words == sorted({word for text in texts for word in text})
    having = {word: sum(word in text for text in texts) for word in words}
    expected = [math.log((1 + len(texts)) / (1 + having[word])) + 1 for word in words]
    assert vocabulary.idfs().tolist() == expected
    assert [vocabulary.idf(word) for word in words] == expected


@given(TEXTS)
def test_the_digest_tells_vocabularies_apart(texts: list[list[str]]) -> None:
    column = pa.array(texts, pa.list_(pa.string()))
    digest = Vocabulary.fit({"terms": column}).digest()
    assert digest == Vocabulary.fit({"terms": column}).digest()
    more = pa.array([*texts, ["a"]], pa.list_(pa.string()))
    assert digest != Vocabulary.fit({"terms": more}).digest()


@given(TEXTS, st.data())
def test_bags_count_the_terms_of_each_text_in_code_point_order(
    texts: list[list[str]], data: st.DataObject
) -> None:
    rows = data.draw(
        st.none() | st.lists(st.sampled_from(range(len(texts))), unique=True) if texts else st.none()
    )
    chosen = texts if rows is None else [texts[row] for row in rows]
    bags = bags_of(terms_of(texts), None if rows is None else np.array(rows, np.int32))
    words = strings(bags.words)
    assert words == sorted({word for text in chosen for word in text})
    found: list[list[tuple[str, int]]] = [[] for _ in chosen]
    for owner, word, frequency in zip(bags.owner, bags.word, bags.frequency, strict=True):
        found[owner].append((words[word], int(frequency)))
    assert found == [sorted(Counter(text).items()) for text in chosen]
    assert bags.counts.tolist() == [len(set(text)) for text in chosen]


@given(st.lists(st.tuples(st.sampled_from(["", "a", "sameness", "samenessé"]), st.text("\0ab", max_size=9))))
def test_words_that_begin_alike_are_in_code_point_order(parts: list[tuple[str, str]]) -> None:
    words = [before + after for before, after in parts]
    assert strings(bags_of(terms_of([words])).words) == sorted(set(words))


@given(TEXTS)
def test_weights_are_tf_times_idf_over_the_root_of_their_squares(texts: list[list[str]]) -> None:
    bags = bags_of(terms_of(texts))
    idf: Floats = 1.0 + np.arange(bags.words.size) / 7.0
    expected = []
    for text in texts:
        rank = {word: place for place, word in enumerate(strings(bags.words))}
        weights = [count * float(idf[rank[word]]) for word, count in sorted(Counter(text).items())]
        squares = 0.0
        for weight in weights:
            squares += weight * weight
        expected += [weight / math.sqrt(squares) for weight in weights]
    assert unit_weights(bags, idf).tolist() == expected


def test_long_texts_are_added_up_one_after_the_other() -> None:
    """Pairwise summation would give other last bits; kernels add in a loop."""
    words = [f"{place:04}" for place in range(1000)]
    bags = bags_of(terms_of([words]))
    idf = 1.0 + np.sin(np.arange(1000)) ** 2
    squares = 0.0
    for weight in idf.tolist():
        squares += weight * weight
    assert unit_weights(bags, idf)[0] == idf[0] / math.sqrt(squares)


def test_positions_list_stretches_one_behind_the_other() -> None:
    starts, counts = np.array([5, 0, 9]), np.array([2, 0, 3])
    assert ranges(starts, counts).tolist() == [5, 6, 9, 10, 11]
    assert ranges(starts[:0], counts[:0]).tolist() == []
