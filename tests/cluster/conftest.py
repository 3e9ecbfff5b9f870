"""One cluster and one session on it for all tests; where it cannot be had, they are left out and say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.standalone import Cluster, why_not
from tests.spark import hosts


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers."""
    why = why_not()
    if why is not None:
        pytest.skip(why)
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    for _ in range(2):
        made.add()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def spark(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose executors are those of the cluster."""
    from rankcast.spark import session

    os.environ.update(hosts.environment(tmp_path_factory.mktemp("scratch")))
    made = session(master=cluster.url, settings={**hosts.settings(), "spark.driver.memory": "1g"})
    yield made
    made.stop()
