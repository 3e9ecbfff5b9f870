"""Every method and refill over windows of one, of k - 1 and of many messages, with ties and unseen words."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import GeoTextTopK, Vocabulary
from rankcast.geotext.buffers import REFILLS
from rankcast.geotext.kernels.postings import STAMP, Postings

K = 4
WORDS = np.array(["a", "b", "c", "d", "e", "f"])
WAYS = [*(("igpt", refill) for refill in REFILLS), ("ciq", "kmax"), ("ciq", "cost-skyband")]
BATCHES = [1, 1, 1, 7, 100, 1, 30]  # one is larger than any window


def texts(rng: np.random.Generator, count: int) -> list[list[str]]:
    """A few words each, often one several times."""
    return [rng.choice(WORDS, rng.integers(0, 6)).tolist() for _ in range(count)]


def rows(rng: np.random.Generator, count: int, first: int = 0) -> dict[str, Any]:
    """Rows on a coarse grid, so that places tie."""
    x, y = rng.integers(0, 4, (2, count)).astype(float)
    return {"id": np.arange(first, first + count), "x": x, "y": y, "terms": texts(rng, count)}


def played(window: int, **settings: Any) -> list[pa.Table]:
    """All answers of an engine to a stream in batches of all sizes, with subscriptions amended between."""
    rng = np.random.default_rng(window)
    vocabulary = Vocabulary.fit({"terms": [["a", "b"], ["a"], ["c", "a"]]})
    engine = GeoTextTopK(bounds=(0, 0, 3, 3), k=K, window=window, vocabulary=vocabulary, **settings)
    alpha = rng.choice([0.0, 0.3, 0.7, 1.0], 30)
    answers, first = [engine.subscribe({**rows(rng, 30), "alpha": alpha})], 0
    for size in BATCHES:
        answers.append(engine.publish(rows(rng, size, first)))
        first += size
        moved = rng.choice(30, 3, replace=False)
        answers.append(engine.amend({"id": moved, "x": rng.random(3), "k": [1, None, 6]}))
        answers.append(engine.amend({"id": moved, "terms": texts(rng, 3), "alpha": [0.0, None, 1.0]}))
        answers.append(engine.amend({"id": moved, "x": rng.integers(0, 4, 3), "y": rng.integers(0, 4, 3)}))
        answers.append(engine.amend({"id": moved, "alpha": rng.choice([0.0, 0.5, 1.0], 3)}))
        answers.append(engine.amend({"id": moved, "k": [6, 1, 2]}))
        answers.append(engine.unsubscribe(moved[:1]))
        answers.append(engine.subscribe({**rows(rng, 1), "id": moved[:1], "k": [None]}))
    return [*answers, engine.results()]


@pytest.fixture(scope="module")
def expected() -> dict[int, list[pa.Table]]:
    return {window: played(window, method="scan", refill="none") for window in (1, K - 1, 60)}


@pytest.mark.parametrize("window", [1, K - 1, 60])
@pytest.mark.parametrize(("method", "refill"), WAYS)
def test_every_method_and_refill_answers_as_the_scan_does(
    expected: dict[int, list[pa.Table]], window: int, method: str, refill: str
) -> None:
    assert played(window, method=method, refill=refill) == expected[window]


def test_stamps_may_begin_again() -> None:
    """A list keeps nothing that a stamp from long ago would bring back to life."""
    engines = [GeoTextTopK(bounds=(0, 0, 3, 3), k=2, window=50, method=method) for method in ("igpt", "scan")]
    rng = np.random.default_rng(1)
    wanted, messages = rows(rng, 20), rows(rng, 40)
    for engine in engines:
        engine.publish(messages)
        engine.subscribe(wanted)
    live = engines[0]._live
    assert live is not None
    for stamps, index in ((live._columns.stamp, live._postings), (live._columns.ages.stamp, live._messages)):
        stamps[:] = 65535
        assert isinstance(index.lists, Postings)
        index.lists.fact[:, STAMP] = 65535
    stale = {"id": wanted["id"], "terms": [["f"]] * 20}
    following = rows(rng, 45, first=100)
    for answers in zip(*([e.amend(stale), e.publish(following), e.results()] for e in engines), strict=True):
        assert answers[0] == answers[1]
    assert live._columns.stamp[:20].max() < 10


@pytest.mark.parametrize("window", [5, 200])
def test_the_globe_with_poles_and_date_line(window: int) -> None:
    """Bounds hold in the cube that the globe is embedded in, also for alphas at the ends."""
    rng = np.random.default_rng(window)
    x, y = (
        rng.choice([-180.0, -179.9, 0.0, 12.5, 179.9, 180.0], 500),
        rng.choice([-90.0, -89.9, 0.0, 48.1, 90.0], 500),
    )
    messages: dict[str, Any] = {"id": np.arange(500), "x": x, "y": y, "terms": texts(rng, 500)}
    alpha = rng.choice([0.0, 0.005, 0.5, 0.995, 1.0], 120)
    wanted = {**rows(rng, 120), "x": rng.permutation(x)[:120], "y": rng.permutation(y)[:120], "alpha": alpha}
    told = []
    for method in ("igpt", "scan"):
        engine = GeoTextTopK(metric="haversine", k=2, window=window, method=method)
        answers = [engine.subscribe(wanted)]
        for start in range(0, 500, 100):
            part = {name: values[start : start + 100] for name, values in messages.items()}
            answers.append(engine.publish(part))
        told.append([*answers, engine.results()])
    assert told[0] == told[1]


def test_the_default_method_imports_no_comparator() -> None:
    """`papers` is for methods that a user names: the default must not load any of it."""
    code = (
        "import sys\n"
        "from rankcast import GeoTextTopK\n"
        "def loaded():\n"
        "    return [name for name in sys.modules if name.startswith('rankcast.papers')]\n"
        "GeoTextTopK(bounds=(0, 0, 1, 1))\n"
        "assert not loaded(), loaded()\n"
        "GeoTextTopK(bounds=(0, 0, 1, 1), method='ciq')\n"
        "assert 'rankcast.papers.geotext.ciq' in loaded()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
