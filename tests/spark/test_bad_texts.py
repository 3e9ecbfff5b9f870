"""Rows of text that do not fit their schema are refused with their text, and disturb nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankcast import RangeTopK, cli
from rankcast.pipeline import Config, Running, frames, read, replay, start
from rankcast.pipeline import running as failing
from rankcast.pipeline.sources import Source
from rankcast.pipeline.toml_reader import PipelineError
from rankcast.spark.plan import REASON
from tests.spark.piped import PATIENCE

FORM = "id string, risk double, pe double, n long"
KIND = Source("events", "json", None, {}, FORM, None, True, {}, {}, None, None)

pytestmark = pytest.mark.spark


def source(**given: Any) -> Source:
    return Source(**{**vars(KIND), **given})


def spoil(row: dict[str, Any], rng: np.random.Generator) -> tuple[str, str | None]:
    """A row as a line of JSON, spoilt or not, and a word of why it is refused, None if it is not."""
    ways: list[tuple[Any, str | None]] = [
        (row, None),
        ({**row, "pe": None}, None),
        ({key: row[key] for key in ("id", "risk", "pe")}, None),
        (dict(reversed(row.items())), None),
        ({**row, "pe": "n/a"}, 'column "pe" is no double'),
        ({**row, "pe": "12"}, 'column "pe" is no double'),
        ({**row, "n": 1.5}, 'column "n" is no bigint'),
        ({**row, "risk": [1.0]}, 'column "risk" is no double'),
        ({**row, "risk": True, "n": "x"}, 'column "risk" is no double, column "n" is no bigint'),
        ({**row, "pee": 1.0}, 'has the key "pee", which is not declared'),
        ({key: row[key] for key in ("risk", "pe", "n")}, 'has no column "id"'),
        ({"ID": "x", **{key: row[key] for key in ("risk", "pe")}}, 'has no column "id"'),
        ([row], "does not fit"),
        ("text", "does not fit"),
    ]
    way = int(rng.integers(0, len(ways) + 2))
    if way >= len(ways):
        return json.dumps(row)[: -1 - int(rng.integers(0, 5))], "does not fit"
    return json.dumps(ways[way][0], ensure_ascii=bool(rng.integers(0, 2))), ways[way][1]


def lines(count: int, seed: int) -> list[tuple[str, str | None]]:
    rng = np.random.default_rng(seed)
    names = ["a", "b'c", 'd"e', "\\", "é", "{", "`", "%s"]
    rows = [
        {"id": f"{names[rng.integers(0, len(names))]}{place}", "risk": 0.5, "pe": float(place), "n": place}
        for place in range(count)
    ]
    return [spoil(row, rng) for row in rows]


def check(frame: Any, told: list[tuple[str, str | None]]) -> None:
    """Rows, in the order they were written, are refused for what was done to them, and with their text."""
    found = frame.toArrow().to_pylist()
    assert len(found) == len(told)
    for row, (text, why) in zip(found, told, strict=True):
        if why is None:
            assert row[REASON] is None, (text, row)
            assert {name: row[name] for name in json.loads(text)} == json.loads(text)
        else:
            assert why in row[REASON], (text, row)
            assert row[REASON].endswith(f": {text}")


def test_lines_of_json(spark: Any, tmp_path: Path) -> None:
    told = lines(400, 1)
    folder = tmp_path / "day=3"
    folder.mkdir()
    (folder / "0.json").write_text("\n\n".join(text for text, _ in told) + "\n   \n")
    opened = frames.opened_text(spark, source(path=str(tmp_path)), stream=False, needs=["id"], strict=True)
    assert opened.columns == ["id", "risk", "pe", "n", "day", REASON]
    check(opened, told)
    loose = frames.opened_text(spark, source(path=str(tmp_path)), stream=False, needs=["id"], strict=False)
    refused = sum(why is not None and "not declared" not in why for _, why in told)
    assert loose.where(f"{REASON} is not null").count() == refused


def test_values_of_a_queue(spark: Any, tmp_path: Path) -> None:
    told = lines(200, 2)
    (tmp_path / "0.txt").write_text("\n".join(text for text, _ in told))
    queue = source(path=str(tmp_path), format="text", values="json")
    check(frames.opened_text(spark, queue, stream=False, needs=["id"], strict=True), told)


@pytest.mark.parametrize("format_", ["csv", "text"])
def test_comma_separated_values(format_: str, spark: Any, tmp_path: Path) -> None:
    told = ["a,0.5,1,2", "b,,,", "c,n/a,1,2", "d,0.5,1", "e,0.5,1,2,3", "f,0.5,1,2.5", '"g,h",1,1,1']
    (tmp_path / "0.csv").write_text("\n".join(told))
    values = "csv" if format_ == "text" else None
    opened = frames.opened_text(
        spark, source(path=str(tmp_path), format=format_, values=values), stream=False, needs=[], strict=True
    )
    found = opened.toArrow().to_pylist()
    refused = {row[REASON].rpartition("schema: ")[2] for row in found if row[REASON] is not None}
    assert refused == set(told[2:6])
    assert [row["id"] for row in found if row[REASON] is None] == ["a", "b", "g,h"]


def test_one_document_a_file_and_long_ones(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text('{\n"id": "a",\n"pe": 1.5}')
    (tmp_path / "1.json").write_text('{"id": "b",\n"pe": "' + "x" * 5000 + '"}')
    opened = frames.opened_text(
        spark,
        source(path=str(tmp_path), options={"multiline": "true"}),
        stream=False,
        needs=["id"],
        strict=True,
    )
    reasons = [row[REASON] for row in opened.orderBy("id").toArrow().to_pylist()]
    assert reasons[0] is None
    assert "(5021 characters)" in reasons[1]
    assert len(reasons[1]) < 1200


PIPELINE = """\
checkpoint = "checkpoint"
shards = 2
[engine]
name = "RangeTopK"
over = "risk"
by = "pe"
k = 2
[events]
format = "json"
path = "quotes"
schema = "ticker string, risk double, pe double"
columns = { id = "ticker" }
options = { maxFilesPerTrigger = 1 }
[subscriptions]
format = "csv"
path = "people.csv"
schema = "id string, risk_lo double, risk_hi double"
options = { header = true }
[sink]
format = "results"
path = "results.parquet"
"""
GOOD = [{"ticker": name, "risk": float(place), "pe": 9.0 - place} for place, name in enumerate("ABCDEFG")]
BAD = [
    '{"ticker": "A", "risk": 0, "pe": "n/a"}',
    '{"ticker": "B", "risk": 0, "pee": 1}',
    "no JSON",
    '{"pe": 1}',
]
PEOPLE = ["ann,1,4", "bob,n/a,1", "bob,2,9", "eve,1", "ann,5"]


def test_a_pipeline_sets_them_aside(spark: Any, tmp_path: Path) -> None:
    """In a stream and in a table, streamed and replayed; a good row with the id of a bad one is kept."""
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "quotes").mkdir()
    (tmp_path / "people.csv").write_text("\n".join(["id,risk_lo,risk_hi", *PEOPLE]) + "\n")
    written = [json.dumps(row) for row in GOOD]
    (tmp_path / "quotes" / "0.json").write_text("\n".join(written[:4]))
    (tmp_path / "quotes" / "1.json").write_text("\n".join([*BAD, *written[4:]]))
    config = read(tmp_path / "pipeline.toml", {})
    running = finished(config, spark)
    refused = [PEOPLE[1], PEOPLE[3], PEOPLE[4], *BAD]
    assert running.progress.totals["refused"] == len(refused)
    engine = RangeTopK(over="risk", by="pe", k=2)
    engine.subscribe({"id": ["ann", "bob"], "risk_lo": [1.0, 2.0], "risk_hi": [4.0, 9.0]})
    engine.publish({"id" if name == "ticker" else name: [row[name] for row in GOOD] for name in GOOD[0]})
    expected = engine.results().to_pylist()
    assert pq.read_table(tmp_path / "results.parquet").to_pylist() == sorted(
        expected, key=lambda row: (row["subscription"], row["rank"])
    )
    aside = pq.read_table(tmp_path / "results.parquet.refused").to_pylist()
    assert {row["op"] for row in aside} == {"refused"}
    assert len(aside) == len(refused)
    assert all(sum(row["reason"].endswith(f": {text}") for row in aside) == 1 for text in refused)
    assert {row["item"] for row in aside if '"ticker": "' in row["reason"]} == {"A", "B"}
    again = replay(config, spark).toArrow().to_pylist()
    assert sorted(row["reason"] for row in again if row["op"] == "refused") == sorted(
        r["reason"] for r in aside
    )
    strict = (tmp_path / "pipeline.toml").read_text().replace('"checkpoint"', '"other"', 1)
    (tmp_path / "strict.toml").write_text(
        f'bad_rows = "fail"\n{strict}'.replace("results.parquet", "r.parquet")
    )
    with pytest.raises(PipelineError, match='row of "subscriptions" does not fit its schema'):
        start(read(tmp_path / "strict.toml", {}), spark, once=True)


def test_a_file_that_has_changed_is_named(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, column, type and what to do; and doing it lets the pipeline go on."""
    text = PIPELINE.replace('"json"', '"parquet"', 1).replace('schema = "ticker', '# "')
    (tmp_path / "pipeline.toml").write_text(text)
    (tmp_path / "people.csv").write_text("id,risk_lo,risk_hi\nann,1,4\n")
    (tmp_path / "quotes").mkdir()
    pq.write_table(pa.Table.from_pylist(GOOD[:3]), tmp_path / "quotes" / "0.parquet")
    config = read(tmp_path / "pipeline.toml", {})
    fresh = tmp_path / "quotes" / "1.parquet"
    pq.write_table(pa.table({"ticker": ["X"], "risk": ["high"], "pe": [1.0]}), fresh)
    told = _failure(config, spark)
    assert f"{fresh}" in told
    assert 'the column "risk" has the type BINARY, expected double' in told
    assert "Hint: Write it anew under the same name" in told
    assert cli.main(["run", str(tmp_path / "pipeline.toml"), "--check"]) == 2
    assert (
        '1.parquet, in which the column "risk" has the type string, expected double'
        in capsys.readouterr().err
    )
    pq.write_table(pa.Table.from_pylist(GOOD[3:]), fresh)
    finished(config, spark)
    assert pq.read_table(tmp_path / "results.parquet")["item"].to_pylist() == ["E", "D"]


def test_a_header_that_has_changed_and_a_broken_file_are_named(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,pe,risk,n\nB,1,2,3\n")
    changed = source(path=str(tmp_path), format="csv", options={"header": "true"})
    with pytest.raises(PipelineError) as caught, failing.told():
        frames.opened_text(spark, changed, stream=False, needs=[], strict=True).toArrow()
    told = str(caught.value)
    assert "1.csv has other columns than the source" in told
    assert "It has id, pe, risk, n; declared are id, risk, pe, n." in told
    (tmp_path / "1.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(PipelineError, match=r"1\.parquet cannot be read") as caught, failing.told():
        spark.read.schema(FORM).parquet(str(tmp_path / "1.parquet")).toArrow()
    assert "is not a Parquet file" in str(caught.value)


def finished(config: Config, spark: Any) -> Running:
    """A pipeline that has run to its end."""
    running = start(config, spark, once=True)
    try:
        assert running.wait(PATIENCE)
    finally:
        running.stop()
    return running


def _failure(config: Config, spark: Any) -> str:
    with pytest.raises(PipelineError) as caught:
        finished(config, spark)
    return str(caught.value)
