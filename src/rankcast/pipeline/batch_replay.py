"""A pipeline over history: the same sources, columns and engine, as a batch job through `snapshot`."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from rankcast.errors import InputError
from rankcast.pipeline import frames, running, sinks, tables
from rankcast.pipeline.config import Config
from rankcast.pipeline.sources import ENDLESS, SEQ, literal


def replay(
    config: Config, session: Any, *, subscription: Path | None = None, until: int | datetime | None = None
) -> Any:
    """Run a pipeline over what its sources hold now; returns a DataFrame like that of `snapshot`.

    Args:
        config: what `read` returned.
        session: the Spark session to run in.
        subscription: a JSON file with one subscription, which replaces all others: what it would have
            received.
        until: the last row to process, by sequence number, or by the column `time` of events.

    Raises:
        InputError: a source has no history, or the subscription does not fit.
        PipelineError: Spark cannot run it.
    """
    from rankcast.spark import snapshot  # noqa: PLC0415

    for source in config.sources.values():
        if source.format in ENDLESS:
            raise InputError(f"is of the format {source.format}, which has no history", where=source.name)
    if config.output is not None:
        raise InputError(
            f"is {config.output}, which are for receivers that follow the stream",
            where="output",
            expected="a file without it, whose replay tells lists",
        )
    row = None if subscription is None else _row(subscription)
    with running.told(config.hidden):
        given = frames.open_all(
            config, session, history=True, only={} if row is None else {"subscriptions": row}
        )
        if until is not None:
            given = {
                name: _until(config, name, frame, until) if config.sources[name].stream else frame
                for name, frame in given.items()
            }
        given, wanted = (given, None) if row is None else _alone(config, session, given)
        told = snapshot(
            config.engine.engine(),
            given["events"],
            given["subscriptions"],
            objects=given.get("objects"),
            seq=SEQ,
            shards=config.shards,
            bad_rows=config.bad_rows,
            score=config.engine.score,
        )
        return told if wanted is None else told.where(wanted)


def write(config: Config, frame: Any, path: str | None) -> None:
    """Write the rows of a replay in the sink's batch form: to the given path, or, for None, to the sink.

    Raises:
        InputError: the sink is a file that only the stream may write.
    """
    sink = config.sink
    if sink.format == "results":
        if path is None:
            raise InputError("the file of results is the stream's own", where="sink", expected="--out PATH")
        with running.told(config.hidden):
            told = frame.toArrow()
        sinks.Results(path, ranked=sinks.is_ranked(config)).put("replay", told)
        return
    if sink.format == "serve" and path is None:
        raise InputError("the service takes what the stream tells", where="sink", expected="--out PATH")
    if sink.format == tables.FORMAT and path is None:
        raise InputError("the tables are the stream's own", where="sink", expected="--out PATH")
    place = path or sink.path
    format_ = "parquet" if sink.format in ("console", "serve") else sink.format
    with running.told(config.hidden):
        writer = sinks.shaped(config, frame).write.format(format_).options(**sinks.options_of(sink))
        writer.save(place) if place is not None else writer.save()


def _until(config: Config, name: str, frame: Any, until: int | datetime) -> Any:
    """The rows of a stream up to a sequence number or a time."""
    if isinstance(until, int):
        if SEQ not in (config.fits[name] or {SEQ}):
            raise InputError("has no sequence numbers of its own", where=name, expected="a time to go up to")
        return frame.where(f"{SEQ} <= {until}")
    if "time" in frame.columns:
        return frame.where(f"time <= timestamp {literal(until.isoformat(sep=' '))}")
    if name == "events":
        raise InputError('has no column "time"', where=name, expected="a sequence number to go up to")
    return frame


def _row(path: Path) -> dict[str, Any]:
    """One subscription, written like a row of the source."""
    try:
        row = json.loads(path.read_text())
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise InputError(f"{path} is no JSON object", expected='one subscription: {"id": ..., ...}')
    return row


def _alone(config: Config, spark: Any, given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The inputs that tell what one subscription receives, and which answers are its own.

    Ranked results depend on no other subscription; which subscriptions match an event best depends on all.
    Positions of moving queries are those of this one.
    """
    mine = given["subscriptions"]
    name = mine.select("id").first()[0]
    if name is None:
        raise InputError("has no id", where="subscriptions", expected="an integer or a string")
    same = literal(name) if isinstance(name, str) else str(name)
    inputs, answer = {each.name: each for each in config.engine.inputs}, config.engine.spec.answer
    if inputs["events"].column == answer.subscription:
        given = {**given, "events": given["events"].where(f"id = {same}")}
    if answer.kind == "matches":
        others = frames.open_all(config, spark, history=True)["subscriptions"]
        if config.sources["subscriptions"].stream:
            raise InputError(
                "is a stream of commands", where="subscriptions", expected="a table, to try one more beside"
            )
        given = {
            **given,
            "subscriptions": others.where(f"id <> {same}").unionByName(mine, allowMissingColumns=True),
        }
    return given, f"subscription = {same}"
