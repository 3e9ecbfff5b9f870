"""Hypothesis profiles: `fast` in `make test`, `thorough` in `make test-all` and `make test-deep`.

`few` is for what runs default methods only, `make test-nojit` and `make test-numba-oldest`.
Tests that start Spark run in one process. Those marked `deep` are long and run in `make test-deep` alone,
those marked `service` start and kill services and run in `make test-service` alone, those marked `kafka` need
a broker and run in `make test-kafka` alone, those marked `tables`, `cluster` or `browser` in targets of these
names.
"""

from __future__ import annotations

import gc
import os
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Laws compare the states of engines that were made apart, to the last bit.
os.environ.setdefault("RANKCAST_HASH_SEED", "8191")

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("fast", UNHURRIED, max_examples=60, derandomize=True)
settings.register_profile("thorough", UNHURRIED, max_examples=2000)
settings.register_profile("few", UNHURRIED, max_examples=5, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

SPARKS = r"bad_texts|batch|connect|demo|guide|helpers|kills|own_engine|pipeline\w*|roads|streams"
SPARK = re.compile(rf"tests/spark/test_(?:{SPARKS})\.py::")
FAMILIES = "range_topk|covering|matching|geotext|moving"
FILES = re.compile(rf"(tests/(?:{FAMILIES}|tables|structures|core|papers|bench)/.*\.py)::")
ORDER = (SPARK, *map(re.compile, (r"tests/laws/", rf"tests/(?:{FAMILIES})/", r"tests/core/")))


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of long searches for trouble."""
    config.addinivalue_line("markers", "deep: long searches for trouble; run only in `make test-deep`")
    config.addinivalue_line("markers", "browser: a real browser; run only in `make test-browser`")
    config.addinivalue_line("markers", "service: services that are killed; run only in `make test-service`")
    config.addinivalue_line("markers", "kafka: pipelines through a broker; run only in `make test-kafka`")
    config.addinivalue_line("markers", "tables: pipelines into a lake; run only in `make test-tables`")
    config.addinivalue_line("markers", "cluster: a master and workers; run only in `make test-cluster`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is `deep` or of `service` unless asked for; Spark comes first, and beside it the laws.

    The laws compile the kernels of every method: by the time that the process of Spark has done its part and
    helps, there is little left to compile twice.
    """
    for mark in ("browser", "cluster", "deep", "kafka", "service", "tables"):
        if mark not in config.getoption("markexpr"):
            marked = [item for item in items if item.get_closest_marker(mark)]
            config.hook.pytest_deselected(items=marked)
            items[:] = [item for item in items if item not in marked]
    items.sort(key=lambda item: [not some.match(item.nodeid) for some in ORDER])


def pytest_collection_finish() -> None:
    """What was imported and collected stays anyway: the garbage collector need not walk it every time.

    Nor need it come often: compiling makes many objects, and a tenth of the time went into looking at them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that start Spark run in one process, one after the other: they share a session.

    So do the tests of a file that compiles kernels: two processes would compile the same at the same time.
    Groups by marker would say as much, but xdist 3.8 writes them where pytest 9.2 does not look.
    """
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if SPARK.match(nodeid):
                return "spark"
            file = FILES.match(nodeid)
            return file[1] if file else nodeid

    config.option.loadscopereorder = False
    return Scheduling(config, log)
