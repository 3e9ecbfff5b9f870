"""What every kernel has from `rankcast.structures.jit` and its options."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.compiler import Flags
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

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


def test_what_only_kernels_call_has_no_machine_code_until_python_calls() -> None:
    @njit(**ANEW)  # type: ignore[untyped-decorator]
    def callee(value: float) -> float:
        return value + 1.0

    @njit(**ANEW)  # type: ignore[untyped-decorator]
    def caller(value: float) -> float:
        return float(callee(value)) * 2.0

    def forms(kernel: Any) -> list[bool]:
        return [form.library.is_ready for form in kernel.overloads.values()]

    assert caller(1.0) == 4.0
    assert (forms(caller), forms(callee)) == ([True], [False])
    assert callee(1.0) == 2.0
    assert forms(callee) == [True]
    assert caller(2.0) == 6.0


def test_an_error_in_a_callee_comes_out_as_it_was_raised() -> None:
    @njit(**ANEW)  # type: ignore[untyped-decorator]
    def callee(numbers: NDArray[np.int64]) -> None:
        raise ValueError("too many", numbers.size)

    @njit(**ANEW)  # type: ignore[untyped-decorator]
    def caller(numbers: NDArray[np.int64]) -> None:
        callee(numbers)

    with pytest.raises(ValueError, match=r"too many.*3"):
        caller(np.zeros(3, np.int64))


def test_an_array_that_does_not_fit_its_slice_is_refused() -> None:
    @njit(**ANEW)  # type: ignore[untyped-decorator]
    def place(numbers: NDArray[np.int64], some: NDArray[np.int64]) -> None:
        numbers[1:3] = some

    numbers = np.zeros(4, np.int64)
    place(numbers, np.array([5, 6]))
    with pytest.raises(ValueError, match="cannot assign slice"):
        place(numbers, np.array([7, 8, 9]))
    assert numbers.tolist() == [0, 5, 6, 0]


def test_flags_are_the_same_if_all_their_values_are() -> None:
    make: Any = Flags
    plain, told, other = make(), make(), make()
    told.nrt = plain.nrt
    other.nrt = not plain.nrt
    assert plain == told
    assert hash(plain) == hash(told)
    assert plain != other
    assert plain != "flags"


MODULE = """
from numba import njit
from rankcast.structures.jit import EXACT

@njit(**EXACT)
def callee(value):
    return value + 1.0

@njit(**EXACT)
def caller(values):
    return callee(values[0])
"""


def test_forms_for_kernels_and_for_python_are_kept_apart_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "kept.py"
    path.write_text(MODULE)

    def fresh() -> Any:
        spec = spec_from_file_location("kept", path)
        assert spec
        assert spec.loader
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    first, second, third = fresh(), fresh(), fresh()
    assert first.caller(np.array([1.0])) == 2.0
    assert second.caller((1.0,)) == 2.0  # another form of the caller, the callee's from the disk
    assert sum(second.callee.stats.cache_hits.values()) == 1
    assert second.callee(3.0) == 4.0
    assert (third.callee(5.0), third.caller(np.array([1.0]))) == (6.0, 2.0)
    assert not third.callee.stats.cache_misses
