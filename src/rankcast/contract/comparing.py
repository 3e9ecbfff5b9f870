"""Comparing answers, results and states, with a word on what differs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.engines.base import Engine


class Reference:
    """Another engine as the model: by default the brute force of the same family."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def call(self, name: str, rows: Any) -> list[dict[str, Any]] | None:
        """The other engine's answer."""
        return rows_of(getattr(self._engine, name)(rows))

    def results(self) -> list[dict[str, Any]] | None:
        """The other engine's results."""
        return results_of(self._engine)


def results_of(engine: Engine) -> list[dict[str, Any]] | None:
    """The results of an engine as rows, None if it keeps none."""
    return rows_of(engine.results()) if hasattr(engine, "results") else None


def rows_of(table: pa.Table | None) -> list[dict[str, Any]] | None:
    """A table as a list of rows."""
    return None if table is None else table.to_pylist()


def same_rows(
    found: list[dict[str, Any]] | None, expected: list[dict[str, Any]] | None, where: str, tolerance: float
) -> None:
    """Equal tables, row by row; scores may differ by the relative tolerance."""
    if found is None or expected is None:
        assert found is expected, f"{where}: {found}, expected {expected}"
        return
    for place, (one, other) in enumerate(zip(found, expected, strict=False)):
        assert _same_row(one, other, tolerance), f"{where}, row {place}: {one}, expected {other}"
    longer = found if len(found) > len(expected) else expected
    told = "not expected" if longer is found else "missing"
    assert len(found) == len(expected), f"{where}: {told}: {longer[min(len(found), len(expected)) :]}"


def _same_row(one: dict[str, Any], other: dict[str, Any], tolerance: float) -> bool:
    if one.keys() != other.keys():
        return False
    for name, value in one.items():
        twin = other[name]
        if isinstance(value, float) and isinstance(twin, float) and tolerance:
            if not math.isclose(value, twin, rel_tol=tolerance, abs_tol=tolerance):
                return False
        elif value != twin:
            return False
    return True


def same_state(engine: Engine, twin: Engine, where: str) -> None:
    """Two engines have the same state, to the last bit."""
    same_parts(engine.state(), twin.state(), where)


def same_parts(one: tuple[Any, Any], other: tuple[Any, Any], where: str) -> None:
    """Two states, header and arrays, are the same to the last bit."""
    assert one[0] == other[0], f"{where}: the headers differ: {one[0]}, {other[0]}"
    assert one[1].keys() == other[1].keys(), f"{where}: the arrays differ in name"
    for name, array in one[1].items():
        assert array.dtype == other[1][name].dtype, f"{where}: {name} differs in type"
        assert np.array_equal(_bits(array), _bits(other[1][name])), f"{where}: {name} differs"


def _bits(array: Any) -> Any:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
