"""Dense vectors of `GeoTextTopK` beside a BLAS product of every message with all subscriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import GeoTextTopK
from rankcast.bench.runner import Answers, Contender, Parameters, Trial, case, publish_all
from rankcast.bench.workloads import batches
from rankcast.tables.schema import Floats

BATCH = 1_000  # messages of a call
CHUNK = 4_096  # subscriptions that are multiplied at a time, so that products stay in a cache
TOPICS, INNER = 400, 48  # topics, and dimensions that vectors of topics lie in but for some noise
SMALL: Mapping[str, Sequence[Any]] = {
    "subscriptions": [2_000],
    "window": [2_000],
    "events": [1_000],
    "dimensions": [64],
    "vectors": ["topics", "uniform"],
}
FULL: Mapping[str, Sequence[Any]] = {
    "subscriptions": [100_000],
    "window": [20_000],
    "events": [1_000],
    "dimensions": [256],
    "vectors": ["topics", "uniform"],
}


class Product:
    """All subscriptions in float32; a batch of messages is one product, and a test of what it has to beat."""

    def __init__(self, wanted: Floats, thresholds: Floats, messages: Floats) -> None:
        self._wanted, self._messages = wanted.astype(np.float32), messages.astype(np.float32)
        self._thresholds = thresholds.astype(np.float32)[:, None]

    def run(self) -> int:
        """How many pairs pass, for all messages."""
        passing = 0
        for first in range(0, len(self._messages), BATCH):
            turned = np.ascontiguousarray(self._messages[first : first + BATCH].T)
            for start in range(0, len(self._wanted), CHUNK):
                part = slice(start, start + CHUNK)
                passing += int(np.count_nonzero(self._wanted[part] @ turned >= self._thresholds[part]))
        return passing


def drawn(rng: np.random.Generator, kind: str, size: int, count: int) -> Floats:
    """Unit vectors: of topics in few dimensions with some noise, as texts have them, or of no form at all."""
    vectors = rng.normal(size=(count, size))
    if kind == "topics":
        fixed = np.random.default_rng(11)
        inner = min(INNER, size)
        directions = np.linalg.qr(fixed.normal(size=(size, inner)))[0].T
        directions *= np.exp(-np.arange(inner) / 24)[:, None]
        topics = unit(fixed.normal(size=(TOPICS, inner)) @ directions)
        around = unit(rng.normal(size=(count, inner)) @ directions)
        vectors = topics[rng.integers(0, TOPICS, count)] + 0.8 * around + 0.2 * unit(vectors)
    return unit(vectors)


def unit(vectors: Floats) -> Floats:
    """The same vectors, of length 1."""
    found: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found


def table(rng: np.random.Generator, first: int, vectors: Floats) -> pa.Table:
    """Rows with ids from `first` on, anywhere."""
    count, size = vectors.shape
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), size)
    places = {axis: rng.uniform(0, 1, count) for axis in "xy"}
    return pa.table({"id": np.arange(first, first + count), **places, "vector": column})


@case("geotext.vectors", small=SMALL, full=FULL, seed=31, unit="message", runs=3)
def vectors(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Messages into a full window, by vectors alone and without a place, where every arrival expires one.

    The product computes the cosines of a batch with all subscriptions, and compares each with the score to
    beat; it neither keeps a result nor lets a message go.
    """
    kind, size = str(parameters["vectors"]), parameters["dimensions"]
    held, arriving = parameters["window"], parameters["events"]
    wanted, posts = (
        drawn(rng, kind, size, parameters["subscriptions"]),
        drawn(rng, kind, size, held + arriving),
    )
    engine = GeoTextTopK(bounds=(0, 0, 1, 1), k=20, alpha=0, window=held, vectors=size)
    messages = table(rng, 0, posts)
    publish_all(engine, batches(messages.slice(0, held), 10 * BATCH))
    engine.subscribe(table(rng, 0, wanted))
    saved = engine.state()
    live = engine._live
    if live is None:
        raise AssertionError("an engine with live results")
    thresholds = np.array([live.threshold(row) for row in range(len(wanted))])
    slices = batches(messages.slice(held), BATCH)

    def again() -> GeoTextTopK:
        header, arrays = saved
        return GeoTextTopK.restore(header, {name: array.copy() for name, array in arrays.items()})

    def agrees(answers: Answers) -> bool:
        """A sample of the results after all of it is that of products in float64."""
        ended = again()
        publish_all(ended, slices)
        window = posts[arriving:]
        for row in range(0, len(wanted), max(1, len(wanted) // 20)):
            best = np.sort(np.maximum(0.0, window @ wanted[row]))[::-1][:20]
            if not np.allclose(ended.results([row])["score"].to_numpy(), best, rtol=0, atol=1e-12):
                return False
        return True

    def publish(made: Any) -> Any:
        return publish_all(made, slices)

    return Trial(
        work=arriving,
        contenders=[
            Contender("sketches", prepare=again, run=publish, stats=GeoTextTopK.stats),
            Contender(
                "BLAS product", prepare=lambda: Product(wanted, thresholds, posts[held:]), run=Product.run
            ),
        ],
        baseline="BLAS product",
        agrees=agrees,
    )
