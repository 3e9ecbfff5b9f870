"""The receivers of a stream, and what waits for each of them.

The thread of the stream tells the hub of every group of writes, once it is on disk. The hub finds the
receivers it concerns, renders a message once for all who get the same, and passes everything to the event
loop in one call. There each receiver has a queue with a size limit. One that falls behind loses its queue and
is marked: it gets `gap` and a snapshot, and nobody else notices.

Ids are compared as text here: all ids of a stream are of one kind.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rankcast.service.requests.rows import dumped, listed
from rankcast.state import batches

if TYPE_CHECKING:
    from rankcast.service.streams.stream import Stream

MANY = 1000  # rows from which on a table is narrowed down before it is looked at


class Told(NamedTuple):
    """A message for a receiver: `snapshot`, `delta` or `gap`, its sequence, JSON with rows and sequence.

    `tiles` also have a mark, which is part of the id of a server-sent event.
    """

    event: str
    sequence: int
    data: bytes
    mark: str = ""

    def as_event(self) -> bytes:
        """The same as a server-sent event."""
        mark = f"-{self.mark}" if self.mark else ""
        return b"event: %b\nid: %d%b\ndata: %b\n\n" % (
            self.event.encode(),
            self.sequence,
            mark.encode(),
            self.data,
        )

    def as_frame(self) -> str:
        """The same as a text frame of a WebSocket."""
        return f'{{"event":"{self.event}",{self.data[1:].decode()}'


class Place(NamedTuple):
    """Where a receiver starts: the sequence, the current results, or what it must first read in the log."""

    sequence: int
    snapshot: pa.Table | None


class Receiver:
    """A listener. All of it runs on the event loop, except `wants`, which never changes in place."""

    def __init__(self, wants: Iterable[str] | None, most: int) -> None:
        self.wants: frozenset[str] | None = None if wants is None else frozenset(wants)
        self.loop = asyncio.get_running_loop()
        self.after = -1  # what was told up to here, or is part of a snapshot
        self.missed = False
        self.ended = False
        self._most = most
        self._bytes = 0
        self._waiting: list[Told] = []
        self._wake = asyncio.Event()

    def push(self, told: list[Told]) -> None:
        """Queue a message."""
        if self.missed or self.ended:
            return
        self._waiting += told
        self._bytes += sum(len(each.data) for each in told)
        if self._bytes > self._most:
            self.forget()
            self.missed = True
        self._wake.set()

    def forget(self) -> None:
        """Drop the queue."""
        self._waiting, self._bytes = [], 0

    def end(self) -> None:
        """Nothing more will come."""
        self.ended = True
        self._wake.set()

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something; False: there is nothing yet."""
        if not self._wake.is_set():
            try:
                await asyncio.wait_for(self._wake.wait(), seconds)
            except TimeoutError:
                if not self._wake.is_set():  # something may have come in that very moment
                    return False
        self._wake.clear()
        return True

    def rest(self, delivered: int) -> None:
        """Record that it has heard everything up to a write, unless something waits for it."""
        if not self._waiting and not self.missed:
            self.after = max(self.after, delivered)

    def take(self) -> list[Told]:
        """What waits and is new."""
        told, self._waiting, self._bytes = self._waiting, [], 0
        new = [each for each in told if each.sequence > self.after]
        if new:
            self.after = new[-1].sequence
        return new


class Hub:
    """The receivers of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._turn = threading.Lock()
        self._all: set[Receiver] = set()
        self._by_id: dict[str, set[Receiver]] = defaultdict(set)
        self._loop: asyncio.AbstractEventLoop | None = None  # all receivers are on one
        self._bells: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self.told = self.dropped = 0
        self.delivered = -1  # up to which write every receiver has in its queue what concerns it

    def __len__(self) -> int:
        with self._turn:
            return len(self._all.union(*self._by_id.values()))

    # On the thread of the stream

    def enter(self, receiver: Receiver, after: int | None) -> Place:
        """Add a receiver, which hears everything from now on; `after` is what it has heard already."""
        stream, wants = self._stream, receiver.wants
        with self._turn:
            self._add(receiver)
        now = stream.number
        if after is not None and stream.log.first <= after <= now:
            return Place(now, None)
        return Place(now, current(stream, wants))

    def tell(self, answers: list[tuple[int, pa.Table]]) -> None:
        """Send writes that are on disk to the receivers they concern."""
        self._ring()
        with self._turn:
            if not self._all and not self._by_id:
                return
            out: dict[Receiver, list[Told]] = defaultdict(list)
            for number, table in answers:
                if table.num_rows:
                    self._spread(number, table, out)
        self.told += sum(map(len, out.values()))
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, list(out.items()), answers[-1][0])

    # On any thread

    def change(self, receiver: Receiver, wants: frozenset[str] | None) -> None:
        """Change the subscriptions of a receiver."""
        with self._turn:
            self._drop(receiver)
            receiver.wants = wants
            self._add(receiver)

    def leave(self, receiver: Receiver) -> None:
        """Remove a receiver."""
        with self._turn:
            self._drop(receiver)

    def watch(self, bell: asyncio.Event) -> None:
        """Set an event of this loop whenever something was written, until `unwatch`."""
        with self._turn:
            self._bells.add((asyncio.get_running_loop(), bell))

    def unwatch(self, bell: asyncio.Event) -> None:
        """Set it no more."""
        with self._turn:
            self._bells.discard((asyncio.get_running_loop(), bell))

    def _ring(self) -> None:
        with self._turn:
            for loop, bell in self._bells:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(bell.set)

    def end(self) -> None:
        """Tell all receivers that the stream has ended."""
        self._ring()
        with self._turn:
            for receiver in self._all.union(*self._by_id.values()):
                if self._loop is not None and not self._loop.is_closed():
                    self._loop.call_soon_threadsafe(receiver.end)

    def _add(self, receiver: Receiver) -> None:
        self._loop = receiver.loop
        if receiver.wants is None:
            self._all.add(receiver)
        for each in receiver.wants or ():
            self._by_id[each].add(receiver)

    def _drop(self, receiver: Receiver) -> None:
        self._all.discard(receiver)
        for each in receiver.wants or ():
            self._by_id[each].discard(receiver)
            if not self._by_id[each]:
                del self._by_id[each]

    def _deliver(self, pairs: list[tuple[Receiver, list[Told]]], number: int) -> None:
        self.delivered = number
        for receiver, told in pairs:
            was = receiver.missed
            receiver.push(told)
            self.dropped += receiver.missed and not was

    def _spread(self, number: int, table: pa.Table, out: dict[Receiver, list[Told]]) -> None:
        """Render what a write changed, for each receiver that it concerns."""
        if self._all:
            told = delta(number, listed(table))
            for receiver in self._all:
                out[receiver].append(told)
        if not self._by_id:
            return
        groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in listed(narrowed(table, self._by_id)):
            groups[str(row["subscription"])].append(row)
        heard: dict[Receiver, list[str]] = defaultdict(list)
        for each in groups:
            for receiver in self._by_id.get(each, ()):
                heard[receiver].append(each)
        rendered: dict[tuple[str, ...], Told] = {}
        for receiver, ids in heard.items():
            key = tuple(ids)
            if key not in rendered:
                rendered[key] = delta(number, [row for each in ids for row in groups[each]])
            out[receiver].append(rendered[key])


def delta(number: int, rows: list[dict[str, Any]]) -> Told:
    """Rows of a write, to be told."""
    return Told("delta", number, dumped({"rows": rows, "sequence": number}))


def snapshot(place: Place) -> Told:
    """Current results, to be told."""
    rows = [] if place.snapshot is None else listed(place.snapshot)
    return Told("snapshot", place.sequence, dumped({"rows": rows, "sequence": place.sequence}))


def gap(sequence: int) -> Told:
    """That something was missed, to be told."""
    return Told("gap", sequence, dumped({"rows": [], "sequence": sequence}))


def current(stream: Stream, wants: frozenset[str] | None) -> pa.Table:
    """The current results of some subscriptions, or of all; those that are not there have none."""
    if not stream.keeps_results:
        return pa.table({})
    if wants is None:
        return stream.results()
    known = [stream.records.id_of(each, "subscription") for each in sorted(wants)]
    known = [each for each in known if stream.knows(each)]
    return stream.results(known) if known else pa.table({})


def narrowed(table: pa.Table, wanted: Iterable[str]) -> pa.Table:
    """The rows of subscriptions that are wanted, perhaps more if they are few; in their order."""
    if table.num_rows < MANY:
        return table
    column = table.column("subscription")
    values = pa.array(list(wanted), pa.string())
    if not pa.types.is_integer(column.type):
        values = values.cast(column.type)
    else:
        whole = [int(each) for each in values.to_pylist() if each.removeprefix("-").isdecimal()]
        values = pa.array([each for each in whole if -(2**63) <= each < 2**63], pa.int64()).cast(column.type)
    return table.filter(pc.is_in(column, value_set=values))


def history(stream: Stream, wants: frozenset[str] | None, after: int, upto: int) -> Iterator[Told]:
    """What a receiver has missed, from the log.

    Raises:
        LookupError: the log does not reach back that far.
    """
    entries = stream.log.after(after, upto)
    if entries is None:
        raise LookupError(after)
    for entry in entries:
        table = batches.from_bytes(entry.answer)
        if not table.num_rows:
            continue
        if wants is None:
            yield delta(entry.number, listed(table))
            continue
        rows = [row for row in listed(narrowed(table, wants)) if str(row["subscription"]) in wants]
        if rows:
            yield delta(entry.number, rows)
