"""`rankcast plan ENGINE ...`: what a load needs, from constants measured on this machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankcast.bench.planning import Constants, Load, Planned

CACHE = "RANKCAST_PLAN_CACHE"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rankcast plan`."""
    parser.add_argument("engine", metavar="ENGINE", help="RangeTopK, RankedMatcher or GeoTextTopK")
    parser.add_argument(
        "--subscriptions", type=_number, required=True, metavar="N", help="number of subscriptions"
    )
    parser.add_argument("--events", type=_number, required=True, metavar="N", help="events per second")
    parser.add_argument("--k", type=_number, default=10, metavar="N", help="k of the engine (10)")
    parser.add_argument(
        "--items",
        type=_number,
        default=20_000,
        metavar="N",
        help="live objects, or size of the window (20,000)",
    )
    parser.add_argument(
        "--memory", type=_number, default=32, metavar="GB", help="most memory for one shard (32)"
    )
    parser.add_argument("--again", action="store_true", help="measure this machine again")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, unless it is known, and say what the load needs."""
    from rankcast.bench.planning import Load, plan  # noqa: PLC0415

    load = Load(arguments.engine, arguments.subscriptions, arguments.events, arguments.k, arguments.items)
    known = constants(load, again=arguments.again)
    sys.stdout.write(told(load, known, plan(load, known, memory=arguments.memory * 1e9)))
    return 0


def constants(load: Load, *, again: bool = False) -> Constants:
    """The constants of a load, from the cache of this machine or measured now."""
    from rankcast._version import __version__  # noqa: PLC0415
    from rankcast.bench.planning import Constants, calibrate  # noqa: PLC0415

    path = Path(os.environ.get(CACHE) or Path.home() / ".cache" / "rankcast" / "plan.json")
    name = f"{__version__} {platform.node()} {load.engine} k={load.k} items={load.items} by sizes"
    try:
        kept = json.loads(path.read_text())
        if not again:
            return Constants(**{key: _kept(value) for key, value in kept[name].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        kept = {}
    known = calibrate(load)
    kept = {**(kept if isinstance(kept, dict) else {}), name: asdict(known)}
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps(kept, indent=1))
    fresh.replace(path)
    return known


def _kept(value: Any) -> Any:
    """A number, or several, as they were kept."""
    return tuple(map(float, value)) if isinstance(value, list) else float(value)


def told(load: Load, known: Constants, found: Planned) -> str:
    """What a load needs, in words."""
    streams = (
        "" if found.streams == 1 else f" in each of {found.streams} streams, between which events are divided"
    )
    partitions = found.shards
    lines = [
        f"{load.engine}, {load.subscriptions:,} subscriptions, {load.events:,} events a second, k = {load.k}",
        f"  an event: {known.event * 1e6:.2f} us a shard, {known.subscription * 1e9:.3f} ns a subscription",
        f"  shards: {found.shards:,}{streams}",
        f"  cores: {found.cores:,}, {found.seconds * 1e6:,.1f} us of them an event without Spark",
        f"  memory: {found.memory / 1e9:,.1f} GB of shards and room to write them down",
        f"  network: {found.network_in / 1e6:,.1f} MB/s in, {found.network_out / 1e6:,.1f} MB/s of answers",
        f"  Spark: sql.shuffle.partitions = {partitions}, executor cores = shards, one thread an engine",
        f"  breaks first: {found.first}",
    ]
    return "\n".join(lines) + "\n"


def _number(text: str) -> int:
    """A whole number above 0; 100_000, 100k and 1M are fine."""
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        found = round(float(text[:-1] if scale > 1 else text) * scale)
    except (ValueError, OverflowError):
        found = 0
    if found < 1:
        raise argparse.ArgumentTypeError(f"is {text!r}, expected a number from 1, such as 100k or 1M")
    return found
