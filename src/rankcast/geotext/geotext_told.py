"""What is told of live results of `GeoTextTopK`: net changes, what keeps a message out, bytes by part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.buffers import ResultBuffers
from rankcast.geotext.geotext_ledger import World
from rankcast.geotext.kernels.buffers import write_changes, write_replaced
from rankcast.geotext.kernels.geo_bounds import Frame, alikeness, best_score
from rankcast.geotext.kernels.message_search import Ages
from rankcast.geotext.kernels.skyband import Log
from rankcast.geotext.kernels.term_order import rarest_first
from rankcast.geotext.vocabulary import positions
from rankcast.structures.diff import ChangeColumns, Entries
from rankcast.structures.distance import distance
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Floats, Ints, Rows

PARTS = {  # arrays of the state by the beginnings of their names, the first that fits
    "reverse lists": ("live.buffers_link_",),
    "buffers": ("live.buffers_",),
    "postings": ("live.readers_",),
    "window": ("message.", "window.", "text.", "live.messages_", "live.age_"),
    "subscriptions": ("subscription.", "interest.", "live."),
    "words": ("term.",),
}


def difference(rows: Rows, before: Lists, after: Lists) -> Changes:
    """What turns the results of rows into others; all in the order of registration."""
    size = before.item.size + after.item.size + 1
    told = ChangeColumns(*(np.empty(size, kind) for kind in ("i4", "i1", "i4", "f8", "i8", "f8")))
    size = write_replaced(rows, Entries(*before), Entries(*after), told)
    return Changes._make(column[:size] for column in told)


def log_of(lists: Lists, op: int, ages: Ages) -> Log:
    """Lines for all entries of some lists."""
    item = lists.item
    ops = np.full(item.size, op, np.int8)
    return Log(lists.subscription, ops, item, lists.score, ages.time[item], ages.arrival[item], lists.score)


def net_changes(log: Log, sequence: Ints, buffers: ResultBuffers, ages: Ages) -> Changes:
    """The net change of results that a log tells of, in the order of registration."""
    lines = np.argsort(log.owner, kind="stable").astype(np.int32)
    ends = (
        np.append(np.flatnonzero(np.diff(log.owner[lines])) + 1, lines.size)
        if lines.size
        else np.zeros(0, np.int64)
    )
    owners = log.owner[lines[ends - 1]]
    registered = sequence[owners]
    if (registered[1:] < registered[:-1]).any():
        order = np.argsort(registered)
        sizes = np.diff(ends, prepend=0)[order]
        lines = lines[positions(ends[order] - sizes, sizes)]
        owners, ends = owners[order], np.cumsum(sizes)
    told = ChangeColumns(*(np.empty(lines.size, kind) for kind in ("i4", "i1", "i4", "f8", "i8", "f8")))
    size = write_changes(log, lines, ends, owners, buffers.now(owners), ages, told)
    return Changes._make(column[:size] for column in told)


def pruned_by(
    world: World, frame: Frame, idf: Floats, row: int, item: int, alpha: float, threshold: float
) -> str | None:
    """Which bound keeps a message from being scored for a subscription, if any does."""
    interest = rarest_first(world.interests.texts(), row, idf)
    text = rarest_first(world.texts.texts(), item, idf)
    common = [i for i in range(interest[0].size) if interest[0][i] in text[0]]
    if not common:
        return "words"
    i, j = common[0], int(np.flatnonzero(text[0] == interest[0][common[0]])[0])
    parts = np.array([interest[1][i], interest[2][i], text[1][j], text[2][j]], np.float32)
    alike, one = np.float32(alikeness(parts[0], parts[1], parts[2], parts[3])), np.float32(1.0)
    x, y = (float(world.subscriptions[name][row]) for name in "xy")
    there = (float(world.messages[name][item]) for name in "xy")
    near = np.float32(1.0 - distance(frame.metric, x, y, *there) / frame.scale)
    tried = {"words": (one, alike), "place": (near, one), "words and place": (near, alike)}
    short = [name for name, (a, b) in tried.items() if best_score(np.float32(alpha), a, b) < threshold]
    return short[0] if short else None


def bytes_by_part(arrays: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """How many bytes the parts of a state take."""
    told = dict.fromkeys(PARTS, 0)
    for name, array in arrays.items():
        part = next((part for part, names in PARTS.items() if name.startswith(names)), None)
        if part is not None:
            told[part] += array.nbytes
    return told
