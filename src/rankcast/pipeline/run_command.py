"""`rankcast run CONFIG.toml`: check a pipeline file, run it, show its progress."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from contextlib import ExitStack, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from rankcast.errors import plain
from rankcast.pipeline.toml_reader import PipelineError

if TYPE_CHECKING:
    from rankcast.pipeline.config import Config
    from rankcast.pipeline.progress import View
    from rankcast.pipeline.running import Running

INTERRUPTED = 130
_NO_COMPILING = "NUMBA_DISABLE_JIT"
_STEP = 0.25


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rankcast run`."""
    parser.add_argument("config", metavar="CONFIG.toml", help="the file that describes the pipeline")
    parser.add_argument(
        "--check",
        action="store_true",
        help="only check the file; starts no Spark and runs no code that the file names",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="with --check: also import a module:name that the file names, which runs that module",
    )
    parser.add_argument("--once", action="store_true", help="process the available input and stop")
    parser.add_argument(
        "--metrics-port",
        type=_port,
        metavar="N",
        help="port for Prometheus metrics on this machine (0: any free port)",
    )
    parser.add_argument(
        "--metrics-host",
        metavar="HOST",
        help="address for metrics; with another than 127.0.0.1 (default) other machines can read them",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show Spark's log")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check, and run to the end or to a signal."""
    config = checked(arguments.config, trust=arguments.trust or not arguments.check)
    from rankcast.pipeline import resuming  # noqa: PLC0415

    resuming.check(config)
    if arguments.check:
        sys.stdout.write(f"{plain(arguments.config)}: {summary(config)}\n")
        return 0
    signals = Signals()
    with signals:
        _run(config, arguments, signals)
    return INTERRUPTED if signals.came() == signal.SIGINT else 0


def checked(path: str, *, trust: bool) -> Config:
    """Read a file. This process compiles no kernels, because it runs none: that would take longest."""
    former = os.environ.get(_NO_COMPILING)
    os.environ[_NO_COMPILING] = "1"
    try:
        import numba  # noqa: F401, PLC0415
    finally:
        del os.environ[_NO_COMPILING]
        if former is not None:
            os.environ[_NO_COMPILING] = former
    from rankcast.pipeline.config import read  # noqa: PLC0415

    return read(path, trust=trust)


def summary(config: Config) -> str:
    """One line on a valid pipeline."""
    sources = ", ".join(f"{name} from {each.format}" for name, each in config.sources.items())
    open_ = [name for name, fit in config.fits.items() if fit is None]
    rest = f"; columns of {', '.join(open_)} are checked once Spark has opened them" if open_ else ""
    left = f"; not checked: {'; '.join(config.unchecked)}" if config.unchecked else ""
    return plain(f"valid: {config.engine.kind}, {sources}, into {config.sink.format}{rest}{left}")


def _run(config: Config, arguments: argparse.Namespace, signals: Signals) -> None:
    from rankcast.pipeline import progress, running  # noqa: PLC0415
    from rankcast.pipeline.progress import View  # noqa: PLC0415

    with ExitStack() as stack:
        view = stack.enter_context(View(config.name, sys.stderr, rows=config.sink.rows))
        tell = view.changed if config.sink.format == "console" else None
        spark = running.begin(config, stack, quiet=not arguments.verbose)
        if arguments.verbose:
            spark.sparkContext.setLogLevel("INFO")
        query = running.start(config, spark, once=arguments.once, tell=tell)
        signals.listen()
        if arguments.metrics_port is not None:
            host = arguments.metrics_host or progress.HOST
            port = stack.enter_context(progress.served(query, arguments.metrics_port, host))
            sys.stderr.write(f"metrics: http://{host}:{port}/metrics\n")
        try:
            _watch(query, view, signals)
        finally:
            _end(query, quiet=not arguments.verbose)
            view.show(query.progress)


def _watch(query: Running, view: View, signals: Signals) -> None:
    """Show progress until the end, or until a signal comes."""
    ended = False
    while not (ended or signals.came()):
        try:
            ended = query.wait(_STEP)
        except PipelineError:
            if not signals.came():
                raise
            return
        view.show(query.progress)


def _end(query: Running, *, quiet: bool) -> None:
    if quiet:  # nobody wants to read of a micro-batch that is cut off
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
    query.stop()


class Signals:
    """Ctrl-C and SIGTERM, recorded instead of obeyed at once; Spark installs its own handler before ours."""

    def __init__(self) -> None:
        self._came = 0
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def came(self) -> int:
        """The last signal, 0 if none has come."""
        return self._came

    def listen(self) -> None:
        """Take the signals, again if somebody else has taken them."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                former = signal.signal(number, self._note)
                self._former.setdefault(number, former)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = number


def _port(text: str) -> int:
    with suppress(ValueError):
        if 0 <= int(text) < 1 << 16:
            return int(text)
    raise argparse.ArgumentTypeError(f"is {text!r}, expected a port from 0 to 65535")
