"""Inverted lists by word whose entries lie in blocks with bounds: a linear quadtree under every word.

The list of a word is a stretch of the entry arrays. Entries stand in blocks of `BLOCK`; a block has the box
of its owners' places, the range of their alphas, their least threshold, and the largest weight and rest. A
block always bounds what is in it: a new entry goes to the end and widens the last block. An entry counts as
long as its stamp is that of its owner, so leaving, moving and changing cost nothing in the lists.

`arrange` puts a list in order: cells of neighbours on the Z-curve, in a cell groups by alpha, in a group by
threshold [Geo §5.1, §5.3]. It is due when a quarter of a list is new or half of it is gone, so an entry is
arranged a few times in its life. Stretches begin at multiples of `STEP`, and what is known of a block stands
at its first entry divided by `STEP`: blocks need no stretches of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.geo_bounds import Frame, embed
from rankcast.kernels.options import EXACT
from rankcast.kernels.term_order import Texts, rarest_first

BLOCK, STEP = 32, 8
ALPHA_LOW, ALPHA_HIGH, THRESHOLD, WEIGHT, REST = range(5)
FINE = 65535.0

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]


class Lists(NamedTuple):
    """By word: begin of its stretch, entries in order, entries, room, entries gone. By entry, by block."""

    begin: NDArray[np.int64]
    main: Rows
    size: Rows
    room: Rows
    dead: Rows
    row: Rows
    stamp: Rows
    threshold: Floats32
    alpha: Floats32
    weight: Floats32
    rest: Floats32
    spot: Floats32
    box: Floats32
    bound: Floats32


class Owners(NamedTuple):
    """By row: place, alpha and threshold as lists hold them, and the stamp of what is current."""

    x: Floats
    y: Floats
    alpha: Floats32
    threshold: Floats32
    stamp: Rows


class Shape(NamedTuple):
    """How `arrange` cuts a list: owners a cell, groups a cell."""

    cell: int
    groups: int


@njit(**EXACT)
def _widen(
    box: Floats32, bound: Floats32, block: int, first: bool, spot: Floats32, at: int,
    values: tuple[float, float, float, float],
) -> None:  # fmt: skip
    """Let a block bound one more entry: the one `at`, with its alpha, threshold, weight and rest."""
    if first:
        box[block, :3], box[block, 3:] = np.inf, -np.inf
        bound[block] = -np.inf
        bound[block, ALPHA_LOW] = bound[block, THRESHOLD] = np.inf
    for axis in range(3):
        box[block, axis] = min(box[block, axis], spot[at, axis])
        box[block, axis + 3] = max(box[block, axis + 3], spot[at, axis])
    alpha, threshold, weight, rest = values
    bound[block, ALPHA_LOW] = min(bound[block, ALPHA_LOW], np.float32(alpha))
    bound[block, ALPHA_HIGH] = max(bound[block, ALPHA_HIGH], np.float32(alpha))
    bound[block, THRESHOLD] = min(bound[block, THRESHOLD], np.float32(threshold))
    bound[block, WEIGHT] = max(bound[block, WEIGHT], np.float32(weight))
    bound[block, REST] = max(bound[block, REST], np.float32(rest))


@njit(**EXACT)
def append(lists: Lists, rows: Rows, texts: Texts, idf: Floats, owners: Owners, frame: Frame) -> None:
    """Add owners to the lists of all their words; there is room.

    An owner without a threshold of its own (a message) is ordered by its weight, the heaviest first.
    """
    begins, _, sizes, _, _, listed, stamps, thresholds, alphas, weights, rests, spot, box, bound = lists
    x, y, own_alpha, own_threshold, own_stamp = owners
    for row in rows:
        term, weight, rest = rarest_first(texts, row, idf)
        place = embed(frame, x[row], y[row])
        for i in range(term.size):
            offset = sizes[term[i]]
            sizes[term[i]] = offset + 1
            at = begins[term[i]] + offset
            listed[at], stamps[at] = row, own_stamp[row]
            alphas[at], weights[at], rests[at] = own_alpha[row], weight[i], rest[i]
            thresholds[at] = -weight[i] if np.isnan(own_threshold[row]) else own_threshold[row]
            spot[at, 0], spot[at, 1], spot[at, 2] = place
            values = (alphas[at], thresholds[at], weights[at], rests[at])
            _widen(box, bound, (at - offset % BLOCK) // STEP, offset % BLOCK == 0, spot, at, values)


@njit(**EXACT)
def discount(lists: Lists, rows: Rows, texts: Texts) -> None:
    """Note that the entries of owners no longer count."""
    begin, size, term, _ = texts
    dead = lists.dead
    for row in rows:
        for i in range(begin[row], begin[row] + size[row]):
            dead[term[i]] += 1


@njit(**EXACT)
def due(lists: Lists, words: Rows) -> Rows:
    """Which of some distinct words have lists that should be put in order."""
    found, count = np.empty(words.size, np.int32), 0
    for word in words:
        size, dead = lists.size[word], lists.dead[word]
        if size - lists.main[word] > BLOCK + size // 4 or dead > STEP + size // 2:
            found[count] = word
            count += 1
    return found[:count]


@njit(**EXACT)
def _spread_bits(value: int) -> int:
    """The lower 16 bits of a number, a zero before each."""
    value = (value | (value << 8)) & 0x00FF00FF
    value = (value | (value << 4)) & 0x0F0F0F0F
    value = (value | (value << 2)) & 0x33333333
    return (value | (value << 1)) & 0x55555555


@njit(**EXACT)
def _on_curve(frame: Frame, x: float, y: float) -> int:
    """The place of a place on the Z-curve over the bounds."""
    width, height = frame.east - frame.west, frame.north - frame.south
    column = int(FINE * (x - frame.west) / width) if width > 0 else 0
    line = int(FINE * (y - frame.south) / height) if height > 0 else 0
    return _spread_bits(column) | (_spread_bits(line) << 1)


@njit(**EXACT)
def _current(lists: Lists, word: int, owners: Owners) -> NDArray[np.int64]:
    """The entries of a word that count."""
    begin, size = lists.begin[word], lists.size[word]
    found, count = np.empty(size, np.int64), 0
    stamp, row, current = lists.stamp, lists.row, owners.stamp
    for at in range(begin, begin + size):
        if stamp[at] == current[row[at]]:
            found[count] = at
            count += 1
    return found[:count]


@njit(**EXACT)
def _ordered(lists: Lists, kept: NDArray[np.int64], owners: Owners, frame: Frame, shape: Shape) -> None:
    """Put entries in order: by cell, by group of alphas, by threshold."""
    size = kept.size
    if size > shape.cell:
        code, rows, x, y = np.empty(size, np.int64), lists.row, owners.x, owners.y
        for i in range(size):
            row = rows[kept[i]]
            code[i] = _on_curve(frame, x[row], y[row])
        kept[:] = kept[np.argsort(code, kind="mergesort")]
    for first in range(0, size, shape.cell):
        cell = kept[first : first + shape.cell]
        groups = min(shape.groups, (cell.size + BLOCK - 1) // BLOCK)
        if groups > 1:
            cell[:] = cell[np.argsort(lists.alpha[cell], kind="mergesort")]
        length = (cell.size + groups - 1) // groups
        length = (length + BLOCK - 1) // BLOCK * BLOCK
        for start in range(0, cell.size, length):
            group = cell[start : start + length]
            group[:] = group[np.argsort(lists.threshold[group], kind="mergesort")]


@njit(**EXACT)
def arrange(lists: Lists, words: Rows, owners: Owners, frame: Frame, shape: Shape) -> None:
    """Put the lists of words in order, without what is gone. Cost: O(n log n) a list."""
    for word in words:
        kept = _current(lists, word, owners)
        _ordered(lists, kept, owners, frame, shape)
        begin, size = lists.begin[word], kept.size
        end = begin + size
        lists.row[begin:end], lists.stamp[begin:end] = lists.row[kept], lists.stamp[kept]
        lists.threshold[begin:end], lists.alpha[begin:end] = lists.threshold[kept], lists.alpha[kept]
        lists.weight[begin:end], lists.rest[begin:end] = lists.weight[kept], lists.rest[kept]
        lists.spot[begin:end] = lists.spot[kept]
        lists.main[word], lists.size[word], lists.dead[word] = size, size, 0
        _bound(lists, word)


@njit(**EXACT)
def _bound(lists: Lists, word: int) -> None:
    """Make the bounds of all blocks of a list."""
    begins, _, sizes, _, _, _, _, threshold, alpha, weight, rest, spot, box, bound = lists
    begin = begins[word]
    for offset in range(sizes[word]):
        at = begin + offset
        values = (alpha[at], threshold[at], weight[at], rest[at])
        _widen(box, bound, (at - offset % BLOCK) // STEP, offset % BLOCK == 0, spot, at, values)


@njit(**EXACT)
def move(old: Lists, new: Lists, words: Rows, rooms: Rows, used: int) -> int:
    """Move the lists of words to new stretches, from `used` on; return where they end.

    `old` and `new` have the same arrays by word; by entry they may be the same or not. Rooms and `used` are
    multiples of `STEP`.
    """
    for i in range(words.size):
        word = words[i]
        begin, size = old.begin[word], old.size[word]
        end, to = begin + size, used + size
        new.row[used:to], new.stamp[used:to] = old.row[begin:end], old.stamp[begin:end]
        new.threshold[used:to], new.alpha[used:to] = old.threshold[begin:end], old.alpha[begin:end]
        new.weight[used:to], new.rest[used:to] = old.weight[begin:end], old.rest[begin:end]
        new.spot[used:to] = old.spot[begin:end]
        source, target, blocks = begin // STEP, used // STEP, (size + STEP - 1) // STEP
        new.box[target : target + blocks] = old.box[source : source + blocks]
        new.bound[target : target + blocks] = old.bound[source : source + blocks]
        new.begin[word], new.room[word] = used, rooms[i]
        used += rooms[i]
    return used
