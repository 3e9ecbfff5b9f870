"""The calls of G_k that Python makes for every command, over plain tuples of arrays.

Numba recognises the type of a plain tuple some ten times faster than that of a named one, and with a search
of a microsecond that is what a call costs. For the same reason `subscribe` and `unsubscribe` do all of a call
at once: ids to rows, boxes to their place, the search, the edges, the ids of the answer and the counts.

A state is (register, graph, world without the numbers of registration, totals); fields stand in the order of
`Register`, `Graph`, `Index` and `World`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels import relation
from rankcast.covering.kernels.buckets import COMPARISONS, COVERED, GONE, NODES_VISITED, Ends, Index, World
from rankcast.covering.kernels.index import scratch_for
from rankcast.covering.kernels.order import containers_first
from rankcast.covering.kernels.relation import Graph, Rows, enter, waiting
from rankcast.covering.kernels.sequence import DROP, WITHDRAW
from rankcast.structures.arrays import are_ordered
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
QUERIES, NODES_COMING, POINTS_COMING, NODES_GOING, POINTS_GOING, FREED, FREED_MOST, TOLD = range(TOTALS)
WORD = 64
_depart, _resettle, _coverers = relation.depart, relation.resettle, relation.coverers


@njit(**EXACT)
def _index(plain: tuple[Any, ...]) -> Index:
    return Index(plain[0], plain[1], plain[2], plain[3], plain[4], plain[5])


@njit(**EXACT)
def _graph(plain: tuple[Any, ...]) -> Graph:
    return Graph(_index(plain[0]), _index(plain[1]), plain[2], plain[3], plain[4], plain[5], plain[6])


@njit(**EXACT)
def _world(plain: tuple[Any, ...], sequence: NDArray[np.int64]) -> World:
    return World(plain[0], plain[1], plain[2], sequence)


@njit(**EXACT)
def _write(world: World, rows: Rows, ends: Ends) -> None:
    """Give rows their boxes; ends[2 j] and ends[2 j + 1] are the lower and upper ends in attribute j."""
    for i in range(rows.size):
        for attribute in range(world.lo.shape[1]):
            world.lo[rows[i], attribute] = ends[2 * attribute, i]
            world.hi[rows[i], attribute] = ends[2 * attribute + 1, i]


@njit(**EXACT)
def _tell(code: NDArray[np.int64], rows: Rows, by: Rows, answer: NDArray[np.int64]) -> None:
    """Write integer ids: of the rows, of those that cover them, then a bit for each place, set if known."""
    size = rows.size
    answer[2 * size :] = 0
    for i in range(size):
        answer[i], answer[size + i] = code[rows[i]], 0
        if by[i] >= 0:
            answer[size + i] = code[by[i]]
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
    told: Rows,
    answer: NDArray[np.int64],
    start: int,
) -> int:
    """Register new ids with their boxes, one after the other; from the beginning if `start` is NEW.

    told[0] takes their rows and told[1] who covers each, or -1; `answer` see `_tell`, if ids are integers.
    Returns how many are done. Less than all: the owner makes room and calls again from there. If nothing has
    changed: FULL, also for want of room, or REFUSED.
    """
    register, graph, totals = register_of(state[0]), _graph(state[1]), state[3]
    world, rows, by = _world(state[2], register.sequence), told[0], told[1]
    if start == NEW:
        if not are_ordered(ends) or first_unfit(register, named(keys)) != FITS:
            return REFUSED
        if graph.first.shape[0] < world.standing.shape[0] or not admit(register, named(keys), rows):
            return FULL
        _write(world, rows, ends)
        start = 0
    found, scratch = np.empty(graph.k, np.int32), scratch_for(graph.front)
    for i in range(start, rows.size):
        if waiting(graph):
            return i
        by[i] = enter(graph, world, rows[i], found, scratch)
    _tally(graph, totals, NODES_COMING)
    totals[QUERIES] += rows.size
    totals[TOLD] += rows.size
    if register.start.size == 0:
        _tell(register.code, rows, by, answer)
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
def unsubscribe(state: tuple[Any, ...], keys: KeyArrays, told: Rows, action: NDArray[np.int8]) -> Rows:
    """Remove distinct ids, net; `action` takes what that is for each.

    Returns the rows that are left without a cover, containers first; the last place of `told` takes how many
    of them have settled, or, if nothing has changed, FULL or REFUSED.
    """
    register, graph, totals = register_of(state[0]), _graph(state[1]), state[3]
    world, size, meta = _world(state[2], register.sequence), action.size, register.meta
    rows, none = told[:size], told[:0]
    told[size] = FULL if _find(register, keys, rows) else REFUSED
    if told[size] == REFUSED or register.free.size - meta[FREE_COUNT] < size:
        return none
    for i in range(size):
        action[i] = DROP if world.standing[rows[i]] == COVERED else WITHDRAW
    alone = _depart(graph, world, rows, GONE)
    dismiss(register, rows)
    for i in range(size):
        register.free[meta[FREE_COUNT]] = rows[i]
        meta[FREE_COUNT] += 1
    told[size] = _resettle(graph, world, alone, np.int64(0))
    _tally(graph, totals, NODES_GOING)
    totals[TOLD] += size
    totals[FREED] += alone.size
    totals[FREED_MOST] = max(totals[FREED_MOST], alone.size)
    return alone


@njit(**EXACT)
def depart(graph: tuple[Any, ...], world: tuple[Any, ...], rows: Rows, standing: int) -> Rows:
    """See `relation.depart`."""
    return _depart(_graph(graph), _world(world, world[3]), rows, standing)


@njit(**EXACT)
def resettle(graph: tuple[Any, ...], world: tuple[Any, ...], rows: Rows, start: int) -> int:
    """See `relation.resettle`."""
    return _resettle(_graph(graph), _world(world, world[3]), rows, start)


@njit(**EXACT)
def coverers(graph: tuple[Any, ...], world: tuple[Any, ...], rows: Rows) -> Rows:
    """See `relation.coverers`."""
    return _coverers(_graph(graph), _world(world, world[3]), rows)


@njit(**EXACT)
def in_order(world: tuple[Any, ...], rows: Rows) -> Rows:
    """See `covering_order.containers_first`."""
    return containers_first(_world(world, world[3]), rows)
