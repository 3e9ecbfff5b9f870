"""Mistakes in a pipeline's file, each told with its place there: `pipeline.toml:12: [events] format ...`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from rankcast.errors import RankcastError, brief

Key = tuple[str, ...]

_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_QUOTES = ('"""', "'''")


LEAST_SECRET = 4  # characters: a shorter value is no secret, and would be found everywhere


class ConfigError(RankcastError):
    """A file that does not describe a pipeline: what is wrong, and where."""


class PipelineError(RankcastError):
    """A pipeline that could not start or go on, in Spark's own words."""


class Document:
    """The text of a file, for the places of its keys."""

    def __init__(self, path: Path, text: str = "") -> None:
        self.path = path
        self.hidden: dict[str, str] = {}
        self._lines = lines_of(text)

    def hide(self, value: str, word: str) -> None:
        """Let errors say a word instead of a value that may be a secret."""
        if len(value) >= LEAST_SECRET:
            self.hidden[value] = word

    def mistake(
        self,
        key: Key,
        what: str,
        *,
        expected: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
    ) -> ConfigError:
        """An error about a key, or about the table that should have it."""
        wanted = f", expected {expected}" if expected else ""
        return self.told(key, f"{named(key)}{what}{wanted}", detail=detail, hint=hint)

    def told(self, key: Key, what: str, *, detail: str | None = None, hint: str | None = None) -> ConfigError:
        """An error in somebody else's words, at the place of a key."""
        places = [key[:size] for size in range(len(key), 0, -1) if key[:size] in self._lines]
        where = f"{self.path}:{self._lines[places[0]]}" if places else str(self.path)
        detail, hint = (None if part is None else veiled(part, self.hidden) for part in (detail, hint))
        return ConfigError(f"{where}: {veiled(what, self.hidden)}", detail=detail, hint=hint)

    def unknown(self, key: Key, known: Iterable[str], *, word: str = "key") -> ConfigError:
        """An error about a key that is not among the known ones; points at the nearest of them."""
        return self._strange(key, f"is no {word} here", key[-1], known)

    def foreign(self, key: Key, value: str, known: Iterable[str], *, word: str) -> ConfigError:
        """An error about a value that is not among the known ones; points at the nearest of them."""
        return self._strange(key, f'is "{brief(value)}", which is no {word}', value, known)

    def _strange(self, key: Key, what: str, value: str, known: Iterable[str]) -> ConfigError:
        names = sorted(known)
        near = difflib.get_close_matches(value, names, n=1, cutoff=0.5)
        hint = f'Did you mean "{near[0]}"?' if near else None
        return self.mistake(key, what, expected=f"one of: {', '.join(names)}", hint=hint)


def veiled(text: str, hidden: Mapping[str, str]) -> str:
    """A text without the values that are hidden, each replaced by its word."""
    for value in sorted(hidden, key=len, reverse=True):
        text = text.replace(value, hidden[value])
    return text


def named(key: Key) -> str:
    """How a key is called in an error: `[events.text] column `; a key of no table `checkpoint `."""
    if not key:
        return ""
    return f"{key[0]} " if len(key) == 1 else f"[{'.'.join(key[:-1])}] {key[-1]} "


def lines_of(text: str) -> dict[Key, int]:
    r"""The line of each table and each key, from 1.

    >>> lines_of('[events]\nformat = "csv"\ntext.column = "body"')[("events", "text", "column")]
    3
    """
    found: dict[Key, int] = {}
    table: Key = ()
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        if inside:
            inside = "" if line.count(inside) % 2 else inside
            continue
        header, key = _HEADER.fullmatch(line), _KEY.match(line)
        if header:
            table = _parts(header[1])
            found.setdefault(table, number)
        elif key:
            found.setdefault((*table, *_parts(key[1])), number)
        inside = next((quotes for quotes in _QUOTES if line.count(quotes) % 2), "")
    return found


def _parts(text: str) -> Key:
    return tuple(part.strip("\"'") for part in _PART.findall(text))
