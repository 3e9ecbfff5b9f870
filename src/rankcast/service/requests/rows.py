"""Rows in and tables out: JSON, JSON lines, and Arrow streams.

Input is limited before it is read: a compressed body is unpacked only up to the limit, and an
Arrow stream announces the size of its buffers (`requests.arrow_streams`) before they are allocated.
Then Arrow validates every table in full; engines check the values.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from rankcast.errors import InputError, shown
from rankcast.service.problems import Problem
from rankcast.service.requests import arrow_streams

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
FORMS = (JSON, NDJSON, ARROW)
SEQUENCE = "Rankcast-Sequence"
DEEPEST = 32  # levels of JSON; what walks through values may call itself

_GZIP = 16 + zlib.MAX_WBITS


class Body(NamedTuple):
    """The body of a request: its bytes, decompressed, and its media type."""

    data: bytes
    media: str


def unpacked(data: bytes, encoding: str, most: int) -> bytes:
    """The body without its content encoding, which may be none or gzip."""
    if encoding in ("", "identity"):
        return data
    if encoding not in ("gzip", "deflate"):
        raise Problem(415, f"The content encoding {shown(encoding)} is not known.", hint="Use gzip or none.")
    unpacker = zlib.decompressobj(_GZIP if encoding == "gzip" else zlib.MAX_WBITS)
    try:
        found = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise Problem(400, "The body cannot be unpacked.") from error
    if len(found) > most:
        raise too_large(most)
    if not unpacker.eof:
        raise Problem(400, "The body is cut off.")
    if unpacker.unused_data:  # it would be lost without a word
        raise Problem(400, "The body goes on behind its packed part.", hint="Pack it in one piece.")
    return found


def too_large(most: int) -> Problem:
    """A body above the limit."""
    return Problem(413, f"The body has more than {most} bytes.", hint="Send it in several parts.")


def document(body: Body) -> dict[str, Any]:
    """The body as one JSON object."""
    if body.media not in ("", JSON):
        raise _media(body.media, (JSON,))
    found = parsed(body.data) if body.data else {}
    if not isinstance(found, dict):
        raise Problem(422, "The body is no JSON object.")
    return found


def read(body: Body, most: int) -> list[dict[str, Any]] | pa.Table:
    """The rows of a body: dicts, or a table if it was Arrow."""
    if body.media == ARROW:
        rows: Any = arrow_table(body.data, most)
        count = rows.num_rows
    elif body.media == NDJSON:
        lines = [line for line in body.data.split(b"\n") if line.strip()]
        rows, count = [parsed(line) for line in lines[: most + 1]], len(lines)
    elif body.media == JSON:
        rows = parsed(body.data)
        if isinstance(rows, dict):
            listed = rows.keys() == {"rows"} and isinstance(rows["rows"], list)
            rows = rows["rows"] if listed else [rows]
        count = len(rows) if isinstance(rows, list) else 0
    else:
        raise _media(body.media, FORMS)
    if count > most:
        raise Problem(413, f"The body has {count} rows, at most {most} are taken at once.")
    if not isinstance(rows, pa.Table):
        for row, each in enumerate(rows if isinstance(rows, list) else [rows]):
            if not isinstance(each, dict):
                hint = 'Send {"rows": [{...}, ...]}, one object, or lines of objects.'
                raise Problem(422, f"The rows hold {shown(each)}, which is no object.", row=row, hint=hint)
    return rows


def arrow_table(data: bytes, most: int) -> pa.Table:
    """The table of an external Arrow stream, validated in full."""
    arrow_streams.check(data)
    try:
        with pa.ipc.open_stream(data) as reader:
            parts, count = [], 0
            for part in reader:
                part.validate(full=True)
                parts.append(part)
                count += part.num_rows
                if count > most:
                    raise Problem(413, f"The body has more than {most} rows.")
            table = pa.Table.from_batches(parts, schema=reader.schema).replace_schema_metadata(None)
            table.validate(full=True)  # also decodes the names of columns
            return table
    except (pa.ArrowException, ValueError, OSError, MemoryError, UnicodeDecodeError) as error:
        raise Problem(400, "The body is no Arrow stream, or a damaged one.") from error


def with_times(rows: list[dict[str, Any]], names: Iterable[str]) -> list[dict[str, Any]]:
    """JSON rows with timestamps (ISO 8601) in the columns that hold them."""
    for name in names:
        for place, row in enumerate(rows):
            value = row.get(name)
            if isinstance(value, str):
                try:
                    row[name] = datetime.fromisoformat(value)
                except ValueError as error:
                    raise InputError(
                        f"is {shown(value)}",
                        column=name,
                        row=place,
                        expected="a timestamp, as 2026-01-31T12:00:00",
                    ) from error
    return rows


def form_of(accept: str) -> str:
    """The requested form of a table."""
    return next((form for form in (ARROW, NDJSON) if form in accept), JSON)


def listed(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table as dicts."""
    names = table.column_names
    columns = [column.to_pylist() for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def dumped(value: Any) -> bytes:
    """A value as JSON; a number that JSON does not have (infinity) is null."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS)


def rendered(table: pa.Table, form: str, more: Mapping[str, Any]) -> bytes:
    """A table in one of the three forms; JSON has `more` beside the rows."""
    if form == ARROW:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data: bytes = sink.getvalue().to_pybytes()
        return data
    rows = listed(table)
    if form == NDJSON:
        return b"".join(dumped(row) + b"\n" for row in rows)
    return dumped({"rows": rows, **more})


def parsed(data: bytes) -> Any:
    """External JSON.

    Raises:
        Problem: 400, it is not JSON, or nested too deeply.
    """
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"The body is no JSON: {error}.") from error
    level = [found] if isinstance(found, dict | list) else []
    for _ in range(DEEPEST):
        if not level:
            return found
        level = [
            value
            for each in level
            for value in (each.values() if isinstance(each, dict) else each)
            if isinstance(value, dict | list)
        ]
    raise Problem(400, f"The body is nested more than {DEEPEST} levels deep.")


def _media(media: str, known: Iterable[str]) -> Problem:
    named = shown(media) if media else "missing"
    return Problem(415, f"The content type is {named}.", hint=f"Use one of: {', '.join(known)}.")


def _plain(value: Any) -> Any:
    """What orjson does not know."""
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "total_seconds"):
        return value.total_seconds()
    return str(value)
