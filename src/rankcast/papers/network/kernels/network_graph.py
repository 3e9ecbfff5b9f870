"""Graphs of nodes and links as rows of neighbours: hops between nodes, and the tree that joins some of them.

A graph is `start` and `neighbour`: the neighbours of node v are neighbour[start[v]] .. neighbour[start[v + 1]
- 1]. All links have the same length.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Starts = NDArray[np.int64]
Nodes = NDArray[np.int32]
Hops = NDArray[np.int32]

UNREACHED = -1


@njit(**EXACT)
def hops_from(start: Starts, neighbour: Nodes, sources: Nodes) -> Hops:
    """Hops on a shortest path from each source (a line) to every node; -1 where there is no path.

    Cost: one breadth-first search a source, O(nodes + links).
    """
    nodes = start.shape[0] - 1
    hops = np.full((sources.shape[0], nodes), UNREACHED, np.int32)
    queue = np.empty(nodes, np.int32)
    for s in range(sources.shape[0]):
        away = hops[s]
        queue[0], head, tail = sources[s], 0, 1
        away[sources[s]] = 0
        while head < tail:
            here = queue[head]
            head += 1
            for link in range(start[here], start[here + 1]):
                there = neighbour[link]
                if away[there] < 0:
                    away[there] = away[here] + 1
                    queue[tail] = there
                    tail += 1
    return hops


@njit(**EXACT)
def joining_tree(hops: Hops) -> Nodes:
    """The parent of each point in a smallest tree over points with these distances; the first has none (-1).

    Of equal distances the smaller point comes first, and joins the one that came first. O(n^2).
    """
    points = hops.shape[0]
    parent = np.full(points, -1, np.int32)
    nearest, joined = np.full(points, 2**31 - 1, np.int32), np.zeros(points, np.bool_)
    here = 0
    for _ in range(points - 1):
        joined[here] = True
        best = -1
        for there in range(points):
            if joined[there]:
                continue
            if hops[here, there] < nearest[there]:
                nearest[there], parent[there] = hops[here, there], here
            if best < 0 or nearest[there] < nearest[best]:
                best = there
        here = best
    return parent


@njit(**EXACT)
def spread(start: Starts, neighbour: Nodes, wanted: NDArray[np.bool_], origin: Nodes) -> NDArray[np.bool_]:
    """Whom events reach that go from broker to broker along wanted links, never back: (event, broker).

    `wanted[link, event]` says that the broker at the far end of a link has asked for the event; links are
    numbered as `neighbour` is. In an acyclic graph no broker is reached twice. O(events * links).
    """
    brokers, events = start.shape[0] - 1, origin.shape[0]
    reached = np.zeros((events, brokers), np.bool_)
    stack = np.empty((brokers, 2), np.int32)
    for event in range(events):
        stack[0, 0], stack[0, 1], depth = origin[event], -1, 1
        while depth > 0:
            depth -= 1
            here, before = stack[depth, 0], stack[depth, 1]
            reached[event, here] = True
            for link in range(start[here], start[here + 1]):
                if neighbour[link] != before and wanted[link, event]:
                    stack[depth, 0], stack[depth, 1] = neighbour[link], here
                    depth += 1
    return reached


@njit(**EXACT)
def causes(
    told: NDArray[np.int64], goes: NDArray[np.bool_], commands: NDArray[np.int64]
) -> NDArray[np.int64]:
    """By which command a router told each row of its answer: `told` are the ids, in order.

    A command answers with a row of its own id, and one that goes may be followed by others that it freed;
    these are live already, so none is the next to come, and do not go (`goes`), so none is the next to go.
    `commands` are ids, those that go written as -1 - id.
    """
    by, command = np.empty(told.shape[0], np.int64), -1
    for row in range(told.shape[0]):
        name = -1 - told[row] if goes[row] else told[row]
        if command + 1 < commands.shape[0] and commands[command + 1] == name:
            command += 1
        by[row] = command
    return by
