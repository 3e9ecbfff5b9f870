"""What an index of scored subscriptions answers, and searching a batch of events on several cores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from rankcast.matching.kernels.matches import ALL, LARGEST, SUM, Matches, gather, merge
from rankcast.tables.schema import Floats, Ints, Rows

PER_THREAD = 512
PARTS = 4
MODES = {None: ALL, "sum": SUM, "max": LARGEST}  # by what combines weights


class Found(NamedTuple):
    """The matches of events in their order: `number` in each list, all lists one after the other.

    `tried` counts rows whose place in the list was in question, `looked` what was read to find them.
    """

    number: Ints
    row: Rows
    score: Floats
    tried: int
    looked: int


def search_all(search: Callable[[Ints], Matches], order: Ints, threads: int) -> Found:
    """Search the events in `order`, in some parts a thread; the answer is in event order.

    `search` releases the GIL and only reads. A thread is worth starting for some hundred events; several
    parts keep all threads busy to the end.
    """
    if min(threads, order.size // PER_THREAD) < 2:
        return _joined([search(order)])
    parts = min(PARTS * threads, order.size // PER_THREAD)
    with ThreadPoolExecutor(threads) as pool:
        return _joined(list(pool.map(search, np.array_split(order, parts))))


def _joined(parts: list[Matches]) -> Found:
    """The matches of all parts in the order of events; an event was searched in one part alone."""
    number = parts[0].number.copy()
    for part in parts[1:]:
        number += part.number
    total = int(number.sum())
    row, score = np.empty(total, np.int32), np.empty(total)
    for part in parts:
        gather(part, number, row, score)
    tried, looked = sum(part.tried for part in parts), sum(part.looked for part in parts)
    return Found(number, row, score, tried, looked)


def merged(label: Ints, one: Found, other: Found, k: int) -> Found:
    """The k best of what two indexes found for the same events; they have no row in common."""
    number, row, score = merge(label, one[:3], other[:3], k)
    return Found(number, row, score, one.tried + other.tried, one.looked + other.looked)
