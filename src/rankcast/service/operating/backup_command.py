"""`rankcast backup` and `rankcast restore`: copies of the data of a service, which may be running."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rankcast.errors import required


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of both; the first word tells which it is."""
    if parser.prog.endswith("restore"):
        parser.add_argument("file", type=Path, metavar="FILE", help="a backup")
        parser.add_argument("data", type=Path, metavar="DIR", help="a new or empty directory")
        parser.set_defaults(run=_restore)
    else:
        parser.add_argument("data", type=Path, metavar="DIR", help="the directory of the service")
        parser.add_argument("file", type=Path, metavar="FILE", help="where to write the backup")
        parser.set_defaults(run=_backup)


def _backup(arguments: argparse.Namespace) -> int:
    required("starlette", "serve")
    from rankcast.service.operating.backup import backup  # noqa: PLC0415

    count = backup(arguments.data, arguments.file)
    sys.stdout.write(f"{count} streams are in {arguments.file}\n")
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    required("starlette", "serve")
    from rankcast.service.operating.backup import restore  # noqa: PLC0415

    count = restore(arguments.file, arguments.data)
    sys.stdout.write(f"{count} streams are in {arguments.data}\n")
    return 0
