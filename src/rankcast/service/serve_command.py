"""`rankcast serve`: start the service, or check its settings."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any

from rankcast.errors import SettingError, required

_FLAGS: dict[str, type] = {"data": Path, "host": str, "port": int, "max_body": int, "log_level": str}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE.toml", help="settings; the environment and flags override them"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="the directory that holds all state")
    parser.add_argument("--host", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="the port to listen on (8765)")
    parser.add_argument("--max-body", type=int, metavar="BYTES", help="largest request body (64 MiB)")
    parser.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], help="least severe level to log (info)"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting")
    parser.add_argument("--check", action="store_true", help="check the settings, print them, and exit")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until somebody stops it."""
    required("uvicorn", "serve")
    required("pydantic_settings", "serve", needs="pydantic-settings")
    from rankcast.service import settings as reading  # noqa: PLC0415

    flags: dict[str, Any] = {name: getattr(arguments, name) for name in _FLAGS}
    for each in arguments.set:
        name, equals, value = each.partition("=")
        if not equals:
            raise SettingError(f"--set is {each}", expected="NAME=VALUE")
        flags[name] = value
    settings = reading.read(arguments.config, flags)
    from rankcast.service.operating.tokens import Tokens  # noqa: PLC0415
    from rankcast.service.streams import engines  # noqa: PLC0415

    engines.admit(settings.engines)
    if not settings.is_loopback and not Tokens(settings.data).all():
        raise SettingError(
            f"host is {settings.host}, and there is no token",
            detail="Without a token anybody who can connect could do anything.",
            hint="Make one first: rankcast token add NAME --data DIR --scope admin.",
        )
    if arguments.check:
        sys.stdout.write(settings.model_dump_json(indent=1) + "\n")
        return 0
    from rankcast.service.server import serve  # noqa: PLC0415

    return serve(settings)


class JsonLines(logging.Formatter):
    """A line of JSON for each record: nothing in it can break the line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        told: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "from": record.name,
            "text": record.getMessage(),
        }
        for name in ("status", "ms", "request"):
            if hasattr(record, name):
                told[name] = getattr(record, name)
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return json.dumps(told)
