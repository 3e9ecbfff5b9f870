"""Engines of `GeoTextTopK` with a full window and all subscriptions, made once and saved.

Loading takes minutes where measuring takes seconds, so a world is kept in the private scratch directory of
this user (`rankcast.spark.scratch`) under a name that says what is in it, and read from there the next time.
"""

from __future__ import annotations

import copy
import hashlib
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast import GeoTextTopK, Vocabulary
from rankcast.bench.case import Parameters
from rankcast.bench.workloads import batches, geotext
from rankcast.errors import SnapshotError
from rankcast.spark import scratch

SEED = 24
PART = 200_000  # subscriptions between two snapshots


class World(NamedTuple):
    """A window with all subscriptions over it, and what comes next, for which the window has room."""

    messages: pa.Table
    held: int
    subscriptions: pa.Table
    vocabulary: Vocabulary
    k: int
    engine: GeoTextTopK

    def roomy(self) -> GeoTextTopK:
        """The engine, with room in the window: arrivals expire nothing."""
        return copy.deepcopy(self.engine)

    def full(self) -> GeoTextTopK:
        """The engine with its window filled up by messages without words: every arrival expires one."""
        engine = copy.deepcopy(self.engine)
        engine.publish(silent(self.messages.slice(self.held), first_id=self.messages.num_rows))
        return engine


def silent(messages: pa.Table, *, first_id: int) -> pa.Table:
    """As many messages without words."""
    empty = pa.array([[]] * messages.num_rows, messages.schema.field("terms").type)
    ids = pa.array(np.arange(first_id, first_id + messages.num_rows))
    return messages.set_column(3, "terms", empty).set_column(0, "id", ids)


def world(parameters: Parameters, **settings: Any) -> World:
    """A world of `window` messages and `subscriptions`, `events` to come, by the parameters of a case."""
    rng = np.random.default_rng(SEED)
    held, events = parameters["window"], parameters["events"]
    messages = geotext.stream(parameters.get("data", "synthetic"), held + events, rng)
    held = messages.num_rows - events
    words = parameters.get("words")
    span = {} if words is None else {"least_words": words, "most_words": words}
    count = parameters["subscriptions"]
    subscriptions = geotext.subscriptions(messages.slice(0, held), count, rng, **span)
    vocabulary = Vocabulary.fit(messages.slice(0, held))
    bounds = geotext.bounds_of(messages)
    engine = GeoTextTopK(
        bounds=bounds, k=parameters["k"], window=held + events, vocabulary=vocabulary, **settings
    )
    engine = _loaded(engine, messages.slice(0, held), subscriptions, repr((parameters, settings)))
    return World(messages, held, subscriptions, vocabulary, parameters["k"], engine)


def _loaded(engine: GeoTextTopK, held: pa.Table, subscriptions: pa.Table, name: str) -> GeoTextTopK:
    """The engine with a window and subscriptions, from a snapshot if there is one, even of a part of them."""
    digest = hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
    path = scratch.private("geotext-worlds") / digest
    try:
        engine = copy.deepcopy(GeoTextTopK.load(path))
    except (SnapshotError, OSError):
        engine.publish(held)
    for part in batches(subscriptions.slice(len(engine)), PART):
        for rows in batches(part, 20_000):
            engine.subscribe(rows)
        engine.save(path)
    return engine
