"""Hypothesis profiles: `fast` in `make test`, `thorough` in `make test-all`; one process for Spark."""

from __future__ import annotations

import gc
import os
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("fast", UNHURRIED, max_examples=100, derandomize=True)
settings.register_profile("thorough", UNHURRIED, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

SPARK = re.compile(r"tests/spark/test_(batch|connect|demo|guide|helpers|kills|pipeline\w*|streams)\.py::")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The laws come first: they take long, and they compile the kernels of every method.

    By the time that the process of Spark has done its part and helps, there is little left to compile twice.
    """
    items.sort(key=lambda item: not item.nodeid.startswith("tests/laws/"))


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

    Groups by marker would say the same, but xdist 3.8 writes them where pytest 9.2 does not look.
    """
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if SPARK.match(nodeid) else nodeid

    return Scheduling(config, log)
