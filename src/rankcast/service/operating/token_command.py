"""`rankcast token`: make, list and revoke tokens of a data directory. A running service notices at once."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rankcast.core import snapshot
from rankcast.errors import InputError, required


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="create a token; it is printed once")
    add.add_argument("name")
    add.add_argument(
        "--scope", action="append", required=True, help="read, publish, subscribe or admin; may be repeated"
    )
    add.add_argument("--stream", action="append", default=[], help="only for this stream; may be repeated")
    add.add_argument("--expires-in", type=float, metavar="SECONDS")
    add.set_defaults(run=_add)
    listed = actions.add_parser("list", help="show names, scopes, streams and expiry times")
    listed.set_defaults(run=_list)
    revoke = actions.add_parser("revoke", help="revoke a token")
    revoke.add_argument("name")
    revoke.set_defaults(run=_revoke)
    for each in (add, listed, revoke):
        each.add_argument(
            "--data", type=Path, required=True, metavar="DIR", help="the directory of the service"
        )


def _add(arguments: argparse.Namespace) -> int:
    required("starlette", "serve")
    from rankcast.service.operating.tokens import Tokens  # noqa: PLC0415
    from rankcast.service.streams.directory import NAME  # noqa: PLC0415

    for stream in arguments.stream:
        if not NAME.fullmatch(stream):
            raise InputError(f"--stream is {stream}", expected="the name of a stream")
    snapshot.make_directory(arguments.data)
    tokens = Tokens(arguments.data)
    made = tokens.add(arguments.name, arguments.scope, arguments.stream, arguments.expires_in)
    sys.stdout.write(f"{made}\n")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    required("starlette", "serve")
    from rankcast.service.operating.tokens import Tokens  # noqa: PLC0415

    for token in Tokens(arguments.data).all().values():
        streams = ", ".join(token.streams) or "all streams"
        left = "" if token.expires is None else f", {max(0, token.expires - time.time()):.0f} s left"
        sys.stdout.write(f"{token.name}: {', '.join(token.scopes)}; {streams}{left}\n")
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    required("starlette", "serve")
    from rankcast.service.operating.tokens import Tokens  # noqa: PLC0415

    Tokens(arguments.data).revoke(arguments.name)
    return 0
