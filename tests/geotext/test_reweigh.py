"""Another vocabulary takes the place of the first while an engine runs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import GeoTextTopK, InputError, Vocabulary
from rankcast.core.contract import checks
from rankcast.state.batches import commands_of
from rankcast.state.shard import Shard

WORDS = [f"w{place}" for place in range(25)]
SETTINGS: dict[str, Any] = {"bounds": (0, 0, 10, 10), "k": 3, "window": 60}


def _rows(seed: int, first: int, size: int, words: int) -> dict[str, list[Any]]:
    chance = random.Random(seed)  # noqa: S311  a workload, no secret
    return {
        "id": list(range(first, first + size)),
        "x": [chance.uniform(0, 10) for _ in range(size)],
        "y": [chance.uniform(0, 10) for _ in range(size)],
        "terms": [[chance.choice([*WORDS, "new"]) for _ in range(words)] for _ in range(size)],
    }


def _fitted(seed: int) -> Vocabulary:
    return Vocabulary.fit({"terms": _rows(seed, 0, 30, 5)["terms"]})


def _filled(vocabulary: Vocabulary | None, **settings: Any) -> GeoTextTopK:
    engine = GeoTextTopK(**SETTINGS | settings, vocabulary=vocabulary)
    engine.subscribe(_rows(1, 0, 30, 3))
    engine.publish(_rows(2, 0, 90, 6))
    return engine


@pytest.mark.parametrize("variant", GeoTextTopK.variants, ids=str)
def test_equals_a_fresh_engine_to_the_last_bit_and_goes_on_as_it_does(variant: dict[str, Any]) -> None:
    engine = _filled(_fitted(3), **variant)
    for vocabulary in (_fitted(4), None, _fitted(5)):
        before = engine.results()
        told = engine.reweigh(vocabulary)
        fresh = _filled(vocabulary, **variant)
        assert told.num_rows > 0
        assert engine.results().equals(fresh.results())
        checks._replays(engine, before, engine.results(), told, "reweigh")
        more = _rows(7, 200, 70, 4)
        for one in checks.slices(more):
            assert engine.publish(one).equals(fresh.publish(one))
        engine = _filled(vocabulary, **variant)


def test_terms_of_the_former_vocabulary_are_forgotten() -> None:
    engine, fresh = _filled(_fitted(3)), _filled(None)
    rare = Vocabulary.fit({"terms": [[f"never {place}" for place in range(1000)]]})
    engine.reweigh(rare)
    assert len(engine._terms.slots) > 1000
    engine.reweigh(None)
    assert len(engine._terms.slots) == len(fresh._terms.slots)
    assert engine._terms.slots["references"].sum() == fresh._terms.slots["references"].sum()


def test_saved_before_and_after(tmp_path: Path) -> None:
    engine = _filled(_fitted(3))
    engine.save(tmp_path / "before")
    told = engine.reweigh(_fitted(4))
    loaded = GeoTextTopK.load(tmp_path / "before")
    assert loaded.reweigh(_fitted(4)).equals(told)
    checks.same_state(engine, loaded, "reweighed after loading")
    engine.save(tmp_path / "after")
    loaded = GeoTextTopK.load(tmp_path / "after")
    checks.same_state(engine, loaded, "loaded")
    assert loaded.publish(_rows(9, 300, 40, 5)).equals(engine.publish(_rows(9, 300, 40, 5)))


def test_a_snapshot_without_frequencies_tells_them_from_weights() -> None:
    engine = _filled(_fitted(3))
    header, arrays = engine.state()
    older = {name: array for name, array in arrays.items() if not name.endswith(".frequency")}
    assert len(older) == len(arrays) - 2
    loaded = GeoTextTopK.restore(header, {name: array.copy() for name, array in older.items()})
    told, expected = loaded.reweigh(_fitted(4)), engine.reweigh(_fitted(4))
    assert told["item"].equals(expected["item"])
    np.testing.assert_allclose(
        told["score"].drop_null().to_numpy(), expected["score"].drop_null().to_numpy(), rtol=1e-12
    )


def test_frequencies_from_weights() -> None:
    texts = [["a"] * 2 + ["b"] * 3, ["a"] * 7 + ["b"] * 5 + ["c"], ["a"] * 4 + ["c"] * 6, ["b"] * 9, []]
    engine = GeoTextTopK(bounds=(0, 0, 1, 1), vocabulary=Vocabulary.fit({"terms": texts}), place_only=True)
    engine.publish({"id": range(5), "x": [0] * 5, "y": [0] * 5, "terms": texts})
    vectors = engine._messages.texts
    given = vectors.frequency[: vectors.used].copy()
    vectors.frequency[:] = 0
    vectors.recover(engine._terms.slots["idf"])
    assert given.tolist() == [2, 3, 1, 7, 5, 1, 1, 4, 6, 1, 9, 1, 1]
    assert vectors.frequency[: vectors.used].tolist() == [2, 3, 1, 7, 5, 1, 1, 2, 3, 1, 1, 1, 1]


def test_as_a_command_of_a_batch_and_of_a_shard(tmp_path: Path) -> None:
    expected, vocabulary = _filled(_fitted(3)), _fitted(4)
    engine = _filled(_fitted(3))
    more = _rows(8, 200, 20, 5)
    before = expected.results()
    expected.reweigh(vocabulary)
    expected.publish(more)
    told = engine.apply([("reweigh", vocabulary), ("publish", more)])
    assert engine.results().equals(expected.results())
    checks._replays(engine, before, engine.results(), told, "apply")
    with Shard.open(tmp_path / "shard", GeoTextTopK(**SETTINGS, vocabulary=_fitted(3))) as shard:
        shard.apply([("subscribe", _rows(1, 0, 30, 3)), ("publish", _rows(2, 0, 90, 6))], after=shard.token)
        _, answer = shard.apply([("reweigh", vocabulary), ("publish", more)], after=shard.token)
        assert answer.equals(told)
    with Shard.open(tmp_path / "shard", GeoTextTopK(**SETTINGS, vocabulary=_fitted(3))) as shard:
        assert shard.engine.results().equals(expected.results())


def _op_rows(rows: dict[str, list[Any]], *given: Vocabulary | None) -> pa.Table:
    """Messages, and rows that bring vocabularies: the first before them, the others behind."""
    published = pa.table({"op": ["publish"] * len(rows["id"]), **rows})
    brought = []
    for each in given:
        table = pa.table(each or Vocabulary.empty()).to_pydict()
        words, counts = table["term"][1:], table["documents"]
        brought.append(pa.table({"op": ["reweigh"], "vocabulary": [words], "documents": [counts]}))
    parts = [*brought[:1], published, *brought[1:]]
    return pa.concat_tables(parts, promote_options="default")


@pytest.mark.parametrize("variant", GeoTextTopK.variants, ids=str)
def test_as_a_row_of_messages(variant: dict[str, Any]) -> None:
    engine, expected = _filled(_fitted(3), **variant), _filled(_fitted(3), **variant)
    more, last = _rows(8, 200, 20, 5), _rows(9, 300, 50, 5)
    for given in ((_fitted(4),), (_fitted(4), _fitted(5)), (_fitted(5), None)):
        told = engine.publish(_op_rows(more, *given))
        want = expected.apply([*(("reweigh", each) for each in given[:1]), ("publish", more),
                               *(("reweigh", each or Vocabulary.empty()) for each in given[1:])])  # fmt: skip
        by = [("subscription", "ascending"), ("item", "ascending")]  # leaves go by their ranks before
        assert told.num_rows > 0
        assert told.sort_by(by).equals(want.sort_by(by))
        assert engine.results().equals(expected.results())
        assert engine.publish(last).equals(expected.publish(last))
        more = {**more, "id": [each + 1000 for each in more["id"]]}
        last = {**last, "id": [each + 1000 for each in last["id"]]}
    alone = engine.publish(_op_rows(_rows(1, 0, 0, 1), _fitted(4)))
    assert alone.equals(expected.reweigh(_fitted(4)))
    assert engine.stats()["events"] == expected.stats()["events"] + 6  # rows of messages are events


@pytest.mark.parametrize("column", ["vocabulary", "documents"])
@pytest.mark.parametrize("value", [5, "a", [2.5], [["a"]], {"a": 1}, [True], [None]], ids=str)
def test_what_is_no_list_of_words_or_numbers_is_refused(column: str, value: Any) -> None:
    engine = _filled(_fitted(3))
    rows = [{"id": 500, "x": 1, "y": 1, "terms": ["w1"], "op": "publish"}]
    given = {"vocabulary": ["w1"], "documents": [2, 1], column: value}
    with pytest.raises(InputError) as refused:
        engine.publish([*rows, {"op": "reweigh", **given}])
    assert refused.value.column == column
    assert engine.publish([*rows, {"op": "reweigh", "vocabulary": ["w1"], "documents": [2, 1]}]).num_rows > 0


def test_a_row_of_messages_survives_a_kill(tmp_path: Path) -> None:
    rows, more = _op_rows(_rows(8, 200, 20, 5), _fitted(4)), _rows(9, 300, 50, 5)
    expected = _filled(_fitted(3))
    with Shard.open(tmp_path / "shard", GeoTextTopK(**SETTINGS, vocabulary=_fitted(3))) as shard:
        shard.apply([("subscribe", _rows(1, 0, 30, 3)), ("publish", _rows(2, 0, 90, 6))], after=shard.token)
        before = shard.token
        token, told = shard.apply(rows, after=before)
    assert told.equals(expected.publish(rows))
    with Shard.open(tmp_path / "shard", GeoTextTopK(**SETTINGS, vocabulary=_fitted(3))) as shard:
        again, answer = shard.apply(rows, after=before)  # offered once more: answered as it was
        assert (again, answer.num_rows) == (token, told.num_rows)
        assert answer.equals(told)
        assert shard.engine.results().equals(expected.results())
        assert shard.apply(more, after=token)[1].equals(expected.publish(more))


@pytest.mark.parametrize(
    ("words", "counts", "column"),
    [(["a"], [3], "documents"), (["a", "a"], [3, 1, 1], "vocabulary"), (["a"], [3, 4], "vocabulary"),
     ([], [3, 1], "documents"), (["a"], None, "documents"), (["a", None], [3, 1, 1], "vocabulary"),
     (["a"], [-1, 0], "vocabulary")],
)  # fmt: skip
def test_a_bad_row_is_named_and_changes_nothing(words: Any, counts: Any, column: str) -> None:
    engine = _filled(_fitted(3))
    before, stats = engine.results(), engine.stats()
    good = _op_rows(_rows(8, 200, 3, 5))
    bad = pa.table({"op": ["reweigh"], "vocabulary": pa.array([words], pa.list_(pa.string())),
                    "documents": pa.array([counts], pa.list_(pa.int64()))})  # fmt: skip
    with pytest.raises(InputError) as refused:
        engine.publish(pa.concat_tables([good, bad], promote_options="default"))
    assert (refused.value.column, refused.value.row) == (column, 3)
    with pytest.raises(InputError) as refused:  # a row behind one that brings a vocabulary keeps its number
        engine.publish(pa.concat_tables([_op_rows({**_rows(8, 200, 2, 5), "x": [1.0, 99.0]}, _fitted(4))]))
    assert (refused.value.column, refused.value.row) == ("x", 2)
    assert engine.results().equals(before)
    assert engine.stats() == stats


def test_a_vocabulary_is_a_table() -> None:
    vocabulary = _fitted(3)
    table = pa.table(vocabulary)
    assert table.column_names == ["term", "documents"]
    assert Vocabulary.read(table) == vocabulary
    assert hash(Vocabulary.read(table.slice(0))) == hash(vocabulary)
    shuffled = table.take(np.random.default_rng(1).permutation(table.num_rows))
    assert Vocabulary.read(shuffled) == vocabulary
    assert Vocabulary.read(pa.table(Vocabulary.empty())) == Vocabulary.empty() != vocabulary
    (call, canonical), *_ = commands_of([("reweigh", vocabulary)], GeoTextTopK.calls)
    assert call == "reweigh"
    assert Vocabulary.read(canonical) == vocabulary
    only = {"term": [None], "documents": [4]}
    assert Vocabulary.read(only).documents == 4


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"term": ["a"], "documents": [1]}, 'column "term"'),
        ({"term": [None, "a", None], "documents": [3, 1, 3]}, "row: 2"),
        ({"term": [None, "a"], "documents": [3, 4]}, "at most all documents, which are 3"),
        ({"term": [None, "a"], "documents": [3, 0]}, 'column "documents"'),
        ({"term": ["a", None, "a"], "documents": [1, 3, 1]}, "row: 2"),
        ({"term": [None, 7], "documents": [3, 1]}, "holds integers"),
        ({"term": [None]}, 'column "documents"'),
        ({"term": [None], "documents": [1], "more": [1]}, '"more"'),
        ([1, 2], "row"),
        (7, "vocabulary"),
    ],
)
def test_what_is_no_vocabulary_is_refused_and_changes_nothing(rows: Any, told: str) -> None:
    engine = _filled(_fitted(3))
    before = checks.frozen(engine)
    with pytest.raises(InputError, match=told):
        engine.reweigh(rows)
    checks.same_as(before, engine, "refused")


def test_limits_words_and_decay_stay() -> None:
    rows = _rows(1, 0, 30, 3)
    limited = {**rows, "min_score": [0.4] * 30, "must_not": [["w1"]] * 30, "radius": [7.0] * 30}
    results = []
    for first in (_fitted(3), _fitted(4)):
        engine = GeoTextTopK(**SETTINGS, place_only=True, distinct=True, vocabulary=first)
        engine.subscribe(limited | {"terms": [[], *rows["terms"][1:]]})
        engine.publish(_rows(2, 0, 90, 6))
        engine.reweigh(_fitted(4))
        results.append(engine.results())
    assert results[0].num_rows > 20
    assert results[0].equals(results[1])
