"""Texts as terms."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from rankcast import GeoTextTopK, InputError, SettingError, Vocabulary
from rankcast.text import Analyzer


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("!? -- …", []),
        ("Hello, WORLD", ["hello", "world"]),
        ("Cafe\u0301 CAFÉ café", ["cafe", "cafe", "cafe"]),
        ("Straße Øre Łódź", ["strasse", "ore", "lodz"]),
        ("don\u2019t o'clock 'quoted'", ["don't", "o'clock", "quoted"]),
        ("a_b 3.14 x2", ["a", "b", "3", "14", "x2"]),
        ("東京都 と 京", ["東京", "京都", "と", "京"]),
        ("iPhone東京 2024年", ["iphone", "東京", "2024", "年"]),
        ("한국어", ["한국", "국어"]),
        ("हिन्दी", ["हिन्दी"]),
        ("ﬁne ①", ["fine", "1"]),
    ],
)
def test_words_by_the_rules_of_unicode(text: str, terms: list[str]) -> None:
    assert Analyzer()(text) == terms


def test_a_language_has_stop_words_and_stems() -> None:
    assert Analyzer("english")("The running of the bulls") == ["run", "bull"]
    assert Analyzer("german")("Die Häuser über den Straßen") == ["haus", "strass"]
    assert Analyzer("english", stem=False)("The running bulls") == ["running", "bulls"]
    assert Analyzer("english", stop_words=["Running"])("the running bulls") == ["the", "bull"]
    assert Analyzer(accents=True)("café") == ["café"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"language": "klingon"}, "language"),
        ({"stem": True}, "stem"),
        ({"stop_words": "the"}, "stop_words"),
        ({"accents": 1}, "accents"),
        ({"stemm": True}, "stemm"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingError, match=name):
        Analyzer.of(settings)


def test_an_analyzer_is_its_settings() -> None:
    analyzer = Analyzer("french", stop_words=["le"])
    assert Analyzer.of(json.loads(json.dumps(analyzer.settings()))) == analyzer
    assert pickle.loads(pickle.dumps(analyzer)) == analyzer  # noqa: S301  Spark ships settings so
    assert analyzer != Analyzer("french")


def test_a_vocabulary_of_texts() -> None:
    fitted = Vocabulary.fit({"text": ["The dogs run", "a dog"]}, analyzer=Analyzer("english"))
    assert fitted.idf("dog") == pytest.approx(1.0)
    assert fitted.idf("dogs") == fitted.idf("cat") > fitted.idf("run") > 1


def rows(*texts: str | None, **columns: list[Any]) -> dict[str, list[Any]]:
    size = len(texts)
    return {"id": list(range(size)), "x": [0] * size, "y": [0] * size, "text": list(texts), **columns}


@pytest.mark.parametrize("method", ["igpt", "scan"])
def test_an_engine_takes_texts(method: str, tmp_path: Path) -> None:
    engine = GeoTextTopK(bounds=(0, 0, 4, 3), analyzer=Analyzer("english"), method=method)
    engine.subscribe(rows("running dogs", "cats", must=[["Dogs"], None]))
    engine.publish(rows("A dog ran", "the dogs RUN!", "runs", "my cat"))
    assert engine.results()["item"].to_pylist() == [1, 0, 3]
    engine.save(tmp_path)
    engine = GeoTextTopK.load(tmp_path)
    engine.publish(rows("dogs running", id=[9]))
    assert engine.results([0])["item"].to_pylist() == [9, 1, 0]
    engine.amend({"id": [1], "text": ["kittens dogs"]})
    assert len(engine.results([1])) == 3
    engine.publish({"id": [9], "op": ["retract"]})
    assert engine.results([0])["item"].to_pylist() == [1, 0]
    with pytest.raises(InputError, match='unknown column "terms"'):
        engine.publish({"id": [7], "x": [0], "y": [0], "terms": [["dog"]]})
    for call in (engine.publish, engine.subscribe, engine.amend):
        assert call(rows()).num_rows == 0
    with pytest.raises(InputError, match='column "text"'):
        engine.publish({"id": [7], "x": [0], "y": [0], "text": [7]})


@pytest.mark.parametrize("method", ["igpt", "scan"])
def test_a_null_is_a_text_without_words_where_that_is_allowed(method: str) -> None:
    """As null terms are: of subscriptions that ask for a place only, and of all where vectors count alone."""
    settings: dict[str, Any] = {"bounds": (0, 0, 4, 3), "analyzer": {}, "method": method, "place_only": True}
    engine = GeoTextTopK(**settings)
    engine.subscribe(rows(None, "dogs"))
    engine.publish(rows("cats"))
    assert engine.results()["subscription"].to_pylist() == [0]
    engine.amend({"id": [0, 1], "text": ["dogs", None]})
    assert engine.results()["subscription"].to_pylist() == [1]
    with pytest.raises(InputError, match='"text" of "messages" is null'):
        engine.publish(rows(None, id=[7]))
    with pytest.raises(InputError, match='"text" of "subscriptions" holds integers'):
        engine.amend({"id": [0, 1], "text": [3, None]})
    with pytest.raises(InputError, match='"text" of "subscriptions" is null'):
        GeoTextTopK(**settings | {"place_only": False}).subscribe(rows(None, "dogs"))
    engine = GeoTextTopK(**settings, vectors=2)
    engine.subscribe(rows(None, None, "dogs", vector=[None, [1, 0], [0, 1]], must_not=[None, ["Cat"], None]))
    engine.publish(rows(None, "cat", vector=[[1, 0], [1, 1]]))
    assert engine.results().select(["subscription", "item"]).to_pydict() == {
        "subscription": [0, 0, 1, 2, 2], "item": [1, 0, 0, 1, 0],
    }  # fmt: skip


def test_settings_make_an_analyzer_too() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 4, 3), analyzer={"language": "english"})
    engine.subscribe(rows("dogs"))
    assert engine.publish(rows("dog")).num_rows == 1
    with pytest.raises(SettingError, match="analyzer"):
        GeoTextTopK(bounds=(0, 0, 4, 3), analyzer=3)  # type: ignore[arg-type]
