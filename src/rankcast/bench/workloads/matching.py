"""Scored boxes and events of the ranked-matching paper, section 4: a d-dimensional Zipfian generator.

Each dimension of [0, 1) is cut into `cells` equal parts. Points fall into random boxes of cells (regions):
the share of each region is Zipfian with `across` (0: equal), and inside a region a cell's share falls with
its distance from the middle, as (1 + L1 distance)^-within. A point is uniform inside its cell. Events are
points. A subscription is a point with a length in each dimension: [x - l, x + l], with score (weight) 1 - l,
where l is uniform inside one of the parts of [0, 1), drawn Zipfian with `skew_length`, the shortest most
likely.

What the paper leaves open and is decided here: the distance (L1), the sides of a region (a random split of
its volume's logarithm), and that lengths live on the same parts as points. The exact score of a box is the
sum of its dimensions' scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.bench.workloads import Columns, Floats, Integers, draw, zipf_weights

Mode = Literal["exact", "relaxed"]
CELLS = 100
REGIONS = 10
VOLUME = 1.0 / 20.0


class Zipfian(NamedTuple):
    """A distribution of points: regions as first cell and number of cells, (regions, dimensions) each."""

    first: Integers
    sides: Integers
    shares: Floats
    within: float
    cells: int


def zipfian(
    dimensions: int,
    rng: np.random.Generator,
    *,
    regions: int = REGIONS,
    cells: int = CELLS,
    volume: float = VOLUME,
    across: float = 0.0,
    within: float = 1.0,
) -> Zipfian:
    """Draw the regions; the defaults are those of the paper's table 1. `volume` is a share of all cells."""
    parts = rng.dirichlet(np.ones(dimensions), regions)
    sides = np.clip(np.rint(cells * volume**parts), 1, cells).astype(np.int64)
    first = rng.integers(0, cells - sides + 1)
    return Zipfian(first, sides, zipf_weights(regions, across), within, cells)


def points(source: Zipfian, count: int, rng: np.random.Generator) -> Floats:
    """Draw points of [0, 1)^d, an array (count, d)."""
    region = draw(source.shares, count, rng)
    cell = np.empty((count, source.first.shape[1]), np.int64)
    for number in range(len(source.shares)):
        mine = np.flatnonzero(region == number)
        offsets = _offsets(source.sides[number], source.within, len(mine), rng)
        cell[mine] = source.first[number] + (source.sides[number] - 1) // 2 + offsets
    return np.asarray((cell + rng.random(cell.shape)) / source.cells, dtype=np.float64)


def events(source: Zipfian, count: int, over: Sequence[str], rng: np.random.Generator) -> Columns:
    """Make events `id` and the attributes."""
    drawn = points(source, count, rng)
    return {"id": np.arange(count), **{name: drawn[:, number].copy() for number, name in enumerate(over)}}


def subscriptions(
    source: Zipfian,
    count: int,
    over: Sequence[str],
    rng: np.random.Generator,
    *,
    mode: Mode = "exact",
    skew_length: float = 0.75,
    longest: float = 1.0,
) -> Columns:
    """Make subscriptions `id, <attribute>_lo, <attribute>_hi` and `score` (exact) or `<attribute>_weight`.

    Args:
        source: where the middles come from.
        count: how many.
        over: the attributes, one a dimension.
        rng: the generator.
        mode: exact or relaxed matching.
        skew_length: the smaller, the longer the intervals and the more of them overlap.
        longest: scales all lengths; 1 is the paper's.
    """
    middle = points(source, count, rng)
    part = draw(zipf_weights(source.cells, skew_length), middle.size, rng).reshape(middle.shape)
    length = longest * (part + rng.random(middle.shape)) / source.cells
    rows: Columns = {"id": np.arange(count)}
    for number, name in enumerate(over):
        rows[f"{name}_lo"] = middle[:, number] - length[:, number]
        rows[f"{name}_hi"] = middle[:, number] + length[:, number]
        if mode == "relaxed":
            rows[f"{name}_weight"] = 1.0 - length[:, number]
    if mode == "exact":
        rows["score"] = (1.0 - length).sum(axis=1)
    return rows


def crowded(kind: str, count: int, events_: int, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """Make intervals over `a0` and events of one of three distributions of 1 million intervals.

    A: skewed middles, Zipfian lengths, about 12,000 stabbed, random scores. B: about half of all stabbed,
    random scores. C: about 100 stabbed, and the shorter an interval, the higher its score, so that a search
    in score order finds nothing for long.
    """
    middle, places, score = rng.random(count), rng.random(events_), rng.random(count)
    if kind == "A":
        middle, places = np.abs(rng.normal(0.5, 0.15, count)), np.abs(rng.normal(0.5, 0.15, events_))
        half = np.minimum((rng.zipf(1.6, count) + rng.random(count)) * 0.8e-4, 0.5)
    elif kind == "B":
        half = 0.8 * rng.random(count)
    else:
        half = np.minimum(2.6e-5 * rng.pareto(1.5, count) + 1e-6, 0.01)
        score = -half
    rows = {"id": np.arange(count), "a0_lo": middle - half, "a0_hi": middle + half, "score": score}
    return rows, {"id": np.arange(events_), "a0": places}


def heavy_boxes(
    kind: str, dimensions: int, count: int, events_: int, rng: np.random.Generator
) -> tuple[Columns, Columns]:
    """Make boxes with heavy-tailed sides and uniform events: "dense" or "sparse".

    Of 1 million boxes in 4 dimensions about 6,000 (dense, random scores) or 300 (sparse, the smaller the
    higher its score) are stabbed; fewer dimensions are the first ones of the same boxes.
    """
    middle, sides = rng.random((count, 4)), rng.pareto(1.2, (count, 4))
    dense = kind == "dense"
    half = np.minimum(sides * (0.086 if dense else 0.031) + (0.028 if dense else 0.0078), 0.5)[:, :dimensions]
    score = rng.random(count) if dense else -np.log(half).sum(axis=1)
    rows: Columns = {"id": np.arange(count), "score": score}
    points: Columns = {"id": np.arange(events_)}
    for number in range(dimensions):
        rows[f"a{number}_lo"] = middle[:, number] - half[:, number]
        rows[f"a{number}_hi"] = middle[:, number] + half[:, number]
        points[f"a{number}"] = rng.random(events_)
    return rows, points


def few_bounds(
    over: Sequence[str], bounded: int, count: int, events_: int, mode: Mode, rng: np.random.Generator
) -> tuple[Columns, Columns]:
    """Make subscriptions that bound a few of many attributes, each its own; no bound is an infinity.

    Attributes are chosen with Zipfian shares (skew 0.5), an interval holds up to a fifth of the values.
    """
    shares = rng.gumbel(size=(count, len(over))) + np.log(zipf_weights(len(over), 0.5))
    held = np.zeros(shares.shape, bool)
    np.put_along_axis(held, np.argpartition(-shares, bounded, axis=1)[:, :bounded], values=True, axis=1)
    rows: Columns = {"id": np.arange(count)}
    for number, name in enumerate(over):
        middle, half = rng.random(count), 0.1 * rng.random(count)
        rows[f"{name}_lo"] = np.where(held[:, number], middle - half, -np.inf)
        rows[f"{name}_hi"] = np.where(held[:, number], middle + half, np.inf)
        if mode == "relaxed":
            rows[f"{name}_weight"] = np.where(held[:, number], rng.random(count), 0.0)
    if mode == "exact":
        rows["score"] = rng.random(count)
    return rows, {"id": np.arange(events_), **{name: rng.random(events_) for name in over}}


def equalities(
    over: Sequence[str], bounded: int, count: int, events_: int, rng: np.random.Generator
) -> tuple[Columns, Columns]:
    """Make subscriptions of a few equalities among many attributes, values by a Zipf law."""
    rows: Columns = {"id": np.arange(count), "score": rng.random(count)}
    held = rng.random((count, len(over))).argsort(axis=1) < bounded
    for number, name in enumerate(over):
        values = np.minimum(rng.zipf(1.3, count), 1000).astype(np.float64)
        rows[f"{name}_lo"] = np.where(held[:, number], values, -np.inf)
        rows[f"{name}_hi"] = np.where(held[:, number], values, np.inf)
    asked = {name: np.minimum(rng.zipf(1.3, events_), 1000).astype(np.float64) for name in over}
    return rows, {"id": np.arange(events_), **asked}


def moving(
    over: Sequence[str], count: int, live: int, events_: int, rng: np.random.Generator
) -> tuple[Columns, Columns]:
    """Make boxes whose values move by their whole spread while `live` of them come; events at the end."""
    at = np.arange(count) / live
    rows: Columns = {"id": np.arange(count), "score": rng.random(count)}
    for name in over:
        lo = at + rng.random(count)
        rows[f"{name}_lo"] = lo
        rows[f"{name}_hi"] = lo + rng.random(count) * (0.01 if len(over) == 1 else 0.3)
    last = count / live - 0.5
    return rows, {"id": np.arange(events_), **{name: last + rng.random(events_) for name in over}}


class Mixed(NamedTuple):
    """Subscriptions of intervals, and by category what each row accepts and refuses: codes, or None."""

    rows: Columns
    lists: dict[str, tuple[list[list[int] | None], list[list[int] | None]]]
    events: Columns


def mixed(count: int, events_: int, rng: np.random.Generator) -> Mixed:
    """Make subscriptions as of a job board: `pay` and `hours` in an interval, `job` and `town` among a few.

    Three in four name one to three of 2,000 jobs by a Zipf law, half name one to five of 200 towns, and one
    in ten of the others refuses two; one in five has no interval. Scores are random.
    """
    rows: Columns = {"id": np.arange(count), "score": rng.random(count)}
    free = rng.random((2, count)) < 0.2
    for place, (name, widest) in enumerate((("pay", 0.3), ("hours", 0.6))):
        middle, half = rng.random(count), 0.5 * widest * rng.random(count)
        rows[f"{name}_lo"] = np.where(free[place], -np.inf, middle - half)
        rows[f"{name}_hi"] = np.where(free[place], np.inf, middle + half)
    jobs, towns = zipf_weights(2_000, 1.0), zipf_weights(200, 0.5)
    lists, events = {}, {"id": np.arange(events_), "pay": rng.random(events_), "hours": rng.random(events_)}
    for name, weights, share, most, refusing in (("job", jobs, 0.75, 3, 0.0), ("town", towns, 0.5, 5, 0.1)):
        drawn, number = (
            draw(weights, count * most, rng).reshape(count, most),
            rng.integers(1, most + 1, count),
        )
        names, refuses = rng.random(count) < share, rng.random(count) < refusing
        accepted = [
            sorted(set(codes[:size])) if named else None
            for codes, size, named in zip(drawn.tolist(), number.tolist(), names.tolist(), strict=True)
        ]
        refused = [
            sorted(set(codes[:2])) if refusing and not named else None
            for codes, named, refusing in zip(drawn.tolist(), names.tolist(), refuses.tolist(), strict=True)
        ]
        lists[name] = accepted, refused
        events[name] = draw(weights, events_, rng)
    return Mixed(rows, lists, events)


def with_nulls(rows: Columns) -> dict[str, pa.Array]:
    """Turn infinities into nulls, which is how a table says that there is no bound."""
    return {name: pa.array(values, mask=np.isinf(values)) for name, values in rows.items()}


def _offsets(sides: Integers, within: float, count: int, rng: np.random.Generator) -> Integers:
    """Draw offsets from the middle cell with probability proportional to (1 + L1 norm)^-within.

    `ways[j][t]` counts the offsets in the first j dimensions with L1 norm t. The norm is drawn first, then
    split over the dimensions from the last to the first, each part as often as the rest can be completed.
    """
    choices = [_choices(int(side)) for side in sides]
    ways = [np.ones(1)]
    for choice in choices:
        ways.append(np.convolve(ways[-1], choice))
    norms = np.arange(len(ways[-1]))
    left = draw(ways[-1] * (1.0 + norms) ** -within, count, rng)
    offsets = np.empty((count, len(sides)), np.int64)
    for number in range(len(sides) - 1, -1, -1):
        taken = _split(left, choices[number], ways[number], rng)
        offsets[:, number] = _signed(taken, int(sides[number]), rng)
        left = left - taken
    return offsets


def _choices(side: int) -> Floats:
    """Count the cells of one side at distance 0, 1, 2 and so on from its middle cell."""
    below, above = (side - 1) // 2, side // 2
    counts = np.full(above + 1, 2.0)
    counts[0] = 1.0
    counts[below + 1 :] = 1.0
    return counts


def _split(left: Integers, choice: Floats, rest: Floats, rng: np.random.Generator) -> Integers:
    """Draw for each norm the part of one dimension; `rest[t]` counts the ways to make t without it."""
    taken = np.empty_like(left)
    for norm in np.unique(left).tolist():
        mine = np.flatnonzero(left == norm)
        parts = np.arange(max(0, norm - len(rest) + 1), min(norm, len(choice) - 1) + 1)
        taken[mine] = parts[draw(choice[parts] * rest[norm - parts], len(mine), rng)]
    return taken


def _signed(distance: Integers, side: int, rng: np.random.Generator) -> Integers:
    """Turn distances from the middle cell into offsets; the far cell of an even side lies above only."""
    upwards = (rng.random(len(distance)) < 0.5) | (distance > (side - 1) // 2)
    return np.where(upwards, distance, -distance)
