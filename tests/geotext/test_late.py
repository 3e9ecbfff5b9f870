"""Messages that come late: every list against brute force in NumPy, for every method and refill."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast import GeoTextTopK
from rankcast.geotext.buffers import REFILLS
from tests.geotext.late import HALF_LIFE, Expected, Stream, generated, pairs, tweets

WAYS = [*(("igpt", refill) for refill in REFILLS), *(("ciq", refill) for refill in REFILLS), ("scan", "none")]
every_way = pytest.mark.parametrize(("method", "refill"), WAYS)
START = datetime(2024, 1, 1)


def follows(
    late: Stream, expected: Expected, size: int, every: int, folder: Path | None = None, **settings: Any
) -> int:
    """Play a stream in batches of a size; compare all lists after every so many; says how often.

    With a folder, save and load in the middle.
    """
    engine, compared = late.engine(**settings), 0
    engine.subscribe(late.subscriptions())
    for batch, start in enumerate(range(0, late.time.size, size)):
        engine.publish(late.messages(slice(start, start + size)))
        if folder is not None and 0 <= start - late.time.size // 2 < size:
            engine.save(folder)
            engine = GeoTextTopK.load(folder)
        if batch % every == every - 1:
            came = min(start + size, late.time.size)
            assert pairs(engine) == expected.lists(came), f"after {came} messages"
            compared += 1
    return compared


@every_way
@pytest.mark.parametrize("half_life", [None, HALF_LIFE])
def test_late_messages_of_a_generated_stream(
    method: str, refill: str, half_life: int | None, tmp_path: Path
) -> None:
    fading = {} if half_life is None else {"half_life": timedelta(microseconds=half_life)}
    for seed, size in ((1, 2), (2, 9), (3, 60)):
        late = generated(120, 30, np.random.default_rng(seed))
        expected = Expected(late, half_life)
        folder = tmp_path / f"{size}"
        assert follows(late, expected, size, 1, folder, method=method, refill=refill, **fading) > 1


@pytest.mark.deep
@every_way
def test_late_messages_of_real_tweets(method: str, refill: str) -> None:
    """Three windows long, each list of 2,000 subscriptions at some hundred moments."""
    late = tweets(2000, np.random.default_rng(7))
    expected = Expected(late)
    for size, every in ((17, 2),) if method == "scan" else ((1, 30), (17, 2)):  # the scan takes its time
        assert follows(late, expected, size, every, method=method, refill=refill) > 80


@every_way
def test_whoever_is_overtaken_by_a_late_message_stays(method: str, refill: str) -> None:
    """A late message dominates no newer one, whomever else it displaces."""
    engine = GeoTextTopK(
        bounds=(0, 0, 10, 10), k=2, window=timedelta(seconds=100), method=method, refill=refill
    )
    engine.subscribe({"id": ["s"], "x": [0], "y": [0], "terms": [["a"]]})
    for name, x, second, word in (("q", 2, 10, "a"), ("p", 1, 20, "a"), ("l", 0, 5, "a"), ("r", 0, 105, "b")):
        time = [START + timedelta(seconds=second)]
        engine.publish({"id": [name], "x": [x], "y": [0], "terms": [[word]], "time": time})
    assert engine.results()["item"].to_pylist() == ["p", "q"]
