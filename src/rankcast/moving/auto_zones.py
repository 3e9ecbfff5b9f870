"""`m="auto"` of `MovingTopK`: zones of the radius that pays for each query, or none.

`AutoTopKZones` keeps zones as `TopKZones` does; only how a zone is found differs, see
`rankcast.moving.kernels.auto_zone`. What it learns of each query (`PaceTable`) is part of the state, and is
forgotten with the query. On the globe the R-tree of objects has a `Sphere` beside it: unit vectors, made
from the tree when they are first needed, again for every layer that was packed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.moving.index import PER_THREAD, ObjectIndex
from rankcast.moving.kernels import auto_zone, sphere
from rankcast.moving.kernels.auto_zone import UNKNOWN, Costs, Paces
from rankcast.moving.kernels.bounded_search import Candidates, Coordinates, candidates
from rankcast.moving.kernels.rtree import BRANCH
from rankcast.moving.kernels.rtree_search import Queries
from rankcast.moving.kernels.scores import DISTANCE, SUM, Z
from rankcast.moving.kernels.zone_search import FoundZones
from rankcast.moving.topk_zones import TopKZones
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.structures.distance import HAVERSINE
from rankcast.tables.schema import Bools, Ints, Rows

AT_ONCE = 8192  # queries whose zones are found before they are stored
MANY = 256  # from so many on it pays to bring them in order
MORE = 128  # objects that a search has room for, beside four times k
KINDS = {"pace": np.float64, "scale": np.float64, "steps": np.int64, "plain": np.int64}
MOST_STEPS = 1 << 62
# By score and metric, of ten objects of 100,000 in a city. A power costs what several distances do.
LINEAR, POWERS = Costs(3_300.0, 5_000.0, 100.0, 30.0, 12.0), Costs(8_500.0, 19_000.0, 350.0, 30.0, 55.0)
LINEAR_GLOBE, POWERS_GLOBE = (
    Costs(5_200.0, 8_000.0, 150.0, 30.0, 50.0),
    Costs(12_000.0, 27_000.0, 480.0, 30.0, 110.0),
)


class PaceTable:
    """What is known of the motion of queries, by row; `known` for kernels. 32 bytes a query."""

    def __init__(self) -> None:
        self.known = Paces(**{name: np.zeros(0, kind) for name, kind in KINDS.items()})

    def begin(self, rows: Rows) -> None:
        """Make room for queries, and know nothing of those that are new."""
        used, needed = self.known.pace.size, int(rows.max(initial=-1)) + 1
        if needed > used:
            length = max(needed, 2 * used, 16)
            self.known = Paces._make(grown(column, length) for column in self.known)
            self.known.pace[used:] = UNKNOWN

    def forget(self, rows: Rows) -> None:
        """Know nothing of queries that go."""
        rows = rows[rows < self.known.pace.size]
        for column in self.known:
            column[rows] = 0
        self.known.pace[rows] = UNKNOWN

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state (none) and the arrays."""
        return {}, dict(self.known._asdict())

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        length = arrays["pace"].size if "pace" in arrays else 0
        integrity.forms(arrays, {name: (kind, (length,)) for name, kind in KINDS.items()})
        self.known = Paces(**{name: arrays[name] for name in KINDS})
        return self

    def check_restored(self, live: Bools) -> None:
        """Refuse what is not of the `live` subscriptions, or no number."""
        integrity.need(np.flatnonzero(live).max(initial=-1) < self.known.pace.size, "pace", "is too short")
        for name in ("pace", "scale"):
            integrity.no_nan(getattr(self.known, name), name)
        for name in ("steps", "plain"):
            integrity.within(getattr(self.known, name), 0, MOST_STEPS, name)


class Sphere:
    """The unit vectors of the objects in an R-tree of places on the globe. 24 bytes an object, and boxes."""

    def __init__(self) -> None:
        none = np.zeros((0, sphere.AXES, BRANCH))
        self._at = Coordinates(none, none, none, sphere.AXES, sphere.AXES - 1)
        self._made: Ints | None = None

    def of(self, places: ObjectIndex) -> Coordinates:
        """The vectors of the objects as they are."""
        tree, packed = places.tree, places.packed
        if len(tree.row) > len(self._at.point):
            low, high = (grown(each, len(tree.first)) for each in (self._at.low, self._at.high))
            point = grown(self._at.point, len(tree.row))
            self._at = self._at._replace(low=low, high=high, point=point)
        made = np.full_like(packed, -1) if self._made is None else self._made
        for layer in np.flatnonzero((made != packed) & (tree.count > 0)).tolist():
            sphere.mirror(tree, layer, self._at.point, self._at.low, self._at.high)
        self._made = packed.copy()
        return self._at


class AutoTopKZones(TopKZones):
    """Zones of all subscriptions, each of the radius that pays."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.paces = PaceTable()
        self._sphere = Sphere()
        self._held_candidates: list[Candidates] = []
        linear = self.form.kind in (SUM, DISTANCE) or self.form.weight == 0.0
        by_metric = (LINEAR_GLOBE, POWERS_GLOBE) if self.form.metric == HAVERSINE else (LINEAR, POWERS)
        self._costs = by_metric[0 if linear else 1]

    def parts(self) -> dict[str, Part]:
        """The parts of the state."""
        return {**super().parts(), "pace": self.paces}

    def check_restored(self) -> None:
        """Refuse a state from a snapshot that is not that of objects and subscriptions."""
        super().check_restored()
        self.paces.check_restored(self.subscriptions["sequence"] >= 0)

    def leave(self, rows: Rows) -> None:
        """Forget the zones of subscriptions, and how they moved."""
        super().leave(rows)
        self.paces.forget(rows)

    def _left(self, rows: Rows) -> None:
        """Queries that have left their zones for other places."""
        auto_zone.learn_pace(self.form.metric, self.paces.known, self.zones.held, rows, *self._at(rows))

    def _coordinates(self) -> Coordinates:
        """What distances are measured by."""
        if self.form.metric == HAVERSINE:
            return self._sphere.of(self.places)
        tree = self.places.tree
        return Coordinates(tree.low, tree.high, tree.point, self.settings.dimensions, Z)

    def _search(self, rows: Rows, queries: Queries) -> None:
        self.paces.begin(rows)
        for start in range(0, rows.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            columns = {name: getattr(queries, name)[part] for name in ("x", "y", "k", "lower", "upper", "z")}
            self._search_some(rows[part], queries._replace(**columns))

    def _search_some(self, rows: Rows, queries: Queries) -> None:
        places = self.places
        largest, objects = int(queries.k.max(initial=1)), len(places)
        room = min(4 * min(largest, objects) + MORE, objects + BRANCH)
        self.zones.reserve(int(rows.max()) + 1)
        zones = FoundZones(
            start=np.arange(rows.size) * room,
            count=np.zeros(rows.size, np.int64),
            member=np.empty(rows.size * room, np.int32),
            radius=np.zeros(rows.size),
            reach=np.zeros(rows.size),
        )
        threads = max(1, min(self.settings.threads, rows.size // PER_THREAD))
        parts = np.array_split(self._near_together(rows), threads)
        index = (places.tree, places.record, self.objects.label, self.objects["attributes"])
        at, held = self._coordinates(), self.zones.held

        def search(part: Ints, found: Candidates) -> Ints:
            done: Ints = auto_zone.find_auto_zones(
                self.form,
                index,
                at,
                queries,
                held,
                rows,
                self.paces.known,
                self._costs,
                zones,
                (part, found),
            )
            return done

        founds = self._candidates(threads, room)
        if threads == 1:
            work = search(parts[0], founds[0])
        else:
            with ThreadPoolExecutor(threads) as pool:
                work = np.sum(list(pool.map(search, parts, founds)), axis=0)
        self.zones.put(rows, (queries.x, queries.y, queries.z), zones)
        self.count["nodes_accessed"] += int(work[0])
        self.count["candidates"] += int(work[1])

    def _near_together(self, rows: Rows) -> Ints:
        """Queries in the order of the leaves where they found their best: neighbours see the same blocks."""
        if rows.size < MANY:
            return np.arange(rows.size)
        return np.argsort(auto_zone.leaves_of(self.places.tree.place, self.zones.held, rows), kind="stable")

    def _candidates(self, parts: int, room: int) -> list[Candidates]:
        """Room for searches side by side, kept from call to call."""
        held = self._held_candidates
        if len(held) < parts or held[0].row.size != room:
            self._held_candidates = held = [candidates(room) for _ in range(parts)]
        return held[:parts]
