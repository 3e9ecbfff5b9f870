"""`RoadGraph`: roads as nodes and edges with lengths, for `metric="network"` of moving queries.

Lengths are whole numbers of a unit, a power of two chosen when the graph is created: at most 2^-36 of
the median length above 0 (1.5e-9 for 100), but at least 2^-57 of the total. So the
sum along a path is exact and does not depend on the order of addition: any two ways to compute a
distance agree to the last bit. A distance is that whole number times the unit, as a float64. Later lengths
may grow as long as the total stays below 2^61 units.

A place is snapped to the nearest edge, the straight line between its nodes; of equally near
edges, to the one given first. Its position along the edge is a share of the edge's length.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import ID
from rankcast.errors import InputError, shown
from rankcast.moving import road_files
from rankcast.moving.kernels import network_graph
from rankcast.moving.kernels.network_graph import Arcs, EdgeTree
from rankcast.moving.kernels.network_search import FAR, Roads
from rankcast.moving.road_tree import packed, restored_arcs, restored_tree
from rankcast.structures import integrity
from rankcast.structures.ids import Slots, show
from rankcast.tables import read, schema
from rankcast.tables.schema import Bools, Column, Floats, Form, Ids, Ints, Kind, Names, Rows, integer_ids

FINE = 36  # bits of the middle length
MOST = 57  # bits of the sum of all lengths when a graph is made; later it may grow to FAR
LEAST = 8  # units: no length above 0 is shorter
LONGEST = 1e150
METRICS = ("euclidean", "haversine")
_NODES = Form([ID, Column("x"), Column("y")])
_EDGES = Form(
    [
        Column("start", Kind.ID),
        Column("end", Kind.ID),
        Column("length"),
        Column("id", Kind.ID, required=False),
        Column("oneway", Kind.CATEGORY, required=False, nullable=True),
    ]
)
LENGTHS = Form([ID, Column("length")])


class Spots(NamedTuple):
    """Places on the graph: edges, and the share of each that lies before the place."""

    edge: Rows
    share: Floats

    def those(self, index: Any) -> Spots:
        """Some of them."""
        return Spots(self.edge[index], self.share[index])


class RoadGraph:
    """Roads: nodes with places, edges with lengths.

    Created by `from_edges`, `from_graphml` or `from_osm`. Engines share the graph they are given: after
    `update`, their next call that returns deltas uses the new lengths, see `MovingTopK.update_roads`.

    >>> nodes = {"id": ["a", "b", "c"], "x": [0, 3, 3], "y": [0, 0, 4]}
    >>> edges = {"start": ["a", "b"], "end": ["b", "c"], "length": [3.0, 4.0]}
    >>> graph = RoadGraph.from_edges(edges, nodes=nodes)
    >>> graph
    RoadGraph(nodes=3, edges=2, length=7)
    >>> graph.update({"id": [1], "length": [40.0]})
    >>> graph.distance((0, 0), (3, 4))
    43.0
    """

    def __init__(self) -> None:
        none = np.empty(0)
        self._x, self._y, self._oneway = none, none, np.empty(0, np.bool_)
        self._start = self._end = np.empty(0, np.int32)
        self._stretch, self._unit = 1.0, 1.0
        self._ids = Slots()
        self.length = np.empty(0, np.int64)
        self.version = 0  # how often lengths have been updated
        self._updated: Ints | None = None  # by edge: in which version last

    @classmethod
    def from_edges(cls, edges: Any, *, nodes: Any, metric: str = "euclidean") -> Self:
        """A graph from tables.

        Args:
            edges: rows with `start` and `end`, ids of nodes, and `length`, in metres, seconds or any other
                unit, not below 0. Optional: `id`, by which `update` finds an edge (default: the number of its
                row, from 0), and `oneway`, true if it leads from start to end only.
            nodes: rows with `id, x, y`.
            metric: "haversine" if x and y are longitude and latitude: places are then snapped as on a map
                with the scale of the nodes' middle latitude.

        Raises:
            InputError: a node is unknown, a length is below 0, an id occurs twice, there are no edges, or
                the lengths differ too much to be added.
        """
        graph = cls()
        known = read.read(nodes, _NODES, where="nodes")
        slots = Slots()
        slots.require_new(known.ids, where="nodes")
        slots.add(known.ids)
        batch = read.read(edges, _EDGES, where="edges")
        if not batch.size:
            raise InputError("has no rows", where="edges", expected="at least one edge")
        graph._x, graph._y = (np.array(known[name], np.float64) for name in ("x", "y"))
        _check_places(graph._x, graph._y)
        if schema.one_of("metric", metric, METRICS) == "haversine":
            low, high = float(graph._y.min()), float(graph._y.max())
            graph._stretch = max(1e-6, math.cos(math.radians(0.5 * low + 0.5 * high)))
        graph._start, graph._end = (_ends(slots, batch[name], name) for name in ("start", "end"))
        graph._oneway = _truths(batch["oneway"]) if "oneway" in batch else np.zeros(batch.size, np.bool_)
        ids = batch["id"] if "id" in batch else integer_ids(np.arange(batch.size))
        graph._ids.require_new(ids, where="edges")
        graph._ids.add(ids)
        given = np.asarray(batch["length"], np.float64)
        _check_lengths(given)
        graph._unit = _unit_of(given)
        graph.length = graph._in_units(given, "edges")
        return graph

    @classmethod
    def from_graphml(cls, path: str | os.PathLike[str], *, length: str = "length") -> Self:
        """A graph from a GraphML file, as OSMnx writes it; needs networkx (`rankcast[roads]`).

        Nodes need `x` and `y` (longitude and latitude if the graph's `crs` is "epsg:4326"), edges
        the attribute named by `length`. In a directed graph each edge is one-way; two edges in opposite
        directions with equal lengths become one edge.
        """
        edges, nodes, metric = road_files.graphml(path, length)
        return cls.from_edges(edges, nodes=nodes, metric=metric)

    @classmethod
    def from_osm(cls, path: str | os.PathLike[str], *, speeds: Mapping[str, float] | None = None) -> Self:
        """The roads for cars in an OpenStreetMap file, PBF or XML; needs osmium (`rankcast[roads]`).

        Every stretch between two points of a way is an edge with its length in metres on the globe. With
        `speeds` (km/h by the tag `highway`; other roads are left out) lengths are seconds.
        """
        edges, nodes = road_files.openstreetmap(path, speeds)
        return cls.from_edges(edges, nodes=nodes, metric="haversine")

    def __len__(self) -> int:
        return self.length.size

    def __repr__(self) -> str:
        total = float(self.length.sum()) * self._unit
        return f"RoadGraph(nodes={self._x.size}, edges={self.length.size}, length={total:g})"

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self._x.size

    @property
    def unit(self) -> float:
        """The unit of which all lengths are multiples."""
        return self._unit

    def update(self, rows: Any) -> None:
        """Change lengths of edges: rows with `id` and `length`; of rows with the same id the last one counts.

        Raises:
            InputError: an edge is unknown, or a length is below 0, too long or too short beside the others.
        """
        edge, length = self.changes(rows, self.length)
        if self._updated is None:
            self._updated = np.zeros(self.length.size, np.int64)
        self._updated[edge] = self.version + 1
        self.length = self.length.copy()  # an engine that was loaded goes by the former array
        self.length[edge] = length
        self.version += 1

    def since(self, version: int) -> Rows:
        """The edges that were updated since a version."""
        if self._updated is None:
            return np.empty(0, np.int32)
        return np.flatnonzero(self._updated > version).astype(np.int32)

    def changes(self, rows: Any, held: Ints, extra: str = "forbid") -> tuple[Rows, Ints]:
        """Edges, each once, and their new lengths in units; `held` are all current lengths."""
        batch = read.read(rows, LENGTHS, where="roads", extra=extra)
        edge = self._ids.find(batch.ids, where="roads")
        unknown = np.flatnonzero(edge < 0)
        if unknown.size:
            row = int(unknown[0])
            told = f"is {show(batch.ids, row)}, which is not known"
            raise InputError(told, where="roads", column="id", row=row, expected="an edge of the graph")
        given = np.asarray(batch["length"], np.float64)
        _check_lengths(given, "roads")
        length = self._in_units(given, "roads")
        last = {int(each): place for place, each in enumerate(edge)}
        edge, length = np.array(list(last), np.int32), length[list(last.values())]
        total = float(held.sum()) + float(length.astype(np.float64).sum() - held[edge].sum())
        if total >= FAR:
            most = FAR * self._unit
            told = f"makes all lengths together {total * self._unit:g}"
            expected = f"less than {most:g} in all: a graph is made for lengths like its first ones"
            raise InputError(
                told, where="roads", column="length", row=int(np.argmax(given)), expected=expected
            )
        return edge, length

    def distance(self, one: tuple[float, float], other: tuple[float, float]) -> float:
        """The distance between two places along the graph, infinite if there is no way."""
        found = self.distances(one, [other[0]], [other[1]])
        return float(found[0])

    def distances(self, place: tuple[float, float], x: Any, y: Any) -> Floats:
        """The distances from a place to others along the graph. Cost: O(m log n) for a graph of m edges."""
        spots = self.snapped(np.array([place[0], *x], np.float64), np.array([place[1], *y], np.float64))
        return self.distances_on(self.length, spots)

    # For engines

    def distances_on(self, length: Ints, spots: Spots) -> Floats:
        """The distances from the first of some spots to all others, with these lengths."""
        from rankcast.moving.network import reached  # noqa: PLC0415

        found = reached(self.roads(length), spots)
        return np.where(found < FAR, found * self._unit, np.inf)

    def roads(self, length: Ints) -> Roads:
        """The graph as searches take it, with these lengths."""
        return Roads(self.arcs, self._start, self._end, length, self._oneway)

    @cached_property
    def arcs(self) -> Arcs:
        """Arcs by node."""
        both = np.flatnonzero(~self._oneway).astype(np.int32)
        edge = np.concatenate([np.arange(self.length.size, dtype=np.int32), both])
        source = np.concatenate([self._start, self._end[both]])
        target = np.concatenate([self._end, self._start[both]])
        order = np.argsort(edge, kind="stable")
        source, target, edge = source[order], target[order], edge[order]
        by_source = network_graph.arcs_by_node(source, target, edge, self._x.size)
        return Arcs(*by_source, *network_graph.arcs_by_node(target, source, edge, self._x.size))

    @cached_property
    def _tree(self) -> EdgeTree:
        x, y = self._x * self._stretch, self._y
        return packed(np.column_stack([x[self._start], y[self._start], x[self._end], y[self._end]]))

    def snapped(self, x: Floats, y: Floats, hint: Rows | None = None) -> Spots:
        """The spots on the graph nearest to places; `hint` is an edge near each, or -1."""
        edge, share = np.empty(x.size, np.int32), np.empty(x.size)
        hint = np.full(x.size, -1, np.int32) if hint is None else hint
        network_graph.snap(self._tree, np.ascontiguousarray(x * self._stretch), y, hint, edge, share)
        return Spots(edge, share)

    def line(self, edge: int) -> Floats:
        """Both ends (2, 2) of an edge."""
        ends = [self._start[edge], self._end[edge]]
        return np.column_stack([self._x[ends], self._y[ends]])

    def digest(self) -> str:
        """What names the graph in the settings of an engine: the first lengths and all else it is made of."""
        told = blake2b(digest_size=16)
        for array in (self._x, self._y, self._start, self._end, self._oneway, self.length):
            told.update(np.ascontiguousarray(array).tobytes())
        told.update(f"{self._stretch!r} {self._unit!r}".encode())
        return told.hexdigest()

    def _in_units(self, given: Floats, where: str) -> Ints:
        """Lengths in units."""
        with np.errstate(over="ignore"):
            units = np.rint(given / self._unit)
        short, long = (given > 0) & (units < LEAST), units >= FAR
        if (short | long).any():
            row = int(np.argmax(short | long))
            told = f"is {given[row]:g}, too {'short' if short[row] else 'long'} beside the others"
            expected = f"0, or a number from {LEAST * self._unit:g} to {FAR * self._unit:g}"
            raise InputError(told, where=where, column="length", row=row, expected=expected)
        return units.astype(np.int64)

    # Snapshots

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        ids, arrays = self._ids.state()
        header = {"ids": ids, "stretch": self._stretch, "unit": self._unit}
        own: dict[str, NDArray[Any]] = {"x": self._x, "y": self._y, "start": self._start, "end": self._end}
        held = {f"id_{name}": array for name, array in arrays.items()}
        if self.length.size:
            held |= {f"arc_{name}": array for name, array in self.arcs._asdict().items()}
            held |= {f"tree_{name}": array for name, array in self._tree._asdict().items()}
        return header, {**own, "oneway": self._oneway, "length": self.length, **held}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        ids, arcs, tree = (_named(arrays, prefix) for prefix in ("id_", "arc_", "tree_"))
        own = {name: array for name, array in arrays.items() if not name.startswith(("id_", "arc_", "tree_"))}
        size = own["length"].size if "length" in own else 0
        nodes = own["x"].size if "x" in own else 0
        wanted = {name: array for name, array in self.state()[1].items() if not name.startswith("id_")}
        lengths = {name: nodes if name in ("x", "y") else size for name in wanted}
        integrity.forms(own, {n: integrity.like(a, length=lengths[n]) for n, a in wanted.items()})
        integrity.need(size > 0, "length", "has no edges")
        for name in ("start", "end"):
            integrity.within(own[name], 0, nodes, name)
        for name in ("x", "y"):
            integrity.need((np.abs(own[name]) <= LONGEST).all(), name, "has places that are too far")
        _check_restored(own["length"])
        stretch, unit = header["stretch"], header["unit"]
        for name, value in (("stretch", stretch), ("unit", unit)):
            integrity.need(isinstance(value, float) and 0 < value <= LONGEST, name, "is not above 0")
        integrity.need(math.frexp(unit)[0] == 0.5, "unit", "is no power of two")
        self._ids.restore(header["ids"], ids)
        integrity.need(len(self._ids) == self._ids.used == size, "id_sequence", f"are not {size} ids")
        self._x, self._y, self._start, self._end = own["x"], own["y"], own["start"], own["end"]
        self._oneway, self.length = own["oneway"], own["length"]
        self._stretch, self._unit = stretch, unit
        self.version, self._updated = 0, None
        for name in ("arcs", "_tree"):
            self.__dict__.pop(name, None)
        if arcs or tree:  # older snapshots have none: they are made when they are needed
            both = int(np.count_nonzero(~self._oneway))
            self.__dict__["arcs"] = restored_arcs(arcs, nodes, size, size + both)
            self.__dict__["_tree"] = restored_tree(tree, size)
        return self


def _named(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _check_restored(length: Ints) -> None:
    """Refuse lengths from a snapshot that could not be added up."""
    integrity.within(length, 0, FAR, "length")
    integrity.need(float(length.astype(np.float64).sum()) < 1.1 * FAR, "length", "are too long together")


def _check_places(x: Floats, y: Floats) -> None:
    """Refuse nodes that are too far from 0."""
    for name, values in (("x", x), ("y", y)):
        far = np.abs(values) > LONGEST
        if far.any():
            row = int(np.argmax(far))
            told, expected = f"is {values[row]:g}", f"a number within {LONGEST:g} of 0"
            raise InputError(told, where="nodes", column=name, row=row, expected=expected)


def _check_lengths(given: Floats, where: str = "edges") -> None:
    """Refuse lengths below 0, or beyond any road."""
    bad = (given < 0) | (given > LONGEST)
    if bad.any():
        row = int(np.argmax(bad))
        told, expected = f"is {given[row]:g}", f"a number from 0 to {LONGEST:g}"
        raise InputError(told, where=where, column="length", row=row, expected=expected)


def _unit_of(given: Floats) -> float:
    """What lengths are rounded to multiples of: a power of two."""
    above = given[given > 0] if given.any() else np.ones(1)
    middle, total = float(np.median(above)), math.fsum(above)
    exponent = max(math.frexp(middle)[1] - FINE, math.frexp(total)[1] - MOST, -1000)
    return math.ldexp(1.0, exponent)


def _ends(slots: Slots, ids: Ids, name: str) -> Rows:
    """The rows of nodes, which must be known."""
    found = slots.find(ids, where="edges")
    unknown = np.flatnonzero(found < 0)
    if unknown.size:
        row = int(unknown[0])
        told = f"is {show(ids, row)}, which is not known"
        raise InputError(told, where="edges", column=name, row=row, expected="the id of a node")
    return np.ascontiguousarray(found, np.int32)


def _truths(names: Names) -> Bools:
    """A column of truths; null counts as false."""
    ids = names.ids
    if ids.kind == "str" and names.known.any():
        row = int(np.argmax(names.known))
        told = f"is {shown(show(ids, row))}"
        raise InputError(told, where="edges", column="oneway", row=row, expected="true or false")
    found: Bools = names.known & (ids.values != 0) if ids.kind == "int" else names.known & False
    return found
