"""Conditions of subscriptions on attributes whose values are names: `CategorySets`, sets of codes by row.

A value has a code: from a `Dictionary` of the values that live subscriptions name, or from a `Hierarchy`,
where a category is the range of the codes below it. So a set is some ranges of codes, stored by row as
`rankcast.structures.code_sets` describes.

For indexes a row is still a box: from the lowest to the highest accepted code
(`hulls`); from -inf to `KNOWN`, which is above all codes, if it only has rejected values; and without bounds
if it accepts everything. An event is the code of its value, `NOWHERE` if no subscription names it; an unknown
value matches only rows without bounds. If a row has more than one range its box is too large: such rows are
`loose`, and a match must be verified. While there are none, boxes alone decide.

Cost: O(log m) per member for sorting it among the m of its call. Memory: 16 bytes per range, 12 per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import InputError, SettingError, shown
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.structures.code_sets import HIGH, KNOWN, LEFT, LIST, LOW, NOBODY, CodeSets
from rankcast.structures.dictionary import Dictionary
from rankcast.structures.ids import select, show
from rankcast.tables.boxes import Hierarchy
from rankcast.tables.schema import (
    Batch,
    Bools,
    Column,
    Floats,
    IdKind,
    Ids,
    Ints,
    Kind,
    NameLists,
    Names,
    Rows,
    arrow,
)

FEW = 64
NO_ROWS: Rows = np.empty(0, np.int32)
FOREIGN = 2**30  # codes from here on are of values that no live subscription names


def setting(categories: Any, over: Sequence[str]) -> dict[str, Hierarchy | None]:
    """The attributes that are categories, in the order of `over`, each with its hierarchy if it has one."""
    given: dict[Any, Any]
    if isinstance(categories, Mapping):
        given = dict(categories)
    elif isinstance(categories, Sequence) and not isinstance(categories, str):
        given = {each if isinstance(each, str) else shown(each): None for each in categories}
    else:
        raise SettingError(
            f"categories is {shown(categories)}",
            expected="a list of attributes, or a dict of them with a Hierarchy or None each",
        )
    for name in given:
        if not isinstance(name, str) or name not in over:
            raise SettingError.unknown(str(name), list(over), where="categories", word="attribute")
    return {name: _hierarchy(name, given[name]) for name in over if name in given}


def _hierarchy(name: str, value: Any) -> Hierarchy | None:
    if value is None or isinstance(value, Hierarchy):
        return value
    if isinstance(value, Mapping) and all(isinstance(each, str) for each in value):
        return Hierarchy(value)
    raise SettingError(
        f'categories["{name}"] is {shown(value)}', expected="a Hierarchy, or each category's parent, or None"
    )


class Given(NamedTuple):
    """The lists of one column of a batch; those of a hierarchy already as ranges."""

    number: int
    lists: NameLists
    ranges: tuple[Ints, Ints] | None

    def at(self, places: Ints) -> Given:
        """The lists of some rows of the batch."""
        starts, given, ids = self.lists
        size = np.diff(starts)[places]
        members = _expanded(starts[places], starts[places] + size - 1)
        lists = NameLists(np.concatenate([[0], np.cumsum(size)]), given[places], select(ids, members))
        ranges = None if self.ranges is None else (self.ranges[0][members], self.ranges[1][members])
        return Given(self.number, lists, ranges)


class Ranges(NamedTuple):
    """Entries of some rows before they are written: the position of the row, then as in `entries`."""

    place: Ints
    number: Ints
    low: Ints
    high: Ints

    def at(self, index: Any) -> Ranges:
        """Some of them."""
        return Ranges(*(each[index] for each in self))


class CategorySets:
    """The sets of all rows.

    - Reading: `columns`, `read` and `codes` check a batch and change nothing; nor do `coded` and `events`.
    - Changing: `write`, `remove`, and `settle` at the end of a call.
    - For searches: `arrays`, `loose`. For people: `lists`.
    - State: `parts`, `state`, `restore`, `check_restored`.
    """

    def __init__(self, over: Sequence[str], hierarchies: Mapping[str, Hierarchy | None]) -> None:
        self.names = list(hierarchies)
        self.places = [over.index(name) for name in self.names]
        self._hierarchies = list(hierarchies.values())
        self._dictionaries = [Dictionary() for _ in self.names]  # of a hierarchy: empty
        self._first, self._size = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self._entries = np.zeros((0, 4), np.int32)
        self._used = self._live = self.loose = 0
        self.category = np.full(len(over), -1, np.int64)  # by attribute: which category it is
        self.category[self.places] = np.arange(len(self.names))

    def __len__(self) -> int:
        return len(self.names)

    # Reading

    def columns(self) -> list[Column]:
        """The columns of subscriptions."""
        return [
            Column(f"{name}_{word}", Kind.CATEGORIES, required=False, nullable=True)
            for name in self.names
            for word in ("in", "not_in")
        ]

    def read(self, batch: Batch, *, where: str) -> list[Given]:
        """The lists in a batch of subscriptions."""
        found: list[Given] = []
        for number, column in enumerate(self.columns()):
            if column.name in batch:
                lists, place = batch[column.name], number // 2
                ranges = None
                hierarchy = self._hierarchies[place]
                if hierarchy is not None:
                    ranges = _known_ranges(hierarchy, lists, column.name, where)
                elif lists.ids.size:
                    kind = self._dictionaries[place].values.kind
                    if found and found[-1].number // 2 == place and found[-1].lists.ids.size:
                        kind = found[-1].lists.ids.kind
                    _refuse_kind(
                        kind, lists.ids, column.name, int(np.argmax(np.diff(lists.starts) > 0)), where
                    )
                found.append(Given(number, lists, ranges))
        return found

    def codes(self, values: Names, place: int, *, where: str) -> Floats:
        """The codes of the values of events in the a-th category; NaN for unknown ones."""
        if not values.known.any():
            return np.full(values.known.size, np.nan)
        hierarchy, name = self._hierarchies[place], self.names[place]
        if hierarchy is None:
            dictionary = self._dictionaries[place]
            _refuse_kind(dictionary.values.kind, values.ids, name, int(np.argmax(values.known)), where)
            found = dictionary.find(values.ids, where=where, column=name).astype(np.float64)
        else:
            found = hierarchy.ranges(_texts(values.ids, name, where))[0].astype(np.float64)
        return np.where(values.known, found, np.nan)

    # Changing

    def write(self, rows: Rows, given: Sequence[Given], *, capacity: int) -> None:
        """Give rows these lists; lists of columns that are not given stay."""
        self._reserve(capacity)
        held = self._gather(rows)
        named = np.isin(held.number, [each.number for each in given])
        fresh = [self._interned(each) for each in given]
        merged = _merged(_joined([held.at(~named), *fresh]))
        self._forget(held.at(named))
        self._put(rows, merged)

    def coded(self, given: Sequence[Given], size: int, rows: Rows = NO_ROWS) -> CodeSets:
        """The sets of so many rows with these lists, and otherwise those of live `rows`; nothing changes.

        Values that no live subscription names have codes from FOREIGN on.
        """
        held = self._gather(rows)
        strangers = [Dictionary() for _ in self.names]
        fresh = [self._foreign(each, strangers[each.number // 2]) for each in given]
        kept = held.at(~np.isin(held.number, [each.number for each in given]))
        merged = _merged(_joined([kept, *fresh]))
        count = np.bincount(merged.place, minlength=size).astype(np.int32)
        return CodeSets(np.cumsum(count) - count, count, self._lines(merged))

    def events(self, codes: Floats) -> CodeSets:
        """The sets of events with the codes (n, c), one value each."""
        many, c = codes.shape
        place, number = np.divmod(np.arange(many * c), c)
        code = codes.reshape(-1).astype(np.int64)
        lines = self._lines(Ranges(place, 2 * number, code, code))
        return CodeSets(np.arange(many) * c, np.full(many, c, np.int32), lines)

    def remove(self, rows: Rows) -> None:
        """Delete the sets of rows; rows beyond all that ever had one have none."""
        if self._live:
            rows = rows[rows < self._size.size]
            self._forget(self._gather(rows))
            self._put(rows, _merged(Ranges(*(np.empty(0, np.int64) for _ in range(4)))))

    def settle(self) -> None:
        """End a call: codes that are no longer used may be reused."""
        for dictionary in self._dictionaries:
            dictionary.settle()
        if self._used > 2 * self._live + FEW:
            self._compact()

    def hulls(self, rows: Rows) -> tuple[Floats, Floats]:
        """The boxes of rows, (n, c) each."""
        shape = rows.size, len(self.names)
        lo, hi = np.full(shape, -np.inf), np.full(shape, np.inf)
        held = self._gather(rows)
        unwanted = held.number % 2 == 1
        hi[held.place[unwanted], held.number[unwanted] // 2] = KNOWN
        wanted = held.at(~unwanted)
        place = wanted.place, wanted.number // 2
        lo[place], hi[place] = np.inf, -np.inf
        np.minimum.at(lo, place, wanted.low)
        np.maximum.at(hi, place, wanted.high)
        return lo, hi

    def _interned(self, given: Given) -> Ranges:
        """The entries of one column; its values are counted as used."""
        number, lists, ranges = given
        place = _places(lists)
        if ranges is None:
            codes = self._dictionaries[number // 2].intern(lists.ids).astype(np.int64)
            key = place * (codes.max(initial=0) + 1) + codes
            _, first = np.unique(key, return_index=True)
            again = np.ones(codes.size, np.bool_)
            again[first] = False
            if again.any():
                self._dictionaries[number // 2].drop(codes[again])
            place, codes = place[first], codes[first]
            ranges = codes, codes
        return _with_empty(number, lists, place, ranges)

    def _foreign(self, given: Given, strangers: Dictionary) -> Ranges:
        """The entries of one column, whose values need not be in use."""
        number, lists, ranges = given
        if ranges is None:
            codes = self._dictionaries[number // 2].find(lists.ids, where="", column="").astype(np.int64)
            unknown = np.flatnonzero(codes < 0)
            if unknown.size:
                codes[unknown] = FOREIGN + strangers.intern(select(lists.ids, unknown))
            ranges = codes, codes
        return _with_empty(number, lists, _places(lists), ranges)

    def _forget(self, gone: Ranges) -> None:
        """Release the values of removed entries."""
        for place, codes in self._members(gone):
            self._dictionaries[place].drop(codes)

    def _members(self, held: Ranges) -> Iterator[tuple[int, Ints]]:
        """By dictionary, the codes in some entries, one by one."""
        for place, hierarchy in enumerate(self._hierarchies):
            if hierarchy is None:
                mine = held.at((held.number // 2 == place) & (held.low >= 0))
                if mine.low.size:
                    yield place, _expanded(mine.low, mine.high)

    def _gather(self, rows: Rows, sets: CodeSets | None = None) -> Ranges:
        """The entries of rows."""
        first, sizes, entries = self.arrays() if sets is None else sets
        there = np.flatnonzero(rows < sizes.size)
        size = np.zeros(rows.size, np.int64)
        size[there] = sizes[rows[there]]
        place = np.repeat(np.arange(rows.size), size)
        start = np.zeros(rows.size, np.int64)
        start[there] = first[rows[there]]
        at = np.arange(place.size) + np.repeat(start - (np.cumsum(size) - size), size)
        held = entries[at].astype(np.int64)
        return Ranges(place, held[:, LIST], held[:, LOW], held[:, HIGH])

    def _put(self, rows: Rows, ranges: Ranges) -> None:
        """Append the entries of rows, in order."""
        self._live -= int(self._size[rows].sum())
        self.loose -= int(np.count_nonzero(self._is_loose(rows)))
        size = np.bincount(ranges.place, minlength=rows.size)
        first, used = self._used, self._used + ranges.place.size
        if used > len(self._entries):
            self._entries = grown(self._entries, max(used, len(self._entries) * 5 // 4 + 16))
        self._entries[first:used] = self._lines(ranges)
        self._first[rows] = first + np.cumsum(size) - size
        self._size[rows] = size
        self._used, self._live = used, self._live + ranges.place.size
        self.loose += int(np.count_nonzero(self._is_loose(rows)))

    def _lines(self, ranges: Ranges) -> Rows:
        """Entries of ranges that are in order."""
        key = ranges.place * (2 * len(self.names)) + ranges.number
        lines = np.empty((key.size, 4), np.int32)
        lines[:, LIST], lines[:, LOW], lines[:, HIGH] = ranges.number, ranges.low, ranges.high
        lines[:, LEFT] = np.searchsorted(key, key, side="right") - np.arange(key.size)
        return lines

    def _is_loose(self, rows: Rows) -> Bools:
        """Which rows are not a single range in each attribute."""
        held = self._gather(rows)
        key = held.place * (2 * len(self.names)) + held.number
        several = np.zeros(key.size, np.bool_)
        several[1:] = key[1:] == key[:-1]
        loose = np.zeros(rows.size, np.bool_)
        loose[held.place[several | (held.number % 2 == 1)]] = True
        return loose

    def _reserve(self, rows: int) -> None:
        if rows > self._size.size:
            self._first, self._size = grown(self._first, rows), grown(self._size, rows)

    def _compact(self) -> None:
        """Drop entries that no row has."""
        rows = np.flatnonzero(self._size).astype(np.int32)
        size = self._size[rows].astype(np.int64)
        first = np.cumsum(size) - size
        held = self._entries[np.arange(self._live) + np.repeat(self._first[rows] - first, size)]
        self._entries = grown(held, 2 * self._live + FEW)
        self._first[rows], self._used = first, self._live

    # For searches, and keeping

    def arrays(self) -> CodeSets:
        """The sets by row, as kernels take them."""
        return CodeSets(self._first, self._size, self._entries)

    def lists(self, rows: Rows, sets: CodeSets | None = None) -> dict[str, pa.Array]:
        """The columns of rows as lists: the given values, each once; null where none was given.

        `sets` has other lists of these rows, of values that are in use.
        """
        held, found = self._gather(rows, sets), {}
        for number, column in enumerate(self.columns()):
            mine = held.at(held.number == number)
            values, size = self._values(number // 2, mine.at(mine.low != NOBODY))
            given = np.zeros(rows.size, np.bool_)
            given[mine.place] = True
            ends = np.concatenate([[0], np.cumsum(np.bincount(size, minlength=rows.size))])
            starts = pa.array(ends, pa.int32(), mask=np.append(~given, False))
            found[column.name] = pa.ListArray.from_arrays(starts, values)
        return found

    def _values(self, place: int, held: Ranges) -> tuple[pa.Array, Ints]:
        """The values in some entries, one by one, and the position of each."""
        hierarchy = self._hierarchies[place]
        if hierarchy is None:
            size = held.high - held.low + 1
            codes = _expanded(held.low, held.high).astype(np.int32)
            return self._dictionaries[place].values.take(codes), np.repeat(held.place, size)
        names = [hierarchy.names(low, high) for low, high in zip(held.low, held.high, strict=True)]
        flat = pa.array([name for each in names for name in each], pa.string())
        return flat, np.repeat(held.place, [len(each) for each in names])

    def parts(self) -> dict[str, Any]:
        """The stored parts: the sets, and the values of each category."""
        return {"sets": self, **{f"category{place}": each for place, each in enumerate(self._dictionaries)}}

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        header = {"used": self._used, "live": self._live, "loose": self.loose}
        return header, {"first": self._first, "size": self._size, "entries": self._entries}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        rows = len(arrays["size"]) if "size" in arrays and arrays["size"].ndim else 0
        integrity.forms(
            arrays,
            {"first": (np.int64, (rows,)), "size": (np.int32, (rows,)), "entries": (np.int32, (None, 4))},
        )
        self._first, self._size, self._entries = arrays["first"], arrays["size"], arrays["entries"]
        self._used, self._live = integrity.whole(header, "used"), integrity.whole(header, "live")
        self.loose = integrity.whole(header, "loose")
        return self

    def check_restored(self, wanted: Bools) -> None:
        """Refuse sets from a snapshot that do not belong to the `wanted` rows or do not fit the values."""
        size, first, used = self._size, self._first, self._used
        integrity.need(used <= len(self._entries), "used", "is more than there is")
        integrity.within(size, 0, used + 1, "size")
        live = np.zeros(size.size, np.bool_)
        live[: wanted.size] = wanted[: size.size]
        integrity.need((size[~live] == 0).all(), "size", "is of rows that are not live")
        inside = (first >= 0) & (first <= used - size)
        integrity.need(inside[size > 0].all() and self._live <= used, "first", "leads out of the entries")
        integrity.need(int(size.sum(dtype=np.int64)) == self._live, "live", "is not the number of entries")
        rows = np.flatnonzero(size).astype(np.int32)
        held = self._gather(rows)
        integrity.within(held.number, 0, 2 * len(self.names), "entries")
        key = held.place * (2 * len(self.names)) + held.number
        apart = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & (held.low[1:] > held.high[:-1]))
        integrity.need(apart.all() and (held.low <= held.high).all(), "entries", "are in no order")
        at = (
            np.repeat(first[rows], size[rows]) + np.arange(key.size) - np.searchsorted(held.place, held.place)
        )
        left = np.searchsorted(key, key, side="right") - np.arange(key.size)
        integrity.need(
            np.array_equal(self._entries[at, LEFT], left), "entries", "are not as many as they say"
        )
        self._check_values(held)
        loose = int(np.count_nonzero(self._is_loose(rows)))
        integrity.need(loose == self.loose, "loose", f"is not {loose}")

    def _check_values(self, held: Ranges) -> None:
        for place, (hierarchy, dictionary) in enumerate(
            zip(self._hierarchies, self._dictionaries, strict=True)
        ):
            mine = held.at((held.number // 2 == place) & (held.low != NOBODY))
            most = dictionary.values.used if hierarchy is None else len(hierarchy)
            fits = (mine.low >= 0).all() and (mine.high < most).all()
            integrity.need(fits, "entries", "hold codes of no value")
            if hierarchy is None:
                uses = dictionary.values["uses"][dictionary.values["sequence"] >= 0]
                total = int((mine.high - mine.low + 1).sum())
                integrity.need(total == int(uses.sum()), "entries", "are not what values are used for")
                dictionary.check_restored(_expanded(mine.low, mine.high), "entries")


def _known_ranges(hierarchy: Hierarchy, lists: NameLists, column: str, where: str) -> tuple[Ints, Ints]:
    """The ranges of categories of a hierarchy, which must know them."""
    names = _texts(lists.ids, column, where)
    low, high = hierarchy.ranges(names)
    if low.size and low.min() < 0:
        odd = int(np.argmin(low))
        row = int(np.searchsorted(lists.starts, odd, side="right")) - 1
        what = f"holds {show(lists.ids, odd)}, which is not in the hierarchy"
        raise InputError(what, where=where, column=column, row=row, expected="its categories")
    return low, high


def _places(lists: NameLists) -> Ints:
    """By member, the row that names it."""
    return np.repeat(np.arange(lists.given.size), np.diff(lists.starts))


def _with_empty(number: int, lists: NameLists, place: Ints, ranges: tuple[Ints, Ints]) -> Ranges:
    """Entries of a column, with those of lists that have no member."""
    empty = np.flatnonzero(lists.given & (np.diff(lists.starts) == 0))
    nobody = np.full(empty.size, NOBODY)
    place = np.concatenate([place, empty])
    low, high = (np.concatenate([each, nobody]) for each in ranges)
    return Ranges(place, np.full(place.size, number), low, high)


def _joined(parts: Sequence[Ranges]) -> Ranges:
    return Ranges(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _refuse_kind(kind: IdKind | None, ids: Ids, column: str, row: int, where: str) -> None:
    """Refuse values of another kind than earlier ones."""
    if kind is not None and ids.kind != kind:
        words = {"int": "integers or truths", "str": "strings"}
        expected = f"{words[kind]}, as in the rows before"
        raise InputError(f"holds {words[ids.kind]}", where=where, column=column, row=row, expected=expected)


def _texts(ids: Ids, column: str, where: str) -> list[str]:
    """Strings as Python objects."""
    if ids.kind == "int" and ids.size:
        raise InputError("holds integers", where=where, column=column, row=0, expected="categories by name")
    texts: list[str] = arrow(ids).to_pylist() if ids.size else []
    return texts


def _expanded(low: Ints, high: Ints) -> Ints:
    """All numbers of some ranges."""
    size = high - low + 1
    found: Ints = np.arange(int(size.sum())) + np.repeat(low - (np.cumsum(size) - size), size)
    return found


def _merged(ranges: Ranges) -> Ranges:
    """Sorted ranges; those of one list are joined where they touch."""
    ranges = ranges.at(np.lexsort((-ranges.high, ranges.low, ranges.number, ranges.place)))
    if not ranges.place.size:
        return ranges
    same = (ranges.place[1:] == ranges.place[:-1]) & (ranges.number[1:] == ranges.number[:-1])
    group = np.concatenate([[0], np.cumsum(~same)])
    # The largest end so far in a list: groups ascend, so that one does not reach into the next.
    reach = np.maximum.accumulate((group << 33) + ranges.high) - (group << 33)
    begins = np.concatenate([[True], ~same | (ranges.low[1:] > reach[:-1] + 1)])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], ranges.place.size) - 1
    return Ranges(ranges.place[first], ranges.number[first], ranges.low[first], reach[last])
