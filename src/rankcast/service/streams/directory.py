"""All streams of a data directory, which one process holds at a time.

<data>/tokens.json      see rankcast.service.operating.tokens
<data>/streams/<name>/  see the module stream; a name that starts with "." was ended, or never finished
"""

from __future__ import annotations

import re
import secrets
import shutil
import threading
from contextlib import ExitStack
from typing import Any

from rankcast.core import snapshot
from rankcast.errors import ShardError, shown
from rankcast.service.problems import Problem
from rankcast.service.settings import Settings
from rankcast.service.streams import engines
from rankcast.service.streams.stream import FILE, Stream, configuration

FOLDER = "streams"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Streams:
    """The open streams by name. Creating and ending them takes turns; finding one does not."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turn = threading.Lock()
        self._open: dict[str, Stream] = {}
        self._folder = settings.data / FOLDER
        snapshot.make_directory(settings.data)
        snapshot.make_directory(self._folder)
        self._folder.chmod(0o700)  # secrets of webhooks lie below it
        with ExitStack() as opened:
            try:
                opened.enter_context(snapshot.locked(self._folder, wait=False))
            except BlockingIOError as error:
                raise ShardError(
                    f"{settings.data} is in use", hint="Another service runs on it: stop that one first."
                ) from error
            opened.callback(self._close_all)
            for path in sorted(self._folder.iterdir()):
                if path.name.startswith("."):
                    shutil.rmtree(path)
                elif not NAME.fullmatch(path.name) or not path.is_dir() or path.is_symlink():
                    raise ShardError(f"{path} is no stream", hint="Move it out of the data directory.")
                elif not (path / FILE).exists():
                    shutil.rmtree(path)  # was never answered for
                else:
                    self._open[path.name] = Stream(path, settings)
            self._closing = opened.pop_all()

    def names(self) -> list[str]:
        """The names of all streams."""
        return sorted(self._open)

    def all(self) -> list[Stream]:
        """All streams, by name."""
        return [self._open[name] for name in self.names()]

    def find(self, name: str) -> Stream:
        """The stream of a name.

        Raises:
            Problem: 404, there is none.
        """
        found = self._open.get(name)
        if found is None:
            raise Problem(404, f"There is no stream {shown(name)}.")
        return found

    def put(self, name: str, document: dict[str, Any]) -> tuple[Stream, bool]:
        """The stream of a name, created if it does not exist; and whether it was created.

        Raises:
            Problem: 409, it exists with another engine or other settings; 400, the name is invalid.
        """
        if not NAME.fullmatch(name):
            raise Problem(
                400, f"{shown(name)} is no name of a stream.", hint="Use letters, digits, - and _, up to 64."
            )
        engine = engines.make(document["engine"], document["settings"])
        with self._turn:
            there = self._open.get(name)
            if there is not None:
                same = there.document["engine"] == document["engine"]
                if not same or there.configuration != configuration(engine):
                    raise Problem(409, f"The stream {name} is there with another engine or other settings.")
                return there, False
            if len(self._open) >= self._settings.max_streams:
                raise Problem(
                    409, f"There are {len(self._open)} streams, as many as there may be.", hint="End one."
                )
            made = Stream.make(self._folder / name, document, self._settings)
            self._open[name] = made
            return made, True

    def end(self, name: str) -> None:
        """End a stream and remove what it holds."""
        with self._turn:
            stream = self.find(name)
            del self._open[name]
            stream.close()
            gone = self._folder / f".{name}-{secrets.token_hex(4)}"
            stream.path.rename(gone)
            snapshot.sync_directory(self._folder)
            shutil.rmtree(gone, ignore_errors=True)

    def close(self) -> None:
        """Close all streams."""
        self._closing.close()

    def _close_all(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
