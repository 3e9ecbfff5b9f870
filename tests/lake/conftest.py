"""One Spark session that has tables; where its jars cannot be had, tests are left out and say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def jars() -> dict[str, str]:
    """What a session needs to be told so that it knows Delta."""
    from rankcast.errors import InputError
    from rankcast.spark import connectors

    try:
        return connectors.settings(["delta"], {})
    except (connectors.ConnectorError, InputError) as error:
        pytest.skip(f"Delta cannot be had: {error.what}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, jars: dict[str, str]) -> Iterator[Any]:
    """A local session with Delta."""
    from rankcast.spark import session
    from tests.spark import hosts

    os.environ.update(hosts.environment(tmp_path_factory.mktemp("scratch")))
    made = session(master="local[2,4]", settings={**hosts.settings(), **jars, "spark.driver.memory": "1g"})
    yield made
    made.stop()
