"""Seeded histories of streams: micro-batches of rows for every engine, and what one process makes of them.

The reference applies rows one call each, in order of `seq`, as one batch a micro-batch (objects come first,
and several are one call). It shares no code with the Spark runtime but the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import GeoTextTopK, MovingSkyline, MovingTopK, RangeTopK, RankedMatcher
from rankcast.core.engine import Command, Engine
from rankcast.errors import InputError
from rankcast.spark.packing import NO_SEQ
from tests.laws import roads

Row = dict[str, Any]
Batch = dict[str, list[Row]]

WORDS = ["pizza", "wine", "sushi", "tea", "cake"]
NUMBER, WHOLE, TEXT = pa.float64(), pa.int64(), pa.string()
PLACE = {"x": NUMBER, "y": NUMBER}
START = datetime(2024, 2, 29, 23, 59, 58, tzinfo=UTC)


@dataclass
class Story:
    """An engine, its inputs by name with their columns, and what happens: micro-batches of rows by input."""

    make: Callable[[], Engine]
    columns: dict[str, dict[str, pa.DataType]]
    batches: list[Batch] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)

    def schema(self, name: str) -> pa.Schema:
        commands = {"op": TEXT} if name != "events" else {}
        order = {} if name in self.tables else {"seq": WHOLE, **commands}
        return pa.schema({**order, **self.columns[name]})

    def recut(self, sizes: list[int]) -> Story:
        """The same rows in other micro-batches."""
        rows = sorted(
            (
                (row["seq"], name, row)
                for batch in self.batches
                for name, rows in batch.items()
                for row in rows
            ),
            key=lambda each: each[0],
        )
        batches, start = [], 0
        for size in [*sizes, len(rows)]:
            batch: Batch = {name: [] for name in self.batches[0]}
            for _, name, row in rows[start : start + size]:
                batch[name].append(row)
            batches.append(batch)
            start += size
        return Story(self.make, self.columns, batches, self.tables)

    def expected(self, refused: list[int] | None = None) -> tuple[list[tuple[Any, ...]], Engine]:
        """The deltas (or matches) of one process, and the engine at the end.

        Rows that it refuses add their numbers to `refused`; without that, it raises.
        """
        engine = self.make()
        told: list[tuple[Any, ...]] = []
        top = commanded = NO_SEQ
        for place, batch in enumerate(self.batches):
            commands = self._first() if place == 0 else []
            rows = [
                (name != "objects", row["seq"], name, row) for name, rows in batch.items() for row in rows
            ]
            for _, seq, name, row in sorted(rows, key=lambda each: each[:2]):
                top = max(top, seq)
                commands.append((self.call_of(name, row), self._passed(name, row), seq))
            reflected = commanded if isinstance(engine, RankedMatcher) else top
            told += _run(engine, _joined(commands), reflected, refused)
            commanded = max([commanded, *(row["seq"] for row in batch.get("subscriptions", []))])
        return sorted(told, key=str), engine

    def _first(self) -> list[tuple[str, Any, Any]]:
        calls = {"objects": "upsert", "subscriptions": "subscribe"}
        return [
            (
                call,
                {column: [row[column] for row in self.tables[name]] for column in self.columns[name]},
                None,
            )
            for name, call in calls.items()
            if name in self.tables
        ]

    def call_of(self, name: str, row: Row) -> str:
        """The call that a row is: an `op` of events is not for the runtime."""
        return "publish" if name == "events" else str(row["op"])

    def _passed(self, name: str, row: Row) -> Any:
        call = self.call_of(name, row)
        if call in ("unsubscribe", "remove"):
            return {"id": [row["id"]]}
        if call == "advance":
            return {"time": [row["time"]]}
        wanted = list(self.columns[name])
        if call == "rescore":
            wanted = ["id", "score"]
        return {column: [row[column]] for column in wanted}


def _joined(commands: list[tuple[str, Any, Any]]) -> list[tuple[str, Any, Any]]:
    """Upserts, and removals, one behind the other are one call, until an id comes again."""
    joined: list[tuple[str, Any, Any]] = []
    for call, rows, seq in commands:
        last = joined[-1] if joined else ("", {"id": []}, None)
        if call in ("upsert", "remove") and last[0] == call and rows["id"][0] not in last[1]["id"]:
            joined[-1] = (call, {name: [*last[1][name], *rows[name]] for name in rows}, seq)
        else:
            joined.append((call, rows, seq))
    return joined


def _run(
    engine: Engine, commands: list[tuple[str, Any, Any]], top: int, refused: list[int] | None
) -> list[tuple[Any, ...]]:
    """What a micro-batch is answered with; `top` is the highest number that all its answers reflect."""

    def refuse(command: Command, error: InputError) -> None:
        if refused is None:
            raise error
        refused.extend(seq for _, rows, seq in commands if rows is command.rows)

    if not isinstance(engine, RankedMatcher):
        answer = engine.apply([(call, rows) for call, rows, _ in commands], refused=refuse).to_pylist()
        return [(*row.values(), top) for row in answer]
    told = []
    for call, rows, seq in commands:
        answer = getattr(engine, call)(rows)
        told += [(*row.values(), max(seq, top)) for row in answer.to_pylist()] if answer is not None else []
    return told


class _Teller:
    """Makes up a story: what is live, and the next sequence number."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.seq = 0
        self.live: dict[str, set[Any]] = {"subscriptions": set(), "events": set(), "objects": set()}

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def number(self, high: int = 6) -> float:
        return float(self.rng.integers(0, high))

    def command(self, name: str, names: list[Any], calls: tuple[str, str, str | None]) -> tuple[str, Any]:
        """A valid command on some id: make, change or end it."""
        live = self.live[name]
        wanted = self.pick(names)
        if wanted not in live:
            live.add(wanted)
            return calls[0], wanted
        if self.rng.random() < 0.5 or calls[2] is None:
            live.discard(wanted)
            return calls[1], wanted
        return calls[2], wanted

    def batches(
        self, count: int, size: int, one: Callable[[], tuple[str, Row]], names: list[str]
    ) -> list[Batch]:
        found = []
        for _ in range(count):
            batch: Batch = {name: [] for name in names}
            for _ in range(size):
                name, row = one()
                batch[name].append({"seq": self.seq, **row})
                self.seq += int(self.rng.integers(1, 3))
            for rows in batch.values():
                self.rng.shuffle(rows)
            found.append(batch)
        return found

    def late(self, batches: list[Batch]) -> list[Batch]:
        """The same, but some events come with the micro-batch after their own."""
        for batch, following in pairwise(batches):
            held = [row for row in batch["events"] if self.rng.random() < 0.2]
            batch["events"] = [row for row in batch["events"] if row not in held]
            following["events"] += held
        return batches


def told_of(row: Row) -> tuple[Any, ...]:
    names = (
        ("event", "rank", "subscription", "score")
        if "event" in row
        else ("subscription", "op", "item", "score", "rank")
    )
    return (*(row[name] for name in names), row["seq"])


SUBSCRIBING = ("subscribe", "unsubscribe", "amend")


def range_topk(
    seed: int, *, count: int = 4, size: int = 30, table: bool = False, worded: bool = False
) -> Story:
    """Objects go by a null, or, with `worded`, by a column `op`, and then nulls are refused."""
    teller = _Teller(seed)

    def ends() -> Row:
        low = teller.number()
        high = low + teller.number(4)
        return {
            "x_lo": teller.pick([low, None]),
            "x_hi": teller.pick([high, None]),
            "k": teller.pick([None, 1, 4]),
        }

    def one() -> tuple[str, Row]:
        if not table and teller.rng.random() < 0.35:
            op, name = teller.command("subscriptions", [f"s{i}" for i in range(8)], SUBSCRIBING)
            return "subscriptions", {"op": op, "id": name, **ends()}
        op, name = teller.command("events", list(range(10)), ("make", "end", "change"))
        y = None if op == "end" else teller.number()
        row = {"id": name, "x": teller.number() if op != "change" else teller.pick([None, 1.0]), "y": y}
        if worded and op == "end":
            return "events", {**row, "y": teller.pick([None, 1.0, np.nan]), "op": "remove"}
        return "events", {**row, "op": "upsert"} if worded else row

    columns = {
        "events": {"id": WHOLE, "x": NUMBER, "y": NUMBER, **({"op": TEXT} if worded else {})},
        "subscriptions": {"id": TEXT, "x_lo": NUMBER, "x_hi": NUMBER, "k": WHOLE},
    }
    story = Story(lambda: RangeTopK(k=3, nulls="refuse" if worded else "delete"), columns)
    if table:
        story.tables = {"subscriptions": [{"id": f"s{i}", **ends()} for i in range(25)]}
    story.batches = teller.batches(count, size, one, [name for name in columns if name not in story.tables])
    return story


def matching(seed: int, *, count: int = 4, size: int = 30, table: bool = False) -> Story:
    teller = _Teller(seed)

    def wants() -> Row:
        low = teller.number()
        box = {"x_lo": low, "x_hi": teller.pick([None, low + 3]), "z_hi": teller.pick([None, 4.0])}
        jobs = teller.pick([None, ["cook"], ["cook", "nurse"], []])
        return {**box, "job_in": jobs, "score": teller.number(3)}

    def one() -> tuple[str, Row]:
        if not table and teller.rng.random() < 0.5:
            calls = teller.pick([SUBSCRIBING, ("subscribe", "unsubscribe", "rescore")])
            op, name = teller.command("subscriptions", list(range(8)), calls)
            return "subscriptions", {"op": op, "id": name, **wants()}
        return "events", {
            "id": f"e{teller.pick(range(5))}",
            "x": teller.number(),
            "z": teller.pick([None, 1.0, 5.0]),
            "job": teller.pick([None, "cook", "smith"]),
            "exclude": teller.pick([None, [1, 2]]),
        }

    columns = {
        "events": {"id": TEXT, "x": NUMBER, "z": NUMBER, "job": TEXT, "exclude": pa.list_(WHOLE)},
        "subscriptions": {
            "id": WHOLE,
            **dict.fromkeys(("x_lo", "x_hi", "z_hi", "score"), NUMBER),
            "job_in": pa.list_(TEXT),
        },
    }
    story = Story(lambda: RankedMatcher(over=["x", "z", "job"], categories=["job"], k=3), columns)
    if table:
        story.tables = {"subscriptions": [{"id": i, **wants()} for i in range(20)]}
    names = [name for name in columns if name not in story.tables]
    story.batches = teller.late(teller.batches(count, size, one, names))
    return story


def geotext(seed: int, *, count: int = 4, size: int = 24, table: bool = False) -> Story:
    teller = _Teller(seed)

    def words() -> list[str]:
        return [teller.pick(WORDS) for _ in range(int(teller.rng.integers(1, 4)))]

    def at() -> Row:
        return {"x": teller.number(), "y": teller.number(), "terms": words()}

    def one() -> tuple[str, Row]:
        if not table and teller.rng.random() < 0.35:
            op, name = teller.command("subscriptions", [f"s{i}" for i in range(6)], SUBSCRIBING)
            return "subscriptions", {"op": op, "id": name, **at(), **limits()}
        return "events", {"id": teller.seq, **at()}

    def limits() -> Row:
        return {"radius": teller.pick([None, 2.0]), "must_not": teller.pick([None, [WORDS[0]]])}

    limited = {"radius": NUMBER, "must_not": pa.list_(TEXT)}
    columns = {
        "events": {"id": WHOLE, **PLACE, "terms": pa.list_(TEXT)},
        "subscriptions": {"id": TEXT, **PLACE, "terms": pa.list_(TEXT), **limited},
    }
    story = Story(lambda: GeoTextTopK(bounds=(0, 0, 6, 6), k=2, window=9), columns)
    if table:
        story.tables = {"subscriptions": [{"id": f"s{i}", **at(), **limits()} for i in range(20)]}
    names = [name for name in columns if name not in story.tables]
    story.batches = teller.late(teller.batches(count, size, one, names))
    return story


def geotext_living(seed: int, *, count: int = 4, size: int = 24, refusals: bool = False) -> Story:
    """Messages of a time window that are edited, taken back and end by themselves, and a clock that moves.

    Now and then another vocabulary counts. With `refusals` some rows take back what is not there, bring
    no vocabulary though they say so, or come too late.
    """
    teller = _Teller(seed)
    clock = 0

    def moment(at: float) -> datetime:
        return START + timedelta(seconds=at)

    def words() -> str:
        return " ".join(teller.pick(WORDS).title() for _ in range(int(teller.rng.integers(1, 4))))

    def one() -> tuple[str, Row]:
        nonlocal clock
        if teller.rng.random() < 0.3:
            op, name = teller.command("subscriptions", [f"s{i}" for i in range(6)], SUBSCRIBING)
            wanted = {"since": teller.pick([None, moment(clock)]), "must": teller.pick([None, [WORDS[0]]])}
            wanted["phrases"] = teller.pick([None, None, [" ".join(WORDS[:2])]])
            place = {"x": teller.number(), "y": teller.number(), "text": words()}
            return "subscriptions", {"op": op, "id": name, **place, **wanted}
        clock += int(teller.rng.integers(0, 2))
        none = dict.fromkeys(("vocabulary", "documents"))
        blank = {**dict.fromkeys(("x", "y", "text", "source", "time", "until")), **none}
        turn = teller.rng.random()
        live = teller.live["events"]
        if turn > 0.95:
            count = int(teller.rng.integers(len(WORDS) + 1))
            seen = [30, *(int(teller.rng.integers(1, 31)) for _ in range(count))]
            counted = {
                "vocabulary": WORDS[:count],
                "documents": teller.pick([seen, seen, seen[:-1]] if refusals else [seen]),
            }
            return "events", {"op": "reweigh", "id": None, **blank, **counted}
        if turn < 0.15:
            return "events", {"op": "advance", "id": None, **blank, "time": moment(clock)}
        if turn < 0.35 and (live or refusals):
            name = teller.pick(sorted(live)) if live and not refusals else int(teller.rng.integers(9))
            live.discard(name)
            return "events", {"op": "retract", "id": name, **blank}
        name = int(teller.rng.integers(9))
        if refusals:
            behind = clock - teller.pick([0, 0, 2, 3, 40])
            until = teller.pick([None, moment(behind + 1), moment(behind + 3)])
        else:
            behind, until = clock, teller.pick([None, moment(clock + 1000)])
            live.add(name)
        place = {"x": teller.number(), "y": teller.number(), "text": words()}
        place["source"] = teller.pick([None, "one", "one", "other"])
        times = {"time": moment(behind), "until": until}
        return "events", {"op": "publish", "id": name, **place, **times, **none}

    time = pa.timestamp("us", "UTC")
    columns = {
        "events": {
            "op": TEXT,
            "id": WHOLE,
            **PLACE,
            "text": TEXT,
            "source": TEXT,
            "time": time,
            "until": time,
            "vocabulary": pa.list_(TEXT),
            "documents": pa.list_(WHOLE),
        },
        "subscriptions": {
            "id": TEXT,
            **PLACE,
            "text": TEXT,
            "since": time,
            "must": pa.list_(TEXT),
            "phrases": pa.list_(TEXT),
        },
    }
    settings: dict[str, Any] = {
        "bounds": (0, 0, 6, 6),
        "k": 2,
        "duplicates": "edit",
        "per_source": 1,
        "distinct": True,
        "phrases": True,
    }
    span = timedelta(seconds=20 if refusals else 2000)
    make = partial(GeoTextTopK, **settings, window=span, analyzer={"language": None})
    return Story(make, columns, teller.batches(count, size, one, list(columns)))


def moving(
    seed: int,
    engine: Callable[[], Engine],
    *,
    count: int = 4,
    size: int = 24,
    table: bool = False,
    hours: bool = False,
) -> Story:
    """Objects, queries and positions; with `hours` objects open and close, and a clock moves."""
    teller = _Teller(seed)
    clock = 0

    def moment(ahead: int | None) -> datetime | None:
        return None if ahead is None else START + timedelta(seconds=clock + ahead)

    def times() -> Row:
        nonlocal clock
        if not hours:
            return {}
        clock += 1
        opens = teller.pick([None, None, 1, 4])
        closes = teller.pick([None, 6, 9])
        return {"opens": moment(opens), "closes": moment(closes), "time": moment(teller.pick([None, 0]))}

    def at() -> Row:
        return {"x": teller.number(9), "y": teller.number(9)}

    def one() -> tuple[str, Row]:
        turn = teller.rng.random()
        if hours and turn < 0.1:
            blank = dict.fromkeys(("x", "y", "price", "opens", "closes"))
            return "objects", {"op": "advance", "id": None, **blank, "time": moment(0)}
        if not table and turn < 0.4:
            op, name = teller.command("objects", [f"o{i}" for i in range(7)], ("upsert", "remove", "upsert"))
            return "objects", {"op": op, "id": name, **at(), "price": teller.number(), **times()}
        live = sorted(teller.live["subscriptions"])
        if not table and (turn < 0.7 or not live):
            op, name = teller.command("subscriptions", list(range(6)), SUBSCRIBING)
            return "subscriptions", {"op": op, "id": name, **at()}
        return "events", {"id": teller.pick(live), **at()}

    time = dict.fromkeys(("opens", "closes", "time"), pa.timestamp("us", "UTC")) if hours else {}
    columns = {
        "objects": {"id": TEXT, **PLACE, "price": NUMBER, **time},
        "subscriptions": {"id": WHOLE, **PLACE},
        "events": {"id": WHOLE, **PLACE},
    }
    story = Story(engine, columns)
    if table:
        teller.live["subscriptions"] = set(range(4))
        story.tables = {
            "objects": [{"id": f"o{i}", **at(), "price": teller.number()} for i in range(7)],
            "subscriptions": [{"id": i, **at()} for i in range(9)],
        }
    story.batches = teller.batches(count, size, one, [name for name in columns if name not in story.tables])
    return story


def moving_topk(seed: int, **given: Any) -> Story:
    return moving(seed, lambda: MovingTopK(over=["price"], k=2), **given)


def moving_hours(seed: int, **given: Any) -> Story:
    return moving(seed, lambda: MovingTopK(over=["price"], k=2), hours=True, **given)


def moving_roads(seed: int, **given: Any) -> Story:
    """Objects with hours on roads, and queries that drive there."""
    make = partial(MovingTopK, over=["price"], k=2, metric="network", graph=roads.graph("one-way"))
    return moving(seed, make, hours=True, **given)


def skyline_roads(seed: int, **given: Any) -> Story:
    make = partial(MovingSkyline, over=["price"], metric="network", graph=roads.graph("odd"))
    return moving(seed, make, hours=True, **given)


def moving_skyline(seed: int, **given: Any) -> Story:
    return moving(seed, lambda: MovingSkyline(over=["price"]), **given)
