"""Small tools for arrays: growing, memory from Arrow's pool, prefetching, and gathering by row.

- Growing: `grown` copies into a longer array, `with_room` does so in kernels if need be.
- `empty` takes memory for large answers from Arrow's pool, which keeps what was freed: the first touch of a
  fresh page is a fault, where an answer of millions of rows would otherwise spend most of its time.
- `prefetch` asks for a cache line before it is needed: a miss that is known beforehand costs next to nothing.
  What is asked for need not be there: a place beyond the end of an array does no harm. `borrowed` leaves
  out the counting of references.
- Gathering: plain loops over boards and rows, since NumPy would first widen the rows; the words of a small
  vocabulary written out as a column of strings; checks on columns of numbers as the lines of one array.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numba import njit
from numba.core import cgutils, types
from numba.extending import lower_builtin, type_callable
from numpy.typing import DTypeLike, NDArray

from rankcast.structures.jit import EXACT

BLOCK = 64
T = TypeVar("T")


class ListColumns(NamedTuple):
    """Columns for results of subscriptions, flat."""

    subscription: NDArray[np.int32]
    item: NDArray[np.int32]
    score: NDArray[np.float64]
    rank: NDArray[np.int64]


class ExternalColumns(NamedTuple):
    """Columns for results of subscriptions with the ids of outside; nothing is scored if `score` is empty."""

    subscription: NDArray[np.int64]
    item: NDArray[np.int64]
    score: NDArray[np.float64]
    rank: NDArray[np.int64]


class Names(NamedTuple):
    """Ids by row of subscriptions and of items, and the values of items."""

    subscription: NDArray[np.int64]
    item: NDArray[np.int64]
    value: NDArray[np.float64]


@njit(**EXACT)
def pick(values: NDArray[np.int64], rows: NDArray[np.int32], out: NDArray[np.int64]) -> None:
    """Write `values[rows]` to `out`; the rows must be valid."""
    for i in range(rows.size):
        out[i] = values[rows[i]]


@njit(**EXACT)
def count_items(board: NDArray[np.int32], slots: NDArray[np.int32], rows: NDArray[np.int32]) -> int:
    """How many items the boards at the slots of some rows list."""
    total, k = 0, board.shape[1]
    for i in range(rows.size):
        size, slot = k, slots[rows[i]]
        while size > 0 and board[slot, size - 1] < 0:
            size -= 1
        total += size
    return total


@njit(**EXACT)
def count_each(board: NDArray[np.int32], slots: NDArray[np.int32], sizes: NDArray[np.int64]) -> None:
    """Write how many items the board at each slot lists. O(log k) each."""
    for i in range(slots.size):
        low, high = 0, board.shape[1]
        while low < high:
            middle = (low + high) // 2
            if board[slots[i], middle] < 0:
                high = middle
            else:
                low = middle + 1
        sizes[i] = low


@njit(**EXACT)
def _copy_boards(
    board: NDArray[np.int32], slots: NDArray[np.int32], rows: NDArray[np.int32], block: NDArray[np.int32]
) -> None:
    """Copy the boards at the slots of some rows together, so that their cache misses overlap."""
    for i in range(rows.size):
        slot = np.uint32(slots[np.uint32(rows[i])])
        for place in range(board.shape[1]):
            block[i, place] = board[slot, place]


@njit(**EXACT)
def write_external(
    board: NDArray[np.int32],
    slots: NDArray[np.int32],
    rows: NDArray[np.int32],
    names: Names,
    out: ExternalColumns,
) -> None:
    """Write the boards at the slots of some rows one after the other as they are shown outside.

    Each byte of an answer is written once; blocks and indexes as in `read_boards`.
    """
    ids, items, values = names
    owner, item, score, rank = out
    size, k, scored = np.uint64(0), np.uint64(board.shape[1]), score.size > 0
    block = np.empty((BLOCK, k), np.int32)
    for first in range(0, rows.size, BLOCK):
        end = min(first + BLOCK, rows.size)
        _copy_boards(board, slots, rows[first:end], block)
        for i in range(first, end):
            line, mine, count = block[i - first], ids[np.uint32(rows[i])], k
            while count > np.uint64(0) and line[count - np.uint64(1)] < 0:
                count -= np.uint64(1)
            for place in range(count):
                owner[size + place], item[size + place] = mine, items[np.uint32(line[place])]
            if scored:
                for place in range(count):
                    score[size + place] = values[np.uint32(line[place])]
                    rank[size + place] = np.int64(place) + 1
            size += count


@njit(**EXACT)
def read_boards(
    board: NDArray[np.int32],
    slots: NDArray[np.int32],
    rows: NDArray[np.int32],
    values: NDArray[np.float64],
    lists: ListColumns,
) -> None:
    """Write the boards at the slots of some rows one after the other, with the values of their items.

    Boards lie anywhere: a block of them is copied together first, so that their cache misses overlap. Indexes
    are unsigned, or Numba would ask each whether it counts from the end.
    """
    owner, item, score, rank = lists
    size, k = np.uint64(0), np.uint64(board.shape[1])
    block = np.empty((BLOCK, k), np.int32)
    for first in range(0, rows.size, BLOCK):
        end = min(first + BLOCK, rows.size)
        _copy_boards(board, slots, rows[first:end], block)
        for i in range(first, end):
            for place in range(k):
                which = block[i - first, place]
                if which < 0:
                    break
                owner[size], item[size], rank[size] = rows[i], which, np.int64(place) + 1
                score[size] = values[np.uint32(which)]
                size += np.uint64(1)


READ, KEEP, DATA = 0, 3, 1


def prefetch(array: NDArray[Any], index: int | np.integer[Any]) -> None:
    """Ask for the cache line of an entry, counted in the order in which entries lie; does not wait."""


@type_callable(prefetch)
def _typed(context: Any) -> Any:
    def typer(array: Any, index: Any) -> Any:
        return types.none if isinstance(array, types.Array) else None

    return typer


@lower_builtin(prefetch, types.Array, types.Integer)  # type: ignore[no-untyped-call]
def _lowered(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    """One instruction of the machine."""
    array = context.make_array(signature.args[0])(context, builder, given[0])
    address, word = cgutils.voidptr_t, cgutils.int32_t
    place = builder.bitcast(builder.gep(array.data, [given[1]]), address)
    ir: Any = cgutils.ir  # type: ignore[attr-defined]
    kind = ir.FunctionType(ir.VoidType(), [address, word, word, word])
    ask = builder.module.declare_intrinsic("llvm.prefetch", (address,), kind)
    builder.call(ask, [place, word(READ), word(KEEP), word(DATA)])
    return context.get_dummy_value()


def borrowed(held: T) -> T:
    """The same array, or tuple of arrays, without references to memory, which the caller holds meanwhile.

    Counting references is atomic: a kernel that hands a tuple of dozens of arrays to small functions would
    spend half of its time on it. Arguments of a kernel that Python calls are held by Python.
    """
    return held


@type_callable(borrowed)
def _typed_alike(context: Any) -> Any:
    def typer(held: Any) -> Any:
        return held if isinstance(held, types.Array | types.BaseTuple) else None

    return typer


@lower_builtin(borrowed, types.Array)  # type: ignore[no-untyped-call]
@lower_builtin(borrowed, types.BaseTuple)  # type: ignore[no-untyped-call]
def _lowered_alike(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    return _unowned(context, builder, signature.args[0], given[0])


def _unowned(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The same words, but null for the owners of arrays."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo, array.parent = array.meminfo.type(None), array.parent.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts: Any = kind
        for place, each in enumerate(parts):
            part = _unowned(context, builder, each, builder.extract_value(value, place))
            value = builder.insert_value(value, part, place)
    return value


Lines = NDArray[np.float64]


@njit(**EXACT)
def are_finite(lines: Lines) -> bool:
    """Whether all numbers are finite."""
    for line in range(lines.shape[0]):
        for place in range(lines.shape[1]):
            if not -np.inf < lines[line, place] < np.inf:
                return False
    return True


@njit(**EXACT)
def are_ordered(ends: Lines) -> bool:
    """Whether no lower end is above the upper one: lower and upper ends in turn, attribute by attribute."""
    for line in range(0, ends.shape[0], 2):
        for place in range(ends.shape[1]):
            if not ends[line, place] <= ends[line + 1, place]:
                return False
    return True


def empty(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array without content whose memory goes back to the pool with the last reference to it."""
    kind = np.dtype(dtype)
    return np.frombuffer(pa.allocate_buffer(size * kind.itemsize), kind) if size else np.empty(0, kind)


def grown(array: NDArray[Any], length: int, fill: float = 0) -> NDArray[Any]:
    """A copy of `array` with `length` entries along its first axis, the new ones set to `fill`.

    A shorter length cuts off the end. Zeros are left to the system, whose pages of zeros cost nothing before
    they are used.
    """
    shape = (length, *array.shape[1:])
    copy = np.zeros(shape, array.dtype) if fill == 0 else np.full(shape, fill, array.dtype)
    copy[: array.shape[0]] = array[:length]
    return copy


@njit(**EXACT)
def with_room(array: NDArray[Any], needed: int) -> NDArray[Any]:
    """The array itself, or a copy at least twice as long if it has fewer than `needed` entries."""
    if needed <= array.shape[0]:
        return array
    longer = np.empty(max(needed, 2 * array.shape[0]), array.dtype)
    longer[: array.shape[0]] = array
    return longer


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices of `counts[i]` entries from `starts[i]` on, for each i, one range after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())
