"""A query that Spark gives up before it has done anything is started again; any other failure is told."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from rankcast.pipeline.running import STARTS, Running
from rankcast.pipeline.toml_reader import PipelineError

LATE = "[STREAM_FAILED] Query [id = 1] terminated: Python worker failed to connect back. SQLSTATE: XXKST"


class Query:
    """A query that fails with a word, or ends well; with micro-batches done before, or without."""

    def __init__(self, failure: str | None, done: Any = None) -> None:
        self.failure = failure
        self.lastProgress = done

    def awaitTermination(self, seconds: float | None = None) -> bool:  # noqa: N802
        if self.failure is not None:
            raise StreamingQueryException(self.failure)
        return True


def running(*queries: Query) -> tuple[Running, list[Query]]:
    left = list(queries)
    return Running(left.pop(0), lambda: left.pop(0), ExitStack(), {}), left


@pytest.mark.parametrize("seconds", [None, 1.0])
def test_a_late_worker_is_waited_for(seconds: float | None) -> None:
    found, left = running(Query(LATE), Query(LATE), Query(None), Query(None))
    assert found.wait(seconds)
    assert len(left) == 1


def test_not_for_ever() -> None:
    found, left = running(*(Query(LATE) for _ in range(STARTS + 1)))
    with pytest.raises(PipelineError, match="connect back") as caught:
        found.wait()
    assert "too busy" in str(caught.value.hint)
    assert len(left) == 1


@pytest.mark.parametrize("query", [Query("the disk is full"), Query(LATE, done={"batchId": 3})])
def test_all_else_is_told_at_once(query: Query) -> None:
    found, left = running(query, Query(None))
    with pytest.raises(PipelineError):
        found.wait()
    assert len(left) == 1
