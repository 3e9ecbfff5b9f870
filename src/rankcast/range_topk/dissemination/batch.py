"""Painting the net change of a batch: Paint-Batch [Range §IV-A], corrected.

The batch is reduced to one net change an object. A move is a loss at the old place and a gain at the new one;
a loss is a value that worsens or goes, a gain one that improves or comes. For an object write IRold for its
region before the batch and IRnew for that after it. The messages are, in this order:

1. For every loss, by descending new (value, label), what goes or moves away first: the new value (or that it
   is gone) to IRnew united with IRold cut to STALE, the region that the old value would have among the
   objects of after the batch.
2. For every unchanged object that is exposed: its value to IRnew without IRold.
3. For every gain: its value to IRnew.

Then every subscriber that follows the protocol ends with its list, and hears only what the contract allows.
Let A be its list before and B the one after, L what it holds at a moment, kth the last of B if B has k items.

- Who hears what. By 1 (in IRnew), 2 and 3 it hears of the items of B that are new or changed. By 1 (the rest)
  it hears of items of A that are not in B although their old value would keep them there. Nothing else is
  told, and of one object the tiles of one step are disjoint: nobody hears twice of it, except for a move.
- Before an item of B is told in step 1, every item p of step 1 that is not in B was: p is gone, or behind
  kth and so behind the item. Until then L is A with entries changed or removed in place; nothing was evicted.
- From then on each p in L that is not in B is behind kth: p was told its final value, or its old value would
  not keep it, or it is unchanged or a gain, whose entry is no better than its final value. If B has fewer
  than k items, p can only have left the range, was in STALE, and was told to be gone: L holds no such p.
- Hence at most k - 1 items of L are better than an item b of B, the others of B, whatever values they have
  there: b is taken when told and never evicted again. An unchanged b of A was not evicted before either. So
  at the end L holds all of B with final values; with k items that is all of L, with fewer L has no others.

The text's version fails because it takes the objects better before and after together, and so misses losses.

How the exposed are found: the net changes are applied one by one in any order, each loss with the sweep of
`paint.lower`. An unchanged object that is in B and not in A enters the list at one of these steps, which must
be a loss, and the sweep meets it there. Gains come first and losses by descending new value, because this
order meets few others. Old regions come from the tree rolled back to before the batch.

Cost: O(log n) a change for applying, rolling back and forth; a sweep a loss; two firstk and O(k) a region.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.object_tree import HEIGHT, ObjectTree, insert, remove, room, set_value
from rankcast.range_topk.kernels.paint import Brush, lower, refine, tight
from rankcast.range_topk.kernels.regions import Message, combine, paint_between, space, stamp
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]


class Net(NamedTuple):
    """Net changes of distinct objects from (old_x, old_y) to (x, y); a y of +inf: not there."""

    row: Rows
    old_x: Floats
    old_y: Floats
    x: Floats
    y: Floats


class Exposed(NamedTuple):
    """Distinct rows met by sweeps, `size[0]` of them; `known` marks these and the ones not to be noted."""

    row: Rows
    known: NDArray[np.bool_]
    size: NDArray[np.int64]


@njit(**EXACT)
def settle(tree: ObjectTree, row: int, x: float, y: float) -> None:
    """Bring one object to (x, y), whatever it is now; y = +inf takes it out."""
    if tree.leaf_of[row] >= 0 and (y == np.inf or x != tree.x[row]):
        remove(tree, row)
    if tree.leaf_of[row] < 0:
        if y < np.inf:
            insert(tree, row, x, y)
    elif y != tree.y[row]:
        set_value(tree, row, y)


@njit(**EXACT)
def settle_all(tree: ObjectTree, rows: Rows, x: Floats, y: Floats, start: int) -> int:
    """Bring objects from `start` on to (x, y); return the first one that needs a larger tree."""
    for i in range(start, rows.shape[0]):
        if room(tree) < tree.meta[HEIGHT] + 2:
            return i
        settle(tree, rows[i], x[i], y[i])
    return rows.shape[0]


@njit(**EXACT)
def _note(exposed: Exposed, items: Rows) -> None:
    """Note the rows that are not known yet."""
    row, known, size = exposed.row, exposed.known, exposed.size[0]
    for item in items:
        if not known[item]:
            row[size], known[item] = item, True
            size += 1
    exposed.size[0] = size


@njit(**EXACT)
def sweep(brush: Brush, losses: Net, exposed: Exposed, start: int) -> int:
    """Apply losses from `start` on and note what they expose; return the first that needs more space."""
    tree, tiles = brush.tree, brush.tiles
    for i in range(start, losses.row.shape[0]):
        row, x, y = losses.row[i], losses.x[i], losses.y[i]
        if tight(brush) or room(tree) < tree.meta[HEIGHT] + 2:
            return i
        first = tiles.size[0]
        done = lower(brush, row, y if x == tree.x[row] else np.inf, i)
        if done:
            _note(exposed, tiles.item[first : tiles.size[0]])
        tiles.size[0] = first
        if not done:
            return i
        settle(tree, row, x, y)
    return losses.row.shape[0]


@njit(**EXACT)
def unite(old: Floats, stale: Floats, new: Floats, regions: Floats) -> None:
    """Write the outlines of where losses are told: the new regions, and the old ones cut to the stale."""
    both = np.empty((2 * old.shape[1], 2))
    for i in range(old.shape[0]):
        combine(old[i], stale[i], False, both)
        combine(new[i], both, True, regions[i])


@njit(**EXACT)
def tell(brush: Brush, rows: Rows, x: Floats, y: Floats, regions: Floats, without: Floats, start: int) -> int:
    """Tile regions without others for objects from `start` on; return the first that needs more space."""
    tiles = brush.tiles
    for i in range(start, rows.shape[0]):
        if space(tiles) < regions.shape[1] + without.shape[1]:
            return i
        first = tiles.size[0]
        paint_between(regions[i], without[i], x[i], tiles)
        refine(brush, first)
        stamp(tiles, first, Message(rows[i], x[i], y[i], 0, 0))
    return rows.shape[0]
