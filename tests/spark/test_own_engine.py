"""An engine written outside the package on Spark: as a stream, and in a pipeline's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from examples.similar_vectors import SimilarVectors

from rankcast import cli
from rankcast.pipeline import read
from rankcast.pipeline.toml_reader import ConfigError
from rankcast.spark import scratch
from rankcast.spark.plan import Plan
from tests.spark.piped import Piped
from tests.spark.runs import Stream
from tests.spark.stories import SUBSCRIBING, TEXT, WHOLE, Row, Story, _Teller

VECTOR = pa.list_(pa.float64())


def story(seed: int, *, count: int = 3, size: int = 20) -> Story:
    """Vectors come, subscriptions come, change and go."""
    teller = _Teller(seed)

    def vector() -> list[float]:
        return [1.0 + teller.number(), teller.number() - 2.0, teller.number()]

    def one() -> tuple[str, Row]:
        if teller.rng.random() < 0.35:
            op, name = teller.command("subscriptions", [f"s{i}" for i in range(6)], SUBSCRIBING)
            row = {"op": op, "id": name, "vector": vector(), "k": teller.pick([None, 1, 3])}
            return "subscriptions", row
        return "events", {"id": int(teller.rng.integers(0, 12)), "vector": vector()}

    columns = {
        "events": {"id": WHOLE, "vector": VECTOR},
        "subscriptions": {"id": TEXT, "vector": VECTOR, "k": WHOLE},
    }
    made = Story(lambda: SimilarVectors(size=3, k=2, window=6), columns)
    made.batches = teller.batches(count, size, one, list(columns))
    return made


def test_a_stream_gives_the_deltas_of_one_process_across_a_restart(spark: Any, tmp_path: Path) -> None:
    whole = story(5)
    stream = Stream(spark, whole, tmp_path, shards=2)
    stream.offer(whole.batches[:2])
    first = stream.run()
    scratch.forget(str(first.id))
    bad = {**whole.batches[2], "events": [*whole.batches[2]["events"]]}
    bad["events"].append({"seq": 9_999, "id": 1, "vector": [1.0, 2.0]})
    stream.offer([bad])
    stream.run()
    told, expected = stream.told(), whole.expected()[0]
    assert [row[:5] for row in told] == [row[:5] for row in expected]
    (refused,) = stream.refused()
    assert (refused["item"], refused["seq"]) == (1, 9_999)
    assert "has 2 numbers" in refused["reason"]
    (plan,) = tmp_path.glob("**/plan.json")
    assert Plan.from_json(plan.read_text()).kind == "examples.similar_vectors:SimilarVectors"


def test_a_pipeline_names_it(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = story(6, count=2)
    pipeline = Piped(spark, "own", whole, tmp_path)
    pipeline.offer(whole.batches)
    pipeline.run()
    pipeline.check()
    assert cli.main(["run", str(pipeline.file), "--check"]) == 0
    assert "was not imported" in capsys.readouterr().out
    assert cli.main(["run", str(pipeline.file), "--check", "--trust"]) == 0
    assert "was not imported" not in capsys.readouterr().out


def test_mistakes_of_its_settings_and_columns_are_told(tmp_path: Path) -> None:
    pipeline = Piped(None, "own", story(7, count=1, size=1), tmp_path)
    text = pipeline.file.read_text()
    for former, other, message in (
        ("size = 3", "size = 0", r"\[engine\] size is 0"),
        ("size = 3", "sizes = 3", r"sizes is no key here.*Did you mean \"size\""),
        (":SimilarVectors", ":NoSuch", r"\[engine\] name .*cannot be imported"),
        (":SimilarVectors", ":units", r"\[engine\] name "),
    ):
        pipeline.file.write_text(text.replace(former, other))
        with pytest.raises(ConfigError, match="(?s)" + message):
            read(pipeline.file, {}, trust=True)
    pipeline.file.write_text(text)
    assert read(pipeline.file, {}).engine.cls is None
