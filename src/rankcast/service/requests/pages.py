"""The files of the console, as `make console` built them; they come with the package and need no node.

Only names that the directory has are known, so no path from outside is ever opened.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from starlette.responses import Response

from rankcast.errors import shown
from rankcast.service.problems import Problem

HOME = Path(__file__).parents[1] / "console"
# Nothing inline, nothing from elsewhere: what came from outside can be shown, never run.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".ts": "text/plain; charset=utf-8",
}


@cache
def _files() -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in HOME.iterdir() if each.suffix in _MEDIA}


def response(name: str) -> Response:
    """A file of the console.

    Raises:
        Problem: 404, there is none of that name.
    """
    data = _files().get(name)
    if data is None:
        raise Problem(404, f"The console has no file {shown(name)}.")
    headers = {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
        "ETag": f'"{hashlib.blake2b(data, digest_size=8).hexdigest()}"',
    }
    return Response(data, headers=headers, media_type=_MEDIA[Path(name).suffix])
