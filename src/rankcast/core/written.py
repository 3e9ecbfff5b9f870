"""An engine as a line of Python: what `repr` shows, to read and to paste."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

ALWAYS = ("over", "by", "k")  # shown also where they are the defaults


def call(engine: Any, settings: Mapping[str, Any]) -> str:
    """The call that makes an empty engine with these settings, which are those that its state holds.

    Defaults are left out. What cannot be written (a function, a vocabulary, a
    graph of roads: a state has only its name or digest) appears as the name of its setting.
    """
    known = inspect.signature(type(engine)).parameters
    shown = []
    for name, value in settings.items():
        default = known[name].default if name in known else inspect.Parameter.empty
        annotation = str(known[name].annotation) if name in known else ""
        if value is None or (_is_default(value, default) and name not in ALWAYS):
            continue
        shown.append(f"{name}={_value(engine, name, value, annotation)}")
    return f"{type(engine).__name__}({', '.join(shown)})"


def counts(**numbers: int) -> str:
    """Numbers of things, as in "1 subscription, 2,000 items"."""
    return ", ".join(f"{number:,} {name[: -1 if number == 1 else None]}" for name, number in numbers.items())


def _is_default(value: Any, default: Any) -> bool:
    """Whether a setting, as a state holds it, is the default."""
    if value in ({}, []):
        return True
    if isinstance(value, Mapping):  # one for all attributes, as `prefer` of a skyline
        return isinstance(default, str) and set(value.values()) == {default}
    return bool(value == default)


def _value(engine: Any, name: str, value: Any, annotation: str) -> str:
    """A setting as it is written in a call."""
    if isinstance(value, str) and ("str" not in annotation or value == "function"):
        return name
    if isinstance(getattr(type(engine), name, None), property):
        return repr(getattr(engine, name))  # the very object that was given, as a score
    if isinstance(value, Mapping) and set(value) == {"microseconds"}:
        return repr(timedelta(**value))
    return repr(value[0] if name == "over" and len(value) == 1 else value)
