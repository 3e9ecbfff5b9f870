"""Commands to G_k that one kernel answers from ids and boxes to ids: what a call costs beyond its search.

Everything that a call with a few rows does by itself costs microseconds: each look at an Arrow column, each
NumPy operation, each kernel. So there is one kernel a call, the answer is made from one buffer, and counts
are kept aside until somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.core.turns import Turn
from rankcast.covering import covering_answers
from rankcast.covering.covering_answers import FEW
from rankcast.covering.kernels import calls
from rankcast.covering.kernels.calls import FULL, NEW, REFUSED, TOTALS
from rankcast.covering.kernels.covering_buckets import World
from rankcast.covering.relation import RelationGraph
from rankcast.structures.ids import Slots, keys_of
from rankcast.tables import boxes
from rankcast.tables.schema import Batch, Ids, Ints, arrow

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
WHERE = "subscriptions"
from_buffers = pa.Array.from_buffers


class DirectCalls:
    """`subscribe` and `unsubscribe` of a `CoveringTable` over its ids and its graph."""

    def __init__(self, slots: Slots, graph: RelationGraph, over: list[str], turn: Turn) -> None:
        self._slots, self._graph, self._over, self._turn = slots, graph, over, turn
        self._totals = np.zeros(TOTALS, np.int64)

    def subscribe(self, batch: Batch) -> pa.Table:
        """Register subscriptions; see `CoveringTable.subscribe`."""
        slots, ids, size = self._slots, batch.ids, batch.size
        ends = boxes.read_ends(batch, self._over, where=WHERE)
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
            action = np.concatenate([action, covering_answers.of_forwarded(forwarded.size)])
        return covering_answers.table(names, action, covering_answers.nobody(action.size, names.type))

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
        self._slots.require_new(batch.ids, where=WHERE)
        boxes.read(batch, self._over, where=WHERE)

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
            words = covering_answers.comings(by >= 0)
            return covering_answers.joined(arrow(ids), words, self._slots.take_known(by))
        buffer = pa.py_buffer(answer)
        names = from_buffers(INT64, size, [None, buffer])
        if size <= FEW:
            covered = answer.item(2 * size) >> size
            words = covering_answers.few_comings(size, covered)
            if not covered:
                return covering_answers.joined(names, words, covering_answers.nobody(size, INT64))
        else:
            words = covering_answers.comings(by >= 0)
        above = from_buffers(INT64, size, [buffer.slice(16 * size), buffer], -1, size)
        return covering_answers.joined(names, words, above)

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
