"""Streams with late messages over a time window, and the lists that they must give, worked out in NumPy.

Nothing here comes from the engine: scores are those of every pair, worked out once; a list is the best of
those whose messages have come and are not older than the window allows.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from rankcast import GeoTextTopK

DATA = Path(__file__).parents[3] / "shared" / "data"
START = np.datetime64("2024-02-29T23:59:58", "us")
FRACTION = 0.05  # of real messages that come late; of generated ones three times as many
HALF_LIFE = 37_123_457  # microseconds; no part of it is a whole second, so that no two ranks come close

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Stream(NamedTuple):
    """Messages in order of arrival, with times in microseconds; subscriptions; the window; the bounds."""

    place: Floats
    terms: list[list[str]]
    time: Ints
    wanted_place: Floats
    wanted_terms: list[list[str]]
    k: Ints
    alpha: Floats
    span: int
    bounds: tuple[float, float, float, float]

    def messages(self, some: slice) -> dict[str, Any]:
        """Rows to publish; ids are places in the stream."""
        x, y = self.place[some].T
        ids = np.arange(self.time.size)[some]
        time = START + self.time[some].astype("m8[us]")
        return {"id": ids, "x": x, "y": y, "terms": self.terms[some], "time": time}

    def subscriptions(self) -> dict[str, Any]:
        """Rows to subscribe; ids are their places."""
        x, y = self.wanted_place.T
        own = {"k": self.k, "alpha": self.alpha}
        return {"id": np.arange(x.size), "x": x, "y": y, "terms": self.wanted_terms, **own}

    def engine(self, **settings: Any) -> GeoTextTopK:
        """An engine over this window."""
        return GeoTextTopK(bounds=self.bounds, window=timedelta(microseconds=self.span), **settings)


def delayed(time: Ints, most: int, share: float, rng: np.random.Generator) -> Ints:
    """The order of arrival if a share of messages come late by up to so much."""
    delay = np.where(rng.random(time.size) < share, rng.integers(0, most, time.size), 0)
    return np.argsort(time + delay, kind="stable")


def generated(count: int, subscriptions: int, rng: np.random.Generator) -> Stream:
    """Places and times on coarse grids, so that scores and times tie; bursts, and gaps of a window."""
    words = np.array(["a", "b", "c", "d"])

    def texts(size: int) -> list[list[str]]:
        return [rng.choice(words, rng.integers(1, 4)).tolist() for _ in range(size)]

    step = rng.choice([0, 0, 0, 1, 1, 2, 5], count)
    step[rng.random(count) < 2 / count] = 150
    time = np.cumsum(step) * 1_000_000
    order = delayed(time, 160_000_000, 3 * FRACTION, rng)
    place, wanted = rng.integers(0, 9, (count, 2)) / 1.0, rng.integers(0, 9, (subscriptions, 2)) / 1.0
    k = rng.choice([1, 2, 3, 5, 8, 13, 2 * count], subscriptions)
    alpha = rng.choice([0.0, 0.25, 0.5, 0.75, 1.0], subscriptions)
    return Stream(
        place, texts(count), time[order], wanted, texts(subscriptions), k, alpha, 150_000_000, (0, 0, 8, 8)
    )


def tweets(subscriptions: int, rng: np.random.Generator) -> Stream:
    """An hour of real tweets, some late by up to the window of twenty minutes; each wish is a tweet's."""
    path = DATA / "us_geotweets_2016.parquet"
    if not path.exists():
        pytest.skip(f"real data is not here: ../shared/data/{path.name}")
    table = pq.read_table(path).sort_by("ts")
    span = 20 * 60 * 1_000_000
    time = table["ts"].to_numpy().astype("M8[us]").astype(np.int64)
    order = delayed(time, span, FRACTION, rng)
    place = np.column_stack([table["lon"].to_numpy(), table["lat"].to_numpy()])[order]
    texts = [table["text"][int(i)].as_py().lower().split() for i in order]
    drawn = rng.integers(0, order.size, subscriptions)
    wishes = [rng.choice(texts[i], min(3, len(texts[i])), replace=False).tolist() for i in drawn]
    k, alpha = rng.choice([1, 2, 5, 20], subscriptions), rng.choice([0.0, 0.3, 0.7, 1.0], subscriptions)
    near = place[drawn] + rng.normal(0, 0.5, (subscriptions, 2))
    bounds = (-180.0, -90.0, 180.0, 90.0)
    return Stream(place, texts, time[order] - time[0], near, wishes, k, alpha, span, bounds)


class Expected:
    """All scores of a stream, and from them every list at any moment."""

    def __init__(self, stream: Stream, half_life: int | None = None) -> None:
        self.stream = stream
        mine, theirs = [_vectors(texts) for texts in (stream.wanted_terms, stream.terms)]
        having: dict[str, tuple[list[int], list[float]]] = {}
        for place, vector in enumerate(theirs):
            for term, weight in vector.items():
                at, weights = having.setdefault(term, ([], []))
                at.append(place)
                weights.append(weight)
        cosine = np.zeros((len(mine), len(theirs)))
        for place, vector in enumerate(mine):
            for term in sorted(vector):
                at, weights = having.get(term, ([], []))
                cosine[place, at] += vector[term] * np.array(weights)
        gap = stream.wanted_place[:, None, :] - stream.place[None, :, :]
        away = np.sqrt(gap[:, :, 0] * gap[:, :, 0] + gap[:, :, 1] * gap[:, :, 1])
        width, height = stream.bounds[2] - stream.bounds[0], stream.bounds[3] - stream.bounds[1]
        alpha = stream.alpha[:, None]
        score = alpha * (1.0 - away / np.sqrt(width * width + height * height)) + (1.0 - alpha) * cosine
        if half_life is not None:
            whole, rest = np.divmod(stream.time, half_life)
            score = np.ldexp(score * np.exp2(rest / half_life), (whole - whole[-1]).astype(np.int32))
        self._score = np.where(cosine > 0, score, -np.inf)
        # The clock when each message came, and whether it was too late then.
        clock = np.maximum.accumulate(stream.time)
        self._clock, before = clock, np.concatenate([stream.time[:1], clock[:-1]])
        self._ignored = stream.time <= before - stream.span

    def live(self, came: int) -> Ints:
        """The messages of the window after so many have come, the newest first."""
        time = self.stream.time[:came]
        kept = np.flatnonzero(~self._ignored[:came] & (time > self._clock[came - 1] - self.stream.span))
        return kept[np.lexsort((kept, time[kept]))[::-1]]

    def lists(self, came: int) -> list[tuple[int, int]]:
        """All pairs of subscription and message, in order of rank, after so many messages have come."""
        live = self.live(came)
        found = []
        for place, k in enumerate(self.stream.k.tolist()):
            score = self._score[place, live]
            best = np.argsort(-score, kind="stable")[:k]
            found += [(place, int(live[i])) for i in best if score[i] > -np.inf]
        return found


def _vectors(texts: list[list[str]]) -> list[dict[str, float]]:
    """Frequencies of terms, of unit length."""
    vectors = []
    for terms in texts:
        counts = sorted(Counter(terms).items())
        length = np.sqrt(sum(float(count * count) for _, count in counts))
        vectors.append({term: count / float(length) for term, count in counts})
    return vectors


def pairs(engine: GeoTextTopK) -> list[tuple[int, int]]:
    """All pairs of subscription and message that an engine holds, in order of rank."""
    told = engine.results()
    return list(zip(told["subscription"].to_pylist(), told["item"].to_pylist(), strict=True))
