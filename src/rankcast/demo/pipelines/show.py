"""`rankcast demo`: both pipelines in one session, from the first file to the report."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax

from rankcast.demo import pages
from rankcast.demo.pipelines import feeds, report
from rankcast.demo.pipelines.board import Board, summary
from rankcast.demo.pipelines.flow import Flow
from rankcast.pipeline import running
from rankcast.pipeline.run_command import INTERRUPTED, Signals

PAUSE = 1.0  # seconds between two files at least ...
PATIENCE = 4.0  # ... and at most, where a machine takes longer to work on them


def show(
    console: Console, *, files: int, seed: int, target: Path, verbose: bool = False, session: Any = None
) -> int:
    """Run both pipelines until their files are worked on, or until Ctrl-C; returns the exit code.

    Args:
        console: where to show it.
        files: how many files come to each.
        seed: of what is in them.
        target: where the report goes.
        verbose: let Spark say what it has to.
        session: a Spark session to run in; by default one is begun and stopped.
    """
    signals = Signals()
    with signals, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rankcast-demo-")))
        flows = [Flow(make(seed, files), folder) for make in (feeds.messages, feeds.quotes)]
        _introduce(console, flows[0])
        spark = session or running.begin(flows[0].config, stack, quiet=not verbose)
        if verbose:
            spark.sparkContext.setLogLevel("INFO")
        signals.listen()
        with _undisturbed(signals):
            try:
                _run(flows, spark, console, signals)
            finally:
                _end(flows, spark, quiet=not verbose and session is None)
        if signals.came():
            console.print("stopped")
            return INTERRUPTED if signals.came() == signal.SIGINT else 0
        console.print(summary(flows))
        written = pages.write(target, report.page(flows, seed))
        console.print(f"\nThe report with its plots: {written.as_uri()}", soft_wrap=True)
    return 0


@contextmanager
def _undisturbed(signals: Signals) -> Iterator[None]:
    """What Spark says on the way out, when a signal has reached it, too, is of no use to anybody."""
    try:
        yield
    except Exception as error:
        if not signals.came() or not (isinstance(error, OSError) or running.is_sparks(error)):
            raise


def _introduce(console: Console, flow: Flow) -> None:
    """Show the file of a pipeline while Spark starts."""
    if console.is_terminal:
        code = Syntax(flow.feed.file.rstrip(), "toml", background_color="default", word_wrap=True)
        console.print(Panel(code, title=f"{flow.feed.name}.toml", title_align="left", border_style="dim"))
    console.print("Two pipelines like this one on local Spark, which starts now ...", soft_wrap=True)


def _run(flows: Sequence[Flow], spark: Any, console: Console, signals: Signals) -> None:
    """Let files come, and show what becomes of them, until all is done or a signal comes.

    The second pipeline starts when the first has worked on something: both at once would wait for each other.
    """
    board, waiting = Board(flows, console), list(flows)
    with ExitStack() as stack:
        live = stack.enter_context(Live(console=console, auto_refresh=False)) if console.is_terminal else None
        while not signals.came() and not all(flow.done for flow in flows):
            begun = [flow for flow in flows if flow not in waiting]
            if waiting and all(flow.batches for flow in begun):
                waiting.pop(0).start(spark)
                continue
            for flow in begun:
                flow.offer_in_time(PAUSE, PATIENCE)
                flow.look()
            if live is None:
                board.print_lines()
            else:
                live.update(board.view(), refresh=True)
            time.sleep(0.05)


def _end(flows: Sequence[Flow], spark: Any, *, quiet: bool) -> None:
    if quiet:
        spark.sparkContext.setLogLevel("OFF")  # of tasks that are cut off
    for flow in flows:
        if flow.running is not None:
            flow.running.stop()
