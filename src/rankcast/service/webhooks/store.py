"""Webhooks: deltas of a stream, posted to a URL, signed as Standard Webhooks says.

    webhook-id           the same for every attempt at one message, also after a restart
    webhook-timestamp    seconds since 1970, of the attempt
    webhook-signature    v1,<base64 of HMAC-SHA256 over id.timestamp.body>, the key being the secret's bytes

A webhook has a cursor in the stream's log. It and the messages that could not be delivered lie in the shard's
database.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from typing import Any, NamedTuple

import orjson

from rankcast.errors import InputError, printable
from rankcast.state import Shard

PREFIX = "whsec_"
DEAD_SHOWN = 1000  # that one answer lists
_REASON = 300  # characters

_TABLES = (
    "CREATE TABLE IF NOT EXISTS own_webhook (name TEXT PRIMARY KEY, url TEXT NOT NULL, secret TEXT NOT NULL,"
    " wants TEXT, cursor INTEGER NOT NULL, tag TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS own_dead (number INTEGER PRIMARY KEY, webhook TEXT NOT NULL,"
    " id TEXT NOT NULL, sequence INTEGER NOT NULL, body BLOB NOT NULL, reason TEXT NOT NULL,"
    " at REAL NOT NULL, due INTEGER NOT NULL DEFAULT 0)",
    "CREATE INDEX IF NOT EXISTS own_dead_of ON own_dead (webhook, number)",
)


class Webhook(NamedTuple):
    """Where deltas go: all up to the write `cursor` have been delivered, or are dead."""

    name: str
    url: str
    secret: str
    wants: frozenset[str] | None
    cursor: int
    tag: str  # makes ids of messages unique


class Letter(NamedTuple):
    """A message to a webhook."""

    id: str
    sequence: int
    body: bytes


def headers_of(letter: Letter, secret: str, now: float) -> dict[str, str]:
    """The headers of one attempt at a message.

    >>> letter = Letter("msg_p5jXN8AQM9LWM0D4loKWxJek", 1, b'{"test": 2432232314}')
    >>> headers_of(letter, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1614265330)["webhook-signature"]
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    stamp = str(int(now))
    signed = b".".join((letter.id.encode(), stamp.encode(), letter.body))
    digest = hmac.new(key_of(secret), signed, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "user-agent": "rankcast",
        "webhook-id": letter.id,
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def key_of(secret: Any) -> bytes:
    """The bytes of a secret.

    Raises:
        InputError: it is none.
    """
    try:
        found = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (AttributeError, TypeError, ValueError, binascii.Error):
        found = b""
    if not isinstance(secret, str) or not secret.startswith(PREFIX) or not 24 <= len(found) <= 64:
        raise InputError(
            "is no secret", column="secret", expected=f"{PREFIX} and 24 to 64 bytes as base64, or none at all"
        )
    return found


class Hooks:
    """The webhooks of a stream, on its thread."""

    def __init__(self, shard: Shard[Any]) -> None:
        self._shard = shard
        for table in _TABLES:
            shard.beside(table)

    def find(self, name: str) -> Webhook | None:
        """A webhook by its name."""
        return next((each for each in self.all() if each.name == name), None)

    def all(self) -> list[Webhook]:
        """All of them."""
        found = self._shard.beside(
            "SELECT name, url, secret, wants, cursor, tag FROM own_webhook ORDER BY name"
        )
        return [
            Webhook(name, url, secret, None if wants is None else frozenset(orjson.loads(wants)), cursor, tag)
            for name, url, secret, wants, cursor, tag in found
        ]

    def put(self, hook: Webhook) -> None:
        """Write one down."""
        wants = None if hook.wants is None else orjson.dumps(sorted(hook.wants)).decode()
        values = (hook.name, hook.url, hook.secret, wants, hook.cursor, hook.tag)
        self._shard.beside("INSERT OR REPLACE INTO own_webhook VALUES (?, ?, ?, ?, ?, ?)", values)

    def drop(self, name: str) -> None:
        """Forget one, and its dead letters."""
        self._shard.beside("DELETE FROM own_webhook WHERE name = ?", (name,))
        self._shard.beside("DELETE FROM own_dead WHERE webhook = ?", (name,))

    def move(self, hook: Webhook, cursor: int) -> None:
        """Note how far a webhook is."""
        self._shard.beside(
            "UPDATE own_webhook SET cursor = ? WHERE name = ? AND tag = ?", (cursor, hook.name, hook.tag)
        )

    def bury(self, hook: Webhook, letter: Letter, reason: str, most: int) -> None:
        """Put a message on the list of those that could not be delivered, the oldest of which go."""
        row = (hook.name, letter.id, letter.sequence, letter.body, printable(reason, _REASON), time.time())
        self._shard.beside(
            "INSERT INTO own_dead (webhook, id, sequence, body, reason, at) VALUES (?, ?, ?, ?, ?, ?)", row
        )
        self._shard.beside(
            "DELETE FROM own_dead WHERE webhook = ?1 AND number NOT IN"
            " (SELECT number FROM own_dead WHERE webhook = ?1 ORDER BY number DESC LIMIT ?2)",
            (hook.name, most),
        )

    def dead(self, name: str) -> list[dict[str, Any]]:
        """What could not be delivered, the oldest first."""
        query = (
            "SELECT id, sequence, reason, at, due, body FROM own_dead WHERE webhook = ?"
            " ORDER BY number LIMIT ?"
        )
        return [
            {
                "id": row[0],
                "sequence": row[1],
                "reason": row[2],
                "at": row[3],
                "waits": bool(row[4]),
                "body": orjson.loads(row[5]),
            }
            for row in self._shard.beside(query, (name, DEAD_SHOWN))
        ]

    def wake(self, name: str, letter: str | None) -> int:
        """Have dead letters sent again, one or all; returns how many."""
        which, values = ("", (name,)) if letter is None else (" AND id = ?", (name, letter))
        [(count,)] = self._shard.beside(f"SELECT count(*) FROM own_dead WHERE webhook = ?{which}", values)  # noqa: S608
        self._shard.beside(f"UPDATE own_dead SET due = 1 WHERE webhook = ?{which}", values)  # noqa: S608
        return int(count)

    def next_due(self, name: str) -> tuple[int, Letter] | None:
        """The next dead letter that is to be sent again."""
        query = (
            "SELECT number, id, sequence, body FROM own_dead WHERE webhook = ? AND due = 1"
            " ORDER BY number LIMIT 1"
        )
        found = self._shard.beside(query, (name,))
        return (found[0][0], Letter(*found[0][1:])) if found else None

    def settle(self, number: int, reason: str | None) -> None:
        """Note what became of a dead letter that was sent again."""
        if reason is None:
            self._shard.beside("DELETE FROM own_dead WHERE number = ?", (number,))
        else:
            values = (printable(reason, _REASON), number)
            self._shard.beside("UPDATE own_dead SET due = 0, reason = ? WHERE number = ?", values)
