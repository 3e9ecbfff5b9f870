"""What comes next in the boxes of lists that lose an item, asked for together by those of one bucket."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corner_steps import Spells
from rankcast.range_topk.kernels.corner_tree import CornerTree, Floats, Rows
from rankcast.range_topk.kernels.corners_search import find_next, holds
from rankcast.structures.jit import EXACT

FIRST_LABEL = np.iinfo(np.int64).min
NEAR, FAR = 4.0, 32.0  # gaps between the values of a list


class Values(NamedTuple):
    """Values and tie labels of objects by row."""

    value: Floats
    label: NDArray[np.int64]


@njit(**EXACT)
def ask_near(
    objects: CornerTree, label: NDArray[np.int64], corners: Floats, after: Floats,
    after_label: NDArray[np.int64], found: Rows, gap: float,
) -> None:  # fmt: skip
    """Find what comes next in boxes, first among values a few gaps beyond, where it mostly is."""
    todo, most = np.arange(found.shape[0]), after.max()
    for limit in (most + NEAR * gap, most + FAR * gap, np.inf):
        part = np.empty(todo.shape[0], np.int32)
        find_next(objects, label, corners[todo], after[todo], after_label[todo], part, limit, FIRST_LABEL)
        found[todo] = part
        todo = todo[part < 0]
        if todo.shape[0] == 0:
            break


@njit(**EXACT)
def ask_spells(
    spells: Spells, time: int, corners: Floats, after: Floats, after_label: NDArray[np.int64],
    values: Values, found: Rows, lent: Rows,
) -> None:  # fmt: skip
    """Let objects of the batch, as they are at a moment, answer where they come before what was found.

    What they are worth becomes known, and is noted to be forgotten again.
    """
    value, row, point, begin, end = spells.value, spells.row, spells.point, spells.begin, spells.end
    known, label = values.value, values.label
    for j in range(np.searchsorted(value, after.min()), value.shape[0]):
        mine, which, open_ = value[j], row[j], False
        if time < begin[j] or time >= end[j]:
            continue
        for i in range(found.shape[0]):
            best = known[found[i]] if found[i] >= 0 else np.inf
            open_ |= mine <= best
            if mine < after[i] or mine > best or (mine == after[i] and label[which] <= after_label[i]):
                continue
            if mine == best and found[i] >= 0 and label[which] > label[found[i]]:
                continue
            if holds(corners[i], point, j):
                found[i] = which
                if known[which] != mine:
                    lent[0] += 1
                    known[which], lent[lent[0]] = mine, j
        if not open_:
            break
