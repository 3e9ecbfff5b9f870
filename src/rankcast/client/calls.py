"""Each call of the service as a request: what it sends, and how its answer is read.

Every write has its own `Idempotency-Key`, so that it can be sent again when its answer is lost.
"""

from __future__ import annotations

import base64
import importlib
import json
import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from rankcast.client.answers import (
    DryRun,
    Id,
    Message,
    Results,
    Row,
    StreamInfo,
    Subscribed,
    Webhook,
    Written,
)
from rankcast.errors import InputError, ServiceError, shown
from rankcast.gateway import Lists

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"
SEQUENCE = "rankcast-sequence"
T = TypeVar("T")


class Answer(NamedTuple):
    """An HTTP answer: status, headers (lower-case names), body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ServiceError(
                "the answer is no JSON", status=self.status, hint="Is this the address of the service?"
            ) from error


@dataclass(frozen=True)
class Request(Generic[T]):
    """One call: what to send, and `read`, which converts the answer."""

    method: str
    path: str
    read: Callable[[Answer], T]
    params: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    ends: bool = False  # gone already, when it is sent again, is as good

    def sent(self) -> dict[str, Any]:
        """The request in the form that httpx takes."""
        return {
            "method": self.method,
            "url": self.path,
            "params": self.params or None,
            "content": self.body,
            "headers": self.headers,
        }


# Streams


def put_stream(stream: str, engine: str, settings: Mapping[str, Any] | None) -> Request[StreamInfo]:
    """Create a stream."""
    document = {"engine": engine, "settings": dict(settings or {})}
    return Request("PUT", _path(stream), _stream, body=dumped(document), headers={"Content-Type": JSON})


def list_streams() -> Request[list[StreamInfo]]:
    """List all streams."""

    def read(answer: Answer) -> list[StreamInfo]:
        return [_stream_info(each) for each in answer.json()["streams"]]

    return Request("GET", "/v1/streams", read)


def get_stream(stream: str) -> Request[StreamInfo]:
    """Show one stream."""
    return Request("GET", _path(stream), _stream)


def end_stream(stream: str) -> Request[None]:
    """End a stream."""
    return Request("DELETE", _path(stream), lambda _: None, ends=True)


# Writes


def write_rows(stream: str, what: str, rows: Any, *, deltas: bool) -> Request[Written]:
    """Publish events, upsert objects, or register subscriptions."""
    body, media = rendered(rows)
    headers = {"Content-Type": media, **_key()}
    if media == ARROW and deltas:
        headers["Accept"] = ARROW
    params = [("return", "deltas")] if deltas else []
    return Request("POST", _path(stream, what), _written, params, body, headers)


def push(
    stream: str, batch: int, rows: Any, *, source: str, part: int, results: bool, deltas: bool
) -> Request[Written]:
    """Push a batch into an external stream; its number serves as the idempotency key."""
    body, media = rendered(rows)
    params = [("part", str(part)), ("content", "results" if results else "deltas")]
    params += [("source", source)] if source else []
    params += [("return", "deltas")] if deltas else []
    headers = {"Content-Type": media}
    if media == ARROW and deltas:
        headers["Accept"] = ARROW
    return Request("PUT", _path(stream, "batches", batch), _written, params, body, headers)


def put_subscription(
    stream: str, key: Id, row: Mapping[str, Any] | None, expires_in: float | None
) -> Request[Subscribed]:
    """Register or replace a subscription."""
    document = {**(row or {}), "id": key}
    if expires_in is not None:
        document["expires_in"] = expires_in
    return _write_one("PUT", stream, key, document)


def amend_subscription(stream: str, key: Id, row: Mapping[str, Any]) -> Request[Subscribed]:
    """Change a subscription in place."""
    return _write_one("PATCH", stream, key, {**row, "id": key})


def end_subscription(stream: str, key: Id) -> Request[Written]:
    """End a subscription."""
    return Request("DELETE", _path(stream, "subscriptions", key), _written, headers=_key())


def remove(stream: str, key: Id) -> Request[Written]:
    """Remove an object."""
    return Request("DELETE", _path(stream, "objects", key), _written, headers=_key())


# Reads


def get_subscription(stream: str, key: Id) -> Request[Row]:
    """Show a subscription as registered."""
    return Request("GET", _path(stream, "subscriptions", key), Answer.json)


def results(stream: str, key: Id) -> Request[Results]:
    """Get a current list."""

    def read(answer: Answer) -> Results:
        told = answer.json()
        return Results(told["rows"], told["sequence"])

    return Request("GET", _path(stream, "subscriptions", key, "results"), read)


def explain(stream: str, key: Id, item: Any) -> Request[Row]:
    """Explain why an item is or is not in a list."""
    text = dumped(item).decode() if isinstance(item, Mapping) else str(item)
    return Request("GET", _path(stream, "subscriptions", key, "explain"), Answer.json, [("item", text)])


def zones(stream: str, subscriptions: Iterable[Id]) -> Request[Row]:
    """Get safe zones."""
    return Request("GET", _path(stream, "zones"), Answer.json, _watched(subscriptions))


def dryrun(stream: str, row: Mapping[str, Any]) -> Request[DryRun]:
    """Find out what a subscription would have received."""

    def read(answer: Answer) -> DryRun:
        told = answer.json()
        return DryRun(told["rows"], told["results"], told["from"], told["to"])

    return Request(
        "POST", _path(stream, "dryrun"), read, body=dumped(dict(row)), headers={"Content-Type": JSON}
    )


# Webhooks


def put_webhook(
    stream: str, name: str, url: str, secret: str | None, subscriptions: Iterable[Id] | None
) -> Request[Webhook]:
    """Post deltas to a URL."""
    document: Row = {"url": url}
    if secret is not None:
        document["secret"] = secret
    if subscriptions is not None:
        document["subscriptions"] = [value for _, value in _watched(subscriptions)]

    def read(answer: Answer) -> Webhook:
        return Webhook(**{"secret": secret, **answer.json()})

    headers = {"Content-Type": JSON}
    return Request("PUT", _path(stream, "webhooks", name), read, body=dumped(document), headers=headers)


def new_secret() -> str:
    """A new secret for signing."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def get_webhook(stream: str, name: str) -> Request[Webhook]:
    """Show a webhook and its progress."""
    return Request("GET", _path(stream, "webhooks", name), lambda answer: Webhook(**answer.json()))


def end_webhook(stream: str, name: str) -> Request[Written]:
    """End a webhook."""
    return Request("DELETE", _path(stream, "webhooks", name), _written, headers=_key())


def dead_letters(stream: str, name: str) -> Request[list[Row]]:
    """List the messages that could not be delivered."""

    def read(answer: Answer) -> list[Row]:
        found: list[Row] = answer.json()["rows"]
        return found

    return Request("GET", _path(stream, "webhooks", name, "dead"), read)


def retry_dead_letters(stream: str, name: str, letter: str | None) -> Request[int]:
    """Send dead letters again."""

    def read(answer: Answer) -> int:
        return int(answer.json()["waiting"])

    params = [] if letter is None else [("id", letter)]
    return Request("POST", _path(stream, "webhooks", name, "dead", "retry"), read, params)


def ready() -> Request[bool]:
    """Ask whether the service accepts calls."""
    return Request("GET", "/readyz", lambda _: True)


def listen(
    stream: str, subscriptions: Iterable[Id], min_interval: float | None, min_change: float | None
) -> Request[None]:
    """Listen to server-sent events."""
    paces = (("min_interval", min_interval), ("min_change", min_change))
    params = [*_watched(subscriptions), *((name, str(value)) for name, value in paces if value is not None)]
    return Request("GET", _path(stream, "deltas"), lambda _: None, params, headers={"Accept": EVENTS})


def tiles(stream: str) -> Request[None]:
    """Listen to server-sent events for gateways."""
    return Request("GET", _path(stream, "tiles"), lambda _: None, headers={"Accept": EVENTS})


def lists(stream: str, rows: list[Row]) -> Request[Lists]:
    """Get the current lists of ranges."""

    def read(answer: Answer) -> Lists:
        told = answer.json()
        return Lists(told["sequence"], told["rows"], told["same"])

    body, headers = dumped({"rows": rows}), {"Content-Type": JSON}
    return Request("POST", _path(stream, "tiles", "lists"), read, body=body, headers=headers)


def message(event: str, data: bytes) -> Message:
    """Convert a server-sent event into a `Message`."""
    told = json.loads(data)
    return Message(event, told["rows"], told["sequence"], told.get("after"))


# Parts


def _path(stream: str, *parts: Id) -> str:
    return "/".join(["/v1/streams", *(quote(str(part), safe="") for part in (stream, *parts))])


def _key() -> dict[str, str]:
    return {"Idempotency-Key": uuid.uuid4().hex}


def _watched(subscriptions: Iterable[Id]) -> list[tuple[str, str]]:
    named = [subscriptions] if isinstance(subscriptions, int | str) else subscriptions
    return [("subscription", str(each)) for each in named]


def _write_one(method: str, stream: str, key: Id, row: Mapping[str, Any]) -> Request[Subscribed]:
    def read(answer: Answer) -> Subscribed:
        told = answer.json()
        return Subscribed(told["id"], told["results"], told["sequence"])

    headers = {"Content-Type": JSON, **_key()}
    return Request(method, _path(stream, "subscriptions", key), read, body=dumped(row), headers=headers)


def _stream(answer: Answer) -> StreamInfo:
    return _stream_info(answer.json())


def _stream_info(told: Row) -> StreamInfo:
    return StreamInfo(
        name=told["name"],
        engine=told["engine"],
        settings=told["settings"],
        subscriptions=told["subscriptions"],
        sequence=told["sequence"],
        stats=told.get("stats", {}),
    )


def _written(answer: Answer) -> Written:
    if answer.headers.get("content-type", "").startswith(ARROW):
        table = _arrow().ipc.open_stream(answer.body).read_all()
        return Written(int(answer.headers[SEQUENCE]), table.num_rows, table)
    told = answer.json()
    return Written(told["sequence"], told["deltas"], told.get("rows"))


def rendered(rows: Any) -> tuple[bytes, str]:
    """Rows as a body and its media type: tables as Arrow, everything else as JSON.

    Rows are a table, a list of dicts, or one dict. A dict of equally long lists (or arrays) holds columns;
    any other dict is one row.
    """
    if hasattr(rows, "__arrow_c_stream__"):
        arrow = _arrow()
        table, sink = arrow.table(rows), arrow.BufferOutputStream()
        with arrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes(), ARROW
    if isinstance(rows, Mapping):
        rows = _transposed(rows) if rows and all(map(_is_column, rows.values())) else [dict(rows)]
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise InputError(f"are {shown(rows)}", where="rows", expected="a table, a list of dicts, or a dict")
    return dumped({"rows": list(rows)}), JSON


def _is_column(value: Any) -> bool:
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1


def _transposed(columns: Mapping[str, Any]) -> list[Row]:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError("columns are not equally long", where="rows", detail=f"They have {lengths} values.")
    listed = [column.tolist() if hasattr(column, "tolist") else column for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*listed, strict=True)]


def dumped(value: Any) -> bytes:
    """A value as JSON: timestamps are ISO 8601, NumPy numbers are numbers."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, TypeError, RecursionError) as error:
        hint = "NaN and infinity have no JSON: send None, or a table."
        raise InputError("cannot be sent as JSON", where="rows", detail=f"{error}.", hint=hint) from error


def _plain(value: Any) -> Any:
    """Convert a value that JSON does not know."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is no JSON")


def _arrow() -> Any:
    return importlib.import_module("pyarrow")
