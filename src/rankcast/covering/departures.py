"""What commands do to a table of covering relations."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rankcast.covering.kernels.covering_buckets import COVERED, Box, World
from rankcast.covering.kernels.relation_follow import ACTION, BY, COVER, DROP, FORWARD, ROW, WITHDRAW
from rankcast.tables.schema import Bools, Rows

NOBODY: Rows = np.empty(0, np.int32)


class Departure(NamedTuple):
    """Who is gone, who is forwarded now as registered, and how many had to look for another cover."""

    gone: Rows
    forwarded: Rows
    freed: int


class Story(NamedTuple):
    """What a sequence of commands came to.

    `told` has a line for each action in turn: row, action, and who covers it or -1. Unsubscribes made `freed`
    rows look for another cover, one of them `freed_most`. Nodes visited and points compared for both kinds.
    """

    told: Rows
    freed: int
    freed_most: int
    subscribing: tuple[int, int]
    unsubscribing: tuple[int, int]


class Relations(Protocol):
    """What keeps the standing of rows: brute force, or one of the relation graphs.

    The owner passes the `World` of all rows with every call; the relations set `standing` in it.
    """

    def subscribe(self, world: World, rows: Rows) -> Rows:
        """Register rows one after the other; returns for each one that covers it, or -1."""

    def unsubscribe(self, world: World, rows: Rows) -> Departure:
        """Remove rows, net: whoever is left without a cover is forwarded."""

    def follow(self, world: World, leaves: Bools, rows: Rows) -> Story:
        """Follow commands in turn: a row comes, or where `leaves` says so goes."""

    def release(self, world: World, row: int, limit: int) -> Departure:
        """Go on removing one row, looking at no more than `limit` of those it covers."""

    def amend(self, world: World, rows: Rows, write: Callable[[], None]) -> Departure:
        """Give rows other boxes, which `write` writes, net; they may be among the forwarded in the answer."""

    def coverers(self, world: World, rows: Rows) -> Rows:
        """For each row one that covers it, -1 for a forwarded one."""

    def covers(self, world: World, boxes: Box, k: int) -> Rows:
        """For each box up to k live rows that contain it, a line each, filled up with -1."""

    def stab(self, world: World, boxes: Box) -> tuple[Rows, NDArray[np.int64]]:
        """Rows that neighbours know and that contain each box, as registered, and where each list ends."""

    def tally(self) -> tuple[int, int]:
        """Nodes visited and points compared since the last call."""


def follow_by_calls(relations: Relations, world: World, leaves: Bools, rows: Rows) -> Story:
    """Follow commands by a call for each unsubscribe and each run of subscribes."""
    told, freed, searched = [lines(NOBODY, FORWARD, NOBODY)], [0], np.zeros((2, 2), np.int64)
    borders = np.flatnonzero(np.r_[leaves.size > 0, leaves[1:] | leaves[:-1], True])
    for start, stop in pairwise(borders.tolist()):
        run = rows[start:stop]
        if leaves[start]:
            action = DROP if world.standing[run[0]] == COVERED else WITHDRAW
            gone = relations.unsubscribe(world, run)
            told += [lines(run, action, -1), lines(gone.forwarded, FORWARD, -1)]
            freed.append(gone.freed)
        else:
            by = relations.subscribe(world, run)
            told.append(lines(run, np.where(by < 0, FORWARD, COVER), by))
        searched[int(leaves[start])] += relations.tally()
    came, went = ((int(nodes), int(points)) for nodes, points in searched)
    return Story(np.concatenate(told), sum(freed), max(freed), came, went)


def lines(rows: Rows, action: Any, by: Any) -> Rows:
    """Lines of a story."""
    made = np.empty((rows.size, 3), np.int32)
    made[:, ROW], made[:, ACTION], made[:, BY] = rows, action, by
    return made
