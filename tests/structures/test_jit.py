"""What every kernel has from `rankcast.structures.jit` and its options."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT, KernelFlags

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


@njit(**ANEW)  # type: ignore[untyped-decorator]
def _sorted(numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return np.sort(numbers), np.argsort(numbers)


def test_machine_code_has_no_names_but_those_that_python_calls() -> None:
    """Two closures of one name, as those of `sort` and `argsort`, may have one symbol in two processes."""
    numbers = np.array([2.0, 3.0, 1.0])
    found = [each.tolist() for each in _sorted(numbers)]
    assert found == [[1.0, 2.0, 3.0], [2, 0, 1]]
    (form,) = _sorted.overloads.values()
    functions = list(form.library.get_defined_functions())
    assert any("quicksort" in function.name for function in functions)
    assert {function.linkage.name for function in functions} <= {"external", "internal"}
    named = [function.name for function in functions if function.linkage.name == "external"]
    assert all("_sorted" in name for name in named)


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
    make: Any = KernelFlags
    plain, same, other = make(), make(), make()
    same.nrt = plain.nrt
    other.nrt = not plain.nrt
    assert plain == same
    assert hash(plain) == hash(same)
    assert plain != other
    assert plain != "flags"


def test_a_kernel_calls_a_plain_function_of_numba() -> None:
    def smallest(numbers: NDArray[np.float64]) -> float:
        if numbers.size > 3:
            raise ValueError("too many", numbers.size)
        return float(np.sort(numbers)[0])

    plain: Any = njit(smallest)

    @njit(**ANEW)  # type: ignore[untyped-decorator]
    def kernel(numbers: NDArray[np.float64]) -> float:
        return float(np.sort(numbers)[-1] - plain(numbers))

    assert kernel(np.array([3.0, 1.0, 2.0])) == 2.0
    assert plain(np.array([3.0, 1.0, 2.0])) == 1.0
    with pytest.raises(ValueError, match=r"too many.*4"):
        kernel(np.zeros(4))


def run(folder: Path, code: str, **environment: str) -> str:
    """What a program prints in a process of its own, in a folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", dedent(code)],
        cwd=folder,
        env={**kept, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PLAIN = """
import numpy as np
from numba import njit, prange

@njit(cache=True)
def smallest(numbers):
    return np.sort(numbers)[0]

@njit(parallel=True)
def total(numbers):
    result = 0.0
    for i in prange(numbers.size):
        result += numbers[i]
    return result

@njit
def put(numbers, some):
    numbers[1:3] = some
"""

UNCHANGED = """
    import numba, numpy as np
    from numba.core import codegen, compiler, cpu, dispatcher, registry, runtime, target_extension
    from numba.np import arrayobj

    def known():
        context = registry.cpu_target.target_context
        owners = [codegen.CPUCodeLibrary, codegen.JITCodeLibrary, codegen.JITCPUCodegen, compiler.Flags,
                  cpu.CPUContext, dispatcher.Dispatcher, registry.CPUDispatcher, registry.CPUTarget, arrayobj]
        cached = "__slotnames__"  # Python's own note, made when an instance is copied
        attributes = [(owner.__name__, {name: value for name, value in vars(owner).items() if name != cached})
                      for owner in owners]
        cpu_class = target_extension.CPU
        return (type(context), type(context.codegen()), attributes,
                target_extension.target_registry["cpu"], target_extension.dispatcher_registry[cpu_class],
                target_extension.jit_registry[cpu_class])

    before = known()
    import rankcast
    engine = rankcast.RangeTopK(over="x", k=1)
    engine.subscribe({"id": [1]})
    engine.publish({"id": [1, 2], "x": [1.0, 2.0], "y": [2.0, 1.0]})
    assert before == known()
    assert type(runtime.rtsys.library) is codegen.JITCodeLibrary

    import plain
    numbers = np.arange(5.0)[::-1].copy()
    assert (plain.smallest(numbers), plain.total(numbers)) == (0.0, 10.0)
    assert sum(plain.smallest.stats.cache_hits.values()) == HITS
    try:
        plain.put(numbers, numbers)
    except ValueError as error:
        # the two shapes, which the oldest Numba tells the other way round
        assert "(5,)" in str(error) and "(2,)" in str(error), error
    for function in (plain.smallest, plain.total, plain.put):
        for form in function.overloads.values():
            assert type(form.library) is codegen.JITCodeLibrary
            assert type(form.library.codegen) is codegen.JITCPUCodegen
    print("unchanged")
"""


def test_numba_is_left_as_it_was_for_others(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    where = {name: value for name, value in os.environ.items() if name == "NUMBA_CACHE_DIR"}
    assert run(tmp_path, UNCHANGED.replace("HITS", "0"), **where) == "unchanged"
    assert run(tmp_path, UNCHANGED.replace("HITS", "1"), **where) == "unchanged"


PACKAGE = {
    "__init__.py": "",
    "constants.py": "STEP = 1.0\n",
    "shapes.py": "from . import (  # a list (of names)\n    constants,\n)\nSTEP = constants.STEP\n",
    "callee.py": """
from numba import njit
from fake.shapes import STEP
from rankcast.structures.jit import EXACT

@njit(**EXACT)
def callee(value):
    return value + STEP
""",
    "caller.py": """
from numba import njit
from rankcast.structures.jit import EXACT
from fake.callee import callee

@njit(**EXACT)
def caller(values):
    return callee(values[0])
""",
    "aside.py": "ASIDE = 1\n",
}
CALL = """
    import numpy as np
    from fake.caller import caller, callee
    print(caller(np.array([1.0])), *(sum(k.stats.cache_misses.values()) for k in (caller, callee)))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with kernels in several modules."""
    folder = tmp_path / "fake"
    folder.mkdir()
    for name, source in PACKAGE.items():
        (folder / name).write_text(source)
    return folder


def compiled(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("__pycache__/*.nb[ic]*"))


def test_the_cache_never_answers_with_old_code(package: Path) -> None:
    def call() -> str:
        return run(package.parent, CALL)

    assert call() == "2.0 1 1"
    files = compiled(package)
    assert call() == "2.0 0 0"
    for path in package.glob("*.py"):
        path.touch()
    (package / "aside.py").write_text("ASIDE = 2\n")
    assert call() == "2.0 0 0"
    assert compiled(package) == files
    (package / "callee.py").write_text(PACKAGE["callee.py"].replace("value +", "value -"))
    assert call() == "0.0 1 1"
    assert call() == "0.0 0 0"
    (package / "constants.py").write_text("STEP = 3.0\n")
    assert call() == "-2.0 1 1"
    assert len(compiled(package)) == len(files)  # what is left of older sources is removed


def test_what_was_edited_under_a_running_process_is_not_kept(package: Path) -> None:
    edit = 'open("fake/constants.py", "w").write("STEP = 3.0"); print('
    assert run(package.parent, CALL.replace("print(", edit)) == "2.0 1 1"
    assert not compiled(package)
    assert run(package.parent, CALL) == "4.0 1 1"


def test_a_copied_tree_keeps_its_cache(package: Path, tmp_path: Path) -> None:
    assert run(package.parent, CALL) == "2.0 1 1"
    copy = tmp_path / "elsewhere" / "fake"
    shutil.copytree(package, copy, copy_function=shutil.copyfile)
    assert run(copy.parent, CALL) == "2.0 0 0"


def test_without_a_directory_beside_the_source_another_is_found(package: Path, tmp_path: Path) -> None:
    (package / "__pycache__").write_text("not a directory")
    users, temporary = tmp_path / "users", tmp_path / "temporary"
    temporary.mkdir()
    homes = {"XDG_CACHE_HOME": str(users), "TMPDIR": str(temporary)}
    assert run(package.parent, CALL, **homes) == "2.0 1 1"
    assert run(package.parent, CALL, **homes) == "2.0 0 0"
    assert list(users.rglob("*.nbc"))
    shutil.rmtree(users)
    users.write_text("not a directory")
    assert run(package.parent, CALL, **homes) == "2.0 1 1"
    assert run(package.parent, CALL, **homes) == "2.0 0 0"
    (own,) = temporary.iterdir()
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o755)  # others could have put something there
    assert run(package.parent, CALL, **homes) == "2.0 1 1"


def test_forms_for_kernels_and_for_python_are_kept_apart_on_disk(package: Path) -> None:
    assert run(package.parent, CALL) == "2.0 1 1"
    again = """
    from fake.caller import caller, callee
    print(caller((1.0,)), sum(callee.stats.cache_hits.values()), callee(3.0))
    """
    assert run(package.parent, again) == "2.0 1 4.0"
    other = """
    import numpy as np
    from fake.caller import caller, callee
    print(callee(5.0), caller(np.array([1.0])), sum(callee.stats.cache_misses.values()))
    """
    assert run(package.parent, other) == "6.0 2.0 0"
