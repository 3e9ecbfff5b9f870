"""Columns of sources before Spark has seen them: declared, in Parquet files, renamed; and their order."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankcast.pipeline import sources
from rankcast.pipeline.frames import EVENTS_FROM, Numbering
from rankcast.pipeline.sources import ENGLISH, Source, Text, literal, parquet_columns, quoted

PLAIN = Source("events", "parquet", None, {}, None, None, True, {}, {}, None, None)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("id long", {"id": pa.int64()}),
        ("id: BIGINT not null, `a b` Double", {"id": pa.int64(), "a b": pa.float64()}),
        ("t array<string>, d decimal(10, 2)", {"t": pa.list_(pa.string()), "d": pa.decimal128(10, 2)}),
        ("m map<string, int>", {"m": pa.map_(pa.string(), pa.int32())}),
        ("s struct<a: int, b: array<date>>", {"s": pa.struct({"a": pa.int32(), "b": pa.list_(pa.date32())})}),
        ("t timestamp, n timestamp_ntz", {"t": pa.timestamp("us", "UTC"), "n": pa.timestamp("us")}),
    ],
)
def test_types_as_spark_writes_them(text: str, kinds: dict[str, pa.DataType]) -> None:
    found = sources.parse(text)
    assert dict(zip(found.names, found.types, strict=True)) == kinds


@pytest.mark.parametrize(
    "text",
    ["", "id", "id long,", "id long x", "id lung", "id array<long", "id long, id long", "id long; x long"],
)
def test_what_is_no_list_of_columns_is_refused(text: str) -> None:
    with pytest.raises(sources.TypeMistake):
        sources.parse(text)


def test_columns_of_parquet_files_are_those_that_spark_sees(tmp_path: Path) -> None:
    folder = tmp_path / "day=3" / "city=Rome"
    folder.mkdir(parents=True)
    (tmp_path / "_spark_metadata").write_text("no Parquet")
    rows = pa.table(
        {
            "id": pa.array([1], pa.uint32()),
            "name": pa.array(["a"], pa.large_string()),
            "kind": pa.array(["x"]).dictionary_encode(),
            "terms": pa.array([["a"]], pa.large_list(pa.large_string())),
        }
    )
    pq.write_table(rows, folder / "0.parquet")
    expected = {"id": pa.int64(), "name": pa.string(), "kind": pa.string(), "terms": pa.list_(pa.string())}
    for place in (str(tmp_path), f"file://{tmp_path}", f"{tmp_path}/day=*"):
        found = parquet_columns(place)
        assert found is not None
        assert dict(zip(found.names, found.types, strict=True)) == {
            **expected,
            "day": pa.int32(),
            "city": pa.string(),
        }
    assert parquet_columns("s3://bucket/elsewhere") is None


def test_a_column_that_is_mapped_has_its_new_name_alone() -> None:
    given = sources.parse("ticker string, id long, body string, price double, number long")
    text = Text("body", stop=("The",))
    source = PLAIN.__class__(
        **{**vars(PLAIN), "columns": {"id": "ticker"}, "text": text, "seq": "number"}
        | {"expressions": {"y": ("price * 2", "double")}}
    )
    found = source.projected(given)
    assert {name: sql for name, (sql, _) in found.items() if name != "terms"} == {
        "id": "`ticker`",
        "price": "`price`",
        "seq": "`number`",
        "y": "cast((price * 2) as double)",
    }
    assert "not in ('the')" in found["terms"][0]


def test_names_and_words_are_quoted() -> None:
    assert quoted("a`b") == "`a``b`"
    assert literal("it's\\") == "'it\\'s\\\\'"
    assert "don't" in ENGLISH
    assert len(set(ENGLISH)) == len(ENGLISH)


def test_rows_of_partitions_are_numbered_apart() -> None:
    numbering = Numbering(EVENTS_FROM)
    parts = [
        pa.record_batch({"id": list(range(size)), "__partition": [partition] * size})
        for partition, size in ((0, 2), (0, 0), (0, 3))
    ]
    numbers = [row["seq"] for batch in numbering(parts) for row in batch.to_pylist()]
    other = [pa.record_batch({"id": [1], "__partition": [1]})]
    numbers += [row["seq"] for batch in numbering(other) for row in batch.to_pylist()]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == EVENTS_FROM
    assert len(numbers) == 6
