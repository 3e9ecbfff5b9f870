"""Bytes of batches: canonical, and what they mean survives the way there and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.errors import InputError
from rankcast.state import batches

CALLS = ("subscribe", "amend", "unsubscribe", "publish", "upsert", "remove", "rescore")
ROWS = st.lists(
    st.tuples(
        st.integers(-5, 5),
        st.none() | st.floats(allow_nan=False, width=32).map(lambda value: value + 0.0),  # no -0.0
        st.none() | st.text(max_size=3),
        st.none() | st.lists(st.none() | st.text(max_size=2), max_size=3),
    ),
    max_size=8,
)
SCHEMA = pa.schema(
    [("id", pa.int64()), ("y", pa.float64()), ("name", pa.string()), ("terms", pa.list_(pa.string()))]
)


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table([[row[column] for row in rows] for column in range(4)], schema=SCHEMA)


def encoded(batch: Any) -> bytes:
    return batches.encode(batches.commands_of(batch, CALLS))


@given(rows=ROWS, data=st.data())
def test_the_same_rows_give_the_same_bytes(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    """However they are cut, sliced out of more, or described."""
    table = table_of(rows)
    cut = data.draw(st.integers(0, len(rows)))
    pieces = pa.concat_tables([table.slice(0, cut), table_of(rows).slice(cut)])
    padded = pa.concat_tables([table_of(rows[:1]), table, table_of(rows[:2])]).combine_chunks()
    sliced = padded.slice(len(rows[:1]), len(rows))
    described = table.replace_schema_metadata({"pandas": "{}"})
    assert encoded(table) == encoded(pieces) == encoded(sliced) == encoded(described)
    assert encoded(table) == encoded([("publish", table)])


VALUES = (
    st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=3)
    | st.none()
    | st.booleans()
    | st.just("\ud800")
    | st.lists(st.integers(0, 3), max_size=2)
)


@given(
    row=st.dictionaries(
        st.sampled_from(["id", "x", "\u00e4", "__index_level_0__", ""]) | st.text(max_size=2),
        VALUES,
        max_size=4,
    ),
    call=st.sampled_from(["publish", "subscribe", "remove", "advance", "unknown"]),
)
def test_one_row_is_prepared_as_many_are(row: dict[str, Any], call: str) -> None:
    """In the same bytes and tables, or refused with the same words."""
    seen: list[Any] = []
    calls = (*CALLS, "advance")

    def check(*given: Any) -> None:
        seen.append(given)

    def long_way() -> batches.Prepared:
        commands = batches.commands_of([(call, [dict(row)])], calls, check)
        return batches.Prepared(commands, batches.encode(commands))

    def outcome(way: Any) -> Any:
        try:
            found = way()
        except InputError as error:
            return str(error)
        return found.data, [(name, table.to_pydict(), table.schema) for name, table in found.commands]

    first = outcome(long_way)
    again = outcome(lambda: batches.prepared([(call, [dict(row)])], calls, check))
    assert repr(first) == repr(again)  # a NaN is equal to a NaN
    assert len(seen) in (0, 2)
    assert repr(seen[:1]) == repr(seen[1:])


@given(left=ROWS, right=ROWS)
def test_other_rows_give_other_bytes(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> None:
    assert (encoded(table_of(left)) == encoded(table_of(right))) == table_of(left).equals(table_of(right))


@given(rows=ROWS, calls=st.lists(st.sampled_from(["publish", "subscribe", "rescore"]), max_size=3))
def test_commands_survive(rows: list[tuple[Any, ...]], calls: list[str]) -> None:
    commands = [(call, table_of(rows)) for call in calls]
    found = batches.decode(encoded(commands))
    assert [call for call, _ in found] == calls
    assert all(table.equals(table_of(rows)) for _, table in found)


def hidden(bits: int, values: list[float]) -> pa.Table:
    """Floats with the second one null, and something else in its place and in unused bits."""
    buffers = [pa.py_buffer(bytes([bits])), pa.py_buffer(np.array(values).tobytes())]
    return pa.table({"y": pa.Array.from_buffers(pa.float64(), 3, buffers)})


def test_what_lies_under_a_null_does_not_count() -> None:
    left, right = hidden(0b101, [1.0, 0.0, 2.0]), hidden(0b11111101, [1.0, 99.0, 2.0])
    assert left.equals(right)
    assert encoded(left) == encoded(right)


def test_dictionaries_and_views_count_as_what_they_say() -> None:
    plain = pa.table({"id": pa.array(["b", "a", "b"])})
    assert encoded(pa.table({"id": plain["id"].dictionary_encode()})) == encoded(plain)
    view = pa.table({"id": pa.array(["b", "a", "b"], pa.string_view())})
    assert encoded(view) == encoded(pa.table({"id": pa.array(["b", "a", "b"], pa.large_string())}))


def test_tables_of_other_libraries_are_read() -> None:
    columns = {"id": [3, 1], "y": [0.5, 1.5]}
    expected = encoded(pa.table(columns))
    for batch in (columns, pd.DataFrame(columns), pl.DataFrame(columns), pa.RecordBatch.from_pydict(columns)):
        assert encoded(batch) == expected


def test_ids_may_be_a_sequence_or_a_table() -> None:
    expected = encoded([("unsubscribe", [4, 2])])
    for ids in (np.array([4, 2]), pa.array([4, 2]), pa.chunked_array([[4], [2]]), {"id": [4, 2]}):
        assert encoded([("unsubscribe", ids)]) == expected
    assert encoded([("unsubscribe", pd.Series([4, 2]))]) == expected
    assert encoded([("unsubscribe", pl.Series([4, 2]))]) == expected
    assert encoded([("remove", [4, 2])]) != expected


def test_the_caller_s_table_is_not_the_engine_s() -> None:
    values = np.array([1.0, 2.0])
    data = encoded({"y": pa.array(values)})
    values[:] = 7
    assert batches.decode(data)[0][1]["y"].to_pylist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("batch", "match"),
    [
        ("publish", "cannot read a batch from str"),
        (7, "cannot read a batch from int"),
        (["publish"], "holds a str"),
        ([("publish",)], "holds a tuple"),
        ([("publsh", {"id": [1]})], 'Did you mean "publish"'),
        ([("results", {"id": [1]})], 'unknown call "results"'),
        ([("__init__", {"id": [1]})], "unknown call"),
        ([(["publish"], {"id": [1]})], "unknown call"),
        ([("publish", 3)], "cannot read rows from int"),
        ({"id": [1, 2], "y": [1]}, "equally long"),
        ([("unsubscribe", "abc")], "single str"),
    ],
)
def test_what_is_no_batch_is_refused(batch: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        encoded(batch)


def test_tokens_tell_histories_apart() -> None:
    start = batches.first_token("K", {"settings": {"k": 3}}, {})
    others = [
        batches.first_token("L", {"settings": {"k": 3}}, {}),
        batches.first_token("K", {"settings": {"k": 4}}, {}),
        batches.first_token("K", {"settings": {"k": 3}}, {"a": np.zeros(1)}),
        batches.first_token("K", {"settings": {"k": 3}}, {"a": np.zeros(1, np.float32)}),
        batches.first_token("K", {"settings": {"k": 3}}, {"a": np.zeros((1, 1))}),
        batches.chain(start, b"x"),
        batches.chain(start, b"y"),
        batches.chain(batches.chain(start, b"x"), b"y"),
        batches.chain(batches.chain(start, b"y"), b"x"),
        batches.chain(start, b"xy"),
    ]
    assert len({start, *others}) == len(others) + 1
    assert start == batches.first_token("K", {"settings": {"k": 3}}, {})
    assert all(len(bytes.fromhex(token)) == 32 for token in [start, *others])


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": each, "x": each / 3, "y": -each * 1e300} for each in (1, 2, -(2**63), 2**63 - 1)],
        [{"id": text, "t": text[::-1]} for text in ("ab", "ba", "\0\1", "\u00e4")],
        [{"x": value} for value in (0.0, -0.0, float("nan"), float("inf"), 5e-324)],
        [
            {"id": "", "y": 1.0},
            {"id": "", "y": 2.0},
            {"id": "x" * 100, "y": 2.0},
            {"id": "y" * 100, "y": 1.0},
        ],
    ],
)
def test_rows_of_one_layout_are_written_by_one_pattern(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        found = batches.prepared([("publish", [row])], CALLS)
        assert found.data == batches.encode(batches.commands_of([("publish", [row])], CALLS))
        assert repr(batches.decode(found.data)[0][1].to_pylist()) == repr([row])
