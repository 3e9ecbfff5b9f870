"""Boxes and interleaved subscribes and unsubscribes of the covering paper, section V.A.

Attributes take whole values in [0, 2^bits - 1]. `uniform`: each edge is a random segment, its ends two
uniform values. `heavy-tailed`: sizes over three orders of magnitude, so that most boxes lie inside some
larger one (of 100,000 boxes, 99% in 3 attributes and 95% in 8); the paper has no such boxes, real
subscriptions do. A command is an unsubscribe with probability p and then takes a random live subscription;
while none is live it is a subscribe.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers

BoxKind = Literal["uniform", "heavy-tailed", "length-first"]
Order = Literal["ascending", "descending", "growing", "shrinking", "random", "drifting"]
BITS = 20
SMALLEST = 1e-3


class Commands(NamedTuple):
    """A sequence of commands: `target[i]` is the row in `boxes` that comes, or with `leaves[i]` goes."""

    boxes: Columns
    leaves: NDArray[np.bool_]
    target: Integers


def attributes(count: int) -> list[str]:
    """Name the attributes: a0, a1 and so on."""
    return [f"a{number}" for number in range(count)]


def boxes(
    count: int, over: Sequence[str], rng: np.random.Generator, kind: BoxKind = "uniform", *, bits: int = BITS
) -> Columns:
    """Make boxes `id, <attribute>_lo, <attribute>_hi` with whole, closed ends in [0, 2^bits - 1]."""
    top = float(2**bits - 1)
    shape = (count, len(over))
    if kind == "uniform":
        one, other = rng.integers(0, 2**bits, (2, *shape)).astype(np.float64)
        lo, hi = np.minimum(one, other), np.maximum(one, other)
    elif kind == "heavy-tailed":
        lo, hi = _heavy_tailed(shape, top, rng)
    elif kind == "length-first":
        length = np.floor(rng.random(shape) * (top + 1))
        lo = np.floor(rng.random(shape) * (top + 1 - length))
        hi = lo + length
    else:
        raise ValueError(f"unknown kind of boxes: {kind!r}")
    rows: Columns = {"id": np.arange(count)}
    for number, name in enumerate(over):
        rows[f"{name}_lo"], rows[f"{name}_hi"] = lo[:, number].copy(), hi[:, number].copy()
    return rows


def ordered(count: int, over: Sequence[str], rng: np.random.Generator, order: Order) -> Columns:
    """Make boxes that come in an order.

    `ascending`, `descending`: of one width, the next a little higher or lower, so that none contains another.
    `growing`, `shrinking`: each contains all before it, or lies in all of them. `random`: of one width, at
    random places. `drifting`: small boxes at random places in a window that moves on by its own width in
    `count` / 4.
    """
    shape, step = (count, len(over)), np.arange(count, dtype=np.float64)[:, None]
    if order in ("growing", "shrinking"):
        reach = 1.0 + (step if order == "growing" else step[::-1])
        lo, hi = np.broadcast_to(-reach, shape), np.broadcast_to(reach, shape)
    elif order == "drifting":
        lo = rng.random(shape) + 4.0 * step / count
        hi = lo + 0.01 * rng.random(shape)
    else:
        lo = rng.random(shape) * count if order == "random" else np.broadcast_to(step, shape)
        lo = -lo if order == "descending" else lo
        hi = lo + 1000.0
    rows: Columns = {"id": np.arange(count)}
    for number, name in enumerate(over):
        rows[f"{name}_lo"], rows[f"{name}_hi"] = lo[:, number].copy(), hi[:, number].copy()
    return rows


def commands(
    count: int,
    over: Sequence[str],
    rng: np.random.Generator,
    *,
    p: float,
    kind: BoxKind = "uniform",
    first: int = 0,
    bits: int = BITS,
) -> Commands:
    """Make `first` subscribes and then `count` commands, an unsubscribe with probability `p` below 1/2."""
    if not 0.0 <= p < 0.5:
        raise ValueError(f"p is {p}, expected a probability below 1/2")
    wanted = np.r_[np.zeros(first, np.bool_), rng.random(count) < p]
    picks = rng.random(first + count)
    leaves, target = _history(wanted, picks)
    made = boxes(int(np.count_nonzero(~leaves)), over, rng, kind, bits=bits)
    return Commands(made, leaves, target)


def steps(given: Commands) -> Iterator[tuple[str, Any]]:
    """Yield `("subscribe", rows)` for each run of subscribes and `("unsubscribe", [id])` one at a time.

    A batch of subscribes is sequential by contract, a batch of unsubscribes is net; so this is the sequence
    itself, with as few calls as that allows.
    """
    ids = given.boxes["id"]
    borders = np.flatnonzero(np.r_[given.leaves.size > 0, given.leaves[1:] | given.leaves[:-1], True])
    for start, stop in itertools.pairwise(borders.tolist()):
        rows = given.target[start:stop]
        if given.leaves[start]:
            yield "unsubscribe", ids[rows].tolist()
        else:
            yield "subscribe", {name: column[rows] for name, column in given.boxes.items()}


def sequence(given: Commands) -> pa.Table:
    """All commands as one table: `op, id` and the boxes, null where something leaves."""
    words = pa.array(["subscribe", "unsubscribe"]).take(pa.array(given.leaves.astype(np.int8)))
    columns: dict[str, Any] = {"op": words}
    for name, column in given.boxes.items():
        gone = given.leaves & (name != "id")
        columns[name] = pa.array(column[given.target], mask=gone)
    return pa.table(columns)


def later(given: Commands, first: int) -> Commands:
    """The commands without the first ones."""
    return given._replace(leaves=given.leaves[first:], target=given.target[first:])


def _heavy_tailed(shape: tuple[int, int], top: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw a size a box, log-uniform from `SMALLEST` to 1, and sides of 80% to all of it."""
    scale = SMALLEST ** rng.random((shape[0], 1))
    side = scale * rng.uniform(0.8, 1.0, shape)
    lo = rng.random(shape) * (1.0 - side)
    return np.floor(lo * top), np.floor((lo + side) * top)


def _history(wanted: NDArray[np.bool_], picks: Floats) -> tuple[NDArray[np.bool_], Integers]:
    """Play the commands on the set of live rows: the next row comes, or a random live one goes."""
    leaves = wanted.copy()
    target = np.empty(len(wanted), np.int64)
    live: list[int] = []
    made = 0
    for number, (leave, pick) in enumerate(zip(wanted.tolist(), picks.tolist(), strict=True)):
        leaves[number] = leave and bool(live)
        if leaves[number]:
            place = int(pick * len(live))
            live[place], live[-1] = live[-1], live[place]
            target[number] = live.pop()
        else:
            target[number] = made
            live.append(made)
            made += 1
    return leaves, target
