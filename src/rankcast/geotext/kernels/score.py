"""The geo-text score: term vectors, upper bounds of the score, and exact scores of candidate pairs.

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

Exact scores. Candidate pairs of a subscription and a message are keys, sorted by subscription, then message:
subscriptions are read in the order in which they lie, and hits come out in the order in which buffers take
them. The weight of a term in a message is looked up in a small hash table of the message, in a bucket that
is read as a whole, without a branch. Cost: O(1) a pair and term of its subscription.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.distance import EARTH_RADIUS, EUCLIDEAN, distance
from rankcast.structures.jit import EXACT

UNIT = 65535.0
SHARE = np.float32(1.0 / UNIT)
SLACK = np.float32(2e-5)  # what rounding to 16 bits may take from a score
GAP_SLACK = np.float32(2e-5)  # and from a gap in the cube
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


# A candidate pair is one key: the row of the subscription, the place of the message in its batch, and the
# stamp of the posting it was found by, from the highest bits to the lowest.
ARRIVAL, ROW = 16, 32  # the first bit of each, above the 16 bits of the stamp
CELLS, GROUPS, CANDIDATES, VERIFIED = range(4)  # counters of a dissemination


class TermVectors(NamedTuple):
    """Vectors by row: `size[row]` terms with weights from `begin[row]` on, in code point order."""

    begin: Ints
    size: Rows
    term: Rows
    weight: Floats


class Limits(NamedTuple):
    """What subscriptions ask for beyond their terms, by row; all of it is empty if none asks for anything.

    How far a message may be, the least score and the least time it has, and terms that it must have (of
    weight 1) and must not have (of weight -1).
    """

    radius: Floats
    score: Floats
    since: Ints
    terms: TermVectors


class SubscriptionColumns(NamedTuple):
    """Subscriptions by row: places, alphas, thresholds, stamps, vectors, limits."""

    x: Floats
    y: Floats
    alpha: Floats
    threshold: Floats
    stamp: Bits
    texts: TermVectors
    limits: Limits


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


DIGIT = 10


FEW = 64  # up to this many keys are sorted by insertion


BUCKET = 2  # cells of a bucket


LEAST_BUCKETS = 4  # buckets of a table


class Hits(NamedTuple):
    """Subscriptions that a message may enter, with its place in the batch, and its score there.

    In order of subscriptions, then of messages.
    """

    subscription: Rows
    arrival: Rows
    score: Floats


class WeightTables(NamedTuple):
    """A hash table a message: where it begins, its buckets less 1. By cell: a term or -1, its weight or 0."""

    start: Ints
    mask: Rows
    term: Rows
    weight: Floats


@njit(**EXACT)
def _sort_by(keys: Ints, sorted_keys: Ints, shift: int) -> None:
    """Sort keys by some of their bits, stably."""
    ends, mask = np.zeros((1 << DIGIT) + 1, np.int64), (1 << DIGIT) - 1
    for key in keys:
        ends[(key >> shift & mask) + 1] += 1
    for i in range(mask):
        ends[i + 1] += ends[i]
    for key in keys:
        digit = key >> shift & mask
        sorted_keys[ends[digit]] = key
        ends[digit] += 1


@njit(**EXACT)
def sort_keys(keys: Ints, low: int, most_low: int, most_high: int) -> Ints:
    """Sort keys stably by their bits from `low` on: those below `ROW` are less than `most_low`, and the row.

    Rows are less than `most_high`. Few keys are sorted by insertion, many by radix. Returns them, where they
    were or elsewhere; what they were in is used.
    """
    if keys.size <= FEW:
        for i in range(1, keys.size):
            key, at = keys[i], i
            while at > 0 and keys[at - 1] >> low > key >> low:
                keys[at] = keys[at - 1]
                at -= 1
            keys[at] = key
        return keys
    spare = np.empty_like(keys)
    for start, most in ((low, most_low - 1), (ROW, most_high - 1)):
        shift = 0
        while most >> shift > 0:
            _sort_by(keys, spare, start + shift)
            keys, spare = spare, keys
            shift += DIGIT
    return keys


@njit(**EXACT)
def sort_pairs(keys: Ints, arrivals: int, stamps: Bits) -> Ints:
    """The pairs of keys whose stamp is current, by subscription and message, each once. Changes `keys`.

    `arrivals` is how many messages there are, `stamps` are those of all subscriptions.
    """
    keys = sort_keys(keys, ARRIVAL, arrivals, stamps.size)
    count, former = 0, np.int64(-1)
    for key in keys:
        pair, current = key >> ARRIVAL, np.int64(stamps[np.uint64(key >> ROW)]) == key & 65535
        keys[count] = pair
        count += current and pair != former
        former = pair if current else former
    return keys[:count]


@njit(**EXACT)
def _bucket(term: int, mask: int) -> np.uint64:
    """The first cell of the bucket of a term, from the beginning of a table.

    Multiplicative hashing in 32 bits; the result is unsigned so that an index by it is not wrapped.
    """
    return np.uint64((np.uint32(np.uint32(term) * FACTOR) >> np.uint32(12)) & np.uint32(mask)) * np.uint64(
        BUCKET
    )


@njit(**EXACT)
def _fits(terms: Rows, begin: int, end: int, mask: int, taken: Rows) -> bool:
    """Whether no bucket of a table would get too many of some terms; `taken` is room for so many counts."""
    taken[: mask + 1] = 0
    most = 0
    for at in range(begin, end):
        bucket = _bucket(terms[at], mask) // np.uint64(BUCKET)
        taken[bucket] += 1
        most = max(most, taken[bucket])
    return most <= BUCKET


@njit(**EXACT)
def _tabulate(messages: MessageColumns) -> WeightTables:
    """Tables of the weights of messages; some one cell in four is taken."""
    rows, texts = messages.rows, messages.texts
    begins, sizes, terms, weights = texts
    starts, masks, total = np.empty(rows.size, np.int64), np.empty(rows.size, np.int32), 0
    taken = np.empty(LEAST_BUCKETS, np.int32)
    for i in range(rows.size):
        begin, buckets = begins[rows[i]], LEAST_BUCKETS
        end = begin + sizes[rows[i]]
        while buckets < sizes[rows[i]] or not _fits(terms, begin, end, buckets - 1, taken):
            buckets *= 2
            if buckets > taken.size:
                taken = np.empty(buckets, np.int32)
        starts[i], masks[i] = total, buckets - 1
        total += BUCKET * buckets
    held, weight = np.full(total, -1, np.int32), np.zeros(total)
    for i in range(rows.size):
        begin = begins[rows[i]]
        for at in range(begin, begin + sizes[rows[i]]):
            cell = np.uint64(starts[i]) + _bucket(terms[at], masks[i])
            while held[cell] >= 0:
                cell += np.uint64(1)
            held[cell], weight[cell] = terms[at], weights[at]
    return WeightTables(starts, masks, held, weight)


@njit(**EXACT)
def _weight(held: Rows, weight: Floats, cell: np.uint64, term: int) -> float:
    """The weight of a term in a bucket, 0 if it is not there; all of it is looked at, without a branch."""
    total = 0.0
    for slot in range(BUCKET):
        at = cell + np.uint64(slot)
        its, there = weight[at], held[at] == term
        total += its if there else 0.0
    return total


@njit(**EXACT)
def _has_terms(wanted: TermVectors, row: int, held: Rows, start: np.uint64, mask: int) -> bool:
    """Whether a message, by its table, has the terms that a subscription must have, and none it must not."""
    begins, sizes, terms, signs = wanted
    for at in range(begins[row], begins[row] + sizes[row]):
        cell, there = start + _bucket(terms[at], mask), False
        for slot in range(BUCKET):
            there = there or held[cell + np.uint64(slot)] == terms[at]
        if there != (signs[at] > 0.0):
            return False
    return True


@njit(**EXACT)
def score_pairs(
    keys: Ints,
    subscriptions: SubscriptionColumns,
    messages: MessageColumns,
    frame: Frame,
    current: bool,
    counters: Ints,
) -> Hits:
    """Score pairs given by sorted keys; those that reach the threshold of the subscription are hits.

    Adds the products of common terms in code point order, one after the other, as brute force does (a term
    that is not common adds 0). Indexes are unsigned: a signed one is tested whether it counts from the end.
    """
    reader_x, reader_y, reader_alpha, threshold, _, texts, limits = subscriptions
    rows, post_x, post_y, _, gains, _, time = messages
    limited = limits.radius.size > 0
    begins, sizes, terms, weights = texts
    starts, masks, held, weight = _tabulate(messages)
    owners, arrivals = np.empty(keys.size, np.int32), np.empty(keys.size, np.int32)
    scores = np.empty(keys.size)
    used, tried = 0, 0
    for key in keys:
        row, arrival = np.uint64(key >> (ROW - ARRIVAL)), np.uint64(key & 65535)
        alpha, bar, item = reader_alpha[row], threshold[row], np.uint64(rows[arrival])
        away = distance(frame.metric, reader_x[row], reader_y[row], post_x[item], post_y[item])
        near, cosine = nearness_of(away, frame.scale), 0.0
        gain = gains[item] if gains.size > 0 else 1.0
        if current and (alpha * near + (1.0 - alpha) + 1e-6) * gain < bar:
            continue
        if limited and (away > limits.radius[row] or time[item] < limits.since[row]):
            continue
        tried += 1
        begin, start, mask = np.uint64(begins[row]), np.uint64(starts[arrival]), masks[arrival]
        for at in range(begin, begin + np.uint64(sizes[row])):
            cell = start + _bucket(terms[at], mask)
            cosine += weights[at] * _weight(held, weight, cell, terms[at])
        score = alpha * near + (1.0 - alpha) * cosine
        if limited and not (score >= limits.score[row] and _has_terms(limits.terms, row, held, start, mask)):
            continue
        score *= gain
        owners[used], arrivals[used], scores[used] = row, arrival, score
        used += score >= bar
    counters[CANDIDATES] += keys.size
    counters[VERIFIED] += tried
    return Hits(owners[:used], arrivals[:used], scores[:used])


@njit(**EXACT)
def undecayed_scores(
    owners: Rows, items: Rows, subscriptions: SubscriptionColumns, messages: MessageColumns, frame: Frame
) -> Floats:
    """The scores of messages for subscriptions without decay."""
    reader_x, reader_y, reader_alpha, _, _, texts, _ = subscriptions
    _, post_x, post_y, others, _, _, _ = messages
    begins, sizes, terms, weights = texts
    their_begins, their_sizes, their_terms, their_weights = others
    scores = np.empty(owners.size)
    for i in range(owners.size):
        row, item, cosine = owners[i], items[i], 0.0
        start = their_begins[item]
        for at in range(begins[row], begins[row] + sizes[row]):
            for other in range(start, start + their_sizes[item]):
                if their_terms[other] == terms[at]:
                    cosine += weights[at] * their_weights[other]
        away = distance(frame.metric, reader_x[row], reader_y[row], post_x[item], post_y[item])
        scores[i] = reader_alpha[row] * nearness_of(away, frame.scale) + (1.0 - reader_alpha[row]) * cosine
    return scores
