"""Histories in which geo-text has everything at once: all columns and settings, beside each other.

Messages end by themselves and by age, are taken back and edited, and some come late but in time. The teller
knows which are live, so that one process refuses no row.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from rankcast import GeoTextTopK
from tests.spark.stories import (
    NUMBER,
    PLACE,
    START,
    SUBSCRIBING,
    TEXT,
    WHOLE,
    WORDS,
    Row,
    Story,
    _Teller,
)

SPAN = 30  # seconds that a message lives, or until it ends
TIME, LIST = pa.timestamp("us", "UTC"), pa.list_(TEXT)
LIMITS = {
    "radius": NUMBER, "min_score": NUMBER, "must": LIST, "must_not": LIST, "phrases": LIST, "since": TIME,
}  # fmt: skip
OWN = {"k": WHOLE, "alpha": NUMBER, "vector": pa.list_(NUMBER)}
LIFE = {"source": TEXT, "time": TIME, "until": TIME, "vector": pa.list_(NUMBER)}
COUNTED = {"vocabulary": LIST, "documents": pa.list_(WHOLE)}
CITY: dict[str, Any] = {
    "k": 3, "alpha": 0.4, "window": timedelta(seconds=SPAN), "metric": "haversine", "scale": "5 km",
    "half_life": timedelta(seconds=15), "duplicates": "edit", "place_only": True, "per_source": 1,
    "distinct": True, "phrases": True, "vectors": 3, "beta": 0.5, "analyzer": {"language": "english"},
}  # fmt: skip
PLANE: dict[str, Any] = {
    "bounds": (0, 0, 6, 6), "k": 3, "window": timedelta(seconds=SPAN), "scale": 4, "place_only": True,
    "half_life": timedelta(seconds=20), "per_source": 2, "distinct": True, "phrases": True, "vectors": 3,
}  # fmt: skip


class _Life:
    """The clock of a story, and when each live message ends."""

    def __init__(self) -> None:
        self.clock, self.ends = 0, dict[int, int]()

    def move(self, time: int) -> None:
        self.clock = max(self.clock, time)
        self.ends = {name: end for name, end in self.ends.items() if end > self.clock}


def moment(at: float | None) -> datetime | None:
    return None if at is None else START + timedelta(seconds=at)


def geotext_whole(
    seed: int, *, count: int = 5, size: int = 40, table: bool = False, meanings: bool = False
) -> Story:
    """A city on the globe with texts, edits, and vectors beside words.

    With `meanings` a plane with terms, where only vectors count, and ids that are live are not used again.
    """
    teller, life = _Teller(seed), _Life()
    word = "terms" if meanings else "text"
    settings = PLANE if meanings else CITY

    def words(none: bool) -> Any:
        found = [teller.pick(WORDS) for _ in range(int(teller.rng.integers(1, 4)))]
        if none and teller.rng.random() < 0.25:
            return None
        return found if meanings else " ".join(found).title()

    def vector() -> list[float]:
        first, *others = (float(number) for number in teller.rng.integers(-1, 3, 3))
        return [first + 0.5, *others]

    def at() -> Row:
        x, y = teller.number(), teller.number()
        return {"x": x, "y": y} if meanings else {"x": 2.3 + x / 100, "y": 48.8 + y / 100}

    def seldom(*values: Any) -> Any:
        return teller.pick(values) if teller.rng.random() < 0.2 else None

    def wants() -> Row:
        far = [1.5, 3.0] if meanings else [1200, 2500.0]
        return {
            **at(),
            word: words(none=True),
            "vector": None if meanings and teller.rng.random() < 0.25 else vector(),
            "k": teller.pick([None, 1, 6]),
            "alpha": teller.pick([None, 0.1, 0.8]),
            "radius": seldom(*far),
            "min_score": seldom(0.3, 0.5),
            "must": seldom([WORDS[0]]),
            "must_not": seldom([WORDS[1]]),
            "phrases": seldom([" ".join(WORDS[:2])], [WORDS[2]]),
            "since": seldom(*map(moment, [50, 95, 105] if table else [max(0, life.clock - 5)])),
        }

    def blank(**given: Any) -> tuple[str, Row]:
        empty = dict.fromkeys(("x", "y", word, *LIFE, *COUNTED))
        return "events", {"id": None, **empty, **given}

    def publish() -> tuple[str, Row]:
        time = life.clock + teller.pick([1, 1, 2, 0, -3, -8])
        until = teller.pick([None, None, time + 4, time + 12])
        life.move(time)
        if until is not None and until <= life.clock:
            until = life.clock + 1
        free = [name for name in range(40) if not meanings or name not in life.ends]
        name = teller.pick(free[:12])
        life.ends[name] = min(time + SPAN, time + SPAN if until is None else until)
        row = {**at(), word: words(none=meanings), "vector": vector()}
        row["source"] = teller.pick([None, "one", "one", "two", "three"])
        return blank(op="publish", id=name, **row, time=moment(time), until=moment(until))

    def one() -> tuple[str, Row]:
        turn = teller.rng.random()
        if not table and turn < 0.25:
            op, name = teller.command("subscriptions", [f"s{i}" for i in range(9)], SUBSCRIBING)
            return "subscriptions", {"op": op, "id": name, **wants()}
        if turn < 0.3:
            life.move(life.clock + teller.pick([0, 1, 5]))
            return blank(op="advance", time=moment(life.clock))
        if turn < 0.4 and life.ends:
            name = teller.pick(sorted(life.ends))
            del life.ends[name]
            return blank(op="retract", id=name)
        if turn < 0.43:
            seen = [int(each) for each in teller.rng.integers(1, 31, len(WORDS))]
            return blank(op="reweigh", vocabulary=WORDS, documents=[30, *seen])
        return publish()

    words_of = LIST if meanings else TEXT
    columns = {
        "events": {"op": TEXT, "id": WHOLE, **PLACE, word: words_of, **LIFE, **COUNTED},
        "subscriptions": {"id": TEXT, **PLACE, word: words_of, **OWN, **LIMITS},
    }
    make: Callable[[], GeoTextTopK] = partial(GeoTextTopK, **settings)
    story = Story(make, columns)
    if table:
        story.tables = {"subscriptions": [{"id": f"s{i}", **wants()} for i in range(20)]}
    names = [name for name in columns if name not in story.tables]
    story.batches = teller.batches(count, size, one, names)
    return story
