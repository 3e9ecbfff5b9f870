"""A few plain rows: the short way gives what the long way gives, to the bit, or leaves them to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rankcast.errors import InputError
from rankcast.tables import read
from rankcast.tables.schema import Column, Form, Ids, Kind, Terms

KINDS = {
    "id": Column("id", Kind.ID),
    "x": Column("x"),
    "y": Column("y", nullable=True),
    "k": Column("k", Kind.COUNT, nullable=True),
    "terms": Column("terms", Kind.TERMS),
    "time": Column("time", Kind.TIME),
    "op": Column("op", Kind.WORD, words=("upsert", "remove")),
}
ODD: list[Any] = [
    None,
    True,
    1.5,
    -0.0,
    2**53,
    2**63,
    -(2**63),
    float("nan"),
    "a",
    "\ud800",
    b"a",
    "",
    [],
    (),
]
ODD += [["a"], ["a", None], [1], ["\ud800"], np.float64(1), np.int64(1), date(2024, 1, 1), "upsert", {}, 1]
ODD += [datetime(1, 1, 1), datetime(2262, 1, 1), datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)]
RIGHT: dict[str, Any] = {
    "id": st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)),
    "x": st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**54), 2**54)),
    "y": st.one_of(st.none(), st.floats(), st.integers(-9, 9)),
    "k": st.one_of(st.none(), st.integers(0, 2**31)),
    "terms": st.lists(st.text(max_size=4), max_size=4),
    "time": st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=3)), ZoneInfo("UTC")])),
    "op": st.sampled_from(["upsert", "remove"]),
}


@st.composite
def tables(draw: Callable[[Any], Any]) -> dict[str, list[Any]]:
    names = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, unique=True))
    size = draw(st.integers(1, 4))
    found: dict[str, list[Any]] = {}
    for name in names:
        kind = draw(st.integers(0, 5))
        values = RIGHT[name] if kind else st.sampled_from(ODD)
        if name == "time" and kind == 1:
            values = st.datetimes()
        if name == "id" and kind > 1:
            values = st.integers(-9, 9) if kind % 2 else st.text(max_size=5)
        found[name] = [draw(values) for _ in range(size)]
    if draw(st.integers(0, 9)) == 0:
        found[names[0]] = found[names[0]][:-1]
    return found


def flat(value: Any) -> Any:
    """A column as something to compare, types and signs of zeros included."""
    if isinstance(value, Terms):
        return (flat(value.starts), flat(value.words))
    if isinstance(value, Ids):
        return (value.kind, flat(value.values), flat(value.offsets), flat(value.data))
    assert value.flags.c_contiguous
    return value.dtype.str, value.shape, value.tobytes()


def answer(table: Any, form: Form) -> Any:
    try:
        batch = read.read(table, form, where="rows")
    except InputError as error:
        return str(error)
    assert batch.numbers is None or np.isfinite(batch.numbers).all()
    return batch.size, {name: flat(column) for name, column in batch.values.items()}


@given(tables(), st.booleans())
@example({"x": [1.0, -0.0], "y": [None, 2]}, True)
@example({"time": [datetime(1677, 12, 31, 23, tzinfo=UTC), datetime(2024, 1, 1)]}, False)
@example({"terms": [[], []]}, True)
def test_the_short_way_is_the_long_way(table: dict[str, list[Any]], records: bool) -> None:
    sizes = set(map(len, table.values()))
    given: Any = table
    if records and len(sizes) == 1:
        given = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    form = [column for name, column in KINDS.items() if name in table]
    short = answer(given, Form(form))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "SMALL", 0)
        long = answer(given, Form(form))
    assert short == long


def test_the_short_way_is_taken() -> None:
    layout = Form(KINDS.values()).of_names(tuple(KINDS), "rows", "forbid")
    given: list[Any] = [[1], [2.0], [None], [3], [["a", "é"]], [datetime(2024, 1, 1)], ["remove"]]
    assert read.read_few(given, layout) is not None
    assert read.read_few([values * 65 for values in given], layout) is None
