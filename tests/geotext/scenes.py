"""A clustered stream: towns, Zipfian words, subscriptions drawn from messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import GeoTextTopK
from rankcast.bench.workloads import geotext

WINDOW, SUBSCRIPTIONS, K = 500, 600, 4


def stream(seed: int = 3) -> tuple[pa.Table, pa.Table]:
    """Twice a window of messages, and subscriptions."""
    rng = np.random.default_rng(seed)
    messages = geotext.messages(2 * WINDOW, rng, words=60, mean_words=5.0)
    return messages, geotext.subscriptions(messages, SUBSCRIPTIONS, rng)


def played(
    messages: pa.Table, subscriptions: pa.Table, **settings: Any
) -> tuple[GeoTextTopK, list[pa.Table]]:
    """An engine after the whole stream, and all it answered."""
    engine = GeoTextTopK(bounds=geotext.BOUNDS, k=K, window=WINDOW, **settings)
    answers = [engine.publish(messages.slice(0, WINDOW)), engine.subscribe(subscriptions)]
    answers += [engine.publish(messages.slice(start, 50)) for start in range(WINDOW, 2 * WINDOW, 50)]
    return engine, answers
