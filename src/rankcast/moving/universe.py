"""The box that zones of skylines are cut to: a given one, or one that grows with what it has to hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.structures import integrity
from rankcast.tables.schema import Floats

MARGIN = 0.1  # of the larger side of what the universe holds


class Universe:
    """The box that zones are cut to, (xmin, ymin, xmax, ymax); grows unless it was given."""

    def __init__(self, given: list[float] | None) -> None:
        self._given = given is not None
        self.box = np.array(given if given is not None else [np.inf, np.inf, -np.inf, -np.inf], np.float64)

    def take_in(self, low: Floats, high: Floats) -> bool:
        """Grow until it holds a box; returns whether it grew."""
        if self._given or not (low <= high).all():
            return False
        if (self.box[:2] <= low).all() and (high <= self.box[2:]).all():
            return False
        low, high = np.minimum(low, self.box[:2]), np.maximum(high, self.box[2:])
        margin = MARGIN * float((high - low).max()) or 1.0
        self.box = np.concatenate([low - margin, high + margin])
        return True

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state (none) and the arrays."""
        return {}, {"box": self.box}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        integrity.forms(arrays, {"box": (np.float64, (4,))})
        box = arrays["box"]
        if self._given:
            integrity.need(np.array_equal(box, self.box), "box", "is not the universe of the settings")
        elif not np.array_equal(box, self.box):
            integrity.need(np.isfinite(box).all() and (box[:2] <= box[2:]).all(), "box", "is no box")
        self.box = box
        return self
