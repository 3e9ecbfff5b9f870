"""A sequence of commands to G_k in one call: subscribes and unsubscribes in turn, each by itself.

A router hears one command after the other. Where many of them wait, one call of a kernel answers them all;
what it does for each is what `relation` does for a call with that one row [Covering §III-C].

Commands as a sequence: whether each fits what is live by then, and where the sequence is cut.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.buckets import COMPARISONS, COVERED, FORWARDED, GONE, NODES_VISITED, World
from rankcast.covering.kernels.index import scratch_for
from rankcast.covering.kernels.relation import NONE, Graph, Rows, depart, enter, resettle, waiting
from rankcast.structures.jit import EXACT

FORWARD, COVER, WITHDRAW, DROP = range(4)
ROW, ACTION, BY = range(3)
FREED, FREED_MOST, NODES, POINTS = range(4)


@njit(**EXACT)
def _tell(told: Rows, count: int, row: int, action: int, by: int) -> Rows:
    """Write line `count` of the answer; returns the answer, which may have grown."""
    if count == told.shape[0]:
        told = np.concatenate((told, np.empty_like(told)))
    told[count, ROW], told[count, ACTION], told[count, BY] = row, action, by
    return told


@njit(**EXACT)
def _forwarded(world: World, rows: Rows) -> Rows:
    """Those of rows that are forwarded, as registered."""
    known = rows[world.standing[rows] == FORWARDED]
    return known[np.argsort(world.sequence[known])]


@njit(**EXACT)
def _searched(graph: Graph, totals: NDArray[np.int64], sign: int) -> None:
    """Add what the indexes have counted so far to the totals, or take it off."""
    for index in (graph.front, graph.back):
        totals[NODES] += sign * index.meta[NODES_VISITED]
        totals[POINTS] += sign * index.meta[COMPARISONS]


@njit(**EXACT)
def follow(
    graph: Graph,
    world: World,
    leaves: NDArray[np.bool_],
    rows: Rows,
    start: int,
    told: Rows,
    count: int,
    totals: NDArray[np.int64],
) -> tuple[int, Rows, int, Rows, int]:
    """Follow commands from `start` on: rows[i] comes, or with leaves[i] goes.

    Returns how far it came, the lines told and their number; then the rows that the last command left alone
    and how many of them have settled. Less than all of either: the owner must make room and go on.
    `totals` takes what unsubscribes cause.
    """
    found, one, scratch = np.empty(graph.k, np.int32), np.empty(1, np.int32), scratch_for(graph.front)
    for i in range(start, rows.shape[0]):
        row = rows[i]
        if not leaves[i]:
            if waiting(graph):
                return i, told, count, one[:0], 0
            by = enter(graph, world, row, found, scratch)
            told = _tell(told, count, row, FORWARD if by == NONE else COVER, by)
            count += 1
            continue
        told = _tell(told, count, row, DROP if world.standing[row] == COVERED else WITHDRAW, NONE)
        count += 1
        one[0] = row
        alone = depart(graph, world, one, GONE)
        if alone.shape[0] == 0:
            continue
        totals[FREED] += alone.shape[0]
        totals[FREED_MOST] = max(totals[FREED_MOST], alone.shape[0])
        _searched(graph, totals, -1)
        settled = resettle(graph, world, alone, np.int64(0))
        _searched(graph, totals, 1)
        if settled < alone.shape[0]:
            return i + 1, told, count, alone, settled
        for other in _forwarded(world, alone):
            told = _tell(told, count, other, FORWARD, NONE)
            count += 1
    return rows.shape[0], told, count, one[:0], 0


FITS = -1


@njit(**EXACT)
def first_misfit(number: NDArray[np.int32], leaves: NDArray[np.bool_], live: NDArray[np.bool_]) -> int:
    """The first command that brings what is live or takes what is not, or FITS.

    Command i is about thing number[i]; live[number] says what is live before, and in the end after.
    """
    for i in range(number.shape[0]):
        if live[number[i]] != leaves[i]:
            return i
        live[number[i]] = not leaves[i]
    return FITS


@njit(**EXACT)
def stretches(
    number: NDArray[np.int32], leaves: NDArray[np.bool_], things: int, most: int
) -> NDArray[np.int64]:
    """Where stretches of at most so many commands end in which nothing comes that was named in them before.

    So within a stretch a thing comes, goes, or comes and then goes.
    """
    seen, ends, count, start = np.full(things, -1), np.empty(number.shape[0], np.int64), 0, 0
    for i in range(number.shape[0]):
        if i - start == most or (not leaves[i] and seen[number[i]] >= start):
            ends[count] = start = i
            count += 1
        seen[number[i]] = i
    if number.shape[0] > 0:
        ends[count] = number.shape[0]
        count += 1
    return ends[:count]
