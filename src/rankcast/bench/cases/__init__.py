"""The cases at size, one module a family; importing a module declares its cases.

The papers' tables and figures are cases as well. Their modules, `rankcast.papers.figures`, stand above this
package and are imported by name.
"""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Mapping, Sequence

from rankcast.bench.runner import Case, declared
from rankcast.errors import InputError

CASES = "rankcast.bench.cases"
FIGURES = "rankcast.papers.figures"
MODULES: tuple[str, ...] = (
    f"{CASES}.tables",
    f"{CASES}.worlds",
    f"{CASES}.worlds_places",
    f"{CASES}.range_topk",
    f"{CASES}.range_subscribing",
    f"{CASES}.range_tiles",
    f"{CASES}.covering",
    f"{CASES}.matching",
    f"{CASES}.matching_peers",
    f"{CASES}.geotext",
    f"{CASES}.geotext_steady",
    f"{CASES}.geotext_vectors",
    f"{CASES}.moving",
    f"{CASES}.moving_real",
    f"{CASES}.skyline",
    f"{CASES}.roads",
    f"{CASES}.spark",
    f"{CASES}.spark_cores",
    f"{CASES}.pipeline",
    f"{CASES}.kafka",
    f"{CASES}.service",
    f"{CASES}.front",
    f"{CASES}.front_geotext",
    f"{CASES}.front_spark",
    f"{CASES}.growth",
    f"{CASES}.limits",
    f"{FIGURES}.range_topk",
    f"{FIGURES}.range_traffic",
    f"{FIGURES}.range_boxes",
    f"{FIGURES}.network",
    f"{FIGURES}.covering",
    f"{FIGURES}.matching",
    f"{FIGURES}.geotext",
    f"{FIGURES}.moving",
    f"{FIGURES}.skyline",
)


def load() -> Mapping[str, Case]:
    """Import every module of cases and return all cases by name."""
    for module in MODULES:
        importlib.import_module(module)
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
