"""Boxes from tables: a closed interval per attribute, in columns `<attribute>_lo` and `<attribute>_hi`.

A null or an absent column is no bound; inside, that is an infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from rankcast import integrity
from rankcast.columns import Bools, Column, Floats, Rows
from rankcast.errors import InputError
from rankcast.kernels import lines
from rankcast.layouts import Batch


class Boxes(NamedTuple):
    """Lower and upper ends, both of shape (n, d), in any layout."""

    lo: Floats
    hi: Floats

    def at(self, index: Any) -> Boxes:
        """The boxes at the given places."""
        return Boxes(self.lo[index], self.hi[index])


def columns(over: Sequence[str]) -> list[Column]:
    """The columns of a box over some attributes."""
    return [Column(end, required=False, nullable=True) for end in _ends(tuple(over))]


@lru_cache(maxsize=64)
def _ends(over: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}_{end}" for name in over for end in ("lo", "hi"))


def read(batch: Batch, over: Sequence[str], held: Boxes | None = None, *, where: str) -> Boxes:
    """The boxes of a batch; `held` are the boxes so far, which an absent column keeps."""
    names = _ends(tuple(over))
    found = _lines(batch, names)
    if found is not None:
        return Boxes(found[0::2].T, found[1::2].T)
    shape = (batch.size, len(over))
    lo = np.full(shape, -np.inf) if held is None else held.lo.copy()
    hi = np.full(shape, np.inf) if held is None else held.hi.copy()
    for place, name in enumerate(names):
        if name in batch:
            (lo, hi)[place % 2][:, place // 2] = batch[name]
    if not (lo <= hi).all():  # as where an end is NaN, which is none
        lo[np.isnan(lo)], hi[np.isnan(hi)] = -np.inf, np.inf
    crossed = lo > hi
    if crossed.any():
        row, place = np.argwhere(crossed)[0]
        raise InputError(
            f"is {lo[row, place]:g}, above the upper end {hi[row, place]:g}",
            where=where,
            column=f"{over[place]}_lo",
            row=int(row),
            expected="lo <= hi",
        )
    return Boxes(lo, hi)


def read_ends(batch: Batch, over: Sequence[str], *, where: str) -> Floats:
    """The ends of the boxes of a batch as lines (2 d, n): lower and upper, attribute by attribute.

    They may be the batch's own, and a box may be crossed there: that is left to whoever takes them.
    """
    if batch.numbers is not None and len(batch.lines) == 2 * len(over):
        return batch.numbers
    lo, hi = read(batch, over, where=where)
    found = np.empty((2 * len(over), batch.size))
    found[0::2], found[1::2] = lo.T, hi.T
    return found


def _lines(batch: Batch, names: tuple[str, ...]) -> Floats | None:
    """The columns of those names if they stand together in that order and no box is crossed."""
    if batch.numbers is None or tuple(islice(batch.lines, len(names))) != names:
        return None
    found = batch.numbers[: len(names)]
    return found if lines.are_ordered(found) else None


def check_boxes(lo: Floats, hi: Floats) -> None:
    """Refuse boxes of subscriptions (n, d) from a snapshot that no `read` has given."""
    ordered = (lo <= hi) & (lo < np.inf) & (hi > -np.inf)
    integrity.need(ordered.all(), "lo", "is above hi, or one of them is NaN")


def inside(boxes: Boxes, point: Floats) -> Bools:
    """Which intervals (n, d) contain the coordinates of a point (d,).

    An unknown coordinate (NaN) lies only in an interval that is unbounded on both sides.
    """
    free = np.isnan(point) & (boxes.lo == -np.inf) & (boxes.hi == np.inf)
    within: Bools = ((boxes.lo <= point) & (point <= boxes.hi)) | free
    return within


def contains(boxes: Boxes, point: Floats) -> Rows:
    """The boxes that contain a point (d,), as `inside` says for each attribute."""
    return np.flatnonzero(inside(boxes, point).all(axis=1)).astype(np.int32)
