"""Dry runs: what a subscription would have heard, over the writes that the log still has.

    <stream>/history/<number>/    the shard's snapshot of that number, as hard links

The engine of a dry run is a fresh one: empty, if the log goes back to the first write, and otherwise made
from the oldest snapshot that the log goes on from. The subscription enters it, and the retained writes are
applied by the same code that applied them once. Nothing of it touches the live engine.

What other subscriptions do is left out where the engine has none of them to begin with; otherwise it is
applied, too, since writes may refer to them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rankcast.core import snapshot
from rankcast.core.engine import Engine
from rankcast.errors import RankcastError
from rankcast.service.requests.rows import listed
from rankcast.service.streams import engines
from rankcast.state import batches

if TYPE_CHECKING:
    from rankcast.service.streams.stream import Stream

FOLDER = "history"
_KIND = "Shard"


class Bases:
    """The snapshots of a stream that dry runs begin from. One thread keeps them, any may read."""

    def __init__(self, path: Path) -> None:
        self._path = path / FOLDER
        self._snapshot = path / "shard" / "snapshot"
        snapshot.make_directory(self._path)
        self._kept = max(self.numbers(), default=0)

    def numbers(self) -> list[int]:
        """The numbers of all of them."""
        return sorted(int(each.name) for each in self._path.iterdir() if each.name.isdecimal())

    def keep(self, number: int, first: int) -> None:
        """Keep the snapshot on disk, which covers a number; drop those that the log does not go back to.

        The snapshot may be replaced meanwhile: then it is kept the next time.
        """
        if number <= self._kept:
            return
        self._kept = number
        numbers = self.numbers()
        for each in numbers[:-1]:
            if each < first:
                shutil.rmtree(self._path / str(each), ignore_errors=True)
        new = self._path / f".{secrets.token_hex(4)}"
        try:
            new.mkdir()
            for file in self._snapshot.iterdir():
                os.link(file, new / file.name)
            found = snapshot.peek(new).header["number"]
            if found not in numbers and found:
                new.rename(self._path / str(found))
        except (OSError, RankcastError, KeyError):
            pass
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def load(self, cls: type[Engine], first: int) -> tuple[int, Engine] | None:
        """The oldest snapshot that the log goes on from, as an engine."""
        for number in self.numbers():
            if number >= first:
                try:
                    saved = snapshot.read(self._path / str(number), kind=_KIND)
                    return number, cls.restore(saved.header["engine"], saved.arrays)
                except (OSError, RankcastError):
                    continue
        return None


class DryRun(NamedTuple):
    """What came of it: deltas with their sequence, the list at the end, and which writes were looked at."""

    rows: list[dict[str, Any]]
    results: list[dict[str, Any]]
    first: int
    last: int

    def document(self) -> dict[str, Any]:
        """The answer."""
        return {"rows": self.rows, "results": self.results, "from": self.first, "to": self.last}


def dry_run(stream: Stream, columns: pa.Table, last: int, seconds: float, most: int) -> DryRun:
    """Run one subscription over what is retained, up to the write `last`; on a thread of its own.

    It ends earlier, and says so, after so many seconds or so many rows.
    """
    until = time.monotonic() + seconds
    first = stream.log.first
    engine: Any = engines.make(stream.document["engine"], stream.document["settings"])
    begun: tuple[int, Any] | None = (0, engine) if first == 0 else stream.bases.load(type(engine), first)
    alone = first == 0
    if begun is None:  # no snapshot is that old: the current lists are all that can be told
        header, arrays = stream.submit(_copied).result()
        begun = header.pop("number"), type(engine).restore(header, arrays)
    number, engine = begun
    first = number
    key, entered = _entered(engine, columns, number)
    rows = list(_mine(entered, key, number))
    for entry in stream.log.after(number, last) or ():
        commands = batches.decode(entry.batch)
        if alone:
            commands = [each for each in commands if _concerns(stream, each[0])]
        answer = engine.apply(commands) if commands else None
        number = entry.number
        if answer is not None and answer.num_rows:
            rows += _mine(answer, key, number)
        if time.monotonic() > until or len(rows) > most:
            break
    found = engine.results([key]) if hasattr(engine, "results") else pa.table({})
    return DryRun(rows, [{**row, "subscription": None} for row in listed(found)], first, number)


def _copied(stream: Stream) -> tuple[dict[str, Any], dict[str, Any]]:
    header, arrays = stream.engine.state()
    return {**header, "number": stream.number}, {name: array.copy() for name, array in arrays.items()}


def _entered(engine: Any, columns: pa.Table, number: int) -> tuple[Any, pa.Table]:
    """Let a subscription in under an id that nobody has; its id and first list."""
    whole = secrets.randbits(62)
    for key in (f"dry run {whole}", whole) if number else (whole,):
        try:
            rows = columns.append_column("id", pa.array([key]))
            answer = engine.subscribe(rows)
            return key, answer if answer is not None else pa.table({})
        except RankcastError as error:
            if getattr(error, "column", None) != "id" or isinstance(key, int):
                raise
    raise AssertionError


def _concerns(stream: Stream, call: str) -> bool:
    """Whether a call matters to a subscription that is alone."""
    source = next((each for each in stream.spec.inputs if call in each.calls), None)
    if source is None:
        return True
    return source.name != "subscriptions" and source.ids_of != "subscriptions"


def _mine(answer: pa.Table, key: Any, number: int) -> Iterator[dict[str, Any]]:
    """The rows of one subscription, which has no name to the outside."""
    if "subscription" not in answer.column_names:
        return
    mine = answer.filter(pc.equal(answer.column("subscription"), key))
    for row in listed(mine):
        yield {**row, "subscription": None, "sequence": number}
