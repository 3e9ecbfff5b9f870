"""A sequence of commands to a `CoveringTable`, read and checked as a whole before the first is followed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from rankcast.covering.kernels import sequence
from rankcast.errors import InputError
from rankcast.structures import hashing
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.tables import boxes
from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import Batch, Bools, Column, Ids, Ints, Kind, arrow

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
