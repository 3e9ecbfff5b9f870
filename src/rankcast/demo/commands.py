"""`rankcast demo [NAME]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rankcast.demo import scenes
from rankcast.errors import MissingExtraError

NAMES = (*scenes.NAMES, "city")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rankcast demo`."""
    told = f"one engine: {', '.join(scenes.NAMES)}; all of them: city; without a name: two pipelines on Spark"
    parser.add_argument("name", nargs="?", choices=NAMES, metavar="NAME", help=told)
    parser.add_argument("--batches", type=_positive, help="how many batches (60; on Spark 20)")
    parser.add_argument("--seconds", type=_positive, default=24, help="how long the city is shown (24)")
    parser.add_argument("--seed", type=_seed, default=7, help="seed of everything that happens (7)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="where the page goes (out/demo.html)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what Spark has to say")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play one scene, the city, or the pipelines."""
    try:
        from rich.console import Console  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError("bench", needs="rich") from error
    console = Console(highlight=False)
    if arguments.name == "city":
        from rankcast.demo.city.show import show  # noqa: PLC0415

        target = arguments.report or Path("out/city.html")
        show(console, seconds=arguments.seconds, seed=arguments.seed, target=target)
        return 0
    if arguments.name is None:
        from rankcast.demo.pipelines import show as pipelines  # noqa: PLC0415

        target = arguments.report or Path("out/demo.html")
        files, seed = arguments.batches or 20, arguments.seed
        return pipelines.show(console, files=files, seed=seed, target=target, verbose=arguments.verbose)
    from rankcast.demo.stage import play  # noqa: PLC0415

    batches = arguments.batches or 60
    play(scenes.build(arguments.name, batches=batches, seed=arguments.seed), batches, console)
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value
