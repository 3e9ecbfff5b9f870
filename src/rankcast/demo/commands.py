"""`rankcast demo [NAME]`."""

from __future__ import annotations

import argparse

from rankcast.demo import scenes
from rankcast.errors import MissingExtraError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rankcast demo`."""
    parser.add_argument("name", nargs="?", choices=scenes.NAMES, metavar="NAME", help=", ".join(scenes.NAMES))
    parser.add_argument("--batches", type=_positive, default=60, help="how many batches a scene has (60)")
    parser.add_argument("--seed", type=int, default=7, help="seed of the stream (7)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play one scene, or all of them."""
    try:
        from rich.console import Console  # noqa: PLC0415

        from rankcast.demo.stage import play  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError("bench", needs="rich") from error
    console = Console(highlight=False)
    for name in [arguments.name] if arguments.name else scenes.NAMES:
        scene = scenes.build(name, batches=arguments.batches, seed=arguments.seed)
        play(scene, arguments.batches, console)
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
