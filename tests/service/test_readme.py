"""The lines of the README that call the service do what they say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from .conftest import Running

README = Path(__file__).parent.parent.parent / "README.md"


def test_the_lines_of_the_readme(running: Callable[..., Running]) -> None:
    server = running()
    [block] = re.findall(r"^```sh\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    answers = []
    for line in block.splitlines():
        name, *words = shlex.split(line)
        assert name == "curl"
        method = words[words.index("-X") + 1] if "-X" in words else "GET"
        body = words[words.index("--json") + 1] if "--json" in words else None
        path = next(word for word in words if word.startswith("localhost:8765")).removeprefix(
            "localhost:8765"
        )
        if "-N" in words:
            listener = server.listen(path)
            assert listener.next()[0] == "snapshot"
            listener.close()
            continue
        headers = {} if body is None else {"content-type": "application/json"}
        told = server.http.request(method, path, content=body, headers=headers)
        assert told.status_code in (200, 201), told.text
        answers.append(told.json())
    rows = answers[-1]["rows"]
    assert rows == [{"subscription": "ada", "rank": 1, "item": "ACME", "score": 12.0}]
    assert answers[2]["rows"][0]["op"] == "enter"
