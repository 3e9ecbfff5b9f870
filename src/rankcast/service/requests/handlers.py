"""The handlers, one per command, all of them thin: read the call, give work to the stream, answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from starlette.responses import HTMLResponse, Response

from rankcast import geo
from rankcast.errors import InputError, SettingError, shown
from rankcast.service import openapi
from rankcast.service.problems import Problem, busy
from rankcast.service.requests import description, pages, rows
from rankcast.service.requests.dry_run import dry_run
from rankcast.service.requests.gate import LARGE, Call
from rankcast.service.streams import external, writing
from rankcast.service.streams.stream import Stream
from rankcast.service.streams.writing import Outcome, Reply


def answered(document: Any, status: int = 200, sequence: int | None = None) -> Response:
    """A JSON document as an answer."""
    headers = {} if sequence is None else {rows.SEQUENCE: str(sequence)}
    return Response(rows.dumped(document), status, headers=headers, media_type=rows.JSON)


async def write(call: Call, do: Callable[[Stream], Outcome], size: int = 0) -> Response:
    """Do a write, once for its key, and answer."""
    form = call.form
    begun = time.perf_counter()
    found = await call.stream.ask(writing.keyed(call.key(), form, do), size=size, writes=True)
    call.service.metrics.wrote(call.stream.name, time.perf_counter() - begun)
    if isinstance(found, Outcome):
        large = found.table is not None and found.table.nbytes > LARGE
        found = await asyncio.to_thread(writing.reply, found, form) if large else writing.reply(found, form)
    return sent(found)


def sent(reply: Reply) -> Response:
    """A reply as an answer."""
    headers = {rows.SEQUENCE: str(reply.sequence)}
    return Response(reply.body, reply.status, headers=headers, media_type=reply.media)


# Streams


async def put_stream(call: Call) -> Response:
    """Create a stream."""
    document = await call.document()
    for key in document:
        if key not in ("engine", "settings"):
            raise SettingError.unknown(key, ("engine", "settings"), where="body")
    settings = document.get("settings", {})
    asked = {"engine": document.get("engine"), "settings": settings}
    k, most = settings.get("k") if isinstance(settings, dict) else None, call.service.settings.max_k
    if isinstance(k, int) and k > most:
        raise SettingError(f"k is {k}", expected=f"at most {most}")
    stream, made = await asyncio.to_thread(call.service.streams.put, call.parameters["stream"], asked)
    return await described(call, stream, 201 if made else 200)


async def list_streams(call: Call) -> Response:
    """All streams that the token may access."""
    mine = call.token.streams
    found = [each for each in call.service.streams.all() if not mine or each.name in mine]
    briefs = [await stream.ask(brief) for stream in found]
    loads = [description.load(stream, call.service.metrics.recent(stream.name)) for stream in found]
    return answered({"streams": [{**each, "load": load} for each, load in zip(briefs, loads, strict=True)]})


async def get_stream(call: Call) -> Response:
    """One stream."""
    return await described(call, call.stream, 200)


async def end_stream(call: Call) -> Response:
    """End a stream."""
    await asyncio.to_thread(call.service.streams.end, call.parameters["stream"])
    call.service.metrics.forget(call.parameters["stream"])
    return Response(status_code=204)


def brief(stream: Stream) -> dict[str, Any]:
    """The description of a stream."""
    return {
        "name": stream.name,
        **stream.document,
        "subscriptions": stream.count(),
        "sequence": stream.number,
    }


async def described(call: Call, stream: Stream, status: int) -> Response:
    """One stream with its counters, its load, all of its settings, and the columns that it takes."""

    def find(each: Stream) -> dict[str, Any]:
        more = {"configuration": each.configuration, "inputs": description.inputs(each)}
        return {**brief(each), "stats": each.engine.stats(), **more}

    found = await stream.ask(find)
    found["load"] = description.load(stream, call.service.metrics.recent(stream.name))
    return answered(found, status, found["sequence"])


# Writes


async def publish(call: Call) -> Response:
    """Publish events."""
    require_call(call, "publish", "events")
    batch = await call.rows()
    return await write(call, writing.apply("publish", batch, returned=returns(call)), call.size)


async def upsert(call: Call) -> Response:
    """Insert or replace objects."""
    require_call(call, "upsert", "objects")
    batch = await call.rows()
    return await write(call, writing.apply("upsert", batch, returned=returns(call)), call.size)


async def remove(call: Call) -> Response:
    """Remove an object."""
    require_call(call, "remove", "objects")
    return await write(call, writing.remove(call.parameters["id"]))


async def push(call: Call) -> Response:
    """Take a batch from outside."""
    if call.stream.lists is None:
        raise Problem(404, f"A stream of {call.stream.document['engine']} takes no batches from outside.")
    content = call.asks("content") or "deltas"
    if content not in external.FORMS:
        raise Problem(422, f"The parameter content is {shown(content)}.", hint="It may be: deltas, results.")
    number, part = whole("batch", call.parameters["batch"]), whole("part", call.asks("part") or "0")
    source = call.asks("source") or ""
    batch = external.Batch(source, number, part, content, await call.rows())
    return await write(call, writing.push(batch, returned=returns(call)), call.size)


def whole(name: str, text: str) -> int:
    """A whole number of at least 0, from a path or a query."""
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or int(text) > external.MOST:
        raise Problem(422, f"The parameter {name} is {shown(text)}.", hint="It is a whole number from 0 on.")
    return int(text)


async def subscribe(call: Call) -> Response:
    """Register subscriptions."""
    require_call(call, "subscribe", "subscriptions of its own")
    batch = await call.rows()
    return await write(call, writing.subscribe(batch, returned=returns(call)), call.size)


async def put_subscription(call: Call) -> Response:
    """Register a subscription, or replace it."""
    require_call(call, "subscribe", "subscriptions of its own")
    row = await call.document()
    return await write(call, writing.put(call.parameters["id"], row), call.size)


async def amend_subscription(call: Call) -> Response:
    """Change a subscription."""
    row = await call.document()
    return await write(call, writing.amend(call.parameters["id"], row), call.size)


async def end_subscription(call: Call) -> Response:
    """End a subscription."""
    return await write(call, writing.end(call.parameters["id"]))


def returns(call: Call) -> bool:
    """Whether the rows are wanted in the answer."""
    asked = call.asks("return")
    if asked not in (None, "deltas"):
        raise Problem(422, f"The parameter return is {shown(asked)}.", hint="It may be: deltas.")
    return asked is not None


def require_call(call: Call, name: str, what: str) -> None:
    """Refuse what the engine of a stream does not have."""
    stream = call.stream
    if name not in stream.calls:
        raise Problem(404, f"A stream of {stream.document['engine']} has no {what}.")


# Reads


async def get_subscription(call: Call) -> Response:
    """A subscription as registered."""
    text = call.parameters["id"]

    def find(stream: Stream) -> tuple[dict[str, Any], int]:
        found = stream.records.find(stream.records.id_of(text, "subscription"))
        if found is None:
            raise writing.unknown(text)
        more = {} if found.expires is None else {"expires_at": found.expires}
        return {**found.row, **more}, stream.number

    row, sequence = await call.stream.ask(find)
    return answered(row, sequence=sequence)


async def results(call: Call) -> Response:
    """The current list of a subscription."""
    text, form = call.parameters["id"], call.form

    def find(stream: Stream) -> tuple[pa.Table, int]:
        key = stream.records.id_of(text, "subscription")
        if not stream.knows(key):
            raise writing.unknown(text)
        if not stream.keeps_results:
            raise Problem(404, f"A stream of {stream.document['engine']} keeps no results.")
        return stream.results([key]), stream.number

    table, sequence = await call.stream.ask(find)
    return sent(writing.reply(Outcome(200, {"sequence": sequence}, table), form))


async def explain(call: Call) -> Response:
    """Why an item is or is not in a list."""
    text, item = call.parameters["id"], call.asks("item")
    if item is None:
        raise Problem(422, "The parameter item is missing.")

    def find(stream: Stream) -> tuple[dict[str, Any], int]:
        engine: Any = stream.engine
        key = stream.records.id_of(text, "subscription")
        if stream.records.find(key) is None:
            raise writing.unknown(text)
        what = stream.records.id_of(item, "item") if stream.spec.answer.kind == "deltas" else event_of(item)
        if stream.spec.answer.kind == "actions":
            what = stream.records.id_of(item, "subscription")
        return engine.explain(key, what), stream.number

    found, sequence = await call.stream.ask(find)
    return answered({**found, "sequence": sequence}, sequence=sequence)


def event_of(text: str) -> Any:
    """An event's attributes, as JSON in a query."""
    try:
        found = rows.parsed(text.encode())
    except (Problem, UnicodeEncodeError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"is {shown(text)}", column="item", expected='an event, as {"x": 1}')
    return found


async def zones(call: Call) -> Response:
    """Safe zones as GeoJSON."""
    wanted = set(call.request.query_params.getlist("subscription"))

    def find(stream: Stream) -> tuple[pa.Table, int]:
        engine: Any = stream.engine
        if not hasattr(engine, "zones"):
            raise Problem(404, f"A stream of {stream.document['engine']} has no zones.")
        for text in wanted:
            if stream.records.find(stream.records.id_of(text, "subscription")) is None:
                raise writing.unknown(text)
        return engine.zones(), stream.number

    table, sequence = await call.stream.ask(find)
    document = await asyncio.to_thread(geo.geojson, table, wanted)
    body = rows.dumped({**document, "sequence": sequence})
    return Response(body, headers={rows.SEQUENCE: str(sequence)}, media_type="application/geo+json")


async def dryrun(call: Call) -> Response:
    """What a subscription would have received."""
    require_call(call, "subscribe", "subscriptions of its own")
    row, settings = await call.document(), call.service.settings
    if "id" in row or writing.EXPIRES in row:
        raise Problem(422, "A dry run takes a subscription without id and expires_in.")
    stream = call.stream
    columns, last = await stream.ask(lambda each: writing.question(each, row))
    if stream.dry.locked():
        raise busy("Another dry run is under way.", after=settings.dryrun_seconds)
    async with stream.dry:
        limits = settings.dryrun_seconds, settings.dryrun_rows
        found = await asyncio.to_thread(dry_run, stream, columns, last, *limits)
    return answered(found.document(), sequence=found.last)


# Operation


async def metrics(call: Call) -> Response:
    """Counters for Prometheus."""
    body = await asyncio.to_thread(call.service.metrics.text)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")


async def health(call: Call) -> Response:
    """Alive."""
    return answered({"status": "ok"})


async def ready(call: Call) -> Response:
    """Whether the service accepts calls."""
    is_ready = call.service.is_ready
    return answered({"status": "ok" if is_ready else "stopping"}, 200 if is_ready else 503)


async def openapi_document(call: Call) -> Response:
    """The description."""
    return answered(openapi.document(call.service.settings))


async def docs(call: Call) -> Response:
    """The description as a page."""
    return HTMLResponse(openapi.page(), headers=openapi.PAGE_HEADERS)


async def home(call: Call) -> Response:
    """The console."""
    return pages.response("index.html")


async def asset(call: Call) -> Response:
    """A file of the console."""
    return pages.response(call.parameters["file"])
