"""Reading the events of a matcher: points, unknown values, intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankcast.core.engine import ID
from rankcast.errors import InputError, shown
from rankcast.tables import read as tables
from rankcast.tables.schema import Batch, Column, Floats


class Spans(NamedTuple):
    """What events reach: from `above` to `below`, both (n, d).

    Both are the value of a point. Of an interval they are its lower and its upper end, an end that is not
    given being no bound. An unknown value reaches from +inf to -inf: it meets only what has no bounds.
    """

    above: Floats
    below: Floats


def columns(over: list[str], *, id_required: bool = True) -> list[Column]:
    """The columns of events over some attributes: each a value, or a lower and an upper end."""
    known = frozenset(over)
    ends = [end for name in over for end in _ends(name, known)]
    return [
        Column("id", ID.kind, required=id_required),
        *(Column(name, required=False, nullable=True) for name in [*over, *ends]),
    ]


def _ends(name: str, over: frozenset[str]) -> list[str]:
    """The columns of an attribute's ends; none if one of them is an attribute itself."""
    ends = [f"{name}_lo", f"{name}_hi"]
    return [] if over.intersection(ends) else ends


def read(batch: Batch, over: list[str], *, where: str) -> Spans:
    """The spans of a batch of events."""
    shape = (batch.size, len(over))
    spans, known = Spans(np.empty(shape), np.empty(shape)), frozenset(over)
    nothing, values = np.full(batch.size, np.nan), batch.values
    for place, name in enumerate(over):
        ends = _ends(name, known)
        given = [end for end in ends if end in batch]
        if name in batch and given:
            raise InputError(
                f'is given beside "{name}"', where=where, column=given[0], expected="one of them"
            )
        if name not in batch and not given and batch.size:
            raise InputError("is missing", where=where, column=name, expected="a number")
        if name in batch:
            spans.above[:, place] = spans.below[:, place] = values[name]
        else:
            above, below = (values.get(end, nothing) for end in ends)
            _refuse_crossed(above, below, ends, where)
            known_end = ~(np.isnan(above) & np.isnan(below))
            spans.above[:, place] = np.where(known_end & np.isnan(above), -np.inf, above)
            spans.below[:, place] = np.where(known_end & np.isnan(below), np.inf, below)
    spans.above[np.isnan(spans.above)], spans.below[np.isnan(spans.below)] = np.inf, -np.inf
    return spans


def _refuse_crossed(lo: Floats, hi: Floats, ends: list[str], where: str) -> None:
    """Refuse an interval whose ends are the wrong way round."""
    crossed = lo > hi
    if crossed.any():
        row = int(np.argmax(crossed))
        raise InputError(
            f"is {lo[row]:g}, above the upper end {hi[row]:g}",
            where=where,
            column=ends[0],
            row=row,
            expected="lo <= hi",
        )


def span_of(event: Any, over: list[str], extra: str) -> Spans:
    """The span of one event, given as a dict of its attributes; its id may be there."""
    if not isinstance(event, dict):
        raise InputError(f"got {shown(event)}", where="event", expected="a dict of the event's attributes")
    rows = {name: [value] for name, value in event.items()}
    batch = tables.read(rows, columns(over, id_required=False), where="event", extra=extra)
    return read(batch, over, where="event")
