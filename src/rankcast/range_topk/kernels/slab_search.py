"""Who is around an object over two attributes, and what it passes when it falls: walks along the first one.

The second attribute is bounded on one side: `sign` 1 if from above, -1 if from below, which turns it around.
`height` is the attribute so turned. Only objects better than a pair of value and label count. One of them
bounds the influence polygon unless k others, nearer on the same side and not higher, are better too: who
holds it holds those. So a walk remembers the k lowest heights it has met, passes over whatever is not lower
than the last of them, and ends when none can be. [Range App. D, Alg. 7] asks for the nearest first, then for
one object after the other upwards.

Cost: the walk of `object_search.firstk`, as far as k objects not above the apex are met; for what is passed
that of `object_search.range_best`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corners import Floats, Rows
from rankcast.range_topk.kernels.object_tree import ObjectTree, better, locate, place_of
from rankcast.structures.jit import EXACT

FEW = 64  # objects that room is made for at first
SAME, SIZE = range(2)


class Along(NamedTuple):
    """Objects by the first attribute, and the second one by row."""

    tree: ObjectTree
    second: Floats


@njit(**EXACT)
def _lower(lows: Floats, height: float) -> None:
    """Let a height that is below the last of the lowest ones take its place among them."""
    at = lows.shape[0] - 1
    while at > 0 and lows[at - 1] > height:
        lows[at] = lows[at - 1]
        at -= 1
    lows[at] = height


@njit(**EXACT)
def _walk(
    along: Along, row: int, pair: tuple[float, int], sign: float, step: int, lows: Floats, found: Floats,
    size: NDArray[np.int64],
) -> Floats:  # fmt: skip
    """Append the x and heights of the objects that bound a polygon on one side, and at x on that side.

    Heights are those of the apex at least; who stands at x and not above the apex is only counted.
    """
    tree, second, (y, label) = along.tree, along.second, pair
    low, best, child, labels = tree.low, tree.best, tree.child, tree.label
    key, filled, parents = tree.key, tree.filled, tree.parent
    node, level, x, apex = np.int64(tree.leaf_of[row]), 0, tree.x[row], sign * second[row]
    j, last = place_of(child, node, row) + step, lows.shape[0] - 1
    while lows[last] > apex:
        end = filled[node]
        while 0 <= j < end and not (
            low[node, j] <= y and better(low[node, j], y, labels, best[node, j], label)
        ):
            j += step
        if j < 0 or j >= end:
            parent = np.int64(parents[node])
            if parent < 0:
                break
            j = place_of(child, parent, node) + step
            node = parent
            level += 1
        elif level > 0:
            node = np.int64(child[node, j])
            level -= 1
            j = np.int64(0) if step > 0 else np.int64(filled[node]) - 1
        else:
            height, at = max(sign * second[child[node, j]], apex), key[node, j]
            if height < lows[last]:
                _lower(lows, height)
                if size[SIZE] == found.shape[0]:
                    found = np.concatenate((found, found))
                found[size[SIZE], 0], found[size[SIZE], 1] = at, height
                shared = at == x and height == apex
                size[SAME] += shared
                size[SIZE] += not shared
            j += step
    return found


@njit(**EXACT)
def surround(along: Along, row: int, value: float, k: int, sign: float) -> tuple[Floats, int]:
    """The x and heights of the objects that bound the polygon of a row with a value; who they all hold.

    The first are those on the left, near to far, then come those on the right; the number is of those at x
    and not above the apex, whom everybody in the polygon holds and who are not listed. Objects at x itself
    count on the side where they happen to stand, so a few more may be listed than bound the polygon.
    """
    pair, size, found = (value, along.tree.label[row]), np.zeros(2, np.int64), np.empty((FEW, 2))
    lows = np.full(k, np.inf)
    found = _walk(along, row, pair, sign, -1, lows, found, size)
    lows[:] = np.inf
    found = _walk(along, row, pair, sign, 1, lows, found, size)
    return found[: size[SIZE]], size[SAME]


@njit(**EXACT)
def _rank_in(found: Rows, value: Floats, size: int, row: int, y: float, labels: NDArray[np.int64]) -> None:
    """Put a row that belongs there into a list of so many, best first, dropping the last of a full one."""
    at = min(size, found.shape[0] - 1)
    while at > 0 and (value[at - 1] > y or (value[at - 1] == y and labels[found[at - 1]] > labels[row])):
        found[at], value[at] = found[at - 1], value[at - 1]
        at -= 1
    found[at], value[at] = row, y


@njit(**EXACT)
def list_between(
    along: Along, box: tuple[float, float, float], after: tuple[float, int], limit: tuple[float, int],
    sign: float, found: Rows, value: Floats,
) -> int:  # fmt: skip
    """Write the best objects worse than one pair and better than another, best first; return how many.

    A pair is a value and a label. `box` is a range, ends included, and a height that none is above.
    """
    tree, second, (lo, hi, top), (least, mine), (most, other) = along.tree, along.second, box, after, limit
    low, child, labels = tree.low, tree.child, tree.label
    key, filled, parents, size, level = tree.key, tree.filled, tree.parent, 0, 0
    node, j = locate(tree, lo, False)
    while True:
        end = filled[node]
        while j < end and (low[node, j] > most or (level == 0 and low[node, j] < least)):
            j += 1
        if j >= end:
            parent = np.int64(parents[node])
            if parent < 0:
                return size
            j = place_of(child, parent, node) + 1
            node = parent
            level += 1
        elif key[node, j] > hi:
            return size
        elif level > 0:
            node = np.int64(child[node, j])
            level -= 1
            j = np.int64(0)
        else:
            row, y = child[node, j], low[node, j]
            passed = y > least or labels[row] > mine
            if passed and (y < most or labels[row] < other) and sign * second[row] <= top:
                _rank_in(found, value, size, row, y, labels)
                size = min(size + 1, found.shape[0])
                if size == found.shape[0]:
                    most, other = value[size - 1], labels[found[size - 1]]
            j += 1
