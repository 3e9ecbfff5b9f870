"""What somebody who looks at a stream sees: subscriptions by page, writes as they come.

All of it is read: the console (`/`) is made from these calls and from those that everybody has. Writes come
from the log, apart from the thread of the stream, so looking on slows nobody. One who cannot follow hears of
the last writes and of how many were left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import islice
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from rankcast.errors import shown
from rankcast.service.problems import Problem
from rankcast.service.requests.gate import Call
from rankcast.service.requests.handlers import answered, sent
from rankcast.service.requests.rows import dumped, listed
from rankcast.service.streams import writing
from rankcast.service.streams.records import Id
from rankcast.service.streams.stream import Stream
from rankcast.service.streams.writing import Outcome
from rankcast.service.telling.hub import Told
from rankcast.service.telling.sse import Telling, sequence_of
from rankcast.state import batches

PAGE, LARGEST_PAGE = 100, 1000  # subscriptions
OBJECTS, MOST_OBJECTS = 1000, 10_000
LAST, MOST_LAST = 20, 500  # writes that are told first
SHOWN = 200  # rows of a write that are told


async def list_subscriptions(call: Call) -> Response:
    """Subscriptions as registered, in the order of their ids, a page at a time."""
    prefix, after = call.asks("prefix"), call.asks("after")
    limit = _count(call, "limit", PAGE, LARGEST_PAGE)
    marks = call.asks("forwarded")
    if marks not in (None, "true", "false"):
        raise Problem(422, f"The parameter forwarded is {shown(marks)}.", hint="It may be: true, false.")

    def find(stream: Stream) -> dict[str, Any]:
        behind = None if after is None else stream.records.id_of(after, "subscription")
        found = stream.records.page(behind, prefix, limit + 1)
        rows = [_shown(*each) for each in found[:limit]]
        document: dict[str, Any] = {"rows": rows, "sequence": stream.number}
        document["next"] = rows[-1]["id"] if len(found) > limit else None
        engine: Any = stream.engine
        if marks == "true" and hasattr(engine, "forwarded"):
            known = set(engine.forwarded())
            for row in rows:
                row["forwarded"] = row["id"] in known
        return document

    document = await call.stream.ask(find)
    return answered(document, sequence=document["sequence"])


async def list_objects(call: Call) -> Response:
    """Live objects, of engines that can tell them."""
    limit, form = _count(call, "limit", OBJECTS, MOST_OBJECTS), call.form

    def find(stream: Stream) -> tuple[pa.Table, int]:
        engine: Any = stream.engine
        if not hasattr(engine, "objects"):
            raise Problem(404, f"A stream of {stream.document['engine']} has no objects to tell.")
        return engine.objects().slice(0, limit), stream.number

    table, sequence = await call.stream.ask(find)
    return sent(writing.reply(Outcome(200, {"sequence": sequence}, table), form))


def _shown(key: Id, row: dict[str, Any], expires: float | None) -> dict[str, Any]:
    return {"id": key, **row, **({} if expires is None else {"expires_at": expires})}


def _count(call: Call, name: str, default: int, most: int) -> int:
    """A parameter that is a whole number from 1 on."""
    text = call.asks(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= most:
        raise Problem(
            422, f"The parameter {name} is {shown(text)}.", hint=f"It is a whole number from 1 to {most}."
        )
    return int(text)


async def writes(call: Call) -> Response:
    """Server-sent events with the rows that were written, the last ones first."""
    stream, connections = call.stream, call.service.connections
    last = _count(call, "last", LAST, MOST_LAST)
    after = sequence_of(call.request.headers.get("last-event-id"))
    connections.enter(call.token)

    async def told() -> AsyncIterator[bytes]:
        bell = asyncio.Event()
        stream.hub.watch(bell)
        try:
            at = max(stream.sequence - last, stream.log.first) if after is None else after
            while call.service.is_ready and not stream.is_closed:
                bell.clear()
                part, at = await asyncio.to_thread(_some, stream, at, last)
                yield b"".join(each.as_event() for each in part) or b": alive\nid: %d\n\n" % at
                if not part:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(bell.wait(), stream.settings.heartbeat)
        finally:
            stream.hub.unwatch(bell)
            connections.leave(call.token)

    return Telling(told(), stream.settings.stall, {"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def _some(stream: Stream, after: int, most: int) -> tuple[list[Told], int]:
    """The writes behind one, at most so many, and the last one; `gap` says that some were left out."""
    upto = stream.sequence
    first = max(upto - most, stream.log.first)
    if after == upto:
        return [], after
    told = []
    if not first <= after < upto:
        told.append(Told("gap", first, dumped({"rows": [], "sequence": first})))
        after = first
    for entry in islice(stream.log.after(after, upto) or (), most):
        for name, table in batches.decode(entry.batch):
            document = {
                "call": name,
                "rows": listed(table.slice(0, SHOWN)),
                "count": table.num_rows,
                "deltas": batches.from_bytes(entry.answer).num_rows,
                "at": entry.at,
                "sequence": entry.number,
            }
            told.append(Told("write", entry.number, dumped(document)))
        after = entry.number
    return told, after
