"""Net changes of boards over a batch, as kernels write them, and the values by which boards are ordered."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GROUPS, DELTAS, AFFECTED, TRIED = range(4)


class Values(NamedTuple):
    """What lists know of the objects: values before the batch, a working copy, changed or not, tie labels."""

    before: NDArray[np.float64]
    known: NDArray[np.float64]
    moved: NDArray[np.bool_]
    label: NDArray[np.int64]


class Changes(NamedTuple):
    """Net changes by subscription, in bucket order.

    A group is (row, start, stop): that subscription has the changes start .. stop - 1; groups may share them.
    The mark of a change is 0 for a leave, the rank for an entry, minus the rank for an update.
    """

    group: NDArray[np.int32]
    item: NDArray[np.int32]
    mark: NDArray[np.int32]
    tally: NDArray[np.int64]


def empty_changes(groups: int, deltas: int) -> Changes:
    """Buffers for so many groups and changes."""
    return Changes(
        group=np.empty((groups, 3), np.int32),
        item=np.empty(deltas, np.int32),
        mark=np.empty(deltas, np.int32),
        tally=np.zeros(4, np.int64),
    )
