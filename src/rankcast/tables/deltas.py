"""Changes of ranked results: the difference of two results, the net of several changes, the table of deltas.

Inside, subscriptions and items are rows; `sequence` by subscription row gives the order of registration.
Everything is flat and vectorised; the cost is O(n) in the entries given, O(n log n) for the net of several.

In the table of deltas `op` is a dictionary column: one byte per row, and the three words once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.structures import arrays
from rankcast.structures import diff as kernel
from rankcast.structures.diff import DeltaColumns
from rankcast.structures.topk_lists import ENTER, LEAVE, UPDATE
from rankcast.tables.schema import Bools, Floats, Ints, Rows

COLUMNS = ("subscription", "op", "item", "score", "rank")
OPS = ("leave", "enter", "update")  # by the codes of the kernels
_ENDS = np.cumsum([0, *map(len, OPS)], dtype=np.int32)
# The dictionary of every column of ops; made of buffers, since Arrow imports pandas to look at a list.
WORDS = pa.StringArray.from_buffers(len(OPS), pa.py_buffer(_ENDS), pa.py_buffer("".join(OPS).encode()))
OP = pa.dictionary(pa.int8(), pa.string())
_FLOAT64, _INT64 = pa.float64(), pa.int64()
FEW = 16  # rows up to which columns of ops are remembered
CHUNK = 1 << 16  # rows that columns of one value have in common


class Lists(NamedTuple):
    """Results of some subscriptions, flat; ranks of one subscription are 1, 2, ..."""

    subscription: Rows
    item: Rows
    score: Floats
    rank: Ints

    def at(self, index: Any) -> Lists:
        """The entries at the given places."""
        return Lists._make(column[index] for column in self)


class External(NamedTuple):
    """Results of some subscriptions with external ids, flat; no scores if only ids are needed."""

    subscription: pa.Array
    item: pa.Array
    score: Floats
    rank: Ints


class Changes(NamedTuple):
    """Changes of results, flat.

    `score` and `rank` are the new ones (NaN and 0 on a leave), `former` is the old score (NaN on an enter),
    which only `net` needs.
    """

    subscription: Rows
    op: NDArray[np.int8]
    item: Rows
    score: Floats
    rank: Ints
    former: Floats

    def at(self, index: Any) -> Changes:
        """The changes at the given places."""
        return Changes._make(column[index] for column in self)


def empty_lists() -> Lists:
    """No results."""
    none = np.empty(0, np.int32)
    return Lists(none, none, np.empty(0), np.empty(0, np.int64))


@lru_cache
def no_changes() -> Changes:
    """No changes."""
    return entered(empty_lists())


def gather_lists(subscriptions: Rows, items: Sequence[Rows], scores: Sequence[Floats]) -> Lists:
    """Lists from one ranked list per subscription."""
    if not len(subscriptions):
        return empty_lists()
    counts = np.array([len(list_) for list_ in items])
    rank = np.concatenate([np.arange(1, count + 1) for count in counts])
    owner = np.repeat(np.asarray(subscriptions, np.int32), counts)
    return Lists(owner, np.concatenate(items).astype(np.int32), np.concatenate(scores), rank.astype(np.int64))


def _pairs(subscription: Rows, item: Rows) -> Ints:
    """One key for a subscription and an item."""
    return (subscription.astype(np.int64) << 32) | item.astype(np.int64)


def _places(keys: Ints, among: Ints) -> tuple[Bools, Ints]:
    """Which keys are among the others, and where (any position for those that are not)."""
    if not among.size:
        return np.zeros(keys.size, np.bool_), np.zeros(keys.size, np.int64)
    order = np.argsort(among, kind="stable")
    place = order[np.minimum(np.searchsorted(among, keys, sorter=order), among.size - 1)]
    return among[place] == keys, place


def difference(before: Lists, after: Lists, sequence: Ints, *, updates: bool = True) -> Changes:
    """The changes from the results `before` to those `after`; without `updates` only enters and leaves.

    Both are grouped by subscription. Cost: O(n), and a sort if they are not in the order of registration.
    """
    old, new = _registered(before, sequence), _registered(after, sequence)
    most = old.item.size + new.item.size + 1
    told = kernel.ChangeColumns(*(arrays.empty(most, kind) for kind in ("i4", "i1", "i4", "f8", "i8", "f8")))
    spot = np.zeros(1 + max(old.item.max(initial=-1), new.item.max(initial=-1)), np.int32)
    entries = kernel.Entries(*old), kernel.Entries(*new)
    size = int(kernel.write_difference(*entries, sequence, spot, told, updates))
    return Changes._make(column[:size] for column in told)


def _registered(lists: Lists, sequence: Ints) -> Lists:
    """The same lists in the order of registration."""
    if kernel.in_order(lists.subscription, sequence):
        return lists
    return lists.at(np.argsort(sequence[lists.subscription], kind="stable"))


def entered(lists: Lists) -> Changes:
    """First results as changes; the lists are in the order of registration."""
    size = lists.item.size
    op, former = np.full(size, ENTER, np.int8), np.broadcast_to(np.nan, size)
    return Changes(lists.subscription, op, lists.item, lists.score, lists.rank, former)


def left(lists: Lists, sequence: Ints) -> Changes:
    """Results that are removed, as changes."""
    lists = _registered(lists, sequence)
    size = lists.item.size
    op, rank = np.full(size, LEAVE, np.int8), np.zeros(size, np.int64)
    return Changes(lists.subscription, op, lists.item, np.full(size, np.nan), rank, lists.score)


def net(steps: Sequence[Changes], now: Lists, sequence: Ints, *, updates: bool = True) -> Changes:
    """The net change of several steps, given the current results of every subscription they touch.

    A pair was in the result before if its first change is not an enter, and `former` of that change is its
    old score; so the previous results are rebuilt for the touched pairs and compared with `now`. A pair whose
    score changes without a reported change (`updates=False`) counts as unchanged unless a step updated it.
    """
    joined = Changes._make(np.concatenate(columns) for columns in zip(*steps, strict=True))
    keys = _pairs(joined.subscription, joined.item)
    pairs, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    was = joined.op[first] != ENTER
    updated = np.zeros(pairs.size, np.bool_)
    updated[inverse[joined.op == UPDATE]] = True
    before = Lists(
        joined.subscription[first][was],
        joined.item[first][was],
        joined.former[first][was],
        np.arange(int(was.sum()), dtype=np.int64),
    )
    touched, _ = _places(_pairs(now.subscription, now.item), pairs)
    changes = difference(before, now.at(touched), sequence)
    if updates:
        return changes
    _, place = _places(_pairs(changes.subscription, changes.item), pairs)
    return changes.at((changes.op != UPDATE) | updated[place])


@lru_cache
def no_deltas(subscription: pa.DataType, item: pa.DataType) -> pa.Table:
    """The table of deltas without a row, given the types of both columns of ids."""
    return to_table(no_changes(), pa.array([], subscription), pa.array([], item))


def to_table(changes: Changes, subscription: pa.Array, item: pa.Array) -> pa.Table:
    """The table of deltas, given the external ids of both columns."""
    there = changes.op != LEAVE
    count = np.count_nonzero(there)
    valid = None if count == there.size else pa.py_buffer(np.packbits(there, bitorder="little"))
    score, rank = (_nullable(values, there.size, valid) for values in (changes.score, changes.rank))
    return _table(subscription, op_column(changes.op.tobytes()), item, score, rank)


def whole(results: External, op: int) -> pa.Table:
    """The table of deltas for results that enter (ENTER) or leave (LEAVE) as a whole.

    A constant column is one chunk, repeated: it costs neither time nor memory.
    """
    size, comes = len(results.item), op == ENTER
    return _table(
        results.subscription,
        _repeated(_ops_of(op), size),
        results.item,
        pa.array(results.score) if comes else _repeated(_nulls(_FLOAT64), size),
        pa.array(results.rank) if comes else _repeated(_nulls(_INT64), size),
    )


def exchanged(told: DeltaColumns, size: int) -> pa.Table:
    """The table of the first deltas of those that were written in external form."""
    valid = pa.py_buffer(told.there)
    return _table(
        _nullable(told.subscription, size, None),
        _coded(pa.py_buffer(told.op), size),
        _nullable(told.item, size, None),
        _nullable(told.score, size, valid),
        _nullable(told.rank, size, valid),
    )


def _repeated(chunk: pa.Array, size: int) -> pa.Array | pa.ChunkedArray:
    """A column of one value, given `CHUNK` rows of it."""
    if size <= CHUNK:
        return chunk[:size]
    times, rest = divmod(size, CHUNK)
    return pa.chunked_array([chunk] * times + [chunk[:rest]])


@lru_cache
def _nulls(kind: pa.DataType) -> pa.Array:
    return pa.nulls(CHUNK, kind)


@lru_cache
def _ops_of(op: int) -> pa.Array:
    return _coded(pa.py_buffer(np.full(CHUNK, op, np.int8)), CHUNK)


def op_column(codes: bytes) -> pa.Array:
    """The column of ops, one byte each, as kernels write them; columns of a few rows are cached."""
    return _few_ops(codes) if len(codes) <= FEW else _coded(pa.py_buffer(codes), len(codes))


def op_column_of(words: Sequence[str]) -> pa.Array:
    """The column of ops that are given as words."""
    return op_column(bytes(map(OPS.index, words)))


def encoded(table: pa.Table) -> pa.Table:
    """The same deltas with the common encoding of the column of ops."""
    place = table.column_names.index("op")
    return table.set_column(place, "op", op_column_of(table.column(place).to_pylist()))


@lru_cache(maxsize=1024)
def _few_ops(codes: bytes) -> pa.Array:
    """The column of a few ops, cached because the same few occur again and again."""
    return _coded(pa.py_buffer(codes), len(codes))


def _coded(codes: pa.Buffer, size: int) -> pa.Array:
    """The column of the first ops of a buffer."""
    return pa.DictionaryArray.from_buffers(OP, size, [None, codes], WORDS)


def _table(*columns: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The table of deltas from its columns."""
    return pa.Table.from_arrays(columns, COLUMNS)


def _nullable(values: Floats | Ints, size: int, valid: pa.Buffer | None) -> pa.Array:
    """An Arrow array over the memory of the first values, null where a bit is not set."""
    kind = _FLOAT64 if values.dtype.char == "d" else _INT64
    return pa.Array.from_buffers(kind, size, [valid, pa.py_buffer(values)])


def replay(results: pa.Table, changes: pa.Table) -> dict[Any, dict[Any, float]]:
    """Apply a table of deltas to a table of results: subscription to item to score.

    A simple reader of deltas, as a subscriber would write it; for tests and for users who verify.
    """
    held: dict[Any, dict[Any, float]] = {}
    for row in results.to_pylist():
        held.setdefault(row["subscription"], {})[row["item"]] = row["score"]
    for row in changes.to_pylist():
        mine = held.setdefault(row["subscription"], {})
        if (row["op"] == "enter") == (row["item"] in mine):
            raise ValueError(f"the delta {row} does not fit the results before it")
        if row["op"] == "leave":
            del mine[row["item"]]
        else:
            mine[row["item"]] = row["score"]
    return {subscription: items for subscription, items in held.items() if items}
