"""A score that takes its time on Spark, so that a kill at a random moment may well meet a shard at work."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from pyspark import TaskContext

SECONDS = 0.001


def nearest(attributes: NDArray[np.float64], distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance, slowly in a task of Spark; samples of a new engine are scored at once."""
    if distance.size < 16 and TaskContext.get() is not None:
        time.sleep(SECONDS)
    return distance + attributes[:, 0]
