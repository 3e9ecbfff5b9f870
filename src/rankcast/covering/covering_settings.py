"""The settings of a `CoveringTable`, and the relations that they stand for."""

from __future__ import annotations

from rankcast.covering.brute_force import Scan
from rankcast.covering.departures import Relations
from rankcast.covering.relation import RelationGraph
from rankcast.errors import SettingError, shown
from rankcast.papers.covering.full import FullRelationGraph
from rankcast.papers.covering.poset import PosetGraph
from rankcast.tables import schema

INDEXES = ("kdtree", "zcurve", "scan")
MOST = 65_536  # the largest k of G_k: a megabyte a covered subscription
GRAPHS = {"full": FullRelationGraph, "poset": PosetGraph}


def relations_for(index: str, graph: int | str, attributes: int) -> Relations:
    """What keeps the relations, as the settings say."""
    if index == "scan":
        return Scan()
    if isinstance(graph, str):
        return GRAPHS[graph](index, attributes)
    return RelationGraph(index, attributes, graph)


def known_graph(graph: object) -> int | str:
    """The setting `graph`: a whole number or a word."""
    if isinstance(graph, str) and graph in GRAPHS:
        return graph
    if isinstance(graph, str):
        raise SettingError(
            f"graph is {shown(graph)}", expected=f"a whole number or one of: {', '.join(GRAPHS)}"
        )
    if isinstance(graph, int) and graph > MOST:
        raise SettingError(
            f"graph is {shown(graph)}",
            expected=f'a whole number from 1 to {MOST}, or "full"',
            detail="Each covered subscription has room for as many that cover it.",
        )
    return schema.whole("graph", graph)
