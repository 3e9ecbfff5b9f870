"""Messages with places and words, and subscriptions drawn from them, of the geo-text paper, section 7.1.

The paper takes tweets, place names and reviews; this is a stream of the same kind that needs no download.
Places cluster around towns of Zipfian size in the unit square, some lie anywhere. Words are Zipfian over a
vocabulary, their number a message is 1 + Poisson. A subscription takes one to five distinct words of
a random message and that message's place; alpha is uniform in [0, 1].

`world` gives an engine with a full window and all subscriptions. Loading one takes minutes where measuring
takes seconds, so it is saved in the private scratch directory of this user (`rankcast.spark.scratch`), under
a name that says what is in it, and read from there the next time.
"""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankcast import GeoTextTopK, Vocabulary
from rankcast.bench.runner import Parameters
from rankcast.bench.workloads import Floats, Integers, batches, draw, occurrences, zipf_weights
from rankcast.errors import SnapshotError

BOUNDS = (0.0, 0.0, 1.0, 1.0)
TOWNS = 50
TOWN_SKEW = 0.8
TOWN_DEVIATION = 0.02
ANYWHERE = 0.1
MOST_WORDS = 5
DATA = Path("../shared/data")
REAL = {
    "places": ("geonames_cities1000.parquet", ("name", "admin1", "admin2", "country"), "lon", "lat"),
    "reviews": ("airbnb_geo_messages.parquet", ("text",), "lon", "lat"),
    "tweets": ("us_geotweets_2016.parquet", ("text",), "lon", "lat"),
}


def messages(
    count: int,
    rng: np.random.Generator,
    *,
    words: int = 50_000,
    skew: float = 1.0,
    mean_words: float = 9.0,
    first_id: int = 0,
    towns: Floats | None = None,
) -> pa.Table:
    """Make messages `id, x, y, terms`.

    Args:
        count: how many.
        rng: the generator.
        words: size of the vocabulary.
        skew: of the words' frequencies; 1 is Zipf's law.
        mean_words: words a message on average, repeats included (the paper's tweets: 9).
        first_id: the id of the first message; later ones follow.
        towns: where towns lie, (TOWNS, 2); by default they are drawn, too.
    """
    x, y = _places(count, rng, rng.random((TOWNS, 2)) if towns is None else towns)
    lengths = 1 + rng.poisson(mean_words - 1.0, count)
    drawn = draw(zipf_weights(words, skew), int(lengths.sum()), rng)
    return _table(
        np.arange(first_id, first_id + count), x, y, lengths, pa.array(_vocabulary(words)).take(drawn)
    )


def stream(data: str, count: int, rng: np.random.Generator) -> pa.Table:
    """Messages of a kind: "synthetic", or real ones in random order: place names, reviews (at most all)."""
    if data == "synthetic":
        return messages(count, rng)
    name, text, lon, lat = REAL[data]
    rows = pq.read_table(DATA / name, columns=[*text, lon, lat]).drop_null()
    rows = rows.take(pa.array(rng.permutation(rows.num_rows)[:count]))
    joined = pc.binary_join_element_wise(*(rows[column] for column in text), " ")
    words = pc.split_pattern_regex(
        pc.utf8_trim(pc.utf8_lower(joined), " .,!?()"), r"[^\pL\pN]+"
    ).combine_chunks()
    x, y = (rows[column].to_numpy().astype(np.float64) for column in (lon, lat))
    return _table(np.arange(rows.num_rows), x, y, np.diff(words.offsets.to_numpy()), words.flatten())


def bounds_of(rows: pa.Table) -> tuple[float, float, float, float]:
    """The bounds of messages: the unit square for the synthetic ones, what holds them for real ones."""
    x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
    low, high = (x.min(), y.min()), (x.max(), y.max())
    inside = min(low) >= 0.0 and max(high) <= 1.0
    return BOUNDS if inside else (float(low[0]), float(low[1]), float(high[0]), float(high[1]))


def subscriptions(
    source: pa.Table,
    count: int,
    rng: np.random.Generator,
    *,
    least_words: int = 1,
    most_words: int = MOST_WORDS,
) -> pa.Table:
    """Make subscriptions `id, x, y, terms, alpha` from random messages of `source`.

    A subscription wants `least_words` to `most_words` words, and gets all the distinct ones of its message if
    there are fewer.
    """
    chosen = source.take(pa.array(rng.integers(0, source.num_rows, count)))
    terms = chosen.column("terms").combine_chunks()
    lengths = np.diff(terms.offsets.to_numpy())
    wanted = rng.integers(least_words, most_words + 1, count)
    picked, counts = _pick(terms.flatten(), lengths, wanted, rng)
    x, y = (chosen.column(name).to_numpy() for name in "xy")
    table = _table(np.arange(count), x, y, counts, picked)
    return table.append_column("alpha", pa.array(rng.random(count)))


def _pick(
    flat: pa.Array, lengths: Integers, wanted: Integers, rng: np.random.Generator
) -> tuple[pa.Array, Integers]:
    """Take up to `wanted[i]` distinct words of list i, each distinct word equally likely."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    code = flat.dictionary_encode().indices.to_numpy().astype(np.int64)
    _, first = np.unique(owner * (int(code.max(initial=0)) + 1) + code, return_index=True)
    shuffled = first[np.argsort(rng.random(len(first)))]
    kept = shuffled[occurrences(owner[shuffled]) < wanted[owner[shuffled]]]
    kept = kept[np.argsort(owner[kept], kind="stable")]
    return flat.take(pa.array(kept)), np.bincount(owner[kept], minlength=len(lengths))


def _places(count: int, rng: np.random.Generator, towns: Floats) -> tuple[Floats, Floats]:
    """Draw places around towns, some anywhere, all inside the bounds."""
    near = towns[draw(zipf_weights(TOWNS, TOWN_SKEW), count, rng)] + rng.normal(
        0.0, TOWN_DEVIATION, (count, 2)
    )
    away = rng.random(count) < ANYWHERE
    place = np.where(away[:, None], rng.random((count, 2)), np.clip(near, 0.0, 1.0))
    return place[:, 0].copy(), place[:, 1].copy()


def _vocabulary(words: int) -> list[str]:
    """Name the words, the most frequent first."""
    return [f"w{number}" for number in range(words)]


def _table(ids: Integers, x: Floats, y: Floats, lengths: Integers, terms: pa.Array) -> pa.Table:
    """Put columns and lists of words together."""
    offsets = pa.array(np.r_[0, np.cumsum(lengths)].astype(np.int32))
    lists = pa.ListArray.from_arrays(offsets, terms)
    return pa.table({"id": pa.array(ids), "x": pa.array(x), "y": pa.array(y), "terms": lists})


SEED = 24
PART = 200_000  # subscriptions between two snapshots


class World(NamedTuple):
    """A window with all subscriptions over it, and what comes next, for which the window has room."""

    messages: pa.Table
    held: int
    subscriptions: pa.Table
    vocabulary: Vocabulary
    k: int
    engine: GeoTextTopK

    def roomy(self) -> GeoTextTopK:
        """The engine, with room in the window: arrivals expire nothing."""
        return copy.deepcopy(self.engine)

    def full(self) -> GeoTextTopK:
        """The engine with its window filled up by messages without words: every arrival expires one."""
        engine = copy.deepcopy(self.engine)
        engine.publish(silent(self.messages.slice(self.held), first_id=self.messages.num_rows))
        return engine


def silent(messages: pa.Table, *, first_id: int) -> pa.Table:
    """As many messages without words."""
    empty = pa.array([[]] * messages.num_rows, messages.schema.field("terms").type)
    ids = pa.array(np.arange(first_id, first_id + messages.num_rows))
    return messages.set_column(3, "terms", empty).set_column(0, "id", ids)


def world(parameters: Parameters, **settings: Any) -> World:
    """A world of `window` messages and `subscriptions`, `events` to come, by the parameters of a case."""
    rng = np.random.default_rng(SEED)
    held, events = parameters["window"], parameters["events"]
    messages = stream(parameters.get("data", "synthetic"), held + events, rng)
    held = messages.num_rows - events
    words = parameters.get("words")
    span = {} if words is None else {"least_words": words, "most_words": words}
    count = parameters["subscriptions"]
    interested = subscriptions(messages.slice(0, held), count, rng, **span)
    vocabulary = Vocabulary.fit(messages.slice(0, held))
    bounds = bounds_of(messages)
    engine = GeoTextTopK(
        bounds=bounds, k=parameters["k"], window=held + events, vocabulary=vocabulary, **settings
    )
    engine = _loaded(engine, messages.slice(0, held), interested, repr((parameters, settings)))
    return World(messages, held, interested, vocabulary, parameters["k"], engine)


def _loaded(engine: GeoTextTopK, held: pa.Table, subscriptions: pa.Table, name: str) -> GeoTextTopK:
    """The engine with a window and subscriptions, from a snapshot if there is one, even of a part of them."""
    digest = hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
    from rankcast.spark import scratch  # noqa: PLC0415  (listing cases needs no Spark)

    path = scratch.private("geotext-worlds") / digest
    try:
        engine = copy.deepcopy(GeoTextTopK.load(path))
    except (SnapshotError, OSError):
        engine.publish(held)
    for part in batches(subscriptions.slice(len(engine)), PART):
        for rows in batches(part, 20_000):
            engine.subscribe(rows)
        engine.save(path)
    return engine
