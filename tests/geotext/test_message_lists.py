"""Messages by word: nodes bound what is under them, and searches over many of them find what a scan finds."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast import GeoTextTopK, Vocabulary
from rankcast.geotext.kernels.arrange import slot_of
from rankcast.geotext.kernels.postings import (
    BLOCK,
    CELL,
    FEW,
    MESSAGE_BOX,
    MOST,
    MOST_REST,
    REGION,
    REST,
    STAMP,
    STEP,
    WEIGHT,
    X,
    radix_sort,
)
from rankcast.geotext.kernels.score import SHARE
from rankcast.geotext.live import LiveResults

WORDS = np.array(["common", "frequent", "rare", "odd"])
SHARES = [0.55, 0.3, 0.13, 0.02]
WINDOW = 12_000
BATCHES = [9_000, 2_500, 300, 700, 1, 40, 1_500, 600, 3_000]  # the list of a word is longer than a region


def messages(rng: np.random.Generator, count: int, first: int) -> dict[str, Any]:
    """Messages on a coarse grid, a few words each, so that scores tie."""
    x, y = rng.integers(0, 40, (2, count)) / 8.0
    texts = [rng.choice(WORDS, rng.integers(0, 5), p=SHARES).tolist() for _ in range(count)]
    return {"id": np.arange(first, first + count), "x": x, "y": y, "terms": texts}


def subscriptions(rng: np.random.Generator, count: int, first: int) -> dict[str, Any]:
    """Subscriptions that want few messages or many, by place or by words."""
    wanted = messages(rng, count, first)
    return {
        **wanted,
        "alpha": rng.choice([0.0, 0.1, 0.5, 0.9, 1.0], count),
        "k": rng.choice([1, 3, 20, 150], count),
    }


def live_of(engine: GeoTextTopK) -> LiveResults:
    live = engine._live
    assert live is not None
    return live


def parts_of(begin: int, main: int, size: int) -> list[tuple[int, int]]:
    """Whatever may be looked at as a whole: blocks, and cells and regions of what is in order."""
    parts = [(at, min(at + BLOCK, begin + size)) for at in range(begin, begin + size, BLOCK)]
    for span in (CELL, REGION):
        parts += [(at, min(at + span, begin + main)) for at in range(begin, begin + main, span)]
    return parts


def check(live: LiveResults) -> int:
    """Every node bounds its entries, and a message is listed once a word; returns how many nodes."""
    lists, texts, stamps = live._messages.lists, live._state.texts, live._columns.places().stamp
    known, listed = 0, []
    for word in np.flatnonzero(lists.size):
        begin, main, size = (int(of[word]) for of in (lists.begin, lists.main, lists.size))
        entries = np.arange(begin, begin + size)
        facts = lists.fact[entries // STEP, :, entries % STEP]
        current = facts[:, STAMP] == stamps[lists.row[entries]]
        assert lists.dead[word] == size - current.sum()
        listed += [(int(row), int(word)) for row in lists.row[entries[current]]]
        for start, end in parts_of(begin, main, size):
            inside, node = facts[start - begin : end - begin] * SHARE, lists.node[slot_of(start, end)]
            places = inside[:, X : X + 3]
            assert (inside[:, [WEIGHT, REST]].max(axis=0) <= node[[MOST, MOST_REST]]).all()
            assert (places >= node[MESSAGE_BOX : MESSAGE_BOX + 3]).all()
            assert (places <= node[MESSAGE_BOX + 3 :]).all()
            known += 1
    rows = live._state.window.rows()
    vectors = texts.entries(rows)
    assert sorted(listed) == sorted(zip(rows[vectors.owner].tolist(), vectors.term.tolist(), strict=True))
    return known


@pytest.mark.parametrize("fitted", [False, True])
def test_first_results_over_regions_are_those_of_a_scan(fitted: bool) -> None:
    rng = np.random.default_rng(fitted)
    vocabulary = Vocabulary.fit(messages(rng, 300, 0)) if fitted else None
    engines = [
        GeoTextTopK(bounds=(0, 0, 5, 5), window=WINDOW, vocabulary=vocabulary, method=method, refill="none")
        for method in ("igpt", "scan")
    ]
    first = 0
    for size in BATCHES:
        rows, wanted = messages(rng, size, first), subscriptions(rng, 12, first)
        first += size
        for engine in engines:
            engine.publish(rows)
        answers = [engine.subscribe(wanted) for engine in engines]
        assert answers[0].num_rows > 0
        assert answers[0] == answers[1]
        for engine in engines:
            engine.unsubscribe(wanted["id"])
        assert check(live_of(engines[0])) > len(WORDS)


@pytest.mark.parametrize("refill", ["cost-skyband", "kmax", "none"])
def test_amended_results_over_regions_are_those_of_a_scan(refill: str) -> None:
    """Searches that begin with what is held, and those that cannot."""
    rng = np.random.default_rng(9)
    rows, wanted = messages(rng, WINDOW, 0), subscriptions(rng, 60, 0)
    engines = [
        GeoTextTopK(bounds=(0, 0, 5, 5), window=WINDOW, method=method, refill=kept)
        for method, kept in (("igpt", refill), ("scan", "none"))
    ]
    ids, others = wanted["id"], subscriptions(rng, 60, 0)
    amendments: list[dict[str, Any]] = [
        {"x": np.clip(wanted["x"] + rng.integers(-1, 2, 60) / 32.0, 0.0, 5.0)},
        {"k": wanted["k"] + rng.integers(0, 4, 60)},
        {"k": 2 * wanted["k"] + 5, "x": wanted["x"]},
        {"alpha": others["alpha"]},
        {"terms": others["terms"], "y": others["y"]},
    ]
    for engine in engines:
        engine.publish(rows)
        engine.subscribe(wanted)
    for amendment in amendments:
        answers = [engine.amend({"id": ids, **amendment}) for engine in engines]
        assert answers[0].num_rows > 0
        assert answers[0] == answers[1]
        assert engines[0].results() == engines[1].results()


@pytest.mark.parametrize("size", [0, 1, 2, FEW - 1, FEW, FEW + 1, 500])
@pytest.mark.parametrize("keys", [3, 1 << 16])
def test_places_are_sorted_stably(size: int, keys: int) -> None:
    rng = np.random.default_rng(size)
    key = rng.integers(0, keys, 2 * size + 1).astype(np.int32)
    order = rng.permutation(2 * size + 1)[:size].astype(np.int32)
    expected = order[np.argsort(key[order], kind="stable")]
    radix_sort(order, key, np.empty(size, np.int32), 16)
    assert order.tolist() == expected.tolist()


def test_first_results_where_scores_fade_on_the_globe() -> None:
    rng = np.random.default_rng(5)
    rows, wanted = messages(rng, 3_000, 0), subscriptions(rng, 40, 0)
    rows["x"], rows["y"] = rows["x"] * 72.0 - 180.0, rows["y"] * 36.0 - 90.0
    start = datetime(2024, 1, 1)
    rows["time"] = [start + timedelta(seconds=int(second)) for second in rng.integers(0, 500, 3_000)]
    answers = []
    for method in ("igpt", "scan"):
        span = timedelta(seconds=600)
        engine = GeoTextTopK(metric="haversine", window=span, half_life=span / 4, method=method)
        engine.publish(rows)
        answers.append(engine.subscribe(wanted))
    assert answers[0].num_rows > 0
    assert answers[0] == answers[1]


def test_a_state_whose_lists_have_moved_together_loads_again(tmp_path: Path) -> None:
    """Terms that nobody has any longer keep no stretch behind those that are used."""
    engine = GeoTextTopK(bounds=(0, 0, 4, 3), k=2, window=1)
    place = {"x": [0, 0], "y": [0, 0]}
    engine.subscribe({"id": [1, 2], **place, "terms": [["b", "z"], ["c", "d", "z"]]})
    engine.publish({"id": [3, 3], **place, "terms": [["a"], ["a"]]})
    engine.amend({"id": [1, 2], "terms": [["a"], ["a"]]})
    engine.save(tmp_path)
    assert GeoTextTopK.load(tmp_path).results().equals(engine.results())
