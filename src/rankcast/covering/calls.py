"""A sequence of commands to a `CoveringTable`, read and checked as a whole before the first is followed.

The answers of a `CoveringTable`: actions in words, and why one box lies in another or does not.

Commands to G_k that one kernel answers from ids and boxes to ids: what a call costs beyond its search.

Everything that a call with a few rows does by itself costs microseconds: each look at an Arrow column, each
NumPy operation, each kernel. So there is one kernel a call, the answer is made from one buffer, and counts
are kept aside until somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankcast.core.turns import Turn
from rankcast.covering.graph import RelationGraph
from rankcast.covering.kernels import calls, sequence
from rankcast.covering.kernels.buckets import FORWARDED, LEAVING, World
from rankcast.covering.kernels.calls import FULL, NEW, REFUSED, TOTALS
from rankcast.covering.kernels.sequence import COVER, DROP, FORWARD, WITHDRAW
from rankcast.errors import InputError
from rankcast.structures import hashing
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.tables import boxes
from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import Batch, Bools, Column, Ids, Ints, Kind, Rows, arrow

OP = Column("op", Kind.ID)
WHERE = "commands"
COMES, GOES = "subscribe", "unsubscribe"
MOST = 8192  # commands between which rows are given back, so that few are spare


class Commands(NamedTuple):
    """Commands by place: whose, whether it goes, and its box, which counts only for one that comes.

    `ends` are the ends of stretches in which nothing comes that was named in them before.
    """

    ids: Ids
    leaves: Bools
    boxes: Boxes
    ends: Ints

    def stretches(self) -> Iterator[Commands]:
        """The commands, cut so that within a part an id comes, goes, or comes and then goes."""
        for start, stop in pairwise([0, *self.ends.tolist()]):
            part = slice(start, stop)
            ids = select(self.ids, np.arange(start, stop))
            yield Commands(ids, self.leaves[part], self.boxes.at(part), self.ends[:0])


def read(batch: Batch, over: list[str], slots: Slots) -> Commands:
    """The commands of a batch; raises if one of them does not fit those before it."""
    leaves = _leaves(batch["op"])
    given = boxes.read(batch, over, where=WHERE)
    number, first = hashing.distinct(keys_of(batch.ids))
    live = slots.find(select(batch.ids, first), where=WHERE) >= 0
    misfit = sequence.first_misfit(number, leaves, live)
    if misfit != sequence.FITS:
        state, expected = (
            ("is not known", "a live id") if leaves[misfit] else ("is there already", "a new id")
        )
        raise InputError(
            f"is {show(batch.ids, misfit)}, which {state}",
            where=WHERE,
            column="id",
            row=misfit,
            expected=expected,
        )
    return Commands(batch.ids, leaves, given, sequence.stretches(number, leaves, first.size, MOST))


def _leaves(op: Ids) -> Bools:
    """Which commands are unsubscribes."""
    words = arrow(op)
    leaves, comes = (
        np.asarray(pc.equal(words, word)) if op.kind == "str" else np.zeros(op.size, np.bool_)
        for word in (GOES, COMES)
    )
    wrong = ~(leaves | comes)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"is {show(op, row)}", where=WHERE, column="op", row=row, expected=f"{COMES} or {GOES}"
        )
    return leaves


Actions = NDArray[np.int8]
COLUMNS = ["subscription", "action", "covered_by"]
WORDS = ["forward", "covered", "withdraw", "drop"]  # in the order of `relation_follow`
ARROW_WORDS = pa.array(WORDS)
SEVEN = np.frombuffer(b"forwardcovered", np.uint8).reshape(2, 7)
AMENDED = np.full((LEAVING + 1, LEAVING + 1), COVER, np.int8)
AMENDED[FORWARDED], AMENDED[:, FORWARDED] = WITHDRAW, FORWARD
LEFT = np.array([DROP, DROP, WITHDRAW, WITHDRAW], np.int8)  # by the standing of one that goes
FEW = 16  # so many words are remembered as they stand together


def of_subscribes(covered_by: Rows) -> Actions:
    """The actions for rows that come: COVER is 1, FORWARD 0."""
    return (covered_by >= 0).view(np.int8)


def of_amendments(was: NDArray[np.int8], now: NDArray[np.int8]) -> Actions:
    """The actions for rows that were amended, by their standing before and after."""
    return AMENDED[was, now]


def of_unsubscribes(standing: NDArray[np.int8], forwarded: int) -> Actions:
    """The actions for rows that go, by their standing so far, and then for so many that are forwarded."""
    left = LEFT[standing]
    return np.concatenate([left, of_forwarded(forwarded)]) if forwarded else left


def of_forwarded(count: int) -> Actions:
    """The actions for so many rows that are forwarded."""
    return np.full(count, FORWARD, np.int8)


def table(subscription: pa.Array, action: Actions, covered_by: pa.Array) -> pa.Table:
    """The answer to a call."""
    words = _few_words(action.tobytes()) if action.size <= FEW else ARROW_WORDS.take(pa.array(action))
    return joined(subscription, words, covered_by)


def joined(subscription: pa.Array, words: pa.Array, covered_by: pa.Array) -> pa.Table:
    """The columns of an answer as a table."""
    return pa.Table.from_arrays([subscription, words, covered_by], names=COLUMNS)


def comings(covered: Bools) -> pa.Array:
    """The actions for rows that come, by name: both words have seven letters."""
    offsets = np.arange(0, 7 * covered.size + 1, 7, dtype=np.int32)
    letters = SEVEN[covered.view(np.int8)]
    return pa.StringArray.from_buffers(covered.size, pa.py_buffer(offsets), pa.py_buffer(letters))


@lru_cache(maxsize=4096)
def few_comings(count: int, covered: int) -> pa.Array:
    """The actions for a few rows that come, a bit each for whether it is covered."""
    return comings(np.array([covered >> place & 1 for place in range(count)], np.bool_))


@lru_cache(maxsize=1024)
def _few_words(action: bytes) -> pa.Array:
    """Actions by name, a byte each; the same few come again and again."""
    return pa.array([WORDS[each] for each in action], pa.string())


def nobody(count: int, kind: pa.DataType) -> pa.Array:
    """A column of so many nulls."""
    return _few_nulls(count, kind) if count <= FEW else pa.nulls(count, kind)


_few_nulls = lru_cache(maxsize=4 * FEW)(pa.nulls)


def explained(over: list[str], world: World, mine: int, its: int) -> dict[str, Any]:
    """Whether a row's box is contained in another's, in which attributes it is not, and what follows."""
    outside = np.flatnonzero((world.lo[mine] < world.lo[its]) | (world.hi[mine] > world.hi[its]))
    forwarded = bool(world.standing[mine] >= FORWARDED)
    if outside.size:
        first = outside[0]
        ends = [f"[{world.lo[row, first]:g}, {world.hi[row, first]:g}]" for row in (mine, its)]
        reason = f"{over[first]} is not contained: {' in '.join(ends)}"
    elif mine == its:
        reason = "it is the same subscription"
    else:
        reason = "contained, but neighbours know it already" if forwarded else "contained"
    return {
        "contained": not outside.size,
        "outside": [over[place] for place in outside],
        "forwarded": forwarded,
        "reason": reason,
    }


COUNTERS = (
    "queries_subscribe",
    "nodes_visited_subscribe",
    "point_comparisons_subscribe",
    "nodes_visited_unsubscribe",
    "point_comparisons_unsubscribe",
    "freed",
    "freed_most",
    "deltas",
)  # in the order of `relation_calls`
INT64 = pa.int64()
WHERE_DIRECT = "subscriptions"
from_buffers = pa.Array.from_buffers


class DirectCalls:
    """`subscribe` and `unsubscribe` of a `CoveringTable` over its ids and its graph."""

    def __init__(self, slots: Slots, graph: RelationGraph, over: list[str], turn: Turn) -> None:
        self._slots, self._graph, self._over, self._turn = slots, graph, over, turn
        self._totals = np.zeros(TOTALS, np.int64)

    def subscribe(self, batch: Batch) -> pa.Table:
        """Register subscriptions; see `CoveringTable.subscribe`."""
        slots, ids, size = self._slots, batch.ids, batch.size
        ends = boxes.read_ends(batch, self._over, where=WHERE_DIRECT)
        if slots.kind != ids.kind:
            self._refuse(batch)
        self._turn.begin()
        if slots.kind != ids.kind:
            slots.make_room(ids)
        keys, told = keys_of(ids, slots.seed), np.empty((2, size), np.int32)
        answer, start = np.empty(2 * size + size // 32 + 1, np.int64), NEW
        done = calls.subscribe(self._state(), keys, ends, told, answer, start)
        while done != size:
            if done == REFUSED:
                self._turn.undo()
                self._refuse(batch)
            elif done == FULL:
                slots.make_room(ids)
                self._graph.reserve(slots["standing"].size)
            else:
                self._graph.make_room(self._world())
                start = done
            done = calls.subscribe(self._state(), keys, ends, told, answer, start)
        return self._told(ids, told, answer)

    def unsubscribe(self, ids: Ids) -> pa.Table:
        """Remove ids, net."""
        slots, size = self._slots, ids.size
        slots.refuse_duplicates(ids, where="ids")
        if slots.kind != ids.kind:
            slots.require(ids, where="ids")
        keys, told, action = keys_of(ids, slots.seed), np.empty(size + 1, np.int32), np.empty(size, np.int8)
        self._turn.begin()
        alone = calls.unsubscribe(self._state(), keys, told, action)
        settled = told.item(size)
        if settled == REFUSED:
            self._turn.undo()
            slots.require(ids, where="ids")
        if settled == FULL:
            slots.spare(size)
            return self.unsubscribe(ids)
        names = _integers(ids.values.copy()) if ids.kind == "int" else arrow(ids)
        slots.settle()
        if alone.size:
            forwarded = self._forward(alone, settled)
            names = pa.concat_arrays([names, slots.take(forwarded)])
            action = np.concatenate([action, of_forwarded(forwarded.size)])
        return table(names, action, nobody(action.size, names.type))

    def reckoned(self, count: Mapping[str, int]) -> dict[str, int]:
        """The counters of the engine together with what was counted here."""
        totals = dict(zip(COUNTERS, self._totals.tolist(), strict=True))
        most = max(count["freed_most"], totals.pop("freed_most"))
        for name in ("nodes_visited", "point_comparisons"):
            totals[name] = totals[f"{name}_subscribe"] + totals[f"{name}_unsubscribe"]
        totals["queries_unsubscribe"] = totals["freed"]
        return {name: value + totals.get(name, 0) for name, value in count.items()} | {"freed_most": most}

    def _refuse(self, batch: Batch) -> None:
        """Say which new subscription does not fit, if there is one."""
        self._slots.require_new(batch.ids, where=WHERE_DIRECT)
        boxes.read(batch, self._over, where=WHERE_DIRECT)

    def _forward(self, alone: Any, settled: int) -> Any:
        """The rows that are forwarded of those that are alone, as registered."""
        graph, totals = self._graph, self._totals
        forwarded = graph.resettle(self._world(), alone[:0], alone, settled).forwarded
        totals[calls.NODES_GOING : calls.POINTS_GOING + 1] += graph.tally()
        totals[calls.TOLD] += forwarded.size
        return forwarded

    def _told(self, ids: Ids, told: Any, answer: Any) -> pa.Table:
        """The answer to a subscribe."""
        size, by = ids.size, told[1]
        if ids.kind == "str":
            words = comings(by >= 0)
            return joined(arrow(ids), words, self._slots.take_known(by))
        buffer = pa.py_buffer(answer)
        names = from_buffers(INT64, size, [None, buffer])
        if size <= FEW:
            covered = answer.item(2 * size) >> size
            words = few_comings(size, covered)
            if not covered:
                return joined(names, words, nobody(size, INT64))
        else:
            words = comings(by >= 0)
        above = from_buffers(INT64, size, [buffer.slice(16 * size), buffer], -1, size)
        return joined(names, words, above)

    def _state(self) -> tuple[Any, ...]:
        """Everything as `relation_calls` takes it."""
        slots = self._slots
        world = slots["lo"], slots["hi"], slots["standing"]
        return slots.register(), self._graph.plain(), world, self._totals

    def _world(self) -> World:
        slots = self._slots
        return World(slots["lo"], slots["hi"], slots["standing"], slots["sequence"])


def _integers(values: Ints) -> pa.Array:
    """Integers as an Arrow array over the same bytes."""
    return from_buffers(INT64, values.size, [None, pa.py_buffer(values)])
