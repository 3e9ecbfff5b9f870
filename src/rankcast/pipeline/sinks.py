"""Where deltas go: a format of Spark's, the file of current results, or a function that shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from rankcast.errors import InputError
from rankcast.pipeline.config import Config
from rankcast.pipeline.results import Results

Tell = Callable[[int, pa.Table], None]
COLLECTED = ("results", "console")
_JSON = ("cast({} as string) as key", "to_json(struct(*)) as value")


class Collecting:
    """Takes the rows of every micro-batch to the driver: into the results, and to whoever listens.

    Spark calls it with a micro-batch, and again with the same one after a crash. The rows are had in one
    action: a second one would run all shards again.
    """

    def __init__(self, results: Results | None, tell: Tell | None) -> None:
        self._results = results
        self._tell = tell
        self.query: Callable[[], str] = str

    def __call__(self, frame: Any, number: int) -> None:
        """Take one micro-batch."""
        told = frame.toArrow()
        new = self._results is None or self._results.apply(self.query(), number, told)
        if new and self._tell is not None:
            self._tell(number, told)


def results_of(config: Config) -> Results | None:
    """The results that a pipeline keeps, if it does."""
    if config.sink.format != "results":
        return None
    return Results(str(config.sink.path), ranked=is_ranked(config))


def is_ranked(config: Config) -> bool:
    """Whether deltas tell all scores and ranks; those of moving queries change without a delta."""
    return not config.engine.kind.startswith("Moving")


def collecting(config: Config, tell: Tell | None) -> Collecting | None:
    """What takes the rows to the driver, for sinks that are there."""
    if config.sink.format in COLLECTED:
        return Collecting(results_of(config), tell)
    if tell is not None:
        raise InputError(
            f"the rows of a pipeline into {config.sink.format} do not come by here",
            expected=f"a sink that is one of: {', '.join(COLLECTED)}",
        )
    return None


def written(config: Config, frame: Any, collecting: Collecting | None) -> Any:
    """The stream's writer."""
    if collecting is not None:
        return frame.writeStream.foreachBatch(collecting)
    sink = config.sink
    writer = shaped(config, frame).writeStream.format(sink.format).options(**sink.options)
    return writer if sink.path is None else writer.option("path", sink.path)


def shaped(config: Config, frame: Any) -> Any:
    """The rows as the sink takes them: a queue takes a key, the subscription, and a value, JSON."""
    if config.sink.format != "kafka":
        return frame
    return frame.selectExpr(*(each.format("subscription") for each in _JSON))
