"""Geo-text top-k by a plain inverted file and kmax buffers: what an engineer would run without the paper.

A subscription keeps up to `kmax` messages, its k best and those that follow. A message walks the postings of
its terms, term at a time, is scored for everybody who shares one, and goes into the buffers whose frontier it
reaches; a buffer that overflows drops its last and moves the frontier there. An expired message is found in
the buffers by links of its own. A buffer with fewer than k is filled up by a search over the postings of its
words among the messages of the window. Results are exact. (Yi, Yu, Yang, Xia and Chen: top-k views.)

Buffers begin as they are after a turnover of the window: with between k and `kmax` messages each.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from rankcast.bench.baselines.geotext import (
    Boards,
    Places,
    Scratch,
    TermAtATime,
    Texts,
    evaluate,
    keep,
    score_of,
)
from rankcast.structures.jit import EXACT

# mypy: disallow-untyped-decorators=False

Rows = NDArray[np.int32]
Integers = NDArray[np.int64]
NONE = -1


class Links(NamedTuple):
    """By message, by position: the first of its links, or -1. By link: who holds it, the next; how many."""

    head: Rows
    owner: Rows
    next: Rows
    used: Integers


class Given(NamedTuple):
    """Where a program stands in the stream, so that another one can go on from there."""

    k: int
    idf: NDArray[np.float64]
    messages: Texts
    interests: Texts
    places: Places
    boards: Boards
    span: tuple[int, int]  # the oldest message of the window, and the next to come


class BufferedTermAtATime(TermAtATime):
    """`TermAtATime` with buffers of up to `factor` times k messages; see there for what it is given."""

    def __init__(
        self, messages: pa.Table, held: int, subscriptions: pa.Table, results: pa.Table, k: int, *others: Any,
        factor: int = 3,
    ) -> None:  # fmt: skip
        """As there, but `results` are lists of the `factor` times k best."""
        most = factor * k
        super().__init__(messages, held, subscriptions, results, most, *others)
        self._k, count = k, self.boards.size.size
        sizes = np.random.default_rng(1).integers(k, most + 1, count)
        cut = np.flatnonzero(self.boards.size > sizes)
        self.boards.size[cut] = sizes[cut]
        self.boards.bar[cut] = self.boards.score[cut, sizes[cut] - 1]
        positions = self._window.alike.size
        self._links = Links(
            np.full(positions, NONE, np.int32),
            np.zeros(4 * self.boards.item.size, np.int32),
            np.zeros(4 * self.boards.item.size, np.int32),
            np.zeros(1, np.int64),
        )
        _link_lists(self._links, self.boards)

    def again(self) -> BufferedTermAtATime:
        """Another one in the same state; only what changes is copied."""
        twin = copy.copy(self)
        twin.boards = Boards._make(array.copy() for array in self.boards)
        twin._links = Links._make(array.copy() for array in self._links)
        return twin

    def given(self) -> Given:
        """What another program needs to go on from here; not copied."""
        span = self._oldest, self._next
        return Given(self._k, self._idf, self._messages, self._interests, self._places, self.boards, span)

    def turn(self, count: int) -> None:
        """Let the next so many messages in, each after the oldest one has gone."""
        last = self._next + count
        while self._next < last:
            done = _turn(
                self._messages, self._interests, self._places, self.boards, self._links, self._k,
                (self._oldest, self._next, last), self._readers, self._window,
            )  # fmt: skip
            self._oldest, self._next = self._oldest + done, self._next + done
            if self._next < last:
                more = np.zeros_like(self._links.owner)
                self._links = self._links._replace(
                    owner=np.concatenate([self._links.owner, more]),
                    next=np.concatenate([self._links.next, more]),
                )

    def best(self, row: int) -> list[float]:
        """The scores of the result of a subscription."""
        size = min(self._k, int(self.boards.size[row]))
        found: list[float] = self.boards.score[row, :size].tolist()
        return found


@njit(**EXACT)
def _link(links: Links, item: int, row: int) -> None:
    at = links.used[0]
    links.owner[at], links.next[at], links.head[item] = row, links.head[item], at
    links.used[0] = at + 1


@njit(**EXACT)
def _link_all(links: Links, boards: Boards, row: int) -> None:
    for place in range(boards.size[row]):
        _link(links, boards.item[row, place], row)


@njit(**EXACT)
def _link_lists(links: Links, boards: Boards) -> None:
    for row in range(boards.size.size):
        _link_all(links, boards, row)


@njit(**EXACT)
def _holders(links: Links, item: int) -> int:
    """How many links a message has."""
    count, at = 0, links.head[item]
    while at != NONE:
        count, at = count + 1, links.next[at]
    return count


@njit(**EXACT)
def _arrive(
    messages: Texts, interests: Texts, places: Places, boards: Boards, links: Links, item: int,
    scratch: Scratch,
) -> bool:  # fmt: skip
    """Score a message for everybody who shares a term with it; False, and nothing is done, without room."""
    start, terms, weights, _, _, _ = messages
    _, _, _, first, owner, share = interests
    x, y, alpha, there_x, there_y, diagonal = places
    room, bar = 0, boards.bar
    for at in range(start[item], start[item + 1]):
        room += first[terms[at] + 1] - first[terms[at]]
    if links.used[0] + room > links.owner.size:
        return False
    alike, seen = scratch
    count = 0
    for at in range(start[item], start[item + 1]):
        term, weight = terms[at], weights[at]
        for posting in range(first[term], first[term + 1]):
            row = owner[posting]
            if alike[row] == 0.0:
                seen[count] = row
                count += 1
            alike[row] += weight * share[posting]
    for i in range(count):
        row = seen[i]
        score = score_of(alpha[row], x[row] - there_x[item], y[row] - there_y[item], diagonal, alike[row])
        alike[row] = 0.0
        if score >= bar[row]:
            keep(boards, row, item, score)
            _link(links, item, row)
    return True


@njit(**EXACT)
def _expire(
    messages: Texts, interests: Texts, places: Places, boards: Boards, links: Links, k: int, oldest: int,
    after: int, scratch: Scratch,
) -> None:  # fmt: skip
    """Take a message out of the buffers that hold it, and fill those up that are short."""
    items, scores, sizes, bars = boards
    short = np.empty(1, np.int32)
    at = links.head[oldest]
    while at != NONE:
        row, place = links.owner[at], 0
        at = links.next[at]
        while place < sizes[row] and items[row, place] != oldest:
            place += 1
        if place == sizes[row]:
            continue  # it has been dropped
        for i in range(place, sizes[row] - 1):
            items[row, i], scores[row, i] = items[row, i + 1], scores[row, i + 1]
        sizes[row] -= 1
        if sizes[row] < k and bars[row] > -np.inf:
            short[0], sizes[row], bars[row] = row, 0, -np.inf
            evaluate(messages, interests, places, boards, short, oldest + 1, after, scratch)
            _link_all(links, boards, row)


@njit(**EXACT)
def _turn(
    messages: Texts, interests: Texts, places: Places, boards: Boards, links: Links, k: int,
    span: tuple[int, int, int], readers: Scratch, window: Scratch,
) -> int:  # fmt: skip
    """Let messages go and come by turns; returns how many, fewer if there is no room for links."""
    oldest, position, last = span
    for item in range(position, last):
        gone = oldest + item - position
        if links.used[0] + _holders(links, gone) * boards.item.shape[1] > links.owner.size:
            return item - position
        _expire(messages, interests, places, boards, links, k, gone, item, window)
        if not _arrive(messages, interests, places, boards, links, item, readers):
            return item - position
    return last - position
