"""What Python calls on G_k: single calls over plain tuples of arrays, and a sequence of commands at once.

Numba recognises the type of a plain tuple some ten times faster than that of a named one, and with a search
of a microsecond that is what a call costs. For the same reason `subscribe` and `unsubscribe` do all of a call
at once: ids to rows, boxes to their place, the search, the edges, the ids of the answer and the counts. A
state is (register, graph, (lo, hi, status), totals); fields stand in the order of `Register`, `Graph`,
`IndexArrays` and `Subscriptions`, whose sets come last, one by one.

A router hears one command after the other. Where many of them wait, one call of `follow` answers them all;
what it does for each is what `relation` does for a call with that one row [Covering §III-C]. Before that,
`first_conflict` finds whether each fits what is live by then, and `runs` where the sequence is cut.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels import relation
from rankcast.covering.kernels.containment import (
    COMPARISONS,
    COVERED,
    FORWARDED,
    GONE,
    NODES_VISITED,
    Ends,
    IndexArrays,
    Subscriptions,
    scratch_for,
)
from rankcast.covering.kernels.index import containers_first
from rankcast.covering.kernels.relation import (
    LIVE,
    NONE,
    Graph,
    Rows,
    enter,
    enter_hot,
    has_plain_rows,
    needs_room,
)
from rankcast.structures.arrays import are_ordered, borrowed
from rankcast.structures.code_sets import CodeSets
from rankcast.structures.hashing import (
    FITS,
    FREE,
    FREE_COUNT,
    KeyArrays,
    Register,
    admit,
    dismiss,
    first_unfit,
    keys_in,
    named,
    probe,
    register_of,
)
from rankcast.structures.jit import EXACT

NEW, FULL, REFUSED = -1, -2, -3  # from the beginning; room must be made; an id or a box does not fit
TOTALS = 8
(
    QUERIES,
    NODES_SUBSCRIBE,
    POINTS_SUBSCRIBE,
    NODES_UNSUBSCRIBE,
    POINTS_UNSUBSCRIBE,
    FREED,
    FREED_MOST,
    DELTAS,
) = range(TOTALS)
WORD = 64
FORWARD, COVER, WITHDRAW, DROP = range(4)
ROW, ACTION, BY = range(3)
SEQUENCE_FREED, SEQUENCE_FREED_MOST, SEQUENCE_NODES, SEQUENCE_POINTS = range(4)  # totals of `follow`
NO_CONFLICT = -1
_remove_rows, _resettle, _coverers = relation.remove_rows, relation.resettle, relation.coverers
_subscribe = relation.subscribe


# A plain tuple has no names: these four put each field back in its place.
@njit(**EXACT)
def _index(plain: tuple[Any, ...]) -> IndexArrays:
    return IndexArrays(plain[0], plain[1], plain[2], plain[3], plain[4], plain[5], plain[6], plain[7])


@njit(**EXACT)
def _graph(plain: tuple[Any, ...]) -> Graph:
    return Graph(_index(plain[0]), _index(plain[1]), plain[2], plain[3], plain[4], plain[5], plain[6])


@njit(**EXACT)
def _subscriptions(plain: tuple[Any, ...]) -> Subscriptions:
    return Subscriptions(plain[0], plain[1], plain[2], plain[3], CodeSets(plain[4], plain[5], plain[6]))


@njit(**EXACT)
def _without_sets(plain: tuple[Any, ...], register: Register, graph: Graph) -> Subscriptions:
    """Subscriptions that have no sets: `sets` is of no row, and made of arrays that are at hand."""
    nothing = CodeSets(register.sequence[:0], graph.first[:0], graph.edge)
    return Subscriptions(plain[0], plain[1], plain[2], register.sequence, nothing)


@njit(**EXACT)
def _write(subs: Subscriptions, rows: Rows, ends: Ends) -> None:
    """Give rows their boxes; ends[2 j] and ends[2 j + 1] are the lower and upper ends in attribute j."""
    for i in range(rows.size):
        for attribute in range(subs.lo.shape[1]):
            subs.lo[rows[i], attribute] = ends[2 * attribute, i]
            subs.hi[rows[i], attribute] = ends[2 * attribute + 1, i]


@njit(**EXACT)
def _write_ids(code: NDArray[np.int64], rows: Rows, by: Rows, answer: NDArray[np.int64]) -> None:
    """Write integer ids: of the rows, of those that cover them, then a bit for each place, set if known."""
    size = rows.size
    answer[2 * size :] = 0
    for i in range(size):
        answer[i], answer[size + i] = code[rows[i]], 0
        if by[i] >= 0:
            answer[size + i] = code[by[i]]
            # Arrow's validity bits: bit size + i of the words behind the ids.
            answer[2 * size + (size + i) // WORD] |= np.int64(1) << np.int64((size + i) % WORD)


@njit(**EXACT)
def _tally(graph: Graph, totals: NDArray[np.int64], nodes: int) -> None:
    """Move what the indexes have counted to totals[nodes] and the next."""
    for meta in (graph.front.meta, graph.back.meta):
        totals[nodes] += meta[NODES_VISITED]
        totals[nodes + 1] += meta[COMPARISONS]
        meta[NODES_VISITED], meta[COMPARISONS] = 0, 0


@njit(**EXACT)
def subscribe(
    state: tuple[Any, ...],
    keys: KeyArrays,
    ends: Ends,
    entered: Rows,
    answer: NDArray[np.int64],
    start: int,
) -> int:
    """Register new ids with their boxes, one after the other; from the beginning if `start` is NEW.

    entered[0] takes their rows and entered[1] which row covers each, or -1; `answer` see `_write_ids`, if ids
    are integers.
    Returns how many are done. Less than all: the owner makes room and calls again from there. If nothing has
    changed: FULL, also for want of room, or REFUSED.
    """
    register, graph, totals = register_of(borrowed(state[0])), _graph(borrowed(state[1])), borrowed(state[3])
    subs, rows, by = _without_sets(borrowed(state[2]), register, graph), entered[0], entered[1]
    if start == NEW:
        if not are_ordered(ends) or first_unfit(register, named(keys)) != FITS:
            return REFUSED
        if graph.first.shape[0] < subs.status.shape[0] or not admit(register, named(keys), rows):
            return FULL
        _write(subs, rows, ends)
        start = 0
    start = _subscribe(graph, subs, rows, by, start)
    if start < rows.size:
        return start
    _tally(graph, totals, NODES_SUBSCRIBE)
    totals[QUERIES] += rows.size
    totals[DELTAS] += rows.size
    if register.start.size == 0:
        _write_ids(register.code, rows, by, answer)
    return rows.size


@njit(**EXACT)
def _find(register: Register, keys: KeyArrays, rows: Rows) -> bool:
    """Look ids up; return whether all are known."""
    held, wanted = keys_in(register), named(keys)
    for i in range(rows.size):
        rows[i] = register.table[probe(register.table, held, wanted, i)]
        if rows[i] == FREE:
            return False
    return True


@njit(**EXACT)
def unsubscribe(state: tuple[Any, ...], keys: KeyArrays, found: Rows, action: NDArray[np.int8]) -> Rows:
    """Remove distinct ids, net; `action` takes what that is for each.

    Returns the rows that are left without a cover, containers first; the last place of `found` takes how many
    of them have settled, or, if nothing has changed, FULL or REFUSED.
    """
    register, graph, totals = register_of(borrowed(state[0])), _graph(borrowed(state[1])), borrowed(state[3])
    subs, size, meta = _without_sets(borrowed(state[2]), register, graph), action.size, register.meta
    rows, none = found[:size], found[:0]
    found[size] = FULL if _find(register, keys, rows) else REFUSED
    if found[size] == REFUSED or register.free.size - meta[FREE_COUNT] < size:
        return none
    for i in range(size):
        action[i] = DROP if subs.status[rows[i]] == COVERED else WITHDRAW
    orphaned = _remove_rows(graph, subs, rows, GONE)
    dismiss(register, rows)
    for i in range(size):
        register.free[meta[FREE_COUNT]] = rows[i]
        meta[FREE_COUNT] += 1
    found[size] = _resettle(graph, subs, orphaned, np.int64(0))
    _tally(graph, totals, NODES_UNSUBSCRIBE)
    totals[DELTAS] += size
    totals[FREED] += orphaned.size
    totals[FREED_MOST] = max(totals[FREED_MOST], orphaned.size)
    return orphaned


@njit(**EXACT)
def remove_rows(graph: tuple[Any, ...], subs: tuple[Any, ...], rows: Rows, status: int) -> Rows:
    """See `relation.remove_rows`."""
    return _remove_rows(_graph(borrowed(graph)), _subscriptions(borrowed(subs)), rows, status)


@njit(**EXACT)
def resettle(graph: tuple[Any, ...], subs: tuple[Any, ...], rows: Rows, start: int) -> int:
    """See `relation.resettle`."""
    return _resettle(_graph(borrowed(graph)), _subscriptions(borrowed(subs)), rows, start)


@njit(**EXACT)
def coverers(graph: tuple[Any, ...], subs: tuple[Any, ...], rows: Rows) -> Rows:
    """See `relation.coverers`."""
    return _coverers(_graph(borrowed(graph)), _subscriptions(borrowed(subs)), rows)


@njit(**EXACT)
def in_order(subs: tuple[Any, ...], rows: Rows) -> Rows:
    """See `index.containers_first`."""
    return containers_first(_subscriptions(subs), rows)


@njit(**EXACT)
def _write_action(actions: Rows, count: int, row: int, action: int, by: int) -> Rows:
    """Write line `count` of the answer; returns the answer, which may have grown."""
    if count == actions.shape[0]:
        actions = np.concatenate((actions, np.empty_like(actions)))
    actions[count, ROW], actions[count, ACTION], actions[count, BY] = row, action, by
    return actions


@njit(**EXACT)
def _forwarded(subs: Subscriptions, rows: Rows) -> Rows:
    """Those of rows that are forwarded, as registered."""
    known = rows[subs.status[rows] == FORWARDED]
    return known[np.argsort(subs.sequence[known])]


@njit(**EXACT)
def _searched(graph: Graph, totals: NDArray[np.int64], sign: int) -> None:
    """Add what the indexes have counted so far to the totals, or take it off."""
    for index in (graph.front, graph.back):
        totals[SEQUENCE_NODES] += sign * index.meta[NODES_VISITED]
        totals[SEQUENCE_POINTS] += sign * index.meta[COMPARISONS]


@njit(**EXACT)
def follow(
    graph: Graph,
    subs: Subscriptions,
    removals: NDArray[np.bool_],
    rows: Rows,
    start: int,
    actions: Rows,
    count: int,
    totals: NDArray[np.int64],
) -> tuple[int, Rows, int, Rows, int]:
    """Follow commands from `start` on: rows[i] is added, or with removals[i] removed.

    Returns how far it came, the action lines and their number; then the rows that the last command left
    without a cover and how many of them have settled. Less than all of either: the owner must make room and
    go on.
    `totals` takes what unsubscribes cause.
    """
    found, one, scratch = np.empty(graph.k, np.int32), np.empty(1, np.int32), scratch_for(graph.front)
    point, passed = scratch.point, scratch.passed
    graph, subs = borrowed(graph), borrowed(subs)
    hot, held, counts = graph.front.hot, graph.front.row, graph.front.meta
    edges, first, meta, is_plain = graph.edge, graph.first, graph.meta, has_plain_rows(graph, subs)
    lo, hi, status = subs.lo, subs.hi, subs.status
    for i in range(start, rows.shape[0]):
        row = rows[i]
        if not removals[i]:
            by = NONE
            if is_plain and edges.shape[0] > meta[LIVE]:
                by = enter_hot(hot, held, counts, edges, first, meta, lo, hi, status, point, passed, row)
            if by == NONE:
                if needs_room(graph):
                    return i, actions, count, one[:0], 0
                by = enter(graph, subs, row, found, scratch, is_plain)
            actions = _write_action(actions, count, row, FORWARD if by == NONE else COVER, by)
            count += 1
            continue
        action = DROP if subs.status[row] == COVERED else WITHDRAW
        actions = _write_action(actions, count, row, action, NONE)
        count += 1
        one[0] = row
        orphaned = _remove_rows(graph, subs, one, GONE)
        if orphaned.shape[0] == 0:
            continue
        totals[SEQUENCE_FREED] += orphaned.shape[0]
        totals[SEQUENCE_FREED_MOST] = max(totals[SEQUENCE_FREED_MOST], orphaned.shape[0])
        _searched(graph, totals, -1)
        settled = _resettle(graph, subs, orphaned, np.int64(0))
        _searched(graph, totals, 1)
        if settled < orphaned.shape[0]:
            return i + 1, actions, count, orphaned, settled
        for other in _forwarded(subs, orphaned):
            actions = _write_action(actions, count, other, FORWARD, NONE)
            count += 1
    return rows.shape[0], actions, count, one[:0], 0


@njit(**EXACT)
def first_conflict(number: NDArray[np.int32], removals: NDArray[np.bool_], live: NDArray[np.bool_]) -> int:
    """The first command that adds what is live or removes what is not, or NO_CONFLICT.

    Command i is about thing number[i]; live[number] says what is live before, and in the end after.
    """
    for i in range(number.shape[0]):
        if live[number[i]] != removals[i]:
            return i
        live[number[i]] = not removals[i]
    return NO_CONFLICT


@njit(**EXACT)
def runs(number: NDArray[np.int32], removals: NDArray[np.bool_], things: int, most: int) -> NDArray[np.int64]:
    """Where runs of at most so many commands end in which nothing is added that was named in them before.

    So within a run a thing is added, removed, or added and then removed.
    """
    seen, ends, count, start = np.full(things, -1), np.empty(number.shape[0], np.int64), 0, 0
    for i in range(number.shape[0]):
        if i - start == most or (not removals[i] and seen[number[i]] >= start):
            ends[count] = start = i
            count += 1
        seen[number[i]] = i
    if number.shape[0] > 0:
        ends[count] = number.shape[0]
        count += 1
    return ends[:count]
