"""Tiles: boxes of subscription space, each with the item that everybody inside must hear of.

Kernels keep a tile as a closed box (lo from, lo to, hi from, hi to). The contract's half-open form,
lo_outer < lo <= lo_inner and hi_inner <= hi < hi_outer, is the same set of floats: an outer bound is the
next float outside. No bound is an infinite end here and a null outside; so an unbounded subscription
(lo = -inf) is in a tile without an outer bound and in no other.

Boxes are appended to a buffer whose size the caller has checked with `space`, then stamped with their
message. A deleted item has value +inf.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]


class Tiles(NamedTuple):
    """A buffer of tiles in sending order; `size[0]` of them are filled.

    `step` is the number of better objects to the left that a range in the tile holds (the most, if several).
    """

    box: NDArray[np.float64]
    item: NDArray[np.int32]
    x: NDArray[np.float64]
    value: NDArray[np.float64]
    event: NDArray[np.int32]
    shelf: NDArray[np.int32]
    step: NDArray[np.int32]
    size: NDArray[np.int64]


class Message(NamedTuple):
    """What a tile tells: an item at x with its new value, from which event, for which class of k."""

    item: int
    x: float
    value: float
    event: int
    shelf: int


def empty_tiles(capacity: int) -> Tiles:
    """A buffer without tiles."""
    return Tiles(
        box=np.empty((capacity, 4)),
        item=np.empty(capacity, np.int32),
        x=np.empty(capacity),
        value=np.empty(capacity),
        event=np.empty(capacity, np.int32),
        shelf=np.empty(capacity, np.int32),
        step=np.empty(capacity, np.int32),
        size=np.zeros(1, np.int64),
    )


def widened(tiles: Tiles, capacity: int) -> Tiles:
    """The same tiles in a larger buffer."""
    larger, size = empty_tiles(capacity), int(tiles.size[0])
    for name in Tiles._fields[:-1]:
        getattr(larger, name)[:size] = getattr(tiles, name)[:size]
    larger.size[0] = size
    return larger


def filled(tiles: Tiles) -> Tiles:
    """The tiles alone, without the unfilled rest of the buffer."""
    size = int(tiles.size[0])
    columns = {name: getattr(tiles, name)[:size] for name in Tiles._fields[:-1]}
    return Tiles(size=tiles.size.copy(), **columns)


def outer(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The next floats outside of lower and upper ends; NaN where these are infinite: no bound."""
    with np.errstate(over="ignore"):  # behind the last float comes infinity
        below, above = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    return np.where(np.isneginf(low), np.nan, below), np.where(np.isposinf(high), np.nan, above)


def bounds(box: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Columns lo_outer, lo_inner, hi_inner, hi_outer of closed boxes; NaN in an outer one means no bound."""
    lo_outer, hi_outer = outer(box[:, 0], box[:, 3])
    return lo_outer, box[:, 1], box[:, 2], hi_outer


@njit(**EXACT)
def space(tiles: Tiles) -> int:
    """How many more tiles the buffer takes."""
    return tiles.item.shape[0] - tiles.size[0]


@njit(**EXACT)
def above(bound: float) -> float:
    """The first float above an excluded lower bound; -inf means no bound."""
    return bound if bound == -np.inf else np.nextafter(bound, np.inf)


@njit(**EXACT)
def below(bound: float) -> float:
    """The first float below an excluded upper bound; +inf means no bound."""
    return bound if bound == np.inf else np.nextafter(bound, -np.inf)


@njit(**EXACT)
def stamp(tiles: Tiles, first: int, message: Message) -> None:
    """Write what the tiles from `first` on tell."""
    end = tiles.size[0]
    tiles.item[first:end], tiles.x[first:end] = message.item, message.x
    tiles.value[first:end] = message.value
    tiles.event[first:end], tiles.shelf[first:end] = message.event, message.shelf


@njit(**EXACT)
def move(tiles: Tiles, source: int, target: int) -> None:
    """Copy one tile over another."""
    tiles.box[target] = tiles.box[source]
    tiles.item[target], tiles.x[target] = tiles.item[source], tiles.x[source]
    tiles.value[target] = tiles.value[source]
    tiles.event[target], tiles.shelf[target] = tiles.event[source], tiles.shelf[source]
    tiles.step[target] = tiles.step[source]


@njit(**EXACT)
def coarsen(tiles: Tiles, first: int, lists: int) -> None:
    """Cover the tiles from `first` on, one item's in order, by at most `lists` bounding boxes.

    Steps are cut into equal blocks, so a box spans fewer than 1 + (last - first step + 1) / lists of them and
    ranks nobody more than that many places beyond k. Equal x skip steps; hence steps, not tiles, are counted.
    [Range §IV-B]
    """
    if tiles.size[0] == first:
        return
    start, kept, block = tiles.step[first], first, 0
    span = tiles.step[tiles.size[0] - 1] - start + 1
    for at in range(first + 1, tiles.size[0]):
        here = (tiles.step[at] - start) * lists // span
        if here == block:
            box, other = tiles.box[kept], tiles.box[at]
            box[0], box[1] = min(box[0], other[0]), max(box[1], other[1])
            box[2], box[3] = min(box[2], other[2]), max(box[3], other[3])
        else:
            kept += 1
            block = here
            move(tiles, at, kept)
    tiles.size[0] = kept + 1
