"""The rules of the house that a linter does not know."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "rankcast"
MODULES = sorted(SOURCE.rglob("*.py"))

FAMILIES = ("range_topk", "covering", "matching", "geotext", "moving")

# Imports point down only. What is not listed (`errors`, `scoring`) is at the bottom, for all above it.
LEVELS = {"structures": 1, "tables": 1, "core": 2, **dict.fromkeys(FAMILIES, 3), "papers": 4, "state": 4}
LEVELS |= {"spark": 5, "pipeline": 6, "plot": 6, "bench": 7, "service": 7, "demo": 8, "warm": 9, "cli": 9}
GROUND = 0


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imported(path: Path) -> list[str]:
    """Every module that a file imports, wherever in the file."""
    names: list[str] = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def roots(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(path)}


def level(module: str) -> int:
    parts = module.split(".")
    return LEVELS.get(parts[1], GROUND) if len(parts) > 1 else GROUND


def points_down(own: str, name: str) -> bool:
    mine, other = own.split(".")[1], name.split(".")[1]
    shared = {mine, other} <= {"structures", "tables"}
    return mine == other or shared or level(name) < level(own)


def test_imports_point_down_only() -> None:
    for path in MODULES:
        own = ".".join(("rankcast", *path.relative_to(SOURCE).with_suffix("").parts))
        if own in ("rankcast.__init__", "rankcast.scoring"):  # public names of all layers
            continue
        for name in imported(path):
            assert not name.startswith("rankcast.") or points_down(own, name), f"{own} imports {name}"


def test_spark_stays_in_its_room() -> None:
    for path in MODULES:
        if "spark" not in path.relative_to(SOURCE).parts:
            assert not roots(path) & {"pyspark", "py4j"}, path


def test_nothing_unpickles_evaluates_or_starts_a_shell() -> None:
    for path in MODULES:
        assert not roots(path) & {"pickle", "marshal", "shelve", "dill"}, path
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "os.system", "os.popen"), f"{path}: {called}"
                for keyword in node.keywords:
                    value = isinstance(keyword.value, ast.Constant) and keyword.value.value
                    assert (keyword.arg, value) not in (("shell", True), ("allow_pickle", True)), (
                        f"{path}: {called}"
                    )


def test_a_newcomer_finds_the_way() -> None:
    for path in MODULES:
        assert len(path.read_text().splitlines()) <= 520, path


def is_kernel(path: Path) -> bool:
    """Whether a module is in a room of kernels."""
    return "kernels" in path.relative_to(SOURCE).parts[:-1]


def test_kernels_know_only_arrays() -> None:
    allowed = ("__future__", "math", "typing", "numpy", "numba", "rankcast.structures")
    for path in filter(is_kernel, MODULES):
        room = "rankcast." + ".".join(path.relative_to(SOURCE).parts[:-1])
        for name in imported(path):
            assert name.startswith((*allowed, room)), f"{path} imports {name}"


def test_numba_flags_have_one_home() -> None:
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.FunctionDef):
                continue
            for told in map(ast.unparse, node.decorator_list):
                if "jit" in told or "vectorize" in told:
                    good = told in ("njit(**EXACT)", "njit(**PARALLEL)")
                    assert good, f"{path.name}: {node.name} has {told}"


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_path_of_a_machine_and_no_package_index_is_written_down() -> None:
    words = ["/" + "work/", "/" + "root/", "/" + "home/", "pypi" + ".org", "files.python" + "hosted"]
    for path in tracked():
        if path.suffix in (".py", ".md", ".toml", ".txt", ".jsonl", ".html", "") and path.name != "LICENSE":
            text = path.read_text(errors="replace")
            assert not [word for word in words if word in text], path


def test_sources_are_cited_by_a_known_key() -> None:
    known = set(re.findall(r"^## (\w+)$", (ROOT / "docs" / "papers.md").read_text(), re.MULTILINE))
    for path in MODULES:
        cited = set(re.findall(r"\[([A-Z]\w+) (?:§|App|Table|Fig|fig|Alg|Thm|Lemma)", path.read_text()))
        assert cited <= known, f"{path}: {cited - known}"


def test_importing_is_light() -> None:
    heavy = ("pyspark", "pandas", "numba", "pyarrow")
    told = f"import sys, rankcast; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    import rankcast

    for name in rankcast.__all__:
        assert getattr(rankcast, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = rankcast.no_such_name
