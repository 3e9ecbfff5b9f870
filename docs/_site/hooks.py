"""Pages that MkDocs generates from the product itself, so that they are never out of date.

- `reference/http.md` from the OpenAPI description, `reference/settings.md` from the settings of the service,
  `reference/commands.md` from the parsers of the command line, `reference/metrics.md` from the collectors,
  `reference/errors.md` from the classes of errors;
- `project/*.md` are the pages at the top of the repository, with adjusted links.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
TOP = {
    "ARCHITECTURE.md": "project/architecture.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_BACKTICKED = re.compile(r"``([^`]+)``")


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File  # noqa: PLC0415

    made = {
        "reference/http.md": http(),
        "reference/commands.md": commands(),
        "reference/metrics.md": metrics(),
        "reference/settings.md": settings(),
        "reference/errors.md": errors(),
        **{page: (ROOT / name).read_text() for name, page in TOP.items()},
    }
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Adjust links to pages of the repository; replace links to its other files by their names."""
    path = page.file.src_uri
    if path == "index.md":  # one page: neither a list of its neighbours nor of its headings
        page.meta["hide"] = ["navigation", "toc"]
    home = next(
        (Path(name).parent for name, made in TOP.items() if made == path), Path("docs") / Path(path).parent
    )
    return _LINK.sub(lambda found: _turned(found, home, Path(path).parent), markdown)


def _turned(found: re.Match[str], home: Path, here: Path) -> str:
    text, target = found.groups()
    place, _, anchor = target.partition("#")
    if "://" in target or not place:
        return found[0]
    whole = (ROOT / home / place).resolve()
    if not whole.is_relative_to(ROOT):
        return found[0]
    name = whole.relative_to(ROOT).as_posix()
    if name == "README.md":
        name = "docs/index.md"
    inside = TOP.get(name) or (name.removeprefix("docs/") if name.startswith("docs/") else None)
    if inside is None:
        return text if text.startswith("`") else f"`{name}`" if text == name else text
    up = "../" * len(here.parts) if here.parts else ""
    return f"[{text}]({up}{inside}{'#' + anchor if anchor else ''})"


def http() -> str:
    """Every route, from the OpenAPI description."""
    from rankcast.service.openapi import document  # noqa: PLC0415
    from rankcast.service.settings import Settings  # noqa: PLC0415

    told = document(Settings())
    lines = [
        "# HTTP",
        "",
        "All calls of `rankcast serve`. A running service describes them at `/openapi.json` and `/docs`. "
        "[The guide](../guides/service.md) has examples. An error is `application/problem+json` with "
        "`status`, `title`, `detail` and, for bad rows, `column`, `row`, `expected` and `hint`.",
        "",
    ]
    for path, calls in told["paths"].items():
        for method, call in calls.items():
            lines += [f"## {method.upper()} {path}", "", _sentences(call), ""]
            lines += _parameters(call.get("parameters", []))
            if "requestBody" in call:
                lines += [f"Body: {_content(call['requestBody'], told)}.", ""]
            lines += [f"Returns {_returned(call['responses'], told)}.", ""]
    return "\n".join(lines)


def _sentences(call: dict[str, Any]) -> str:
    return " ".join(call[key] for key in ("summary", "description") if call.get(key))


def _returned(answers: dict[str, Any], told: dict[str, Any]) -> str:
    """The codes of success, and what comes with the first of them."""
    codes = [code for code in answers if code != "default"]
    content = _content(answers[codes[0]], told)
    return " or ".join(f"`{code}`" for code in codes) + (f" with {content}" if content else "")


def _content(message: dict[str, Any], told: dict[str, Any]) -> str:
    """The media types of a body, and the fields that it has in JSON."""
    content = message.get("content", {})
    kinds = ", ".join(f"`{kind}`" for kind in content)
    fields = _fields(content.get("application/json", {}).get("schema", {}), told)
    return f"{kinds}; fields: {fields}" if fields else kinds


def _fields(schema: dict[str, Any], told: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _fields(told["components"]["schemas"][schema["$ref"].rpartition("/")[2]], told)
    if "anyOf" in schema:
        return next(filter(None, (_fields(each, told) for each in schema["anyOf"])), "")
    needed = schema.get("required", ())
    names = (f"`{name}`{'' if name in needed else ' (optional)'}" for name in schema.get("properties", {}))
    return ", ".join(names)


PARAMETERS = {
    "stream": "the name of the stream",
    "id": "the id of the subscription or object, percent-encoded",
    "batch": "the number of the batch",
    "name": "the name of the webhook",
    "file": "the name of the file",
    "Idempotency-Key": "any text, new for each write; a repeated write gets its first answer",
}


def _parameters(parameters: list[dict[str, Any]]) -> list[str]:
    rows = [
        f"| `{each['name']}` | {each['in']} | {_meaning(each)} |" for each in parameters if "name" in each
    ]
    return ["| parameter | in | meaning |", "| --- | --- | --- |", *rows, ""] if rows else []


def _meaning(parameter: dict[str, Any]) -> str:
    told = parameter.get("description") or PARAMETERS.get(parameter["name"], "")
    return str(told).replace("|", "&#124;")


def settings() -> str:
    """Every setting of the service, from the class."""
    from rankcast.service.settings import Settings  # noqa: PLC0415

    lines = [
        "# Service settings",
        "",
        "Settings of `rankcast serve`: in the file of `--config`, in the environment (`RANKCAST_SERVE_` and "
        "the name in capitals), or as `--set NAME=VALUE`. Flags override the environment, which overrides "
        "the file. Sizes are bytes, times are seconds. `rankcast serve --check` prints the values in effect.",
        "",
        "| setting | default | meaning |",
        "| --- | --- | --- |",
    ]
    for name, field in Settings.model_fields.items():
        large = type(field.default) is int and name != "port"
        default = f"{field.default:,}" if large else "none" if field.default == () else str(field.default)
        lines.append(f"| `{name}` | {default} | {field.description} |")
    return "\n".join([*lines, ""])


def commands() -> str:
    """Every command with its arguments, from its parser."""
    from rankcast.cli import COMMANDS  # noqa: PLC0415

    lines = ["# Commands", "", "`rankcast COMMAND --help` prints the same.", ""]
    for command in COMMANDS:
        parser = argparse.ArgumentParser(prog=f"rankcast {command.name}", description=command.summary)
        importlib.import_module(command.module).configure(parser)
        parser.formatter_class = _Wide
        lines += [
            f"## rankcast {command.name}",
            "",
            f"{command.summary[0].upper()}{command.summary[1:]}.",
            "",
        ]
        lines += ["```text", parser.format_help().strip(), "```", ""]
        for child in _children(parser):
            child.formatter_class = _Wide
            lines += ["```text", child.format_help().strip(), "```", ""]
    return "\n".join(lines)


def _children(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of the words that follow a command, such as `rankcast token add`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


class _Wide(argparse.HelpFormatter):
    """Help of one width on every machine."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100, max_help_position=28)


def metrics() -> str:
    """Every metric of the service and of pipelines, from the collectors themselves."""
    from rankcast.pipeline.progress import Progress, families  # noqa: PLC0415
    from rankcast.service.metrics import Metrics  # noqa: PLC0415

    class Nothing:
        counts: dict[Any, Any] = {}  # noqa: RUF012

        def all(self) -> list[Any]:
            return []

    service = Metrics()
    service.watch(Nothing(), Nothing())  # type: ignore[arg-type]
    parts = {
        "The service, at `/metrics`": list(service.registry.collect()),
        "A pipeline, with `--metrics-port`": list(families(Progress())),
    }
    lines = ["# Metrics", "", "In the format of Prometheus, where the names of counters end in `_total`.", ""]
    for title, found in parts.items():
        lines += [f"## {title}", "", "| metric | type | meaning |", "| --- | --- | --- |"]
        lines += [f"| `{each.name}` | {each.type} | {each.documentation} |" for each in found]
        lines.append("")
    return "\n".join(lines)


REMEDIES = {
    "RankcastError": "Catch it to catch all of them.",
    "InputError": "The text names the column, the row and what was expected; correct the rows, call again.",
    "SettingError": "Correct the setting; the text suggests the nearest known name.",
    "FunctionError": "Correct the function: it must return one finite number per row, for any distance.",
    "InterruptedEngineError": "Load the last snapshot. A `Shard` does so automatically.",
    "NestedCallError": "Call the engine after the running call has returned.",
    "SnapshotError": "Use another copy; a damaged snapshot is never loaded in part.",
    "JournalError": "Restore a copy of the directory, or open with `accept_loss=True`.",
    "ShardError": "Stop the other process, or open the directory with the engine it was made for.",
    "StaleTokenError": "Ask the shard for its token, and offer the batch after that one.",
    "ServiceError": "Read `status`, `column`, `row` and `hint`: they say what the service refused and why.",
    "MissingExtraError": "Install the extra that the text names.",
}


def errors() -> str:
    """Every error, what it means and what to do, from the classes."""
    from rankcast import errors as module  # noqa: PLC0415

    lines = [
        "# Errors",
        "",
        "Every error says what is wrong, often why (`detail`), and what to do (`hint`), each on its own "
        "line and as an attribute. A call that raises an `InputError` has changed nothing.",
        "",
        "| error | is a | what it means | what to do |",
        "| --- | --- | --- | --- |",
    ]
    for cls in _errors(module):
        bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
        what = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())
        lines.append(f"| `{cls.__name__}` | {bases} | {what} | {REMEDIES[cls.__name__]} |")
    return "\n".join([*lines, "", "The command `rankcast` prints the same text and exits with code 2.", ""])


def _errors(module: Any) -> Iterator[type[BaseException]]:
    for _, cls in inspect.getmembers(module, inspect.isclass):
        if issubclass(cls, BaseException) and cls.__module__ == module.__name__:
            yield cls
