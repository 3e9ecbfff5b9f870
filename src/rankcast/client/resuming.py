"""When to try a call again, and where a listener continues. No input or output here, no clock but its own.

The pause doubles with each attempt, and the actual wait is random between zero and that ("full jitter"), so
that many clients do not return to a recovering service at once. `Retry-After` is a lower limit.
"""

from __future__ import annotations

import json
import random
import time
from typing import Any

from rankcast.client.answers import Message
from rankcast.client.calls import Answer, Request, message
from rankcast.errors import ServiceError

FIRST, LONGEST = 0.1, 15.0  # seconds: the first pause at most, and any
AGAIN = (429, 502, 503, 504)
GONE = 404
_CHANCE = random.SystemRandom()
_LONGEST_RETRY_AFTER = 300.0


class Attempts:
    """How many attempts failed, and how long to wait before the next one."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._count = 0
        self.lost = False  # whether an attempt may have been answered

    def pause(self, error: ServiceError, at_least: float = 0.0) -> float:
        """Seconds until the next attempt.

        Raises:
            ServiceError: `error`, if the time for retrying is over.
        """
        found = at_least + _CHANCE.uniform(0, min(LONGEST, FIRST * 2 ** min(self._count, 20)))
        self._count += 1
        if time.monotonic() + found > self._until:
            raise error
        return found

    def after(self, answer: Answer) -> float:
        """Seconds until the next attempt, after a refusal.

        Raises:
            ServiceError: retrying cannot help.
        """
        error = refusal(answer)
        if answer.status not in AGAIN:
            raise error
        return self.pause(error, retry_after(answer))

    def after_loss(self, error: Exception) -> float:
        """Seconds until the next attempt, after a connection failed or was lost."""
        self.lost = True
        return self.pause(unreachable(error))

    def finished(self, request: Request[Any], answer: Answer) -> bool:
        """Whether an answer is final; a 404 is, if an earlier attempt may already have deleted the target."""
        return answer.status // 100 == 2 or (request.ends and self.lost and answer.status == GONE)

    def succeeded(self, seconds: float) -> None:
        """Start counting again."""
        self._count, self._until = 0, time.monotonic() + seconds


def refusal(answer: Answer) -> ServiceError:
    """The error in an answer: `application/problem+json`, or the page of a proxy."""
    try:
        told = json.loads(answer.body)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return ServiceError("the service refused the call", status=answer.status)
    texts = {
        name: told[name]
        for name in ("detail", "column", "expected", "hint")
        if isinstance(told.get(name), str)
    }
    row = told.get("row")
    return ServiceError(
        str(told.get("title", "the service refused the call")),
        status=answer.status,
        row=row if isinstance(row, int) else None,
        **texts,
    )


def unreachable(error: Exception) -> ServiceError:
    """The error of a connection that failed or was lost."""
    return ServiceError(
        "the service cannot be reached",
        detail=f"{type(error).__name__}: {error}.",
        hint="Does it run? rankcast serve --data DIR",
    )


def retry_after(answer: Answer) -> float:
    """How many seconds a refusal asks to wait."""
    text = answer.headers.get("retry-after", "")
    return min(float(text), _LONGEST_RETRY_AFTER) if text.isdecimal() and len(text) < 10 else 0.0


class EventReader:
    """Reads server-sent events as their bytes arrive, and knows the last id, from which to continue."""

    _event: str
    _id: str | None
    _data: list[bytes]

    def __init__(self, after: int | None) -> None:
        self.last = None if after is None else str(after)
        self.begin()

    def begin(self) -> None:
        """Discard what a lost connection left unfinished."""
        self._rest: list[bytes] = []
        self._event, self._id, self._data = "message", None, []

    def headers(self) -> dict[str, str]:
        """The headers to send in order to continue."""
        return {} if self.last is None else {"Last-Event-ID": self.last}

    def feed(self, data: bytes) -> list[Message]:
        """The messages that these further bytes complete."""
        found: list[Message] = []
        first, *others = data.split(b"\n")
        self._rest.append(first)
        for rest in others:  # a long line in many parts is joined once
            self._take(b"".join(self._rest).removesuffix(b"\r"), found)
            self._rest = [rest]
        return found

    def _take(self, line: bytes, found: list[Message]) -> None:
        if not line:
            if self._id is not None:
                self.last = self._id
            if self._data:
                found.append(message(self._event, b"\n".join(self._data)))
            self._event, self._id, self._data = "message", None, []
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode()
        elif name == b"id":
            self._id = value.decode()
