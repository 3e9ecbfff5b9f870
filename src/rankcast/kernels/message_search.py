"""The best messages of the window for a subscription: nodes of its words' lists, the most promising first.

Every cell of the lists of the subscription's words gets the best score that its node allows. A heap gives
them out best first, cells then block by block, until that is below the last score wanted. Equal scores: the
newer message first. (Where scores fade, all bounds are for the largest gain in the window.)

Cost: O(c) for the c cells of its words, and what is in the best of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.distance import distance
from rankcast.kernels.geo_bounds import (
    Bits,
    Floats32,
    Frame,
    Spot,
    alikeness,
    best_score,
    embed,
    nearness,
    part,
)
from rankcast.kernels.igpt import Posts, Readers
from rankcast.kernels.options import EXACT
from rankcast.kernels.term_order import Scratch, clear, cosine_from, note, rarest_first
from rankcast.kernels.word_lists import (
    BLOCK,
    MOST,
    MOST_REST,
    REST,
    STAMP,
    STEP,
    WEIGHT,
    Lists,
    X,
    Y,
    Z,
    gap,
)

ALWAYS, LOOKED, SCORED = 1000, 64, 16  # the work of a search, of a block, of a score

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Ages(NamedTuple):
    """What says which message is newer, by row: time, then arrival; and the stamp of what is current."""

    time: Ints
    arrival: Ints
    stamp: Bits


class Found(NamedTuple):
    """By subscription: its best messages, best first, their scores, how many, and how much work it was."""

    item: NDArray[np.int32]
    score: NDArray[np.float64]
    size: Rows
    work: Ints


class Term(NamedTuple):
    """One term of the text at hand: place in the order, weight, the length of what follows; and the spot."""

    place: int
    weight: np.float32
    rest: np.float32
    spot: Spot


class Heap(NamedTuple):
    """Nodes as a heap by the best score that each allows: that score, its term, entries from and to."""

    best: Floats32
    term: Rows
    start: Ints
    end: Ints


@njit(**EXACT)
def newer(time: Ints, arrival: Ints, one: int, two: int) -> bool:
    """Whether message `one` leaves the window after message `two`."""
    if time[one] != time[two]:
        return bool(time[one] > time[two])
    return bool(arrival[one] > arrival[two])


@njit(**EXACT)
def _push(heap: Heap, size: int, best: np.float32, term: int, start: int, end: int) -> int:
    """Add a node to a heap of `size` with room for it; returns the new size."""
    bests, terms, starts, ends = heap
    at = size
    while at > 0 and bests[(at - 1) // 2] < best:
        up = (at - 1) // 2
        bests[at], terms[at], starts[at], ends[at] = bests[up], terms[up], starts[up], ends[up]
        at = up
    bests[at], terms[at], starts[at], ends[at] = best, term, start, end
    return size + 1


@njit(**EXACT)
def _pop(heap: Heap, size: int) -> int:
    """Take the best node from a heap; returns the new size."""
    bests, terms, starts, ends = heap
    size -= 1
    best, term, start, end, at = bests[size], terms[size], starts[size], ends[size], 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and bests[child + 1] > bests[child]:
            child += 1
        if best >= bests[child]:
            break
        bests[at], terms[at], starts[at], ends[at] = bests[child], terms[child], starts[child], ends[child]
        at = child
    bests[at], terms[at], starts[at], ends[at] = best, term, start, end
    return size


@njit(**EXACT)
def _room_for(lists: Lists, term: Rows, cell: int) -> int:
    """How many nodes of some words a heap may ever hold: all cells, and all blocks."""
    room = 0
    for word in term:
        size = lists.size[word]
        room += (size + BLOCK - 1) // BLOCK + (size + cell - 1) // cell
    return room


@njit(**EXACT)
def _push_all(
    lists: Lists, word: int, mine: Term, alpha: np.float32, reach: np.float32, cell: int, heap: Heap,
    size: int,
) -> int:  # fmt: skip
    """Push the cells of a word's list, and what comes after them block by block; returns the new size."""
    begins, mains, _, sizes, _, _, _, _, node = lists
    begin, end = begins[word], begins[word] + sizes[word]
    ordered = begin + (mains[word] if mains[word] == sizes[word] else mains[word] // BLOCK * BLOCK)
    for start in range(begin, ordered, cell):
        after = min(start + cell, ordered)
        best = _best(node, start // STEP + (1 if after - start > BLOCK else 0), mine, alpha, reach)
        size = _push(heap, size, best, mine.place, start, after)
    return _push_blocks(node, ordered, end, mine, alpha, reach, heap, size, -np.inf)


@njit(**EXACT)
def _push_blocks(
    node: Floats32, start: int, end: int, mine: Term, alpha: np.float32, reach: np.float32, heap: Heap,
    size: int, least: float,
) -> int:  # fmt: skip
    """Push the blocks from `start` to `end` that may have something better; returns the new size."""
    for at in range(start, end, BLOCK):
        best = _best(node, at // STEP, mine, alpha, reach)
        if best >= least:
            size = _push(heap, size, best, mine.place, at, min(at + BLOCK, end))
    return size


@njit(**EXACT)
def _best(node: Floats32, at: int, mine: Term, alpha: np.float32, reach: np.float32) -> np.float32:
    """The best score that a node allows."""
    alike = alikeness(node[at, MOST], node[at, MOST_REST], mine.weight, mine.rest)
    return best_score(alpha, nearness(reach, gap(node, at, mine.spot)), alike)


@njit(**EXACT)
def _test(fact: Bits, tile: int, mine: Term, alpha: np.float32, reach: np.float32, best: Floats32) -> None:
    """Say for each entry of a tile what its score may be at best."""
    x, y, z = np.float32(mine.spot[0]), np.float32(mine.spot[1]), np.float32(mine.spot[2])
    for lane in range(STEP):
        alike = alikeness(
            part(fact[tile, WEIGHT, lane]), part(fact[tile, REST, lane]), mine.weight, mine.rest
        )
        east, north = part(fact[tile, X, lane]) - x, part(fact[tile, Y, lane]) - y
        up = part(fact[tile, Z, lane]) - z
        best[lane] = best_score(alpha, nearness(reach, east * east + north * north + up * up), alike)


@njit(**EXACT)
def _keep(items: Rows, scores: Floats, count: int, item: int, score: float, time: Ints, arrival: Ints) -> int:
    """Put a message in its place among the best; the last one may fall out. Returns how many."""
    at = count
    if at == items.size:
        at -= 1
        if score < scores[at] or (score == scores[at] and newer(time, arrival, items[at], item)):
            return count
        count -= 1
    while at > 0:
        ahead, its = items[at - 1], scores[at - 1]
        if its > score or (its == score and newer(time, arrival, ahead, item)):
            break
        items[at], scores[at] = ahead, its
        at -= 1
    items[at], scores[at] = item, score
    return count + 1


@njit(**EXACT)
def _look_through(
    lists: Lists, start: int, end: int, readers: Readers, row: int, mine: Term, posts: Posts, ages: Ages,
    scratch: Scratch, frame: Frame, items: Rows, scores: Floats, count: int,
) -> tuple[int, int]:  # fmt: skip
    """Score the messages of a block that may be among the best; returns how many there are, and the work."""
    _, _, _, _, _, _, rows, fact, _ = lists
    _, post_x, post_y, texts, gains, top = posts
    text_begin, text_size, text_term, text_weight = texts
    time, arrival, current = ages
    noted, places = scratch
    x, y, alpha = readers.x[row], readers.y[row], readers.alpha[row]
    best, work = np.empty(STEP, np.float32), LOOKED
    last = scores[count - 1] if count == items.size else -np.inf
    for first in range(start, end, STEP):
        tile = first // STEP
        _test(fact, tile, mine, np.float32(alpha), frame.reach, best)
        for lane in range(min(STEP, end - first)):
            item = rows[first + lane]
            if best[lane] * top < last or fact[tile, STAMP, lane] != current[item]:
                continue
            begin = text_begin[item]
            cosine = cosine_from(
                text_term, text_weight, begin, begin + text_size[item], noted, places, mine.place
            )
            if cosine > 0.0:
                exact = 1.0 - distance(frame.metric, x, y, post_x[item], post_y[item]) / frame.scale
                gain = gains[item] if gains.size > 0 else 1.0
                score = (alpha * exact + (1.0 - alpha) * cosine) * gain
                count = _keep(items, scores, count, item, score, time, arrival)
                last = scores[count - 1] if count == items.size else last
            work += SCORED
    return count, work


@njit(**EXACT)
def _search(
    lists: Lists, row: int, readers: Readers, posts: Posts, ages: Ages, idf: Floats, scratch: Scratch,
    frame: Frame, cell: int, items: Rows, scores: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Find as many messages as fit for one subscription; returns how many there are, and the work."""
    alpha, node = np.float32(readers.alpha[row]), lists.node
    term, weight, rest = rarest_first(readers.texts, row, idf)
    note(scratch, term, weight)
    spot = embed(frame, readers.x[row], readers.y[row])
    room = _room_for(lists, term, cell)
    heap = Heap(
        np.empty(room, np.float32),
        np.empty(room, np.int32),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    bests, terms, starts, ends = heap
    size, work, count, last = 0, ALWAYS, 0, -np.inf
    for i in range(term.size):
        mine = Term(i, np.float32(weight[i]), np.float32(rest[i]), spot)
        size = _push_all(lists, term[i], mine, alpha, frame.reach, cell, heap, size)
    while size > 0 and bests[0] * posts.top >= last:
        i, start, end = terms[0], starts[0], ends[0]
        mine = Term(i, np.float32(weight[i]), np.float32(rest[i]), spot)
        size = _pop(heap, size)
        if end - start > BLOCK:
            size = _push_blocks(node, start, end, mine, alpha, frame.reach, heap, size, last / posts.top)
            continue
        count, looked = _look_through(
            lists, start, end, readers, row, mine, posts, ages, scratch, frame, items, scores, count
        )
        last = scores[count - 1] if count == items.size else last
        work += looked
    clear(scratch, term)
    return count, work


@njit(**EXACT)
def best_messages(
    lists: Lists, rows: Rows, wanted: Rows, readers: Readers, posts: Posts, ages: Ages, idf: Floats,
    scratch: Scratch, frame: Frame, cell: int, found: Found,
) -> None:  # fmt: skip
    """Find the `wanted[i]` best messages of the window for each subscription of `rows`.

    `work` is in steps like those of a buffer's upkeep.
    """
    for which in range(rows.size):
        items, scores = found.item[which, : wanted[which]], found.score[which, : wanted[which]]
        found.size[which], found.work[which] = _search(
            lists, rows[which], readers, posts, ages, idf, scratch, frame, cell, items, scores
        )
