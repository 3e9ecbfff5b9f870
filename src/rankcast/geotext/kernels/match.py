"""Message dissemination: which subscriptions some messages may enter, by upper bounds [Geo §5.4].

A few hundred messages are taken together, inverted by term (`BatchPostings`): the posting list of a term is
walked once, and each of its blocks is tested against all messages with that term while it is in the cache.
In this order:

- a block by its terms alone: messages that cannot pass are cut off by bisection;
- a block by its place alone (Lemma 6), then by its terms and its place (Theorem 3), all messages at once;
- the second half of a block in order, where its thresholds are above the block's bound (Theorem 4);
- an entry by its weights and the block's place (Theorem 1 with the outer spatial bound), and by its weights
  and its own place (where the paper adds an inner bound), a tile at once. Terms after the one by which they
  meet count only if both signatures have a bit in common.

A pair may meet at each of its common terms. The bound holds at the rarest of them (Theorem 2 with nothing
seen so far), so a pair that belongs in a result passes there; at the others it may pass or not.
`rankcast.geotext.kernels.pair_scores` sorts the candidates and scores each pair once. Each pruning can be
switched off. Thresholds are those at the start of the batch; they only rise meanwhile.

Messages stand in one order under every term: those first whose terms weigh most for their idf. A weight is
the idf of its term times a factor that is the same for all terms of a message (and how often the term
occurs), so under a term weights fall but for repetitions. `MAX_WEIGHT` and `MAX_REST` are suffix maxima: how
many messages may pass a bound by terms is then found by bisection.

Entries are tested in integers of 16 bits throughout: a tile is one vector instruction at a time, and no
branch waits for an outcome. All rounding is in favour of passing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.pair_scores import CELLS, GROUPS, score_pairs, sort_pairs, write_keys
from rankcast.geotext.kernels.phrases import OrderedWords, Phrases
from rankcast.geotext.kernels.postings import (
    ALPHA,
    AWAY,
    BLOCK,
    BOX,
    FACTS,
    FAR,
    FAR_ALONE,
    FAR_REST,
    HIGH_ALPHA,
    HIGH_SIGN,
    LOW_ALPHA,
    LOW_SIGN,
    MOST,
    MOST_REST,
    NEAR,
    NODE,
    PULL,
    PULL_REST,
    REST,
    STEP,
    THRESHOLD,
    WEIGHT,
    WITHIN,
    Postings,
    X,
    Y,
    Z,
    radix_sort,
)
from rankcast.geotext.kernels.score import (
    Bits,
    Floats32,
    Frame,
    Limits,
    Meaning,
    MessageColumns,
    Plain,
    SubscriptionColumns,
    TermVectors,
    alikeness,
    best_of_group,
    embed,
    named,
    nearness,
    rarest_first,
    round_nearest,
    share_of,
    signatures,
)
from rankcast.structures.arrays import borrowed, prefetch, with_room
from rankcast.structures.distance import EUCLIDEAN
from rankcast.structures.jit import EXACT

ZERO, ONE = np.float32(0.0), np.float32(1.0)
VECTOR_WIDTH = 16  # messages that are tested at once
HALF = 32768  # 1 in 15 bits
# Of a message under a term, as float32: the weight of the term, the length of the terms after it, the maxima
# of both from here on, the three coordinates of the place. As uint16: weight and length in 15 bits, rounded
# up; the coordinates in 15 bits; the two halves of the signature.
SHARE_WEIGHT, SHARE_REST, MAX_WEIGHT, MAX_REST, SHARE_X = range(5)
BIT_WEIGHT, BIT_REST, BIT_X, BIT_Y, BIT_Z, BIT_LOW, BIT_HIGH = range(7)

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class BatchPostings(NamedTuple):
    """Terms of some messages. By term: which, and where its messages begin.

    By message of a term, and for `VECTOR_WIDTH` more of padding: its place in the batch, and its numbers
    as float32 (`share`) and as uint16 (`bits`).
    """

    term: Rows
    first: Ints
    arrival: Rows
    share: Floats32
    bits: Bits


@njit(**EXACT)
def _count_terms(rows: Rows, texts: TermVectors, place: Rows) -> tuple[Rows, Ints]:
    """The distinct terms of messages and where the messages of each begin; `place` says so by term, too."""
    begins, sizes, terms, _ = texts
    total, count = 0, 0
    for row in rows:
        total += sizes[row]
        for i in range(begins[row], begins[row] + sizes[row]):
            place[terms[i]] = 0
    distinct = np.empty(total, np.int32)
    for row in rows:
        for i in range(begins[row], begins[row] + sizes[row]):
            if place[terms[i]] == 0:
                distinct[count] = terms[i]
                count += 1
            place[terms[i]] += 1
    first = np.zeros(count + 1, np.int64)
    for i in range(count):
        first[i + 1] = first[i] + place[distinct[i]]
        place[distinct[i]] = first[i]
    return distinct[:count], first


@njit(**EXACT)
def _heaviest_first(rows: Rows, texts: TermVectors, idf: Floats) -> Rows:
    """The places of messages in the batch, those first whose terms weigh most for their idf."""
    begins, sizes, terms, weights = texts
    order, keys = np.empty(rows.size, np.int32), np.empty(rows.size, np.int32)
    for i in range(rows.size):
        begin, least = begins[rows[i]], 1.0
        for at in range(begin, begin + sizes[rows[i]]):
            if idf[terms[at]] > 0.0:  # else it is the term of all messages
                least = min(least, weights[at] / idf[terms[at]])
        order[i], keys[i] = i, 65535 - round_nearest(least)
    radix_sort(order, keys, np.empty_like(order), 16)
    return order


@njit(**EXACT)
def _suffix_maxima(share: Floats32, first: Ints) -> None:
    """Write the maxima of weight and rest of the messages of a term, from each message on."""
    for which in range(first.size - 1):
        weight, rest = np.float32(0.0), np.float32(0.0)
        for at in range(first[which + 1] - 1, first[which] - 1, -1):
            weight, rest = max(weight, share[SHARE_WEIGHT, at]), max(rest, share[SHARE_REST, at])
            share[MAX_WEIGHT, at], share[MAX_REST, at] = weight, rest


@njit(**EXACT)
def invert_batch(
    rows: Rows, x: Floats, y: Floats, texts: TermVectors, idf: Floats, frame: Frame, place: Rows
) -> BatchPostings:
    """Invert the messages of some rows by term; `place` is scratch by term."""
    terms, first = _count_terms(rows, texts, place)
    size = first[-1] + VECTOR_WIDTH
    arrivals = np.zeros(size, np.int32)
    share, bits = np.zeros((SHARE_X + 3, size), np.float32), np.zeros((BIT_HIGH + 1, size), np.uint16)
    for arrival in _heaviest_first(rows, texts, idf):
        row = rows[arrival]
        term, weight, rest = rarest_first(texts, row, idf)
        if term.size > 0 and idf[term[-1]] == 0.0:
            weight[-1] = 1.0  # of the term of all messages: whoever wants it counts the place alone
        spot, sign = embed(frame, x[row], y[row]), signatures(term)
        for i in range(term.size):
            at = place[term[i]]
            place[term[i]] = at + 1
            arrivals[at], share[SHARE_WEIGHT, at], share[SHARE_REST, at] = arrival, weight[i], rest[i]
            bits[BIT_WEIGHT, at], bits[BIT_REST, at] = int(weight[i] * HALF) + 2, int(rest[i] * HALF) + 2
            bits[BIT_LOW, at], bits[BIT_HIGH, at] = sign[i] & 65535, sign[i] >> 16
            for axis in range(3):
                share[SHARE_X + axis, at], bits[BIT_X + axis, at] = spot[axis], round_nearest(spot[axis]) >> 1
    _suffix_maxima(share, first)
    return BatchPostings(terms, first, arrivals, share, bits)


ALL_BITS = np.uint16(65535)
NEAREST = np.uint16(HALF + 4)  # how near a message is at best, in 15 bits
MAX_SHIFT = 14  # of a gap: a longer reach prunes as much
ALIKE_SLACK, SLACK = np.uint16(5), np.uint16(5)  # what rounding may have taken
NO_BITS = np.uint16(0)


class TileTest(NamedTuple):
    """Constants of the test of a tile, as uint16.

    The reach of a gap: a factor below 1, then a shift to the left, of no more than `most`, which gives 1 in
    15 bits at the most; the nearness of no gap, with what rounding may have added to one. The factor of the
    sum of gaps, and the highest threshold that counts (0 if the test is off).
    """

    reach: np.uint16
    shift: np.uint16
    most: np.uint16
    nearest: np.uint16
    slant: np.uint16
    threshold: np.uint16


@njit(**EXACT)
def tile_test(frame: Frame, inner: bool, prefix: bool) -> TileTest:
    """A distance is at least the sum of its gaps over the root of how many there are.

    A gap is rounded up by less than 2 units, as many times as its reach.
    """
    slant = 0.7071 if frame.metric == EUCLIDEAN else 0.5773
    reach, shift = float(frame.reach), 0
    while reach > 1.0 and shift < MAX_SHIFT:
        reach, shift = reach / 2, shift + 1
    share = np.uint16(min(reach, 1.0) * 65535.0) if inner else NO_BITS
    nearest = np.uint16(min(65535, HALF + 2 + (2 << shift)))
    return TileTest(
        share, np.uint16(shift), np.uint16(HALF >> shift), nearest, np.uint16(slant * 65536.0),
        ALL_BITS if inner or prefix else NO_BITS,
    )  # fmt: skip


@njit(**EXACT)
def _multiply_high(one: np.uint16, other: np.uint16) -> np.uint16:
    """The product of two shares of 16 bits: the upper half of a product in 32 bits, hence the casts."""
    return np.uint16((np.uint32(one) * np.uint32(other)) >> np.uint32(16))


@njit(**EXACT)
def _gap(one: int | np.uint16, other: np.uint16) -> np.uint16:
    """The distance of two unsigned numbers: a plain difference could wrap."""
    one = np.uint16(one)
    return np.uint16(max(one, other) - min(one, other))


@njit(**EXACT)
def _entries_passing(
    fact: Bits, tile: np.uint64, bits: Bits, its: np.uint64, near: np.uint16, test: TileTest, blank: Bits
) -> np.uint16:
    """Which entries of a tile a message may pass the thresholds of, a bit each.

    Every intermediate is cast back to uint16: Numba would widen it to 64 bits, and a tile would no longer be
    one vector instruction. A distance is bounded by the largest gap along an axis and by the sum of the gaps.
    Of `common` and its negative (which wraps, on purpose) one has the highest bit, unless it is 0; a branch
    would cost more. All rounding is in favour of passing. `blank` is zeros, two by lane, for one message and
    the next: OR-ed with one, a number that all lanes share stays one of 16 bits, and a product of two is one
    instruction instead of six.
    """
    found = NO_BITS
    weight, rest, low, high = (
        bits[BIT_WEIGHT, its],
        bits[BIT_REST, its],
        bits[BIT_LOW, its],
        bits[BIT_HIGH, its],
    )
    x, y, z = bits[BIT_X, its], bits[BIT_Y, its], bits[BIT_Z, its]
    reach, shift, most, nearest, slant, highest = test
    for lane in range(STEP):
        east, north = _gap(fact[tile, X, lane] >> 1, x), _gap(fact[tile, Y, lane] >> 1, y)
        up, zero = _gap(fact[tile, Z, lane] >> 1, z), blank[its & np.uint64(1), lane]
        far = max(east, north, up, _multiply_high(np.uint16(east + north + up), np.uint16(slant | zero)))
        short = np.uint16(min(_multiply_high(far, np.uint16(reach | zero)), most) << shift)
        close = min(np.uint16(nearest - short), near)
        common = np.uint16((fact[tile, LOW_SIGN, lane] & low) | (fact[tile, HIGH_SIGN, lane] & high))
        others = _multiply_high(fact[tile, REST, lane], np.uint16(rest | zero))
        others = min(others, np.uint16(common | np.uint16(0 - common)))
        alike = np.uint16(
            _multiply_high(fact[tile, WEIGHT, lane], np.uint16(weight | zero)) + others + ALIKE_SLACK
        )
        alpha = fact[tile, ALPHA, lane]
        score = np.uint16(
            _multiply_high(np.uint16(ALL_BITS - alpha), alike) + _multiply_high(alpha, close) + SLACK
        )
        bar, bit = (
            min(np.uint16(fact[tile, THRESHOLD, lane] >> 1), highest),
            np.uint16(np.uint16(1) << np.uint16(lane)),
        )
        found = np.uint16(found | (bit if score >= bar else NO_BITS))
    return found


@njit(**EXACT)
def test_entries(
    fact: Bits, at: int, end: int, passed: Rows, size: int, bits: Bits, first: int, nears: Floats32,
    bests: Floats32, test: TileTest, blank: Bits, prefix: bool, stop: bool, masks: Ints,
) -> None:  # fmt: skip
    """Write which entries of a block each message that passes its bounds may pass, a bit each.

    Without a branch: one that waits for the outcome would cost more than both tiles. (Arrays are passed one
    by one: Numba would count references of the arrays of a tuple, block by block.)
    """
    tile, valid = np.uint64(at // STEP), (np.int64(1) << (end - at)) - 1
    other = tile + np.uint64(end > at + STEP)
    bar = share_of(fact[other, THRESHOLD, 0]) if stop else ZERO  # the least of the second half
    for j in range(size):
        i = np.uint64(passed[j])
        its, near = np.uint64(first) + i, nears[i]
        close = np.uint16(min(max(near * HALF + 3, 0.0), float(NEAREST))) if prefix else NEAREST
        found = np.int64(_entries_passing(fact, tile, bits, its, close, test, blank))
        more = np.int64(_entries_passing(fact, other, bits, its, close, test, blank)) << STEP
        masks[j] = (found | (more if bar <= bests[i] else np.int64(0))) & valid  # Theorem 4


FIRST_KEYS = 4096  # room for candidates to begin with
AHEAD, LINE = 8, 64  # terms whose first blocks are prefetched; bytes of a cache line


class Prunings(NamedTuple):
    """Which prunings are on."""

    cell: bool
    group: bool
    stop: bool
    prefix: bool
    outer: bool
    inner: bool
    current: bool


@njit(**EXACT)
def _prefetch_block(block: int, fact: Bits, node: Floats32) -> None:
    """Prefetch a block: its node and its two tiles."""
    prefetch(node, block * NODE)
    prefetch(node, block * NODE + NODE - 1)
    for at in range(block * FACTS * STEP, (block + 2) * FACTS * STEP, LINE // 2):
        prefetch(fact, at)


@njit(**EXACT)
def _passing_prefix(share: Floats32, first: int, last: int, pull: np.float32, pull_rest: np.float32) -> int:
    """How many messages of a term, from its first on, may have what a block needs of terms."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        at = np.uint64(middle)
        if pull * share[MAX_WEIGHT, at] + pull_rest * share[MAX_REST, at] >= ONE:
            low = middle + 1
        else:
            high = middle
    return low - first


@njit(**EXACT)
def _block_bounds(
    node: Floats32, block: int, reach: np.float32, on: Prunings, share: Floats32, first: int, size: int,
    nears: Floats32, margins: Floats32, bests: Floats32,
) -> None:  # fmt: skip
    """Say by how much each message of a term passes the bounds of a block, how near it is, its best score.

    The largest radius of a block is one of its bounds: whatever is farther passes by nothing.

    Nothing but arithmetic on floats of one width, so that eight messages are one instruction. The last
    `WIDTH` are looked at as a whole.
    """
    no_cell = ZERO if on.cell else np.float32(np.inf)
    no_group = ZERO if on.group else np.float32(np.inf)
    away_counts = ONE if on.outer else ZERO
    pull, pull_rest, least, away = (
        node[block, PULL],
        node[block, PULL_REST],
        node[block, NEAR],
        node[block, AWAY],
    )
    far, far_rest, alone = node[block, FAR], node[block, FAR_REST], node[block, FAR_ALONE]
    most, most_rest = node[block, MOST], node[block, MOST_REST]
    low, high, within = node[block, LOW_ALPHA], node[block, HIGH_ALPHA], node[block, WITHIN]
    west, south, bottom = node[block, BOX], node[block, BOX + 1], node[block, BOX + 2]
    east, north, top = node[block, BOX + 3], node[block, BOX + 4], node[block, BOX + 5]
    for i in range((size + VECTOR_WIDTH - 1) // VECTOR_WIDTH * VECTOR_WIDTH):
        at = np.uint64(first + i)
        x, y, z = share[SHARE_X, at], share[SHARE_X + 1, at], share[SHARE_X + 2, at]
        weight, rest = share[SHARE_WEIGHT, at], share[SHARE_REST, at]
        a, b, c = (
            max(ZERO, west - x, x - east),
            max(ZERO, south - y, y - north),
            max(ZERO, bottom - z, z - top),
        )
        near = nearness(reach, a * a + b * b + c * c)
        short = away_counts * (ONE - max(ZERO, near))
        words = pull * weight + pull_rest * rest - (ONE + away * short)
        both = min(words, far * weight + far_rest * rest + alone - short)
        nears[i] = ONE - short
        margins[i] = min(nears[i] - least + no_cell, near - within + no_cell, both + no_group)
        bests[i] = best_of_group(low, high, nears[i], alikeness(most, most_rest, weight, rest))


@njit(**EXACT)
def _messages_passing(
    nears: Floats32, margins: Floats32, least: np.float32, size: int, found: Rows, counters: Ints
) -> int:
    """Find which messages pass the bounds of a block, without a branch; returns how many."""
    count, cells = 0, 0
    for i in range(size):
        cells += nears[i] < least
    for i in range(size):
        found[count] = i
        count += margins[i] >= ZERO
    counters[CELLS] += cells
    counters[GROUPS] += size - count - cells
    return count


@njit(**EXACT)
def _find_candidates(
    lists: Postings, messages: MessageColumns, idf: Floats, place: Rows, frame: Frame, on: Prunings,
    most: int, radius: Floats, counters: Ints,
) -> tuple[Ints, int | np.int64]:  # fmt: skip
    """Keys of the pairs that pass: the subscription, the message's place in the batch, the stamp.

    A pair may come several times. `place` is room by term. Returns how many keys there are, too; -1 if there
    may be more than `most`.
    """
    terms, firsts, arrivals, share, bits = invert_batch(
        messages.rows, messages.x, messages.y, messages.texts, idf, frame, place
    )
    begins, mains, _, sizes, _, _, rows, fact, node = lists
    room, reach, test, count = arrivals.size, frame.reach, tile_test(frame, on.inner, on.prefix), np.int64(0)
    nears, margins, bests = np.empty(room, np.float32), np.empty(room, np.float32), np.empty(room, np.float32)
    found, masks, blank = np.empty(room, np.int32), np.empty(room, np.int64), np.zeros((2, STEP), np.uint16)
    keys, spot = np.empty(min(most, FIRST_KEYS), np.int64), share[SHARE_X:]
    for which in range(terms.size):
        if which + AHEAD < terms.size:
            _prefetch_block(begins[terms[which + AHEAD]] // STEP, fact, node)
        first, last, begin = firsts[which], firsts[which + 1], begins[terms[which]]
        after, ordered = begin + sizes[terms[which]], begin + mains[terms[which]]
        for at in range(begin, after, BLOCK):
            block, could, end = at // STEP, last - first, min(at + BLOCK, after)
            if on.group:
                could = _passing_prefix(share, first, last, node[block, PULL], node[block, PULL_REST])
                counters[GROUPS] += last - first - could
            if could == 0:
                continue
            _block_bounds(node, block, reach, on, share, first, could, nears, margins, bests)
            least = node[block, NEAR] if on.cell else np.float32(-np.inf)
            passed = _messages_passing(nears, margins, least, could, found, counters)
            if passed > 0:
                if count + passed * BLOCK > most:
                    return keys, np.int64(-1)
                keys = with_room(keys, count + passed * BLOCK)
                stop = on.stop and at + STEP < end <= ordered
                test_entries(
                    fact, at, end, found, passed, bits, first, nears, bests, test, blank, on.prefix, stop,
                    masks,
                )  # fmt: skip
                count = write_keys(
                    rows, fact, at, found, passed, arrivals, first, masks, spot, radius, frame.scale, reach,
                    keys, count,
                )  # fmt: skip
    return keys, count


@njit(**EXACT)
def disseminate(
    lists: Postings, rows: Rows, readers: Plain, interests: TermVectors, limits: Plain, places: Plain,
    posts: TermVectors, idf: Floats, scratch: Rows, plain_frame: Plain, plain_on: Plain, most: int,
    counters: Ints,
) -> tuple[bool, Rows, Rows, Floats]:  # fmt: skip
    """The fields of the `Hits` of messages; False if they have more than `most` candidates.

    All tuples are plain, and flat: `readers` are the fields of `SubscriptionColumns` beside texts and limits,
    and `places` those of `MessageColumns` beside rows and texts. `scratch` is room by term.
    """
    x, y, gain, top, time = places
    reader_x, reader_y, alpha, threshold, stamp, beta, mine, theirs = readers
    texts, meaning = borrowed(posts), Meaning(beta, borrowed(mine), borrowed(theirs))
    messages = MessageColumns(
        borrowed(rows), borrowed(x), borrowed(y), texts, borrowed(gain), top, borrowed(time)
    )
    radius, least, since, begin, size, term, weight, a, b, c, d, e, f = borrowed(limits)
    phrases = Phrases(OrderedWords(a, b, c), OrderedWords(d, e, f))
    limited = Limits(radius, least, since, TermVectors(begin, size, term, weight), phrases)
    subscriptions = SubscriptionColumns(
        borrowed(reader_x), borrowed(reader_y), borrowed(alpha), borrowed(threshold), borrowed(stamp),
        borrowed(interests), limited, meaning,
    )  # fmt: skip
    frame, counted, on = named(plain_frame), np.zeros_like(counters), Prunings(*plain_on)
    keys, pairs = _find_candidates(
        borrowed(lists),
        messages,
        borrowed(idf),
        borrowed(scratch),
        frame,
        on,
        most,
        radius,
        borrowed(counted),
    )
    if pairs < 0:
        return False, rows[:0], rows[:0], x[:0]
    ordered = sort_pairs(keys[:pairs], rows.size, subscriptions.stamp)
    owners, arrivals, scores = score_pairs(
        ordered, subscriptions, messages, frame, on.current, borrowed(counted)
    )
    for i in range(counters.size):
        counters[i] += counted[i]
    return True, owners, arrivals, scores
