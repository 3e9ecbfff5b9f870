"""Points of interest and roads of California, in metres from its south-west corner, where they are here.

The files are in `../shared/data`, or where `RANKCAST_DATA` says: `california_pois.parquet`,
`california_road_nodes.parquet` and `california_road_edges.parquet`. Points have no attributes but a category,
so attributes are drawn; roads are undirected.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers
from rankcast.bench.workloads.moving import AttributeKind, Roads, attribute_values
from rankcast.errors import required

POINTS, NODES, EDGES = (f"california_{name}.parquet" for name in ("pois", "road_nodes", "road_edges"))
METRES, LATITUDE = 111_195.0, 37.0  # a degree of latitude; where a degree of longitude is measured
CORNER = (-124.5, 32.5)


def _folder() -> Path:
    return Path(os.environ.get("RANKCAST_DATA", "../shared/data"))


def there() -> bool:
    """Whether the files are here."""
    return all((_folder() / name).exists() for name in (POINTS, NODES, EDGES))


def _places(name: str) -> tuple[Floats, Floats]:
    table = pq.read_table(_folder() / name, columns=["lon", "lat"])
    east, north = (table[column].to_numpy().astype(np.float64) for column in ("lon", "lat"))
    return (east - CORNER[0]) * METRES * np.cos(np.radians(LATITUDE)), (north - CORNER[1]) * METRES


def objects(count: int, attributes: int, rng: np.random.Generator, kind: AttributeKind = "unif") -> Columns:
    """Draw points of interest `id, x, y, a0, a1, ...`; if more are wanted than there are, some come twice."""
    x, y = _places(POINTS)
    picked = np.resize(rng.permutation(len(x)), count)
    drawn = attribute_values(count, attributes, rng, kind)
    named = {f"a{number}": drawn[:, number].copy() for number in range(attributes)}
    return {"id": np.arange(count), "x": x[picked], "y": y[picked], **named}


def roads() -> Roads:
    """The largest connected part of the roads."""
    x, y = _places(NODES)
    number = pq.read_table(_folder() / NODES, columns=["node_id"])["node_id"].to_numpy()
    edges = pq.read_table(_folder() / EDGES, columns=["start_id", "end_id"])
    order = np.argsort(number, kind="stable")
    one, other = (
        order[np.searchsorted(number[order], edges[name].to_numpy())] for name in ("start_id", "end_id")
    )
    apart = (x[one] != x[other]) | (y[one] != y[other])  # a way of no length leads nowhere
    one, other = one[apart], other[apart]
    kept = _largest_part(len(x), one, other)
    row, within = np.cumsum(kept) - 1, kept[one]
    start = np.concatenate([row[one[within]], row[other[within]]])
    end = np.concatenate([row[other[within]], row[one[within]]])
    by_start = np.argsort(start, kind="stable")
    begin = np.r_[0, np.cumsum(np.bincount(start, minlength=int(kept.sum())))]
    return Roads(x[kept], y[kept], begin, end[by_start])


def _largest_part(count: int, one: Integers, other: Integers) -> NDArray[np.bool_]:
    """Which nodes are in the largest connected part."""
    sparse, graphs = required("scipy.sparse", "bench"), required("scipy.sparse.csgraph", "bench")
    joined = sparse.coo_array((np.ones(one.size), (one, other)), shape=(count, count))
    _, label = graphs.connected_components(joined, directed=False)
    return np.asarray(label == np.bincount(label).argmax())
