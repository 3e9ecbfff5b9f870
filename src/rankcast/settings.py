"""Checks of engine settings: each returns the setting in its plain form or raises `SettingError`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from rankcast.errors import SettingError, shown

MOST = 2**31 - 1  # the largest whole number that a setting takes


def one_of(name: str, value: object, known: Iterable[str], *, later: Iterable[str] = ()) -> str:
    """A word from a list; `later` are words of the contract whose algorithm is not there yet."""
    known, later = list(known), list(later)
    if isinstance(value, str) and value in later:
        raise SettingError(f'{name}="{value}" is not available yet', expected=f"one of: {', '.join(known)}")
    if not isinstance(value, str) or value not in known:
        told = value if isinstance(value, str) else shown(value)
        raise SettingError.unknown(told, known, where=name, word="value")
    return str(value)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number, Python's or NumPy's; truths and spans of time are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number, Python's or NumPy's."""
    return is_whole(value) or isinstance(value, float | np.floating)


def whole(name: str, value: object, *, least: int = 1, most: int = MOST) -> int:
    """A whole number from `least` to `most`, NumPy's as well."""
    if not is_whole(value) or not least <= int(value) <= most:
        raise SettingError(f"{name} is {shown(value)}", expected=f"a whole number from {least} to {most}")
    return int(value)


def ceiling(name: str, value: object, of: str, least: int) -> int | None:
    """What another setting, which is `least`, and its like in rows may not exceed; None: nothing."""
    if value is None:
        return None
    most = whole(name, value)
    if least > most:
        raise SettingError(f"{of} is {least}", expected=f"at most {name}, which is {most}")
    return most


def threads(value: object) -> int:
    """A number of threads; None: as many as the cores that this process may use."""
    if value is not None:
        return whole("threads", value)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def number(name: str, value: object, *, low: float, high: float, above: bool = False) -> float:
    """A number in [low, high], or in (low, high] with `above`; NumPy's as well."""
    if not is_number(value) or not (low < value if above else low <= value) or not value <= high:
        bracket = "(" if above else "["
        raise SettingError(f"{name} is {shown(value)}", expected=f"a number in {bracket}{low:g}, {high:g}]")
    return float(value)


def attributes(
    name: str, value: object, *, least: int = 1, most: int | None = None, reserved: Iterable[str] = ("id",)
) -> list[str]:
    """Names of attributes: one string or a sequence of distinct ones that are no column of ours."""
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Sequence) else None
    if names is None or not all(isinstance(each, str) and each for each in names):
        raise SettingError(f"{name} is {shown(value)}", expected="a name or a list of names")
    names = list(map(str, names))
    if not all(map(_is_text, names)):
        raise SettingError(f"{name} is {shown(value)}", expected="names of valid Unicode")
    if len(names) < least or (most is not None and len(names) > most):
        limit = f"{least} to {most}" if most is not None else f"at least {least}"
        raise SettingError(f"{name} names {len(names)} attributes", expected=limit)
    if len(set(names)) < len(names):
        raise SettingError(f"{name} names an attribute twice: {shown(names)}", expected="distinct names")
    for each in reserved:
        if each in names:
            raise SettingError(
                f'{name} names "{each}", which is a column of its own', expected="another name"
            )
    return names


def _is_text(name: str) -> bool:
    """Whether a name can be written down: there is no lone surrogate in it."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def tuning(value: Mapping[str, Any] | None, known: Mapping[str, Any]) -> dict[str, Any]:
    """The tuning that was given, as JSON can hold it; `known` holds every key with its default."""
    if value is not None and not isinstance(value, Mapping):
        raise SettingError(f"tuning is {shown(value)}", expected="a dict")
    given = {key: plain(each) for key, each in (value or {}).items()}
    for key in given:
        if key not in known:
            raise SettingError.unknown(key, known, where="tuning")
    return given


def plain(value: Any) -> Any:
    """A setting without NumPy: its scalars and arrays as Python's own."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
