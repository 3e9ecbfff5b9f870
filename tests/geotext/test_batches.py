"""Batches of every size and form: one row costs little, and means what it means among a thousand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast import GeoTextTopK, InputError
from tests.geotext.late import HALF_LIFE, Expected, Stream, generated, pairs
from tests.geotext.test_late import every_way

SIZES = (1, 2, 10, 1000)
Rows = dict[str, Any]


def as_lists(rows: Rows) -> Rows:
    """A dict of plain lists."""
    return {name: values if isinstance(values, list) else values.tolist() for name, values in rows.items()}


def as_dicts(rows: Rows) -> list[Rows]:
    """A list of dicts of plain values."""
    columns = as_lists(rows)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def as_table(rows: Rows) -> pa.Table:
    """An Arrow table."""
    return pa.table({name: pa.array(values) for name, values in rows.items()})


FORMS: list[Callable[[Rows], Any]] = [as_dicts, as_lists, as_table, dict]


def cuts(count: int, sizes: list[int]) -> Iterator[slice]:
    """A stream cut into batches of these sizes, again and again."""
    start = place = 0
    while start < count:
        yield slice(start, start + sizes[place % len(sizes)])
        start, place = start + sizes[place % len(sizes)], place + 1


def counted(late: Stream, some: slice, reused: bool) -> Rows:
    """Messages without times, for a window by count; ids are strings and come again if they are `reused`."""
    rows = late.messages(some)
    del rows["time"]
    rows["id"] = [f"m{row % 5 if reused else row}" for row in rows["id"].tolist()]
    return rows


@every_way
@pytest.mark.parametrize("half_life", [None, HALF_LIFE])
def test_batches_of_all_sizes_and_forms_give_the_same_lists(
    method: str, refill: str, half_life: int | None
) -> None:
    """Late messages included; one batch of a thousand among many of one."""
    late = generated(1060, 12, np.random.default_rng(5))
    expected = Expected(late, half_life)
    fading = {} if half_life is None else {"half_life": timedelta(microseconds=half_life)}
    engine = late.engine(method=method, refill=refill, **fading)
    engine.subscribe(late.subscriptions())
    for place, some in enumerate(cuts(late.time.size, [1, 1, 2, 10, 1, 10, 1000, 1, 2])):
        engine.publish(FORMS[place % len(FORMS)](late.messages(some)))
        assert pairs(engine) == expected.lists(min(some.stop, late.time.size)), f"after {some.stop}"


@given(st.integers(0, 2**32), st.lists(st.sampled_from(SIZES), min_size=1, max_size=6), st.data())
def test_deltas_do_not_depend_on_the_form(seed: int, sizes: list[int], data: st.DataObject) -> None:
    """Of a window by count, and by time with late messages; against a scan, delta by delta."""
    late, timed = generated(36, 7, np.random.default_rng(seed)), data.draw(st.booleans())
    size = data.draw(st.sampled_from([1, 2, 20, 200]))
    refill = data.draw(st.sampled_from(["cost-skyband", "skyband", "kmax", "none"]))
    window = timedelta(microseconds=late.span) if timed else size
    engine, scan = (
        GeoTextTopK(bounds=late.bounds, window=window, method=method, refill=refill)
        for method in ("igpt", "scan")
    )
    assert engine.subscribe(late.subscriptions()) == scan.subscribe(late.subscriptions())
    for some in cuts(late.time.size, sizes):
        rows = late.messages(some) if timed else counted(late, some, reused=size < 3)
        form = data.draw(st.sampled_from(FORMS))
        assert engine.publish(form(rows)) == scan.publish(as_table(rows))
    assert engine.results() == scan.results()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 30])
@pytest.mark.parametrize("method", ["igpt", "scan"])
def test_a_batch_that_is_refused_changes_nothing(form: Callable[[Rows], Any], size: int, method: str) -> None:
    """With the same text whatever the form, and whatever the number of rows before the bad one."""
    late = generated(120, 9, np.random.default_rng(3))
    engine = GeoTextTopK(bounds=late.bounds, window=60, method=method)
    engine.subscribe(late.subscriptions())
    engine.publish(counted(late, slice(0, 40), reused=False))
    header, arrays = engine.state()
    before = {name: array.copy() for name, array in arrays.items()}
    good, last = counted(late, slice(40, 40 + size), reused=False), size - 1
    bad: list[tuple[str, Any, str]] = [
        ("id", "m39", "is 'm39', which is that of a live message, expected an id that no live message has"),
        ("x", 99.0, "is 99, expected a number in [0, 8]"),
        ("y", -1.0, "is -1, expected a number in [0, 8]"),
    ]
    for column, value, told in bad:
        rows = as_lists(good)
        rows[column] = [*rows[column][:-1], value]
        with pytest.raises(InputError) as refused:
            engine.publish(form(rows))
        assert (
            str(refused.value) == f'column "{column}" of "messages" {told}\nDetail: First such row: {last}.'
        )
        now = engine.state()
        assert now[0] == header
        assert {name: array.tolist() for name, array in now[1].items()} == {
            name: array.tolist() for name, array in before.items()
        }
    with pytest.raises(InputError, match="holds integers"):
        engine.publish(form({**good, "id": list(range(size))}))
    assert engine.publish(form(good)).num_rows >= 0
