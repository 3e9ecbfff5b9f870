"""Errors that say what is wrong, where, what was expected and what to do.

Every error of the package is a `RankcastError`. Its text has one to three lines: what happened, then
`Detail:` and `Hint:` if there is something to add. The parts are also attributes, so that a
runtime can report a refused row without parsing text. All errors can be pickled, because Spark ships
exceptions between processes.

Text from outside (ids, names, values) never reaches a terminal unchanged: in every part of every error,
unprintable characters are escaped, and `shown` and `brief` cut long values.
"""

from __future__ import annotations

import difflib
import importlib
import reprlib
from collections.abc import Iterable
from typing import Any, Self

SHOWN = 60  # characters of a value that is quoted in a message


def plain(text: str, keep: str = "") -> str:
    r"""A text with unprintable characters (controls, bidi marks, lone surrogates) escaped.

    Characters in `keep` stay. Cost: one scan if there is nothing to escape.

    >>> plain("a\x1b[31mb"), plain("two\nlines", keep="\n") == "two\nlines"
    ('a\\x1b[31mb', True)
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode()
        for each in text
    )


def brief(text: str) -> str:
    """A text for use inside a message: printable, and at most `SHOWN` characters."""
    return printable(text, SHOWN)


_NAME, _PART, _WHOLE = 80, 450, 1950  # characters that a name, a part of a text and all of it have at most
_NEAR = 2000  # names among which the nearest one is looked for
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = SHOWN


def shown(value: object) -> str:
    """Any value as an error may show it: about 60 printable characters.

    >>> shown("[/]"), shown(7), len(shown("a" * 100))
    ("'[/]'", '7', 60)
    """
    try:
        text = _SHORT.repr(value)
    except Exception:  # of a foreign `__repr__`, or an integer that is too long for text
        text = f"a {type(value).__name__}"
    return printable(text, SHOWN)


def printable(text: str, most: int = _NAME, keep: str = "") -> str:
    """A text with unprintable characters escaped (except those in `keep`), cut if it is too long."""
    if len(text) <= most and text.isprintable():
        return text
    told = plain(text[: most + 1], keep)
    return told if len(told) <= most else f"{told[: most - 3]}..."


def _part(text: str | None) -> str:
    """A part of an error's text."""
    return printable(text, _PART, keep="\n") if text else ""


def _lines(what: str, detail: str | None, hint: str | None) -> str:
    """Join the parts of an error into its text."""
    parts = [what, f"Detail: {detail}" if detail else "", f"Hint: {hint}" if hint else ""]
    return "\n".join(part for part in parts if part)


class RankcastError(Exception):
    """The base class of every error that this package raises on purpose.

    >>> print(RankcastError("the disk is full", hint="Make room, then call again."))
    the disk is full
    Hint: Make room, then call again.
    """

    def __init__(self, what: str, *, detail: str | None = None, hint: str | None = None) -> None:
        what = plain(what)
        detail, hint = (None if part is None else plain(part) for part in (detail, hint))
        super().__init__(_lines(what, detail, hint))
        self.what = what
        self.detail = detail
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.args), self.__dict__


def _rebuilt(kind: type[RankcastError], told: tuple[object, ...]) -> RankcastError:
    """An error from its text; pickle restores its parts."""
    return kind.__new__(kind, *told)


class InputError(RankcastError, ValueError):
    """Rows or arguments that cannot be accepted; the call that raised it has changed nothing.

    Args:
        what: what is wrong, as a predicate of the column if there is one ("is null", "has 3 dimensions").
        where: the table or call, for example "subscriptions".
        column: the bad column.
        row: the first bad row, counted from 0.
        expected: what would be accepted.
        detail: a sentence that explains why.
        hint: what to do.

    >>> print(InputError("is NaN", where="events", column="y", row=17, expected="a finite number"))
    column "y" of "events" is NaN, expected a finite number
    Detail: First such row: 17.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        column: str | None = None,
        row: int | None = None,
        expected: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        given = f'"{printable(where, _PART)}"' if where else ""
        name = None if column is None else f'column "{printable(column)}"'
        subject = (f"{name} of {given} " if given else f"{name} ") if name else f"{given}: " if given else ""
        wanted = f", expected {_part(expected)}" if expected else ""
        first = f"First such row: {row}." if row is not None else ""
        told = " ".join(part for part in (_part(detail), first) if part)
        alone = not (subject or wanted or told or hint)  # as when it is unpickled: then it is the whole text
        text = printable(f"{subject}{what}", _WHOLE if alone else _PART, keep="\n")
        super().__init__(f"{text}{wanted}", detail=told or None, hint=_part(hint) or None)
        self.predicate = what
        self.where = where
        self.column = column
        self.row = row
        self.expected = expected
        self.detail = None if detail is None else plain(detail)

    def at(self, row: int) -> InputError:
        """The same error for another row, for callers that checked only some rows of a table."""
        return InputError(
            self.predicate,
            where=self.where,
            column=self.column,
            row=row,
            expected=self.expected,
            detail=self.detail,
            hint=self.hint,
        )

    @classmethod
    def unknown(cls, key: object, known: Iterable[str], *, where: str, word: str = "key") -> Self:
        """The error for an unknown name; it suggests the nearest known one."""
        names, name = sorted(known), printable(str(key))
        near = difflib.get_close_matches(name, names[:_NEAR], n=1, cutoff=0.5)
        found = cls(
            f'unknown {word} "{name}"',
            where=where,
            expected=f"one of: {', '.join(names)}" if names else f"no {word} at all",
            hint=f'Did you mean "{near[0]}"?' if near else None,
        )
        if word == "column":
            found.column = name
        return found


class SettingError(InputError):
    """A setting of an engine that cannot be accepted.

    >>> print(SettingError.unknown("leaf_sise", ["leaf_size", "universe"], where="tuning"))
    "tuning": unknown key "leaf_sise", expected one of: leaf_size, universe
    Hint: Did you mean "leaf_size"?
    """


class InterruptedEngineError(RankcastError):
    """An engine whose change was interrupted halfway, or ran out of memory; it must not be used any more.

    >>> print(InterruptedEngineError("MemoryError"))
    the engine was interrupted: load it again
    Detail: A call ended in the middle of its change: MemoryError.
    Hint: Load the last snapshot; a Shard recovers by itself.
    """

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(
            "the engine was interrupted: load it again",
            detail=f"A call ended in the middle of its change{f': {reason}' if reason else ''}.",
            hint="Load the last snapshot; a Shard recovers by itself.",
        )
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return InterruptedEngineError, (self.reason,)


class NestedCallError(RankcastError, RuntimeError):
    """A function that an engine calls has called the same engine; the call has changed nothing.

    >>> print(NestedCallError("publish"))
    publish: the engine is inside another call
    Hint: Call it after that call has returned: not in a score, among commands, or from a signal handler.
    """

    def __init__(self, call: str) -> None:
        super().__init__(
            f"{call}: the engine is inside another call",
            hint="Call it after that call has returned: not in a score, among commands, or from a signal "
            "handler.",
        )
        self.call = call

    def __reduce__(self) -> tuple[object, ...]:
        return NestedCallError, (self.call,)


class FunctionError(InputError):
    """A user's function that returned NaN or something other than numbers; the call has changed nothing."""


class SnapshotError(RankcastError):
    """A snapshot that is damaged, truncated, foreign, or of an unknown format.

    >>> print(SnapshotError("there is no snapshot at stocks"))
    there is no snapshot at stocks
    """


class JournalError(RankcastError):
    """A journal that is damaged, foreign, of an unknown format, or that could not be written."""


class ShardError(RankcastError):
    """A shard that cannot be used: held by another process, closed, or made for another engine."""


class StaleTokenError(RankcastError):
    """A batch was offered after a token that is not the shard's; the shard has changed nothing."""


class ServiceError(RankcastError):
    """A call that the service refused, or that got no answer (then `status` is None).

    >>> print(ServiceError("Bad Request", status=400, detail='column "y" is NaN', hint="Leave it out."))
    Bad Request (400)
    Detail: column "y" is NaN
    Hint: Leave it out.
    """

    def __init__(
        self,
        title: str,
        *,
        status: int | None = None,
        detail: str | None = None,
        column: str | None = None,
        row: int | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        title = printable(title)
        told = (None if part is None else _part(part) for part in (detail, hint))
        detail, hint = told
        super().__init__(title if status is None else f"{title} ({status})", detail=detail, hint=hint)
        self.status = status
        self.title = title
        self.column = column
        self.row = row
        self.expected = expected


class MissingExtraError(RankcastError, ImportError):
    """An optional part of the package needs something that is not installed.

    >>> print(MissingExtraError("plot", needs="matplotlib"))
    this needs matplotlib, which is not installed
    Hint: pip install "rankcast[plot]"
    """

    def __init__(self, extra: str, *, needs: str | None = None) -> None:
        told = f"this needs {needs or f'the extra {extra}'}, which is not installed"
        super().__init__(told, hint=f'pip install "rankcast[{extra}]"')
        self.extra = extra
        self.needs = needs

    def __reduce__(self) -> tuple[object, ...]:
        return _missing_extra, (self.extra, self.needs)


def required(module: str, extra: str, *, needs: str | None = None) -> Any:
    """Import a module that comes with an extra.

    Raises:
        MissingExtraError: it is not installed; the error names its package, or what `needs` says.
    """
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise MissingExtraError(extra, needs=needs or module.partition(".")[0]) from missing


def _missing_extra(extra: str, needs: str | None) -> MissingExtraError:
    """Rebuild a `MissingExtraError` from its parts."""
    return MissingExtraError(extra, needs=needs)
