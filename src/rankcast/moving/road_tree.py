"""The packed tree over the edges of a road graph; `kernels.network_graph.snap` searches it."""

from __future__ import annotations

import numpy as np

from rankcast.moving.kernels.network_graph import FAN, EdgeTree
from rankcast.tables.schema import Floats

PAD = 2.0**-46  # of the largest coordinate: more than rounding moves a point of an edge


def packed(line: Floats) -> EdgeTree:
    """The tree over edges (m, 4), both ends of each; sorted into columns by x, and by y within them.

    Cost: O(m log m).
    """
    size = line.shape[0]
    low = np.minimum(line[:, :2], line[:, 2:])
    high = np.maximum(line[:, :2], line[:, 2:])
    middle = 0.5 * low + 0.5 * high
    leaves = -(-size // FAN)
    columns = max(1, int(np.ceil(np.sqrt(leaves))))
    by_x = np.argsort(middle[:, 0], kind="stable")
    column = np.empty(size, np.int64)
    column[by_x] = np.arange(size) * columns // size
    order = np.lexsort((middle[:, 1], column))
    pad = PAD * float(np.abs(line).max(initial=0.0))
    boxes = np.hstack([low[order] - pad, high[order] + pad])
    levels: list[Floats] = []
    while not levels or len(boxes) > 1:
        starts = np.arange(0, len(boxes), FAN)
        lows = np.minimum.reduceat(boxes[:, :2], starts, axis=0)
        boxes = np.hstack([lows, np.maximum.reduceat(boxes[:, 2:], starts, axis=0)])
        levels.append(boxes)
    ends = np.cumsum([0, *(len(level) for level in levels)])
    return EdgeTree(line, order.astype(np.int32), np.ascontiguousarray(np.vstack(levels)), ends)
