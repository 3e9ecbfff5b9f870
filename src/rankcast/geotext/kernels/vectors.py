"""Dense vectors: their cosine, and upper bounds of the score from a projection to a few dimensions.

Vectors are of unit length, with zeros up to a multiple of eight numbers. Their cosine is the sum of the
products of their numbers: eight sums, the i-th of every eighth product from the i-th on, added in pairs. All
who compute one call `dot`, so that it is the same to the last bit.

Bounds. By an orthonormal basis a vector is its coordinates and a rest that is orthogonal to them, so a cosine
is at most the product of the coordinates and the lengths of both rests multiplied (Cauchy and Schwarz). The
sketch of a row has its coordinates, as a line of a matrix, and by row the length of its rest, its place in
the cube, and of a subscription alpha and the score to beat. The products of coordinates are those of
matrices, by BLAS; what is left is arithmetic on floats of one width, one subscription against many messages,
eight of them an instruction. A row that is not there is never reached: its score to beat is infinite.
Sketches are in float32, and `ROUNDING` makes up for that.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.pair_scores import ARRIVAL, ROW
from rankcast.geotext.kernels.score import (
    Bools,
    Floats,
    Floats32,
    Ints,
    Plain,
    Rows,
    dot,
    embed,
    named,
    nearness,
)
from rankcast.structures.arrays import with_room
from rankcast.structures.jit import EXACT

REST, X, Y, Z, ALPHA, BAR = range(6)  # what is known of rows beside their coordinates
FACTS = 6
ROUNDING = np.float32(3e-5)  # what float32 may take from a score
ONE, ZERO = np.float32(1.0), np.float32(0.0)
NOBODY = np.float32(np.inf)
STRETCH = 32  # messages that are passed over together
HUGE, TINY = 1e100, 1e-100  # numbers whose squares are finite, and not 0

Matrix = NDArray[np.float64]


@njit(**EXACT)
def to_unit(raw: Matrix, known: Bools, found: Matrix) -> int:
    """Write the vectors of `raw` with the length 1, where they are known; the first that is 0, or -1.

    The length is the root of the sum of the squares, added from the first to the last.
    """
    for row in range(raw.shape[0]):
        if not known[row]:
            continue
        largest, squares = 0.0, 0.0
        for at in range(raw.shape[1]):
            largest = max(largest, abs(raw[row, at]))
        if largest == 0.0:
            return row
        scale = 1.0 if TINY < largest < HUGE else largest
        for at in range(raw.shape[1]):
            found[row, at] = raw[row, at] / scale
            squares += found[row, at] * found[row, at]
        length = math.sqrt(squares)
        for at in range(raw.shape[1]):
            found[row, at] /= length
    return -1


@njit(**EXACT)
def cosines(mine: Matrix, row: int, theirs: Matrix, rows: Rows) -> Floats:
    """The cosine of one vector with each of some others."""
    found = np.empty(rows.size)
    for i in range(rows.size):
        found[i] = dot(mine, row, theirs, rows[i])
    return found


@njit(**EXACT)
def sketch(
    vectors: Matrix, rows: Rows, basis: Matrix, x: Floats, y: Floats, plain: Plain, lines: Floats32,
    facts: Floats32, at: Ints,
) -> None:  # fmt: skip
    """Write the coordinates of some rows, their rests and places, at some places of `lines` and `facts`."""
    frame = named(plain)
    for i in range(rows.size):
        row, place = rows[i], at[i]
        left = dot(vectors, row, vectors, row)
        for axis in range(basis.shape[0]):
            along = dot(vectors, row, basis, axis)
            lines[place, axis] = along
            left -= along * along
        facts[REST, place], facts[BAR, place] = math.sqrt(max(0.0, left)), ZERO
        spot = embed(frame, x[row], y[row])
        for axis in range(3):
            facts[X + axis, place] = spot[axis]


@njit(**EXACT)
def set_bars(facts: Floats32, rows: Rows, alpha: Floats, listed: Floats, floor: Floats) -> None:
    """Write alphas and the scores to beat of subscriptions."""
    for row in rows:
        bar = max(listed[row], floor[row]) if floor.size > 0 else listed[row]
        facts[ALPHA, row], facts[BAR, row] = alpha[row], bar


@njit(**EXACT)
def _reach_all(
    product: Floats32, line: int, mine: Floats32, row: int, theirs: Floats32, first: int, slack: np.float32,
    whole: bool, reach: np.float32, bounds: Floats32,
) -> None:  # fmt: skip
    """Upper bounds of the scores of messages for a subscription.

    `product` has the products of coordinates in a line, or if they are `whole` those of the vectors, but for
    a slack. Messages are those from `first` on. Without a branch, so that it is vector instructions; where
    the place does not count, it is not looked at.
    """
    rest = ZERO if whole else mine[REST, row]
    alpha = mine[ALPHA, row]
    x, y, z = mine[X, row], mine[Y, row], mine[Z, row]
    text = ONE - alpha
    for i in range(np.uint64(product.shape[1])):
        at = np.uint64(first) + i
        alike = product[np.uint64(line), i] + rest * theirs[REST, at] + slack
        bounds[i] = text * min(ONE, max(ZERO, alike)) + ROUNDING
    if alpha > ZERO:
        for i in range(np.uint64(product.shape[1])):
            at = np.uint64(first) + i
            east, north, up = theirs[X, at] - x, theirs[Y, at] - y, theirs[Z, at] - z
            bounds[i] += alpha * max(ZERO, nearness(reach, east * east + north * north + up * up))


@njit(**EXACT)
def _write_keys(bounds: Floats32, bar: np.float32, row: int, keys: Ints, count: int) -> int:
    """Add the keys of the messages whose bounds reach a bar; there is room. Returns how many there are.

    Few do: most stretches are passed over by vector instructions.
    """
    for start in range(0, bounds.size, STRETCH):
        end, passing = min(start + STRETCH, bounds.size), np.int32(0)
        for i in range(np.uint64(start), np.uint64(end)):
            passing = np.int32(passing + np.int32(bounds[i] >= bar))
        if passing > 0:
            for which in range(start, end):
                keys[count] = np.int64(row) << ROW | np.int64(which) << ARRIVAL
                count += bounds[which] >= bar
    return count


@njit(**EXACT)
def find_pairs(
    product: Floats32, first: int, mine: Floats32, theirs: Floats32, slack: np.float32, whole: bool,
    reach: np.float32, keys: Ints, count: int, most: int,
) -> tuple[Ints, int]:  # fmt: skip
    """Add the keys of pairs that may pass, of subscriptions from `first` on with all messages.

    Returns how many there are then, -1 if there are more than `most`.
    """
    bounds = np.empty(product.shape[1], np.float32)
    for line in range(product.shape[0]):
        row = first + line
        bar = mine[BAR, row]
        if bar == NOBODY:
            continue
        _reach_all(product, line, mine, row, theirs, 0, slack, whole, reach, bounds)
        keys = with_room(keys, count + bounds.size)
        count = _write_keys(bounds, bar, row, keys, count)
        if count > most:
            return keys, -1
    return keys, count


@njit(**EXACT)
def bounds_of_all(
    product: Floats32, first: int, mine: Floats32, theirs: Floats32, slack: np.float32, whole: bool,
    reach: np.float32, bounds: Floats32,
) -> None:  # fmt: skip
    """Upper bounds of the scores of messages from `first` on for subscriptions, a line each.

    They are -inf for rows that are no messages.
    """
    for line in range(product.shape[0]):
        part = bounds[line, first : first + product.shape[1]]
        _reach_all(product, line, mine, line, theirs, first, slack, whole, reach, part)
        for i in range(part.size):
            part[i] = part[i] if theirs[BAR, first + i] < NOBODY else -NOBODY
