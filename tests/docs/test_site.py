"""The site: tutorials run as they stand, pages that are made are complete, links are turned."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rankcast import errors
from rankcast.cli import COMMANDS
from rankcast.service import commands
from rankcast.service.settings import Settings
from tests.service.conftest import Running

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```py\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, DOCS / "_site" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(text: str, count: int) -> dict[str, Any]:
    """Run the blocks of a page one after the other, so many of them; the names they have made."""
    names: dict[str, Any] = {"__name__": "page"}
    blocks = BLOCK.findall(text)
    for code, output in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "page", "exec"), names)  # noqa: S102
        assert printed.getvalue() == output
    assert len(blocks) == count
    return names


def test_the_tutorial_in_one_process() -> None:
    run((DOCS / "tutorial" / "in-process.md").read_text(), 6)


def test_the_tutorial_of_the_service(tmp_path: Path) -> None:
    running = Running(tmp_path / "data")
    try:
        text = (DOCS / "tutorial" / "served.md").read_text()
        run(text.replace("127.0.0.1:8765", f"127.0.0.1:{running.port}"), 2)["service"].close()
    finally:
        running.stop()


def test_every_call_command_and_error_has_its_place() -> None:
    hooks = loaded("hooks")
    http = hooks.http()
    for command in commands.COMMANDS:
        assert f"## {command.method} {command.path}\n" in http, command
    for each in COMMANDS:
        assert f"## rankcast {each.name}\n" in hooks.commands()
    assert "Publish a batch of events; all are accepted, or none. Needs the scope `publish`." in http
    assert "fields: `sequence`, `deltas`, `rows` (optional)" in http
    for name in Settings.model_fields:
        assert f"\n| `{name}` | " in hooks.settings()
    told = hooks.errors()
    for name, cls in inspect.getmembers(errors, inspect.isclass):
        if issubclass(cls, Exception):
            assert f"| `{name}` |" in told
    metrics = hooks.metrics()
    for name in (
        "rankcast_request_seconds",
        "rankcast_stream_queue",
        "rankcast_webhook_dead",
        "rankcast_lag_seconds",
    ):
        assert f"| `{name}` |" in metrics


@pytest.mark.parametrize(
    ("path", "link", "turned"),
    [
        ("guides/kafka.md", "[safe](../../SECURITY.md#secrets)", "[safe](../project/security.md#secrets)"),
        ("guides/kafka.md", "[it](../../examples/kafka.toml)", "it"),
        ("guides/kafka.md", "[so](spark.md#order)", "[so](../guides/spark.md#order)"),
        ("index.md", "[b](../benchmarks/README.md)", "[b](project/benchmarks.md)"),
        ("project/changelog.md", "[g](docs/guides/roads.md)", "[g](../guides/roads.md)"),
        ("project/benchmarks.md", "[p](../docs/performance.md)", "[p](../performance.md)"),
        ("index.md", "[out](https://example.org/a.md)", "[out](https://example.org/a.md)"),
        ("index.md", "[here](#below)", "[here](#below)"),
    ],
)
def test_links_are_turned(path: str, link: str, turned: str) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=path), meta={})
    assert loaded("hooks").on_page_markdown(link, page) == turned


def test_every_page_is_in_the_navigation() -> None:
    told = (ROOT / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        assert f": {page.relative_to(DOCS).as_posix()}\n" in told, page


def test_the_pictures_of_concepts_are_drawn(tmp_path: Path) -> None:
    pictures = loaded("pictures")
    pictures.draw(tmp_path)
    text = "".join(page.read_text() for page in (DOCS / "concepts").glob("*.md"))
    for name in pictures.PICTURES:
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
        assert f"(../images/{name}.png)" in text
        assert (DOCS / "images" / f"{name}.png").exists()
