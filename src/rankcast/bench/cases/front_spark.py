"""The front cases of Spark: continuous queries on two cores, beside what Spark has for them by itself.

Every query takes micro-batches of files and ends in `foreachBatch`, which asks for all answers and drops
them. One micro-batch more, outside the clock, is collected and compared row by row with the engine in this
process. Spark's own ways are three: a join over a grid and `max_by` or `min_by`, the fastest that we know; a
join and a window function, as most would write it; `nearestByJoin`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankcast import RangeTopK, RankedMatcher
from rankcast.bench import limits
from rankcast.bench.cases.covering import weigh
from rankcast.bench.cases.spark_streams import FILES, NUMBERS, Stream, continuous, folder, session
from rankcast.bench.runner import Contender, Parameters, Trial, case
from rankcast.bench.workloads import Columns

OURS, ALONE = "rankcast", "rankcast in one process"
GRID, WINDOW, NEAREST = "Spark SQL, grid join", "Spark SQL, window function", "Spark SQL, nearestByJoin"
SHARDS = 2
OVER = ("x", "y")
WIDTH, NARROW = 0.1, 0.01  # of a box, of a range
CELLS, BINS = 20, 100  # of a grid, along each attribute
MOST_PAIRS = 5_000_000  # that `nearestByJoin` ranks in seconds; it takes 1.6 microseconds for each
RUNS = 1


class Collected(Stream):
    """A stream whose answers are dropped, or kept when they are to be compared.

    Args:
        slices: the micro-batches.
        build: from the stream of events to a stream of answers; None, if `answer` does everything.
        answer: from the rows of a micro-batch to answers, as a static DataFrame.
    """

    def __init__(
        self,
        slices: list[Columns],
        build: Callable[[Any], Any] | None = None,
        answer: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(slices, build or (lambda frame: frame), files=FILES)
        self._answer = answer or (lambda frame: frame)
        self._kept: pa.Table | None = None
        self._keeps = False

    def kept(self) -> tuple[list[Columns], pa.Table]:
        """Take one micro-batch more; all that were taken so far, and the answers to the last one."""
        self._keeps = True
        self.ready(0, warm=1)
        self._keeps = False
        assert self._kept is not None  # noqa: S101
        return [self.slices[number % len(self.slices)] for number in range(self._offered)], self._kept

    def _start(self) -> Any:
        names = ", ".join(f"{name} double" for name in self.slices[0] if name not in ("seq", "id"))
        reader = session().readStream.schema(f"{NUMBERS}, {names}").option("maxFilesPerTrigger", self._files)
        frame = self._build(reader.parquet(str(self._folder / "events" / "*")))
        writer = frame.writeStream.foreachBatch(self._taken)
        return writer.option("checkpointLocation", str(self._folder / "checkpoint")).start()

    def _taken(self, frame: Any, _: int) -> None:
        answers = self._answer(frame)
        if self._keeps:
            self._kept = answers.toArrow()
        else:
            answers.write.format("noop").mode("overwrite").save()


class Way(NamedTuple):
    """A stream, and how many micro-batches of how many rows it takes in a run."""

    stream: Collected
    batches: int
    rows: int

    def contender(self, name: str, alone: Any = None, answers: Callable[[], list[Any]] = list) -> Contender:
        """Takes them while the clock runs; of ours, an engine `alone` says what the answers and state are."""
        work = self.batches * self.rows

        def counters(*_: Any) -> Mapping[str, float]:
            return limits.answered(pa.concat_tables(answers()), work)

        return Contender(
            name,
            prepare=lambda: self.stream.ready(self.batches, warm=1),
            run=Stream._take,
            work=work,
            counters=None if alone is None else counters,
            bytes=None if alone is None else lambda _: weigh(alone),
        )


def _stored(rows: Columns) -> Path:
    place = folder()
    pq.write_table(pa.table(rows), place / "rows.parquet")
    return place


@case(
    "front.spark-matching",
    small={"subscriptions": [1_000], "rows": [2_000], "batches": [2]},
    full={"subscriptions": [100_000], "rows": [200_000], "batches": [2]},
    seed=87,
    unit="event",
    runs=RUNS,
)
def matches(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Find the best subscription for events in large micro-batches, boxes of two attributes."""
    many, rows = parameters["subscriptions"], parameters["rows"]
    given: Columns = {"id": np.arange(many), "score": rng.random((many,))}
    for name in OVER:
        low = rng.random((many,)) * (1 - WIDTH)
        given |= {f"{name}_lo": low, f"{name}_hi": low + WIDTH}
    slices = [_points(rows, rng) for _ in range(parameters["batches"])]
    stored, state = _stored(given), folder() / "state"

    def engine(threads: int) -> RankedMatcher:
        return RankedMatcher(over=list(OVER), k=1, tuning={"threads": threads})

    def ours(events: Any) -> Any:
        subscriptions = session().read.parquet(str(stored / "rows.parquet"))
        return continuous(engine(1), events, subscriptions, state, SHARDS)

    def part(size: int) -> list[Columns]:
        return [{name: values[:size] for name, values in each.items()} for each in slices[:1]]

    sizes = {GRID: min(rows, 20_000), WINDOW: min(rows, 200), NEAREST: min(rows, 40)}  # seconds each
    ways = {OURS: Way(Collected(slices, ours), parameters["batches"], rows)}
    for name, asked in MATCHES.items():
        answer = _Boxes(stored / "rows.parquet", *asked)
        ways[name] = Way(Collected(part(sizes[name]), answer=answer), 1, sizes[name])
    alone = engine(SHARDS)
    alone.subscribe(given)
    plain = [{name: each[name] for name in ("id", *OVER)} for each in slices]
    engines = {OURS: (alone, lambda: [alone.publish(each) for each in plain])}

    def agrees(_: Any) -> bool:
        return all(_same_matches(way.stream.kept(), alone) for way in ways.values())

    return Trial(
        work=rows * parameters["batches"],
        contenders=[
            *(way.contender(name, *engines.get(name, ())) for name, way in ways.items()),
            Contender(ALONE, run=lambda _: [alone.publish(each) for each in plain]),
        ],
        baseline=OURS,
        agrees=agrees,
    )


def _points(count: int, rng: np.random.Generator) -> Columns:
    return {"seq": np.arange(count), "id": np.arange(count), **{name: rng.random(count) for name in OVER}}


def _same_matches(found: tuple[list[Columns], pa.Table], engine: RankedMatcher) -> bool:
    """Whether the answers to the last micro-batch are those of the engine."""
    taken, answers = found
    wanted = engine.publish({name: taken[-1][name] for name in ("id", *OVER)})
    columns = ("event", "subscription")
    pairs = [
        sorted(zip(*(table[name].to_pylist() for name in columns), strict=True))
        for table in (answers, wanted)
    ]
    return len(pairs[0]) > 0 and pairs[0] == pairs[1]


_CELLS = f"""
    select *, x_cell * {CELLS + 1} + y_cell as cell from {{boxes}}
    lateral view explode(sequence(int(floor(x_lo * {CELLS})), int(floor(x_hi * {CELLS})))) as x_cell
    lateral view explode(sequence(int(floor(y_lo * {CELLS})), int(floor(y_hi * {CELLS})))) as y_cell
"""  # noqa: S608
_GRID_MATCHES = f"""
    select /*+ broadcast(b) */ e.id as event, max_by(b.id, b.score) as subscription, max(b.score) as score
    from (select *, int(floor(x * {CELLS})) * {CELLS + 1} + int(floor(y * {CELLS})) as cell from {{events}}) e
    join {{boxes}} b on b.cell = e.cell and e.x between b.x_lo and b.x_hi and e.y between b.y_lo and b.y_hi
    group by e.id
"""  # noqa: S608
_WINDOW_MATCHES = """
    select event, subscription, score from (
        select /*+ broadcast(b) */ e.id as event, b.id as subscription, b.score,
            row_number() over (partition by e.id order by b.score desc, b.id) as place
        from {events} e join {boxes} b on e.x between b.x_lo and b.x_hi and e.y between b.y_lo and b.y_hi
    ) where place = 1
"""
_NEAREST_MATCHES = """
    select e.id as event, b.id as subscription, b.score
    from {events} e join {boxes} b exact nearest 1 by similarity
        if(e.x between b.x_lo and b.x_hi and e.y between b.y_lo and b.y_hi, b.score, -1)
    where e.x between b.x_lo and b.x_hi and e.y between b.y_lo and b.y_hi
"""
MATCHES = {GRID: (_GRID_MATCHES, _CELLS), WINDOW: (_WINDOW_MATCHES, ""), NEAREST: (_NEAREST_MATCHES, "")}


class _Boxes:
    """The subscriptions as a table of Spark, in memory, and what is asked of it and of events.

    `foreachBatch` has a session of its own, so the table is a view that all sessions see.
    """

    def __init__(self, path: Path, asked: str, form: str) -> None:
        self._path, self._form = path, form
        self._view = f"boxes_{path.parent.name.replace('-', '_')}_{id(self)}"
        self._asked = asked.replace("{boxes}", f"global_temp.{self._view}")
        self._boxes: Any = None

    def __call__(self, events: Any) -> Any:
        if self._boxes is None:
            rows = session().read.parquet(str(self._path))
            self._boxes = (session().sql(self._form, boxes=rows) if self._form else rows).cache()
            self._boxes.createOrReplaceGlobalTempView(self._view)
        return events.sparkSession.sql(self._asked, events=events)


@case(
    "front.spark-range",
    small={"subscriptions": [500], "objects": [500], "rows": [500], "batches": [2], "k": [10]},
    full={"subscriptions": [10_000], "objects": [10_000], "rows": [10_000], "batches": [3], "k": [10]},
    seed=88,
    unit="event",
    runs=RUNS,
)
def ranges(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Keep the best objects of narrow ranges current over micro-batches of updates."""
    many, objects, k = parameters["subscriptions"], parameters["objects"], parameters["k"]
    low = rng.random((many,)) * (1 - NARROW)
    given: Columns = {"id": np.arange(many), "x_lo": low, "x_hi": low + NARROW}
    x, count = rng.random(objects), parameters["batches"]
    slices = [_updates(np.arange(objects), x, rng)]
    slices += [_updates(rng.integers(0, objects, parameters["rows"]), x, rng) for _ in range(count)]
    stored, state = _stored(given), folder() / "state"

    def ours(events: Any) -> Any:
        subscriptions = session().read.parquet(str(stored / "rows.parquet"))
        return continuous(RangeTopK(k=k), events, subscriptions, state, SHARDS)

    ways = {OURS: Way(Collected(slices, ours), count, parameters["rows"])}
    for name, asked in RANGES.items():
        if name == NEAREST and many * objects > MOST_PAIRS:
            continue
        answer = _Ranges(stored / "rows.parquet", x, k, asked)
        ways[name] = Way(Collected(slices, answer=answer), 1, parameters["rows"])
    alone = _loaded(given, k)
    plain = [_bare(each) for each in slices]
    alone.publish(plain[0])

    def answers() -> list[pa.Table]:
        fresh = _loaded(given, k)
        return [fresh.publish(each) for each in plain][1:]

    engines = {OURS: (alone, answers)}

    def agrees(_: Any) -> bool:
        return all(
            _same_lists(way.stream.kept(), given, k, deltas=name == OURS) for name, way in ways.items()
        )

    return Trial(
        work=parameters["rows"] * count,
        contenders=[
            *(way.contender(name, *engines.get(name, ())) for name, way in ways.items()),
            Contender(ALONE, run=lambda _: [alone.publish(each) for each in plain[1:]]),
        ],
        baseline=OURS,
        agrees=agrees,
    )


def _updates(ids: Any, x: Any, rng: np.random.Generator) -> Columns:
    return {"seq": np.arange(ids.size), "id": ids, "x": x[ids], "y": rng.random(ids.size)}


def _bare(rows: Columns) -> Columns:
    return {name: rows[name] for name in ("id", "x", "y")}


def _loaded(given: Columns, k: int) -> RangeTopK:
    engine = RangeTopK(k=k)
    engine.subscribe(given)
    return engine


def _same_lists(found: tuple[list[Columns], pa.Table], given: Columns, k: int, *, deltas: bool) -> bool:
    """Whether a stream has the deltas of the engine for the last micro-batch, or all of its lists."""
    taken, answers = found
    engine = _loaded(given, k)
    for rows in taken:
        last = engine.publish(_bare(rows))
    if deltas:
        names = ("subscription", "op", "item", "score", "rank")
        both = [
            sorted(map(repr, answers.select(names).to_pylist())),
            sorted(map(repr, last.select(names).to_pylist())),
        ]
        return len(both[0]) > 0 and both[0] == both[1]
    wanted: dict[int, list[int]] = {}
    whole = engine.results()
    for owner, item in zip(whole["subscription"].to_pylist(), whole["item"].to_pylist(), strict=True):
        wanted.setdefault(owner, []).append(item)
    lists = dict(zip(answers["subscription"].to_pylist(), answers["items"].to_pylist(), strict=True))
    return bool(wanted) and lists == wanted


_GRID_RANGES = f"""
    select /*+ broadcast(o) */ s.id as subscription, min_by(o.item, o.y, {{k}}) as items
    from (select * from {{ranges}} lateral view
        explode(sequence(int(floor(x_lo * {BINS})), int(floor(x_hi * {BINS})))) as bin) s
    join {{objects}} o on s.bin = int(floor(o.x * {BINS})) and o.x between s.x_lo and s.x_hi group by s.id
"""  # noqa: S608
_WINDOW_RANGES = """
    select subscription, array_sort(collect_list(struct(y, item))).item as items from (
        select /*+ broadcast(o) */ s.id as subscription, o.y, o.item,
            row_number() over (partition by s.id order by o.y, o.item) as place
        from {ranges} s join {objects} o on o.x between s.x_lo and s.x_hi
    ) where place <= {k} group by subscription
"""
_NEAREST_RANGES = """
    select subscription, array_sort(collect_list(struct(y, item))).item as items from (
        select s.id as subscription, s.x_lo, s.x_hi, o.x, o.y, o.item
        from {ranges} s join {objects} o exact nearest {k} by distance
            if(o.x between s.x_lo and s.x_hi, o.y, double('infinity'))
    ) where x between x_lo and x_hi group by subscription
"""
RANGES = {GRID: _GRID_RANGES, WINDOW: _WINDOW_RANGES, NEAREST: _NEAREST_RANGES}


class _Ranges:
    """The ranges as a table of Spark, in memory, and the objects, whose latest values the driver keeps."""

    def __init__(self, path: Path, x: Any, k: int, asked: str) -> None:
        self._path, self._k, self._asked = path, k, asked
        self._x, self._y = x, np.full(x.size, np.nan)
        self._ranges: Any = None

    def __call__(self, events: Any) -> Any:
        rows = events.select("seq", "id", "y").toArrow().sort_by("seq")
        self._y[rows["id"].to_numpy()] = rows["y"].to_numpy()
        spark = session()
        if self._ranges is None:
            self._ranges = spark.read.parquet(str(self._path)).cache()
        objects = spark.createDataFrame(
            pa.table({"item": np.arange(self._x.size), "x": self._x, "y": self._y})
        )
        return spark.sql(self._asked, ranges=self._ranges, objects=objects, k=self._k)
