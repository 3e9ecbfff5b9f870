"""The answers of a `CoveringTable`: actions in words, and why one box lies in another or does not."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.covering.kernels.covering_buckets import FORWARDED, LEAVING, World
from rankcast.covering.kernels.relation_follow import COVER, DROP, FORWARD, WITHDRAW
from rankcast.tables.schema import Bools, Rows

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
