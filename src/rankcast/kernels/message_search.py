"""The best messages of the window for a subscription: blocks of its words' lists, the most promising first.

Every block of the lists of the subscription's words gets the best score that its bounds allow. A heap gives
them out best first, until that is below the last score wanted. Equal scores: the newer message first.

Cost: O(b) for the b blocks of its words (a 32nd of their postings), and what is in the best of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.distance import distance
from rankcast.kernels.geo_bounds import Frame, alikeness, best_score, embed, nearness, nearness_to
from rankcast.kernels.igpt import Posts, Readers
from rankcast.kernels.options import EXACT
from rankcast.kernels.term_order import Scratch, clear, cosine_from, note, rarest_first
from rankcast.kernels.word_lists import BLOCK, REST, STEP, WEIGHT, Lists

ALWAYS, LOOKED, SCORED = 1000, 4, 16  # the work of a search, of a block or an entry, of a score

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Ages(NamedTuple):
    """What says which message is newer, by row: time, then arrival; and the stamp of what is current."""

    time: Ints
    arrival: Ints
    stamp: Rows


class Found(NamedTuple):
    """By subscription: its best messages, best first, their scores, how many, and how much work it was."""

    item: NDArray[np.int32]
    score: NDArray[np.float64]
    size: Rows
    work: Ints


class Heap(NamedTuple):
    """Blocks: the best score each allows as a heap of `block`; by block its term, first entry, nearness."""

    best: Floats
    block: Rows
    term: Rows
    start: Ints
    near: Floats


@njit(**EXACT)
def newer(time: Ints, arrival: Ints, one: int, two: int) -> bool:
    """Whether message `one` leaves the window after message `two`."""
    if time[one] != time[two]:
        return bool(time[one] > time[two])
    return bool(arrival[one] > arrival[two])


@njit(**EXACT)
def _sink(best: Floats, block: Rows, at: int, size: int) -> None:
    """Let the block at `at` sink below better ones."""
    score, which = best[at], block[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and best[child + 1] > best[child]:
            child += 1
        if score >= best[child]:
            break
        best[at], block[at] = best[child], block[child]
        at = child
    best[at], block[at] = score, which


@njit(**EXACT)
def _heap_of(
    lists: Lists, term: Rows, weight: Floats, rest: Floats, alpha: float, place: tuple[float, float, float],
    frame: Frame,
) -> Heap:  # fmt: skip
    """All blocks of the terms as a heap."""
    begins, sizes, box, bound = lists.begin, lists.size, lists.box, lists.bound
    size, at = 0, 0
    for word in term:
        size += (sizes[word] + BLOCK - 1) // BLOCK
    best, block, near = np.empty(size), np.arange(size).astype(np.int32), np.empty(size)
    terms, starts = np.empty(size, np.int32), np.empty(size, np.int64)
    for i in range(term.size):
        begin = begins[term[i]]
        for start in range(begin, begin + sizes[term[i]], BLOCK):
            where = start // STEP
            near[at] = nearness(frame.metric, box, where, place)
            alike = alikeness(bound[where, WEIGHT], bound[where, REST], weight[i], rest[i])
            best[at] = best_score(alpha, near[at], alike)
            terms[at], starts[at] = i, start
            at += 1
    for at in range(size // 2 - 1, -1, -1):
        _sink(best, block, at, size)
    return Heap(best, block, terms, starts, near)


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
def _search(
    lists: Lists, row: int, readers: Readers, posts: Posts, ages: Ages, idf: Floats, scratch: Scratch,
    frame: Frame, items: Rows, scores: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Find as many messages as fit for one subscription; returns how many there are, and the work."""
    begins, _, sizes, _, _, rows, stamps, _, _, weights, rests, spots, _, _ = lists
    _, post_x, post_y, texts = posts
    text_begin, text_size, text_term, text_weight = texts
    time, arrival, current = ages
    noted, places = scratch
    x, y, alpha = readers.x[row], readers.y[row], readers.alpha[row]
    term, weight, rest = rarest_first(readers.texts, row, idf)
    note(scratch, term, weight)
    place = embed(frame, x, y)
    best, block, terms, starts, nears = _heap_of(lists, term, weight, rest, alpha, place, frame)
    left, work, count, last = best.size, ALWAYS + LOOKED * best.size, 0, -np.inf
    while left > 0 and best[0] >= last:
        top = block[0]
        i, start, near = terms[top], starts[top], nears[top]
        end = min(start + BLOCK, begins[term[i]] + sizes[term[i]])
        work += LOOKED * (end - start)
        for at in range(start, end):
            alike = alikeness(weights[at], rests[at], weight[i], rest[i])
            if best_score(alpha, near, alike) < last:
                continue
            if best_score(alpha, nearness_to(frame.metric, spots, at, place), alike) < last:
                continue
            item = rows[at]
            if stamps[at] != current[item]:
                continue
            exact = 1.0 - distance(frame.metric, x, y, post_x[item], post_y[item]) / frame.scale
            first = text_begin[item]
            cosine = cosine_from(text_term, text_weight, first, first + text_size[item], noted, places, i)
            if cosine > 0.0:
                score = alpha * exact + (1.0 - alpha) * cosine
                count = _keep(items, scores, count, item, score, time, arrival)
                last = scores[count - 1] if count == items.size else last
                work += SCORED
        left -= 1
        best[0], block[0] = best[left], block[left]
        _sink(best, block, 0, left)
    clear(scratch, term)
    return count, work


@njit(**EXACT)
def best_messages(
    lists: Lists, rows: Rows, wanted: Rows, readers: Readers, posts: Posts, ages: Ages, idf: Floats,
    scratch: Scratch, frame: Frame, found: Found,
) -> None:  # fmt: skip
    """Find the `wanted[i]` best messages of the window for each subscription of `rows`.

    `work` is in steps like those of a buffer's upkeep.
    """
    for which in range(rows.size):
        items, scores = found.item[which, : wanted[which]], found.score[which, : wanted[which]]
        found.size[which], found.work[which] = _search(
            lists, rows[which], readers, posts, ages, idf, scratch, frame, items, scores
        )
