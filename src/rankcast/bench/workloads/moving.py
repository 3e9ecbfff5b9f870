"""Objects with places and attributes, and cars on roads, of the moving-queries paper, section 5.

The universe is a square of 5,000 km, lengths in metres. Attributes lie in [0, 1]: `unif`; `norm`, each around
the middle; `corr`, good in one means good in the others; `anti`, good in one means bad in the others. The
paper takes places from a map of North America and cars from a generator on its roads; here places are
uniform or gather around towns, and roads are a jittered grid with some diagonals: planar and connected by
construction. Cars prefer to go straight on and never turn back at once.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from rankcast.bench.workloads import Columns, Floats, Integers

AttributeKind = Literal["unif", "norm", "corr", "anti"]
PlaceKind = Literal["uniform", "clustered"]
UNIVERSE = 5_000_000.0
DIAGONALS = 0.2
JITTER = 0.3
STRAIGHTNESS = 2.0
SPEED_DEVIATION = 0.1


class Roads(NamedTuple):
    """A road graph: places of nodes, and for each node its ways out (`ways[begin[n] : begin[n + 1]]`)."""

    x: Floats
    y: Floats
    begin: Integers
    ways: Integers


def objects(
    count: int,
    attributes: int,
    rng: np.random.Generator,
    kind: AttributeKind = "unif",
    *,
    places: PlaceKind = "uniform",
    universe: float = UNIVERSE,
) -> Columns:
    """Make objects `id, x, y, a0, a1, ...`."""
    place = rng.random((count, 2))
    if places == "clustered":
        towns = rng.random((100, 2))
        place = np.clip(towns[rng.integers(0, 100, count)] + rng.normal(0.0, 0.02, (count, 2)), 0.0, 1.0)
    elif places != "uniform":
        raise ValueError(f"unknown kind of places: {places!r}")
    drawn = attribute_values(count, attributes, rng, kind)
    named = {f"a{number}": drawn[:, number].copy() for number in range(attributes)}
    return {"id": np.arange(count), "x": place[:, 0] * universe, "y": place[:, 1] * universe, **named}


def attribute_values(count: int, attributes: int, rng: np.random.Generator, kind: AttributeKind) -> Floats:
    """Draw points of [0, 1]^attributes; whatever falls outside is drawn again."""
    kept: list[Floats] = []
    missing = count
    while missing > 0:
        drawn = _attempt(2 * missing, attributes, rng, kind)
        inside = np.all((drawn >= 0.0) & (drawn <= 1.0), axis=1)
        kept.append(drawn[inside][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept) if kept else np.empty((0, attributes))


def roads(side: int, rng: np.random.Generator, *, universe: float = UNIVERSE) -> Roads:
    """Make `side` x `side` crossings, each joined to its neighbours in the grid, with some diagonals."""
    if side < 2:
        raise ValueError(f"a grid of {side} crossings a side has no road")
    column, row = (each.ravel() for each in np.meshgrid(np.arange(side), np.arange(side)))
    spot = (np.stack([column, row], axis=1) + 0.5 + rng.uniform(-JITTER, JITTER, (side * side, 2))) / side
    node = np.arange(side * side).reshape(side, side)
    one = [node[:, :-1].ravel(), node[:-1, :].ravel()]
    other = [node[:, 1:].ravel(), node[1:, :].ravel()]
    cut = rng.random((side - 1, side - 1)) < DIAGONALS
    one.append(node[:-1, :-1][cut])
    other.append(node[1:, 1:][cut])
    start = np.concatenate([*one, *other])
    end = np.concatenate([*other, *one])
    order = np.argsort(start, kind="stable")
    begin = np.r_[0, np.cumsum(np.bincount(start, minlength=side * side))]
    return Roads(spot[:, 0] * universe, spot[:, 1] * universe, begin, end[order])


def tracks(
    graph: Roads, cars: int, seconds: int, rng: np.random.Generator, *, speed: float = 60.0
) -> Columns:
    """Drive cars and note `id, x, y` of all cars after each second, second by second.

    Args:
        graph: the roads.
        cars: how many; ids count from 0. The first `cars` rows are where they start.
        seconds: rows of each car, the start included.
        rng: the generator.
        speed: in km/h on average; cars differ by a tenth.
    """
    metres = np.maximum(rng.normal(speed, SPEED_DEVIATION * speed, cars), 0.1 * speed) / 3.6
    came = rng.integers(0, len(graph.x), cars)
    goes = _next(graph, came, came, rng)
    done = rng.random(cars) * _length(graph, came, goes)
    x, y = np.empty((seconds, cars)), np.empty((seconds, cars))
    for second in range(seconds):
        if second:
            done += metres
            _turn(graph, came, goes, done, rng)
        share = done / _length(graph, came, goes)
        x[second] = graph.x[came] + share * (graph.x[goes] - graph.x[came])
        y[second] = graph.y[came] + share * (graph.y[goes] - graph.y[came])
    return {"id": np.tile(np.arange(cars), seconds), "x": x.ravel(), "y": y.ravel()}


def _attempt(count: int, attributes: int, rng: np.random.Generator, kind: AttributeKind) -> Floats:
    """Draw points that may lie outside."""
    shape = (count, attributes)
    if kind == "unif":
        return rng.random(shape)
    if kind == "norm":
        return rng.normal(0.5, 0.15, shape)
    if kind == "corr":
        return rng.normal(0.5, 0.2, (count, 1)) + rng.normal(0.0, 0.05, shape)
    if kind == "anti":
        spread = rng.uniform(-0.6, 0.6, shape)
        spread -= spread.mean(axis=1, keepdims=True)
        return rng.normal(0.5, 0.05, (count, 1)) + spread
    raise ValueError(f"unknown kind of attributes: {kind!r}")


def _length(graph: Roads, one: Integers, other: Integers) -> Floats:
    """Measure the road between two nodes."""
    return np.hypot(graph.x[one] - graph.x[other], graph.y[one] - graph.y[other])


def _turn(graph: Roads, came: Integers, goes: Integers, done: Floats, rng: np.random.Generator) -> None:
    """Move the cars that reached the end of their road on to the next, in place, till all are on a road."""
    length = _length(graph, came, goes)
    over = np.flatnonzero(done >= length)
    while len(over):
        done[over] -= length[over]
        further = _next(graph, came[over], goes[over], rng)
        came[over], goes[over] = goes[over], further
        length[over] = _length(graph, came[over], goes[over])
        over = over[done[over] >= length[over]]


def _next(graph: Roads, came: Integers, at: Integers, rng: np.random.Generator) -> Integers:
    """Choose the way on from `at`: the straighter the likelier, back only if there is no other way."""
    count = graph.begin[at + 1] - graph.begin[at]
    slot = np.arange(int(count.max(initial=0)))
    known = slot < count[:, None]
    ways = graph.ways[np.where(known, graph.begin[at][:, None] + slot, 0)]
    straight = _cosine(graph, came[:, None], at[:, None], ways)
    weight = np.where(
        known & ((ways != came[:, None]) | (count[:, None] == 1)), np.exp(STRAIGHTNESS * straight), 0.0
    )
    sums = np.cumsum(weight, axis=1)
    pick = (sums <= rng.random((len(at), 1)) * sums[:, -1:]).sum(axis=1)
    chosen: Integers = ways[np.arange(len(at)), np.minimum(pick, count - 1)]
    return chosen


def _cosine(graph: Roads, came: Integers, at: Integers, ways: Integers) -> Floats:
    """Give the cosine of the turn from one road into the next; 0 where there was no road before."""
    before_x, before_y = graph.x[at] - graph.x[came], graph.y[at] - graph.y[came]
    after_x, after_y = graph.x[ways] - graph.x[at], graph.y[ways] - graph.y[at]
    lengths = np.hypot(before_x, before_y) * np.hypot(after_x, after_y)
    cosine: Floats = (before_x * after_x + before_y * after_y) / np.maximum(lengths, 1e-9)
    return cosine
