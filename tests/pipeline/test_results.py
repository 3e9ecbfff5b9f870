"""The table of current results: deltas applied to it, each micro-batch once, replaced as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import MovingTopK, RangeTopK
from rankcast.errors import ShardError
from rankcast.pipeline.sinks import Results, applied

FORM = pa.schema(
    [
        ("subscription", pa.string()),
        ("op", pa.string()),
        ("item", pa.int64()),
        ("score", pa.float64()),
        ("rank", pa.int64()),
        ("seq", pa.int64()),
        ("reason", pa.string()),
    ]
)
RANGES = {"id": ["a", "b", "c"], "x_lo": [0.0, 1.0, None], "x_hi": [2.0, 3.0, None], "k": [1, 2, 4]}
steps = st.lists(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.one_of(st.none(), st.integers(0, 2))), max_size=6
    ),
    max_size=5,
)


def formed(deltas: pa.Table) -> pa.Table:
    """Deltas as Spark hands them out."""
    for name in ("seq", "reason"):
        deltas = deltas.append_column(name, pa.nulls(deltas.num_rows, FORM.field(name).type))
    return deltas.select(FORM.names).cast(FORM)


def refused(count: int) -> pa.Table:
    rows = [{"op": "refused", "item": place, "reason": "bad"} for place in range(count)]
    return pa.Table.from_pylist(rows, schema=FORM)


@settings(max_examples=40)
@given(steps, st.booleans())
def test_results_after_deltas_are_those_of_the_engine(batches: list[list[Any]], descending: bool) -> None:
    engine = RangeTopK(order="desc" if descending else "asc")
    table = applied(None, formed(engine.subscribe(RANGES)), ranked=True)
    live: set[int] = set()
    for batch in batches:
        rows = []
        for name, x, y in batch:
            if y is None and name not in live:
                continue
            live.discard(name) if y is None else live.add(name)
            rows.append((name, float(x), None if y is None else float(y)))
        columns = zip(*rows, strict=True) if rows else ([], [], [])
        deltas = engine.publish(dict(zip(("id", "x", "y"), map(list, columns), strict=True)))
        table = applied(table, formed(deltas), ranked=True)
        assert table.to_pylist() == engine.results().to_pylist()
    table = applied(table, formed(engine.unsubscribe(["b"])), ranked=True)
    assert table.to_pylist() == engine.results().to_pylist()


def test_of_moving_queries_there_are_items_alone() -> None:
    engine = MovingTopK(over=["price"], k=2)
    objects = {"id": [1, 2, 3], "x": [0.0, 5.0, 9.0], "y": [0.0] * 3, "price": [0.0] * 3}
    table = applied(None, formed(engine.upsert(objects).cast(FORM_OF_MOVING)), ranked=False)
    for call, x in ((engine.subscribe, 0.0), (engine.publish, 9.0)):
        table = applied(table, formed(call({"id": ["q"], "x": [x], "y": [0.0]})), ranked=False)
        expected = sorted((row["subscription"], row["item"]) for row in engine.results().to_pylist())
        assert [tuple(row.values()) for row in table.to_pylist()] == expected


FORM_OF_MOVING = pa.schema([FORM.field(name) for name in ("subscription", "op", "item", "score", "rank")])


def test_a_micro_batch_is_applied_once_and_survives(tmp_path: Path) -> None:
    place = str(tmp_path / "new" / "results.parquet")
    engine = RangeTopK(k=2)
    first = formed(engine.subscribe(RANGES))
    second = formed(engine.publish({"id": [1, 2], "x": [1.0, 1.0], "y": [1.0, 2.0]}))
    results = Results(place, ranked=True)
    assert results.apply("q", 0, pa.concat_tables([first, refused(2)]))
    assert results.apply("q", 1, second)
    again = Results(place, ranked=True)
    assert not again.apply("q", 1, second)
    assert again.table is not None
    assert again.table.to_pylist() == engine.results().to_pylist() == pq.read_table(place).to_pylist()
    assert pq.read_table(f"{place}.refused/000000000.parquet")["item"].to_pylist() == [0, 1]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "results.parquet",
        "results.parquet.refused",
    ]
    with pytest.raises(ShardError, match="another checkpoint"):
        again.apply("other", 2, second)


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "mine.parquet")
    (tmp_path / "my notes.txt").write_text("mine")
    for name in ("mine.parquet", "my notes.txt"):
        with pytest.raises(ShardError, match="no table of results"):
            Results(str(tmp_path / name), ranked=True)


def test_a_replay_takes_its_own_file_anew_and_no_other(tmp_path: Path) -> None:
    engine = RangeTopK(k=2)
    engine.subscribe(RANGES)
    told = formed(engine.publish({"id": [1], "x": [1.0], "y": [1.0]}))
    for _ in range(2):
        Results(str(tmp_path / "all of it"), ranked=True).put("replay", told)
    assert pq.read_table(tmp_path / "all of it").to_pylist() == engine.results().to_pylist()
    Results(str(tmp_path / "live"), ranked=True).apply("q", 0, told)
    with pytest.raises(ShardError, match="another checkpoint"):
        Results(str(tmp_path / "live"), ranked=True).put("replay", told)


def test_what_was_half_written_is_not_seen(tmp_path: Path) -> None:
    place = tmp_path / "results.parquet"
    results = Results(str(place), ranked=True)
    engine = RangeTopK(k=2)
    engine.subscribe(RANGES)
    results.apply("q", 0, formed(engine.publish({"id": [1], "x": [1.0], "y": [1.0]})))
    (tmp_path / "_results.parquet.1").write_bytes(b"half")
    again = Results(str(place), ranked=True)
    assert again.table is not None
    assert again.table.num_rows == 3
