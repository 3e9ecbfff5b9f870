"""Stories as pipelines: files, what describes the pipeline, and the pipeline in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rankcast.pipeline import Config, Running, read, start
from tests.spark import hosts
from tests.spark.runs import Stream
from tests.spark.stories import Story

ENGINES = {
    "range_topk": 'name = "RangeTopK"\nk = 3',
    "matching": 'name = "RankedMatcher"\nover = ["x", "z", "job"]\ncategories = ["job"]\nk = 3',
    "geotext": 'name = "GeoTextTopK"\nbounds = [0, 0, 6, 6]\nk = 2\nwindow = 9',
    "moving_topk": 'name = "MovingTopK"\nover = ["price"]\nk = 2',
    "moving_skyline": 'name = "MovingSkyline"\nover = ["price"]',
}
OWN = 'name = "examples.similar_vectors:SimilarVectors"\nsize = 3\nk = 2\nwindow = 6'
PATIENCE = 600.0
CODE = "import sys; from rankcast.cli import main; sys.exit(main())"


class Piped(Stream):
    """A story as a pipeline under a folder; what comes out goes to files, or is kept as results."""

    def __init__(self, spark: Any, name: str, story: Story, folder: Path, sink: str = "parquet") -> None:
        super().__init__(spark, story, folder)
        self.file = folder / "pipeline.toml"
        out = {"parquet": "out", "results": "results.parquet", "delta": "lists"}[sink]
        parts = [f'checkpoint = "checkpoint"\nshards = 2\n\n[engine]\n{ENGINES.get(name, OWN)}\n']
        for each in story.columns:
            (folder / each).mkdir()
            stream = "" if each in story.tables or each == "events" else "stream = true\n"
            options = "" if each in story.tables else "options = { maxFilesPerTrigger = 1 }\n"
            parts.append(f'[{each}]\nformat = "parquet"\npath = "{each}"\n{stream}{options}')
        parts.append(f'[sink]\nformat = "{sink}"\npath = "{out}"\n')
        settings = "".join(f'"{key}" = {json.dumps(value)}\n' for key, value in hosts.settings().items())
        parts.append(f'[spark]\nmaster = "local[2]"\n{settings}')
        self.file.write_text("\n".join(parts))
        for each, rows in story.tables.items():
            pq.write_table(
                pa.Table.from_pylist(rows, schema=story.schema(each)), folder / each / "table.parquet"
            )

    def config(self) -> Config:
        return read(self.file, {})

    def start(self, **given: Any) -> Running:
        return start(self.config(), self.spark, once=True, **given)

    def run(self, **given: Any) -> Running:
        """Run to the end."""
        running = self.start(**given)
        try:
            assert running.wait(PATIENCE)
        finally:
            running.stop()
        return running

    def results(self) -> list[dict[str, Any]]:
        """The table of current results."""
        found: list[dict[str, Any]] = pq.read_table(self.folder / "results.parquet").to_pylist()
        return found


class Command:
    """`rankcast run` in processes of its own."""

    def __init__(self, folder: Path, *words: str, **variables: str) -> None:
        self.folder = folder
        self._errors = folder / "errors"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", CODE, "run", str(folder / "pipeline.toml"), *words],
                env={**os.environ, **variables},
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def wait_for(self, commits: int) -> None:
        """Wait until so many micro-batches are committed."""
        limit = time.monotonic() + PATIENCE
        while hosts.committed(self.folder) < commits:
            assert self._process.poll() is None, self.errors()
            assert time.monotonic() < limit, "the pipeline does not get on"
            time.sleep(0.02)

    def errors(self) -> str:
        return self._errors.read_text()

    def signal(self, number: int) -> None:
        """Send a signal to all of it but for Python workers."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill all of it."""
        self.signal(signal.SIGKILL)
        self._process.wait()
