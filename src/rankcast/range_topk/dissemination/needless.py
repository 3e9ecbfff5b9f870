"""Merging exact tiles within a budget: at most a share of all receipts may be needless.

Tiles of one item and event follow each other. Two neighbours become one, the box around both, at the price of
those in it who are in neither of them: they hear in vain. The cheapest pairs of a batch are merged first, as
every merge saves one message, as long as needless receipts are at most the share of all receipts.

Nobody's list is wrong after a merge. A box around tiles of an item holds only ranges that hold the item, as
every tile does. Somebody there who need not hear of it has it in the list already, with that value, or has k
better ones, or is told that something is gone which is not in the list. That is so at every moment: who waits
for a replacement that is worse than the item holds the item, for replacements are sent best first. So the
receiver's protocol ignores it. [Range §IV-B]

Cost: a count of the subscriptions in a box for every tile, and two for every merge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.cover import inside, outside
from rankcast.range_topk.kernels.corners import CAPACITY, DEPTH, CornerTree
from rankcast.range_topk.kernels.points import PointTree
from rankcast.range_topk.kernels.points_search import list_rows
from rankcast.range_topk.state import RangeState
from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Counter = Callable[[Floats, Floats], Ints]


class Merged(NamedTuple):
    """The boxes after merging, which tile each began with, and how many need to hear it or receive it."""

    low: Floats
    high: Floats
    tile: Ints
    needed: Ints
    received: Ints


def merge_within(low: Floats, high: Floats, group: Ints, share: float, count: Counter) -> Merged:
    """Merge tiles of equal and neighbouring groups within a share of needless receipts.

    `count` tells how many subscriptions each of some boxes holds. A round merges the pairs that are cheaper
    than both of their neighbours, the cheapest first, until the budget is spent or nothing is left to merge.
    """
    needed = count(low, high)
    merged = Merged(low.copy(), high.copy(), np.arange(len(low)), needed, needed.copy())
    every, spent = int(needed.sum()), 0
    price = _prices(merged, group, np.arange(max(len(low) - 1, 0)), count)
    while price.size:
        around = np.concatenate([[np.inf], price, [np.inf]])
        chosen = np.flatnonzero((price < around[:-2]) & (price <= around[2:]))
        chosen = chosen[np.argsort(price[chosen], kind="stable")]
        cost = spent + np.cumsum(price[chosen])
        chosen = np.sort(chosen[cost <= share * (every + cost)])
        if not chosen.size:
            break
        spent += int(price[chosen].sum())
        merged, price = _joined(merged, group, price, chosen, count)
    return merged


def _prices(merged: Merged, group: Ints, pairs: Ints, count: Counter) -> Floats:
    """How many hear in vain if a tile and the next one become one; infinite if they are of two groups."""
    price, after = np.full(len(pairs), np.inf), pairs + 1
    alike = np.flatnonzero(group[merged.tile[pairs]] == group[merged.tile[after]])
    one, two = pairs[alike], after[alike]
    low, high = np.minimum(merged.low[one], merged.low[two]), np.maximum(merged.high[one], merged.high[two])
    price[alike] = count(low, high) - merged.received[one] - merged.received[two]
    return price


def _joined(
    merged: Merged, group: Ints, price: Floats, chosen: Ints, count: Counter
) -> tuple[Merged, Floats]:
    """Let chosen tiles and their next ones become one; what is left, and the prices of its pairs."""
    low, high, tile, needed, received = merged
    low[chosen] = np.minimum(low[chosen], low[chosen + 1])
    high[chosen] = np.maximum(high[chosen], high[chosen + 1])
    needed[chosen] += needed[chosen + 1]
    received[chosen] += received[chosen + 1] + price[chosen].astype(np.int64)
    kept = np.ones(len(low), bool)
    kept[chosen + 1] = False
    left = Merged(low[kept], high[kept], tile[kept], needed[kept], received[kept])
    remaining = price[kept[1:]] if len(price) else price  # a pair goes with its second tile
    place = np.cumsum(kept)[chosen] - 1
    again = np.unique(np.concatenate([place - 1, place]))
    again = again[(again >= 0) & (again < len(remaining))]
    remaining[again] = _prices(left, group, again, count)
    return left, remaining


@njit(**EXACT)
def count_points(points: PointTree, low: Floats, high: Floats) -> Ints:
    """How many subscriptions over one attribute lie in each box of (lo, hi)."""
    found, box, nobody = np.empty(low.shape[0], np.int64), np.empty(4), np.empty(0, np.int32)
    for i in range(low.shape[0]):
        box[0], box[1], box[2], box[3] = low[i, 0], high[i, 0], low[i, 1], high[i, 1]
        found[i] = list_rows(points, box, nobody)
    return found


@njit(**EXACT)
def count_corners(tree: CornerTree, low: Floats, high: Floats) -> Ints:
    """How many subscriptions over several attributes have their corners in each box."""
    found, stack = np.zeros(low.shape[0], np.int64), np.empty(DEPTH, np.int32)
    for i in range(low.shape[0]):
        stack[0], depth = 0, 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            if tree.size[node] == 0 or outside(tree.low, tree.high, node, low, high, i):
                continue
            if inside(low, high, i, tree.low, node) and inside(low, high, i, tree.high, node):
                found[i] += tree.size[node]
            elif tree.bucket[node] < 0:
                stack[depth], stack[depth + 1] = tree.child[node, 0], tree.child[node, 1]
                depth += 2
            else:
                first = tree.bucket[node] * tree.meta[CAPACITY]
                for slot in range(first, first + tree.size[node]):
                    found[i] += inside(low, high, i, tree.point, slot)
    return found


def count_receipts(state: RangeState, merged: Merged, updated: NDArray[np.bool_]) -> None:
    """Count who receives what, and who needs not; `updated`: the tiles about the object of their event."""
    received, needed = merged.received, merged.needed
    count_needless(
        state,
        (int(received.sum()), int(received[updated].sum())),
        (int(needed.sum()), int(needed[updated].sum())),
    )


def count_needless(state: RangeState, received: tuple[int, int], needed: tuple[int, int]) -> None:
    """Count receipts, and how many nobody needed: of all messages, and of those about updated objects."""
    for name, got, due in zip(("", "_updated"), received, needed, strict=True):
        state.count[f"received{name}"] += got
        state.count[f"needless{name}"] += got - due


def groups_of(*columns: NDArray[np.generic]) -> Ints:
    """The groups of tiles that follow each other with equal columns, numbered."""
    size = len(columns[0])
    another = np.zeros(size, bool)
    for column in columns:
        another[1:] |= column[1:] != column[:-1]
    return np.cumsum(another)
