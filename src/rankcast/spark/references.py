"""A scoring function by name: `module:name`, imported wherever it is needed, never shipped as code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from rankcast.errors import InputError, SettingError, shown
from rankcast.moving.scoring import Function, as_score
from rankcast.tables.schema import Floats

LARGEST = 1e300


@dataclass(frozen=True)
class Bounded:
    """A function of one's own with `LARGEST` where it gives no finite number.

    An engine refuses an object that has no finite score from the place of one of its queries. Objects go to
    every shard, queries to one each: shards would not agree on which objects there are.
    """

    f: Any

    def __call__(self, attributes: Floats, distance: Floats) -> Any:
        """The scores of objects."""
        found = np.asarray(self.f(attributes, distance))
        if found.dtype.kind != "f":
            return found
        return np.clip(np.nan_to_num(found, nan=LARGEST), -LARGEST, LARGEST)


def resolve(reference: str) -> Any:
    """What `module:name` refers to; a name may have dots.

    Raises:
        InputError: there is no such module or name here.
    """
    module, names = parts(reference)
    try:
        found: Any = import_module(module)
        for part in names:
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"score {shown(reference)} cannot be imported",
            detail=f"{error}.",
            hint="The module must be installed, or on the Python path, of the driver and of every executor.",
        ) from error
    return found


def parts(reference: str) -> tuple[str, list[str]]:
    """The module and the names of `module:name`; nothing is imported.

    Raises:
        InputError: it is no such text.
    """
    module, colon, name = reference.partition(":")
    if not colon or not module or not name:
        raise InputError(f"score is {shown(reference)}", expected='"module:name"')
    return module, name.split(".")


def given_of(reference: str | None) -> dict[str, Any]:
    """What an engine must be given beside its snapshot; functions bounded."""
    if reference is None:
        return {}
    score = as_score(resolve(reference))
    return {"score": replace(score, f=Bounded(score.f)) if isinstance(score, Function) else score}


def reference_of(score: Any, given: str | None) -> str | None:
    """The name under which executors find the score of an engine; None if they need none.

    Args:
        score: what the engine scores with.
        given: the name, if the user gave one.
    """
    if not isinstance(score, Function):
        if given is not None:
            raise SettingError(
                "score names a function, but the engine has a score of rankcast.moving.scoring"
            )
        return None
    name = given or _own_name(score.f)
    if name is None:
        raise SettingError(
            "the engine's score is a function that executors cannot import",
            hint='Put it into a module and pass score="module:name".',
        )
    found = as_score(resolve(name))
    if found.as_json() != score.as_json():
        raise SettingError(f"score {name!r} is {found.as_json()}, the engine has {score.as_json()}")
    return name


def _own_name(f: Any) -> str | None:
    """The name of a function at the top of an importable module."""
    module, name = getattr(f, "__module__", None), getattr(f, "__qualname__", "<")
    if module in (None, "__main__", "builtins") or "<" in name:
        return None
    try:
        return f"{module}:{name}" if resolve(f"{module}:{name}") is f else None
    except InputError:
        return None
