"""What the files of a source hold, as far as a check looks: some files, and the first rows of each.

A check must answer at once, however large a folder is, so all of it is bounded: how many entries of folders
are listed, how many files are opened, and how much of each is read.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from rankcast.pipeline.tables import local

ENTRIES = 10_000  # of folders
FILES = 20
ROWS = 200  # of each file
BYTES = 1 << 20
_PACKED = (".gz", ".bz2", ".zst", ".zstd", ".lz4", ".snappy", ".deflate", ".xz")


class Sample(NamedTuple):
    """Files at a place, in order: those to look into, and whether there are more."""

    files: list[Path]
    more: bool


def files_at(place: str) -> Sample | None:
    """Some files that Spark would read at a place, which may be a pattern; None if it is not on this machine.

    Cost: at most `ENTRIES` entries are listed, and sorted.
    """
    path = local(place)
    if path is None:
        return None
    listed = list(islice(_files(path), ENTRIES + 1))
    found = sorted(each for each in listed if each is not None)
    return Sample(found[:FILES], len(found) > FILES or len(listed) > ENTRIES)


def _files(path: Path) -> Iterator[Path | None]:
    """Files at a path, in no order; None for an entry that is a folder, or that Spark takes for hidden."""
    if path.is_file():
        yield path
    elif any(sign in str(path) for sign in "*?["):
        anchor = Path(path.anchor)
        for found in anchor.glob(str(path.relative_to(anchor))):
            yield from _files(found)
    elif path.is_dir():
        yield from _inside(path)


def _inside(folder: Path) -> Iterator[Path | None]:
    with os.scandir(folder) as entries:
        for entry in entries:
            hidden = entry.name.startswith(("_", "."))
            yield None if hidden or not entry.is_file() else Path(entry.path)
            if not hidden and entry.is_dir(follow_symlinks=False):
                yield from _inside(Path(entry.path))


def is_packed(path: Path) -> bool:
    """Whether a file is compressed as a whole, and not looked into."""
    return path.suffix in _PACKED


def lines_of(path: Path) -> list[str]:
    """The first lines of a text that are not blank, whole ones only."""
    with path.open("rb") as file:
        data = file.read(BYTES)
    text = data.decode(errors="replace")
    lines = text.split("\n")
    if len(data) == BYTES:
        lines = lines[:-1]
    return [line for line in islice(lines, ROWS) if line.strip()]


def json_rows(lines: list[str]) -> list[dict[str, Any]]:
    """The JSON objects among lines."""
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def csv_rows(lines: list[str], separator: str) -> Iterator[list[str]]:
    """The values of lines; none if they are separated by more than one character."""
    return csv.reader(lines, delimiter=separator) if len(separator) == 1 else iter(())
