"""`rankcast replay CONFIG.toml`: the same pipeline over history, as a batch job."""

from __future__ import annotations

import argparse
import csv
import sys
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from rankcast.errors import plain
from rankcast.pipeline.run_command import checked

SHOWN = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rankcast replay`."""
    parser.add_argument("config", metavar="CONFIG.toml", help="the file that describes the pipeline")
    parser.add_argument(
        "--subscription",
        type=Path,
        metavar="FILE.json",
        help="show what this subscription would have received; writes nothing",
    )
    parser.add_argument(
        "--until",
        type=_until_argument,
        metavar="SEQ|TIME",
        help="the last row to process, by number or by time",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", metavar="PATH", help="write to this path, in the format of the sink")
    where.add_argument("--sink", action="store_true", help="write to the sink itself")
    parser.add_argument("-v", "--verbose", action="store_true", help="show Spark's log")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Replay, and print or write the output."""
    config = checked(arguments.config, trust=True)
    from rankcast.pipeline import running  # noqa: PLC0415
    from rankcast.pipeline.batch_replay import replay, write  # noqa: PLC0415

    with ExitStack() as stack:
        spark = running.begin(config, stack, quiet=not arguments.verbose)
        if arguments.verbose:
            spark.sparkContext.setLogLevel("INFO")
        frame = replay(config, spark, subscription=arguments.subscription, until=arguments.until)
        if arguments.subscription is None and (arguments.out or arguments.sink):
            write(config, frame, str(Path(arguments.out).absolute()) if arguments.out else None)
            return 0
        with running.told(config.hidden):
            told = frame.toArrow()
        show(told)
    return 0


def show(told: Any) -> None:
    """Print rows, by subscription (matching: event) and rank, as comma-separated values.

    People read them here, so unprintable characters are escaped; `--out` writes everything unchanged.
    """
    from rankcast.pipeline.progress import rows_of  # noqa: PLC0415

    first = "event" if "event" in told.column_names else "subscription"
    told = told.sort_by([(first, "ascending"), ("rank", "ascending")])
    if not any(told["reason"].is_valid().to_pylist()):
        told = told.drop_columns(["reason"])
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(told.column_names)
    for row in rows_of(told.slice(0, SHOWN)):
        lines.writerow([plain(value) if isinstance(value, str) else value for value in row.values()])
    if told.num_rows > SHOWN:
        sys.stderr.write(f"{told.num_rows - SHOWN:,} more rows; --out PATH writes all of them\n")


def _until_argument(text: str) -> int | datetime:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"is {text!r}, expected a sequence number or a time like 2025-01-31T12:00:00"
        ) from error
