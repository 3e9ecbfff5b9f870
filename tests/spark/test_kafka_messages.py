"""Messages of Kafka without Kafka: numbers by place, answers as messages, messages as rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rankcast.errors import InputError
from rankcast.kafka import Place, _rows
from rankcast.spark import connectors
from rankcast.spark.kafka import BEFORE, Reading, Writing, sequence
from rankcast.spark.plan import RAW, REASON, SEQ
from rankcast.spark.shard import traced, without_raw

FORM = pa.schema([("id", pa.int64()), ("x", pa.float64())])


def number(of: str, topic: int, partition: int, offset: int) -> int:
    """The formula, once more."""
    code = ((offset * 2 + (of == "objects")) * 16 + topic) * 1024 + partition
    return code if of == "events" else code - BEFORE


def test_numbers_are_unique_within_javascript_and_by_offset() -> None:
    places = [(t, p, o) for t in (0, 15) for p in (0, 7, 1023) for o in (0, 1, 2**38 - 2)]
    numbers = [number(of, *place) for of in ("events", "objects", "subscriptions") for place in places]
    assert len(set(numbers)) == len(numbers)
    assert max(map(abs, numbers)) <= 2**53 - 1
    assert max(number("subscriptions", 15, 1023, 2**38 - 2), number("objects", 15, 1023, 2**38 - 2)) < 0
    assert number("events", 15, 1023, 4) < number("events", 0, 0, 5)


def test_too_many_topics_have_no_numbers() -> None:
    for topics in ([], ["a", "a"], [f"topic{n}" for n in range(17)]):
        with pytest.raises(InputError, match="topics"):
            sequence("events", topics)


def stream(**columns: list[object]) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_arrow_messages_are_rows_or_are_refused() -> None:
    values = [
        stream(id=[1], x=[2.0]),
        b"poison",
        stream(id=[2]),
        stream(id=[3], y=[1.0]),
        stream(x=[1.0]),
        None,
        stream(id=[4, 5]),
        stream(id=["a"]),
        stream(id=[6], x=[2.0])[:-40],
    ]
    given = pa.record_batch({"value": pa.array(values, pa.binary()), "offset": list(range(len(values)))})
    reading = Reading("events", FORM, ("id",), strict=True, several=False, reason=REASON)
    rows = pa.Table.from_batches(list(reading([given]))).to_pylist()
    assert [row["offset"] for row in rows] == list(range(len(values)))
    kept = {row["offset"]: (row["id"], row["x"]) for row in rows if row[REASON] is None}
    assert kept == {0: (1, 2.0), 2: (2, None)}
    assert "has 2 rows" in rows[6][REASON]
    assert 'column "y"' in rows[3][REASON]
    several = Reading("events", FORM, ("id",), strict=False, several=True, reason=REASON)
    told = pa.Table.from_batches(list(several([given]))).to_pylist()
    assert [row["id"] for row in told if row[REASON] is None] == [1, 2, 3, 4, 5]


def answers(size: int) -> pa.Table:
    return pa.table(
        {
            "subscription": ["ann", "ann", "bob", None][:size],
            "op": ["leave", "enter", "enter", "refused"][:size],
            "item": [7, 8, 8, 9][:size],
            "score": [None, 1.0, 1.0, None][:size],
            "rank": pa.array([None, 1, 1, None][:size], pa.int64()),
            "seq": [3, 3, 3, 2][:size],
            "reason": pa.array([None, None, None, "bad"][:size], pa.string()),
        }
    )


def test_arrow_answers_are_one_message_a_key_and_come_back() -> None:
    rows = pa.table({SEQ: [2], "id": [9], RAW: pa.array([b"as it came"])})
    table = traced(answers(4), [rows], "query", 5).append_column("shard", pa.array([1] * 4))
    assert without_raw(rows).column_names == [SEQ, "id"]
    columns = ("subscription", "op", "item", "score", "rank", "seq")
    found = pa.Table.from_batches(list(Writing("deltas", "aside", columns)(table.to_batches()))).to_pylist()
    assert [(row["topic"], row["key"]) for row in found] == [
        ("deltas", b"ann"),
        ("deltas", b"bob"),
        ("aside", b"9"),
    ]
    assert found[2]["value"] == b"as it came"
    back = [row for message in found[:2] for row in _rows(message["value"])]
    assert back == answers(3).select(list(columns)).to_pylist()
    headers = [{each["key"]: each["value"].decode() for each in row["headers"]} for row in found]
    assert [(each["batch"], each["shard"], each["n"]) for each in headers] == [
        ("5", "1", "0"),
        ("5", "1", "2"),
        ("5", "1", "3"),
    ]
    assert headers[2]["reason"] == "bad"
    assert len(pa.Table.from_batches(list(Writing("deltas", None, columns)(table.to_batches())))) == 2


def test_refused_rows_find_what_they_were() -> None:
    """By number and id; where those do not tell, by why they were refused."""
    refused = pa.table(
        {
            "subscription": pa.nulls(4, pa.string()),
            "op": ["refused"] * 4,
            "item": pa.array([None, None, 5, 5], pa.int64()),
            "score": pa.nulls(4, pa.float64()),
            "rank": pa.nulls(4, pa.int64()),
            "seq": pa.array([None, None, 8, 8], pa.int64()),
            "reason": ["row: b", "row: a", "engine", "row: c"],
        }
    )
    rows = pa.table(
        {
            SEQ: pa.array([None, None, 8, 8, 9], pa.int64()),
            "id": pa.array([None, None, 5, 5, 5], pa.int64()),
            REASON: pa.array(["row: a", "row: b", "row: c", None, None]),
            RAW: pa.array([b"a", b"b", b"c", b"d", b"e"]),
        }
    )
    assert traced(refused, [rows], "q", 0)["raw"].to_pylist() == [b"b", b"a", b"d", b"c"]


def test_a_reader_that_begins_again_hands_out_what_it_had_not() -> None:
    """Every prefix of a history with doubles, then the rest by another reader, is every row once."""
    history = [(0, 0), (0, 1), (0, 0), (0, 1), (0, 2), (1, 0), (0, 2), (1, 0), (1, 1), (1, 0), (2, 0)]
    for cut in range(len(history) + 1):
        for back in range(2):
            told = []
            place = Place(None)
            for start, stop in ((0, cut), (None, len(history))):
                first = place.start or 0 if start is None else start
                for offset in range(first, stop):
                    batch, n = history[offset]
                    headers = {"query": "q", "batch": str(batch), "shard": "0", "n": str(n)}
                    told += [history[offset] for new in place.fresh(offset, headers, 1) if new]
                place = Place(place.text()) if back and place.next is not None else place
            assert told == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    with pytest.raises(InputError, match="a position is"):
        Place("nonsense")
    assert Place(None).fresh(4, {}, 2) == [True, True]


def test_jars_are_taken_from_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setenv(connectors.VARIABLE, str(tmp_path))
    place = tmp_path / f"spark-{pyspark.__version__}" / "kafka"
    place.mkdir(parents=True)
    for name in ("b.jar", "a.jar"):
        (place / name).touch()
    told = connectors.settings(["parquet", "kafka"], {"spark.jars": "own.jar"})
    assert told == {"spark.jars": f"own.jar,{place / 'a.jar'},{place / 'b.jar'}"}
    own = {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"}
    assert connectors.settings(["kafka"], own) == {}
    assert connectors.settings(["parquet"], {}) == {}
    assert connectors.main(["nothing"]) == 2
