"""Count the files of `rankcast` that one publish enters: `python -m tests.house.count_files RangeTopK`.

A reader who follows an event must open each of them. Counted are the distinct files under `src/rankcast` in
which a function is entered during one `publish` of one row, after a first publish has made what is made once.
`micro-batch` instead of an engine's name counts what a Python worker enters for a micro-batch of one event:
one shard of a `RangeTopK`, whose arrays are on the host. Kernels count like any other code, so run it with
NUMBA_DISABLE_JIT=1; without it the script refuses.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple


class Case(NamedTuple):
    """An engine's settings, and the rows of its subscriptions, first objects or events, and two publishes."""

    settings: dict[str, Any]
    subscriptions: dict[str, list[Any]]
    first: dict[str, list[Any]]
    warm: dict[str, list[Any]]
    counted: dict[str, list[Any]]


CASES = {
    "RangeTopK": Case(
        {"k": 2},
        {"id": [1, 2, 3], "x_lo": [0.0, 2.0, 4.0], "x_hi": [5.0, 6.0, 9.0]},
        {"id": [1, 2, 3, 4], "x": [1.0, 3.0, 4.5, 8.0], "y": [4.0, 3.0, 2.0, 1.0]},
        {"id": [1], "x": [3.5], "y": [2.5]},
        {"id": [3], "x": [4.5], "y": [9.0]},
    ),
    "GeoTextTopK": Case(
        {"bounds": (0, 0, 4, 3), "k": 2, "window": 4},
        {"id": [1, 2], "x": [0.0, 2.0], "y": [0.0, 1.0], "terms": [["tea"], ["tea", "jazz"]]},
        {"id": [1, 2], "x": [1.0, 2.0], "y": [1.0, 2.0], "terms": [["tea"], ["jazz", "tea"]]},
        {"id": [3, 4], "x": [3.0, 4.0], "y": [3.0, 1.0], "terms": [["tea"], ["jazz"]]},
        {"id": [5], "x": [2.0], "y": [1.0], "terms": [["tea", "jazz"]]},
    ),
    "RankedMatcher": Case(
        {"over": ["x"], "k": 1},
        {"id": [1, 2], "x_lo": [0.0, 1.0], "x_hi": [9.0, 5.0], "score": [1.0, 2.0]},
        {"id": [1], "x": [2.0]},
        {"id": [2], "x": [3.0]},
        {"id": [3], "x": [4.0]},
    ),
    "CoveringTable": Case(
        {"over": ["x"]},
        {"id": [1, 2], "x_lo": [0.0, 1.0], "x_hi": [9.0, 5.0]},
        {"id": [1], "x": [2.0]},
        {"id": [2], "x": [3.0]},
        {"id": [3], "x": [4.0]},
    ),
    **dict.fromkeys(
        ("MovingTopK", "MovingSkyline"),
        Case(
            {"over": ["price"]},
            {"id": [1], "x": [1.0], "y": [0.0]},
            {"id": [1, 2], "x": [0.0, 10.0], "y": [0.0, 0.0], "price": [5.0, 3.0]},
            {"id": [1], "x": [1.0], "y": [0.125]},
            {"id": [1], "x": [1.0], "y": [0.25]},
        ),
    ),
}


def entered(call: Callable[[], object], source: Path) -> list[str]:
    """The files below `source` in which a function is entered during a call, by name."""
    files: set[str] = set()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    inside = (Path(name) for name in files)
    return sorted(str(path.relative_to(source)) for path in inside if path.is_relative_to(source))


def count(name: str) -> list[str]:
    """The files that one publish of an engine enters."""
    import rankcast

    case = CASES[name]
    engine: Any = getattr(rankcast, name)(**case.settings)
    getattr(engine, "upsert", engine.publish)(case.first)
    engine.subscribe(case.subscriptions)
    engine.publish(case.warm)
    return entered(lambda: engine.publish(case.counted), Path(rankcast.__file__).parent)


def count_micro_batch() -> list[str]:
    """The files that the executor enters for one event of a stream, after a micro-batch like it."""
    import pyarrow as pa
    import pytest

    import rankcast
    from rankcast.spark.shard import Limits, ShardProcessor
    from tests.spark.pretend import Cluster, Handle
    from tests.spark.stories import Batch, Story

    case, whole, number = CASES["RangeTopK"], pa.int64(), pa.float64()
    columns = {
        name: {column: whole if column == "id" else number for column in rows}
        for name, rows in (("events", case.first), ("subscriptions", case.subscriptions))
    }

    def rows(given: dict[str, list[Any]], first: int, **more: str) -> list[dict[str, Any]]:
        lines = zip(*given.values(), strict=True)
        return [
            {"seq": first + at, **more, **dict(zip(given, line, strict=True))}
            for at, line in enumerate(lines)
        ]

    begin: Batch = {
        "events": rows(case.first, 0),
        "subscriptions": rows(case.subscriptions, 10, op="subscribe"),
    }
    story = Story(
        lambda: rankcast.RangeTopK(**case.settings), columns, [begin, {"events": rows(case.warm, 20)}]
    )
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        cluster = Cluster(story, Path(folder), patch, shards=1, limits=Limits())
        for batch in story.batches:
            cluster.run(batch)
        (shard,) = cluster.plan.shards
        packed = cluster.packed({"events": rows(case.counted, 30)})
        processor = ShardProcessor(cluster.plan.to_json(), cluster.state, strict=False, limits=Limits())
        processor.init(Handle(cluster.store[shard]))
        files = entered(
            lambda: list(processor.handleInputRows((shard,), [packed], None)), Path(rankcast.__file__).parent
        )
        assert cluster.metrics[-1]["how"] == "hit"
        return files


def main() -> int:
    """Print the files, one a line, and their number."""
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        print("run with NUMBA_DISABLE_JIT=1: compiled kernels cannot be counted", file=sys.stderr)  # noqa: T201
        return 2
    files = count_micro_batch() if sys.argv[1] == "micro-batch" else count(sys.argv[1])
    print("\n".join([*files, str(len(files))]))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
