"""One Spark session for all tests, and a scratch directory of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

SETTING, SECRET = "spark.rankcast.password", 'hush:\\ #=!\u00e9\U0001f600\tdon\'t\nlook "here"'


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of long runs."""
    config.addinivalue_line("markers", "faults: kills, many times over; run only in `make test-faults`")
    config.addinivalue_line("markers", "spark: long on real Spark; run only in `make test-spark`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave long runs out, unless they are asked for."""
    for mark in ("faults", "spark"):
        if mark not in config.getoption("markexpr"):
            long = [item for item in items if item.get_closest_marker(mark)]
            config.hook.pytest_deselected(items=long)
            items[:] = [item for item in items if item not in long]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session with two cores and two shuffle partitions."""
    from rankcast.spark import session
    from tests.spark import hosts

    os.environ.update(hosts.environment(tmp_path_factory.mktemp("scratch")))
    made = session(
        master="local[2,4]",
        settings={
            **hosts.settings(),
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.driver.memory": "1g",
            SETTING: SECRET,
        },
    )
    yield made
    made.stop()
