"""The declared cases, one module a family; importing a module declares its cases."""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Mapping, Sequence

from rankcast.bench.case import Case, declared
from rankcast.errors import InputError

FAMILIES: tuple[str, ...] = (
    "tables",
    "range_topk",
    "range_topk_tables",
    "range_topk_redundancy",
    "range_topk_figures",
    "range_topk_speed",
    "range_topk_batches",
    "range_topk_subscribing",
    "range_topk_15d",
    "range_topk_15d_speed",
    "covering",
    "covering_figures",
    "matching",
    "matching_paper",
    "geotext",
    "geotext_subscribing",
    "geotext_figures",
    "moving",
    "moving_topk",
    "moving_topk_scores",
    "moving_topk_figures",
    "moving_skyline",
    "moving_skyline_figures",
    "network",
    "spark",
    "spark_state",
    "pipeline",
)


def load() -> Mapping[str, Case]:
    """Import every family and return all cases by name."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
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
