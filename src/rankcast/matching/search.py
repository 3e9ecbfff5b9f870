"""The answer of an index of scored subscriptions, and searching a batch of events on several cores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.kernels.candidate_filter import BY_EVENT, Wants
from rankcast.matching.kernels.matches import ALL, LARGEST, SUM, Answers, merge
from rankcast.tables.schema import Floats, Ints, Rows

PER_THREAD = 512
PARTS = 4
MODES = {None: ALL, "sum": SUM, "max": LARGEST}  # by what combines weights


class Found(NamedTuple):
    """The matches of events in their order: `number` in each list, all lists one after the other.

    `tried` counts rows that were candidates for the list, `looked` what was read to find them.
    """

    number: Ints
    row: Rows
    score: Floats
    tried: int
    looked: int


class KernelIndex:
    """An index of arrays that two kernels search: for boxes alone, and for wishes besides them."""

    _kernels: ClassVar[tuple[Callable[..., Answers], Callable[..., Answers]]]
    _mode: int

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _arrays(self) -> tuple[Any, ...]:
        """The arrays that the kernels take."""

    def search(
        self,
        columns: Columns,
        below: Floats,
        above: Floats,
        k: int,
        threads: int = 1,
        wants: Wants | None = None,
    ) -> Found:
        """The k best rows for each event with the ends `above` to `below`, or as many as it wants."""
        plain, judging = self._kernels
        if wants is not None:
            judged = self._arrays(), tuple(columns), self._mode, len(self)
            return judge_all(judging, judged, below, above, wants, threads)
        given = self._arrays(), tuple(columns), max(1, min(k, len(self))), self._mode
        return search_all(plain, given, below, above, threads)

    def stats(self) -> dict[str, Any]:
        """Nothing beside the name."""
        return {}


def search_all(
    search: Callable[..., Answers], given: tuple[Any, ...], below: Floats, above: Floats, threads: int
) -> Found:
    """What `search` finds, `given` an index, for events with the ends `above` to `below`.

    Many events are divided into several parts per thread: `search` releases the GIL and only reads. A thread
    is worth starting for some hundred events; several parts keep all threads busy to the end.
    """
    parts = min(PARTS * threads, len(below) // PER_THREAD)
    if threads < 2 or parts < 2:
        return Found(*search(*given, below, above))
    with ThreadPoolExecutor(threads) as pool:
        ends = np.array_split(below, parts), np.array_split(above, parts)
        return _joined(pool.map(lambda *part: search(*given, *part), *ends))


def judge_all(
    search: Callable[..., Answers],
    given: tuple[Any, ...],
    below: Floats,
    above: Floats,
    wants: Wants,
    threads: int,
) -> Found:
    """As `search_all`, for wishes besides boxes."""
    parts = min(PARTS * threads, len(below) // PER_THREAD)
    if threads < 2 or parts < 2:
        return Found(*search(*given, below, above, tuple(wants)))
    cuts = np.linspace(0, len(below), parts + 1).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:

        def run(start: int, end: int) -> Answers:
            mine = {name: getattr(wants, name)[start:end] for name in BY_EVENT}
            part = wants._replace(first=wants.first[start : end + 1], **mine)
            return search(*given, below[start:end], above[start:end], tuple(part))

        return _joined(pool.map(run, cuts[:-1], cuts[1:]))


def _joined(found: Iterable[Answers]) -> Found:
    """The answers to parts of a batch, one after the other."""
    number, row, score, tried, looked = zip(*found, strict=True)
    joined = [np.concatenate(lists) for lists in (number, row, score)]
    return Found(joined[0], joined[1], joined[2], sum(tried), sum(looked))


def merged(label: Ints, one: Found, other: Found, k: int) -> Found:
    """The k best of what two indexes found for the same events; they have no row in common."""
    number, row, score = merge(label, one[:3], other[:3], k)
    return Found(number, row, score, one.tried + other.tried, one.looked + other.looked)
