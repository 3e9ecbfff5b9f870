"""What Spark says when something goes wrong, in one line for the user."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rankcast.errors import RankcastError
from rankcast.pipeline.mistakes import PipelineError

_OURS = re.compile(r"rankcast(?:\.\w+)*\.\w+Error: (.+)")
_PYTHON = re.compile(
    r"Traceback \(most recent call last\):\n.*?^ *(\w[\w.]*(?:Error|Exception)\b[^\n]*)", re.S | re.M
)
_CALL = re.compile(r"^An error occurred while calling \S+\s*: ")
_CONDITION = re.compile(r"^(?:[\w.]+Exception: )?\[([A-Z0-9_.]+)\]\s*")
_NOISE = re.compile(r"\s*(SQLSTATE: \w+|JVM stacktrace:|=== Streaming Query ===).*", re.S)
_JARS = 'Name its package in [spark], for example jars.packages = "group:artifact:version".'


@contextmanager
def told() -> Iterator[None]:
    """Let errors of Spark's come out as one line; all others pass."""
    try:
        yield
    except RankcastError:
        raise
    except Exception as error:
        if not is_sparks(error):
            raise
        raise explained(str(error)) from error


def is_sparks(error: BaseException) -> bool:
    """Whether an error comes from Spark."""
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j")


def explained(text: str) -> PipelineError:
    """What matters of a text of Spark's: our own word inside it, that of Python, or its first line."""
    ours, python = _OURS.search(text), _PYTHON.search(text)
    if ours is not None:
        return PipelineError(f"the pipeline has stopped: {ours[1].strip()}")
    if python is not None:
        return PipelineError(f"a Python worker has failed: {python[1].strip()}")
    plain = _NOISE.sub("", _CONDITION.sub("", _CALL.sub("", text))).strip().splitlines()
    missing = "DATA_SOURCE_NOT_FOUND" in text or "ClassNotFoundException" in text
    told = plain[0].strip() if plain else text[:200]
    return PipelineError(f"Spark says: {told}", hint=_JARS if missing else None)
