"""The geo-text score: term vectors, upper bounds of the score, and the columns that it is computed from.

Term vectors. Texts are bags of terms with weights. Prefixes need the terms of a vector in the order rarest
first [Geo §3]: rarer is a larger idf, and of equal idf the larger row, since terms that were first seen
later are rarer as a rule. The order of two terms holds as long as either is referred to.

Bounds. A score is `alpha * near + (1 - alpha) * alike`. The operands of a bound are stored in 16 bits, as
shares of 1: `round_up`, `round_down` and `round_nearest` make them. `SLACK` and `GAP_SLACK` make up for
rounding, so a bound is never below the score that is computed in float64. Places are embedded in the unit
cube, where straight lines bound distances: the plane as it is, the globe as a sphere around the origin (so
neither poles nor the date line need care), both less the least corner of the bounds and divided by their
extent, `frame.unit`. An arc is longer than its chord, so the gap in the cube times `frame.reach`, how many
times the scale the unit is, is never more than the distance in units of the scale. Nearness is 0 from the
scale on. Postings also have a signature: 32 bits, one for each term after their own, by which terms are known
not to be common.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core import cgutils, types
from numba.extending import lower_builtin, type_callable
from numpy.typing import NDArray

from rankcast.geotext.kernels.phrases import Phrases
from rankcast.structures.distance import EARTH_RADIUS, EUCLIDEAN
from rankcast.structures.jit import EXACT

UNIT = 65535.0
SHARE = np.float32(1.0 / UNIT)
SLACK = np.float32(2e-5)  # what rounding to 16 bits may take from a score
GAP_SLACK = np.float32(2e-5)  # and from a gap in the cube
LIFT_SLACK = 1e-12  # what rounding may add to the cosine of unit vectors
FARTHEST = 1e30  # times the scale that a radius counts at most
STEEP = 1e-2  # an alpha nearer to 0 or 1 makes one of the bounds divide by too small a number

Spot = tuple[float, float, float]
Bits = NDArray[np.uint16]
Floats32 = NDArray[np.float32]
Plain = tuple[Any, ...]  # a named tuple of arrays or numbers as Python hands it over


class Frame(NamedTuple):
    """A space: the code of its metric, its bounds, the distance at which nearness is 0, the reach of a gap.

    And how places are embedded in the cube: its corner in space, and the length of its edge.
    """

    metric: int
    west: float
    south: float
    east: float
    north: float
    scale: float
    reach: np.float32
    origin: Spot
    unit: float


@njit(**EXACT)
def named(plain: Plain) -> Frame:
    """A frame that came as a plain tuple, which Numba recognises faster than a named one."""
    return Frame(plain[0], plain[1], plain[2], plain[3], plain[4], plain[5], plain[6], plain[7], plain[8])


@njit(**EXACT)
def are_inside(plain: Plain, x: Floats, y: Floats) -> bool:
    """Whether all places are within the bounds of a frame."""
    frame = named(plain)
    for i in range(x.size):
        if not (frame.west <= x[i] <= frame.east and frame.south <= y[i] <= frame.north):
            return False
    return True


@njit(**EXACT)
def embed(frame: Frame, x: float, y: float) -> Spot:
    """A place in the cube."""
    (west, south, bottom), unit = frame.origin, frame.unit
    if frame.metric == EUCLIDEAN:
        return (x - west) / unit, (y - south) / unit, 0.0
    longitude, latitude = math.radians(x), math.radians(y)
    flat = EARTH_RADIUS * math.cos(latitude)
    east, north = flat * math.cos(longitude), flat * math.sin(longitude)
    return (east - west) / unit, (north - south) / unit, (EARTH_RADIUS * math.sin(latitude) - bottom) / unit


@njit(**EXACT)
def _units(value: float) -> float:
    """A share in units from 0 to `UNIT`; 0 for what is no number.

    Clamped before `math.floor` and `math.ceil`, which convert to int64: converting a number that int64 cannot
    hold gives what the processor likes.
    """
    if value >= 1.0:
        return UNIT
    return value * UNIT if value > 0.0 else 0.0


@njit(**EXACT)
def round_up(value: float) -> int:
    """Round a share up to 16 bits."""
    return math.ceil(_units(value))


@njit(**EXACT)
def round_down(value: float) -> int:
    """Round a share down to 16 bits; 0 if it is below 0."""
    return math.floor(_units(value))


@njit(**EXACT)
def round_nearest(value: float) -> int:
    """Round a share to the nearest one of 16 bits."""
    return math.floor(_units(value) + 0.5)


@njit(**EXACT)
def share_of(bits: int) -> np.float32:
    """Decode a share of 16 bits."""
    return np.float32(bits) * SHARE


@njit(**EXACT)
def alikeness(weight: np.float32, rest: np.float32, own: np.float32, others: np.float32) -> np.float32:
    """The most two unit vectors can be alike whose rarest common term is a given one [Geo §5.2.3].

    That term adds the product of its weights. What comes after it in the order of terms adds no more than the
    lengths of both rests multiplied (Cauchy and Schwarz; the paper takes sums and maxima of weights).
    """
    return min(np.float32(1.0), weight * own + rest * others)


@njit(**EXACT)
def best_score(alpha: np.float32, near: np.float32, alike: np.float32) -> np.float32:
    """The score that bounds of both frontier allow (Lemma 1)."""
    return alpha * near + (np.float32(1.0) - alpha) * alike + SLACK


@njit(**EXACT)
def best_of_group(low: np.float32, high: np.float32, near: np.float32, alike: np.float32) -> np.float32:
    """The same for every alpha from `low` to `high`: the score is linear in alpha [Geo §5.3.1]."""
    return max(best_score(low, near, alike), best_score(high, near, alike))


@njit(**EXACT)
def nearness(reach: np.float32, square: np.float32) -> np.float32:
    """An upper bound of nearness, given the square of a gap in the cube; below 0 it stands for 0."""
    return np.float32(1.0) - reach * max(np.float32(0.0), np.sqrt(square) - GAP_SLACK)


@njit(**EXACT)
def nearness_of(away: float, scale: float) -> float:
    """How near a distance is: 1 at the same place, 0 from the scale on."""
    return max(0.0, 1.0 - away / scale)


@njit(**EXACT)
def nearness_within(radius: float, scale: float) -> np.float32:
    """What no bound of a nearness, before it is cut off at 0, is below for a place within a radius."""
    if radius == np.inf:
        return np.float32(-np.inf)
    return np.float32(1.0 - 1.000001 * min(radius / scale, FARTHEST) - 1e-5)


@njit(**EXACT)
def needed_alike(alpha: float, threshold: float) -> float:
    """The least cosine that a message at the same place needs [Geo (4)]; -inf if alpha is near 1."""
    return (threshold - float(SLACK) - alpha) / (1.0 - alpha) if 1.0 - alpha > STEEP else -np.inf


@njit(**EXACT)
def needed_near(alpha: float, threshold: float) -> float:
    """The least nearness that a message with the same terms needs [Geo (10)]; -inf if it needs none."""
    needed = (threshold - float(SLACK) - (1.0 - alpha)) / alpha if alpha > STEEP else -np.inf
    return needed if needed > 0.0 else -np.inf


FACTOR = np.uint32(2654435769)

Rows = NDArray[np.int32]


@njit(**EXACT)
def bit_of(term: int) -> np.uint32:
    """Which of the 32 bits of a signature stands for a term.

    Multiplicative hashing: the casts keep the product in 32 bits, its upper 5 are the result.
    """
    return np.uint32(np.uint32(np.uint32(term) * FACTOR) >> np.uint32(27))


@njit(**EXACT)
def signatures(term: Rows) -> NDArray[np.uint32]:
    """By term: a bit for each of the terms after it."""
    found, sign = np.empty(term.size, np.uint32), np.uint32(0)
    for i in range(term.size - 1, -1, -1):
        found[i] = sign
        sign = np.uint32(sign | np.uint32(1) << bit_of(term[i]))
    return found


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def shift(array: NDArray[Any], first: int, count: int, by: int) -> None:
    """Move `count` entries from `first` on by so many places; the processor copies whole lines."""
    array[first + by : first + by + count] = array[first : first + count].copy()


@type_callable(shift)
def _typed(context: Any) -> Any:
    def typer(array: Any, first: Any, count: Any, by: Any) -> Any:
        return types.none if isinstance(array, types.Array) else None

    return typer


@lower_builtin(shift, types.Array, types.Integer, types.Integer, types.Integer)  # type: ignore[no-untyped-call]
def _lowered(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, given[0])
    first, count, by = (
        context.cast(builder, value, kind, types.int64)
        for value, kind in zip(given[1:], signature.args[1:], strict=True)
    )
    source, target = (builder.gep(array.data, [at]) for at in (first, builder.add(first, by)))
    cgutils.raw_memmove(builder, target, source, count, array.itemsize)  # type: ignore[no-untyped-call]
    return context.get_dummy_value()


@njit(**EXACT)
def place_of(items: Rows, begin: int, end: int, item: int) -> int:
    """Where a list at begin..end holds an item, -1 if it does not; all of it is looked at, at once."""
    found = np.int32(-1)
    for i in range(np.uint64(end - begin)):
        found = max(found, np.int32(i) if items[np.uint64(begin) + i] == item else np.int32(-1))
    return int(begin + found) if found >= 0 else -1


class TermVectors(NamedTuple):
    """Vectors by row: `size[row]` terms with weights from `begin[row]` on, in code point order."""

    begin: Ints
    size: Rows
    term: Rows
    weight: Floats


class Limits(NamedTuple):
    """What subscriptions ask for beyond their terms, by row; all of it is empty if none asks for anything.

    How far a message may be, the least score and the least time it has, and terms that it must have (of
    weight 1) and must not have (of weight -1), and phrases.
    """

    radius: Floats
    score: Floats
    since: Ints
    terms: TermVectors
    phrases: Phrases


class Meaning(NamedTuple):
    """Dense vectors of subscriptions and of messages, by row, of which there is none if they do not count.

    And how much their cosine counts against that of the terms.
    """

    beta: float
    mine: NDArray[np.float64]
    theirs: NDArray[np.float64]


@njit(**EXACT)
def dot(some: NDArray[np.float64], row: int, others: NDArray[np.float64], other: int) -> float:
    """The product of two vectors whose size is a multiple of eight; the order of its sums is fixed."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for at in range(0, some.shape[1], 8):
        a += some[row, at] * others[other, at]
        b += some[row, at + 1] * others[other, at + 1]
        c += some[row, at + 2] * others[other, at + 2]
        d += some[row, at + 3] * others[other, at + 3]
        e += some[row, at + 4] * others[other, at + 4]
        f += some[row, at + 5] * others[other, at + 5]
        g += some[row, at + 6] * others[other, at + 6]
        h += some[row, at + 7] * others[other, at + 7]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@njit(**EXACT)
def text_score(meaning: Meaning, row: int, item: int, cosine: float) -> float:
    """The part of a score that a text has, given the cosine of the terms."""
    if meaning.mine.shape[0] == 0:
        return cosine
    alike = max(0.0, dot(meaning.mine, row, meaning.theirs, item))
    return meaning.beta * alike + (1.0 - meaning.beta) * cosine


@njit(**EXACT)
def without_vectors(meaning: Meaning, alpha: float) -> tuple[float, float]:
    """Where vectors count, a score is at most `share` times that of terms and place alone, plus `lift`.

    Those are the two; alpha is `alpha / share` then. Without vectors they are 1 and 0, and also if vectors
    count alone, which bounds by terms are not for.
    """
    if meaning.mine.shape[0] == 0 or meaning.beta == 1.0:
        return 1.0, 0.0
    return alpha + (1.0 - alpha) * (1.0 - meaning.beta), (1.0 - alpha) * meaning.beta + LIFT_SLACK


class SubscriptionColumns(NamedTuple):
    """Subscriptions by row: places, alphas, thresholds, stamps, vectors of terms, limits; dense vectors."""

    x: Floats
    y: Floats
    alpha: Floats
    threshold: Floats
    stamp: Bits
    texts: TermVectors
    limits: Limits
    meaning: Meaning


class MessageColumns(NamedTuple):
    """Messages: the rows that arrive, and by row places, vectors, gains and times; the largest gain.

    A message ranks by its score times its gain; without gains by its score.
    """

    rows: Rows
    x: Floats
    y: Floats
    texts: TermVectors
    gain: Floats
    top: float
    time: Ints


class Scratch(NamedTuple):
    """By term: its weight in the vector at hand, 0 if it has none, and its place in the order there."""

    weight: Floats
    place: Rows


@njit(**EXACT)
def rarest_first(texts: TermVectors, row: int, idf: Floats) -> tuple[Rows, Floats, Floats]:
    """The terms of a vector, the rarest first, their weights, and the length of what comes after each."""
    begins, sizes, terms, weights = texts
    begin, size = begins[row], sizes[row]
    term, weight = terms[begin : begin + size].copy(), weights[begin : begin + size].copy()
    for i in range(1, size):
        named, weighs, j = term[i], weight[i], i
        while j > 0 and (
            idf[term[j - 1]] < idf[named] or (idf[term[j - 1]] == idf[named] and term[j - 1] < named)
        ):
            term[j], weight[j] = term[j - 1], weight[j - 1]
            j -= 1
        term[j], weight[j] = named, weighs
    rest, square = np.empty(size), 0.0
    for i in range(size - 1, -1, -1):
        rest[i] = math.sqrt(square)
        square += weight[i] * weight[i]
    return term, weight, rest
