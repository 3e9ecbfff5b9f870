"""Phrases: words that a message must have one behind the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast import GeoTextTopK, InputError, SnapshotError
from rankcast.core.contract import checks
from rankcast.text import Analyzer

SETTINGS: dict[str, Any] = {"bounds": (0, 0, 10, 10), "k": 9, "phrases": True}
HERE = {"x": [1], "y": [1]}
VARIANTS = [{"method": "igpt"}, {"method": "ciq"}, {"method": "scan"}]


def _messages(texts: list[list[str]], first: int = 0) -> dict[str, Any]:
    size = len(texts)
    return {"id": list(range(first, first + size)), "x": [1] * size, "y": [1] * size, "terms": texts}


def _items(engine: GeoTextTopK, subscription: Any) -> set[int]:
    return {row["item"] for row in engine.results([subscription]).to_pylist()}


TEXTS = [
    ["new", "york", "pizza"],
    ["york", "new"],
    ["new", "pizza", "york"],
    ["new", "new", "york"],
    ["york"],
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("before", [True, False], ids=["listed", "searched"])
def test_words_are_one_behind_the_other(variant: dict[str, Any], before: bool) -> None:
    asked = [["new york"], ["york new"], ["york", "new"], ["new york pizza"], [], None, ["  "], ["tokyo"]]
    asked += [["new york", "york pizza"], ["new new york"], ["new york pizza today"]]
    expected = [{0, 3}, {1}, {0, 1, 2, 3}, {0}, *[{0, 1, 2, 3, 4}] * 3, set(), {0}, {3}, set()]
    size = len(asked)
    rows = {"id": range(size), "x": [2] * size, "y": [2] * size, "phrases": asked}
    rows["terms"] = [["york", "new"]] * size
    engine = GeoTextTopK(**SETTINGS, **variant)
    if before:
        engine.subscribe(rows)
    engine.publish(_messages(TEXTS))
    if not before:
        engine.subscribe(rows)
    assert [_items(engine, name) for name in range(size)] == expected


def test_amended_explained_and_forgotten() -> None:
    engine = GeoTextTopK(**SETTINGS)
    engine.publish(_messages(TEXTS))
    engine.subscribe({"id": ["ann"], **HERE, "terms": [["york"]], "phrases": [["new york", "no such words"]]})
    assert _items(engine, "ann") == set()
    told = engine.explain("ann", 2)
    assert (told["fails"], told["reason"]) == (["phrases"], "fails phrases")
    terms = len(engine._terms.slots)
    engine.amend({"id": ["ann"], "phrases": [["new york"]]})
    assert len(engine._terms.slots) == terms - 3
    assert _items(engine, "ann") == {0, 3}
    engine.amend({"id": ["ann"], "x": [5]})
    assert _items(engine, "ann") == {0, 3}
    engine.amend({"id": ["ann"], "phrases": [None]})
    assert _items(engine, "ann") == {0, 1, 2, 3, 4}
    engine.amend({"id": ["ann"], "phrases": [["odd words"]]})
    engine.unsubscribe(["ann"])
    engine.retract([0, 1, 2, 3, 4])
    assert len(engine._terms.slots) == 0


def test_texts_are_analysed() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 10, 10), phrases=True, analyzer=Analyzer(stop_words=["the", "of"]))
    texts = ["The CITY of Light!", "light city", "city lights"]
    engine.publish({"id": range(3), "x": [1] * 3, "y": [1] * 3, "text": texts})
    engine.subscribe(
        {"id": ["ann"], **HERE, "text": ["city"], "phrases": [["the city, the Light", "of the"]]}
    )
    assert _items(engine, "ann") == {0}


def test_rows_are_used_again_and_memory_follows_what_is_live() -> None:
    engine, plain = GeoTextTopK(**SETTINGS, window=20), GeoTextTopK(**SETTINGS, window=20, method="scan")
    rng = np.random.default_rng(1)
    words = np.array(["a", "b", "c"])
    asked = [["a b"], ["b c a"], ["c c"], ["a", "b"]]
    rows = {"id": range(4), "x": [3] * 4, "y": [3] * 4, "terms": [["a", "b", "c"]] * 4, "phrases": asked}
    engine.subscribe(rows)
    plain.subscribe(rows)
    sizes = []
    for first in range(0, 900, 9):
        texts = [rng.choice(words, rng.integers(0, 7)).tolist() for _ in range(9)]
        assert engine.publish(_messages(texts, first)).equals(plain.publish(_messages(texts, first)))
        if first % 90 == 0:
            engine.amend({"id": [first % 4], "phrases": [[" ".join(rng.choice(words, 2))]]})
            plain.amend({"id": [first % 4], "phrases": [plain_phrases(engine, first % 4)]})
        sizes.append(
            sum(array.nbytes for name, array in engine.state()[1].items() if name.startswith("said."))
        )
    assert sizes[-1] <= 2 * max(sizes[:20])


def plain_phrases(engine: GeoTextTopK, row: int) -> list[str]:
    """The phrases of a subscription, from the state."""
    assert engine._interests.phrases is not None
    found = engine._interests.phrases.phrases_of(row)
    return [" ".join(engine._terms.slots.take(np.array(words, np.int32)).to_pylist()) for words in found]


def test_saved_and_loaded(tmp_path: Path) -> None:
    engine = GeoTextTopK(**SETTINGS)
    engine.subscribe({"id": ["ann"], **HERE, "terms": [["york"]], "phrases": [["new york"]]})
    engine.publish(_messages(TEXTS))
    engine.save(tmp_path / "state")
    loaded = GeoTextTopK.load(tmp_path / "state")
    checks.same_state(loaded, engine, "loaded")
    more = _messages([["york", "new", "york"], ["york", "york"]], 20)
    assert loaded.publish(more).equals(engine.publish(more))
    assert _items(loaded, "ann") == {0, 3, 20}


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("phrase.begin", lambda a: a + 1000),
        ("phrase.size", lambda a: a + 7),
        ("phrase.word", lambda a: a * 0 + 10_000),
        ("phrase.word", lambda a: a * 0),
        ("said.begin", lambda a: a - 1),
        ("said.size", lambda a: a + 100),
        ("said.word", lambda a: a * 0 - 1),
        ("said.begin", lambda a: a[:1]),
    ],
)
def test_what_no_engine_has_written_is_refused(array: str, change: Any) -> None:
    engine = GeoTextTopK(**SETTINGS)
    engine.subscribe({"id": ["ann"], **HERE, "terms": [["york"]], "phrases": [["new york"]]})
    engine.publish(_messages(TEXTS))
    header, arrays = engine.state()
    spoiled = {name: values.copy() for name, values in arrays.items()}
    spoiled[array] = change(spoiled[array]).astype(spoiled[array].dtype)
    with pytest.raises(SnapshotError):
        GeoTextTopK.restore(header, spoiled)


def test_without_the_setting_there_is_no_such_column() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 10, 10))
    with pytest.raises(InputError, match='"phrases"'):
        engine.subscribe({"id": ["ann"], **HERE, "terms": [["york"]], "phrases": [["new york"]]})
    with pytest.raises(InputError, match="phrases is 1"):
        GeoTextTopK(bounds=(0, 0, 10, 10), phrases=1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match='column "phrases"'):
        GeoTextTopK(**SETTINGS).subscribe(
            {"id": ["ann"], **HERE, "terms": [["york"]], "phrases": ["new york"]}
        )
