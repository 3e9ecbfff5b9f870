"""Buffers: the k-skyband above a threshold, and the cost model that chooses it."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import numpy as np
import pytest

from rankcast import GeoTextTopK
from rankcast.geotext import brute_force
from rankcast.geotext.buffers import REFILLS
from rankcast.geotext.kernels import costs, results
from tests.geotext.late import HALF_LIFE, generated
from tests.geotext.scenes import K, played, stream


def check_buffers(engine: GeoTextTopK) -> None:
    """Every buffer holds what ranks before its frontier, without what k dominate if it is a skyband.

    In order of rank, with as many dominators as there are; what ranks behind is not above the threshold.
    """
    rows, live = engine._slots.live(), engine._live
    assert live is not None
    messages, buffers = engine._scan.messages(), live._buffers
    interests = engine._scan.interests(rows, engine._alpha_of(rows), engine._k_of(rows))
    skyband, found = "skyband" in engine._configuration["refill"], 0
    for row, k, similarity in zip(
        rows,
        interests.k,
        brute_force.similarities(interests, messages, engine._frame, engine._interests),
        strict=True,
    ):
        scores = np.where(similarity.cosine > 0, similarity.score * messages.gain, -np.inf)
        ranked = brute_force.ranked(similarity, messages, 0)
        # Messages are in order of age, the newest first: of those that rank before, lower places dominate.
        dominators = np.tril(ranked[:, None] > ranked).sum(axis=1)
        stays = dominators < (k if skyband else ranked.size + 1)
        held, held_score = live.held_by(row)
        place = {int(messages.row[one]): at for at, one in enumerate(ranked)}
        at = [place[int(item)] for item in held]
        frontier = 1 + max(at, default=-1)
        assert at == np.flatnonzero(stays[:frontier]).tolist()
        assert held_score.tolist() == scores[ranked[at]].tolist()
        behind = scores[ranked[frontier:]][stays[frontier:]]
        assert behind.max(initial=-np.inf) <= live.threshold(row) <= held_score.min(initial=np.inf)
        assert frontier >= min(k, ranked.size)
        if skyband:
            begin = buffers.held.begin[row]
            counted = buffers.held.dominators[begin : begin + held.size]
            assert counted.tolist() == dominators[at].tolist()
        found += len(held)
    assert found == engine.stats()["buffered"]


@pytest.mark.parametrize("refill", REFILLS)
def test_buffers_hold_what_ranks_before_their_frontier_and_nothing_else(refill: str) -> None:
    engine, _ = played(*stream(), refill=refill)
    assert engine.stats()["buffered"] > K * len(engine) // 2
    check_buffers(engine)
    rng = np.random.default_rng(4)
    ids = np.arange(len(engine))
    engine.amend({"id": ids, "x": rng.random(ids.size), "alpha": rng.random(ids.size)})
    check_buffers(engine)
    engine.amend({"id": ids, "k": [K - 2] * ids.size})
    check_buffers(engine)


@pytest.mark.parametrize("half_life", [None, timedelta(microseconds=HALF_LIFE)])
@pytest.mark.parametrize("refill", REFILLS)
def test_buffers_hold_over_a_time_window_with_late_messages(refill: str, half_life: timedelta | None) -> None:
    """Whether they come one by one or several at once; k is amended on the way."""
    for seed, size in ((1, 2), (2, 7), (3, 40)):
        rng = np.random.default_rng(seed)
        late = generated(60 + 3 * size, 25, rng)
        engine = late.engine(refill=refill, half_life=half_life)
        engine.subscribe(late.subscriptions())
        for start in range(0, late.time.size, size):
            engine.publish(late.messages(slice(start, start + size)))
            check_buffers(engine)
            if start // size % 5 == 4:
                some = rng.choice(25, 4, replace=False)
                engine.amend({"id": some, "k": rng.choice([1, 2, 4, 100], 4)})
                check_buffers(engine)


@pytest.mark.parametrize("refill", REFILLS)
def test_who_wants_fewer_messages_needs_no_search(refill: str) -> None:
    engine, _ = played(*stream(), refill=refill)
    scan, _ = played(*stream(), method="scan", refill="none")
    live = engine._live
    assert live is not None
    searches = live._buffers.costs._searches
    for k in (K - 1, K - 1, 1):
        fewer = {"id": np.arange(len(engine)), "k": [k] * len(engine)}
        assert engine.amend(fewer) == scan.amend(fewer)
    assert live._buffers.costs._searches == searches
    more = {"id": [5, 3], "k": [2 * K, 1]}
    assert engine.amend(more) == scan.amend(more)
    assert live._buffers.costs._searches == searches + 1


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


def played_alone(k: int, held: int, windows: int, rng: np.random.Generator) -> tuple[float, float]:
    """Fillings and hits a window of one buffer over messages of independent scores: the model's own world."""
    per_window, fills, hits, above = 16 * held, 0, 0, held
    most = k * math.exp(results.capacity_of(held, k, results.COST) / k - 1)  # without the dominated: a cut
    scores = rng.random(per_window * windows)
    bar = np.partition(scores[:per_window], -held - 1)[-held - 1]
    for at in range(per_window, scores.size):
        hits += scores[at] > bar
        above += int(scores[at] > bar) - int(scores[at - per_window] > bar)
        if above < k or above > most:
            fills += above < k
            bar = np.partition(scores[at + 1 - per_window : at + 1], -held - 1)[-held - 1]
            above = held
    return fills / (windows - 1), hits / (windows - 1)


@pytest.mark.parametrize(("k", "held"), [(5, 8), (20, 26), (20, 30), (60, 70)])
def test_the_cost_counts_as_many_fillings_and_hits_as_there_are(k: int, held: int) -> None:
    """Within a factor of two for fillings, which fall by 20 over these sizes."""
    fills, hits = played_alone(k, held, 400, np.random.default_rng(k + held))
    upkeep = costs.cost(float(held), k, 0.0)
    modelled = (costs.cost(float(held), k, 1e6) - upkeep) / 1e6
    assert 0.5 < modelled / fills < 2.0
    assert 0.8 < held / hits < 1.25
    price = costs.HIT_COST + costs.ENTRY_COST * k * (1 + math.log(held / k))
    assert upkeep == pytest.approx(held * price)


def test_a_dear_search_asks_for_a_larger_buffer() -> None:
    for k in (1, 2, 20, 200, 5_000):
        chosen = [costs.cheapest_size(k, search) for search in (0.0, 1e2, 1e4, 1e9)]
        assert chosen == sorted(chosen)
        assert chosen[0] == k
        assert chosen[1] < chosen[2] < chosen[3]
        prices = [costs.cost(float(held), k, 1e4) for held in range(k, chosen[3] + 1)]
        assert chosen[2] == k + int(np.argmin(prices))


def test_each_subscription_keeps_what_its_own_search_is_worth() -> None:
    """Many words with long lists make a search dear; one that finds all there is tells nothing."""
    rng = np.random.default_rng(8)
    words = [[f"w{word}" for word in rng.choice(40, 3, replace=False)] for _ in range(4_000)]
    words[0] = ["rare"]
    x, y = rng.random((2, len(words)))
    engine = GeoTextTopK(bounds=(0, 0, 1, 1), k=5, window=len(words))
    engine.publish({"id": np.arange(len(words)), "x": x, "y": y, "terms": words})
    terms = [["w1"], [f"w{word}" for word in range(20)], ["rare"]]
    rows = {"id": [0, 1, 2], "x": [0.5] * 3, "y": [0.5] * 3, "terms": terms, "alpha": [0.9, 0.1, 0.5]}
    engine.subscribe(rows)
    live = engine._live
    assert live is not None
    buffers = live._buffers
    assert 0 < buffers.costs.work[0] < buffers.costs.work[1]
    assert buffers.costs.work[2] == 0
    keep = buffers.keeps(np.arange(3, dtype=np.int32), np.full(3, 5))
    assert keep[0] < keep[1]
    engine.unsubscribe([0, 1, 2])
    assert not buffers.costs.work.any()


def test_a_message_out_of_order_at_the_threshold_is_ranked_by_its_time() -> None:
    """Ties at the frontier: whoever came late in order of time may belong on either side of it."""
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
