"""A road graph as arrays: arcs by node, and the nearest edge of a place.

An edge is a straight line between two nodes. Each edge is an arc from its start to its end, and, unless it is
one-way, an arc back. `Arcs` lists them by the node they leave and by the node they reach.

The nearest edge is found in a packed tree of boxes: edges in an order in which neighbours are near each
other, boxes over `FAN` of them, boxes over `FAN` boxes, and so on. Boxes are a little larger than what they
hold, so that rounding hides nothing: the answer is that of looking at every edge. Of edges equally far as
computed the one that was given first is taken. Cost: O(log m) where edges are spread out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.int32]

FAN = 8
NEAR = 1 - 1e-12  # what rounding may take from the square of a distance
DEEPEST = 12  # levels of a tree of 2^31 edges


class Arcs(NamedTuple):
    """The arcs that leave node v: `out_to` and `out_edge` from `out_first[v]`; those that reach it: `in_`."""

    out_first: Ints
    out_to: Rows
    out_edge: Rows
    in_first: Ints
    in_from: Rows
    in_edge: Rows


class EdgeTree(NamedTuple):
    """Edges as lines, and boxes over them.

    `line` (m, 4) has both ends of each edge, `order` the edges as the lowest boxes hold them; `box` (b, 4) is
    low x, low y, high x, high y; `level` says where each level of boxes begins, the lowest first.
    """

    line: Floats
    order: Rows
    box: Floats
    level: Ints


@njit(**EXACT)
def arcs_by_node(source: Rows, target: Rows, edge: Rows, nodes: int) -> tuple[Ints, Rows, Rows]:
    """Arcs sorted by their source: where those of each node begin, their targets and edges."""
    first = np.zeros(nodes + 1, np.int64)
    for i in range(source.size):
        first[source[i] + 1] += 1
    for node in range(nodes):
        first[node + 1] += first[node]
    free, to, by = first[:-1].copy(), np.empty(source.size, np.int32), np.empty(source.size, np.int32)
    for i in range(source.size):
        place = free[source[i]]
        to[place], by[place] = target[i], edge[i]
        free[source[i]] += 1
    return first, to, by


@njit(**EXACT)
def _to_line(line: Floats, x: float, y: float) -> tuple[float, float]:
    """The square of the distance of a place to an edge, and which share of the edge lies before that."""
    ax, ay, bx, by = line[0], line[1], line[2], line[3]
    dx, dy = bx - ax, by - ay
    square = dx * dx + dy * dy
    share = ((x - ax) * dx + (y - ay) * dy) / square if square > 0.0 else 0.0
    if share >= 1.0:
        return (x - bx) * (x - bx) + (y - by) * (y - by), 1.0
    if not share > 0.0:
        return (x - ax) * (x - ax) + (y - ay) * (y - ay), 0.0
    ex, ey = x - (ax + share * dx), y - (ay + share * dy)
    return ex * ex + ey * ey, share


@njit(**EXACT)
def _to_box(box: Floats, x: float, y: float) -> float:
    """At most the square of the distance to anything in a box."""
    dx, dy = max(0.0, box[0] - x, x - box[2]), max(0.0, box[1] - y, y - box[3])
    return (dx * dx + dy * dy) * NEAR


@njit(**EXACT)
def snap(tree: EdgeTree, x: Floats, y: Floats, hint: Rows, edge: Rows, share: Floats) -> None:
    """The nearest edge of each place and the share of it that lies before the place.

    `hint` is an edge that may be near, or -1: it only saves work.
    """
    stack, bound = np.empty(DEEPEST * FAN, np.int64), np.empty(DEEPEST * FAN)
    top = tree.level.size - 1
    for i in range(x.size):
        best, away, part = -1, np.inf, 0.0
        if hint[i] >= 0:
            best = hint[i]
            away, part = _to_line(tree.line[best], x[i], y[i])
        size = 1
        stack[0], bound[0] = tree.box.shape[0] - 1, 0.0
        while size > 0:
            size -= 1
            if bound[size] > away:
                continue
            place = stack[size]
            level = top - 1
            while tree.level[level] > place:
                level -= 1
            below = (place - tree.level[level]) * FAN
            if level == 0:
                for j in range(below, min(below + FAN, tree.order.size)):
                    other = tree.order[j]
                    far, at = _to_line(tree.line[other], x[i], y[i])
                    if far < away or (far == away and (best < 0 or other < best)):
                        best, away, part = other, far, at
                continue
            first = tree.level[level - 1] + below
            for j in range(first, min(first + FAN, tree.level[level])):
                near = _to_box(tree.box[j], x[i], y[i])
                if near <= away:
                    hole = size
                    while hole > 0 and bound[hole - 1] < near and stack[hole - 1] >= first:
                        if stack[hole - 1] >= tree.level[level]:
                            break
                        stack[hole], bound[hole] = stack[hole - 1], bound[hole - 1]
                        hole -= 1
                    stack[hole], bound[hole] = j, near
                    size += 1
        edge[i], share[i] = best, part
