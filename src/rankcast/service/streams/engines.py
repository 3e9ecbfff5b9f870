"""An engine from what a caller sends: a name and settings, as JSON.

Names are those of the package and of the engines that the operator registered; never `module:name`. A setting
that a file would write as a function or as a path is refused: neither comes from the network.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from rankcast.core.engine import Engine
from rankcast.core.spec import Setting, engine_type, known_names, register
from rankcast.errors import InputError, SettingError, shown
from rankcast.pipeline.toml_reader import duration_of
from rankcast.service.streams import external

_PLAIN = Setting()


def admit(names: Iterable[str]) -> None:
    """Let callers use engines of the operator's own, given as `module:Class`."""
    for name in names:
        register(engine_type(name))


def make(name: Any, settings: Any) -> Engine:
    """The engine of a name with settings.

    Raises:
        InputError: there is none, or a setting cannot be accepted.
    """
    names = (*known_names(), external.NAME)
    if not isinstance(name, str) or name not in names:
        raise InputError.unknown(name, names, where="engine", word="engine")
    if not isinstance(settings, dict):
        raise SettingError(f"settings are {shown(settings)}", expected="an object")
    cls = external.External if name == external.NAME else engine_type(name)
    known = [each for each in inspect.signature(cls).parameters if each != "self"]
    for key in settings:
        if key not in known:
            raise SettingError.unknown(key, known, where="settings", word="setting")
    given = {key: _given(key, value, cls.spec.settings.get(key, _PLAIN)) for key, value in settings.items()}
    try:
        return cls(**given)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise SettingError(f"settings do not make a {name}", detail=f"{error}.") from error


def _given(key: str, value: Any, setting: Setting) -> Any:
    """A setting as the class takes it."""
    if setting.duration and isinstance(value, str):
        span = duration_of(value)
        if span is None:
            raise SettingError(f"{key} is {shown(value)}", expected='a span of time, as "1.5 hours"')
        return span
    if setting.choices is not None and isinstance(value, dict):
        return _chosen(key, value, setting)
    if setting.function and value is not None:
        raise SettingError(
            f"{key} is {shown(value)}", expected="an object with a name, as in a pipeline's file"
        )
    if (setting.documents is not None or setting.joined is not None) and value is not None:
        raise SettingError(f"{key} cannot be set over the network")
    return value


def _chosen(key: str, value: Mapping[str, Any], setting: Setting) -> Any:
    """A setting that an object names, with arguments."""
    choices = {} if setting.choices is None else setting.choices()
    name = value.get("name")
    if not isinstance(name, str) or name not in choices:
        raise SettingError.unknown(name, choices, where=key, word="name")
    for each in value:
        if each not in ("name", *setting.arguments):
            raise SettingError.unknown(each, ("name", *setting.arguments), where=key)
    first, *others = setting.arguments
    try:
        return choices[name](value.get(first), **{each: value[each] for each in others if each in value})
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise SettingError(f"{key} makes no {name}", detail=f"{error}.") from error
