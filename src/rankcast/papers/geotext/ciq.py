"""CIQ, the baseline of [Geo §2.2]: postings of subscriptions in covering cells of a quadtree.

After Chen, Cong, Cao and Tan. A subscription is listed in several cells that together cover the space: along
the path from the root to its leaf, the three neighbours at every level, and the leaf. For each it has the
least cosine that a message there needs. A message looks into the cells that hold it, one a level, and merges
the posting lists of its terms in each of them, a subscription at a time: the lists are in order of
subscriptions, and a heap of cursors tells which comes next.

Cells are chosen by data: the quadtree halves subscriptions, not the space, along either axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.match import Prunings
from rankcast.geotext.kernels.message_search import clear_vector, load_vector
from rankcast.geotext.kernels.pair_scores import CANDIDATES, VERIFIED, Hits
from rankcast.geotext.kernels.phrases import says
from rankcast.geotext.kernels.postings import ListedColumns
from rankcast.geotext.kernels.score import (
    Bits,
    Floats32,
    Frame,
    MessageColumns,
    Scratch,
    SubscriptionColumns,
    TermVectors,
    nearness_of,
    rarest_first,
)
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.structures.distance import EUCLIDEAN, distance
from rankcast.structures.heap import pop, push
from rankcast.structures.jit import EXACT
from rankcast.tables.schema import Bools

LEVELS = 3
SIDE = 1 << LEVELS  # leaves along an axis
COVER = 3 * LEVELS + 1
CELLS = 4 + 16 + 64
SLACK = 1e-6

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class CellLists(NamedTuple):
    """Posting lists by term and cell: keys in order, where each begins; owners, weights; needs by owner.

    And where the columns and the lines of leaves end, the first and the last at the bounds.
    """

    key: Ints
    first: Ints
    row: Rows
    weight: Floats32
    need: Floats32
    columns: Floats
    lines: Floats


class Cursors(NamedTuple):
    """A heap of cursors by the subscription that each is at; by cursor: where it is, and its end."""

    row: Ints
    which: Rows
    at: Ints
    end: Ints


@njit(**EXACT)
def _leaf(columns: Floats, lines: Floats, x: float, y: float) -> tuple[int, int]:
    """The column and the line of the leaf that holds a place."""
    column, line = 0, 0
    for i in range(1, SIDE):
        column += x >= columns[i]
        line += y >= lines[i]
    return column, line


@njit(**EXACT)
def _number(level: int, column: int, line: int) -> int:
    """The number of a cell among all cells below the root."""
    return ((1 << (2 * level)) - 4) // 3 + (line << level) + column


@njit(**EXACT)
def _gap(low: float, high: float, value: float) -> float:
    return max(0.0, low - value, value - high)


@njit(**EXACT)
def _need(
    frame: Frame,
    columns: Floats,
    lines: Floats,
    place: tuple[float, float],
    alpha: float,
    threshold: float,
    level: int,
    cell: tuple[int, int],
) -> float:
    """The least cosine with which a message in a cell reaches a threshold; on the globe, wherever it is."""
    near = 1.0
    if frame.metric == EUCLIDEAN:
        step = SIDE >> level
        east, north = columns[(cell[0] + 1) * step], lines[(cell[1] + 1) * step]
        wide = _gap(columns[cell[0] * step], east, place[0])
        away = math.hypot(wide, _gap(lines[cell[1] * step], north, place[1]))
        near = nearness_of(away, frame.scale)
    needed = threshold - SLACK - alpha * near
    if needed <= 0.0:
        return 0.0
    return needed / (1.0 - alpha) * (1.0 - SLACK) if 1.0 - alpha > SLACK else 2.0


@njit(**EXACT)
def set_needs(
    rows: Rows, subscriptions: SubscriptionColumns, listed: Floats, frame: Frame, lists: CellLists
) -> None:
    """Note what subscriptions need in each cell they are listed in, by level and quarter."""
    _, _, _, _, need, columns, lines = lists
    for row in rows:
        place = (subscriptions.x[row], subscriptions.y[row])
        column, line = _leaf(columns, lines, place[0], place[1])
        for level in range(1, LEVELS + 1):
            east, north = column >> (LEVELS - level) & ~1, line >> (LEVELS - level) & ~1
            for quarter in range(4):
                cell = (east + (quarter & 1), north + (quarter >> 1))
                alpha, bar = subscriptions.alpha[row], listed[row]
                needed = _need(frame, columns, lines, place, alpha, bar, level, cell)
                need[row, 4 * (level - 1) + quarter] = needed


@njit(**EXACT)
def postings(
    rows: Rows, subscriptions: SubscriptionColumns, columns: Floats, lines: Floats
) -> tuple[Ints, Rows, Floats32]:
    """All terms of subscriptions in all their cells: keys, owners, weights."""
    begin, size, term, weight = subscriptions.texts
    total = 0
    for row in rows:
        total += COVER * size[row]
    key, owner, share = np.empty(total, np.int64), np.empty(total, np.int32), np.empty(total, np.float32)
    at = 0
    for row in rows:
        column, line = _leaf(columns, lines, subscriptions.x[row], subscriptions.y[row])
        for level in range(1, LEVELS + 1):
            mine = (column >> (LEVELS - level), line >> (LEVELS - level))
            for quarter in range(4):
                cell = ((mine[0] & ~1) + (quarter & 1), (mine[1] & ~1) + (quarter >> 1))
                if cell == mine and level < LEVELS:
                    continue
                number = _number(level, cell[0], cell[1])
                for i in range(begin[row], begin[row] + size[row]):
                    key[at], owner[at], share[at] = term[i] * CELLS + number, row, weight[i]
                    at += 1
    return key, owner, share


@njit(**EXACT)
def _open(lists: CellLists, term: Rows, cell: int, cursors: Cursors) -> int:
    """Put cursors to the posting lists of terms in a cell; returns how many have any."""
    keys, firsts, rows = lists.key, lists.first, lists.row
    size = 0
    for i in range(term.size):
        key = np.int64(term[i]) * CELLS + cell
        place = np.searchsorted(keys, key)
        if place < keys.size and keys[place] == key:
            cursors.at[i], cursors.end[i] = firsts[place], firsts[place + 1]
            size = push(cursors.row, cursors.which, size, rows[firsts[place]], i)
    return size


@njit(**EXACT)
def _next(rows: Rows, weights: Floats32, mine: Floats, cursors: Cursors, size: int) -> tuple[int, float, int]:
    """The next subscription of some lists, what it has in common with the message, cursors that are left."""
    heads, which, at, end = cursors
    row, alike = heads[0], 0.0
    while size > 0 and heads[0] == row:
        i = which[0]
        alike += weights[at[i]] * mine[i]
        at[i] += 1
        size = pop(heads, which, size)
        if at[i] < end[i]:
            size = push(heads, which, size, rows[at[i]], i)
    return row, alike, size


@njit(**EXACT)
def _cosine(
    term: Rows, weight: Floats, begin: int, end: int, noted: Floats, places: Rows, place: int
) -> float:
    """The cosine of the vector at begin..end and the noted one, -1 if they share a term before `place`.

    Adds the products of common terms in code point order, one after the other, as brute force does.
    """
    total = 0.0
    for i in range(begin, end):
        theirs = noted[term[i]]
        if theirs > 0.0:
            if places[term[i]] < place:
                return -1.0
            total += weight[i] * theirs
    return total


@njit(**EXACT)
def _has_terms(wanted: TermVectors, row: int, noted: Floats) -> bool:
    """Whether the noted vector has the terms that a subscription must have, and none that it must not."""
    begins, sizes, terms, signs = wanted
    for at in range(begins[row], begins[row] + sizes[row]):
        if (noted[terms[at]] > 0.0) != (signs[at] > 0.0):
            return False
    return True


@njit(**EXACT)
def _walk(
    lists: CellLists, subscriptions: SubscriptionColumns, spot: tuple[float, float], term: Rows,
    weight: Floats, cell: int, slot: int, cursors: Cursors, scratch: Scratch, frame: Frame, hits: Hits,
    arrival: int, used: int, gain: float, item: int, time: int, counters: Ints,
) -> int:  # fmt: skip
    """Write the hits in one cell; returns how many there are then, -1 if they do not fit."""
    _, _, rows, weights, need, _, _ = lists
    (begins, sizes, terms, shares), limits = subscriptions.texts, subscriptions.limits
    noted, places = scratch
    size = _open(lists, term, cell, cursors)
    while size > 0:
        row, alike, size = _next(rows, weights, weight, cursors, size)
        if alike + SLACK >= need[row, slot]:
            counters[CANDIDATES] += 1
            alpha, begin = subscriptions.alpha[row], begins[row]
            away = distance(frame.metric, subscriptions.x[row], subscriptions.y[row], spot[0], spot[1])
            near = nearness_of(away, frame.scale)
            cosine = _cosine(terms, shares, begin, begin + sizes[row], noted, places, 0)
            counters[VERIFIED] += 1
            score = alpha * near + (1.0 - alpha) * cosine
            fits = limits.radius.size == 0 or (
                away <= limits.radius[row]
                and score >= limits.score[row]
                and time >= limits.since[row]
                and _has_terms(limits.terms, row, noted)
                and says(limits.phrases, row, item)
            )
            score *= gain
            if fits and score >= subscriptions.threshold[row]:
                if used == hits.score.size:
                    return -1
                hits.subscription[used], hits.arrival[used], hits.score[used] = row, arrival, score
                used += 1
    return used


@njit(**EXACT)
def disseminate(
    lists: CellLists, subscriptions: SubscriptionColumns, messages: MessageColumns, idf: Floats,
    scratch: Scratch, frame: Frame, hits: Hits, counters: Ints,
) -> int:  # fmt: skip
    """Write the hits of messages, message by message; returns how many, -1 if they do not fit.

    `scratch` is clear before and after.
    """
    used = 0
    for arrival in range(messages.rows.size):
        row = messages.rows[arrival]
        term, weight, _ = rarest_first(messages.texts, row, idf)
        load_vector(scratch, term, weight)
        spot, found = (messages.x[row], messages.y[row]), used
        gain = messages.gain[row] if messages.gain.size > 0 else 1.0
        column, line = _leaf(lists.columns, lists.lines, spot[0], spot[1])
        at, end = np.empty(term.size, np.int64), np.empty(term.size, np.int64)
        cursors = Cursors(np.empty(term.size, np.int64), np.empty(term.size, np.int32), at, end)
        for level in range(1, LEVELS + 1):
            mine = (column >> (LEVELS - level), line >> (LEVELS - level))
            slot = 4 * (level - 1) + (mine[0] & 1) + 2 * (mine[1] & 1)
            if found >= 0:
                cell = _number(level, mine[0], mine[1])
                found = _walk(
                    lists, subscriptions, spot, term, weight, cell, slot, cursors, scratch, frame, hits,
                    arrival,
                    found, gain, row, messages.time[row], counters,
                )  # fmt: skip
        clear_vector(scratch, term)
        if found < 0:
            return -1
        used = found
    return used


PAIRS = 1 << 16  # hits of several messages at a time


class CellIndex:
    """Posting lists by term and cell, rebuilt at the next message after subscriptions came or went.

    A `SubscriptionIndex` of `rankcast.geotext.indexes`. Everything follows from the state of the engine, so
    a snapshot has no more than which subscriptions there are.

    Memory: 80 bytes per term of a subscription (in ten cells each), 48 a subscription, 16 a term and cell.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._member: Bools = np.zeros(0, np.bool_)
        self._stale: Rows | None = None  # whose needs are to be noted; None: all lists are to be made
        self.lists = _no_lists()

    def know(self, terms: int) -> None:
        """Terms have no arrays here."""

    def add(self, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns) -> None:
        """Add subscriptions."""
        if rows.size:
            self._member = grown(self._member, max(self._member.size, int(rows.max()) + 1), 0)
            self._member[rows], self._stale = True, None

    def drop(self, rows: Rows, texts: TermVectors, stamps: Bits) -> None:
        """Subscriptions go."""
        if rows.size:
            self._member[rows], self._stale = False, None

    def update(self, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns) -> None:
        """Thresholds of subscriptions have moved."""
        if self._stale is not None:
            self._stale = np.union1d(self._stale, rows)

    def disseminate(
        self, subscriptions: SubscriptionColumns, messages: MessageColumns, idf: Floats, scratch: Scratch,
        on: Prunings, counters: Ints, listed: Floats,
    ) -> Hits | None:  # fmt: skip
        """The hits of messages; None if they are too many to be taken together."""
        if self._stale is None:
            self._make(subscriptions)
            self._stale = np.flatnonzero(self._member).astype(np.int32)
        set_needs(self._stale, subscriptions, listed, self._frame, self.lists)
        self._stale = np.zeros(0, np.int32)
        room = PAIRS if messages.rows.size > 1 else self._member.size
        found, counted = (
            Hits(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room)),
            np.zeros_like(counters),
        )
        used = disseminate(self.lists, subscriptions, messages, idf, scratch, self._frame, found, counted)
        if used < 0:
            return None
        counters += counted
        order = np.argsort(found.subscription[:used], kind="stable")
        return Hits._make(column[:used][order] for column in found)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Which subscriptions there are."""
        return {}, {"member": self._member}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        integrity.forms(arrays, {"member": (np.bool_, (None,))})
        self._member, self._stale = arrays["member"], None
        return self

    def check_restored(self, texts: TermVectors, stamps: Bits, live: Bools) -> None:
        """Refuse members from a snapshot that are not the `live` subscriptions."""
        same = np.array_equal(np.flatnonzero(self._member), np.flatnonzero(live))
        integrity.need(same, "readers_member", "is not of the subscriptions that are there")

    def _make(self, subscriptions: SubscriptionColumns) -> None:
        """Make all lists: by term and cell, in order of subscriptions. Cost: O(n log n)."""
        members = np.flatnonzero(self._member).astype(np.int32)
        frame = self._frame
        columns = _edges(subscriptions.x[members], frame.west, frame.east)
        lines = _edges(subscriptions.y[members], frame.south, frame.north)
        key, row, weight = postings(members, subscriptions, columns, lines)
        order = np.lexsort((row, key))
        keys, first = np.unique(key[order], return_index=True)
        need = np.zeros((self._member.size, 4 * LEVELS), np.float32)
        first = np.append(first, order.size)
        self.lists = CellLists(keys, first, row[order], weight[order], need, columns, lines)


def _no_lists() -> CellLists:
    weight, need = np.zeros(0, np.float32), np.zeros((0, 4 * LEVELS), np.float32)
    edges = np.zeros(SIDE + 1)
    first = np.zeros(1, np.int64)
    return CellLists(np.zeros(0, np.int64), first, np.zeros(0, np.int32), weight, need, edges, edges)


def _edges(places: Floats, low: float, high: float) -> Floats:
    """Where leaves end along an axis: as many places are in each, as far as they differ."""
    edges = np.quantile(places, np.linspace(0.0, 1.0, SIDE + 1)) if places.size else np.zeros(SIDE + 1)
    edges[0], edges[-1] = low, high
    return edges
