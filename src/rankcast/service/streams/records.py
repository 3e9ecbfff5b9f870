"""What a stream knows beside its engine: subscriptions as registered, keys of writes, kinds of ids.

It lies in tables of the shard's own database and is written in the transaction of the write it belongs to.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import orjson

from rankcast.errors import InputError, shown
from rankcast.state import Shard

Id: TypeAlias = int | str

LONGEST_ID = 1024  # characters

_TABLES = (
    "CREATE TABLE IF NOT EXISTS own_subscription (id PRIMARY KEY, row BLOB NOT NULL, expires REAL)"
    " WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS own_expiry ON own_subscription (expires) WHERE expires IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS own_key (key TEXT PRIMARY KEY, digest BLOB NOT NULL, reply BLOB NOT NULL,"
    " at REAL NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS own_key_age ON own_key (at)",
    "CREATE TABLE IF NOT EXISTS own_kind (role TEXT PRIMARY KEY, kind TEXT NOT NULL) WITHOUT ROWID",
)
_INTEGER = re.compile(r"-?\d{1,19}")


class Registered(NamedTuple):
    """A subscription as registered, and when it ends."""

    row: dict[str, Any]
    expires: float | None


class Kept(NamedTuple):
    """A write that had a key: what was asked, as a digest, and the reply."""

    digest: bytes
    reply: bytes


class Records:
    """The tables of one shard. For its writer thread, inside `together` where something is written."""

    def __init__(self, shard: Shard[Any]) -> None:
        self._shard = shard
        self._kinds: dict[str, str] = {}  # as the table has them
        for table in _TABLES:
            shard.beside(table)

    # Subscriptions

    def find(self, key: Id) -> Registered | None:
        """A subscription by its id."""
        found = self._shard.beside("SELECT row, expires FROM own_subscription WHERE id = ?", (key,))
        return Registered(orjson.loads(found[0][0]), found[0][1]) if found else None

    def page(
        self, after: Id | None, prefix: str | None, most: int
    ) -> list[tuple[Id, dict[str, Any], float | None]]:
        """Subscriptions in the order of their ids, from behind one on; of integers a prefix is the id."""
        wanted, values = ["1"], list[Any]()
        if after is not None:
            wanted.append("id > ?")
            values.append(after)
        if prefix and self.kind("subscription") == "int":
            wanted.append("id = ?")
            values.append(self.id_of(prefix, "subscription"))
        elif prefix:
            wanted.append("substr(id, 1, ?) = ? AND id >= ?")
            values += [len(prefix), prefix, prefix]
        query = (
            f"SELECT id, row, expires FROM own_subscription WHERE {' AND '.join(wanted)} ORDER BY id LIMIT ?"  # noqa: S608  only the parts above
        )
        found = self._shard.beside(query, (*values, most))
        return [(key, orjson.loads(row), expires) for key, row, expires in found]

    def put(self, rows: Iterable[tuple[Id, bytes, float | None]]) -> None:
        """Write subscriptions down: id, row as JSON, when it ends."""
        self._shard.beside_many("INSERT OR REPLACE INTO own_subscription VALUES (?, ?, ?)", rows)

    def drop(self, ids: Iterable[Id]) -> None:
        """Forget subscriptions."""
        self._shard.beside_many("DELETE FROM own_subscription WHERE id = ?", ((each,) for each in ids))

    def count(self) -> int:
        """How many subscriptions there are."""
        found: int = self._shard.beside("SELECT count(*) FROM own_subscription")[0][0]
        return found

    def due(self, now: float, most: int) -> list[Id]:
        """Subscriptions whose time is over."""
        query = "SELECT id FROM own_subscription WHERE expires <= ? ORDER BY expires, id LIMIT ?"
        return [row[0] for row in self._shard.beside(query, (now, most))]

    def next_expiry(self) -> float | None:
        """When the next subscription ends."""
        query = "SELECT min(expires) FROM own_subscription WHERE expires IS NOT NULL"
        found: float | None = self._shard.beside(query)[0][0]
        return found

    # Keys of writes

    def kept(self, key: str) -> Kept | None:
        """The write that had a key."""
        found = self._shard.beside("SELECT digest, reply FROM own_key WHERE key = ?", (key,))
        return Kept(*found[0]) if found else None

    def keep(self, key: str, kept: Kept, age: float) -> None:
        """Remember the key of a write; forget those of long ago."""
        now = time.time()
        self._shard.beside("INSERT INTO own_key VALUES (?, ?, ?, ?)", (key, *kept, now))
        self._shard.beside("DELETE FROM own_key WHERE at < ?", (now - age,))

    # Ids

    def kind(self, role: str) -> str | None:
        """Whether ids of a role (`subscription`, `item`) are `int` or `str`; None: there was none yet."""
        if role not in self._kinds:
            for name, kind in self._shard.beside("SELECT role, kind FROM own_kind"):
                self._kinds[name] = kind
        return self._kinds.get(role)

    def learn(self, role: str, kind: str) -> None:
        """Remember what ids of a role are; the first ones decide."""
        if self.kind(role) is None:
            self._shard.beside("INSERT INTO own_kind VALUES (?, ?)", (role, kind))
            self._kinds[role] = kind

    def forget(self) -> None:
        """Forget what is in memory: a group was taken back."""
        self._kinds.clear()

    def id_of(self, text: str, role: str) -> Id:
        """An id from a path or a query, which is text."""
        if self.kind(role) != "int":
            return text
        if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
            raise InputError(
                f"is {shown(text)}", column=role, expected="an integer, as all ids of the stream"
            )
        return int(text)
