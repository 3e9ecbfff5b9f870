"""One broker and one Spark session for tests; where either cannot be had, tests are left out and say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from rankcast.bench.cases.kafka_broker import Broker, why_not

pytest.register_assert_rewrite("tests.kafka.queued")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker; a test that stops it starts it again."""
    why = why_not()
    if why is not None:
        pytest.skip(why)
    made = Broker(tmp_path_factory.mktemp("broker") / "one")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def jars() -> dict[str, str]:
    """What a session needs to be told so that it knows Kafka."""
    from rankcast.spark import connectors

    try:
        return connectors.settings(["kafka"], {})
    except connectors.ConnectorError as error:
        pytest.skip(f"Spark's connector for Kafka cannot be had: {error.what}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, jars: dict[str, str]) -> Iterator[Any]:
    """A local session with two cores, four shuffle partitions and Spark's connector for Kafka."""
    from rankcast.spark import session, sessions
    from tests.spark import hosts

    os.environ.update(hosts.environment(tmp_path_factory.mktemp("scratch")))
    made = session(
        master="local[2,4]",
        settings={**hosts.settings(), sessions.PARTITIONS: "3", "spark.driver.memory": "1g", **jars},
    )
    yield made
    made.stop()
