"""Workloads and a plain model of `GeoTextTopK`, written from the contract."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from rankcast import GeoTextTopK, Vocabulary
from rankcast.core.contract import Workload
from rankcast.core.engine import Engine
from tests.laws.range_topk import CROWD, change_rows

# Haversine distances go through sine, cosine and arcsine, which may differ in the last bit between libraries.
SCORE_TOLERANCE = 1e-12

CHURN_SETTINGS = {"bounds": (0, 0, 9, 9), "k": 3, "window": 40}
PLANE = (0.0, 0.0, 4.0, 3.0)
BELT = (-175.0, -5.0, 175.0, 30.0)
SCALES: dict[str, list[Any]] = {
    "euclidean": [2, 1.25, 2.5, 1e-6, 40],
    "haversine": ["5000 km", 3_400_000, "1 m", 1e9],
}
Places = list[tuple[float, float]]
Texts = list[list[str]]
PLACES: dict[str, Places] = {
    "euclidean": [(0, 0), (4, 3), (4, 0), (1, 2), (1, 2.5), (3, 3), (2, 0)],
    "haversine": [(10, 0), (170, 0), (-170, 0), (10, 30), (170, 30), (-170, 30)],
}
SPANS: list[int | timedelta] = [
    timedelta(seconds=8), timedelta(seconds=1), 1, 3, timedelta(seconds=100), 20, 2, timedelta(days=4),
]  # fmt: skip
TIMED = [span for span in SPANS if isinstance(span, timedelta)]
LIMITS: dict[str, dict[str, list[Any]]] = {
    metric: {
        "radius": [None, *radii],
        "min_score": [None, 0, 0.3, 0.5, 0.75, 1, -1],
        "must": [None, ["a"], ["b"], ["a", "b", "a"], ["never"], []],
        "must_not": [None, ["a"], ["b"], ["z", "é"], ["never"], []],
    }
    for metric, radii in (("euclidean", [0, 0.5, 2.5, 3, 1e-9, 1e9]), ("haversine", [0, 3e6, 5e6, 1e9]))
}
PHRASES = [None, ["a b"], ["b a"], ["a"], [" a   a b", "b"], ["z é"], ["never a"], [""], []]
SOURCES: list[list[Any]] = [["s", "t"], ["s", "s", None, "t"], [7], [3, None]]
UNITS = 8  # steps of the clock to a span; times are multiples of half a step
HALVINGS = [1, 2, 0.5, 8, 250]  # half-lives to a span
PATTERNS = ["late", "late", "steps", "shuffled", "drift", "equal", "jump", "backwards"]
WORDS = ["a", "b", "é", "ab", "", "z"]
TEXTS = [["a"], ["a", "b"], ["b", "a"], ["a", "a", "b"], ["b", "z"], ["é", "ab", "z"], ["", "z"], WORDS, []]
CORPUS = [["a", "b"], ["a", "a"], ["a", "é"], [], ["far"]]
FITTED = Vocabulary.fit({"terms": CORPUS})
OTHERS: list[Texts] = [[["b"], ["b", "z"], ["b"], ["new", "a"], ["é"]], [["z"]] * 7, []]
OTHER_FITS: dict[Vocabulary | None, Texts] = {Vocabulary.fit({"terms": texts}): texts for texts in OTHERS}
CORPORA: dict[Vocabulary | None, Texts] = {None: [], FITTED: CORPUS, **OTHER_FITS}
LISTED = {vocabulary: pa.table(vocabulary).to_pydict() for vocabulary in OTHER_FITS}
BROUGHT: list[tuple[list[str], list[int], Texts]] = [  # as a row of messages brings one
    (table["term"][1:], table["documents"], OTHER_FITS[vocabulary]) for vocabulary, table in LISTED.items()
]
FEW = [["a"], ["a"], ["a", "b"], ["z"]]  # lists of most of what is live, so that places and times decide
VECTORS = [[1, 0], [0, -2.5], [3, 4], [-1, 0], [3, 4.0], [4, 3], [1e-200, 0], [1, 1e150]]
CALLS = ["publish", "amend", "publish", "publish", "subscribe", "publish", "unsubscribe", "retract"]
CALLS += ["reweigh", "advance"]
EPOCH = datetime(1970, 1, 1)
START = datetime(2024, 2, 29, 23, 59, 58)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:  # noqa: PLR0912, PLR0915  one kind of step after the other
    metric = draw(st.sampled_from(["euclidean", "euclidean", "haversine"]))
    long = draw(st.integers(0, 3)) == 3
    span = draw(st.sampled_from(TIMED if long else SPANS))
    settings: dict[str, Any] = {
        "k": draw(st.sampled_from([2, 3, 1, 2, 5, 9, 40, 10**6, 2**31 - 1])),
        "alpha": draw(st.sampled_from([0, 0.25, 0.5, 1])),
        "window": span,
        "metric": metric,
        "vocabulary": draw(st.sampled_from([None, FITTED])),
        "duplicates": draw(st.sampled_from(["refuse", "refuse", "edit"])),
        "place_only": draw(st.sampled_from([False, False, True])),
        "per_source": draw(st.sampled_from([None, None, None, 1, 2])),
        "distinct": draw(st.sampled_from([False, False, True])),
        "phrases": draw(st.sampled_from([False, False, True])),
        "analyzer": draw(st.sampled_from([None, None, None, {"language": None}])),
    }
    if draw(st.integers(0, 3)) == 3:
        settings |= {"vectors": 2, "beta": draw(st.sampled_from([1, 1, 0.5, 0]))}
    if metric == "euclidean":
        settings["bounds"] = PLANE
    elif draw(st.booleans()):
        settings["bounds"] = BELT
    settings["scale"] = draw(st.sampled_from([None, None, *SCALES[metric]]))
    if isinstance(span, timedelta):
        halvings = None if draw(st.booleans()) else draw(st.sampled_from(HALVINGS))
        settings["half_life"] = None if halvings is None else span / halvings
    subscription = draw(st.sampled_from([lambda i: i - 1, lambda i: f"s{i}"]))
    item = draw(st.sampled_from([lambda i: 3 - i, lambda i: f"m{i}"]))
    texts = draw(st.sampled_from([FEW, TEXTS]))
    window = Window(span)
    changing = settings["duplicates"] == "edit" or draw(st.integers(0, 2)) == 2
    sources = draw(st.sampled_from(SOURCES)) if settings["per_source"] else []
    live: list[Any] = []
    steps: list[tuple[str, Any]] = []
    if long:
        chance = Random(draw(st.integers(0, 2**32)))  # noqa: S311  a workload, no secret
        steps = _stream(
            chance, draw(st.integers(6, 10)), window, PLACES[metric], (subscription, item), sources, changing
        )
        return Workload(settings, tuple(_with_texts(_with_vectors(steps, settings), settings)))
    for call in ["subscribe", "publish", *draw(st.lists(st.sampled_from(CALLS), max_size=6))]:
        if call == "publish":
            edits = settings["duplicates"] == "edit"
            rows = draw(_messages(window, PLACES[metric], texts, item, sources, (changing, edits)))
            steps.append((call, rows))
        elif call == "reweigh":
            steps.append((call, draw(st.sampled_from(list(OTHER_FITS)))))
        elif call == "advance":
            if isinstance(span, timedelta):
                ahead = draw(st.sampled_from([1, 0.5, 0, -1, UNITS // 2, UNITS, 40 * UNITS]))
                moment = (window.newest or START) + ahead * (span / UNITS)
                window.move(moment)
                steps.append((call, pa.table({"time": [moment]})))
        elif call == "retract":
            taken = draw(_some([message["id"] for message in window.messages]))
            window.retract(taken)
            steps.append((call, taken))
        elif call == "unsubscribe":
            gone = draw(_some(live))
            live = [name for name in live if name not in gone]
            steps.append((call, gone))
        else:
            free = [name for name in map(subscription, range(CROWD + 6)) if name not in live]
            crowd = call == "subscribe" and not live and draw(st.integers(0, 5)) == 5
            names = free[:CROWD] if crowd else draw(_some(free[:6] if call == "subscribe" else live))
            live += [name for name in names if name not in live]
            limited = LIMITS[metric] if draw(st.booleans()) else {}
            if settings["phrases"] and draw(st.booleans()):
                limited = {**limited, "phrases": PHRASES}
            if limited and isinstance(span, timedelta):
                newest = window.newest or START
                limited = {**limited, "since": [None, START, newest, newest - span / 2, newest + span / 2]}
            given = [*texts, [], None] if settings["place_only"] else texts
            whole = call == "subscribe"
            steps.append((call, draw(_subscriptions(names, PLACES[metric], given, limited, whole=whole))))
    return Workload(settings, tuple(_with_texts(_with_vectors(steps, settings), settings)))


def _with_vectors(steps: list[tuple[str, Any]], settings: dict[str, Any]) -> list[tuple[str, Any]]:
    """The same steps with a vector in each row that has one; who says nothing of a place keeps its own."""
    if "vectors" not in settings:
        return steps
    alone, chance, found = settings["beta"] == 1, Random(len(steps)), []  # noqa: S311
    for call, rows in steps:
        if call in ("publish", "subscribe") or (call == "amend" and "x" in rows):
            rows["vector"] = [chance.choice(VECTORS) for _ in rows["id"]]
            if alone and settings["place_only"] and call != "publish":
                rows["vector"] = [vector if chance.random() < 0.7 else None for vector in rows["vector"]]
        if alone and chance.random() < 0.3 and isinstance(rows, dict):
            rows = {name: values for name, values in rows.items() if name != "terms"}  # noqa: PLW2901
        found.append((call, rows))
    return found


def _with_texts(steps: list[tuple[str, Any]], settings: dict[str, Any]) -> list[tuple[str, Any]]:
    """The same steps with texts instead of terms, if there is an analyzer."""
    if settings["analyzer"] is None:
        return steps

    def texts(name: str, values: list[Any]) -> tuple[str, list[Any]]:
        if name != "terms":
            return name, values
        return "text", [None if words is None else " ".join(words) for words in values]

    return [
        (call, dict(texts(*each) for each in rows.items()) if isinstance(rows, dict) else rows)
        for call, rows in steps
    ]


@st.composite
def _some(draw: st.DrawFn, names: list[Any]) -> list[Any]:
    """Up to three of the names, from anywhere, seldom none."""
    size = min(draw(st.sampled_from([2, 3, 1, 3, 2, 0])), len(names))
    start = draw(st.integers(0, max(len(names) - 1, 0)))
    return (names + names)[start : start + size]


@st.composite
def _subscriptions(
    draw: st.DrawFn, names: list[Any], places: Places, texts: list[Any], limits: dict[str, list[Any]], *,
    whole: bool,
) -> dict[str, list[Any]]:  # fmt: skip
    rows: dict[str, list[Any]] = {"id": names}
    spots = [draw(st.sampled_from(places)) for _ in names]
    for axis, name in enumerate("xy"):
        if whole or draw(st.booleans()):
            rows[name] = [spot[axis] for spot in spots]
    if whole or draw(st.booleans()):
        rows["terms"] = [draw(st.sampled_from(texts)) for _ in names]
    own: dict[str, list[Any]] = {"k": [None, None, 1, 2, 9, 60, 2**31 - 1], "alpha": [None, 0, 0.25, 1]}
    own |= limits
    for name, values in own.items():
        if draw(st.booleans()):
            rows[name] = [draw(st.sampled_from(values)) for _ in names]
    return rows


@st.composite
def _messages(  # noqa: PLR0912  one kind of row after the other
    draw: st.DrawFn, window: Window, places: Places, texts: Texts, item: Callable[[int], Any],
    sources: list[Any], changes: tuple[bool, bool],
) -> dict[str, list[Any]]:  # fmt: skip
    """Messages whose ids are free when they come, as far as they are not late; freed ids come again soon.

    Some take others back, or end by themselves, if there are to be changes; ids need not be free for edits.
    """
    rows: dict[str, list[Any]] = {"id": [], "x": [], "y": [], "terms": []}
    (changing, edits), timed = changes, isinstance(window.span, timedelta)
    if timed:
        rows["time"] = []
    if changing and draw(st.booleans()):
        rows["op"] = []
        rows |= {"vocabulary": [], "documents": []} if draw(st.booleans()) else {}
    if changing and timed and draw(st.booleans()):
        rows["until"] = []
    told: bool = draw(st.booleans())
    rows |= {"source": []} if sources and told else {}
    size = draw(st.sampled_from([2, 1, 7, 4, 12, 3, 0]))
    for place, time in enumerate(draw(_times(window, size))):
        x, y = draw(st.sampled_from(places))
        values: dict[str, Any] = {"x": x, "y": y, "terms": draw(st.sampled_from(texts)), "time": time}
        values |= {"op": "publish", "until": None, "source": draw(st.sampled_from(sources or [None]))}
        values |= dict.fromkeys(["vocabulary", "documents"])
        if "op" in rows:
            words = ["publish", "publish", "retract", *(["advance"] if timed and place < size - 1 else [])]
            words += ["reweigh"] if "vocabulary" in rows and place < size - 1 else []
            values["op"] = draw(st.sampled_from(words))
        if "until" in rows and isinstance(window.span, timedelta):
            ahead = draw(st.sampled_from([None, 1, 2, 0.5, UNITS - 1, UNITS, 2 * UNITS]))
            values["until"] = None if ahead is None else time + ahead * (window.span / UNITS)
        if values["op"] == "retract" and window.messages:
            values["id"] = draw(st.sampled_from([message["id"] for message in window.messages]))
            window.retract([values["id"]])
            values |= dict.fromkeys(["x", "y", "terms", "time", "until", "source"])
        elif values["op"] == "reweigh":
            values |= dict.fromkeys(["x", "y", "terms", "time", "until", "source"]) | {"id": item(0)}
            values["vocabulary"], values["documents"], _ = draw(st.sampled_from(BROUGHT))
        elif values["op"] == "advance":
            window.move(time)
            values |= dict.fromkeys(["x", "y", "terms", "until", "source"]) | {"id": item(0)}
        else:
            values["op"] = "publish"
            taken = window.arrive(time, values["until"])
            held = window.messages
            if isinstance(window.span, int):
                held = held[max(0, len(held) + 1 - window.span) :]
            used = {message["id"] for message in held} if taken and not edits else set()
            free = [name for name in map(item, range(200)) if name not in used]
            values["id"] = draw(st.sampled_from(free[:3]))
            if taken:
                window.retract([values["id"]])
                window.add(values)
        for column, held in rows.items():
            held.append(values[column])
    return rows


def _stream(
    chance: Random, publishes: int, window: Window, places: Places, names: tuple[Callable[[int], Any], ...],
    sources: list[Any], changing: bool,
) -> list[tuple[str, Any]]:  # fmt: skip
    """Some subscriptions, and many messages in small batches, half of them late, while time goes on.

    Long enough for messages to come late, to be overtaken in rank and age, and to expire one by one.
    """
    assert isinstance(window.span, timedelta)
    subscription, item = names

    def interests(few: list[int]) -> dict[str, list[Any]]:
        spots = [chance.choice(places) for _ in few]
        return {
            "id": [subscription(i) for i in few],
            "x": [x for x, _ in spots],
            "y": [y for _, y in spots],
            "terms": [chance.choice(FEW) for _ in few],
            "k": [chance.choice([2, 3, 5, 4, 9, 1, None, 60]) for _ in few],
            "alpha": [chance.choice([None, 0.25, 0.75, 1, 0]) for _ in few],
        }

    steps: list[tuple[str, Any]] = [("subscribe", interests([0, 1, 2, 3]))]
    came = 0
    for _ in range(publishes):
        rows: dict[str, list[Any]] = {"id": [], "x": [], "y": [], "terms": [], "time": []}
        if changing:
            rows["until"] = []
        if sources:
            rows["source"] = []
        for _ in range(chance.choice([1, 2, 4, 8])):
            step = chance.choice([0.5, 1, 1, 2]) if chance.random() < 0.5 else -chance.randint(0, UNITS + 1)
            time = (window.newest or START) + step * (window.span / UNITS)
            ahead = chance.choice([None, None, 2, 4, 6])
            until = None if ahead is None or not changing else time + ahead * (window.span / UNITS)
            x, y = chance.choice(places)
            values = {"id": item(came), "x": x, "y": y, "terms": chance.choice(FEW), "time": time}
            values |= {"until": until, "source": chance.choice(sources) if sources else None}
            if window.arrive(time, until):
                window.add(values)
            for column, held in rows.items():
                held.append(values[column])
            came += 1
        steps.append(("publish", rows))
        again = [chance.randrange(4)]
        if changing and chance.random() < 0.5:
            held = [message["id"] for message in window.messages]
            taken = chance.sample(held, min(len(held), chance.choice([1, 1, 3])))
            window.retract(taken)
            steps.append(("retract", taken))
        if chance.random() < 0.2:
            steps.append(("amend", interests(again)))
        elif chance.random() < 0.1:
            steps += [("unsubscribe", [subscription(again[0])]), ("subscribe", interests(again))]
    return steps


@st.composite
def _times(draw: st.DrawFn, window: Window, size: int) -> list[datetime]:
    """Times of messages around the newest: late, shuffled, equal, drifting, bursts, jumps of the clock."""
    newest, steps = window.newest or START, [0.0] * size
    if not isinstance(window.span, timedelta):
        return [newest] * size
    pattern = draw(st.sampled_from(PATTERNS))
    if pattern == "late":  # ahead by little, now and then behind by up to more than the span
        behind = st.integers(-UNITS - 2, 0)
        steps = [i if draw(st.booleans()) else draw(behind) for i in range(1, size + 1)]
    elif pattern == "steps":
        steps = [draw(st.sampled_from([-4, -3, -1, -0.5, 0, 0, 1, 1, 2, 3])) for _ in range(size)]
    elif pattern == "shuffled":
        steps = [place - UNITS // 2 for place in draw(st.permutations(range(size)))]
    elif pattern == "drift":  # each a little later than the one before, all of them late or none
        first = draw(st.integers(-UNITS, 1))
        steps = [first + i / 2 for i in range(size)]
    elif pattern == "backwards":
        steps = [1 - i / 2 for i in range(size)]
    elif pattern == "jump" and size:  # of less than the span, just the span, far beyond; others stay behind
        jump = draw(st.sampled_from([UNITS - 1, UNITS // 2, UNITS, 40 * UNITS, 1000 * UNITS]))
        at = draw(st.integers(0, size - 1))
        steps = [jump if i == at else draw(st.integers(0, jump)) for i in range(size)]
    return [newest + step * (window.span / UNITS) for step in steps]


def churn(engine: Engine, round_: int) -> None:
    """A round that ends with as much alive as it began with: new ids, new words, the same sizes."""
    assert isinstance(engine, GeoTextTopK)
    names = [f"s{round_}-{i}" for i in range(20)]
    where = {"x": [i % 10 for i in range(20)], "y": [i // 2 for i in range(20)]}
    engine.subscribe({"id": names, **where, "terms": [["common", f"s{round_}-{i}"] for i in range(20)]})
    texts = [["common", f"w{round_}-{i}", f"w{round_}-{i % 3}"] for i in range(20)]
    engine.publish({"id": [f"m{round_}-{i}" for i in range(20)], **where, "terms": texts})
    engine.amend({"id": names[:10], "terms": [[f"t{round_}-{i}"] for i in range(10)]})
    engine.unsubscribe(names)


class Window:
    """The messages that are live, in order of arrival; a count or a span of time."""

    def __init__(self, span: int | timedelta) -> None:
        self.span = span
        self.newest: datetime | None = None
        self.messages: list[dict[str, Any]] = []

    def arrive(self, time: datetime, until: datetime | None = None) -> bool:
        """Move on to a message, which the caller then adds; False if it comes too late."""
        if isinstance(self.span, int):
            return True
        if self.newest is not None and time <= self.newest - self.span:
            return False
        if until is not None and self.newest is not None and until <= self.newest:
            return False
        self.move(time)
        return True

    def move(self, time: datetime) -> None:
        """Move the clock of a window of time."""
        assert isinstance(self.span, timedelta)
        self.newest = newest = time if self.newest is None else max(self.newest, time)
        span = self.span
        self.messages = [
            message
            for message in self.messages
            if newest - span < message["time"] and not (message["until"] and message["until"] <= newest)
        ]

    def retract(self, ids: list[Any]) -> None:
        self.messages = [message for message in self.messages if message["id"] not in ids]

    def add(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        if isinstance(self.span, int):
            self.messages = self.messages[max(0, len(self.messages) - self.span) :]


class Naive:
    """All of it in dicts and sorted lists."""

    def __init__(
        self,
        *,
        window: int | timedelta,
        bounds: tuple[float, float, float, float] = (-180, -90, 180, 90),
        k: int = 20,
        alpha: float = 0.5,
        metric: str = "euclidean",
        scale: float | str | None = None,
        vocabulary: Vocabulary | None = None,
        half_life: timedelta | None = None,
        duplicates: str = "refuse",
        place_only: bool = False,
        per_source: int | None = None,
        distinct: bool = False,
        phrases: bool = False,
        vectors: int | None = None,
        beta: float = 1.0,
        analyzer: dict[str, Any] | None = None,
    ) -> None:
        self.analyzes = analyzer is not None
        self.vectors, self.beta = vectors, beta
        self.alone = vectors is not None and beta == 1
        self.per_source, self.distinct = per_source, distinct
        self.half_life, self.duplicates, self.place_only = half_life, duplicates, place_only
        self.k, self.alpha, self.metric = k, alpha, metric
        west, south, east, north = bounds
        diagonal = _euclidean(*bounds)
        if metric == "haversine":
            diagonal = _haversine(0, south, min(180, east - west), north)
        texts = {"5000 km": 5e6, "1 m": 1.0}
        self.scale = diagonal if scale is None else float(texts.get(str(scale), scale))
        self.corpus = CORPORA[vocabulary]
        self.window = Window(window)
        self.subscriptions: dict[Any, dict[str, Any]] = {}

    def call(self, name: str, rows: Any) -> list[dict[str, Any]]:
        before = {subscription: self.top(subscription) for subscription in self.subscriptions}
        order = list(self.subscriptions)
        if name == "unsubscribe":
            for subscription in rows:
                del self.subscriptions[subscription]
        elif name == "retract":
            self.retract(rows)
        elif name == "reweigh":
            self.corpus = CORPORA[rows]
        elif name == "advance":
            self.window.move(rows["time"][0].as_py())
        else:
            for values in zip(*rows.values(), strict=True):
                record = self.worded(dict(zip(rows, values, strict=True)))
                self.publish(record) if name == "publish" else self.register(record)
        order += [subscription for subscription in self.subscriptions if subscription not in before]
        after = {subscription: self.top(subscription) for subscription in self.subscriptions}
        return [row for name in order for row in change_rows(name, before.get(name, []), after.get(name, []))]

    def worded(self, values: dict[str, Any]) -> dict[str, Any]:
        """A row with terms, whether it came with them or with texts."""
        if not self.analyzes:
            return values
        found = {name: value for name, value in values.items() if name != "text"}
        if "text" in values:
            found["terms"] = self.words(values["text"] or "")
        for name in ("must", "must_not"):
            if values.get(name):
                found[name] = [word for text in values[name] for word in self.words(text)]
        return found

    def words(self, text: str) -> list[str]:
        """The words of a text; an analyzer knows no accents."""
        return (text.replace("é", "e") if self.analyzes else text).split()

    def register(self, values: dict[str, Any]) -> None:
        self.subscriptions.setdefault(values["id"], {"terms": []}).update(values)

    def retract(self, ids: list[Any]) -> None:
        held = [message["id"] for message in self.window.messages]
        assert all(name in held for name in ids)
        self.window.retract(ids)

    def publish(self, values: dict[str, Any]) -> None:
        message = {"time": START, "until": None, "terms": [], **values}
        if values.get("op") == "retract":
            self.retract([values["id"]])
        elif values.get("op") == "reweigh":
            given = [values["vocabulary"], values["documents"]]
            (self.corpus,) = (texts for *brought, texts in BROUGHT if brought == given)
        elif values.get("op") == "advance":
            self.window.move(values["time"])
        elif self.window.arrive(message["time"], message["until"]):
            if self.duplicates == "edit":
                self.window.retract([message["id"]])
            self.window.add(message)
            held = [message["id"] for message in self.window.messages]
            assert len(set(held)) == len(held)

    def top(self, subscription: Any) -> list[tuple[Any, float]]:
        wanted = self.subscriptions[subscription]
        fitting = [
            (
                self.weight(wanted, message),
                message["time"],
                arrival,
                message["id"],
                self.score(wanted, message),
            )
            for arrival, message in enumerate(self.window.messages)
            if self.fits(wanted, message) and not self.hidden(arrival, message)
        ]
        sources = {message["id"]: message.get("source") for message in self.window.messages}
        best, counted = [], Counter[Any]()
        for _, _, _, item, score in sorted(fitting, reverse=True):
            source = sources[item]
            counted[source] += source is not None
            if self.per_source is None or counted[source] <= self.per_source:
                best.append((item, score))
        return best[: wanted.get("k") or self.k]

    def fits(self, wanted: dict[str, Any], message: dict[str, Any]) -> bool:
        if wanted["terms"] and not set(wanted["terms"]) & set(message["terms"]) and not self.alone:
            return False
        if not wanted["terms"] and not self.place_only and not self.alone:
            return False
        given = {name: wanted[name] for name in LIMITS["euclidean"] if wanted.get(name) is not None}
        return (
            self.away(wanted, message) <= given.get("radius", math.inf)
            and self.score(wanted, message) >= given.get("min_score", -math.inf)
            and set(given.get("must", [])) <= set(message["terms"])
            and not set(given.get("must_not", [])) & set(message["terms"])
            and all(_says(message["terms"], self.words(phrase)) for phrase in wanted.get("phrases") or [])
            and (wanted.get("since") is None or message["time"] >= wanted["since"])
        )

    def hidden(self, arrival: int, message: dict[str, Any]) -> bool:
        """Whether a newer message has the same text and place, and that counts."""

        def same(other: dict[str, Any]) -> bool:
            alike = Counter(other["terms"]) == Counter(message["terms"])
            if self.vectors is not None:
                alike = alike and _unit(other["vector"]) == _unit(message["vector"])
            return all(other[name] == message[name] for name in "xy") and alike

        return self.distinct and any(
            same(other) and (other["time"], place) > (message["time"], arrival)
            for place, other in enumerate(self.window.messages)
        )

    def away(self, wanted: dict[str, Any], message: dict[str, Any]) -> float:
        measure = _euclidean if self.metric == "euclidean" else _haversine
        return measure(wanted["x"], wanted["y"], message["x"], message["y"])

    def weight(self, wanted: dict[str, Any], message: dict[str, Any]) -> float:
        """What a message ranks by: its score, or what is left of that by the newest message."""
        if self.half_life is None:
            return self.score(wanted, message)
        assert self.window.newest is not None
        newest = (self.window.newest - EPOCH) // self.half_life
        whole, rest = divmod(message["time"] - EPOCH, self.half_life)
        # Cosines and gains of roots of 2 are ties, and rounding decides them: gains count from 1970.
        part = float(np.exp2(np.array([rest / self.half_life]))[0])
        return math.ldexp(self.score(wanted, message) * part, whole - newest)

    def score(self, wanted: dict[str, Any], message: dict[str, Any]) -> float:
        own = wanted.get("alpha")
        alpha = self.alpha if own is None else own
        if not (wanted["vector"] if self.alone else wanted["terms"]) and (self.place_only or not self.alone):
            alpha = 1.0
        away = self.away(wanted, message)
        mine, theirs = self.vector(wanted["terms"] or []), self.vector(message["terms"])
        cosine = 0.0
        for term in sorted(mine):
            cosine += mine[term] * theirs.get(term, 0.0)
        if self.vectors is not None:
            some, others = _unit(wanted.get("vector") or [0, 0]), _unit(message["vector"])
            alike = max(0.0, some[0] * others[0] + some[1] * others[1])
            cosine = self.beta * alike + (1 - self.beta) * cosine
        return float(alpha * max(0.0, 1.0 - away / self.scale) + (1.0 - alpha) * cosine)

    def vector(self, terms: list[str]) -> dict[str, float]:
        weights = {}
        for term, frequency in sorted(Counter(terms).items()):
            having = sum(term in document for document in self.corpus)
            weights[term] = frequency * (math.log((1 + len(self.corpus)) / (1 + having)) + 1.0)
        squares = 0.0
        for weight in weights.values():
            squares += weight * weight
        return {term: weight / math.sqrt(squares) for term, weight in weights.items()}

    def results(self) -> list[dict[str, Any]]:
        return [
            {"subscription": subscription, "rank": rank, "item": item, "score": score}
            for subscription in self.subscriptions
            for rank, (item, score) in enumerate(self.top(subscription), 1)
        ]


def _says(text: list[str], words: list[str]) -> bool:
    """Whether words come one behind the other in a text."""
    return any(text[at : at + len(words)] == words for at in range(len(text) - len(words) + 1))


def _unit(vector: list[float]) -> tuple[float, float]:
    """A vector of the length 1, unless it is 0; whatever its numbers are, their squares are finite."""
    largest = max(map(abs, vector))
    scale = 1.0 if 1e-100 < largest < 1e100 else largest or 1.0
    one, other = (number / scale for number in vector)
    length = math.sqrt(one * one + other * other) or 1.0
    return one / length, other / length


def _euclidean(ax: float, ay: float, bx: float, by: float) -> float:
    return math.sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by))


def _haversine(ax: float, ay: float, bx: float, by: float) -> float:
    north, east = math.sin(math.radians(ay - by) / 2), math.sin(math.radians(ax - bx) / 2)
    chord = north * north + math.cos(math.radians(ay)) * math.cos(math.radians(by)) * (east * east)
    return 2 * 6_371_008.8 * math.asin(min(1.0, math.sqrt(chord)))
