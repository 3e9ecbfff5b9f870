"""The keys of a pipeline file: each must be known and have the right type, or it is reported.

Errors name the line: `pipeline.toml:12: [events] format ...`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from rankcast.errors import SHOWN, RankcastError, brief

Key = tuple[str, ...]

_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_QUOTES = ('"""', "'''")


LEAST_SECRET = 4  # characters: a shorter value is no secret, and would be found everywhere


class ConfigError(RankcastError):
    """A file that does not describe a pipeline: what is wrong, and where."""


class PipelineError(RankcastError):
    """A pipeline that could not start or continue, in Spark's own words."""


class Document:
    """The text of a file, to find the lines of its keys."""

    def __init__(self, path: Path, text: str = "") -> None:
        self.path = path
        self.hidden: dict[str, str] = {}
        self._lines = lines_of(text)

    def hide(self, value: str, word: str) -> None:
        """Replace a value that may be a secret by a word in errors."""
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
        """Another error, with the line of a key."""
        places = [key[:size] for size in range(len(key), 0, -1) if key[:size] in self._lines]
        where = f"{self.path}:{self._lines[places[0]]}" if places else str(self.path)
        detail, hint = (None if part is None else veiled(part, self.hidden) for part in (detail, hint))
        return ConfigError(f"{where}: {veiled(what, self.hidden)}", detail=detail, hint=hint)

    def unknown(self, key: Key, known: Iterable[str], *, word: str = "key") -> ConfigError:
        """An error about an unknown key; suggests the nearest known one."""
        return self._strange(key, f"is no {word} here", key[-1], known)

    def foreign(self, key: Key, value: str, known: Iterable[str], *, word: str) -> ConfigError:
        """An error about an unknown value; suggests the nearest known one."""
        return self._strange(key, f'is "{brief(value)}", which is no {word}', value, known)

    def _strange(self, key: Key, what: str, value: str, known: Iterable[str]) -> ConfigError:
        names = sorted(known)
        near = difflib.get_close_matches(value, names, n=1, cutoff=0.5)
        hint = f'Did you mean "{near[0]}"?' if near else None
        return self.mistake(key, what, expected=f"one of: {', '.join(names)}", hint=hint)


def veiled(text: str, hidden: Mapping[str, str]) -> str:
    """A text with hidden values replaced by their words."""
    for value in sorted(hidden, key=len, reverse=True):
        text = text.replace(value, hidden[value])
    return text


def named(key: Key) -> str:
    """The name of a key in an error: `[events.text] column `; a key without a table: `checkpoint `."""
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


_VARIABLE = re.compile(r"\$(\$?)\{([^{}]*)\}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(\w+)")
_UNITS = {"ms": 0.001, "millisecond": 0.001, "s": 1, "second": 1, "min": 60, "minute": 60, "h": 3600}
_UNITS |= {"hour": 3600, "d": 86_400, "day": 86_400, "week": 604_800}


class Table:
    """The keys of one table.

    Args:
        document: the file.
        key: the name of the table, empty for the file's own keys.
        values: what the file has there.
        known: the keys it may have; any for None.
    """

    def __init__(
        self, document: Document, key: Key, values: Mapping[str, Any], known: Iterable[str] | None = None
    ) -> None:
        self.document = document
        self.key = key
        self.values = values
        for name in values:
            if known is not None and name not in known:
                raise document.unknown((*key, name), known, word="key" if key else "key or table")

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def mistake(self, name: str, what: str, **more: Any) -> Exception:
        """An error about a key of this table."""
        return self.document.mistake((*self.key, name), what, **more)

    def need(self, name: str, expected: str) -> None:
        """Refuse a table without a key."""
        if name not in self.values:
            raise self.mistake(name, "is missing", expected=expected)

    def text(self, name: str) -> str | None:
        """A string."""
        found: str | None = self._typed(name, lambda value: isinstance(value, str) and value, "a string")
        return found

    def flag(self, name: str) -> bool | None:
        """True or false."""
        found: bool | None = self._typed(name, lambda value: isinstance(value, bool), "true or false")
        return found

    def whole(self, name: str) -> int | None:
        """A whole number from 1."""

        def fits(value: Any) -> bool:
            return isinstance(value, int) and not isinstance(value, bool) and value >= 1

        found: int | None = self._typed(name, fits, "a whole number from 1")
        return found

    def words(self, name: str) -> tuple[str, ...]:
        """A list of strings."""

        def fits(value: Any) -> bool:
            return isinstance(value, list) and all(isinstance(each, str) for each in value)

        return tuple(self._typed(name, fits, "a list of strings") or ())

    def one_of(self, name: str, known: Sequence[str]) -> str | None:
        """A word from a list."""
        value = self.text(name)
        if value is not None and value not in known:
            raise self.document.foreign((*self.key, name), value, known, word="word for it")
        return value

    def table(self, name: str, known: Iterable[str] | None = None) -> Table | None:
        """A table inside this one."""
        value = self._typed(name, lambda value: isinstance(value, dict), "a table")
        return None if value is None else Table(self.document, (*self.key, name), value, known)

    def strings(self, name: str) -> dict[str, str]:
        """A table of strings: options, columns. Numbers and booleans are written in Spark's form."""
        inner = self.table(name)
        return {} if inner is None else {each: inner.plain(each) for each in inner.values}

    def plain(self, name: str) -> str:
        """A string, a number or a boolean, as text."""
        value = self.values[name]
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            raise self.mistake(name, f"is a {_word(value)}", expected="a string, a number or true or false")
        return str(value)

    def place(self, name: str) -> str | None:
        """A path or a URI; a relative path starts at the folder of the file."""
        value = self.text(name)
        return None if value is None else place_of(value, self.document.path.parent)

    def duration(self, name: str) -> timedelta | None:
        """A time span: "5 seconds"."""
        value = self.text(name)
        if value is None:
            return None
        found = duration_of(value)
        if found is None:
            raise self.mistake(name, f'is "{value}"', expected='a span of time like "5 seconds"')
        return found

    def _typed(self, name: str, fits: Callable[[Any], Any], expected: str) -> Any:
        value = self.values.get(name)
        if value is not None and not fits(value):
            told = f'"{value}"' if isinstance(value, str) else f"{value!r}"
            told = told if len(told) <= SHOWN and not isinstance(value, dict) else f"a {_word(value)}"
            raise self.mistake(name, f"is {told}", expected=expected)
        return value


def _word(value: Any) -> str:
    words = {dict: "table", list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return words.get(type(value), type(value).__name__)


def place_of(text: str, folder: Path) -> str:
    """An absolute path, or a URI as it is."""
    return text if _SCHEME.match(text) else str((folder / text).absolute())


def local(place: str) -> Path | None:
    """The path of a place on this machine, None for any other."""
    if place.startswith("file:"):
        return Path("/" + place.removeprefix("file:").lstrip("/"))
    return None if _SCHEME.match(place) else Path(place)


def duration_of(text: str) -> timedelta | None:
    """A span of time; None if it is none.

    >>> duration_of("1.5 hours")
    datetime.timedelta(seconds=5400)
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        return None
    unit = found[2].lower()
    seconds = _UNITS.get(unit, _UNITS.get(unit.removesuffix("s")))
    return None if seconds is None else timedelta(seconds=float(found[1]) * seconds)


def filled(document: Document, key: Key, value: Any, environment: Mapping[str, str]) -> Any:
    """The same value with every `${NAME}` in its strings replaced; `$${NAME}` stays as `${NAME}`.

    The value of `${NAME}` in options, in Spark settings and in the token of a service may be a secret,
    and is hidden in errors.
    """
    if isinstance(value, dict):
        return {name: filled(document, (*key, name), each, environment) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(document, key, each, environment) for each in value]
    if not isinstance(value, str):
        return value

    def found(variable: re.Match[str]) -> str:
        escaped, name = variable[1], variable[2]
        if escaped:
            return f"${{{name}}}"
        if name not in environment:
            raise document.mistake(key, f"needs the environment variable {name}, which is not set")
        if key[:1] == ("spark",) or "options" in key or key == ("sink", "token"):
            document.hide(environment[name], f"${{{name}}}")
        return environment[name]

    return _VARIABLE.sub(found, value)
