"""The best messages of the window for a subscription: best-first search in the posting lists of its terms.

Every region of the lists of the subscription's terms gets the upper bound of its node. A heap gives them out
best first, regions by cells and cells by blocks, until the best bound is below the last score wanted. The
entries of a block are tested by what the postings know of them, and candidates that may be good enough are
scored. Equal scores: the newer message first. (Where scores decay, all bounds are for the largest gain in
the window.)

A message is met in the list of each term it shares with the subscription. Its score is bounded where it
shares the rarest: there its other terms can add as much as the length of the rest times that of those of the
subscription's other terms that its signature allows (Cauchy and Schwarz). At its other terms it may pass or
not; when it is scored again, it is in its place already.

Without prefetching a search would wait for memory most of the time: a block lies anywhere, and so do the
columns of each message in it. So the next block is prefetched while one is tested, and messages are
prefetched when they become candidates, but scored when there are several. The last score wanted may so be
lower than it could be.

Cost: O(r) for the r regions of its terms, and the entries of the best of them, `STEP` at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.arrange import slot_of
from rankcast.geotext.kernels.phrases import says
from rankcast.geotext.kernels.postings import (
    BLOCK,
    CELL,
    LOW,
    MESSAGE_BOX,
    MESSAGE_FACTS,
    MOST,
    MOST_REST,
    REGION,
    REST,
    STAMP,
    STEP,
    WEIGHT,
    Ages,
    Postings,
    X,
    Y,
    Z,
    last_of_source,
    newer,
)
from rankcast.geotext.kernels.score import (
    SLACK,
    Bits,
    Floats32,
    Frame,
    MessageColumns,
    Scratch,
    SubscriptionColumns,
    TermVectors,
    alikeness,
    best_score,
    bit_of,
    embed,
    nearness,
    nearness_of,
    nearness_within,
    rarest_first,
    share_of,
    text_score,
    without_vectors,
)
from rankcast.structures.arrays import prefetch
from rankcast.structures.distance import distance
from rankcast.structures.heap import pop, push
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
CAPACITY = 2 * BLOCK
LINE_WEIGHTS = 8  # weights in a cache line
LINE = 64  # bytes of a cache line
NONE = np.float32(-1.0)  # below all scores
EARLIEST = np.iinfo(np.int64).min


class SearchTerm(NamedTuple):
    """One term of the subscription searched for: its weight, the length of the rest; place, alpha, reach.

    `floor` is the least nearness within its radius, before it is cut off at 0.
    """

    weight: np.float32
    rest: np.float32
    x: np.float32
    y: np.float32
    z: np.float32
    alpha: np.float32
    reach: np.float32
    floor: np.float32


class Wanted(NamedTuple):
    """The subscription searched for: place, alpha, radius, least score and time, and whether it has no words.

    Where the terms are that a message must or must not have, its row, and `without_vectors` of it.
    """

    x: float
    y: float
    alpha: float
    radius: float
    score: float
    since: int
    everywhere: bool
    begin: int
    end: int
    row: int
    share: float
    lift: float


class Frontier(NamedTuple):
    """Nodes met in a search: term and entries of each; and a heap of nodes, the highest upper bound on top.

    Keys are upper bounds, negated; entries are nodes by the order in which they were met.
    """

    term: Rows
    start: Ints
    end: Ints
    key: Floats32
    number: Rows


@njit(**EXACT)
def load_vector(scratch: Scratch, term: Rows, weight: Floats) -> None:
    """Write a vector into `scratch`."""
    weights, places = scratch
    for i in range(term.size):
        weights[term[i]], places[term[i]] = weight[i], i


@njit(**EXACT)
def clear_vector(scratch: Scratch, term: Rows) -> None:
    """Clear a vector from `scratch`."""
    weights, _ = scratch
    for i in range(term.size):
        weights[term[i]] = 0.0


@njit(**EXACT)
def frontier_size(lists: Postings, texts: TermVectors, rows: Rows) -> int:
    """How many nodes a search may meet for one of some subscriptions: less than twice the blocks."""
    begins, sizes, terms, _ = texts
    most, lengths = 0, lists.size
    for row in rows:
        room = 0
        for at in range(begins[row], begins[row] + sizes[row]):
            room += 2 * (lengths[terms[at]] // BLOCK + 1)
        most = max(most, room)
    return most


@njit(**EXACT)
def prefetch_block(rows: Rows, fact: Bits, start: int) -> None:
    """Prefetch the facts (8 numbers of 2 bytes an entry) and the rows of a block, line by line."""
    for offset in range(0, BLOCK * MESSAGE_FACTS, LINE // 2):
        prefetch(fact, start * MESSAGE_FACTS + offset)
    for offset in range(0, BLOCK, LINE // 4):
        prefetch(rows, start + offset)


@njit(**EXACT)
def _node_bound(node: Floats32, at: int, target: SearchTerm) -> np.float32:
    """The best score that a node allows; below all scores if it is beyond the radius."""
    square, spot = np.float32(0.0), (target.x, target.y, target.z)
    for axis in range(3):
        short = max(node[at, MESSAGE_BOX + axis] - spot[axis], spot[axis] - node[at, MESSAGE_BOX + 3 + axis])
        short = max(short, np.float32(0.0))
        square += short * short
    alike = alikeness(node[at, MOST], node[at, MOST_REST], target.weight, target.rest)
    near = nearness(target.reach, square)
    return best_score(target.alpha, max(np.float32(0.0), near), alike) if near >= target.floor else NONE


@njit(**EXACT)
def push_nodes(
    node: Floats32, start: int, end: int, step: int, place: int, target: SearchTerm, frontier: Frontier,
    size: int, used: int, least: float,
) -> tuple[int, int]:  # fmt: skip
    """Push the nodes of a stretch, `step` entries each, whose upper bounds reach `least`.

    Returns the size of the heap and how many nodes were met so far.
    """
    terms, starts, ends, keys, numbers = frontier
    for first in range(start, end, step):
        after = min(first + step, end)
        best = _node_bound(node, slot_of(first, after), target)
        if best >= least:
            terms[used], starts[used], ends[used] = place, first, after
            size, used = push(keys, numbers, size, -best, used), used + 1
    return size, used


class Candidates(NamedTuple):
    """Candidates of a search: entries, upper bounds, messages, where their terms lie; spare lanes."""

    entry: Ints
    best: Floats32
    item: Rows
    begin: Ints
    end: Ints
    spare: Floats32


@njit(**EXACT)
def empty_candidates() -> Candidates:
    """Arrays for the candidates of a block, and for as many from before."""
    entries, bests = np.empty(CAPACITY + 1, np.int64), np.empty(CAPACITY + 1, np.float32)
    items, begins = np.empty(CAPACITY + 1, np.int32), np.empty(CAPACITY + 1, np.int64)
    return Candidates(entries, bests, items, begins, np.empty_like(begins), np.empty(STEP, np.float32))


@njit(**EXACT)
def add_candidates(
    fact: Bits, start: int, end: int, target: SearchTerm, bits: Rows, squares: Floats32, place: int,
    least: float, candidates: Candidates, count: int,
) -> int:  # fmt: skip
    """Add the entries of a block whose bounds reach `least` to `count` candidates; returns their number.

    `bits` and `squares` are of the subscription's terms: where in a sign they are, and their weights.
    """
    entries, bests, _, _, _, spare = candidates
    own, rest, x, y, z, alpha, reach, floor = target
    for first in range(start, end, STEP):
        tile = first // STEP
        for lane in range(STEP):
            spare[lane] = np.float32(0.0)
        for j in range(place + 1, bits.size):
            column, bit, square = LOW + bits[j] // 16, np.uint16(1 << bits[j] % 16), squares[j]
            for lane in range(STEP):
                spare[lane] += square if fact[tile, column, lane] & bit != 0 else np.float32(0.0)
        for lane in range(STEP):
            others = min(rest, np.sqrt(spare[lane]))
            alike = alikeness(
                share_of(fact[tile, WEIGHT, lane]), share_of(fact[tile, REST, lane]), own, others
            )
            east, north = share_of(fact[tile, X, lane]) - x, share_of(fact[tile, Y, lane]) - y
            up = share_of(fact[tile, Z, lane]) - z
            near = nearness(reach, east * east + north * north + up * up)
            best = best_score(alpha, max(np.float32(0.0), near), alike)
            spare[lane] = best if near >= floor else NONE
        for lane in range(min(STEP, end - first)):
            entries[count], bests[count] = first + lane, spare[lane]
            count += spare[lane] >= least
    return count


@njit(**EXACT)
def prefetch_messages(
    rows: Rows, current: Bits, messages: MessageColumns, candidates: Candidates, first: int, count: int
) -> None:
    """Look up the messages of candidates, from `first` on, and prefetch their columns."""
    entries, _, items, _, _, _ = candidates
    _, x, y, (begins, sizes, _, _), _, _, _ = messages
    for i in range(first, count):
        item = rows[entries[i]]
        items[i] = item
        prefetch(begins, item)
        prefetch(sizes, item)
        prefetch(current, item)
        prefetch(x, item)
        prefetch(y, item)


@njit(**EXACT)
def prefetch_terms(
    fact: Bits, current: Bits, messages: MessageColumns, candidates: Candidates, filled: int
) -> int:
    """Drop the candidates that are void, and prefetch the terms of the others; returns how many."""
    entries, bests, items, firsts, ends, _ = candidates
    begins, sizes, terms, weights = messages.texts
    count = 0
    for i in range(filled):
        at, item = entries[i], items[i]
        begin = begins[item]
        items[count], bests[count] = item, bests[i]
        firsts[count], ends[count] = begin, begin + sizes[item]
        count += fact[at // STEP, STAMP, at % STEP] == current[item]
        prefetch(terms, begin)
        prefetch(terms, begin + LINE_WEIGHTS)
        prefetch(weights, begin)
        prefetch(weights, begin + LINE_WEIGHTS)
    return count


@njit(**EXACT)
def load_candidates(items: Rows, messages: MessageColumns, candidates: Candidates) -> None:
    """Make some messages, at most `CAPACITY`, the candidates, and prefetch their terms."""
    _, bests, filled, firsts, ends, _ = candidates
    begins, sizes, terms, weights = messages.texts
    for i in range(items.size):
        begin = begins[items[i]]
        filled[i], bests[i], firsts[i], ends[i] = items[i], np.inf, begin, begin + sizes[items[i]]
        prefetch(terms, begin)
        prefetch(terms, begin + LINE_WEIGHTS)
        prefetch(weights, begin)
        prefetch(weights, begin + LINE_WEIGHTS)


SEARCH_COST, BLOCK_COST, SCORE_COST = 1000, 64, 16  # estimated work of a search, a block, a score
SCORE_BATCH = 16  # messages that are scored together; at most `BLOCK`


class SearchResults(NamedTuple):
    """By subscription: its best messages, best first, their scores, how many, and how much work it was."""

    item: NDArray[np.int32]
    score: NDArray[np.float64]
    size: Rows
    work: Ints


class Best(NamedTuple):
    """The best messages so far, best first, and their scores."""

    item: Rows
    score: Floats


@njit(**EXACT)
def _has_terms(limits: TermVectors, first: int, last: int, terms: Rows, begin: int, end: int) -> bool:
    """Whether the terms of a message at begin..end have those that they must, and none that they must not."""
    for at in range(first, last):
        there = False
        for i in range(begin, end):
            there = there or terms[i] == limits.term[at]
        if there != (limits.weight[at] > 0.0):
            return False
    return True


@njit(**EXACT)
def wanted_by(row: int, subscriptions: SubscriptionColumns, idf: Floats) -> Wanted:
    """What a subscription asks for."""
    x, y, alphas, _, _, (begins, sizes, terms, _), limits, meaning = subscriptions
    everywhere = sizes[row] > 0 and idf[terms[begins[row]]] == 0.0
    everywhere = everywhere or (meaning.mine.shape[0] > 0 and meaning.beta == 1.0)
    share, lift = without_vectors(meaning, alphas[row])
    if limits.radius.size == 0:
        return Wanted(x[row], y[row], alphas[row], np.inf, 0.0, EARLIEST, everywhere, 0, 0, row, share, lift)
    begin = limits.terms.begin[row]
    return Wanted(
        x[row], y[row], alphas[row], limits.radius[row], limits.score[row], limits.since[row], everywhere,
        begin, begin + limits.terms.size[row], row, share, lift,
    )  # fmt: skip


@njit(**EXACT)
def score_candidates(
    candidates: Candidates, filled: int, query: Wanted, subscriptions: SubscriptionColumns,
    messages: MessageColumns, ages: Ages, scratch: Scratch, frame: Frame, board: Best, count: int,
) -> int:  # fmt: skip
    """Score messages and keep the best; returns how many there are.

    Adds the products of terms in code point order, one after the other, as brute force does (a term that is
    not common adds 0). A message that was met before is found in its place. Of a source no more are kept than
    a list may have: a better one takes the place of the last of them.
    """
    _, bests, fetched, firsts, ends, _ = candidates
    _, post_x, post_y, (_, _, terms, weights), gains, top, _ = messages
    noted, _ = scratch
    items, scores = board
    time, arrival, _, _, source, _, per_source = ages
    x, y, alpha, radius, least, since, everywhere, first, last, row, share, lift = query
    (_, _, _, limits, phrases), meaning = subscriptions.limits, subscriptions.meaning
    for i in range(filled):
        item, cosine = fetched[i], 0.0
        if count == items.size and (bests[i] * share + lift) * top < scores[count - 1]:
            continue
        for at in range(np.uint64(firsts[i]), np.uint64(ends[i])):
            cosine += weights[at] * noted[np.uint32(terms[at])]
        if cosine <= 0.0 and not everywhere:
            continue
        away = distance(frame.metric, x, y, post_x[item], post_y[item])
        text = text_score(meaning, row, item, cosine)
        score = alpha * nearness_of(away, frame.scale) + (1.0 - alpha) * text
        if away > radius or score < least or time[item] < since:
            continue
        if last > first and not _has_terms(limits, first, last, terms, firsts[i], ends[i]):
            continue
        if not says(phrases, row, item):
            continue
        score *= gains[item] if gains.size > 0 else 1.0
        at = count
        while at > 0 and (
            scores[at - 1] < score or (scores[at - 1] == score and newer(time, arrival, item, items[at - 1]))
        ):
            at -= 1
        if at == items.size or (at > 0 and items[at - 1] == item):
            continue
        end = last_of_source(items, 0, count, source, item, per_source) if per_source > 0 else -1
        if 0 <= end < at:  # the list has as many of its source, all better
            continue
        if end < 0:
            count = min(count + 1, items.size)
            end = count - 1
        for after in range(end, at, -1):
            items[after], scores[after] = items[after - 1], scores[after - 1]
        items[at], scores[at] = item, score
    return count


@njit(**EXACT)
def _score_seeds(
    suggested: int, query: Wanted, subscriptions: SubscriptionColumns, messages: MessageColumns, ages: Ages,
    scratch: Scratch, frame: Frame, candidates: Candidates, board: Best,
) -> int:  # fmt: skip
    """Score the messages that a search starts with, some at a time; returns how many share a term."""
    count = 0
    for start in range(0, suggested, CAPACITY):
        end = min(start + CAPACITY, suggested)
        load_candidates(board.item[start:end], messages, candidates)
        count = score_candidates(
            candidates, end - start, query, subscriptions, messages, ages, scratch, frame, board, count
        )
    return count


@njit(**EXACT)
def _needed(score: float, least: float, query: Wanted) -> float:
    """What bounds by terms and place must reach for a score, and for the least one."""
    return (max(score, least) - query.lift) / query.share


@njit(**EXACT)
def _search(
    lists: Postings, row: int, subscriptions: SubscriptionColumns, messages: MessageColumns, ages: Ages,
    idf: Floats, scratch: Scratch, frame: Frame, frontier: Frontier, candidates: Candidates, board: Best,
    suggested: int,
) -> tuple[int, int]:  # fmt: skip
    """Find as many messages as `board` holds for one subscription; returns how many, and the work."""
    begins, mains, _, sizes, _, _, rows, fact, node = lists
    parts_term, parts_start, parts_end, keys, numbers = frontier
    top, current = messages.top, ages.stamp
    query = wanted_by(row, subscriptions, idf)
    alpha, spot = np.float32(query.alpha / query.share), embed(frame, query.x, query.y)
    floor = nearness_within(query.radius, frame.scale)
    x, y, z = np.float32(spot[0]), np.float32(spot[1]), np.float32(spot[2])
    term, weight, rest = rarest_first(subscriptions.texts, row, idf)
    bits, squares = np.empty(term.size, np.int32), np.empty(term.size, np.float32)
    load_vector(scratch, term, weight)
    size, used, work, full = 0, 0, SEARCH_COST, board.item.size
    count = _score_seeds(suggested, query, subscriptions, messages, ages, scratch, frame, candidates, board)
    least = max(query.score - float(SLACK), 0.0)  # no score is below 0
    bar = _needed(board.score[count - 1] / top if count == full else least, least, query)
    for i in range(term.size):
        bits[i], squares[i] = bit_of(term[i]), weight[i] * weight[i]
        target = SearchTerm(np.float32(weight[i]), np.float32(rest[i]), x, y, z, alpha, frame.reach, floor)
        begin, main, end = begins[term[i]], mains[term[i]], begins[term[i]] + sizes[term[i]]
        ordered = begin + (main if begin + main == end else main // BLOCK * BLOCK)
        step = REGION if main > REGION else CELL if main > CELL else BLOCK
        for start, after, length in ((begin, ordered, step), (ordered, end, BLOCK)):
            size, used = push_nodes(node, start, after, length, i, target, frontier, size, used, bar)
    filled = 0
    while True:
        ends = size == 0 or -keys[0] < bar
        if filled >= SCORE_BATCH or (filled > 0 and (ends or count < full)):
            filled = prefetch_terms(fact, current, messages, candidates, filled)
            count = score_candidates(
                candidates, filled, query, subscriptions, messages, ages, scratch, frame, board, count
            )
            bar = _needed(board.score[count - 1] / top, least, query) if count == full else bar
            work, filled = work + SCORE_COST * filled, 0
            continue
        if ends:
            break
        number = numbers[0]
        i, start, end = parts_term[number], parts_start[number], parts_end[number]
        target = SearchTerm(np.float32(weight[i]), np.float32(rest[i]), x, y, z, alpha, frame.reach, floor)
        size = pop(keys, numbers, size)
        if size > 0:
            prefetch_block(rows, fact, parts_start[numbers[0]])
        if end - start > BLOCK:
            step = CELL if end - start > CELL else BLOCK
            size, used = push_nodes(node, start, end, step, i, target, frontier, size, used, bar)
            continue
        work, before = work + BLOCK_COST, filled
        filled = add_candidates(fact, start, end, target, bits, squares, i, bar, candidates, before)
        prefetch_messages(rows, current, messages, candidates, before, filled)
    clear_vector(scratch, term)
    return count, work


@njit(**EXACT)
def best_messages(
    lists: Postings, rows: Rows, wanted: Rows, subscriptions: SubscriptionColumns, messages: MessageColumns,
    ages: Ages, idf: Floats, scratch: Scratch, frame: Frame, found: SearchResults,
) -> None:  # fmt: skip
    """Find the `wanted[i]` best messages of the window for each subscription of `rows`.

    Messages that are in `found` already show how good the best are at least. `work` is in steps like those of
    a buffer's upkeep.
    """
    room = frontier_size(lists, subscriptions.texts, rows)
    starts, ends, keys = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.float32)
    frontier = Frontier(np.empty(room, np.int32), starts, ends, keys, np.empty(room, np.int32))
    candidates = empty_candidates()
    for which in range(rows.size):
        board = Best(found.item[which, : wanted[which]], found.score[which, : wanted[which]])
        found.size[which], found.work[which] = _search(
            lists, rows[which], subscriptions, messages, ages, idf, scratch, frame, frontier, candidates,
            board, found.size[which],
        )  # fmt: skip
