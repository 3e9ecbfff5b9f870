"""The OpenAPI description, made from the table of commands, and the pages that people read."""

from __future__ import annotations

import html
import re
from typing import Any

from rankcast._version import __version__
from rankcast.service.commands import COMMANDS, Command
from rankcast.service.requests.rows import ARROW, JSON, NDJSON
from rankcast.service.settings import Settings

PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}
_ID = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
_ROW = {"type": "object", "additionalProperties": True}
_ROWS = {"type": "array", "items": _ROW}
_WANTED = {"type": "array", "items": _ID}
_SEQUENCE = {"type": "integer", "minimum": 0}


def _object(properties: dict[str, Any], *needed: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(needed)}


_STREAM = {
    "name": {"type": "string"},
    "engine": {"type": "string"},
    "settings": {"type": "object"},
    "subscriptions": {"type": "integer", "minimum": 0},
    "sequence": _SEQUENCE,
    "stats": {"type": "object"},
    "load": {"type": "object"},
    "configuration": {"type": "object"},
    "inputs": {"type": "object"},
}
_MORE = ("stats", "load", "configuration", "inputs")  # of one stream, not of a list of them
SCHEMAS: dict[str, dict[str, Any]] = {
    "Rows": {"anyOf": [_object({"rows": _ROWS}, "rows"), _ROW]},
    "Ranges": {"anyOf": [_object({"rows": _ROWS}, "rows"), _ROW]},
    "Lists": _object({"rows": _ROWS, "same": _WANTED, "sequence": _SEQUENCE}, "rows", "same", "sequence"),
    "Row": _ROW,
    "Patch": _ROW,
    "Question": _ROW,
    "NewStream": _object({"engine": {"type": "string"}, "settings": {"type": "object"}}, "engine"),
    "Stream": _object(_STREAM, *(name for name in _STREAM if name not in _MORE)),
    "Streams": _object(
        {"streams": {"type": "array", "items": {"$ref": "#/components/schemas/Stream"}}}, "streams"
    ),
    "Written": _object(
        {"sequence": _SEQUENCE, "deltas": {"type": "integer", "minimum": 0}, "rows": _ROWS},
        "sequence",
        "deltas",
    ),
    "Subscribed": _object({"id": _ID, "results": _ROWS, "sequence": _SEQUENCE}, "id", "results", "sequence"),
    "Page of subscriptions": _object(
        {"rows": _ROWS, "next": {"anyOf": [_ID, {"type": "null"}]}, "sequence": _SEQUENCE},
        "rows",
        "next",
        "sequence",
    ),
    "Table": _object({"rows": _ROWS, "sequence": _SEQUENCE}, "rows", "sequence"),
    # One of many: the media type says how they follow each other.
    "Event": _object(
        {
            "event": {"enum": ["snapshot", "delta", "gap", "tiles", "write"]},
            "id": {"type": "string"},
            "data": {
                "type": "string",
                "contentMediaType": JSON,
                "contentSchema": {"type": "object", "properties": {"rows": _ROWS, "sequence": _SEQUENCE}},
            },
        },
        "event",
    ),
    "Explanation": {"type": "object", "properties": {"sequence": _SEQUENCE}, "required": ["sequence"]},
    "GeoJson": _object(
        {"type": {"const": "FeatureCollection"}, "features": _ROWS, "sequence": _SEQUENCE}, "type", "features"
    ),
    "NewWebhook": _object(
        {"url": {"type": "string"}, "secret": {"type": "string"}, "subscriptions": _WANTED}, "url"
    ),
    "Webhook": _object(
        {
            "name": {"type": "string"},
            "url": {"type": "string"},
            "subscriptions": {"anyOf": [_WANTED, {"type": "null"}]},
            "delivered": {"type": "integer"},
            "secret": {"type": "string"},
        },
        "name",
        "url",
        "subscriptions",
        "delivered",
    ),
    "DeadLetters": _object({"rows": _ROWS}, "rows"),
    "Waiting": _object({"waiting": {"type": "integer", "minimum": 0}}, "waiting"),
    "Status": _object({"status": {"type": "string"}}, "status"),
    "Object": {"type": "object"},
    "DryRun": _object(
        {"rows": _ROWS, "results": _ROWS, "from": _SEQUENCE, "to": _SEQUENCE}, "rows", "results", "from", "to"
    ),
    "Problem": _object(
        {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "column": {"type": "string"},
            "row": {"type": "integer"},
            "expected": {"type": "string"},
            "hint": {"type": "string"},
        },
        "type",
        "title",
        "status",
        "detail",
    ),
}
_MEDIA = {
    "Events": "text/event-stream",
    "Page": "text/html",
    "Text": "text/plain",
    "GeoJson": "application/geo+json",
}
_TABLES = ("Table", "Written")


def document(settings: Settings) -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, dict[str, Any]] = {}
    for command in COMMANDS:
        paths.setdefault(command.path, {})[command.method.lower()] = _operation(command)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rankcast",
            "version": __version__,
            "summary": "Ranked publish/subscribe over HTTP.",
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(command: Command) -> dict[str, Any]:
    """One command."""
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", command.path)
    ]
    for each in command.query:
        schema: dict[str, Any] = {"type": each.kind}
        if each.choices:
            schema["enum"] = list(each.choices)
        if each.repeated:
            schema = {"type": "array", "items": schema}
        parameters.append(
            {
                "name": each.name,
                "in": "query",
                "required": each.required,
                "schema": schema,
                "description": each.summary,
            }
        )
    if command.writes:
        key = {"type": "string", "pattern": "^[!-~]{1,255}$"}
        parameters.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": key})
    answers: dict[str, Any] = {str(status): _answer(command) for status in command.status}
    answers["default"] = {
        "description": "What was wrong.",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    found: dict[str, Any] = {
        "operationId": command.name,
        "summary": command.summary,
        "parameters": parameters,
        "responses": answers,
    }
    if command.takes:
        schema = {"$ref": f"#/components/schemas/{command.takes}"}
        content: dict[str, Any] = {JSON: {"schema": schema}}
        if command.takes == "Rows":
            content |= {NDJSON: {"schema": {"type": "string"}}, ARROW: {"schema": {"type": "string"}}}
        found["requestBody"] = {"required": True, "content": content}
    if command.scope is not None:
        found["security"] = [{"token": []}, {}]
        found["description"] = f"Needs the scope `{command.scope}`."
    return found


def _answer(command: Command) -> dict[str, Any]:
    if not command.gives:
        return {"description": "Done."}
    if command.gives == "Events":
        event = {"schema": {"$ref": "#/components/schemas/Event"}}
        return {
            "description": "Server-sent events, one after the other.",
            "content": {_MEDIA["Events"]: event},
        }
    if command.gives in ("Page", "Text"):
        return {"description": "Text.", "content": {_MEDIA[command.gives]: {"schema": {"type": "string"}}}}
    schema = {"$ref": f"#/components/schemas/{command.gives}"}
    content: dict[str, Any] = {_MEDIA.get(command.gives, JSON): {"schema": schema}}
    if command.gives in _TABLES:
        content |= {NDJSON: {"schema": {"type": "string"}}, ARROW: {"schema": {"type": "string"}}}
    return {"description": "Done.", "content": content}


_STYLE = (
    "body{font:15px/1.5 system-ui;margin:2rem auto;max-width:60rem;padding:0 1rem}"
    "code{background:#8882;padding:0 .2em}td,th{padding:.2rem .6rem;text-align:left;vertical-align:top}"
)


def page() -> str:
    """The table of commands, to be read; it needs nothing from elsewhere."""
    lines = "".join(
        f"<tr><td><code>{command.method} {html.escape(command.path)}</code></td>"
        f"<td>{html.escape(command.summary)}</td><td>{command.scope or 'anybody'}</td></tr>"
        for command in COMMANDS
    )
    return _page(
        "rankcast: commands",
        "<p><a href='/openapi.json'>OpenAPI</a></p><table><tr><th>call</th><th>does</th><th>scope</th></tr>"
        f"{lines}</table>",
    )


def _page(title: str, body: str) -> str:
    head = f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"
    return f"{head}<h1>{title}</h1>{body}"
