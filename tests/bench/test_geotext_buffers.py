"""The plain inverted file with kmax buffers answers as the engine does."""

from __future__ import annotations

import numpy as np
import pytest

from rankcast.bench.cases.geotext_steady import steady


@pytest.mark.parametrize("k", [1, 7])
def test_it_has_the_results_of_the_engine(k: int) -> None:
    parameters = {"data": "synthetic", "window": 300, "subscriptions": 200, "k": k, "events": 250}
    made = steady(parameters)
    engine, plain = made.engine(method="scan", refill="none"), made.plain()
    for first in range(0, 250, 50):
        engine.publish(made.messages.slice(600 + first, 50))
        plain.turn(50)
        for row in range(200):
            found, expected = plain.best(row), engine.results([row])["score"].to_pylist()
            assert len(found) == len(expected)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
