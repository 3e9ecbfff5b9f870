"""The guide's code blocks run, one after the other, and print what they say they print."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parent.parent.parent / "docs" / "guides" / "spark.md"
BLOCK = re.compile(r"^```py\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


@pytest.mark.spark
def test_the_guide(spark: Any, tmp_path: Path) -> None:
    blocks = BLOCK.findall(GUIDE.read_text())
    assert len(blocks) >= 4
    names: dict[str, Any] = {"__name__": "guide", "folder": str(tmp_path)}
    for code, output in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "guide", "exec"), names)  # noqa: S102
        assert printed.getvalue() == output
    names["stream"].schema  # noqa: B018
