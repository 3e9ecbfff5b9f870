"""Zones of many queries, one behind the other: each is found, and what bounds it is written down."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.moving.kernels.convex import FIRST, MANY, ONE, Floats, Ints, Region, copied, region_for, roomy
from rankcast.moving.kernels.rtree import Rows, Rtree
from rankcast.moving.kernels.skyline_cells import UNIVERSE_LINES
from rankcast.moving.kernels.skyline_search import FOUND, NODES, Seekers, find_skyline, room_for
from rankcast.moving.kernels.skyline_zone import carve, circle
from rankcast.structures.distance import EUCLIDEAN
from rankcast.structures.jit import EXACT


class Zones(NamedTuple):
    """Zones of queries: how many results, members (results first, by distance) and corners each has; those.

    Corners are relative to the query; `line` is the line of the edge that begins there, its complement at
    the last corner of a piece, and `owner` the object that comes into the skyline across it, or leaves it
    (-1: none). `cut` says whether the universe bounds the zone.
    """

    result: Ints
    count: Ints  # type: ignore[assignment]
    corners: Ints
    radius: Floats
    cut: NDArray[np.bool_]
    member: Rows
    x: Floats
    y: Floats
    line: Ints
    owner: Rows


class Pile(NamedTuple):
    """Members of zones, their corners, and the owners of their edges, with room for more."""

    member: Rows
    shape: Region
    owner: Rows


@njit(**EXACT)
def pile() -> Pile:
    """Nothing yet."""
    return Pile(np.empty(64, np.int32), region_for(MANY, ONE), np.empty(64, np.int32))


@njit(**EXACT)
def _added(all_: Rows, used: int, rows: Rows, many: int) -> Rows:
    """Write so many rows behind what is used of an array, which is grown if need be."""
    if used + many > all_.size:
        larger = np.empty(2 * (used + many), np.int32)
        for k in range(used):
            larger[k] = all_[k]
        all_ = larger
    for k in range(many):
        all_[used + k] = rows[k]
    return all_


@njit(**EXACT)
def _owners(region: Region, pieces: int, owner: Ints) -> Rows:
    """The owners of the edges of pieces."""
    found = np.empty(region.end[pieces - 1] if pieces > 0 else 0, np.int32)
    for i in range(found.size):
        found[i] = owner[region.line[i]]
    return found


@njit(**EXACT)
def _others(owners: Rows, results: Rows, many: int) -> tuple[Rows, int]:
    """Those that own edges and are none of so many results, each once, and how many."""
    found, size = np.empty(owners.size, np.int32), 0
    for who in owners:
        known = who < 0
        for j in range(size):
            known |= found[j] == who
        for j in range(0 if known else many):
            known |= results[j] == who
        if not known:
            found[size] = who
            size += 1
    return found, size


@njit(**EXACT)
def _outlined(all_: Region, used: int, region: Region, pieces: int) -> Region:
    """Write the corners of a region behind what is used of another, with complements where pieces end."""
    corners = region.end[pieces - 1]
    all_ = roomy(all_, used + corners, ONE)
    copied(region, FIRST, corners, all_, used)
    for piece in range(pieces):
        last = region.end[piece] - 1
        all_.line[used + last] = ~region.line[last]
    return all_


@njit(**EXACT)
def laid(
    onto: Pile, used: tuple[int, int], results: Rows, many: int, region: Region, pieces: int, owner: Ints
) -> tuple[Pile, int, int, bool]:
    """Lay a zone with so many results behind the members and corners that are used of a pile.

    Returns the pile, how many members and corners came, and whether the universe bounds the zone.
    """
    who, cut = _owners(region, pieces, owner), False
    others, more = _others(who, results, many)
    member = _added(onto.member, used[0], results, many)
    member = _added(member, used[0] + many, others, more)
    shape = _outlined(onto.shape, used[1], region, pieces) if pieces > 0 else onto.shape
    for i in range(who.size):
        cut |= region.line[i] < UNIVERSE_LINES
    return Pile(member, shape, _added(onto.owner, used[1], who, who.size)), many + more, who.size, cut


@njit(**EXACT)
def zones_of(
    each: tuple[Ints, Ints, Ints, Floats, NDArray[np.bool_]], held: Pile, used: tuple[int, int]
) -> Zones:
    """What a pile holds; of each zone how many results, members, corners, its radius, whether it is cut."""
    result, count, corners, radius, cut = each
    shape, many = held.shape, used[1]
    return Zones(
        result,
        count,
        corners,
        radius,
        cut,
        held.member[: used[0]],
        shape.x[:many],
        shape.y[:many],
        shape.line[:many],
        held.owner[:many],
    )


@njit(**EXACT)
def find_zones(
    metric: int, tree: Rtree, seekers: Seekers, part: Ints, universe: Floats, m: int
) -> tuple[Zones, Ints]:
    """The zones of a part of the queries, cut to a universe; and blocks opened, objects tried."""
    room, many = room_for(tree), part.size
    result, count, corners = np.zeros(many, np.int64), np.zeros(many, np.int64), np.zeros(many, np.int64)
    radius, cut = np.zeros(many), np.zeros(many, np.bool_)
    onto, extra, members, used = pile(), np.empty(m, np.int32), FIRST, FIRST
    for k in range(many):
        i = part[k]
        find_skyline(metric, tree, room, seekers, i)
        result[k] = room.size[FOUND]
        if metric == EUCLIDEAN:
            region, pieces, owner, radius[k] = carve(tree, room, seekers, i, universe)
            onto, count[k], corners[k], cut[k] = laid(
                onto, (members, used), room.row, result[k], region, pieces, owner
            )
        else:
            more, radius[k] = circle(metric, tree, room, seekers, i, extra)
            member = _added(onto.member, members, room.row, result[k])
            onto = Pile(_added(member, members + result[k], extra, more), onto.shape, onto.owner)
            count[k] = result[k] + more
        members, used = members + count[k], used + corners[k]
    return zones_of((result, count, corners, radius, cut), onto, (members, used)), room.size[NODES:].copy()
