"""`rankcast top`: a live view of a running service, made from its `/metrics`."""

from __future__ import annotations

import argparse
import os
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TypeAlias

from rankcast.errors import InputError, printable, required

Numbers: TypeAlias = Mapping[str, Mapping[str, float]]  # by stream, by name
TOKEN = "RANKCAST_TOKEN"  # noqa: S105  # the name of a variable
_COLUMNS = ("stream", "sequence", "writes/s", "a group", "told/s", "receivers", "waiting", "gaps", "log MiB")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--url", default="http://127.0.0.1:8765", help="address of the service")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="refresh interval")
    parser.add_argument("--once", action="store_true", help="print once and exit")
    parser.epilog = f"Set {TOKEN} to a token that may read all streams, if the service needs one."
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show it until somebody stops it."""
    required("rich", "serve")
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    if not arguments.url.startswith(("http://", "https://")):
        raise InputError(f"--url is {printable(arguments.url)}", expected="http://HOST:PORT")
    every = max(0.1, arguments.every)
    before, then = streams_of(fetched(arguments.url)), time.monotonic()
    time.sleep(min(every, 0.5) if arguments.once else 0.1)
    with Live(console=Console(), auto_refresh=False, transient=False) as live:
        while True:
            now, at = streams_of(fetched(arguments.url)), time.monotonic()
            live.update(view(before, now, at - then), refresh=True)
            if arguments.once:
                return 0
            before, then = now, at
            time.sleep(every)


def fetched(url: str) -> str:
    """The metrics of a service."""
    request = urllib.request.Request(f"{url.rstrip('/')}/metrics")  # noqa: S310  # the scheme was looked at
    token = os.environ.get(TOKEN)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            text: str = answer.read().decode()
            return text
    except urllib.error.HTTPError as error:
        with error:
            raise InputError(
                f"{url} answers {error.code}", hint=f"Set {TOKEN} to a token that may read."
            ) from error
    except (urllib.error.URLError, OSError) as error:
        raise InputError(f"{url} does not answer", detail=f"{error}.") from error


def streams_of(text: str) -> Numbers:
    """The numbers of each stream in Prometheus' form."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    found: dict[str, dict[str, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if "stream" in sample.labels:
                name = sample.name.removeprefix("rankcast_stream_").removesuffix("_total")
                found[sample.labels["stream"]][name] = sample.value
    return found


def view(before: Numbers, now: Numbers, seconds: float) -> Any:
    """A table with a line a stream."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(*_COLUMNS, box=None, pad_edge=False)
    for name, numbers in sorted(now.items()):
        was = before.get(name, {})
        more = {key: value - was.get(key, value) for key, value in numbers.items()}
        cells = (
            printable(name),
            f"{numbers['sequence']:.0f}",
            f"{more['writes'] / seconds:.0f}",
            f"{more['writes'] / more['groups']:.1f}" if more["groups"] else "-",
            f"{more['told'] / seconds:.0f}",
            f"{numbers['receivers']:.0f}",
            f"{numbers['queue']:.0f}",
            f"{numbers['dropped']:.0f}",
            f"{numbers['log_bytes'] / 2**20:.1f}",
        )
        table.add_row(*map(Text, cells))
    return table
