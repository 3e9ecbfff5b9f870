"""Every public name has an example that runs: in its docstring, or on a page whose code is run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rankcast
from rankcast.core.spec import engine_type, known_names

DOCS = Path(__file__).parent.parent.parent / "docs"
BLOCK = re.compile(r"^```(?:py|python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
REFERENCE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)

# Pages whose blocks of `py` and `sh` are run by tests; those of `python` are run wherever they stand.
RUN = (
    *(DOCS / "tutorial" / f"{name}.md" for name in ("in-process", "on-spark", "served")),
    DOCS / "guides" / "spark.md",
    *(DOCS / "guides").glob("*pipeline.md"),
    DOCS / "guides" / "refused-checkpoint.md",
)
# What needs a broker or a file of a map: its example is in the docstring, and not run.
SHOWN = {"rankcast.kafka.read_deltas", "rankcast.geo.h3_cells"}
# What calls of the others return or raise: shown where these are.
RETURNED = {
    *(f"rankcast.gateway.{name}" for name in ("BehindError", "Lists", "Part")),
    *(f"rankcast.pipeline.{name}" for name in ("Config", "Running")),
    *(f"rankcast.scoring.{name}" for name in ("Function", "Weighted")),
}
# Of every engine, for those who write one; the reference leaves most of it out (`filters` in mkdocs.yml).
INSIDE = {
    *("absorb", "added_counters", "added_parts", "calls", "check_columns", "check_rows", "clock"),
    *(
        "configured",
        "constant",
        "counters",
        "graph",
        "in_doubt",
        "known_tuning",
        "late",
        "methods",
        "places",
        "reads",
    ),
    *("restore", "score", "scores_move", "spec", "state", "takes_k", "variants"),
}


def code_of_pages() -> str:
    """All code of the pages that is run."""
    found = []
    for page in DOCS.rglob("*.md"):
        text = page.read_text()
        found += re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        found += BLOCK.findall(text) if page in RUN else []
    return "\n".join(found)


PAGES = code_of_pages()


def examples(*things: Any) -> str:
    """The lines of code in docstrings."""
    lines = "\n".join(inspect.getdoc(thing) or "" for thing in things).splitlines()
    return "\n".join(line for line in lines if line.startswith((">>> ", "... ")))


def names() -> Iterator[tuple[str, Any]]:
    """The public names: of the package, and of all modules that the reference shows."""
    for name in rankcast.__all__:
        yield f"rankcast.{name}", getattr(rankcast, name)
    for page in (DOCS / "reference").glob("*.md"):
        for path in REFERENCE.findall(page.read_text()):
            owner, _, last = path.rpartition(".")
            thing = getattr(import_module(owner), last) if last[0].isupper() else None
            if thing is None:
                try:
                    thing = import_module(path)
                except ModuleNotFoundError:
                    thing = getattr(import_module(owner), last)
            if isinstance(thing, ModuleType):
                members = getattr(thing, "__all__", None) or [
                    name
                    for name, each in vars(thing).items()
                    if not name.startswith("_") and getattr(each, "__module__", None) == thing.__name__
                ]
                yield from ((f"{path}.{name}", getattr(thing, name)) for name in members)
            else:
                yield path, thing


NAMES = {
    path: thing
    for path, thing in names()
    if (inspect.isclass(thing) or inspect.isfunction(thing)) and path not in SHOWN | RETURNED
}


def test_the_reference_has_many_names() -> None:
    assert len(NAMES) > 60
    assert {"rankcast.RangeTopK", "rankcast.plot.zone", "rankcast.spark.continuous"} <= set(NAMES)


@pytest.mark.parametrize("path", sorted(NAMES))
def test_a_public_name_has_an_example_that_runs(path: str) -> None:
    thing, name = NAMES[path], path.rpartition(".")[2]
    own = [thing, *(vars(thing).values() if inspect.isclass(thing) else ())]
    used = rf"\b{name}\b" if inspect.isclass(thing) else rf"\b{name}\("
    assert examples(*own) or re.search(used, PAGES), f"{path} has no example"


@pytest.mark.parametrize("path", sorted(SHOWN))
def test_what_cannot_run_here_is_shown(path: str) -> None:
    owner, _, name = path.rpartition(".")
    told = inspect.getdoc(getattr(import_module(owner), name)) or ""
    assert re.search(rf"^    .*{name}\(", told, re.MULTILINE)


@pytest.mark.parametrize("name", known_names())
def test_every_call_of_an_engine_has_an_example(name: str) -> None:
    cls = engine_type(name)
    calls = {call for call in dir(cls) if not call.startswith("_")} - INSIDE
    told = examples(*(each for base in cls.__mro__ for each in (base, *vars(base).values()))) + PAGES
    missing = {call for call in calls if not re.search(rf"\.{call}\(", told)}
    assert not missing
