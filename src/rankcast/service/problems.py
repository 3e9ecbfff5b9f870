"""Errors as a caller of the service sees them: `application/problem+json`, RFC 9457.

Every error of a handler becomes a `Problem`: errors of engines keep column, row, what was expected and
hint, those of the disk become 507 or 503, and anything unexpected is a 500 that contains only the
id of the request.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response

from rankcast.errors import InputError, JournalError, RankcastError, ShardError, SnapshotError, printable

MEDIA = "application/problem+json"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_DETAIL = 2000  # characters of a text that is told


class Problem(Exception):  # noqa: N818  # the word of the RFC
    """A refusal: a status, one sentence, and the other fields of RFC 9457 and the contract."""

    def __init__(
        self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = {name: value for name, value in more.items() if value is not None}

    def document(self) -> dict[str, Any]:
        """The problem as JSON."""
        title = HTTPStatus(self.status).phrase
        detail = printable(self.detail, _DETAIL, keep="\n")
        return {"type": "about:blank", "title": title, "status": self.status, "detail": detail, **self.more}

    def response(self) -> Response:
        """The problem as an answer."""
        body = orjson.dumps(self.document(), default=str)
        return Response(body, self.status, headers=self.headers, media_type=MEDIA)


def busy(detail: str, *, after: float = 1.0, status: int = 429) -> Problem:
    """Too much at once: try again later."""
    return Problem(status, detail, headers={"Retry-After": str(max(1, round(after)))})


def no_room() -> Problem:
    """The disk is full; reads continue."""
    return Problem(
        507,
        "There is no room on the disk of the service: nothing was written.",
        hint="Reads go on. Offer it again when there is room.",
    )


def is_full(error: BaseException) -> bool:
    """Whether an error, or what caused it, says that a disk is full."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _FULL:
            return True
        if "disk is full" in str(seen):
            return True
        seen = seen.__cause__
    return False


def problem_of(error: BaseException) -> Problem | None:
    """The problem for an error of the package; None: it is a bug."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, InputError):
        detail = error.what if not error.detail else f"{error.what}. {error.detail}"
        column, expected = (
            None if part is None else printable(part, _DETAIL) for part in (error.column, error.expected)
        )
        return Problem(400, detail, column=column, row=error.row, expected=expected, hint=error.hint)
    if is_full(error):
        return no_room()
    if isinstance(error, JournalError | ShardError | SnapshotError | OSError):
        return busy("The state of the stream cannot be reached at the moment.", after=5, status=503)
    if isinstance(error, RankcastError):
        return Problem(500, "The engine is in trouble.")
    return None
