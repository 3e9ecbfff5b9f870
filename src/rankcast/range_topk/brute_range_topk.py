"""Range top-k by looking at every object for every subscription."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import Floats, Ints, Rows


class Objects(NamedTuple):
    """All objects at one moment: rows, places (n, d), ranking keys and labels."""

    row: Rows
    x: Floats
    key: Floats
    label: Ints


def top_k(boxes: Boxes, k: Ints, objects: Objects) -> list[Rows]:
    """For each box the places among `objects` of the k inside it with the smallest (key, label).

    Cost: O(n log n + m n d) for n objects and m boxes.
    """
    ranked = np.lexsort((objects.label, objects.key))
    placed = objects.x[ranked]
    found = []
    for low, high, size in zip(boxes.lo, boxes.hi, k, strict=True):
        inside = ((placed >= low) & (placed <= high)).all(axis=1)
        found.append(ranked[np.flatnonzero(inside)[:size]].astype(np.int32))
    return found
