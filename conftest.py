"""What examples in docstrings need besides the package: those of the clients need a service."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem

CLIENTS = "rankcast.client.clients."


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Run the examples of the clients against a service whose address is `url`."""
    if not (isinstance(item, DoctestItem) and item.name.startswith(CLIENTS)):
        return (yield)
    from tests.service.conftest import Running  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        running = Running(Path(folder))
        item.dtest.globs["url"] = f"http://127.0.0.1:{running.port}"
        try:
            return (yield)
        finally:
            running.stop()
