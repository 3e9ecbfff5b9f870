"""`rankcast reshard` and `rankcast migrate`: a stopped pipeline goes on otherwise, in a new checkpoint.

`reshard CONFIG.toml --shards N` gives it other shards; `migrate CONFIG.toml` the settings of the engine that
the file has by now. The former checkpoint and state are only read.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankcast.errors import plain

if TYPE_CHECKING:
    from rankcast.pipeline.config import Config


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rankcast reshard`, or of `rankcast migrate`."""
    parser.add_argument("config", metavar="CONFIG.toml", help="the file that describes the pipeline")
    if parser.prog.endswith("reshard"):
        parser.add_argument(
            "--shards", type=_count, required=True, metavar="N", help="the new number of shards"
        )
        parser.add_argument(
            "--partitions", type=_count, metavar="N", help="shuffle partitions (default: one per shard)"
        )
        parser.add_argument(
            "--load",
            type=loads_of,
            metavar="SHARD=N,...",
            help="load of each shard, as reported for a hot one; new shards get equal loads",
        )
    parser.add_argument(
        "--checkpoint", metavar="PLACE", help="the new checkpoint (default: beside the old one)"
    )
    parser.add_argument(
        "--state",
        metavar="PLACE",
        help="the new state (default: inside the new checkpoint, or beside the old state)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Make the new checkpoint and state, and say what to change in the file."""
    from rankcast.pipeline import running  # noqa: PLC0415
    from rankcast.pipeline.run_command import checked  # noqa: PLC0415

    config = checked(arguments.config, trust=True)
    shards = getattr(arguments, "shards", None)
    checkpoint, state = places(config, arguments, "-migrated" if shards is None else f"-{shards}-shards")
    from rankcast.spark import migrate, reshard  # noqa: PLC0415

    given: dict[str, Any] = {
        "state": config.state,
        "checkpoint": config.checkpoint,
        "to_state": state,
        "to_checkpoint": checkpoint,
    }
    with ExitStack() as stack:
        running.lock(config, stack)
        spark = running.begin(config, stack)
        with running.told(config.hidden):
            if shards is None:
                migrate(spark, config.engine.engine(), **given)
            else:
                given |= {"partitions": arguments.partitions, "loads": arguments.load}
                reshard(spark, shards=shards, **given)
    settings = {"checkpoint": f'"{checkpoint}"'}
    settings |= {} if state == f"{checkpoint}/rankcast" else {"state": f'"{state}"'}
    settings |= {} if shards is None else {"shards": str(shards)}
    told = ", ".join(f"{name} = {value}" for name, value in settings.items())
    rest = f"{config.checkpoint} can go once the pipeline has run"
    sys.stdout.write(plain(f"made {checkpoint}: set {told} in {arguments.config}; {rest}") + "\n")
    return 0


def places(config: Config, arguments: argparse.Namespace, suffix: str) -> tuple[str, str]:
    """Where the new checkpoint and the new state go."""
    from rankcast.pipeline.toml_reader import place_of  # noqa: PLC0415

    old = config.checkpoint.rstrip("/")
    checkpoint = place_of(arguments.checkpoint, Path.cwd()) if arguments.checkpoint else f"{old}{suffix}"
    if arguments.state:
        return checkpoint, place_of(arguments.state, Path.cwd())
    inside = config.state == f"{old}/rankcast"
    return checkpoint, f"{checkpoint}/rankcast" if inside else f"{config.state.rstrip('/')}{suffix}"


def loads_of(text: str) -> dict[int, float]:
    """What each shard costs.

    >>> loads_of("0=1.5,2=9")
    {0: 1.5, 2: 9.0}
    """
    try:
        parts = [part.split("=") for part in text.split(",")]
        found = {int(shard): float(load) for shard, load in parts}
        if not all(0 <= load < float("inf") for load in found.values()):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"is {text!r}, expected shards and loads: 0=1.5,2=9") from None
    return found


def _count(text: str) -> int:
    with suppress(ValueError):
        if int(text) >= 1:
            return int(text)
    raise argparse.ArgumentTypeError(f"is {text!r}, expected a whole number from 1")
