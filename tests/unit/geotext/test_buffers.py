"""Buffers: the k-skyband above a threshold, and the cost model that chooses it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankcast import GeoTextTopK
from rankcast.engines.brute_force import geotext as brute_force
from rankcast.indexes.result_buffers import REFILLS
from rankcast.kernels import skyband
from tests.unit.geotext.scenes import K, played, stream


def direct_skyband(scores: np.ndarray, threshold: float, k: int) -> set[int]:
    """Places of those above the threshold with fewer than k dominators; the newest is first."""
    kept = set()
    for place, score in enumerate(scores):
        if score > threshold and int((scores[:place] >= score).sum()) < k:
            kept.add(place)
    return kept


def check_skybands(engine: GeoTextTopK, k: int) -> None:
    """Every buffer holds the k-skyband above its threshold, and nothing else but what ties with it."""
    rows = engine._slots.live()
    messages = engine._scan.messages()
    interests = engine._scan.interests(rows, engine._alpha_of(rows), engine._k_of(rows))
    found = 0
    for row, similarity in zip(
        rows, brute_force.similarities(interests, messages, engine._space), strict=True
    ):
        live = engine._live
        assert live is not None
        scores = np.where(similarity.cosine > 0, similarity.score, -np.inf)
        expected = direct_skyband(scores, live.threshold(row), k)
        held, _ = live.held_by(row)
        at_threshold = {int(messages.row[i]) for i in np.flatnonzero(scores == live.threshold(row))}
        assert {int(messages.row[i]) for i in expected} == set(held.tolist()) - at_threshold
        found += len(held)
    assert found == engine.stats()["buffered"] > k * len(rows) // 2


@pytest.mark.parametrize("refill", ["cost-skyband", "skyband"])
def test_buffers_are_the_k_skyband_above_the_threshold_and_nothing_else(refill: str) -> None:
    engine, _ = played(*stream(), refill=refill)
    check_skybands(engine, K)
    rng = np.random.default_rng(4)
    ids = np.arange(len(engine))
    engine.amend({"id": ids, "x": rng.random(ids.size), "alpha": rng.random(ids.size)})
    check_skybands(engine, K)
    engine.amend({"id": ids, "k": [K - 2] * ids.size})
    check_skybands(engine, K - 2)


@pytest.mark.parametrize("refill", REFILLS)
def test_who_wants_fewer_messages_needs_no_search(refill: str) -> None:
    engine, _ = played(*stream(), refill=refill)
    scan, _ = played(*stream(), method="scan", refill="none")
    live = engine._live
    assert live is not None
    searches = live._buffers._searches
    for k in (K - 1, K - 1, 1):
        fewer = {"id": np.arange(len(engine)), "k": [k] * len(engine)}
        assert engine.amend(fewer) == scan.amend(fewer)
    assert live._buffers._searches == searches
    more = {"id": [5, 3], "k": [2 * K, 1]}
    assert engine.amend(more) == scan.amend(more)
    assert live._buffers._searches == searches + 1


def test_a_buffer_that_is_filled_again_stays_where_it_is() -> None:
    engine, _ = played(*stream())
    live = engine._live
    assert live is not None
    used, rng = live._buffers._used, np.random.default_rng(5)
    for _ in range(3):
        engine.amend({"id": np.arange(len(engine)), "x": rng.random(len(engine))})
    assert live._buffers._used <= used * 11 // 10


def test_memory_is_told_by_part() -> None:
    engine, _ = played(*stream())
    told = engine.memory()
    assert list(told) == ["reverse lists", "buffers", "postings", "window", "subscriptions", "words"]
    assert min(told.values()) > 0
    assert sum(told.values()) == sum(array.nbytes for array in engine.state()[1].values())


@pytest.mark.parametrize(("refill", "kmax", "most"), [("kmax", 3, 3 * K), ("kmax", 2, 2 * K), ("none", 3, K)])
def test_plain_buffers_have_a_fixed_size(refill: str, kmax: int, most: int) -> None:
    engine, _ = played(*stream(), refill=refill, tuning={"kmax": kmax})
    live = engine._live
    assert live is not None
    sizes = [live.held_by(row)[0].size for row in engine._slots.live()]
    assert max(sizes) == most


def test_a_plain_skyband_grows_as_its_share_falls() -> None:
    held = [
        played(*stream(), refill="skyband", tuning={"share": share})[0].stats()["buffered"]
        for share in (1.0, 0.95, 0.8)
    ]
    assert held[0] < held[1] < held[2]


def test_more_in_the_buffer_means_fewer_searches() -> None:
    searches = {
        refill: played(*stream(), refill=refill)[0].stats()["reevaluations"]
        for refill in ("none", "cost-skyband", "kmax")
    }
    assert searches["none"] > searches["cost-skyband"] > 0
    assert searches["none"] > searches["kmax"]


def test_the_cost_is_that_of_equations_11_to_16() -> None:
    k, window, held, search = 20, 1000.0, 30.0, 5000.0
    chance = held / window
    upkeep = chance * k * math.log(window * chance / k)
    updates = 2 * (held - k + 1) * held / chance + (held - k + 1) * (held - k + 2) / chance
    assert skyband.cost(held, k, window, search) == pytest.approx(upkeep + search / updates)


def test_a_dear_search_asks_for_a_larger_buffer() -> None:
    chosen = [skyband.cheapest(20, 60, 1e5, search) for search in (0.0, 1e2, 1e4, 1e9)]
    assert chosen == sorted(chosen)
    assert (chosen[0], chosen[-1]) == (20, 60)
    prices = [skyband.cost(float(held), 20, 1e5, 1e4) for held in range(20, 61)]
    assert chosen[2] == 20 + int(np.argmin(prices))


def test_a_message_out_of_order_at_the_threshold_is_ranked_by_its_time() -> None:
    """Ties at the frontier: whoever came late in order of time may belong on either side of it."""
    from datetime import datetime, timedelta

    start = datetime(2024, 1, 1)
    for refill in ("cost-skyband", "kmax", "none"):
        engines = [
            GeoTextTopK(bounds=(0, 0, 1, 1), k=1, window=timedelta(seconds=10), method=method, refill=refill)
            for method in ("igpt", "scan")
        ]
        minutes = [0, 5, 5, 1, 3, 2, 9, 4, 11, 10, 12, 8, 16]
        for second, place in enumerate(minutes):
            message = {
                "id": [second],
                "x": [0.0],
                "y": [0.0],
                "terms": [["a"]],
                "time": [start + timedelta(seconds=place)],
            }
            answers = [engine.publish(message) for engine in engines]
            if second == 0:
                for engine in engines:
                    engine.subscribe(
                        {"id": [1, 2], "x": [0, 1], "y": [0, 1], "terms": [["a"], ["a"]], "k": [1, 3]}
                    )
            assert answers[0] == answers[1]
