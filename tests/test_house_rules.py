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

# Imports point down only. What is not listed (`errors`, `_version`, `scoring`, `text`) may be imported by all
# above.
# The papers' figures are benchmark cases: they stand above `bench`, which imports them by name.
LEVELS = {
    "subscriber_list": 1,
    "gateway": 2,
    "zone_numbers": 3,
    "geo": 1,
    "client": 3,
    "structures": 1,
    "tables": 1,
    "core": 2,
    **dict.fromkeys(FAMILIES, 3),
    "papers": 4,
    "state": 4,
}
LEVELS |= {
    "kafka": 1,
    "spark": 5,
    "pipeline": 6,
    "plot": 6,
    "bench": 7,
    "service": 7,
    "demo": 8,
    "warm": 9,
    "cli": 9,
    "__main__": 10,
}
GROUND, FIGURES = 0, 8


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
    if parts[1:3] == ["papers", "figures"]:
        return FIGURES
    return LEVELS.get(parts[1], GROUND) if len(parts) > 1 else GROUND


def points_down(own: str, name: str) -> bool:
    mine, other = own.split(".")[1], name.split(".")[1]
    shared = {mine, other} <= {"structures", "tables"}
    return mine == other or shared or level(name) < level(own)


def test_imports_point_down_only() -> None:
    for path in MODULES:
        own = ".".join(("rankcast", *path.relative_to(SOURCE).with_suffix("").parts))
        if own in ("rankcast.__init__", "rankcast.scoring", "rankcast.text"):  # public names of all layers
            continue
        for name in imported(path):
            assert not name.startswith("rankcast.") or points_down(own, name), f"{own} imports {name}"


def test_spark_stays_in_its_room() -> None:
    for path in MODULES:
        if "spark" not in path.relative_to(SOURCE).parts:
            assert not roots(path) & {"pyspark", "py4j"}, path


RUNTIMES = ("state", "spark", "pipeline", "service")
FAMILY_JOBS = ("spark/geotext_jobs.py",)  # batch jobs that are one family's own
EXAMPLES = ("spark/class_archive.py",)  # runs a small stream, which has to be of some engine
NAMED_TUPLES = {"_asdict", "_replace", "_make"}
PYSPARK = {"_gateway", "_active_spark_context", "_ensure_initialized"}


def runtime_modules() -> list[Path]:
    return [path for path in MODULES if path.relative_to(SOURCE).parts[0] in RUNTIMES]


def words_of(path: Path) -> set[str]:
    """Every name and every text in a module but its docstrings."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            found |= set(re.findall(r"\w+", node.value))
    return found


def test_runtimes_know_engines_by_what_they_say_of_themselves() -> None:
    from rankcast.core.spec import ENGINES

    classes = {home.partition(":")[2] for home in ENGINES.values()}
    for path in runtime_modules():
        name = path.relative_to(SOURCE).as_posix()
        if name not in (*FAMILY_JOBS, *EXAMPLES):
            assert not words_of(path) & classes, f"{name} names an engine"
            families = tuple(f"rankcast.{family}" for family in (*FAMILIES, "papers"))
            assert not [each for each in imported(path) if each.startswith(families)], name


def test_runtimes_leave_private_attributes_alone() -> None:
    for path in runtime_modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                told = f"{path}:{node.lineno} {ast.unparse(node)}"
                assert own or node.attr in NAMED_TUPLES | PYSPARK, told
            if isinstance(node, ast.Assign):
                assert not [each for each in node.targets if ast.unparse(each).endswith(".__class__")], path
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
                name = node.args[1]
                assert not (isinstance(name, ast.Constant) and str(name.value).startswith("_")), path


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
                    assert told == "njit(**EXACT)", f"{path.name}: {node.name} has {told}"


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
    heavy = ("pyspark", "pandas", "numba", "pyarrow", "httpx")
    told = f"import sys, rankcast; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    import rankcast

    for name in rankcast.__all__:
        assert getattr(rankcast, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = rankcast.no_such_name
