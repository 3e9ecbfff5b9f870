"""Every file in the guides on pipelines is written, every command in them runs, and says what they say."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from rankcast import cli

GUIDES = Path(__file__).parent.parent.parent / "docs"
NAMES = (
    "guides/first-pipeline",
    "guides/choosing-an-engine",
    "guides/exactly-once",
    "guides/sizing",
    "guides/refused-checkpoint",
    "tutorial/on-spark",
)
FIRST = "tutorial/on-spark"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "name", [FIRST, *(pytest.param(name, marks=pytest.mark.spark) for name in NAMES if name != FIRST)]
)
def test_a_guide(
    name: str,
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "guide"}
    said = ""
    kinds = []
    for kind, text in BLOCK.findall((GUIDES / f"{name}.md").read_text()):
        kinds.append(kind)
        if kind == "toml":
            Path(text.splitlines()[0].removeprefix("# ")).write_text(text)
        elif kind == "py":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, name, "exec"), names)  # noqa: S102
            said = printed.getvalue()
        elif kind == "sh":
            said = "".join(command(line, monkeypatch, capfdbinary) for line in text.splitlines())
        else:
            assert kind == "text"
            assert said == text
    assert "sh" in kinds
    assert len(kinds) == (GUIDES / f"{name}.md").read_text().count("\n```") / 2


def command(line: str, monkeypatch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[bytes]) -> str:
    """Run one line; what it printed, or, if it exits with a mistake, what it said instead."""
    words = shlex.split(line, comments=True)
    if words[0] == "export":
        monkeypatch.setenv(*words[1].split("="))
        return ""
    assert words[0] == "rankcast", line
    captured.readouterr()
    code = cli.main(words[1:])
    out, err = (text.decode() for text in captured.readouterr())
    expected = re.search(r"# exits with (\d+)", line)
    assert code == (int(expected[1]) if expected else 0), err
    return err if expected else out
