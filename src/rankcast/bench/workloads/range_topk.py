"""Objects, subscriptions and events of the range top-k paper, section V and appendix D.C.

The plane is [0, 1] x [0, 1]: x is the range attribute, y the ranked one. Clusters are those of the paper: ten
centres that part the x-range into eleven segments of length w; Gaussian distances with deviation w/8.

What the paper leaves open and is decided here: a Gaussian step that would leave the range is reflected at
its end (clipping would pile up equal values there); the mixture of clustered subscriptions uses the squared
distance, which a standard deviation calls for (the text prints the plain one); `skewed` is ours, with half of
all objects in the lowest sixteenth of the range; for recommendations, which the real trace lacks, the
decimal logarithm of a company's market value on its first day stands in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankcast.bench.workloads import Columns, Floats, Integers, occurrences

ObjectKind = Literal["uniform", "clustered", "skewed"]
SubscriptionKind = Literal["uniform", "clustered", "correlated", "anti-correlated", "skewed"]

CLUSTERS = 10
SEGMENT = 1.0 / (CLUSTERS + 1)
CENTRES: Floats = np.arange(1, CLUSTERS + 1, dtype=np.float64) * SEGMENT
GRID = 10_000
SKEW = 4.0
COVERED = {2: 1_000, 3: 100}  # objects under a range, by data set of [Range Tables VII, VIII]
STOCKS = Path("../shared/data/sp500_fundamentals_daily.parquet")


class Workload(NamedTuple):
    """Objects, subscriptions to them, and updates of them in order."""

    objects: Columns
    subscriptions: Columns
    events: Columns


def objects(count: int, rng: np.random.Generator, kind: ObjectKind = "uniform") -> Columns:
    """Make objects `id, x, y` with y uniform and x as `kind` says."""
    if kind == "uniform":
        x = rng.random(count)
    elif kind == "clustered":
        x = _around(CENTRES, count, rng)
    elif kind == "skewed":
        x = rng.random(count) ** SKEW
    else:
        raise ValueError(f"unknown kind of objects: {kind!r}")
    return {"id": np.arange(count), "x": x, "y": rng.random(count)}


def subscriptions(
    count: int, rng: np.random.Generator, kind: SubscriptionKind = "uniform", *, spread: float = 0.25
) -> Columns:
    """Make subscriptions `id, x_lo, x_hi`.

    Args:
        count: how many.
        rng: the generator.
        kind: `uniform` in the triangle lo <= hi; `clustered` around ten random points of it; `correlated`
            and `anti-correlated` to clustered objects (same centres; midway between them); `skewed`.
        spread: the paper's lambda, for `clustered`: the deviation is lambda / 4.
    """
    if kind == "uniform":
        ends = rng.random((count, 2))
    elif kind == "clustered":
        ends = _mixture(count, spread / 4.0, rng)
    elif kind == "correlated":
        ends = _pairs_around(CENTRES, count, rng)
    elif kind == "anti-correlated":
        ends = _pairs_around(CENTRES[:-1] + SEGMENT / 2.0, count, rng)
    elif kind == "skewed":
        ends = rng.random((count, 2)) ** SKEW
    else:
        raise ValueError(f"unknown kind of subscriptions: {kind!r}")
    ends.sort(axis=1)
    return {"id": np.arange(count), "x_lo": ends[:, 0].copy(), "x_hi": ends[:, 1].copy()}


def narrow_subscriptions(count: int, x: Floats, covered: int, rng: np.random.Generator) -> Columns:
    """Make subscriptions of the least width that covers `covered` of the objects at `x` (appendix D.C).

    The lower end is uniform as far as `covered` objects lie above it.
    """
    ordered = np.sort(x)
    if not 1 <= covered <= len(ordered):
        raise ValueError(f"cannot cover {covered} of {len(ordered)} objects")
    lo = rng.random(count) * ordered[len(ordered) - covered]
    first = np.searchsorted(ordered, lo, side="left")
    return {"id": np.arange(count), "x_lo": lo, "x_hi": ordered[first + covered - 1]}


def half_bounded(rows: Columns, rng: np.random.Generator) -> Columns:
    """Add one uniform upper bound in a second attribute, z: the 1.5-d subscriptions of appendix D.C."""
    return {**rows, "z_hi": rng.random(len(rows["id"]))}


def uniform_events(rows: Columns, count: int, rng: np.random.Generator) -> Columns:
    """Make updates `id, y`: up or down with probability 1/2, to a value uniform between y and that end."""
    which = rng.integers(0, len(rows["id"]), count)
    end = rng.integers(0, 2, count).astype(np.float64)
    share = rng.random(count)

    def step(y: Floats, events: Integers) -> Floats:
        return y + share[events] * (end[events] - y)

    return _updates(rows, which, step)


def gaussian_events(rows: Columns, count: int, rng: np.random.Generator, *, c: float) -> Columns:
    """Make updates `id, y` whose steps are Gaussian with deviation c/8 of the range (figure 15b)."""
    which = rng.integers(0, len(rows["id"]), count)
    steps = rng.normal(0.0, c / 8.0, count)

    def step(y: Floats, events: Integers) -> Floats:
        folded = np.mod(y + steps[events], 2.0)
        return np.where(folded > 1.0, 2.0 - folded, folded)

    return _updates(rows, which, step)


def stocks(path: Path = STOCKS) -> tuple[Columns, Columns]:
    """Read a real trace: companies `id, x, y` at their first day, and every later change of y in order.

    x is constant (the logarithm of the first market value), y the price-to-earnings ratio; days on which it
    is not known are passed over, companies without either value too.
    """
    table = pq.read_table(path, columns=["snapshot_ts", "symbol", "pe", "market_cap"])
    table = table.filter(pc.is_valid(table["pe"])).sort_by(
        [("snapshot_ts", "ascending"), ("symbol", "ascending")]
    )
    symbol, pe = table["symbol"].to_numpy(), table["pe"].to_numpy()
    value = table["market_cap"].to_numpy()
    _, first, company = np.unique(symbol, return_index=True, return_inverse=True)
    known = value[first] > 0
    row = np.cumsum(known) - 1
    objects = {"id": row[known], "x": np.log10(value[first[known]]), "y": pe[first[known]]}
    day = np.lexsort((np.arange(len(pe)), company))
    changed = np.zeros(len(pe), np.bool_)
    changed[day[1:]] = (company[day[1:]] == company[day[:-1]]) & (pe[day[1:]] != pe[day[:-1]])
    changed &= known[company]
    return objects, {"id": row[company[changed]], "y": pe[changed]}


def stretched(rows: Columns, low: float, high: float) -> Columns:
    """Map subscriptions of the unit interval to another one."""
    ends = {name: low + rows[name] * (high - low) for name in ("x_lo", "x_hi")}
    return {**rows, **ends}


def uniform_workload(parameters: Mapping[str, Any], rng: np.random.Generator) -> Workload:
    """Draw uniform objects and subscriptions, and uniform steps of y."""
    placed = objects(parameters["objects"], rng)
    ranges = subscriptions(parameters["subscriptions"], rng)
    return Workload(placed, ranges, uniform_events(placed, parameters["events"], rng))


def half_bounded_workload(parameters: Mapping[str, Any], rng: np.random.Generator) -> Workload:
    """Draw objects, subscriptions of one of the three data sets, and uniform steps of y."""
    placed = objects(parameters["objects"], rng)
    placed["z"] = rng.random(len(placed["id"]))
    count, data = parameters["subscriptions"], parameters["data"]
    if data == 1:
        drawn = subscriptions(count, rng)
    else:
        covered = min(COVERED[data], parameters["objects"])
        drawn = narrow_subscriptions(count, placed["x"], covered, rng)
    events = uniform_events(placed, parameters["events"], rng)
    return Workload(placed, half_bounded(drawn, rng), events)


def ends(subscriptions: Columns) -> tuple[Floats, Floats]:
    """Give the lower and upper ends over x, and over z if a table has it; there may be no lower one there."""
    if "z_hi" not in subscriptions:
        return subscriptions["x_lo"][:, None], subscriptions["x_hi"][:, None]
    below = subscriptions.get("z_lo", np.full(len(subscriptions["id"]), -np.inf))
    lo = np.column_stack([subscriptions["x_lo"], below])
    return lo, np.column_stack([subscriptions["x_hi"], subscriptions["z_hi"]])


def _updates(rows: Columns, which: Integers, step: Callable[[Floats, Integers], Floats]) -> Columns:
    """Apply `step` to the objects drawn: each object's events in turn, all objects of a round at once."""
    y = rows["y"].copy()
    values = np.empty(len(which))
    rounds = occurrences(which)
    order = np.argsort(rounds, kind="stable")
    for events in np.split(order, np.cumsum(np.bincount(rounds))[:-1]) if len(which) else []:
        moved = which[events]
        y[moved] = values[events] = step(y[moved], events)
    return {"id": rows["id"][which], "y": values}


def _around(centres: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Draw values around centres, each centre getting its equal share (the first ones the remainder)."""
    chosen = centres[rng.permutation(count) % len(centres)]
    return np.clip(chosen + rng.normal(0.0, SEGMENT / 8.0, count), 0.0, 1.0)


def _pairs_around(centres: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Draw pairs of ends around one centre each."""
    chosen = centres[rng.integers(0, len(centres), count)]
    return np.clip(chosen[:, None] + rng.normal(0.0, SEGMENT / 8.0, (count, 2)), 0.0, 1.0)


def _mixture(count: int, deviation: float, rng: np.random.Generator) -> Floats:
    """Draw grid points of the triangle lo <= hi from equal Gaussians around ten centres in it."""
    centres = np.sort(rng.random((CLUSTERS, 2)), axis=1)
    kept: list[Floats] = []
    missing = count
    while missing > 0:
        points = centres[rng.integers(0, CLUSTERS, 2 * missing)] + rng.normal(
            0.0, deviation, (2 * missing, 2)
        )
        points = np.round(points * (GRID - 1)) / (GRID - 1)
        inside = (points[:, 0] >= 0.0) & (points[:, 0] <= points[:, 1]) & (points[:, 1] <= 1.0)
        kept.append(points[inside][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept) if kept else np.empty((0, 2))
