from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Running

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-sync",
]
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A real browser; skipped with a word where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    """A service on a port of its own."""
    found = Running(tmp_path / "data")
    yield found
    found.stop()


class Tab:
    """A page that must not complain on its console."""

    def __init__(self, browser: Any, server: Running, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.complaints: list[str] = []
        self.expects_refusals = False  # a browser tells every answer of 400 and above on its console
        self.asked: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(f"{request.method} {request.url}"))
        self._server = server

    def _hear(self, message: Any) -> None:
        refused = "status of 4" in message.text and self.expects_refusals
        if message.type in ("error", "warning") and not refused:
            self.complaints.append(message.text)

    def open(self, path: str) -> Any:
        self.page.goto(f"http://127.0.0.1:{self._server.port}/{path}")
        return self.page

    def close(self) -> None:
        self.context.close()
        assert not self.complaints, self.complaints
        home = f"http://127.0.0.1:{self._server.port}/"
        assert all(each.split(" ", 1)[1].startswith((home, "data:")) for each in self.asked)


@pytest.fixture
def tab(chromium: Any, server: Running) -> Iterator[Tab]:
    """One page."""
    found = Tab(chromium, server)
    yield found
    found.close()
