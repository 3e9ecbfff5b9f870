"""The calls of G_k that Python makes for every command, over plain tuples of arrays.

Numba recognises the type of a plain tuple some ten times faster than that of a named one, and with a search
of a microsecond that is what a call costs. Fields stand in the order of `Graph`, `Index` and `World`.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from rankcast.kernels import relation
from rankcast.kernels.covering_buckets import Index, World
from rankcast.kernels.covering_order import containers_first
from rankcast.kernels.options import EXACT
from rankcast.kernels.relation import Graph, Rows

_subscribe, _depart, _resettle, _coverers = (
    relation.subscribe,
    relation.depart,
    relation.resettle,
    relation.coverers,
)


@njit(**EXACT)
def _index(plain: tuple[Any, ...]) -> Index:
    return Index(plain[0], plain[1], plain[2], plain[3], plain[4], plain[5])


@njit(**EXACT)
def _graph(plain: tuple[Any, ...]) -> Graph:
    return Graph(_index(plain[0]), _index(plain[1]), plain[2], plain[3], plain[4], plain[5], plain[6])


@njit(**EXACT)
def _world(plain: tuple[Any, ...]) -> World:
    return World(plain[0], plain[1], plain[2], plain[3])


@njit(**EXACT)
def subscribe(
    graph: tuple[Any, ...], world: tuple[Any, ...], rows: Rows, covered_by: Rows, start: int
) -> int:
    """See `relation.subscribe`."""
    return _subscribe(_graph(graph), _world(world), rows, covered_by, start)


@njit(**EXACT)
def depart(graph: tuple[Any, ...], world: tuple[Any, ...], rows: Rows, standing: int) -> Rows:
    """See `relation.depart`."""
    return _depart(_graph(graph), _world(world), rows, standing)


@njit(**EXACT)
def resettle(graph: tuple[Any, ...], world: tuple[Any, ...], rows: Rows, start: int) -> int:
    """See `relation.resettle`."""
    return _resettle(_graph(graph), _world(world), rows, start)


@njit(**EXACT)
def coverers(graph: tuple[Any, ...], world: tuple[Any, ...], rows: Rows) -> Rows:
    """See `relation.coverers`."""
    return _coverers(_graph(graph), _world(world), rows)


@njit(**EXACT)
def in_order(world: tuple[Any, ...], rows: Rows) -> Rows:
    """See `covering_order.containers_first`."""
    return containers_first(_world(world), rows)
