"""What a `CoveringTable` reads and answers: command sequences, actions in words, and the fast path.

A sequence of commands is read and checked as a whole before the first is followed. Actions are codes of a
byte in kernels and words in answers. `FastPath` is for calls with a few rows on G_k, where everything that a
call does by itself costs microseconds: each look at an Arrow column, each NumPy operation, each kernel. So
there is one kernel a call, from ids and boxes to ids, the answer is made from one buffer, and counts are kept
aside until somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankcast.core.locking import Turn
from rankcast.covering.graph import RelationGraph
from rankcast.covering.kernels import calls
from rankcast.covering.kernels.calls import COVER, DROP, FORWARD, FULL, NEW, REFUSED, TOTALS, WITHDRAW
from rankcast.covering.kernels.containment import FORWARDED, LEAVING, Subscriptions
from rankcast.covering.table_boxes import TableBoxes
from rankcast.errors import InputError
from rankcast.structures import hashing
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.tables import boxes
from rankcast.tables.boxes import Boxes
from rankcast.tables.categories import Given
from rankcast.tables.schema import Batch, Bools, Column, Ids, Ints, Kind, NameLists, Rows, arrow

OP = Column("op", Kind.ID)
WHERE = "commands"
SUBSCRIBE, UNSUBSCRIBE = "subscribe", "unsubscribe"
MOST = 8192  # commands between which rows are given back, so that few are spare


class Commands(NamedTuple):
    """Commands by place: the id, whether it is removed, and its box, which counts only if it is added.

    `ends` are the ends of runs in which no id is added that was named in them before.
    """

    ids: Ids
    removals: Bools
    boxes: Boxes
    ends: Ints

    def runs(self) -> Iterator[Commands]:
        """The commands, cut so that within a run an id is added, removed, or added and then removed."""
        for start, stop in pairwise([0, *self.ends.tolist()]):
            part = slice(start, stop)
            ids = select(self.ids, np.arange(start, stop))
            yield Commands(ids, self.removals[part], self.boxes.at(part), self.ends[:0])


def read_commands(batch: Batch, over: list[str], slots: Slots) -> Commands:
    """The commands of a batch; raises if one of them does not fit those before it."""
    removals = _are_unsubscribes(batch["op"])
    given = boxes.read(batch, over, where=WHERE)
    number, first = hashing.distinct(keys_of(batch.ids))
    live = slots.find(select(batch.ids, first), where=WHERE) >= 0
    conflict = calls.first_conflict(number, removals, live)
    if conflict != calls.NO_CONFLICT:
        state, expected = (
            ("is not known", "a live id") if removals[conflict] else ("is there already", "a new id")
        )
        raise InputError(
            f"is {show(batch.ids, conflict)}, which {state}",
            where=WHERE,
            column="id",
            row=conflict,
            expected=expected,
        )
    return Commands(batch.ids, removals, given, calls.runs(number, removals, first.size, MOST))


def one_by_one(
    parts: Sequence[Commands], held: TableBoxes, lists: Sequence[Given]
) -> Iterator[tuple[str, Any]]:
    """The commands of all parts as calls of one row: the name of the call and what it takes."""
    names, place = [column.name for column in held.columns()], 0
    for commands in parts:
        for at, removal in enumerate(commands.removals.tolist()):
            name = arrow(select(commands.ids, np.array([at])))
            ends = end_columns(held.numbers, commands.boxes.at(slice(at, at + 1)))
            sets = {names[each.number]: [_one_list(each.lists, place)] for each in lists}
            place += 1
            yield (UNSUBSCRIBE, name) if removal else (SUBSCRIBE, {"id": name, **ends, **sets})


def _one_list(lists: NameLists, row: int) -> list[Any] | None:
    """The list of a row, null if it is not given."""
    if not lists.given[row]:
        return None
    found: list[Any] = arrow(select(lists.ids, np.arange(*lists.starts[row : row + 2]))).to_pylist()
    return found


def end_columns(over: list[str], boxes: Boxes) -> dict[str, pa.Array]:
    """The ends of boxes as columns, null where there is no bound."""
    return {
        f"{name}_{end}": pa.array(values[:, place], mask=np.isinf(values[:, place]))
        for place, name in enumerate(over)
        for end, values in (("lo", boxes.lo), ("hi", boxes.hi))
    }


def _are_unsubscribes(op: Ids) -> Bools:
    """Which commands are unsubscribes."""
    words = arrow(op)
    removals, additions = (
        np.asarray(pc.equal(words, word)) if op.kind == "str" else np.zeros(op.size, np.bool_)
        for word in (UNSUBSCRIBE, SUBSCRIBE)
    )
    wrong = ~(removals | additions)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"is {show(op, row)}", where=WHERE, column="op", row=row, expected=f"{SUBSCRIBE} or {UNSUBSCRIBE}"
        )
    return removals


Actions = NDArray[np.int8]
COLUMNS = ["subscription", "action", "covered_by"]
WORDS = ["forward", "covered", "withdraw", "drop"]  # by action, see `kernels.calls`
ARROW_WORDS = pa.array(WORDS)
SEVEN_LETTERS = np.frombuffer(b"forwardcovered", np.uint8).reshape(2, 7)
AMENDED = np.full((LEAVING + 1, LEAVING + 1), COVER, np.int8)
AMENDED[FORWARDED], AMENDED[:, FORWARDED] = WITHDRAW, FORWARD
LEFT = np.array([DROP, DROP, WITHDRAW, WITHDRAW], np.int8)  # by the status of a removed row
FEW = 16  # up to so many actions, their column of words is cached


def subscribe_actions(covered_by: Rows) -> Actions:
    """The actions of subscribed rows: COVER is 1, FORWARD 0."""
    return (covered_by >= 0).view(np.int8)


def amend_actions(was: NDArray[np.int8], now: NDArray[np.int8]) -> Actions:
    """The actions for rows that were amended, by their status before and after."""
    return AMENDED[was, now]


def unsubscribe_actions(status: NDArray[np.int8], forwarded: int) -> Actions:
    """The actions of removed rows, by their status before, and then of so many that are forwarded."""
    left = LEFT[status]
    return np.concatenate([left, forward_actions(forwarded)]) if forwarded else left


def forward_actions(count: int) -> Actions:
    """The actions for so many rows that are forwarded."""
    return np.full(count, FORWARD, np.int8)


def actions_table(subscription: pa.Array, action: Actions, covered_by: pa.Array) -> pa.Table:
    """The answer to a call."""
    words = _few_words(action.tobytes()) if action.size <= FEW else ARROW_WORDS.take(pa.array(action))
    return answer_table(subscription, words, covered_by)


def answer_table(subscription: pa.Array, words: pa.Array, covered_by: pa.Array) -> pa.Table:
    """The columns of an answer as a table."""
    return pa.Table.from_arrays([subscription, words, covered_by], names=COLUMNS)


def subscribe_words(covered: Bools) -> pa.Array:
    """The words for the actions of a subscribe: both have seven letters, so that offsets are known."""
    offsets = np.arange(0, 7 * covered.size + 1, 7, dtype=np.int32)
    letters = SEVEN_LETTERS[covered.view(np.int8)]
    return pa.StringArray.from_buffers(covered.size, pa.py_buffer(offsets), pa.py_buffer(letters))


@lru_cache(maxsize=4096)
def few_subscribe_words(count: int, covered: int) -> pa.Array:
    """The words for the actions of a few subscribes, a bit each for whether it is covered."""
    return subscribe_words(np.array([covered >> place & 1 for place in range(count)], np.bool_))


@lru_cache(maxsize=1024)
def _few_words(action: bytes) -> pa.Array:
    """The words for actions of a byte each; the same few come again and again."""
    return pa.array([WORDS[each] for each in action], pa.string())


def null_column(count: int, kind: pa.DataType) -> pa.Array:
    """A column of so many nulls."""
    return _few_nulls(count, kind) if count <= FEW else pa.nulls(count, kind)


_few_nulls = lru_cache(maxsize=4 * FEW)(pa.nulls)


def explained(over: list[str], subs: Subscriptions, mine: int, its: int, held: TableBoxes) -> dict[str, Any]:
    """Whether a row's box is contained in another's, in which attributes it is not, and what follows."""
    sets, beyond = held.outside(mine, its), (subs.lo[mine] < subs.lo[its]) | (subs.hi[mine] > subs.hi[its])
    outside = [
        name for place, name in enumerate(over) if name in sets or (name in held.numbers and beyond[place])
    ]
    forwarded = bool(subs.status[mine] >= FORWARDED)
    if outside and outside[0] in sets:
        reason = f"{outside[0]} is not contained: it accepts more"
    elif outside:
        first = over.index(outside[0])
        ends = [f"[{subs.lo[row, first]:g}, {subs.hi[row, first]:g}]" for row in (mine, its)]
        reason = f"{over[first]} is not contained: {' in '.join(ends)}"
    elif mine == its:
        reason = "it is the same subscription"
    else:
        reason = "contained, but neighbours know it already" if forwarded else "contained"
    return {
        "contained": not outside,
        "outside": outside,
        "forwarded": forwarded,
        "reason": reason,
    }


def refuse_leaving(ids: Ids, status: Any) -> None:
    """Refuse to amend what is on its way out."""
    leaving = status == LEAVING
    if np.count_nonzero(leaving):
        row = int(np.argmax(leaving))
        raise InputError(
            f"is {show(ids, row)}, which is on its way out",
            where="subscriptions",
            column="id",
            row=row,
            expected="one that stays",
        )


COUNTERS = (
    "queries_subscribe",
    "nodes_visited_subscribe",
    "point_comparisons_subscribe",
    "nodes_visited_unsubscribe",
    "point_comparisons_unsubscribe",
    "freed",
    "freed_most",
    "deltas",
)  # in the order of the totals of `kernels.calls`
INT64 = pa.int64()
SUBSCRIPTIONS = "subscriptions"
from_buffers = pa.Array.from_buffers


class FastPath:
    """`subscribe` and `unsubscribe` of a `CoveringTable` over its ids and its graph."""

    def __init__(self, slots: Slots, graph: RelationGraph, over: list[str], turn: Turn) -> None:
        self._slots, self._graph, self._over, self._turn = slots, graph, over, turn
        self._totals = np.zeros(TOTALS, np.int64)

    def subscribe(self, batch: Batch) -> pa.Table:
        """Register subscriptions; see `CoveringTable.subscribe`."""
        slots, ids, size = self._slots, batch.ids, batch.size
        ends = boxes.read_ends(batch, self._over, where=SUBSCRIPTIONS)
        if slots.kind != ids.kind:
            self._refuse(batch)
        self._turn.begin()
        if slots.kind != ids.kind:
            slots.make_room(ids)
        keys = keys_of(ids, slots.seed)
        entered = np.empty((2, size), np.int32)  # the rows of the ids, and which row covers each
        # The ids, the ids of those that cover them, and a bit for each of both that says whether it is known.
        answer, start = np.empty(2 * size + size // 32 + 1, np.int64), NEW
        done = calls.subscribe(self._state(), keys, ends, entered, answer, start)
        while done != size:
            if done == REFUSED:
                self._turn.undo()
                self._refuse(batch)
            elif done == FULL:
                slots.make_room(ids)
                self._graph.reserve(slots["standing"].size)
            else:
                self._graph.make_room(self._table())
                start = done
            done = calls.subscribe(self._state(), keys, ends, entered, answer, start)
        return self._subscribed(ids, entered[1], answer)

    def unsubscribe(self, ids: Ids) -> pa.Table:
        """Remove ids, net."""
        slots, size = self._slots, ids.size
        slots.refuse_duplicates(ids, where="ids")
        if slots.kind != ids.kind:
            slots.require(ids, where="ids")
        keys, action = keys_of(ids, slots.seed), np.empty(size, np.int8)
        rows = np.empty(size + 1, np.int32)  # and in the last place how many orphaned rows have settled
        self._turn.begin()
        orphaned = calls.unsubscribe(self._state(), keys, rows, action)
        settled = rows.item(size)
        if settled == REFUSED:
            self._turn.undo()
            slots.require(ids, where="ids")
        if settled == FULL:
            slots.spare(size)
            return self.unsubscribe(ids)
        names = _integers(ids.values.copy()) if ids.kind == "int" else arrow(ids)
        slots.settle()
        if orphaned.size:
            forwarded = self._forward(orphaned, settled)
            names = pa.concat_arrays([names, slots.take(forwarded)])
            action = np.concatenate([action, forward_actions(forwarded.size)])
        return actions_table(names, action, null_column(action.size, names.type))

    def counters_with(self, count: Mapping[str, int]) -> dict[str, int]:
        """The counters of the engine together with what was counted here."""
        totals = dict(zip(COUNTERS, self._totals.tolist(), strict=True))
        most = max(count["freed_most"], totals.pop("freed_most"))
        for name in ("nodes_visited", "point_comparisons"):
            totals[name] = totals[f"{name}_subscribe"] + totals[f"{name}_unsubscribe"]
        totals["queries_unsubscribe"] = totals["freed"]
        return {name: value + totals.get(name, 0) for name, value in count.items()} | {"freed_most": most}

    def _refuse(self, batch: Batch) -> None:
        """Say which new subscription does not fit, if there is one."""
        self._slots.require_new(batch.ids, where=SUBSCRIPTIONS)
        boxes.read(batch, self._over, where=SUBSCRIPTIONS)

    def _forward(self, orphaned: Any, settled: int) -> Any:
        """Let orphaned rows find another cover; those that found none and are forwarded, as registered."""
        graph, totals = self._graph, self._totals
        forwarded = graph.resettle(self._table(), orphaned[:0], orphaned, settled).forwarded
        totals[calls.NODES_UNSUBSCRIBE : calls.POINTS_UNSUBSCRIBE + 1] += graph.tally()
        totals[calls.DELTAS] += forwarded.size
        return forwarded

    def _subscribed(self, ids: Ids, covered_by: Any, answer: Any) -> pa.Table:
        """The answer to a subscribe; see `kernels.calls` for what stands in `answer`."""
        size = ids.size
        if ids.kind == "str":
            words = subscribe_words(covered_by >= 0)
            return answer_table(arrow(ids), words, self._slots.take_known(covered_by))
        buffer = pa.py_buffer(answer)
        names = from_buffers(INT64, size, [None, buffer])
        if size <= FEW:
            covered = answer.item(2 * size) >> size  # the bits of the ids that cover
            words = few_subscribe_words(size, covered)
            if not covered:
                return answer_table(names, words, null_column(size, INT64))
        else:
            words = subscribe_words(covered_by >= 0)
        above = from_buffers(INT64, size, [buffer.slice(16 * size), buffer], -1, size)
        return answer_table(names, words, above)

    def _state(self) -> tuple[Any, ...]:
        """Everything as the kernels take it, see `kernels.calls`."""
        slots = self._slots
        subs = slots["lo"], slots["hi"], slots["standing"]
        return slots.register(), self._graph.plain(), subs, self._totals

    def _table(self) -> Subscriptions:
        slots = self._slots
        return Subscriptions(slots["lo"], slots["hi"], slots["standing"], slots["sequence"])


def _integers(values: Ints) -> pa.Array:
    """Integers as an Arrow array over the same bytes."""
    return from_buffers(INT64, values.size, [None, pa.py_buffer(values)])
