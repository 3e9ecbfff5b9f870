"""The packed tree over the edges of a road graph, which `kernels.network_graph.snap` searches; snapshots.

A snapshot of a graph has the tree and the arcs too: on a host with many shards they are mapped, not made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.moving.kernels.network_graph import FAN, Arcs, EdgeTree
from rankcast.structures import integrity
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


def restored_arcs(arrays: Mapping[str, NDArray[Any]], nodes: int, edges: int, arcs: int) -> Arcs:
    """Arcs from a snapshot; refused if they lead out of a graph with so many nodes, edges and arcs."""
    wanted: dict[str, Any] = {name: (np.dtype(np.int32), (arcs,)) for name in Arcs._fields}
    wanted |= {name: (np.dtype(np.int64), (nodes + 1,)) for name in ("out_first", "in_first")}
    integrity.forms(arrays, wanted)
    found = Arcs(**arrays)
    if not integrity.wanted():
        return found
    for name, first in (("arc_out_first", found.out_first), ("arc_in_first", found.in_first)):
        integrity.need(
            first[0] == 0 and first[-1] == arcs and (np.diff(first) >= 0).all(), name, "is no order"
        )
    for name in ("out_to", "in_from"):
        integrity.within(arrays[name], 0, nodes, f"arc_{name}")
    for name in ("out_edge", "in_edge"):
        integrity.within(arrays[name], 0, edges, f"arc_{name}")
    return found


def restored_tree(arrays: Mapping[str, NDArray[Any]], edges: int) -> EdgeTree:
    """The tree over so many edges from a snapshot; refused if it is not of that size."""
    ends, level = [0], edges
    while level > 1 or len(ends) == 1:
        level = -(-level // FAN)
        ends.append(ends[-1] + level)
    integrity.forms(
        arrays,
        {
            "line": (np.dtype(np.float64), (edges, 4)),
            "order": (np.dtype(np.int32), (edges,)),
            "box": (np.dtype(np.float64), (ends[-1], 4)),
            "level": (np.dtype(np.int64), (len(ends),)),
        },
    )
    found = EdgeTree(**arrays)
    integrity.need(np.array_equal(found.level, ends), "tree_level", "does not fit the edges")
    if integrity.wanted():
        integrity.within(found.order, 0, edges, "tree_order")
        integrity.finite(found.line, "tree_line")
        integrity.finite(found.box, "tree_box")
    return found
