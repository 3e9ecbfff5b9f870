"""A process that dies at a chosen file operation, within the test's own process.

`Tape` records the operations on files in order. Told to, it kills at the n-th: that operation does nothing (a
write: half of it), and neither does any that follows, as for a process that is gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class Killed(BaseException):
    """The process is gone."""


class Tape:
    """What was done to files, as (operation, name of the file or directory)."""

    def __init__(self, patch: pytest.MonkeyPatch, *, kill_at: int | None = None) -> None:
        self.done: list[tuple[str, str]] = []
        self._kill_at = kill_at
        self._names: dict[int, str] = {}
        self._write = os.write
        for operation in ("open", "write", "fsync", "replace", "unlink", "mkdir"):
            patch.setattr(os, operation, self._taped(operation, getattr(os, operation)))

    def _taped(self, operation: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *rest: Any, **named: Any) -> Any:
            name = self._names.get(target, "?") if isinstance(target, int) else Path(target).name
            if self._kill_at is not None and len(self.done) >= self._kill_at:
                if operation == "write" and len(self.done) == self._kill_at:
                    self._write(target, bytes(rest[0])[: len(rest[0]) // 2])
                self.done.append(("killed", name))
                raise Killed
            self.done.append((operation, name))
            answer = real(target, *rest, **named)
            if operation == "open":
                self._names[answer] = name
            return answer

        return call
