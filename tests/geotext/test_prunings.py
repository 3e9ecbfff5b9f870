"""The prunings of message dissemination: exact each alone and all together, and worth something."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import GeoTextTopK
from rankcast.geotext.buffers import REFILLS
from rankcast.geotext.indexes import PRUNINGS
from rankcast.geotext.kernels.score import TermVectors, alikeness, best_of_group, best_score, rarest_first
from tests.geotext.scenes import WINDOW, played, stream

Answers = tuple[pa.Table, pa.Table, list[pa.Table]]

# Figure 5 of the paper: weights of w1 to w4 (not normalised), the rarest first; alpha, k-th score.
S1 = ([0.4, 0.3, 0.2, 0.1], 0.6, 0.7)
S2 = ([0.7, 0.5, 0.2, 0.0], 0.5, 0.6)
S3 = ([0.5, 0.4, 0.3, 0.1], 0.7, 0.67)
M1, M2, M3 = [0.0, 0.0, 0.0, 1.0], [0.0, 0.4, 0.2, 0.1], [0.0, 0.7, 0.3, 0.2]


def best(subscription: tuple[list[float], float, float], message: list[float], near: float) -> float:
    """The bound at the rarest common term."""
    weights, alpha, _ = subscription
    first = next(i for i in range(4) if weights[i] * message[i] > 0)
    rest, others = np.linalg.norm(weights[first + 1 :]), np.linalg.norm(message[first + 1 :])
    alike = alikeness(weights[first], float(rest), message[first], float(others))
    return float(best_score(alpha, near, alike))


def test_example_1_a_coupon_expires_and_one_arrives() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 10, 10), k=1, window=4)
    engine.publish(
        {
            "id": ["e1", "e2", "e3", "e4"],
            "x": [1, 9, 3, 5],
            "y": [1, 9, 1, 5],
            "terms": [["pizza"], ["sushi"], ["pizza"], ["steak"]],
        }
    )
    users = {
        "id": ["u1", "u2", "u3"],
        "x": [1, 9, 6],
        "y": [1, 8, 2],
        "terms": [["pizza"], ["sushi"], ["steak"]],
    }
    engine.subscribe(users)
    assert engine.results()["item"].to_pylist() == ["e1", "e2", "e4"]
    engine.publish({"id": ["e5"], "x": [6], "y": [2], "terms": [["steak"]]})
    assert engine.results()["item"].to_pylist() == ["e3", "e2", "e5"]


def test_examples_2_and_3_a_term_outside_the_prefix() -> None:
    needed = 0.7 / 0.4 - 0.6 / 0.4 * 0.98
    assert needed == pytest.approx(0.28)
    assert alikeness(0.1, 0.0, 1.0, 0.0) < needed
    assert best(S1, M1, 0.98) < S1[2]


def test_example_4_the_weights_of_the_message_count() -> None:
    alike = alikeness(0.3, np.hypot(0.2, 0.1), 0.4, np.hypot(0.2, 0.1))
    assert alike == pytest.approx(0.3 * 0.4 + 0.05)
    assert alike < 0.26
    assert best(S1, M2, 0.99) < S1[2]
    assert best_score(0.6, 0.99, alikeness(0.3, 0.3, 1.0, 1.0)) > S1[2]  # by Lemma 3 alone it stays


def test_example_5_inner_and_outer_bound_together() -> None:
    assert best(S2, M2, 1.0) > S2[2]
    assert best(S2, M2, 1 - (0.25 + 0.3) / 1.6) < S2[2]


def test_example_6_what_unseen_terms_can_add() -> None:
    near = (0.67 - 0.48 * 0.3) / 0.7
    seen, unseen = 0.4 * 0.7, np.hypot(0.3, 0.1) * np.hypot(0.3, 0.2)
    assert unseen < 0.12  # the paper's bound for the same rest
    assert seen + unseen < 0.48
    assert best(S3, M3, near) < S3[2]


def test_a_group_is_bounded_at_both_ends_of_alpha() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        low, high = np.sort(rng.random(2))
        near, alike = rng.random(2)
        inside = [best_score(alpha, near, alike) for alpha in np.linspace(low, high, 7)]
        assert max(inside) <= best_of_group(low, high, near, alike) + 1e-15


def test_the_rarest_term_comes_first_and_rests_are_what_follows() -> None:
    texts = TermVectors(
        np.array([0, 1]), np.array([1, 3], np.int32), np.array([0, 2, 0, 1], np.int32), np.arange(1.0, 5.0)
    )
    term, weight, rest = rarest_first(texts, 1, np.array([1.0, 3.0, 1.0]))
    assert term.tolist() == [1, 2, 0]
    assert weight.tolist() == [4.0, 2.0, 3.0]
    assert rest.tolist() == [np.hypot(2.0, 3.0), 3.0, 0.0]


@pytest.fixture(scope="module")
def expected() -> Answers:
    messages, subscriptions = stream()
    _, answers = played(messages, subscriptions, method="scan", refill="none")
    return messages, subscriptions, answers


@pytest.mark.parametrize("refill", REFILLS)
def test_every_refill_answers_as_the_scan_does(expected: Answers, refill: str) -> None:
    messages, subscriptions, answers = expected
    assert played(messages, subscriptions, refill=refill)[1] == answers


@pytest.mark.parametrize("refill", ["kmax", "cost-skyband"])
def test_covering_cells_find_the_same_and_prune_by_words(expected: Answers, refill: str) -> None:
    messages, subscriptions, answers = expected
    engine, told = played(messages, subscriptions, method="ciq", refill=refill)
    assert told == answers
    arriving = [set(words) for words in messages.slice(WINDOW)["terms"].to_pylist()]
    wanted = [set(words) for words in subscriptions["terms"].to_pylist()]
    with_a_common_word = sum(not one.isdisjoint(other) for one in wanted for other in arriving)
    assert 0 < engine.stats()["candidates"] < with_a_common_word // 2


@pytest.mark.parametrize("prune", [(), *((name,) for name in PRUNINGS)], ids=str)
def test_no_pruning_drops_a_result(expected: Answers, prune: tuple[str, ...]) -> None:
    messages, subscriptions, answers = expected
    engine, told = played(messages, subscriptions, tuning={"prune": prune})
    assert told == answers
    stats = engine.stats()
    assert (stats["cells_pruned"] > 0) == ("cell" in prune and "outer" in prune)
    assert (stats["groups_pruned"] > 0) == ("group" in prune)


@pytest.mark.parametrize("name", ["group", "stop", "prefix", "inner"])
def test_each_pruning_alone_leaves_fewer_candidates(expected: Answers, name: str) -> None:
    messages, subscriptions, _ = expected
    alone, nothing = (
        played(messages, subscriptions, tuning={"prune": prune})[0].stats()["candidates"]
        for prune in ((name,), ())
    )
    assert alone < nothing


@pytest.mark.parametrize(
    ("more", "fewer"), [(("cell", "outer"), ("outer",)), (("prefix", "outer"), ("prefix",))]
)
def test_the_outer_bound_helps_cells_and_prefixes(
    expected: Answers, more: tuple[str, ...], fewer: tuple[str, ...]
) -> None:
    """Lemma 6 is about the outer bound; Theorem 1 prunes more with it than with place left out.

    Searches are taken to cost nothing, so that buffers are small and thresholds as high as they get.
    """
    messages, subscriptions, answers = expected
    tried = [
        played(messages, subscriptions, tuning={"prune": prune, "search": 0.0}) for prune in (more, fewer)
    ]
    assert [told == answers for _, told in tried] == [True, True]
    assert tried[0][0].stats()["candidates"] < tried[1][0].stats()["candidates"]


def test_current_thresholds_spare_verifications(expected: Answers) -> None:
    messages, subscriptions, _ = expected
    alone, nothing = (
        played(messages, subscriptions, tuning={"prune": prune})[0].stats()["verified"]
        for prune in (("current",), ())
    )
    assert alone < nothing


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
@pytest.mark.parametrize("scale", [None, 2.0])
def test_a_radius_prunes_and_hides_nothing(metric: str, scale: float | None) -> None:
    """Also where a scale is far shorter than the space, and nearness is 0 for most."""
    rng, size = np.random.default_rng(5), 3000
    factor = 100_000.0 if metric == "haversine" else 1.0  # a degree is some 111 km
    settings: dict[str, Any] = {"bounds": (0, 0, 40, 40), "k": 5, "window": 300, "metric": metric}
    settings["scale"] = None if scale is None else scale * factor
    engines = [GeoTextTopK(**settings, method=method) for method in ("igpt", "scan")]
    free = GeoTextTopK(**settings)
    radius = rng.choice([0.0, 0.5, 1.0, 3.0, 1e-9], size) * factor
    rows = {
        "id": np.arange(size),
        "x": rng.integers(0, 81, size) / 2,
        "y": rng.integers(0, 81, size) / 2,
        "terms": [[f"w{word}"] for word in rng.integers(0, 2, size)],
        "alpha": rng.choice([0.0, 0.3, 1.0], size),
    }
    engines[0].subscribe({**rows, "radius": radius})
    engines[1].subscribe({**rows, "radius": radius})
    free.subscribe(rows)
    for first in range(0, 600, 100):
        batch = {
            "id": np.arange(first, first + 100),
            "x": rng.integers(0, 81, 100) / 2,
            "y": rng.integers(0, 81, 100) / 2,
            "terms": [[f"w{word}", "x"] for word in rng.integers(0, 2, 100)],
        }
        told, expected = (engine.publish(batch) for engine in engines)
        assert told.equals(expected)
        free.publish(batch)
        drawn = rng.choice([0.0, 2.0, np.nan], 50) * factor
        limits = [None if np.isnan(value) else value for value in drawn]
        told, expected = (
            engine.amend({"id": np.arange(first, first + 50), "radius": limits}) for engine in engines
        )
        assert told.equals(expected)
    assert engines[0].stats()["candidates"] < 0.1 * free.stats()["candidates"]
