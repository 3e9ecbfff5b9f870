"""Roads from files: GraphML by networkx, OpenStreetMap by osmium. Both are extras: `rankcast[roads]`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from importlib import import_module
from itertools import pairwise
from typing import Any

from rankcast.errors import InputError, SettingError, shown

Columns = dict[str, list[Any]]

FOR_CARS = (
    "motorway",
    "trunk",
    "primary",
    "secondary",
    "tertiary",
    "unclassified",
    "residential",
    "living_street",
    "service",
    "road",
    "motorway_link",
    "trunk_link",
    "primary_link",
    "secondary_link",
    "tertiary_link",
)
EARTH_RADIUS = 6_371_008.8
FORWARD, BACKWARD = ("yes", "true", "1"), ("-1", "reverse")


def _library(name: str) -> Any:
    """A library that reads files, if it is installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SettingError(
            f"{name} is not installed", detail=f"{error}.", hint="pip install 'rankcast[roads]'"
        ) from error


def _opened(path: str | os.PathLike[str]) -> str:
    """The path of a file that is there."""
    found = os.fspath(path)
    if not os.path.isfile(found):  # noqa: PTH113  the libraries take text
        raise InputError(f"there is no file {shown(found)}")
    return found


def graphml(path: str | os.PathLike[str], length: str) -> tuple[Columns, Columns, str]:
    """Edges, nodes and the metric of a GraphML file."""
    networkx = _library("networkx")
    try:
        graph = networkx.read_graphml(_opened(path))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{shown(os.fspath(path))} is no GraphML", detail=f"{error}.") from error
    nodes: Columns = {"id": [], "x": [], "y": []}
    for name, values in graph.nodes(data=True):
        nodes["id"].append(str(name))
        for each in ("x", "y"):
            nodes[each].append(_number(values, each, f"node {name}"))
    rows = [
        (str(one), str(other), _number(values, length, f"edge {one} to {other}"))
        for one, other, values in graph.edges(data=True)
    ]
    directed = graph.is_directed()
    edges = _paired(rows) if directed else [(*row, False) for row in rows]
    globe = "4326" in str(graph.graph.get("crs", ""))
    return _columns(edges), nodes, "haversine" if globe else "euclidean"


def _number(values: Mapping[str, Any], name: str, where: str) -> float:
    """An attribute that must be a number; OSMnx writes them as text."""
    try:
        return float(values[name])
    except (KeyError, TypeError, ValueError) as error:
        told = shown(values[name]) if name in values else "missing"
        raise InputError(f"{name} of {where} is {told}", expected="a number") from error


def _paired(rows: list[tuple[str, str, float]]) -> list[tuple[str, str, float, bool]]:
    """One-way edges, two that lead back and forth with equal lengths as one."""
    waiting: dict[tuple[str, str, float], list[int]] = {}
    found: list[tuple[str, str, float, bool]] = []
    for one, other, length in rows:
        back = waiting.get((other, one, length))
        if back and one != other:
            place = back.pop()
            found[place] = (*found[place][:3], False)
        else:
            waiting.setdefault((one, other, length), []).append(len(found))
            found.append((one, other, length, True))
    return found


def _columns(edges: list[tuple[Any, Any, float, bool]]) -> Columns:
    names = ("start", "end", "length", "oneway")
    return {name: [edge[place] for edge in edges] for place, name in enumerate(names)}


def openstreetmap(
    path: str | os.PathLike[str], speeds: Mapping[str, float] | None
) -> tuple[Columns, Columns]:
    """Edges and nodes of the roads for cars in a file of OpenStreetMap."""
    osmium = _library("osmium")
    kinds = FOR_CARS if speeds is None else tuple(speeds)
    nodes: dict[int, tuple[float, float]] = {}
    edges: list[tuple[int, int, float, bool]] = []
    try:
        for way in osmium.FileProcessor(_opened(path), osmium.osm.WAY | osmium.osm.NODE).with_locations():
            kind = way.tags.get("highway") if way.is_way() else None
            if kind not in kinds:
                continue
            spots = [(node.ref, node.lon, node.lat) for node in way.nodes if node.location.valid()]
            said = way.tags.get("oneway", "yes" if way.tags.get("junction") == "roundabout" else "no")
            said = "yes" if kind == "motorway" and "oneway" not in way.tags else said
            spots = spots[::-1] if said in BACKWARD else spots
            metres_a_second = 1.0 if speeds is None else speeds[kind] / 3.6
            nodes |= {ref: (lon, lat) for ref, lon, lat in spots}
            for (one, *here), (other, *there) in pairwise(spots):
                length = _metres(*here, *there) / metres_a_second
                edges.append((one, other, length, said in FORWARD + BACKWARD))
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{shown(os.fspath(path))} is no map of OpenStreetMap", detail=f"{error}."
        ) from error
    places = {"x": [lon for lon, _ in nodes.values()], "y": [lat for _, lat in nodes.values()]}
    return _columns(edges), {"id": list(nodes), **places}


def _metres(ax: float, ay: float, bx: float, by: float) -> float:
    """The distance of two places on the globe."""
    north = math.sin(math.radians(ay - by) / 2)
    east = math.sin(math.radians(ax - bx) / 2)
    chord = north * north + math.cos(math.radians(ay)) * math.cos(math.radians(by)) * (east * east)
    return 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(chord)))
