"""Receivers that want to hear less often, or of greater changes only.

Ranks of several batches cannot be told as one by putting their rows behind each other, so such a receiver is
not told of batches at all: when its time has come, its current lists are compared with those that it was told
of last, and the difference is what it hears. That is exact, and bounded by the lists that it named.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa

from rankcast.service.problems import Problem
from rankcast.service.requests.rows import listed
from rankcast.service.telling import hub
from rankcast.service.telling.hub import Place, Receiver, Told

if TYPE_CHECKING:
    from rankcast.service.streams.stream import Stream

Lists: TypeAlias = dict[
    Any, dict[Any, float | None]
]  # by subscription, the score of each item as it was told last


class Pace(NamedTuple):
    """Seconds between two messages, and the least change of a score that is told."""

    interval: float
    change: float


class Paced:
    """What one such receiver hears."""

    def __init__(self, stream: Stream, pace: Pace) -> None:
        self._stream = stream
        self._pace = pace
        self._known: Lists = {}

    async def hear(self, receiver: Receiver, after: int | None) -> AsyncIterator[list[Told]]:
        """A snapshot, then differences; an empty list is a sign of life."""
        stream = self._stream
        if not stream.keeps_results:
            raise Problem(422, f"A stream of {stream.document['engine']} keeps no results to compare.")
        place = await stream.ask(lambda each: each.hub.enter(receiver, None))
        yield [hub.snapshot(place)]
        self._difference(place.snapshot)
        receiver.after, sent = place.sequence, time.monotonic()
        while not receiver.ended:
            if not await receiver.wait(stream.settings.heartbeat):
                yield []
                continue
            await asyncio.sleep(max(0.0, sent + self._pace.interval - time.monotonic()))
            receiver.forget()
            receiver.missed = False
            wants = receiver.wants
            place = await stream.ask(partial(_now, wants))
            rows = self._difference(place.snapshot)
            receiver.after = place.sequence
            if rows:
                sent = time.monotonic()
                yield [hub.delta(place.sequence, rows)]

    def _difference(self, table: pa.Table | None) -> list[dict[str, Any]]:
        """The rows that lead from what was told last to the current lists."""
        now: dict[Any, list[dict[str, Any]]] = {}
        for row in [] if table is None else listed(table):
            now.setdefault(row["subscription"], []).append(row)
        moving = type(self._stream.shard.engine).scores_move
        found: list[dict[str, Any]] = []
        for subscription in [*now, *(each for each in list(self._known) if each not in now)]:
            known, rows = self._known.pop(subscription, {}), now.get(subscription, [])
            items = {row["item"] for row in rows}
            found += [
                {"subscription": subscription, "op": "leave", "item": item, "score": None, "rank": None}
                for item in known
                if item not in items
            ]
            kept: dict[Any, float | None] = {}
            for row in rows:
                item, score = row["item"], row["score"]
                kept[item] = score
                if item in known and (moving or self._is_slight(score, known[item])):
                    kept[item] = known[item]
                    continue
                op = "update" if item in known else "enter"
                found.append(
                    {
                        "subscription": subscription,
                        "op": op,
                        "item": item,
                        "score": score,
                        "rank": row["rank"],
                    }
                )
            if kept:
                self._known[subscription] = kept
        return found

    def _is_slight(self, score: float | None, known: float | None) -> bool:
        """Whether a change of a score, which lists from outside need not have, is none to tell of."""
        if score is None or known is None:
            return score == known
        change = abs(score - known)
        return change == 0 or change < self._pace.change


def _now(wants: frozenset[str] | None, stream: Stream) -> Place:
    return Place(stream.number, hub.current(stream, wants))
