"""Dense vectors: what counts, what is refused, and that neither projections nor products lose anything."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import GeoTextTopK, InputError, SettingError
from rankcast.errors import SnapshotError
from rankcast.geotext.vector_index import VectorReaders

Rng = np.random.Generator


def rows(rng: Rng, ids: list[int], vectors: Any, **more: Any) -> dict[str, Any]:
    places = {axis: rng.uniform(0, 10, len(ids)) for axis in "xy"}
    return {"id": ids, **places, "vector": vectors, **more}


def drawn(rng: Rng, kind: str, size: int, count: int) -> Any:
    """Vectors of a few topics, of no topic at all, or with many ties, as lists of a fixed size."""
    vectors = rng.normal(size=(count, size))
    if kind == "topics":
        vectors = np.random.default_rng(3).normal(size=(6, size))[rng.integers(0, 6, count)] + vectors / 8
    elif kind == "ties":
        vectors = np.eye(size)[rng.integers(0, 3, count)]
    values = pa.array(vectors.astype(np.float32).ravel())
    return pa.FixedSizeListArray.from_arrays(values, size)


def same(one: GeoTextTopK, other: GeoTextTopK, call: str, given: Any) -> None:
    assert getattr(one, call)(given).equals(getattr(other, call)(given))


@pytest.mark.parametrize("kind", ["topics", "uniform", "ties"])
@pytest.mark.parametrize(("size", "beta"), [(40, 1.0), (100, 1.0), (3, 1.0), (40, 0.6)])
def test_a_window_that_turns_over_is_as_by_brute_force(kind: str, size: int, beta: float) -> None:
    """More vectors than a projection is learned from, twice; alphas from words alone to place alone."""
    rng = np.random.default_rng(5)
    settings: dict[str, Any] = {
        "bounds": (0, 0, 10, 10),
        "k": 5,
        "window": 400,
        "vectors": size,
        "beta": beta,
    }
    engine, scan = GeoTextTopK(**settings), GeoTextTopK(**settings, method="scan")

    def terms(count: int) -> dict[str, Any]:
        return {"terms": [list(rng.choice(list("abcd"), 2)) for _ in range(count)]} if beta < 1 else {}

    subscriptions = rows(rng, list(range(60)), drawn(rng, kind, size, 60), **terms(60))
    subscriptions["alpha"] = [i % 5 / 4 for i in range(60)]
    same(engine, scan, "subscribe", subscriptions)
    for first in range(0, 1200, 150):
        ids = list(range(first, first + 150))
        same(engine, scan, "publish", rows(rng, ids, drawn(rng, kind, size, 150), **terms(150)))
        same(engine, scan, "publish", rows(rng, [9000 + first], drawn(rng, kind, size, 1), **terms(1)))
        changed = {"id": [first % 60], "vector": drawn(rng, kind, size, 1)}
        same(engine, scan, "amend", changed)
        same(engine, scan, "retract", [9000 + first])
    assert engine.results().equals(scan.results())


def test_whole_vectors_are_multiplied_where_a_projection_shows_little() -> None:
    rng = np.random.default_rng(1)
    engine = GeoTextTopK(bounds=(0, 0, 10, 10), k=2, window=600, vectors=256)
    engine.subscribe(rows(rng, list(range(300)), drawn(rng, "uniform", 256, 300)))
    engine.publish(rows(rng, list(range(300)), drawn(rng, "uniform", 256, 300)))
    assert engine._live is not None
    readers = engine._live._postings
    assert isinstance(readers, VectorReaders)
    assert readers._projection.weak
    few = GeoTextTopK(bounds=(0, 0, 10, 10), k=2, window=600, vectors=256)
    few.subscribe(rows(rng, list(range(300)), drawn(rng, "topics", 256, 300)))
    for first in range(0, 1200, 100):  # buffers have scores to beat once the window has turned over
        few.publish(rows(rng, list(range(first, first + 100)), drawn(rng, "topics", 256, 100)))
    before = few.stats()["verified"]
    few.publish(rows(rng, list(range(1200, 1300)), drawn(rng, "topics", 256, 100)))
    assert few.stats()["verified"] - before < 300 * 100 / 4


def test_the_score_is_the_mix_that_beta_says() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 10, 10), alpha=0, vectors=2, beta=0.25)
    engine.subscribe({"id": ["s"], "x": [0], "y": [0], "terms": [["a", "b"]], "vector": [[3, 4]]})
    engine.publish(
        {
            "id": list("mnop"),
            "x": [0] * 4,
            "y": [0] * 4,
            "terms": [["a"], ["a"], ["b"], ["c"]],
            "vector": [[3, 4], [-3, -4], [4, 3], [3, 4]],
        }
    )
    words = 1 / math.sqrt(2)
    found = {row["item"]: row["score"] for row in engine.results().to_pylist()}
    wanted = {"m": 0.25 + 0.75 * words, "n": 0.75 * words, "o": 0.25 * 0.96 + 0.75 * words}
    assert found == pytest.approx(wanted, abs=1e-15)  # without a common term none is in
    told = engine.explain("s", "n")
    assert (told["vector_cosine"], told["cosine"]) == (pytest.approx(-1), pytest.approx(words))


def test_vectors_alone_need_no_terms_and_limits_still_hold() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 10, 10), k=9, alpha=0.5, vectors=2, place_only=True)
    engine.subscribe(
        {
            "id": ["near", "alike", "news"],
            "x": [0, 0, 0],
            "y": [0, 0, 0],
            "vector": [None, [1, 0], [1, 0]],
            "alpha": [None, 0, 0],
            "min_score": [None, 0.5, None],
            "must": [None, None, ["news"]],
        }
    )
    engine.publish({"id": [1, 2, 3], "x": [9, 1, 2], "y": [0, 0, 0], "vector": [[1, 0], [-1, 0], [5, 5]]})
    engine.publish({"id": [4], "x": [3], "y": [0], "vector": [[0, 1]], "terms": [["news"]]})
    found = {
        name: [r["item"] for r in engine.results([name]).to_pylist()] for name in ("near", "alike", "news")
    }
    assert found == {"near": [2, 3, 4, 1], "alike": [1, 3], "news": [4]}
    assert engine.explain("news", 1)["reason"] == "fails must"
    engine.amend({"id": ["near"], "vector": [[-1, 0]], "alpha": [0.0]})
    assert engine.results(["near"])["item"].to_pylist()[0] == 2


@pytest.mark.parametrize("method", ["igpt", "scan"])
def test_equal_texts_are_those_with_equal_vectors(method: str) -> None:
    engine = GeoTextTopK(bounds=(0, 0, 1, 1), k=9, vectors=2, distinct=True, method=method)
    engine.subscribe({"id": [1], "x": [0], "y": [0], "vector": [[1, 0]]})
    engine.publish({"id": [1, 2, 3], "x": [0] * 3, "y": [0] * 3, "vector": [[2, 0], [4, 0], [0, 1]]})
    assert engine.results()["item"].to_pylist() == [2, 3]
    engine.retract([2])
    assert engine.results()["item"].to_pylist() == [1, 3]


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        ([[1, 0], [0, 0]], "has the length 0"),
        ([[1, 0], [1, math.nan]], "holds nan at place 1"),
        ([[1, 0], [1, math.inf]], "holds inf at place 1"),
        ([[1, 0], [1, None]], "holds a null at place 1"),
        ([[1, 0], [1, 0, 0]], "has 3 numbers"),
        ([[1, 0], None], "is null"),
    ],
)
def test_vectors_that_are_none_are_refused_by_column_and_row(vector: Any, said: str) -> None:
    engine = GeoTextTopK(bounds=(0, 0, 1, 1), vectors=2)
    for call in ("subscribe", "publish"):
        with pytest.raises(InputError, match=said) as refused:
            getattr(engine, call)({"id": [1, 2], "x": [0, 0], "y": [0, 0], "vector": vector})
        assert (refused.value.column, refused.value.row) == ("vector", 1)
    assert len(engine) == 0


def test_numbers_of_any_size_have_a_direction() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 1, 1), alpha=0, vectors=2)
    engine.subscribe({"id": [1], "x": [0], "y": [0], "vector": [[5e-324, 5e-324]]})
    engine.publish({"id": [1, 2], "x": [0, 0], "y": [0, 0], "vector": [[1e308, 1e308], [1e308, 0]]})
    assert engine.results()["score"].to_pylist() == pytest.approx([1, math.sqrt(0.5)], abs=1e-15)


def test_settings_are_checked() -> None:
    for settings in ({"vectors": 0}, {"vectors": 2.5}, {"vectors": 3, "beta": 1.5}, {"vectors": 1 << 20}):
        with pytest.raises(SettingError):
            GeoTextTopK(bounds=(0, 0, 1, 1), **settings)
    with pytest.raises(InputError, match="vector"):
        GeoTextTopK(bounds=(0, 0, 1, 1)).publish(
            {"id": [1], "x": [0], "y": [0], "terms": [["a"]], "vector": [[1]]}
        )


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_a_snapshot_goes_on_to_the_last_bit(tmp_path: Path, beta: float) -> None:
    rng = np.random.default_rng(2)
    settings: dict[str, Any] = {"window": timedelta(days=1), "half_life": timedelta(hours=6), "k": 3}
    engine = GeoTextTopK(bounds=(0, 0, 10, 10), vectors=40, beta=beta, distinct=True, **settings)

    def batch(first: int, count: int) -> dict[str, Any]:
        times = np.datetime64("2024-01-01T00:00:00", "us") + np.arange(first, first + count) * 300_000_000
        terms = [list(rng.choice(list("abc"), 2)) for _ in range(count)]
        return rows(
            rng, list(range(first, first + count)), drawn(rng, "topics", 40, count), time=times, terms=terms
        )

    some = batch(0, 40)
    del some["time"]
    engine.subscribe(some)
    engine.publish(batch(0, 300))
    engine.save(tmp_path / "state")
    other = GeoTextTopK.load(tmp_path / "state")
    for first in (300, 400):
        state, more = rng.bit_generator.state, []
        for each in (engine, other):
            rng.bit_generator.state = state
            more.append(each.publish(batch(first, 100)))
        assert more[0].equals(more[1])
    assert engine.stats() == other.stats()


def test_a_snapshot_with_made_up_vectors_is_refused() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 1, 1), vectors=2)
    engine.subscribe({"id": [1], "x": [0], "y": [0], "vector": [[1, 0]]})
    engine.publish({"id": [1], "x": [0], "y": [0], "vector": [[1, 0]]})
    header, arrays = engine.state()
    for name in ("subscription_vector.unit", "message_vector.unit"):
        for value in (0.5, np.nan):
            spoiled = {key: array.copy() for key, array in arrays.items()}
            spoiled[name][0, 0] = value
            with pytest.raises(SnapshotError):
                GeoTextTopK.restore(header, spoiled)
    spoiled = {key: array.copy() for key, array in arrays.items()}
    spoiled["live.readers_basis"][0, 0] = 2
    with pytest.raises(SnapshotError):
        GeoTextTopK.restore(header, spoiled)
