"""The command `rankcast`.

A command is a row of `COMMANDS`: a name, a line of help, and the module that implements it. That module has
`configure(parser)`, which adds its arguments and sets the default `run`, a function that takes the parsed
arguments and returns the exit code. Only the module of the requested command is imported, so
`rankcast --version` and a mistyped word answer at once.

Exit codes: 0 for success; 2 for a user's mistake, with a message on standard error (on a terminal its detail
and hint have their own lines; elsewhere it is one line); 1 if a command finished and found a wrong result.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from rankcast._version import __version__
from rankcast.errors import RankcastError, plain

_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")
USAGE_MISTAKE = 2
INTERRUPTED = 130


class Command(NamedTuple):
    """One word after `rankcast`: its name, what it does, and the module with `configure`."""

    name: str
    summary: str
    module: str


COMMANDS: tuple[Command, ...] = (
    Command("run", "run the pipeline that a file describes", "rankcast.pipeline.run_command"),
    Command("replay", "run a pipeline over history, as a batch job", "rankcast.pipeline.replay_command"),
    Command(
        "reshard", "change the number of shards of a stopped pipeline", "rankcast.pipeline.reshard_command"
    ),
    Command("migrate", "change the settings of a stopped pipeline", "rankcast.pipeline.reshard_command"),
    Command("plan", "estimate what a load needs: shards, cores, memory", "rankcast.bench.plan_command"),
    Command("serve", "serve streams over HTTP", "rankcast.service.serve_command"),
    Command(
        "token", "create, list and revoke tokens of the service", "rankcast.service.operating.token_command"
    ),
    Command(
        "backup", "back up the data of a service, running or not", "rankcast.service.operating.backup_command"
    ),
    Command(
        "restore", "restore the data of a service from a backup", "rankcast.service.operating.backup_command"
    ),
    Command("top", "monitor a running service", "rankcast.service.operating.top_command"),
    Command("warm", "compile kernels ahead of their first use", "rankcast.warm"),
    Command("demo", "show pipelines, one engine or a city at work", "rankcast.demo.commands"),
    Command(
        "simulate", "simulate the broker network that a file describes", "rankcast.papers.network.commands"
    ),
    Command("bench", "run benchmark cases, report them, compare two runs", "rankcast.bench.commands"),
)


class _Parser(argparse.ArgumentParser):
    """A parser that answers a mistake with one line, with the nearest word, instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        chosen = _CHOICE.search(message)
        words = re.findall("'([^']+)'", chosen[2]) if chosen else []
        near = difflib.get_close_matches(chosen[1], words, n=1, cutoff=0.5) if chosen else []
        hint = f"did you mean '{near[0]}'? " if near else ""
        said = plain(_one_line(message))
        self.exit(USAGE_MISTAKE, f"{self.prog}: {said} ({hint}see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; only a bug of ours shows a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        parsed = _parser(words).parse_args(words)
        run: Callable[[argparse.Namespace], int] = parsed.run
        code = run(parsed)
        sys.stdout.flush()
        return code
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    except RankcastError as mistake:
        return _refuse(str(mistake))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as mistake:
        if mistake.filename is None:
            raise
        return _refuse(f"{mistake.filename}: {mistake.strerror}")
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser; only the first word's command gets its arguments, and hence its imports."""
    parser = _Parser(prog="rankcast", description="Ranked publish/subscribe: standing top-k queries.")
    parser.add_argument("--version", action="version", version=f"rankcast {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        child = commands.add_parser(command.name, help=command.summary, description=command.summary)
        if words[:1] == [command.name]:
            importlib.import_module(command.module).configure(child)
    return parser


def _refuse(text: str) -> int:
    """Print on standard error what the user should change, on several lines if it is a terminal."""
    said = plain(text, keep="\n") if sys.stderr.isatty() else plain(_one_line(text))
    sys.stderr.write(f"rankcast: {said}\n")
    return USAGE_MISTAKE


def _one_line(text: str) -> str:
    """Join the lines of a text into one."""
    return " ".join(part.strip() for part in text.splitlines() if part.strip())
