"""What the workloads and the plain models of moving queries share."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from rankcast.moving.engine import MovingEngine
from rankcast.moving.road_graph import RoadGraph
from tests.laws import roads
from tests.laws.range_topk import CROWD, change_rows

SCORE_TOLERANCE = 1e-12  # the sines of haversine come from two places
EARTH_RADIUS = 6_371_008.8

METRICS = st.sampled_from(["euclidean", "euclidean", "manhattan", "haversine", "network", "network"])
GRAPHS = st.sampled_from(list(roads.WORLDS))
LENGTHS = st.sampled_from([0, 1, 2, 4, 9, 0.25])
SPACE = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3))
PLANE = st.tuples(st.integers(0, 4), st.integers(0, 4))
GLOBE = st.tuples(st.sampled_from([-180, -10, 0, 10, 170]), st.sampled_from([0, 20]))
NAMES = (
    "subscribe",
    "subscribe",
    "publish",
    "publish",
    "upsert",
    "upsert",
    "upsert",
    "remove",
    "advance",
    "amend",
    "unsubscribe",
)
CALLS = st.sampled_from(NAMES)
START = datetime(2024, 5, 1, 12)
HOURS = st.integers(0, 6).map(lambda hour: START + timedelta(hours=hour))
OPEN = st.sampled_from([(None, None), (None, 2), (1, None), (1, 3), (2, 5), (0, 1), (4, 6), (None, 0)])
ROAD_CALLS = st.sampled_from((*NAMES, "update_roads"))


@st.composite
def steps(
    draw: st.DrawFn,
    over: list[str],
    metric: str,
    attributes: list[float],
    *,
    takes_k: bool,
    filters: bool = False,
    graph: RoadGraph | None = None,
    dimensions: int = 2,
) -> tuple[tuple[str, Any], ...]:
    """Calls that are valid one after the other."""
    places = GLOBE if metric == "haversine" else PLANE if dimensions == 2 else SPACE
    axes = "xyz"[:dimensions]
    subscription = draw(st.sampled_from([lambda i: i - 1, lambda i: f"s{i}"]))
    item = draw(st.sampled_from([lambda i: 10 * i - 20, lambda i: chr(ord("z") - i)]))
    queries = {subscription(i) for i in range(draw(st.sampled_from([5, 5, 5, CROWD])))}
    items = [item(i) for i in range(draw(st.sampled_from([7, 7, 7, CROWD])))]
    live: set[Any] = set()
    objects: set[Any] = set()
    found: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 8))):
        call = draw(CALLS if graph is None else ROAD_CALLS)
        rows: Any
        if call == "upsert":
            names = draw(st.lists(st.sampled_from(items), max_size=len(items)))
            rows = draw(_placed(names, places, axes, drop=False))
            rows |= {name: [draw(st.sampled_from(attributes)) for _ in names] for name in over}
            if draw(st.booleans()):
                rows |= draw(_hours(len(names)))
            objects |= set(names)
        elif call == "advance":
            rows = pa.table({"time": pa.array(draw(st.lists(HOURS, max_size=2)), pa.timestamp("us"))})
        elif call == "update_roads":
            assert graph is not None
            edges = draw(st.lists(st.integers(0, len(graph) - 1), max_size=3))
            rows = {"id": [f"e{at}" for at in edges], "length": [draw(LENGTHS) for _ in edges]}
        elif call == "remove":
            rows = draw(_some(objects))
            objects -= set(rows)
        elif call == "unsubscribe":
            rows = draw(_some(live))
            live -= set(rows)
        elif call == "publish":
            rows = draw(_placed(draw(_some(live, unique=False)), places, axes, drop=False))
        else:
            crowd = call == "subscribe" and not live and len(queries) == CROWD
            names = sorted(queries) if crowd else draw(_some(queries - live if call == "subscribe" else live))
            rows = draw(_placed(names, places, axes, drop=call == "amend"))
            if takes_k and draw(st.booleans()):
                rows["k"] = [draw(st.sampled_from([None, 1, 2, 7, 10**6, 2**31 - 1])) for _ in names]
            if filters and over and draw(st.integers(0, 2)) == 0:
                rows["a_lo"] = [draw(st.sampled_from([None, attributes[1]])) for _ in names]
                rows["a_hi"] = [draw(st.sampled_from([None, attributes[1], attributes[-1]])) for _ in names]
            live |= set(names)
        found.append((call, rows))
    return tuple(found)


def _some(names: set[Any], *, unique: bool = True) -> st.SearchStrategy[list[Any]]:
    if not names:
        return st.just([])
    return st.lists(st.sampled_from(sorted(names)), unique=unique, max_size=4)


@st.composite
def _placed(draw: st.DrawFn, names: list[Any], places: Any, axes: str, *, drop: bool) -> dict[str, list[Any]]:
    """Rows with places; with `drop` a coordinate may be absent."""
    spots = [draw(places) for _ in names]
    rows: dict[str, list[Any]] = {"id": names}
    rows |= {axis: [spot[at] for spot in spots] for at, axis in enumerate(axes)}
    if drop:
        for name in axes:
            if draw(st.integers(0, 2)) == 0:
                del rows[name]
    return rows


@st.composite
def _hours(draw: st.DrawFn, size: int) -> dict[str, list[Any]]:
    """When objects open and close, and perhaps what time it is."""
    pairs = [draw(OPEN) for _ in range(size)]
    ends = [[None if hour is None else START + timedelta(hours=hour) for hour in pair] for pair in pairs]
    rows: dict[str, list[Any]] = {"opens": [opens for opens, _ in ends], "closes": [end for _, end in ends]}
    if draw(st.booleans()):
        rows["time"] = [draw(st.none() | HOURS) for _ in range(size)]
    if draw(st.booleans()):
        del rows[draw(st.sampled_from(["opens", "closes"]))]
    return rows


def churn(engine: Any, round_: int) -> None:
    """A round that ends with as much alive as it began with; the engine has one attribute, "a"."""
    assert isinstance(engine, MovingEngine)
    queries = [f"s{(round_ + i) % 50}-{round_}" for i in range(6)]
    items = [f"o{round_ * 100 + i}" for i in range(24)]
    spots = {"x": list(range(24)), "y": list(range(24))}
    hours = [START + timedelta(minutes=round_ + i) for i in range(24)]
    engine.upsert({"id": items, **spots, "a": list(range(24)), "closes": hours})
    engine.advance(START + timedelta(minutes=round_ + 5))
    engine.subscribe({"id": queries, "x": list(range(6)), "y": [0] * 6})
    engine.publish({"id": queries, "x": [2 * i for i in range(6)], "y": [1] * 6})
    engine.remove(items)
    engine.unsubscribe(queries)


class Moving:
    """Objects and queries in dicts; a subclass ranks the objects of a query."""

    def __init__(self, over: list[str], metric: str, graph: RoadGraph | None = None) -> None:
        self.over = over
        self.roads = None if graph is None else roads.Roads(roads.world_of(graph))
        self.measure = MEASURES[metric] if self.roads is None else self.roads.distance
        self.queries: dict[Any, dict[str, Any]] = {}
        self.listed: dict[Any, dict[str, Any]] = {}
        self.clock = datetime.min

    @property
    def objects(self) -> dict[Any, dict[str, Any]]:
        """Those that are open."""
        return {
            item: values
            for item, values in self.listed.items()
            if (values.get("opens") or datetime.min) <= self.clock < (values.get("closes") or datetime.max)
        }

    def ranking(self, query: dict[str, Any]) -> list[tuple[Any, float]]:
        raise NotImplementedError

    def call(self, name: str, rows: Any) -> list[dict[str, Any]]:
        before = {query: self.ranking(values) for query, values in self.queries.items()}
        order = list(self.queries)
        if name == "update_roads":
            assert self.roads is not None
            self.roads.update(rows)
        elif name in ("unsubscribe", "remove"):
            for each in rows:
                del (self.queries if name == "unsubscribe" else self.listed)[each]
        elif name == "advance":
            self.clock = max([self.clock, *rows["time"].to_pylist()])
        else:
            for place, each in enumerate(rows["id"]):
                values = {column: rows[column][place] for column in rows if column != "id"}
                if name == "upsert":
                    self.clock = max(self.clock, values.pop("time", None) or datetime.min)
                    self.listed[each] = values
                else:
                    self.queries.setdefault(each, {}).update(values)
        order += [query for query in self.queries if query not in before]
        after = {query: self.ranking(values) for query, values in self.queries.items()}
        updates = name in ("upsert", "remove", "advance", "update_roads")
        return [
            row
            for query in order
            for row in change_rows(query, before.get(query, []), after.get(query, []), updates=updates)
        ]

    def results(self) -> list[dict[str, Any]]:
        return [
            {"subscription": query, "rank": rank, "item": item, "score": score}
            for query, values in self.queries.items()
            for rank, (item, score) in enumerate(self.ranking(values), 1)
        ]

    def distance(self, query: dict[str, Any], item: dict[str, Any]) -> float:
        if "z" in query:
            return math.sqrt(sum((query[axis] - item[axis]) ** 2 for axis in "xyz"))
        return self.measure(query["x"], query["y"], item["x"], item["y"])


def _haversine(ax: float, ay: float, bx: float, by: float) -> float:
    north = math.sin(math.radians(ay - by) / 2)
    east = math.sin(math.radians(ax - bx) / 2)
    chord = north * north + math.cos(math.radians(ay)) * math.cos(math.radians(by)) * (east * east)
    return 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(chord)))


MEASURES: dict[str, Callable[[float, float, float, float], float]] = {
    "euclidean": lambda ax, ay, bx, by: math.sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by)),
    "manhattan": lambda ax, ay, bx, by: float(abs(ax - bx) + abs(ay - by)),
    "haversine": _haversine,
}
