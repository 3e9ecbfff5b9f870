"""What came with the wheel, what is compiled besides, and where compiled code may be loaded from."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import rankcast
from rankcast.structures import jit

SOURCES = Path(rankcast.__file__).parent
LEVELS = [level for level, _ in jit.LEVELS.get(platform.machine(), ())]
SMALL = """
from numba import njit
from rankcast.structures.jit import EXACT

@njit(**EXACT)
def inner(value):
    return value * 3.0 + 1.0

@njit(**EXACT)
def outer(values):
    total = 0.0
    for value in values:
        total += inner(value)
    return total

@njit(**EXACT)
def above(values):
    return outer(values) + 1.0
"""
CALL = """
    import numpy as np
    from pathlib import Path
    from rankcast.small import above, inner, outer
    from rankcast.structures import jit, kernel_cache
    values = np.array([1.0, 2.0])
"""
OUTER = CALL + "    print(outer(values), jit.PROGRESS.compiled)"
SHIP = CALL + "    outer(values); print(kernel_cache.ship(Path('rankcast/compiled')))"


def plant(folder: Path) -> Path:
    """A rankcast of one module, with our compiler and cache."""
    package = folder / "rankcast"
    shutil.copytree(
        SOURCES / "structures", package / "structures", ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "__init__.py").write_text("")
    (package / "small.py").write_text(SMALL)
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Such a rankcast, nothing of it compiled."""
    return plant(tmp_path)


def run(tree: Path, code: str, **environment: str) -> tuple[str, str]:
    """What a program prints in a process of its own, without a home; and what it says aside."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", dedent(code)],
        cwd=tree,
        env={**kept, "HOME": os.devnull, "TMPDIR": str(tree), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def lock(tree: Path) -> None:
    """Leave no place to write to: as root one can write wherever there is a directory."""
    for taken in (tree / "rankcast" / "__pycache__", tree / f"rankcast-{os.getuid()}"):
        shutil.rmtree(taken, ignore_errors=True)
        taken.write_text("not a directory")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a rankcast with its kernels in `cache`, and as in a wheel; compiled once for several tests."""
    tree = plant(tmp_path_factory.mktemp("compiled"))
    kept = {"NUMBA_CACHE_DIR": str(tree / "cache")}
    assert run(tree, OUTER, **kept)[0] == "11.0 2"
    assert run(tree, SHIP, **kept)[0] == "1"
    return tree


@pytest.fixture
def cached(compiled: Path, tmp_path: Path) -> Path:
    """A copy of it, with the cache alone and no other place to write to."""
    tree = Path(shutil.copytree(compiled, tmp_path / "tree"))
    shutil.rmtree(tree / "rankcast" / "compiled")
    lock(tree)
    return tree


@pytest.fixture
def shipped(compiled: Path, tmp_path: Path) -> Path:
    """A copy with compiled kernels as in a wheel and no place to write to."""
    tree = Path(shutil.copytree(compiled, tmp_path / "tree"))
    shutil.rmtree(tree / "cache")
    lock(tree)
    return tree


def test_what_came_along_is_used_without_a_word(shipped: Path) -> None:
    before = sorted(shipped.rglob("*"))
    for path in before:
        os.utime(path, (0, 0))
    assert run(shipped, OUTER) == ("11.0 0", "")
    assert sorted(shipped.rglob("*")) == before


def test_another_source_is_compiled_and_one_line_says_so(shipped: Path) -> None:
    path = shipped / "rankcast" / "small.py"
    path.write_text(SMALL.replace("+ 1.0", "+ 2.0"))
    answer, said = run(shipped, OUTER)
    assert answer == "13.0 2"
    assert said == (
        "rankcast: compiling kernels for their first use; no directory can be written to, so none is kept\n"
    )
    kept = str(shipped / "cache")
    assert f"they are kept in {kept}" in run(shipped, OUTER, NUMBA_CACHE_DIR=kept)[1]
    assert run(shipped, OUTER, NUMBA_CACHE_DIR=kept) == ("13.0 0", "")


def test_for_other_versions_the_line_names_both(shipped: Path) -> None:
    (shipped / "rankcast" / "compiled" / "versions.txt").write_text("cpython-30, Numba 0.1\n")
    said = run(shipped, OUTER, NUMBA_OPT="2")[1]  # a setting that code depends on, in place of a version
    assert "some for cpython-30, Numba 0.1; here is cpython" in said


def test_a_patch_of_numpy_compiles_nothing_and_a_minor_release_does(shipped: Path) -> None:
    minor = ".".join(np.__version__.split(".")[:2])
    patch = f"    import numpy; numpy.__version__ = '{minor}.999'\n"
    assert run(shipped, patch + OUTER) == ("11.0 0", "")
    other = CALL + "    kernel_cache.numpy_version = (9, 8)\n    print(outer(values), jit.PROGRESS.compiled)"
    answer, said = run(shipped, other)
    assert answer == "11.0 2"
    assert f"NumPy {minor}; here is cpython" in said
    assert "NumPy 9.8)" in said


def test_a_kernel_that_is_compiled_inlines_one_that_came_along(shipped: Path) -> None:
    code = CALL + "    print(outer(values), above(values), outer(values), inner(1.0), jit.PROGRESS.compiled)"
    assert run(shipped, code)[0] == "11.0 12.0 11.0 4.0 4"


def test_nothing_is_loaded_from_where_others_can_write(cached: Path) -> None:
    kept = cached / "cache"
    assert run(cached, OUTER, NUMBA_CACHE_DIR=str(kept))[0] == "11.0 0"
    (kept / "rankcast").chmod(0o777)
    assert run(cached, OUTER, NUMBA_CACHE_DIR=str(kept))[0] == "11.0 2"


def test_clones_share_what_is_kept(compiled: Path, tree: Path) -> None:
    assert run(tree, OUTER, NUMBA_CACHE_DIR=str(compiled / "cache")) == ("11.0 0", "")


def test_a_damaged_file_is_made_anew(cached: Path) -> None:
    kept = cached / "cache"
    for path in kept.rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    assert run(cached, OUTER, NUMBA_CACHE_DIR=str(kept))[0] == "11.0 2"
    assert run(cached, OUTER, NUMBA_CACHE_DIR=str(kept))[0] == "11.0 0"


@pytest.mark.parametrize("level", LEVELS)
def test_code_of_a_level_has_its_instructions_and_nothing_is_fused(tree: Path, level: str) -> None:
    code = CALL + (
        "    print(outer(values), jit.processor(), set(key[1] for key in [outer._cache._index_key((), c)]))\n"
        "    print(next(iter(outer.inspect_asm().values())))"
    ).replace("c)]", "jit.Kernel.targetdescr.target_context.codegen())]")
    told = run(tree, code, NUMBA_CPU_NAME=level)[0]
    answer, assembly = told.split("\n", 1)
    assert answer.startswith(f"11.0 ('{level}', '') ")
    assert answer.count(f"'{level}', ''") == 2
    assert "fmadd" not in assembly
    assert "fmla" not in assembly
    assert "zmm" not in assembly
    assert ("vmulsd" in assembly or "ymm" in assembly) == (level == "x86-64-v3")
