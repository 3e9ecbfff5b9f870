"""What Spark says when something goes wrong, in one line for the user."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rankcast.errors import RankcastError
from rankcast.pipeline.mistakes import PipelineError, veiled

_OURS = re.compile(r"rankcast(?:\.\w+)*\.\w+Error: (.+)")
_PYTHON = re.compile(
    r"Traceback \(most recent call last\):\n.*?^ *(\w[\w.]*(?:Error|Exception)\b[^\n]*)", re.S | re.M
)
_CALL = re.compile(r"^An error occurred while calling \S+\s*: ")
_CONDITION = re.compile(r"^(?:[\w.]+Exception: )?\[([A-Z0-9_.]+)\]\s*")
_NOISE = re.compile(r"\s*(SQLSTATE: \w+|JVM stacktrace:|=== Streaming Query ===).*", re.S)
_FILE = re.compile(r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (.+?)\.\s")
_COLUMN = re.compile(
    r"mismatches when reading Parquet column \[(.+?)\]\. Expected Spark type (.+?), actual Parquet type (\w+)"
)
_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: (.*?)\s+Schema: (.*?)\n.*?CSV file: (\S+)", re.S
)
_CAUSE = re.compile(r"Caused by: (?:[\w.$]+(?:Exception|Error): )([^\n]+)")
_AGAIN = (
    "Write it anew under the same name, or remove it and set sql.files.ignoreMissingFiles = true in [spark]; "
    "then start again: the pipeline goes on where it stopped."
)
_JARS = 'Name its package in [spark], for example jars.packages = "group:artifact:version".'


@contextmanager
def told(hidden: Mapping[str, str] | None = None) -> Iterator[None]:
    """Let errors of Spark's come out as one line, without what is hidden; all others pass."""
    try:
        yield
    except RankcastError:
        raise
    except Exception as error:
        if not is_sparks(error):
            raise
        raise explained(veiled(str(error), hidden or {})) from error


def is_sparks(error: BaseException) -> bool:
    """Whether an error comes from Spark."""
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j")


def explained(text: str) -> PipelineError:
    """What matters of a text of Spark's: our own word inside it, that of Python, or its first line."""
    ours, python = _OURS.search(text), _PYTHON.search(text)
    if ours is not None:
        return PipelineError(f"the pipeline has stopped: {ours[1].strip()}")
    file = _file(text)
    if file is not None:
        return file
    if python is not None:
        return PipelineError(f"a Python worker has failed: {python[1].strip()}")
    plain = _NOISE.sub("", _CONDITION.sub("", _CALL.sub("", text))).strip().splitlines()
    missing = "DATA_SOURCE_NOT_FOUND" in text or "ClassNotFoundException" in text
    told = plain[0].strip() if plain else text[:200]
    return PipelineError(f"Spark says: {told}", hint=_JARS if missing else None)


def _file(text: str) -> PipelineError | None:
    """What is said of a file that does not fit its source any more; None if it is not about one."""
    header, found = _HEADER.search(text), _FILE.search(text)
    if header is not None:
        return PipelineError(
            f"the pipeline has stopped: {header[3]} has other columns than the source",
            detail=f"It has {header[1]}; declared are {header[2]}.",
            hint=_AGAIN,
        )
    if found is None:
        return None
    column = _COLUMN.search(text, found.start())
    if column is not None:
        name, wanted, given = column.groups()
        what = f'the column "{name}" has the type {given}, expected {wanted}'
        return PipelineError(
            f"the pipeline has stopped: in {found[1]} {what}",
            detail="A source has the types that it had when the pipeline was started.",
            hint=_AGAIN,
        )
    cause = _CAUSE.search(text, found.end())
    why = cause[1].strip() if cause is not None else "Spark does not say why."
    return PipelineError(f"the pipeline has stopped: {found[1]} cannot be read", detail=why, hint=_AGAIN)
