"""Calling a function of the user's own and checking what it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rankcast.errors import FunctionError
from rankcast.tables.schema import Floats


def own_numbers(name: str, call: Callable[[], Any], size: int) -> Floats:
    """What a function of one's own gives for so many objects, if it gives a number for each.

    Raises:
        FunctionError: it gives something else, or raises.
    """
    try:
        found = np.asarray(call())
        if found.shape == (size,) and found.dtype.kind in "fiu":
            return found.astype(np.float64)
    except Exception as error:
        raise FunctionError(f"raised {type(error).__name__}: {error}", where=name) from error
    what = f"returned {found.dtype} of shape {found.shape} for {size} objects"
    raise FunctionError(what, where=name, expected=f"numbers of shape ({size},)")


def no_nan(name: str, scores: Floats) -> Floats:
    """The same scores, of objects that were found to have some before, if none is NaN."""
    if np.isnan(scores).any():
        raise FunctionError(f"is NaN for {int(np.isnan(scores).sum())} of {scores.size} objects", where=name)
    return scores
