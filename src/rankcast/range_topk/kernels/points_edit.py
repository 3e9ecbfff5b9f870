"""Subscriptions leave and enter the buckets of a point tree, many at once; the tree is then set right.

1. `take_out` gives the slots of points that leave. `move_out` does so for points that are to be moved, unless
   a point stays inside its bucket's box: then it only changes there.
2. `exchange` looks for the buckets of points that enter, a block of them step by step together. Then it goes
   through the buckets that a point leaves or enters: those who enter take the places that others left, or the
   next ones, and what is still free is closed by the last points. Whoever finds a full bucket is left over.
3. `grow` makes subtrees of full buckets that are too small for their new points.
4. `mend` goes up from the leaves that were touched, all of them one step at a time, and sets sizes and boxes
   right as far as they change. Paths of different lengths meet: a node may be set right more than once.
5. `rebalance` builds anew the nodes that have become skewed or nearly empty, the topmost first.

`edit` is all of it if nobody finds a full bucket. Both sides of an exchange are put in the order of the slots
first: every step then goes through memory in one direction, where point by point each would wait for memory
at half a dozen places. A slot that is left is noted as twice its number, and 1 more if its point was at the
border of the box, which is then to be found anew. No kernel grows an array: what finds no room is left over,
the owner makes room and goes on from there.

Cost: O(log m) a point that enters, the cache misses of a block overlapping; O(1) one that leaves; O(1) a
touched node, and what is built anew.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.points import (
    BUCKET,
    FILL,
    HI_FROM,
    HI_TO,
    LO_FROM,
    LO_TO,
    SKEW,
    PointTree,
    collect,
    merge,
    most_buckets,
    plant,
    rebuild,
    spare_buckets,
    surround,
    write_records,
)
from rankcast.structures.arrays import BLOCK, prefetch
from rankcast.structures.jit import EXACT
from rankcast.structures.select import HALF, LOWER, Records, Words, precedes, with_places

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]
AHEAD = 32  # how many points before their turn memory is asked for
WIDER, BORDER = 1, 2  # a point has entered outside a leaf's box, one at its border has left


@njit(**EXACT)
def _by_slot(slot_of: Rows, rows: Rows, most: int) -> Words:
    """The slots of rows, ascending, with their places among the rows."""
    slots = np.empty(rows.shape[0], np.int32)
    for i in range(rows.shape[0]):
        # unsigned indexes: Numba need not test whether they count from the end
        slots[i] = slot_of[np.uint32(rows[i])]
    return with_places(slots, most)


@njit(**EXACT)
def _within(box: Floats, leaf: np.uint32, lo: float, hi: float) -> bool:
    """Whether a point lies strictly inside the box of a leaf."""
    inside = (box[leaf, LO_FROM] < lo) & (lo < box[leaf, LO_TO])
    return inside & (box[leaf, HI_FROM] < hi) & (hi < box[leaf, HI_TO])


@njit(**EXACT)
def take_out(tree: PointTree, rows: Rows) -> Rows:
    """Take points out; the slots that they leave, ascending."""
    slot_of, leaf_of, box, lo, hi = tree.slot_of, tree.leaf_of, tree.box, tree.lo, tree.hi
    slots, gone = _by_slot(slot_of, rows, lo.shape[0]), np.empty(rows.shape[0], np.int32)
    for i in range(rows.shape[0]):
        # unsigned indexes: Numba need not test whether they count from the end
        slot = np.uint32(slots[i] >> HALF)
        leaf = np.uint32(leaf_of[slot // np.uint32(BUCKET)])
        gone[i] = np.int32(2 * slot) + np.int32(not _within(box, leaf, lo[slot], hi[slot]))
        slot_of[np.uint32(rows[i])] = -1
    return gone


@njit(**EXACT)
def move_out(tree: PointTree, rows: Rows, lo: Floats, hi: Floats, points: Records) -> Rows:
    """Move points that stay in their buckets, take the others out; the slots that they leave, ascending.

    Those points are written as records, in that order; of several moves of one row the last counts. A point
    stays if it lies strictly inside the box of its leaf, before and after: then it is on the same side of
    every pivot, however ties are broken, and no end of the box was its own.
    """
    leaf_of, sizes, box, low, high = tree.leaf_of, tree.size, tree.box, tree.lo, tree.hi
    slots, gone = _by_slot(tree.slot_of, rows, low.shape[0]), np.empty(rows.shape[0], np.int32)
    # unsigned indexes: Numba need not test whether they count from the end
    left = np.uint64(0)
    for i in range(rows.shape[0]):
        prefetch(leaf_of, np.int64(slots[i] >> HALF) // BUCKET)
    for i in range(rows.shape[0]):
        slot, at = np.uint32(slots[i] >> HALF), slots[i] & LOWER
        if i + AHEAD < rows.shape[0]:
            soon, place = np.int64(slots[i + AHEAD] >> HALF), np.int64(slots[i + AHEAD] & LOWER)
            prefetch(low, soon)
            prefetch(high, soon)
            prefetch(lo, place)
            prefetch(hi, place)
            leaf = leaf_of[soon // BUCKET]
            prefetch(box, 4 * np.int64(leaf))
            prefetch(sizes, np.int64(leaf))
        if i + 1 < rows.shape[0] and slots[i + 1] >> HALF == slots[i] >> HALF:
            continue
        here = np.uint32(leaf_of[slot // np.uint32(BUCKET)])
        within = _within(box, here, low[slot], high[slot])
        stays = within & _within(box, here, lo[at], hi[at])
        if stays:
            low[slot], high[slot] = lo[at], hi[at]
        points[left, 0], points[left, 1], points[left, 2], points[left, 3] = lo[at], hi[at], rows[at], at
        gone[left] = np.int32(2 * slot) + np.int32(not within)
        left += np.uint64(not stays)
    return gone[:left]


@njit(**EXACT)
def _descend(tree: PointTree, points: Records, start: int, leaves: Rows) -> None:
    """Find the leaves of a block of points; all go down step by step, so that none waits for another."""
    child, axes, pivot, pivot_row = tree.child, tree.axis, tree.pivot, tree.pivot_row
    leaves[:], going = 0, leaves.shape[0]
    while going > 0:
        going = 0
        for i in range(leaves.shape[0]):
            # unsigned indexes: Numba need not test whether they count from the end
            node, at = np.uint32(leaves[i]), start + i
            if child[node, 0] < 0:
                continue
            axis = np.uint8(axes[node])
            value, limit = points[at, axis], pivot[node, axis]
            after = value > limit
            if value == limit:
                lo, hi, row = pivot[node, 0], pivot[node, 1], np.float64(pivot_row[node])
                after = not precedes(np.int64(axis), points[at, 0], points[at, 1], points[at, 2], lo, hi, row)
            leaf = child[node, np.uint8(after)]
            leaves[i], going = leaf, going + 1
            prefetch(child, 2 * np.int64(leaf))
            prefetch(pivot, 2 * np.int64(leaf))
            prefetch(axes, np.int64(leaf))


@njit(**EXACT)
def _find_buckets(tree: PointTree, points: Records) -> Words:
    """The buckets that points belong to, ascending, with their places among the points."""
    bucket, sizes, leaf_of, size = tree.bucket, tree.size, tree.leaf_of, points.shape[0]
    buckets, leaves = np.empty(size, np.int32), np.empty(BLOCK, np.int32)
    for start in range(0, size, BLOCK):
        end = min(start + BLOCK, size)
        _descend(tree, points, start, leaves[: end - start])
        for i in range(end - start):
            prefetch(bucket, np.int64(leaves[i]))
            prefetch(sizes, np.int64(leaves[i]))
        for i in range(start, end):
            # unsigned indexes: Numba need not test whether they count from the end
            buckets[i] = bucket[np.uint32(leaves[i - start])]
            prefetch(leaf_of, np.int64(buckets[i]))
    return with_places(buckets, tree.leaf_of.shape[0])


@njit(**EXACT)
def _widen(box: Floats, leaf: np.uint32, lo: float, hi: float) -> bool:
    """Let the box of a leaf take a point in; whether it was outside."""
    inside = (box[leaf, LO_FROM] <= lo) & (lo <= box[leaf, LO_TO])
    inside &= (box[leaf, HI_FROM] <= hi) & (hi <= box[leaf, HI_TO])
    box[leaf, LO_FROM], box[leaf, LO_TO] = min(box[leaf, LO_FROM], lo), max(box[leaf, LO_TO], lo)
    box[leaf, HI_FROM], box[leaf, HI_TO] = min(box[leaf, HI_FROM], hi), max(box[leaf, HI_TO], hi)
    return not inside


@njit(**EXACT)
def _assign(
    tree: PointTree, gone: Rows, entering: Words, slots: Rows, moves: Rows, touched: Rows
) -> tuple[int, int]:
    """Find a slot for everybody who enters, or -1, and set sizes; how many move, and in how many leaves.

    Those who enter take the places that others left, the first ones first, then the next behind the last
    point. Places that are still free are closed by the last points: `moves` has where to, and where from.
    """
    leaf_of, sizes, leaves, enters = tree.leaf_of, tree.size, gone.shape[0], entering.shape[0]
    g, e, closed, count = 0, 0, 0, 0
    while g < leaves or e < enters:
        bucket = np.int64(leaf_of.shape[0]) if g == leaves else np.int64(gone[g]) // (2 * BUCKET)
        bucket = bucket if e == enters else min(bucket, np.int64(entering[e] >> HALF))
        leaf, stop, flags, end = leaf_of[bucket], g, 0, (bucket + 1) * BUCKET
        last = bucket * BUCKET + sizes[leaf]
        while stop < leaves and gone[stop] < 2 * end:
            flags |= BORDER * (gone[stop] & 1)
            stop += 1
        while e < enters and np.int64(entering[e] >> HALF) == bucket:
            full = g == stop and last == end
            slots[e] = -1 if full else last if g == stop else gone[g] >> 1
            flags |= WIDER if full else 0
            last, g, e = last + (g == stop and not full), g + (g < stop), e + 1
        for at in range(stop - 1, g - 1, -1):
            last -= 1
            moves[closed, 0], moves[closed, 1] = gone[at] >> 1, last
            closed += (gone[at] >> 1) < last
        g, sizes[leaf] = stop, last - bucket * BUCKET
        touched[count] = 4 * leaf + flags
        count += 1
    return closed, count


@njit(**EXACT)
def _ask(lo: Floats, hi: Floats, row: Rows, board: Rows, slot: np.int32) -> None:
    """Ask for what is kept of a slot."""
    first, width = np.int64(slot) * board.shape[1], board.shape[1]
    prefetch(lo, slot)
    prefetch(hi, slot)
    prefetch(row, slot)
    prefetch(board, first)
    prefetch(board, first + width - 1)


@njit(**EXACT)
def _close(tree: PointTree, moves: Rows) -> None:
    """Bring the last points of buckets to free places."""
    lo, hi, row, board, slot_of = tree.lo, tree.hi, tree.row, tree.board, tree.slot_of
    for i in range(moves.shape[0]):
        if i + AHEAD < moves.shape[0]:
            _ask(lo, hi, row, board, moves[i + AHEAD, 0])
            _ask(lo, hi, row, board, moves[i + AHEAD, 1])
            # unsigned indexes: Numba need not test whether they count from the end
            prefetch(slot_of, np.int64(row[np.uint32(moves[i + AHEAD // 2, 1])]))
        slot, last = np.uint32(moves[i, 0]), np.uint32(moves[i, 1])
        lo[slot], hi[slot], row[slot] = lo[last], hi[last], row[last]
        slot_of[np.uint32(row[last])] = slot
        for place in range(np.uint64(board.shape[1])):
            board[slot, place] = board[last, place]


@njit(**EXACT)
def _write(
    tree: PointTree, entering: Words, slots: Rows, points: Records, lists: Rows, touched: Rows
) -> None:
    """Write points to their slots, and let the boxes of their leaves take them in."""
    leaf_of, box, lo, hi = tree.leaf_of, tree.box, tree.lo, tree.hi
    row, board, slot_of, t = tree.row, tree.board, tree.slot_of, 0
    size, width = entering.shape[0], np.int64(lists.shape[1])
    for i in range(size):
        prefetch(points, 4 * np.int64(entering[min(i + AHEAD, size - 1)] & LOWER))
        soon = min(i + AHEAD // 2, size - 1)
        after, there = entering[soon] & LOWER, max(slots[soon], np.int32(0))
        _ask(lo, hi, row, board, there)
        prefetch(box, 4 * np.int64(leaf_of[there // BUCKET]))
        prefetch(slot_of, np.int64(points[after, 2]))
        prefetch(lists, np.int64(points[after, 3]) * width)
        prefetch(lists, np.int64(points[after, 3]) * width + width - 1)
        if slots[i] < 0:
            continue
        # unsigned indexes: Numba need not test whether they count from the end
        at, slot = entering[i] & LOWER, np.uint32(slots[i])
        leaf = leaf_of[slot // np.uint32(BUCKET)]
        while touched[t] >> 2 != leaf:
            t += 1
        touched[t] |= _widen(box, np.uint32(leaf), points[at, 0], points[at, 1])
        which, origin = np.uint32(points[at, 2]), np.uint64(points[at, 3])
        lo[slot], hi[slot], row[slot], slot_of[which] = points[at, 0], points[at, 1], which, slot
        for place in range(np.uint64(board.shape[1])):
            board[slot, place] = lists[origin, place]


@njit(**EXACT)
def exchange(tree: PointTree, gone: Rows, points: Records, lists: Rows) -> tuple[Words, Rows]:
    """Let points leave and others enter, with the lists at their origins for boards.

    Gives those that found their buckets full, and the leaves where somebody left or entered, as twice their
    numbers, and 1 more if the box is another one.
    """
    box, lo, hi, bucket, sizes = tree.box, tree.lo, tree.hi, tree.bucket, tree.size
    entering = _find_buckets(tree, points)
    slots, moves = np.empty(entering.shape[0], np.int32), np.empty((gone.shape[0] + 1, 2), np.int32)
    touched = np.empty(min(gone.shape[0] + entering.shape[0], tree.leaf_of.shape[0]), np.int32)
    closed, count = _assign(tree, gone, entering, slots, moves, touched)
    _close(tree, moves[:closed])
    _write(tree, entering, slots, points, lists, touched)
    for t in range(count):
        leaf = touched[t] >> 2
        if touched[t] & BORDER:
            first = np.int64(bucket[leaf]) * BUCKET
            surround(box, leaf, lo, hi, first, first + sizes[leaf])
        touched[t] = 2 * leaf + ((touched[t] & 3) > 0)
    return entering[slots < 0], touched[:count]


LEAVE, ENTER, MOVE = range(3)
OTHER, LISTED, SKEWED = 1, 2, 4
MEND_AHEAD = 16  # how many nodes before their turn memory is asked for


@njit(**EXACT)
def _grow(tree: PointTree, node: int, entering: Words, points: Records, lists: Rows) -> bool:
    """Make a subtree of a leaf that is too small for new points; False if there is no room for that."""
    size = np.int64(tree.size[node])
    total = size + entering.shape[0]
    if most_buckets(total) > spare_buckets(tree):
        return False
    everybody, boards = np.empty((total, 4)), np.empty((total, tree.board.shape[1]), np.int32)
    collect(tree, node, everybody, boards)
    for i in range(size, total):
        at = entering[i - size] & LOWER
        boards[i] = lists[np.int64(points[at, 3])]
        everybody[i], everybody[i, 3] = points[at], i
    plant(tree, node, everybody, np.empty_like(everybody), boards)
    return True


@njit(**EXACT)
def grow(tree: PointTree, entering: Words, points: Records, lists: Rows) -> int:
    """Let points into full buckets, as `exchange` left them; how many found no room, then the first ones."""
    start, left = 0, 0
    while start < entering.shape[0]:
        bucket, end = entering[start] >> HALF, start + 1
        while end < entering.shape[0] and entering[end] >> HALF == bucket:
            end += 1
        if not _grow(tree, tree.leaf_of[bucket], entering[start:end], points, lists):
            for i in range(start, end):
                entering[left] = entering[i]
                left += 1
        start = end
    return left


@njit(**EXACT)
def is_skewed(left: np.int32, right: np.int32) -> bool | np.bool_:
    """Whether a node with children of such sizes must be built anew, or would fit into one bucket."""
    total = left + right
    return total <= BUCKET // 2 or min(left, right) == 0 or max(left, right) > SKEW * total + FILL


@njit(**EXACT)
def _step_up(parent: Rows, child: Rows, touched: Rows, marks: NDArray[np.int8]) -> int:
    """Replace nodes by their parents, each once, and mark those of nodes with other boxes; how many."""
    count = 0
    for i in range(touched.shape[0]):
        prefetch(parent, np.int64(touched[min(i + MEND_AHEAD, touched.shape[0] - 1)] >> 1))
        # unsigned indexes: Numba need not test whether they count from the end
        node, other = parent[np.uint32(touched[i] >> 1)], touched[i] & OTHER
        if node >= 0:
            prefetch(child, 2 * np.int64(node))
            touched[count] = node
            count += marks[np.uint32(node)] & LISTED == 0
            marks[np.uint32(node)] |= LISTED | other
    return count


@njit(**EXACT)
def mend(tree: PointTree, touched: Rows) -> Rows:
    """Set sizes and boxes right above leaves that were touched; the nodes to look at for `rebalance`."""
    parent, child, sizes, box = tree.parent, tree.child, tree.size, tree.box
    marks, skewed = np.zeros(parent.shape[0], np.int8), np.empty(parent.shape[0], np.int32)
    count, found = touched.shape[0], 0
    while count > 0:
        above = _step_up(parent, child, touched[:count], marks)
        count = 0
        for i in range(above):
            soon = touched[min(i + MEND_AHEAD, above - 1)]
            prefetch(sizes, np.int64(soon))
            # unsigned indexes: Numba need not test whether they count from the end
            prefetch(sizes, np.int64(child[np.uint32(soon), 0]))
            if marks[np.uint32(soon)] & OTHER:
                prefetch(box, 4 * np.int64(soon))
                prefetch(box, 4 * np.int64(child[np.uint32(soon), 0]))
            node = np.uint32(touched[i])
            one, two = np.uint32(child[node, 0]), np.uint32(child[node, 1])
            size, other = sizes[one] + sizes[two], False
            if marks[node] & OTHER:
                other = merge(box, np.int64(node), np.int64(one), np.int64(two))
            touched[count] = np.int32(2 * node) + np.int32(other)
            count += other or size != sizes[node]
            sizes[node] = size
            marks[node] &= SKEWED
            if marks[node] == 0 and is_skewed(sizes[one], sizes[two]):
                marks[node] = SKEWED
                skewed[found] = node
                found += 1
    return skewed[:found]


@njit(**EXACT)
def rebalance(tree: PointTree, skewed: Rows) -> int:
    """Build nodes anew that are skewed, the last first; how many are still to be looked at, without room."""
    child, sizes = tree.child, tree.size
    for at in range(skewed.shape[0] - 1, -1, -1):
        one, two = child[skewed[at], 0], child[skewed[at], 1]
        if one >= 0 and is_skewed(sizes[one], sizes[two]):
            if spare_buckets(tree) < 0:
                return at + 1
            rebuild(tree, np.int64(skewed[at]))
    return 0


@njit(**EXACT)
def edit(
    tree: PointTree, kind: int, rows: Rows, lo: Floats, hi: Floats, points: Records, lists: Rows
) -> tuple[Words, Rows, Rows]:
    """Let subscriptions LEAVE, ENTER, or MOVE to other ranges, with their lists for boards.

    `points` is written; there are as many as rows, or none if they leave. Gives those that found their
    buckets full and the leaves that were touched, as `exchange` does. Only if nobody did the tree is set
    right, and then comes what `mend` gives.
    """
    gone = rows[:0]
    if kind == MOVE:
        gone = move_out(tree, rows, lo, hi, points)
        points = points[: gone.shape[0]]
    elif kind == ENTER:
        write_records(points, 0, rows, lo, hi)
    else:
        gone = take_out(tree, rows)
    entering, touched = exchange(tree, gone, points, lists)
    skewed = mend(tree, touched) if entering.shape[0] == 0 else touched[:0]
    return entering, touched, skewed
