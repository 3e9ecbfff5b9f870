"""What every kernel has from `rankcast.kernels.options`."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels import covering_kdtree
from rankcast.kernels.options import EXACT

ANEW = {**EXACT, "cache": False}


@njit(**ANEW)  # type: ignore[untyped-decorator]
def _callee(value: int, after: tuple[int, bool]) -> int:
    return value + after[0] if after[1] else value


@njit(**ANEW)  # type: ignore[untyped-decorator]
def _caller(numbers: NDArray[np.int32]) -> int:
    total = 0
    for number in numbers:
        total = _callee(total, (1, True))
        total = _callee(value=number, after=(total, number > 3))
    return total + int(_callee(0, (total, False)))


def test_a_callee_is_compiled_once_for_constants_and_all_widths() -> None:
    assert _caller(np.array([3, 4, -(2**31)], np.int32)) == -(2**31)
    assert len(_callee.signatures) == 1


def test_python_does_not_call_what_only_kernels_call() -> None:
    with pytest.raises(TypeError, match="_hash is called by other kernels alone"):
        covering_kdtree._hash(1)
