"""The declared cases, one module a family; importing a module declares its cases."""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Mapping, Sequence

from rankcast.bench.case import Case, declared
from rankcast.errors import InputError

FAMILIES: tuple[str, ...] = (
    "rankcast.bench.cases.tables",
    "rankcast.bench.cases.range_topk",
    "rankcast.bench.cases.range_batches",
    "rankcast.bench.cases.range_subscribing",
    "rankcast.bench.cases.range_slabs",
    "rankcast.bench.cases.range_slabs_speed",
    "rankcast.bench.cases.covering",
    "rankcast.bench.cases.matching",
    "rankcast.bench.cases.geotext",
    "rankcast.bench.cases.moving",
    "rankcast.bench.cases.skyline",
    "rankcast.bench.cases.network",
    "rankcast.bench.cases.spark",
    "rankcast.bench.cases.pipeline",
    "rankcast.papers.figures.range_topk",
    "rankcast.papers.figures.covering",
    "rankcast.papers.figures.matching",
    "rankcast.papers.figures.geotext",
    "rankcast.papers.figures.moving",
    "rankcast.papers.figures.skyline",
)


def load() -> Mapping[str, Case]:
    """Import every family and return all cases by name."""
    for family in FAMILIES:
        importlib.import_module(family)
    return declared()


def choose(patterns: Sequence[str]) -> list[Case]:
    """Return the cases that any pattern (`range-topk.*`) names, each once, by name; all if there is none.

    Raises:
        InputError: a pattern that names no case.
    """
    known = load()
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise InputError.unknown(pattern, known, where="bench run", word="case")
    wanted = patterns or ["*"]
    return [known[name] for name in sorted(known) if any(fnmatch.fnmatchcase(name, each) for each in wanted)]
