"""Whether a pipeline can continue with its state and checkpoint, checked before Spark starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from rankcast.errors import ShardError
from rankcast.pipeline.config import Config
from rankcast.pipeline.toml_reader import local
from rankcast.spark import plan
from rankcast.spark.plan import Plan
from rankcast.state.depot import Depot


def check(config: Config) -> None:
    """Refuse a state on this machine that was made for another engine, other settings, ids or shards.

    What only Spark can tell counts as fitting: it is checked again when the pipeline starts.

    Raises:
        ShardError: the state does not fit, or is missing although the checkpoint exists.
        SnapshotError: it is damaged.
    """
    if local(config.state) is None:
        return
    there = plan.read(Depot.open(config.state))
    if there is None:
        _check_alone(config)
        return
    commands = config.sources["subscriptions"].stream
    there.go_on(_wanted(config, there), config.state, config.shards, commands=commands)


def _check_alone(config: Config) -> None:
    """Refuse a checkpoint that has come some way without its state."""
    folder = local(config.checkpoint)
    if folder is not None and (folder / "commits").is_dir() and any((folder / "commits").iterdir()):
        raise ShardError(
            f"{config.checkpoint} belongs to a state that is not at {config.state}",
            hint="Give the pipeline the state it began with, or begin with a new checkpoint.",
        )


def _wanted(config: Config, there: Plan) -> Plan:
    """The plan that the file asks for, as far as it can be told; the rest as it is there."""
    engine = config.engine
    if not engine.is_imported:
        return replace(there, kind=engine.kind)
    settings: dict[str, Any] = dict(engine.sample().state()[0]["settings"])
    if not engine.is_whole:
        settings |= {name: there.settings[name] for name in engine.left_out[:1] if name in there.settings}
    ids = {name: _ids(config, name, former) for name, former in there.ids.items()}
    return replace(there, kind=engine.kind, settings=settings, score=engine.score, ids=ids)


def _ids(config: Config, name: str, former: str) -> str:
    source = config.sources.get(name)
    given = None if source is None else source.given()
    if source is None or given is None:
        return former
    return "long" if pa.types.is_integer(source.projected(given)["id"][1]) else "string"
