"""That nothing is compiled on an executor of Spark where rankcast is installed with compiled kernels.

    python -I tests/house/executors.py        # `make test-spark-wheel` runs it with the installed wheel

Every engine that Spark can run plays a small stream on executors of their own, from a table or from commands,
in micro-batches, and again from its checkpoint, when shards are restored. Their Python workers have no home
and a cache of kernels that is empty: one that compiles keeps the kernel there and says so on standard error.
The deltas must be those of one process, and nothing may be written into the package. Needs rankcast with its
extra `spark`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXECUTORS = "local-cluster[2,1,1024]"
SAID = "rankcast: compiling kernels"


def environments(folder: Path) -> dict[str, str]:
    """What executors are told: no home, a cache for kernels, a scratch directory."""
    kept = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "PYTHONDONTWRITEBYTECODE": "1"}
    own = {"NUMBA_CACHE_DIR": "kernels", "TMPDIR": "temporary", "RANKCAST_SCRATCH": "scratch"}
    for name in own.values():
        (folder / name).mkdir(mode=0o700)
    return {**kept, **{name: str(folder / where) for name, where in own.items()}}


def spark_home(folder: Path, installed: Path) -> Path:
    """Spark, with a directory of its own where it keeps what executors say."""
    home = folder / "spark"
    home.mkdir()
    for each in installed.iterdir():
        (home / each.name).symlink_to(each)
    return home


def play(spark: Any, folder: Path) -> list[str]:
    """Run every stream; what was wrong with its deltas."""
    from tests.spark import stories
    from tests.spark.runs import Stream

    made = {
        "ranges, a table": stories.range_topk(3, count=3, table=True),
        "ranges, commands": stories.range_topk(4, count=2),
        "matching": stories.matching(5, count=2),
        "messages, a table": stories.geotext(6, count=3, table=True),
        "messages, commands": stories.geotext(7, count=2),
        "moving, the best": stories.moving_topk(8, count=2),
        "moving, the skyline": stories.moving_skyline(9, count=2),
    }
    wrong = []
    for place, (name, story) in enumerate(made.items()):
        stream = Stream(spark, story, folder / str(place), shards=2, snapshot_batches=1)
        for at, batch in enumerate(story.batches):
            stream.offer([batch])
            if at != 0:  # the first two come together, and the query is begun again for each of the others
                stream.run()
        told, expected = stream.told(), story.expected()[0]
        print(f"{name}: {len(told)} deltas", flush=True)  # noqa: T201
        wrong += [f"{name}: other deltas than in one process"] * (told != expected or not told)
    return wrong


def main() -> int:
    """Print a line a stream; 1 if anything is wrong."""
    spec = find_spec("rankcast")
    if spec is None or spec.origin is None:
        raise SystemExit("rankcast is not installed")
    package = Path(spec.origin).parent
    if ROOT in package.parents and "site-packages" not in package.parts:
        raise SystemExit("this is the source tree, not an installation")
    sys.path.append(str(ROOT))
    before = set(package.rglob("*"))
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        told = environments(folder)
        os.environ["RANKCAST_SCRATCH"] = told["RANKCAST_SCRATCH"]
        from rankcast.spark import session, sessions
        from rankcast.structures.jit import PROGRESS
        from tests.spark import hosts

        home = spark_home(folder, sessions.home())
        os.environ["SPARK_HOME"] = str(home)
        settings = {f"spark.executorEnv.{name}": value for name, value in told.items()}
        spark = session(master=EXECUTORS, settings={**hosts.settings(), **settings})
        try:
            wrong = play(spark, folder)
        finally:
            spark.stop()
        kernels = sorted(path.name for path in folder.rglob("*.nbc"))
        logs = [path.read_text(errors="replace") for path in (home / "work").rglob("stderr")]
    said, here = sum(SAID in log for log in logs), PROGRESS.compiled
    print(f"{len(logs)} executors, {len(kernels)} kernels compiled, {here} in the driver")  # noqa: T201
    wrong += [f"compiled: {', '.join(kernels)}"] * bool(kernels)
    wrong += [f"{said} executors say that they compile"] * bool(said)
    wrong += [f"the driver compiled {here} kernels"] * bool(here)
    wrong += ["no executor was seen"] * (not logs)
    wrong += [f"{path} was written" for path in sorted(set(package.rglob("*")) - before)]
    print(*wrong, sep="\n", file=sys.stderr)  # noqa: T201
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
