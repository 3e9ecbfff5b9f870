"""Commands as a sequence: whether each fits what is live by then, and where the sequence is cut."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

FITS = -1


@njit(**EXACT)
def first_misfit(number: NDArray[np.int32], leaves: NDArray[np.bool_], live: NDArray[np.bool_]) -> int:
    """The first command that brings what is live or takes what is not, or FITS.

    Command i is about thing number[i]; live[number] says what is live before, and in the end after.
    """
    for i in range(number.shape[0]):
        if live[number[i]] != leaves[i]:
            return i
        live[number[i]] = not leaves[i]
    return FITS


@njit(**EXACT)
def stretches(
    number: NDArray[np.int32], leaves: NDArray[np.bool_], things: int, most: int
) -> NDArray[np.int64]:
    """Where stretches of at most so many commands end in which nothing comes that was named in them before.

    So within a stretch a thing comes, goes, or comes and then goes.
    """
    seen, ends, count, start = np.full(things, -1), np.empty(number.shape[0], np.int64), 0, 0
    for i in range(number.shape[0]):
        if i - start == most or (not leaves[i] and seen[number[i]] >= start):
            ends[count] = start = i
            count += 1
        seen[number[i]] = i
    if number.shape[0] > 0:
        ends[count] = number.shape[0]
        count += 1
    return ends[:count]
