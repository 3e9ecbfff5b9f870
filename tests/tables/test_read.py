"""What may come in as a table, and what is said about what may not."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rankcast.errors import InputError
from rankcast.tables.read import as_table, read, read_ids
from rankcast.tables.schema import Column, Ids, Kind

COLUMNS = [
    Column("id", Kind.ID),
    Column("x"),
    Column("y", required=False, nullable=True),
    Column("k", Kind.COUNT, required=False, nullable=True),
    Column("terms", Kind.TERMS, required=False),
    Column("time", Kind.TIME, required=False),
]


def texts(ids: Ids) -> list[Any]:
    if ids.kind == "int":
        return list(ids.values.tolist())
    return [bytes(ids.data[a:b]).decode() for a, b in zip(ids.offsets, ids.offsets[1:], strict=False)]


FORMS = {
    "dict of lists": lambda d: d,
    "dict of arrays": lambda d: {name: pa.array(values) for name, values in d.items()},
    "pyarrow table": pa.table,
    "record batch": pa.record_batch,
    "chunked table": lambda d: pa.concat_tables([pa.table(d).slice(0, 1), pa.table(d).slice(1)]),
    "pandas": pd.DataFrame,
    "pandas with an index of its own": lambda d: pd.DataFrame(d, index=[7, 5, 6]),
    "polars": pl.DataFrame,
    "list of dicts": lambda d: [dict(zip(d, row, strict=True)) for row in zip(*d.values(), strict=True)],
    "list of dicts without nulls": lambda d: [
        {name: one for name, one in zip(d, row, strict=True) if one is not None}
        for row in zip(*d.values(), strict=True)
    ],
    "dict of lists of NumPy scalars": lambda d: {
        name: [one if one is None else np.array([one])[0] for one in values] for name, values in d.items()
    },
    "sliced table": lambda d: pa.table({n: [v[0], *v] for n, v in d.items()}).slice(1),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_table_reads_alike(form: Any) -> None:
    given = {"id": ["b", "é", ""], "x": [1.5, -2.0, 0.0], "y": [None, 3.0, 4.0]}
    batch = read(form(given), COLUMNS, where="events")
    assert batch.size == 3
    assert texts(batch.ids) == given["id"]
    assert batch["x"].tolist() == given["x"]
    assert np.array_equal(batch["y"], [np.nan, 3.0, 4.0], equal_nan=True)
    assert "k" not in batch


NUMPY = {"dict of NumPy arrays": lambda d: {name: np.array(values) for name, values in d.items()}}
PLAIN = {
    **FORMS,
    **NUMPY,
    "in another order": lambda d: pa.table(d).select(["y", "id", "x"]),
    "with a null elsewhere": lambda d: pa.table({n: [*v, None] for n, v in d.items()}).slice(0, 3),
}


@pytest.mark.parametrize("form", PLAIN.values(), ids=PLAIN)
def test_whole_ids_and_numbers_alone_read_alike(form: Any) -> None:
    given = {"id": [2**62 + 1, -5, 0], "x": [1.5, -2.0, 0.0], "y": [1e300, 3.0, -4.0]}
    batch = read(form(given), COLUMNS[:3], where="events")
    assert (texts(batch.ids), batch["x"].tolist(), batch["y"].tolist()) == tuple(given.values())
    assert batch.ids.values.flags.writeable


@pytest.mark.parametrize("form", [pa.table, *NUMPY.values()], ids=["Arrow", "NumPy"])
@pytest.mark.parametrize(("bad", "text"), [(np.nan, "is NaN"), (np.inf, "is infinite")])
def test_one_bad_number_among_plain_columns_is_named(form: Any, bad: float, text: str) -> None:
    with pytest.raises(InputError, match=rf'"y".*{text}.*\n(.*\n)*.*row: 1'):
        read(form({"id": [1, 2], "x": [0.5, 1.5], "y": [0.5, bad]}), COLUMNS[:3], where="events")


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint16(), pa.uint64(), pa.int64()], ids=str)
def test_any_integer_type_is_an_id(kind: pa.DataType) -> None:
    batch = read({"id": pa.array([3, 1], kind), "x": [0, 0]}, COLUMNS, where="events")
    assert texts(batch.ids) == [3, 1]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_any_string_type_is_an_id(kind: pa.DataType) -> None:
    values = (
        pa.array(["b", "a", "b"]).cast(kind)
        if not pa.types.is_dictionary(kind)
        else pa.array(["b", "a", "b"]).dictionary_encode()
    )
    batch = read({"id": values, "x": [0, 0, 0]}, COLUMNS, where="events")
    assert texts(batch.ids) == ["b", "a", "b"]


@pytest.mark.parametrize(
    "values",
    [pa.array([1, 2], pa.int16()), pa.array([1.0, 2.0], pa.float32()), pa.array([Decimal(1), Decimal(2)])],
    ids=["int16", "float32", "decimal"],
)
def test_any_number_type_is_a_number(values: pa.Array) -> None:
    assert read({"id": [1, 2], "x": values}, COLUMNS, where="events")["x"].tolist() == [1.0, 2.0]


def test_an_empty_table_is_fine() -> None:
    batch = read({"id": [], "x": [], "terms": []}, COLUMNS, where="events")
    assert batch.size == 0
    assert batch["terms"].starts.tolist() == [0]


def test_counts_may_come_as_whole_floats_or_nulls() -> None:
    assert read({"id": [1, 2], "x": [0, 0], "k": [3.0, None]}, COLUMNS, where="s")["k"].tolist() == [3, 0]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.list_view(pa.string())], ids=str
)
def test_terms_are_lists_of_strings(kind: pa.DataType) -> None:
    values = pa.array([["a", "b"], [], ["ü"]], kind)
    terms = read({"id": [1, 2, 3], "x": [0, 0, 0], "terms": values}, COLUMNS, where="m")["terms"]
    assert terms.starts.tolist() == [0, 2, 2, 3]
    assert texts(terms.words) == ["a", "b", "ü"]


@pytest.mark.parametrize(
    "values",
    [
        [dt.datetime(2020, 1, 1)],
        [dt.date(2020, 1, 1)],
        [dt.datetime(2020, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))],
        pa.array([1577836800], pa.timestamp("s")),
    ],
    ids=["datetime", "date", "with a zone", "seconds"],
)
def test_times_are_nanoseconds(values: Any) -> None:
    batch = read({"id": [1], "x": [0], "time": values}, COLUMNS, where="m")
    assert batch["time"].tolist() == [1_577_836_800 * 10**9]


BAD: dict[str, tuple[Any, str, int | None, str]] = {
    "missing column": ({"id": [1]}, "x", None, "missing"),
    "unknown column": ({"id": [1], "x": [0], "z": [0]}, "z", None, "unknown column"),
    "null number": ({"id": [1, 2], "x": [0, None]}, "x", 1, "null"),
    "NaN": ({"id": [1, 2], "x": [0.0, float("nan")]}, "x", 1, "NaN"),
    "NaN where null is fine": ({"id": [1, 2], "x": [0, 0], "y": [None, float("nan")]}, "y", 1, "NaN"),
    "infinity": ({"id": [1, 2], "x": [0.0, float("-inf")]}, "x", 1, "infinite"),
    "text for a number": ({"id": [1], "x": ["0"]}, "x", 0, "string"),
    "truth for a number": ({"id": [1], "x": [True]}, "x", 0, "bool"),
    "integer too long for a float": ({"id": [1, 2], "x": [0, 2**53 + 1]}, "x", 1, "9007199254740993"),
    "null id": ({"id": ["a", None], "x": [0, 0]}, "id", 1, "null"),
    "only null ids": ({"id": [None], "x": [0]}, "id", 0, "null"),
    "float id": ({"id": [1.0], "x": [0]}, "id", 0, "double"),
    "mixed ids": ({"id": [1, "a"], "x": [0, 0]}, "id", 1, "integers or strings, one kind"),
    "text before a number": ({"id": ["a", 1], "x": [0, 0]}, "id", 1, "holds 'a' and 1"),
    "bytes among strings": ({"id": ["a", b"b"], "x": [0, 0]}, "id", 1, "different kinds"),
    "id beyond 64 bits": ({"id": [1, 2**64], "x": [0, 0]}, "id", 1, "too large"),
    "id of any length": ({"id": [1, 10**5000], "x": [0, 0]}, "id", 1, "too large"),
    "lone surrogate": ({"id": ["a", "\ud800"], "x": [0, 0]}, "id", 1, "Unicode"),
    "truth among numbers": ({"id": [1, 2], "x": [0, True]}, "x", 1, "different kinds"),
    "number among times": (
        {"id": [1, 2], "x": [0, 0], "time": [dt.datetime(2020, 1, 1), 1.5]},
        "time",
        1,
        "different kinds",
    ),
    "unsigned among floats": ({"id": [1, 2], "x": [0.5, np.uint64(2**64 - 1)]}, "x", 1, "too large"),
    "fraction": ({"id": [1], "x": [Fraction(1, 3)]}, "x", 0, "Fraction"),
    "decimal that is no number": ({"id": [1, 2], "x": [Decimal(1), Decimal("nan")]}, "x", 1, "NaN"),
    "no dict among rows": ([{"id": 1, "x": 0}, None], "events", 1, "a dict in each row"),
    "missing in some rows": ([{"id": 1, "x": 0}, {"id": 2}], "x", 1, "null"),
    "0-d array": ({"id": np.array(1), "x": [0]}, "id", None, "cannot be read"),
    "set": ({"id": [1], "x": {0}}, "x", None, "no order"),
    "table for a column": ({"id": pd.DataFrame({"a": [1]}), "x": [0]}, "id", None, "table"),
    "generator": ({"id": (one for one in [1]), "x": [0]}, "id", None, "Turn it into a list"),
    "columns that are written alike": ({"id": [1], "x": [0], 1: [0], "1": [0]}, "1", None, "twice"),
    "null in a dictionary of terms": (
        {
            "id": [1],
            "x": [0],
            "terms": pa.ListArray.from_arrays(
                [0, 1], pa.DictionaryArray.from_arrays([0], pa.array([None, "a"]))
            ),
        },
        "terms",
        0,
        "null",
    ),
    "unsigned id beyond 63 bits": ({"id": pa.array([1, 2**63], pa.uint64()), "x": [0, 0]}, "id", 1, "large"),
    "k below 1": ({"id": [1, 2], "x": [0, 0], "k": [1, 0]}, "k", 1, "whole number"),
    "k not whole": ({"id": [1], "x": [0], "k": [1.5]}, "k", 0, "whole number"),
    "terms that are no list": ({"id": [1], "x": [0], "terms": ["a"]}, "terms", 0, "list of strings"),
    "terms that are numbers": ({"id": [1], "x": [0], "terms": [[1]]}, "terms", 0, "list of strings"),
    "null terms": ({"id": [1, 2], "x": [0, 0], "terms": [["a"], None]}, "terms", 1, "null"),
    "null term": ({"id": [1, 2], "x": [0, 0], "terms": [["a"], ["b", None]]}, "terms", 1, "null"),
    "time that is a number": ({"id": [1], "x": [0], "time": [5]}, "time", 0, "timestamp"),
    "columns of unequal length": ({"id": [1, 2], "x": [0]}, "x", 1, "equally long"),
    "a single value": ({"id": [1], "x": 0}, "x", None, "sequence"),
    "a string for a sequence": ({"id": "abc", "x": [0, 0, 0]}, "id", None, "sequence"),
}


@pytest.mark.parametrize(("rows", "column", "row", "word"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_by_column_row_and_reason(
    rows: Any, column: str, row: int | None, word: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(rows, COLUMNS, where="events")
    text = str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert f'"{column}"' in text
    assert word in text
    assert row is None or f"row: {row}" in text


def test_columns_that_are_written_alike_are_named_even_if_they_are_not_known() -> None:
    rows = {"id": [1], "x": [0], 1: [0], "1": [0]}
    with pytest.raises(InputError, match=r'"1".*twice'):
        read(rows, COLUMNS, where="events", extra="ignore")


def test_an_empty_list_of_rows_is_an_empty_table() -> None:
    empty: list[Any] = [[], (), pa.table({}), pd.DataFrame()]
    for nothing in empty:
        batch = read(nothing, COLUMNS, where="events")
        assert (batch.size, batch.ids.size, batch["x"].size) == (0, 0, 0)
        assert "k" not in batch


def test_an_error_shows_little_of_a_long_value_and_can_be_printed() -> None:
    for odd in ("x" * 10_000_000, "\x1b[31m" * 1000, "\ud800"):
        for rows in ({"id": [1, odd], "x": [0, 0]}, {"id": [1], odd: [0]}, {"id": [1], "x": [odd]}):
            with pytest.raises(InputError) as caught:
                read(rows, COLUMNS, where="events")
            text = str(caught.value)
            assert len(text) < 500
            assert all(c.isprintable() or c == "\n" for c in text)
            assert str(pickle.loads(pickle.dumps(caught.value))) == text  # noqa: S301  our own


def test_a_table_may_have_very_many_columns() -> None:
    """So many that a comparison of each with all others would be noticed."""
    known = [COLUMNS[0], *(Column(f"c{place}") for place in range(20_000))]
    rows = {"id": [1], **{column.name: [0.0] for column in known[1:]}}
    for form in (rows, pa.table(rows)):
        batch = read(form, known, where="events")
        assert sum(batch[column.name][0] for column in known[1:] if column.name in batch) == 0
    assert as_table(rows, where="events").num_columns == len(rows)


def test_a_typo_in_a_column_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match='Did you mean "terms"'):
        read({"id": [1], "x": [0], "term": [["a"]]}, COLUMNS, where="events")


def test_extra_columns_are_dropped_when_asked() -> None:
    batch = read({"id": [1], "x": [0], "z": [0]}, COLUMNS, where="events", extra="ignore")
    assert set(batch.values) == {"id", "x"}


def test_a_column_that_is_there_twice_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([0]), pa.array([0])], names=["id", "x", "x"])
    with pytest.raises(InputError, match="twice"):
        read(table, COLUMNS, where="events")


@pytest.mark.parametrize("rows", [[1, 2], 5, None, "text"], ids=repr)
def test_what_is_no_table_is_refused_with_a_hint(rows: Any) -> None:
    with pytest.raises(InputError, match="Pass a pyarrow Table"):
        read(rows, COLUMNS, where="events")


IDS = {
    "list": ["a", "b"],
    "tuple": ("a", "b"),
    "numpy": np.array(["a", "b"]),
    "arrow": pa.array(["a", "b"]),
    "chunks": pa.chunked_array([["a"], ["b"]]),
    "pandas series": pd.Series(["a", "b"]),
    "polars series": pl.Series(["a", "b"]),
    "table": pa.table({"id": ["a", "b"]}),
    "dict": {"id": ["a", "b"]},
    "list of dicts": [{"id": "a"}, {"id": "b"}],
    "view of Arrow": pa.array(["a", "b"], pa.string_view()),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_ids_come_in_any_form(ids: Any) -> None:
    assert texts(read_ids(ids, where="ids")) == ["a", "b"]


def test_a_set_of_ids_will_do() -> None:
    assert sorted(texts(read_ids({"a", "b"}, where="ids"))) == ["a", "b"]


@pytest.mark.parametrize("ids", ["abc", 5, None, b"x", 1.5, np.int64(5)], ids=repr)
def test_a_single_id_is_refused_with_a_hint(ids: Any) -> None:
    with pytest.raises(InputError, match="list"):
        read_ids(ids, where="ids")


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.large_list(pa.large_string())], ids=str)
def test_a_slice_is_checked_as_far_as_its_lists_reach(kind: pa.DataType) -> None:
    words = [[f"w{row}", "é"] for row in range(20_000)]
    whole = pa.array(words, kind)
    table = pa.table({"id": np.arange(20_000), "x": np.zeros(20_000), "terms": whole})
    for first, size in ((0, 3), (7_000, 2), (19_999, 1), (20_000, 0)):
        read_terms = read(table.slice(first, size), COLUMNS, where="rows")["terms"]
        assert texts(read_terms.words) == [word for row in words[first : first + size] for word in row]
    values = whole.values
    damaged = bytearray(values.buffers()[2])
    damaged[-1] = 0xFF  # of the last word
    text = pa.Array.from_buffers(
        values.type, len(values), [*values.buffers()[:2], pa.py_buffer(bytes(damaged))]
    )
    bad = pa.Array.from_buffers(kind, 20_000, whole.buffers()[:2], 0, 0, [text])
    torn = table.set_column(2, "terms", bad)
    assert read(torn.slice(5, 9), COLUMNS, where="rows").size == 9
    for part in (torn, torn.slice(19_990), torn.slice(19_999, 1)):
        with pytest.raises(InputError, match='"terms" of "rows" is a damaged Arrow array'):
            read(part, COLUMNS, where="rows")
    offsets = np.arange(0, 40_001, 2).astype(np.int64 if pa.types.is_large_list(kind) else np.int32)
    offsets[11_000] = 3
    back = pa.Array.from_buffers(kind, 20_000, [None, pa.py_buffer(offsets.tobytes())], 0, 0, [values])
    torn = table.set_column(2, "terms", back)
    for part in (torn, torn.slice(10_990, 20)):
        with pytest.raises(InputError, match='"terms" of "rows" is a damaged Arrow array'):
            read(part, COLUMNS, where="rows")
