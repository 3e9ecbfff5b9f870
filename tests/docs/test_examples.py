"""The code blocks of README and docs run, and print what they say they print."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from rankcast.core.spec import engine_type, known_names

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)|^\[[^\]]+\]: (?!http)([^#\s]+)", re.MULTILINE)

# Pages of the site that are made when it is built; `make docs` looks at links to them.
MADE = tuple(
    f"{up}reference/{name}.md"
    for up in ("", "../")
    for name in ("http", "settings", "commands", "metrics", "errors")
)

EXAMPLES = [
    pytest.param(code, output, id=f"{page.name}-{place}")
    for page in PAGES
    for place, (code, output) in enumerate(BLOCK.findall(page.read_text()))
]


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_an_example_prints_what_it_says(code: str, output: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), {"__name__": "example"})  # noqa: S102
    assert printed.getvalue() == output


def test_the_readme_has_examples() -> None:
    assert BLOCK.findall((ROOT / "README.md").read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for inline, reference in LINK.findall(page.read_text()):
        if (inline or reference).startswith(MADE):
            continue
        assert (page.parent / (inline or reference)).exists(), inline or reference


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_the_docs_exist(page: Path) -> None:
    for name in re.findall(
        r"`((?:engines|indexes|kernels|state|bench|contract|spark)/[\w/]+\.py|\w+\.py)`", page.read_text()
    ):
        assert list((ROOT / "src" / "rankcast").rglob(name.split("/")[-1])), f"{page.name} names {name}"


def divided(name: str) -> str:
    """A line of the table of inputs in the guide to Spark, from what an engine says of itself."""
    cls = engine_type(name)
    parts = [[each.name for each in cls.spec.inputs if each.divided == way] for way in (True, False)]
    one, all_ = (", ".join(sorted(part)) for part in parts)
    return f"| `{name}` | {one} | {all_} | {cls.spec.answer.kind} |"


def test_the_tables_of_engines_are_what_engines_say() -> None:
    guide = (ROOT / "docs" / "guides" / "spark.md").read_text()
    choosing = (ROOT / "docs" / "guides" / "choosing-an-engine.md").read_text()
    readme = (ROOT / "README.md").read_text()
    for name in known_names():
        spec = engine_type(name).spec
        assert f"| {spec.title} | `{name}` |" in readme, spec.title
        line = next(line for line in choosing.splitlines() if line.startswith(f"| {spec.title} |"))
        kept = spec.undivided is None and spec.answer.kind == "deltas"
        assert f"| `{name}` | " in line, line
        assert ("deltas" in line) == kept, line
        if spec.undivided is None:
            assert divided(name) in guide, divided(name)
