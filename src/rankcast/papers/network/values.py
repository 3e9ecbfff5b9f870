"""Checks of single values in the file of an experiment: each returns the value in its plain form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from rankcast.errors import SettingError, shown
from rankcast.papers.network.traffic import Method, method
from rankcast.tables import schema

MOST = 2**31 - 1

Check: TypeAlias = Callable[[str, Any], Any]


def word(known: tuple[str, ...]) -> Check:
    """A word from a list."""
    return lambda name, value: schema.one_of(name, value, known)


def count(least: int = 1) -> Check:
    """A whole number from `least`."""
    return lambda name, value: whole(name, value, least)


def whole(name: str, value: Any, least: int = 1) -> int:
    """A whole number of at most 31 bits; one that is too large is told so."""
    if isinstance(value, int) and value > MOST:
        raise SettingError(f"{name} is {value}", expected=f"a whole number from {least} to {MOST}")
    return schema.whole(name, value, least=least)


def seed(name: str, value: Any) -> int:
    """Any whole number from 0, as generators take it."""
    if isinstance(value, int) and value > MOST:
        return value
    return schema.whole(name, value, least=0)


def limit(name: str, value: Any) -> int | None:
    """A whole number, or none."""
    return None if value is None else whole(name, value)


def share(name: str, value: Any) -> float:
    """A share below 1."""
    share = schema.number(name, value, low=0, high=1)
    if share == 1:
        raise SettingError(
            f"{name} is {value}", expected="a share below 1, so that somebody is there to tell"
        )
    return share


def names(name: str, value: Any) -> list[str]:
    """Names of attributes, perhaps none."""
    return [] if value == [] else schema.attributes(name, value, reserved=("id", "y"))


def counts(name: str, value: Any) -> list[int]:
    """One whole number or several, in rising order, each once."""
    given = value if isinstance(value, list) else [value]
    if not given:
        raise SettingError(f"{name} is empty", expected="a whole number, or several")
    return sorted({whole(name, each) for each in given})


def methods(name: str, value: Any) -> list[Method]:
    """One method or several, each once."""
    given = value if isinstance(value, list) else [value]
    if not given or not all(isinstance(each, str) for each in given):
        raise SettingError(f"{name} is {shown(value)}", expected="names of methods")
    return [method(each) for each in dict.fromkeys(given)]


def path(name: str, value: Any) -> Path:
    """A directory."""
    if not isinstance(value, str) or not value:
        raise SettingError(f"{name} is {shown(value)}", expected="a directory")
    return Path(value)
