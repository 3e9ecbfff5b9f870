"""The ground of an experiment: an IP network some of whose nodes are brokers, and a seeded workload.

| kind | what it is |
| --- | --- |
| `internet` | autonomous systems as in the Internet, by networkx; slow to draw, about n^2 / 10^7 seconds |
| `power-law` | preferential attachment, by networkx: a few hubs, two links a new node; drawn at once |
| `tree` | each node hangs on a random earlier one |
| `ring` | each node is linked to the next |

Traffic between two nodes takes a shortest path; a link is one hop of the IP network.

The workload is that of [Range §V]. Objects and subscriptions are uniform in [0, 1]; or clustered: objects
around ten centres, subscriptions around one of them each. An update goes up or down with equal chance, to a
value uniform between here and that end. An attribute that is bounded on one side has upper ends alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import SettingError, required
from rankcast.papers.network.zones import hops_from, joining_tree
from rankcast.tables import schema
from rankcast.tables.schema import Ints, Rows

KINDS = ("internet", "power-law", "tree", "ring")
LINKS_OF_A_NEW_NODE = 2
LEAST_NODES = {"internet": 7}  # networkx draws other numbers of nodes than were asked for below


@dataclass(frozen=True)
class Topology:
    """Nodes, links and brokers.

    Attributes:
        start: with `neighbour`, the rows of each node's neighbours.
        neighbour: see `start`.
        brokers: the nodes that are brokers.
        hops: links on a shortest path from each broker (a line) to every node.
    """

    start: Ints
    neighbour: Rows
    brokers: Rows
    hops: Rows

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.start) - 1

    def between_brokers(self) -> Rows:
        """Links on a shortest path between any two brokers."""
        return np.ascontiguousarray(self.hops[:, self.brokers])

    def nearest_broker(self, nodes: Rows) -> Rows:
        """The number of the broker nearest to each node; of equally near ones the first."""
        nearest: Rows = np.argmin(self.hops[:, nodes], axis=0).astype(np.int32)
        return nearest

    def joined(self) -> Rows:
        """The parent of each broker in a smallest tree over all of them; the first has none (-1)."""
        parent: Rows = joining_tree(self.between_brokers())
        return parent


def make(kind: str, nodes: int, brokers: int, rng: np.random.Generator) -> Topology:
    """Draw a connected network with brokers at random nodes."""
    chosen = schema.one_of("kind", kind, KINDS)
    schema.whole("nodes", nodes)
    schema.whole("brokers", brokers)
    enough_nodes(chosen, nodes)
    if brokers > nodes:
        raise SettingError(f"brokers is {brokers}", expected=f"at most the {nodes} nodes")
    seed = int(rng.integers(2**31))
    links = _links(chosen, nodes, seed)
    at = np.sort(rng.choice(nodes, brokers, replace=False)).astype(np.int32)
    return of_links(links, nodes, at)


def enough_nodes(kind: str, nodes: int) -> None:
    """Refuse fewer nodes than a kind of network can have."""
    least = LEAST_NODES.get(kind, 1)
    if nodes < least:
        raise SettingError(f"nodes is {nodes}", expected=f'at least {least} for kind "{kind}"')


def of_links(links: NDArray[np.integer[Any]], nodes: int, brokers: Rows) -> Topology:
    """A network of given links (n, 2), which must join all nodes."""
    start, neighbour = rows_of(links, nodes)
    hops = hops_from(start, neighbour, brokers)
    if hops.size and hops.min() < 0:
        raise SettingError("the links do not join all nodes", expected="a connected network")
    return Topology(start, neighbour, brokers, hops)


def rows_of(links: NDArray[np.integer[Any]], nodes: int) -> tuple[Ints, Rows]:
    """The neighbours of each node as rows, smaller ones first; each link counts both ways."""
    both = np.concatenate([links, links[:, ::-1]]).astype(np.int64).reshape(-1, 2)
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    start = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(both[:, 0], minlength=nodes), out=start[1:])
    return start, both[:, 1].astype(np.int32)


@lru_cache(maxsize=2)
def _links(kind: str, nodes: int, seed: int) -> NDArray[np.int64]:
    """The links of a network; the last ones drawn are kept, as one experiment asks for them many times."""
    rng = np.random.default_rng(seed)
    if kind == "tree":
        child = np.arange(1, nodes)
        return np.column_stack([rng.integers(0, child), child]) if nodes > 1 else np.empty((0, 2), np.int64)
    if kind == "ring":
        return np.column_stack([np.arange(nodes - 1), np.arange(1, nodes)] if nodes < 3 else _ring(nodes))
    networkx = required("networkx", "bench")
    if kind == "power-law":
        few = min(LINKS_OF_A_NEW_NODE, nodes - 1)
        graph = networkx.barabasi_albert_graph(nodes, few, seed=seed) if few else networkx.empty_graph(nodes)
    else:
        graph = networkx.random_internet_as_graph(nodes, seed=seed)
    return np.array(sorted(graph.edges()), np.int64).reshape(-1, 2)


def _ring(nodes: int) -> list[NDArray[np.int64]]:
    return [np.arange(nodes), (np.arange(nodes) + 1) % nodes]


Columns: TypeAlias = dict[str, NDArray[Any]]

WORKLOAD_KINDS = ("uniform", "clustered")
CLUSTERS = 10
SPREAD = 1 / (8 * (CLUSTERS + 1))


class Workload(NamedTuple):
    """Objects `id, <over>, y`, subscriptions `<over>_lo, <over>_hi` and updates `id, y`; ids are 0, 1, ...

    An infinite end of a range is none.
    """

    objects: Columns
    ranges: Columns
    events: Columns


def draw_workload(
    *,
    objects: int,
    subscriptions: int,
    events: int,
    kind: str,
    over: list[str],
    one_sided: Collection[str] = (),
    rng: np.random.Generator,
) -> Workload:
    """Draw a workload; objects and updates are the same for any number of subscriptions.

    Subscriptions have no lower end in the attributes of `one_sided`; two attributes, the second of which is
    one of them, are the 1.5-d case.
    """
    clustered = schema.one_of("kind", kind, WORKLOAD_KINDS) == "clustered"
    y = rng.random(objects)
    things: Columns = {"id": np.arange(objects), "y": y}
    things |= {name: _values((objects,), clustered, rng) for name in over}
    which, up, share = rng.integers(0, objects, events), rng.random(events) < 0.5, rng.random(events)
    now, values = y.copy(), np.empty(events)
    for place, (row, end, part) in enumerate(zip(which, up, share, strict=True)):
        values[place] = now[row] = now[row] + part * (float(end) - now[row])
    ranges: Columns = {}
    for name in over:
        ends = _values((subscriptions, 2), clustered, rng)
        ends[:, 0] = -np.inf if name in one_sided else ends[:, 0]
        ends.sort(axis=1)
        ranges |= {f"{name}_lo": ends[:, 0].copy(), f"{name}_hi": ends[:, 1].copy()}
    return Workload(things, ranges, {"id": which, "y": values})


def with_nulls(columns: Columns) -> dict[str, Any]:
    """Columns as engines take them: a null instead of an infinite end."""
    return {name: pa.array(ends, mask=np.isinf(ends)) for name, ends in columns.items()}


def _values(shape: tuple[int, ...], clustered: bool, rng: np.random.Generator) -> NDArray[np.float64]:
    if not clustered:
        return rng.random(shape)
    centre = (1 + rng.integers(0, CLUSTERS, shape[0])) / (CLUSTERS + 1)
    return np.clip(centre.reshape(-1, *[1] * (len(shape) - 1)) + rng.normal(0, SPREAD, shape), 0, 1)
