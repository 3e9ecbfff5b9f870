"""`MovingTopK`: the k best objects by distance and attributes, for queries that move.

`rankcast.moving.topk_zones` keeps results by safe zones, `rankcast.moving.custom` does so for a custom score;
the scan is here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from rankcast.core.engine import no_nan
from rankcast.core.spec import Function, Setting
from rankcast.errors import InputError, SettingError, shown
from rankcast.moving import scoring
from rankcast.moving.auto_zones import AutoTopKZones
from rankcast.moving.brute_force import Objects, Place, ranked
from rankcast.moving.custom import CustomTopKZones
from rankcast.moving.engine import MovingEngine, attribute_names
from rankcast.moving.network_engine import GRAPH_SETTING, RoadEngine
from rankcast.moving.network_topk import NetworkTopK
from rankcast.moving.topk_zones import CIRCLE_METHODS, PLANE, TopKSettings, TopKZones, restore_zones
from rankcast.tables import schema
from rankcast.tables.schema import Floats, Rows

LARGEST = 1e300
AUTO = "auto"
OWN_M = 5  # of a function of one's own: calling it costs more than a few members


@dataclass(frozen=True)
class Bounded:
    """A user's function with `LARGEST` where it gives no finite number.

    An engine refuses an object that has no finite score from the place of one of its queries. Objects go to
    every shard, queries to one each: without this, shards would not agree on which objects exist.
    """

    f: Any

    def __call__(self, attributes: Floats, distance: Floats) -> Any:
        """The scores of objects."""
        found = np.asarray(self.f(attributes, distance))
        if found.dtype.kind != "f":
            return found
        return np.clip(np.nan_to_num(found, nan=LARGEST), -LARGEST, LARGEST)


def _bounded(given: Any) -> scoring.Score:
    score = scoring.as_score(given)
    return replace(score, f=Bounded(score.f)) if isinstance(score, scoring.Function) else score


def _own_score(engine: MovingTopK) -> scoring.Function | None:
    """The score of an engine if it is a function of the user's own."""
    return engine.score if isinstance(engine.score, scoring.Function) else None


_SCORE = Function(
    "score",
    held=_own_score,
    described=lambda given: scoring.as_score(given).as_json(),
    bound=_bounded,
    plain=lambda score: score.f,
    otherwise="the engine has a score of rankcast.moving.scoring",
)
_SCORES = {
    each.__name__: each
    for each in (scoring.weighted_sum, scoring.weighted_product, scoring.weighted_distance, scoring.waspas)
}
_SCORE_SETTING = Setting(function=True, choices=lambda: _SCORES, arguments=("weights", "lam", "offset"))


def _checked_m(m: int | str) -> int | str:
    """The setting `m`."""
    if isinstance(m, str) and m == AUTO:
        return AUTO
    try:
        return schema.whole("m", m)
    except SettingError:
        raise SettingError(
            f"m is {shown(m)}", expected=f'"auto", or a whole number from 1 to {2**31 - 1}'
        ) from None


def _checked_dimensions(dimensions: Any, metric: str) -> dict[str, int]:
    """The setting `dimensions` as a state has it, which is not there for the plane."""
    if type(dimensions) is not int or dimensions not in (2, 3):
        raise SettingError(f"dimensions is {shown(dimensions)}", expected="2 or 3")
    if dimensions > PLANE and metric != "euclidean":
        raise SettingError(f"dimensions is 3, and metric {shown(metric)}", expected='metric="euclidean"')
    return {"dimensions": dimensions} if dimensions > PLANE else {}


class MovingTopK(RoadEngine):
    """The k objects of smallest score, where the score grows with the distance from a moving query.

    Args:
        over: the attributes that count besides distance; none for the k nearest.
        k: how many objects a subscription gets, unless it has its own k.
        m: "auto" chooses the size of each query's zone that pays, by how the query has moved, or none (a zone
            of radius 0) where searching at every position costs less. A number is the paper's m, for the
            largest zones: a zone has at most k + m - 1 members. For a function of your own "auto" means 5.
        score: a score of `rankcast.moving.scoring`, or a function of attributes and distance; by default
            their sum with equal weights. Ties go to the smaller id.
        metric: "euclidean", "manhattan", "haversine" (x longitude, y latitude, distance in metres), or
            "network": distance along the roads of `graph`.
        graph: with metric "network", a `rankcast.RoadGraph`. Places are snapped to the nearest edge; an
            object that cannot be reached is in no result.
        dimensions: 3 for places with a `z`, in the euclidean metric: drones, floors. Zones are spheres.
        ordered: whether the order inside a zone is kept at every position, or only the set, which costs
            less; results are in order either way.
        method: "zone" keeps a safe zone for each subscription, "scan" looks at every object.
        extra: "forbid" or "ignore" unknown columns.
        tuning: "threads" for zones computed in one call (default: the number of cores); "circle":
            how to find the size of a zone, "closed" (a closed form if there is one, otherwise bounds that
            come close to it), "trim" (the paper's rectangles in the plane, whose size and number "epsilon"
            and "n" limit) or "lemma" (the plainest bounds). A custom function has rings, at most some "n",
            instead of a closed form.

    Objects may have `opens` and `closes`: they take part between the two, by the clock that `advance` moves.
    A subscription may have a filter: with an attribute "price", only objects with a price from `price_lo` to
    `price_hi` compete. Results are exact at the last position of each query. `publish` and `amend` report who
    enters and who leaves; `upsert` and `remove` also report new scores. In `stats()`, `recomputed` zones,
    `nodes_accessed` and `candidates` are the server's cost, `rescored` members that of its clients.

    >>> engine = MovingTopK(over=["price"], k=1, score=scoring.weighted_sum([1, 2]))
    >>> cafes = {"id": ["Aroma", "Bean"], "x": [0, 10], "y": [0, 0], "price": [5, 3]}
    >>> engine.upsert(cafes).num_rows
    0
    >>> engine.subscribe({"id": [7], "x": [1], "y": [0]}).to_pylist()
    [{'subscription': 7, 'op': 'enter', 'item': 'Aroma', 'score': 7.0, 'rank': 1}]
    >>> engine.publish({"id": [7], "x": [6], "y": [0]}).select(["op", "item"]).to_pylist()
    [{'op': 'leave', 'item': 'Aroma'}, {'op': 'enter', 'item': 'Bean'}]
    >>> engine.zones().num_rows, engine.objects().num_rows
    (1, 2)
    >>> engine.explain(7, "Aroma")["rank"], len(engine.view(7)["items"])
    (2, 2)
    >>> engine.remove(["Bean"])["op"].to_pylist()
    ['leave', 'enter']
    """

    spec = replace(
        MovingEngine.spec,
        settings={"score": _SCORE_SETTING, "graph": GRAPH_SETTING},
        function=_SCORE,
        title="the k best objects from where I am, as I move",
    )
    methods = ("zone", "scan")
    variants = tuple({"method": method} for method in methods)
    _zones: TopKZones | NetworkTopK | None
    known_tuning: ClassVar[dict[str, Any]] = {"threads": None, "circle": "closed", "epsilon": 1e-4, "n": 100}

    def __init__(
        self,
        *,
        over: str | Sequence[str],
        k: int = 10,
        m: int | str = "auto",
        score: scoring.Score | Any = None,
        metric: str = "euclidean",
        graph: Any = None,
        dimensions: int = 2,
        ordered: bool = True,
        method: str = "zone",
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        self._k = schema.whole("k", k)
        self._m = _checked_m(m)
        if not isinstance(ordered, bool):
            raise SettingError(f"ordered is {shown(ordered)}", expected="True or False")
        space = _checked_dimensions(dimensions, metric)
        names = attribute_names(over, dimensions)
        self._score = scoring.as_score(score).fitted(names)
        super().__init__(
            {"k": self._k, "m": self._m, "score": self._score.as_json(), "ordered": ordered, **space},
            over=names,
            metric=metric,
            graph=graph,
            method=method,
            dimensions=dimensions,
            extra=extra,
            tuning=tuning,
        )
        given = self._tuning
        settings = TopKSettings(
            self._score,
            self._metric,
            self._k,
            self._least_m if self._m == AUTO else int(self._m),
            ordered,
            schema.threads(given["threads"]),
            dimensions,
            schema.one_of("circle", given["circle"], CIRCLE_METHODS),
            schema.number("epsilon", given["epsilon"], low=0, high=1, above=True),
            schema.whole("n", given["n"]),
        )
        self._zones = None
        if self._method == "zone":
            self._count["rescored"] = 0
        if self._method == "zone" and self._network is not None:
            held = (self._network, self._slots, self._objects, self._count)
            self._zones = NetworkTopK(*held, score=self._score, over=self._over, k=self._k)
        elif self._method == "zone":
            kind = AutoTopKZones if self._m == AUTO else TopKZones
            kind = CustomTopKZones if isinstance(self._score, scoring.Function) else kind
            self._zones = kind(settings, self._slots, self._objects, self._over, self._count)
        self._undo.needed = isinstance(self._score, scoring.Function)

    @property
    def _least_m(self) -> int:
        """What "auto" means where zones are not chosen: functions of one's own have a few members more."""
        return OWN_M if isinstance(self._score, scoring.Function) else 1

    @property
    def score(self) -> scoring.Score:
        """The score it ranks by."""
        return self._score

    @classmethod
    def _configured(cls, configuration: dict[str, Any], *, score: Any = None, **given: Any) -> Self:
        found = scoring.restored(configuration["score"], score)
        return super()._configured({**configuration, "score": found}, **given)

    # Scores

    def _scores(self, place: Place, objects: Objects) -> Floats:
        away = self._distances(place, objects)
        near = np.isfinite(away)  # on roads: what can be reached
        scores = np.full(away.size, np.inf)
        with np.errstate(all="ignore"):
            scores[near] = self._score(objects.attributes[near], away[near])
        return scores

    def _result(self, row: int, objects: Objects) -> tuple[Rows, Floats]:
        return self._best(row, objects, int(self._k_of(np.array([row], np.int32))[0]))

    def _best(self, row: int, objects: Objects, size: int) -> tuple[Rows, Floats]:
        """The best of the objects that pass a subscription's filter."""
        scores = no_nan("score", self._scores(self._place(row), objects))
        best = ranked(scores)
        if self._network is not None:
            best = best[scores[best] < np.inf]
        best = best[self._passes(row, objects.attributes[best])][:size]
        return best, scores[best]

    # Answers

    def _zone_table(self, rows: Rows) -> pa.Table:
        if self._network is not None:
            return self._road_zones(rows)
        members = self._zone_members(rows)
        if not isinstance(self._zones, TopKZones):
            return self._points(rows, members)
        held = self._zones.zones.held
        return self._circles(rows, (held.x[rows], held.y[rows], held.z[rows]), held.radius[rows], members)

    def _zone_members(self, rows: Rows) -> Sequence[Rows]:
        if isinstance(self._zones, TopKZones):
            held = self._zones.zones.held
            ends = held.start[rows] + held.count[rows]
            return [held.member[a:b] for a, b in zip(held.start[rows], ends, strict=True)]
        if isinstance(self._zones, NetworkTopK):
            return [self._zones.members(row) for row in rows]
        objects = self._all_objects()
        sizes = self._k_of(rows) + (0 if self._m == AUTO else int(self._m) - 1)
        found = [self._best(row, objects, int(size))[0] for row, size in zip(rows, sizes, strict=True)]
        return [objects.row[places] for places in found]

    def view(self, subscription: Any) -> dict[str, Any]:
        """What a picture of a subscription needs: the objects around it, which of them count, and the zone.

        `items`, `objects_x` and `objects_y` of all objects that pass its filter; `members` and `result` are
        indices into them, the result best first; `x` and `y` are the query's place; `zone` is a row of
        `zones()`.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        objects = self._all_objects()
        passing = np.flatnonzero(self._passes(mine, objects.attributes))
        objects = Objects._make(column[passing] for column in objects)
        zone = self._zone_table(np.array([mine], np.int32)).to_pylist()[0]
        items = self._objects.take(objects.row).to_pylist()
        place = {item: at for at, item in enumerate(items)}
        found = self._own("results", [subscription])["item"].to_pylist()
        x, y = self._place(mine)[:2]
        return {
            "metric": self._metric,
            "x": x,
            "y": y,
            "zone": {"x": x, "y": y, "radius": 0.0, **zone},  # on roads there is no circle
            "items": items,
            "objects_x": objects.x,
            "objects_y": objects.y,
            "members": np.array([place[item] for item in zone["members"]], np.int64),
            "result": np.array([place[item] for item in found], np.int64),
        }

    def explain(self, subscription: Any, item: Any) -> dict[str, Any]:
        """Why an object is or is not in a result: score, rank, distance, the score to beat.

        An object that a filter excludes has no rank. With zones also: whether the object is a member of the
        zone, and how far the query can move from its centre before the object may enter the result.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        row = self._find_one(self._objects, item, "item")
        k = int(self._k_of(np.array([mine], np.int32))[0])
        objects = self._all_objects()
        order, scores = self._best(mine, objects, objects.row.size)
        at = np.flatnonzero(objects.row[order] == row)
        rank = int(at[0]) + 1 if at.size else None
        one = self._objects_at(np.array([row], np.int32))
        score = float(self._scores(self._place(mine), one)[0])
        away = float(self._distances(self._place(mine), one)[0])
        if not self._objects.present[row]:
            reason = "it is closed"
        elif self._network is not None and away == np.inf:
            reason = "there is no way to it"
        elif rank is None:
            reason = "the filter of the subscription keeps it out"
        else:
            reason = "in the result" if rank <= k else f"{rank - 1} objects are better, {k} are wanted"
        explanation = {
            "subscription": subscription,
            "item": item,
            "score": score if np.isfinite(score) or self._network is None else None,
            "rank": rank,
            "in_result": rank is not None and rank <= k,
            "score_to_beat": float(scores[k - 1]) if scores.size >= k else None,
            "distance": away if np.isfinite(away) else None,
            "reason": reason,
        }
        return explanation | (self._zones.explain(mine, row) if self._zones else {})

    # Checks of scores, and undo

    def _all_scored(self, x: Floats, y: Floats) -> bool:
        return isinstance(self._zones, CustomTopKZones) and self._zones.finite_from(x, y)

    def _scored_from_all(self, x: Floats, y: Floats, attributes: Floats) -> bool:
        return isinstance(self._zones, CustomTopKZones) and self._zones.finite_to(x, y, attributes)

    def _check_attributes(self, attributes: Floats) -> None:
        bad, expected = self._score.undefined(attributes)
        if bad.any():
            row, place = np.argwhere(bad)[0]
            raise InputError(
                f"is {attributes[row, place]:g}, for which the score is not defined",
                where="objects",
                column=self._over[place],
                row=int(row),
                expected=expected,
            )

    def _note_zones(self, rows: Rows) -> None:
        super()._note_zones(rows)
        if self._undo.noting and isinstance(self._zones, TopKZones):
            self._undo.note(restore_zones(self._zones.zones, rows))
