"""A score that takes its time, so that a kill at a random moment is likely to meet a shard at work."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

SECONDS = 0.002


def nearest(attributes: NDArray[np.float64], distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance, slowly; samples of a new engine are scored at once."""
    if distance.size < 16:
        time.sleep(SECONDS)
    return distance + attributes[:, 0]
