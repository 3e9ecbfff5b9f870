"""The plan of a stream: what its shards are and what they begin with, fixed when the stream is first made.

It lies in `plan.json` under the state URI, beside the snapshots that shards begin with (`genesis/...`) and
those that they write later (`queries/<query>/<shard>/...`). A stream that is made again with the same state
takes the plan as it is; engine, settings or inputs that differ are refused, because the snapshots would be
misread.

A table of subscriptions that have places is divided into zones of about equal load by a k-d split, learnt
from a sample. A split is JSON: a number is a zone, `[axis, border, below, above]` sends points with a
coordinate below the border one way and all others the other. Every point has one zone, also one that no
sample was like.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import ShardError, SnapshotError
from rankcast.state.depot import Depot
from rankcast.tables.schema import Floats, Ints

Split: TypeAlias = Any


# Columns that the runtime adds to rows on their way to an engine, and takes out again there.
SEQ, OP = "__seq", "__op"  # what an input's own columns for order and command are called once packed
REASON = "__reason"  # a column of any input: why a row is refused before an engine sees it, null if it is not
RAW = "__message"  # a column of any stream: the row as it came, told again if it is refused
OWN = frozenset({SEQ, OP, REASON, RAW})
TRACED = ("query", "batch", "shard", "n", "raw")  # columns that tell where an answer comes from


def learn(points: Floats, zones: int) -> Split:
    """Split a sample (n, d) into zones of about equal size. Cost: O(d n log n log zones).

    Each step cuts where it leaves the sizes closest to what is wanted, on whatever axis that is, so that many
    equal coordinates on one axis do no harm as long as another axis tells the points apart.
    """
    return _learn(np.asarray(points, np.float64), 0, zones)


def _learn(points: Floats, first: int, zones: int) -> Split:
    if zones == 1:
        return first
    left = zones // 2
    wanted = left / zones
    cuts = [_cut(points[:, axis], wanted) for axis in range(points.shape[1])]
    axis = min(range(len(cuts)), key=lambda each: cuts[each][0], default=0)
    border = cuts[axis][1] if cuts else 0.0
    below = points[:, axis] < border if cuts else np.zeros(len(points), np.bool_)
    return [
        axis,
        border,
        _learn(points[below], first, left),
        _learn(points[~below], first + left, zones - left),
    ]


def _cut(values: Floats, wanted: float) -> tuple[float, float]:
    """How far the best finite border is from leaving the wanted share below it, and that border."""
    distinct, counts = np.unique(values, return_counts=True)
    share = np.concatenate([[0], np.cumsum(counts)[:-1]]) / max(values.size, 1)
    finite = np.flatnonzero(np.isfinite(distinct))
    if not finite.size:
        return 1.0, 0.0
    best = finite[np.argmin(np.abs(share[finite] - wanted))]
    return float(abs(share[best] - wanted)), float(distinct[best])


def zone_of(split: Split, points: Floats) -> Ints:
    """The zone of each point (n, d)."""
    found = np.empty(len(points), np.int64)
    _assign(split, np.asarray(points, np.float64), np.arange(len(points)), found)
    return found


def _assign(split: Split, points: Floats, rows: NDArray[np.intp], found: Ints) -> None:
    if isinstance(split, int):
        found[rows] = split
        return
    axis, border, below, above = split
    inside = points[rows, axis] < border
    _assign(below, points, rows[inside], found)
    _assign(above, points, rows[~inside], found)


FORMAT = 2
FILE = "plan.json"
ONLY = "0"  # where a plan without shards names the engine that all tasks read
INITIAL = "genesis"  # what the snapshots that shards begin with are called on disk


@dataclass(frozen=True)
class Plan:
    """What is fixed for the life of a stream.

    Attributes:
        kind: the engine.
        settings: its settings, as its snapshots have them.
        score: where a score of one's own is found, `module:name`.
        ids: by input, whether its ids are `long` or `string`.
        shards: the ids of the shards; none: nothing stays of the stream's rows, and any task answers them.
        zones: how subscriptions that are a table are divided; None: by a hash of their ids.
        initial: for each shard the snapshot it begins with.
        cut: rows up to this sequence number are in those snapshots already; None if none are.
        told: whether the results in those snapshots were told when they were made.
        clock: the highest sequence number that those snapshots reflect, if that is not `cut`.
        former: names of the plans that this one goes on from, whose shards' logs do not count any more.
    """

    kind: str
    settings: dict[str, Any]
    score: str | None
    ids: dict[str, str]
    shards: tuple[int, ...]
    zones: Split
    initial: dict[str, str]
    cut: int | None
    told: bool
    clock: int | None = None
    former: tuple[str, ...] = ()

    @property
    def stateless(self) -> bool:
        """Whether it has no shards: see `rankcast.spark.stateless`."""
        return not self.shards

    @property
    def name(self) -> str:
        """A checksum of all of it: what a checkpoint remembers the plan by."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()

    def to_json(self) -> str:
        """The plan as text."""
        fields = asdict(self)
        fields[INITIAL] = fields.pop("initial")
        for name, none in (
            ("clock", None),
            ("former", ()),
        ):  # plans of before there were any have the same name
            if fields[name] == none:
                del fields[name]
        return json.dumps({"format": FORMAT, **fields}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan in a text; refuses what is none."""
        try:
            fields = json.loads(text)
            version = fields.pop("format")
            if version != FORMAT:
                raise ShardError(
                    f"the state has a plan of format {version}, this version of rankcast reads {FORMAT}",
                    hint="Go on with the version that made it, or begin with a new state and checkpoint.",
                )
            fields["initial"] = fields.pop(INITIAL)
            several = {name: tuple(fields.get(name, ())) for name in ("shards", "former")}
            return cls(**{**fields, **several})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SnapshotError("the plan in the state is damaged", detail=f"{error}.") from error

    def agree(self, other: Plan, state: str) -> None:
        """Refuse to go on as `other` where this plan was made for something else."""
        for what in ("kind", "settings", "score", "ids"):
            mine, theirs = getattr(self, what), getattr(other, what)
            if mine != theirs:
                words = {"kind": "engine", "ids": "types of ids"}
                raise ShardError(
                    f"{state} was made for another stream: its {words.get(what, what)} differ",
                    detail=f"It has {json.dumps(mine)}, now given is {json.dumps(theirs)}.",
                    hint="Give the engine the settings it had, or begin with a new state and checkpoint.",
                )

    def go_on(self, wanted: Plan, state: str, shards: int | None, *, commands: bool) -> None:
        """Refuse to go on as `wanted`, with so many shards, where this plan was made for something else.

        Args:
            wanted: what is given now.
            state: where this plan lies.
            shards: how many are asked for, if a number is.
            commands: whether subscriptions are a stream of commands now.
        """
        self.agree(wanted, state)
        if shards is not None and not self.stateless and shards != len(self.shards):
            raise ShardError(
                f"{state} has {len(self.shards)} shards, not {shards}",
                hint="Leave shards out to go on with it, or begin with a new state and checkpoint.",
            )
        if (self.zones is not None or self.stateless) and commands:
            raise ShardError(
                f"{state} was made with a table of subscriptions, now they are a stream of commands",
                detail="Commands are sent by id, or need shards, and would not find what is there.",
                hint="Begin with a new state, from a history of commands with the columns op and seq.",
            )


def read(depot: Depot) -> Plan | None:
    """The plan under a state URI, None if there is none yet."""
    return Plan.from_json(depot.get(FILE).decode()) if depot.exists(FILE) else None


def write(depot: Depot, plan: Plan) -> None:
    """Write a plan; what it names is there already."""
    depot.put(FILE, plan.to_json().encode())
