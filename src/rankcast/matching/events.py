"""Events of `RankedMatcher`: from rows to their extent (`Spans`) and their wishes (`Wants`).

An attribute of an event is a value, an interval, or unknown; a category is the code of its value. An event
may carry wishes in optional columns: how many matches (`k`), the least score
(`min_score`), what it does not want (`exclude`), a factor (`boost`), errors of its values. If there are no
wishes, and no subscription has conditions besides its box, there are no `Wants`, and boxes alone decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from rankcast.core.engine import ID
from rankcast.errors import InputError, SettingError, shown
from rankcast.matching.kernels.candidate_filter import ANY, CONTAINS, INSIDE, REACH, SPAN, VALUE, Wants
from rankcast.matching.names import Groups
from rankcast.matching.subscription_attributes import Said
from rankcast.structures.ids import Slots
from rankcast.tables import read, schema
from rankcast.tables.categories import CategorySets
from rankcast.tables.schema import Batch, Bools, Column, Floats, Form, Ints, Kind, NameLists, Names

OVERLAPS = {"any": ANY, "inside": INSIDE, "contains": CONTAINS}
ERRORS = ("uniform", "normal")
NO_ROWS, NO_LONGS = np.empty(0, np.int32), np.empty(0, np.int64)


class Spans(NamedTuple):
    """The extent of events: from `above` to `below`, both (n, d).

    For a point both are its value. For an interval they are its lower and its upper end; a missing
    end means no bound. An unknown value reaches from +inf to -inf: it meets only what has no bounds. An
    uncertain value reaches as far as its error.
    """

    above: Floats
    below: Floats


def _ends(name: str, over: frozenset[str]) -> list[str]:
    """The columns of an attribute's ends; none if one of them is itself an attribute."""
    ends = [f"{name}_lo", f"{name}_hi"]
    return [] if over.intersection(ends) else ends


class EventReader:
    """Reads events over some attributes.

    Args:
        over: the attributes.
        sets: which of them are categories, and their codes.
        k: how many matches an event gets by default.
        relaxed: whether factors by category multiply weights, not the score.
        per_owner: the most matches of one owner, if limited.
        overlap: how an interval must relate to another to match it.
        errors: the distribution of values with an error, None if none has.
        boosts: by category attribute, the factor of each value.
    """

    def __init__(
        self,
        over: list[str],
        sets: CategorySets,
        *,
        k: int,
        relaxed: bool,
        per_owner: int | None,
        overlap: str,
        errors: str | None,
        boosts: Mapping[str, Any] | None,
    ) -> None:
        self._over, self._k, self._relaxed = over, k, relaxed
        self._rule = np.array(
            [
                per_owner or 0,
                OVERLAPS[schema.one_of("overlap", overlap, OVERLAPS)],
                errors is not None and schema.one_of("errors", errors, ERRORS) == "normal",
            ],
            np.int64,
        )
        self._per_owner, self._errors, self._overlap = per_owner, errors, overlap
        self._categories = dict(zip(sets.names, range(len(sets)), strict=True))
        self._boosts = {name: _Factors(name, table) for name, table in self._boosted(boosts)}
        self.form = Form(self._columns(id_required=True))
        self._own = Form(self._columns(id_required=False))
        self._wished = frozenset(column.name for column in self._wishes())

    def boosts(self) -> dict[str, list[list[Any]]]:
        """The factors by category in the form of a snapshot."""
        return {name: factors.pairs for name, factors in self._boosts.items()}

    def _boosted(self, boosts: Any) -> Iterator[tuple[str, Any]]:
        if boosts is not None and not isinstance(boosts, Mapping):
            raise SettingError(
                f"boosts is {shown(boosts)}", expected="a dict of attributes with a table each"
            )
        for name in boosts or {}:
            if name not in self._categories:
                raise SettingError.unknown(str(name), list(self._categories), where="boosts", word="category")
        given = dict(boosts or {})
        return ((name, given[name]) for name in self._over if name in given)

    def _columns(self, *, id_required: bool) -> list[Column]:
        known, found = frozenset(self._over), [Column("id", ID.kind, required=id_required)]
        for name in self._over:
            if name in self._categories:
                found.append(Column(name, Kind.CATEGORY, required=False, nullable=True))
            else:
                names = [name, *_ends(name, known)]
                found += [Column(each, required=False, nullable=True, times=True) for each in names]
        return found + self._wishes()

    def _wishes(self) -> list[Column]:
        """The wish columns; if an attribute has such a name, the column belongs to the attribute."""
        numbers = ["min_score", "boost"]
        if self._errors is not None:
            numbers += [f"{name}_error" for name in self._over if name not in self._categories]
        found = [
            Column("k", Kind.COUNT, required=False, nullable=True),
            Column("exclude", Kind.NAMES, required=False, nullable=True),
            *(Column(name, required=False, nullable=True) for name in numbers),
        ]
        taken = {*self._over, *(end for name in self._over for end in _ends(name, frozenset(self._over)))}
        return [column for column in found if column.name not in taken]

    # Reading

    def one(self, event: Any, extra: str) -> Batch:
        """One event, given as a dict of its attributes, with or without its id."""
        if not isinstance(event, dict):
            raise InputError(
                f"got {shown(event)}", where="event", expected="a dict of the event's attributes"
            )
        if not event:  # it would read as no event at all
            raise InputError("is missing", where="event", column=self._over[0], expected="a number")
        rows = {name: [value] for name, value in event.items()}
        return read.read(rows, self._own, where="event", extra=extra)

    def spans(self, batch: Batch, sets: CategorySets, *, where: str) -> Spans:
        """The spans of a batch of events; for points without unknown values both are the same array."""
        over = self._over
        if batch.numbers is not None and list(batch.lines) == over:
            points = np.array(batch.numbers.T, order="C")
            return Spans(points, points)
        shape = (batch.size, len(over))
        spans, known = Spans(np.empty(shape), np.empty(shape)), frozenset(over)
        for place, name in enumerate(over):
            ends = [] if name in self._categories else _ends(name, known)
            given = [end for end in ends if end in batch]
            if name in batch and given:
                raise InputError(
                    f'is given beside "{name}"', where=where, column=given[0], expected="one of them"
                )
            if name not in batch and not given and batch.size:
                expected = "a category" if name in self._categories else "a number"
                raise InputError("is missing", where=where, column=name, expected=expected)
            if name in self._categories:
                if name in batch:
                    codes = sets.codes(batch[name], self._categories[name], where=where)
                    spans.above[:, place] = spans.below[:, place] = codes
            elif name in batch:
                spans.above[:, place] = spans.below[:, place] = batch[name]
                self._reach(batch, spans, place, where)
            else:
                self._interval(batch, spans, place, ends, where)
        spans.above[np.isnan(spans.above)], spans.below[np.isnan(spans.below)] = np.inf, -np.inf
        return spans

    def _interval(self, batch: Batch, spans: Spans, place: int, ends: list[str], where: str) -> None:
        """Make an attribute an interval."""
        error = f"{self._over[place]}_error"
        if self._errors is not None and error in batch and error in self._wished:
            what = "is given beside an interval"
            raise InputError(what, where=where, column=error, expected=f'"{self._over[place]}"')
        nothing = np.full(batch.size, np.nan)
        above, below = (batch.values.get(end, nothing) for end in ends)
        _refuse_crossed(above, below, ends, where)
        known_end = ~(np.isnan(above) & np.isnan(below))
        spans.above[:, place] = np.where(known_end & np.isnan(above), -np.inf, above)
        spans.below[:, place] = np.where(known_end & np.isnan(below), np.inf, below)

    def _reach(self, batch: Batch, spans: Spans, place: int, where: str) -> None:
        """Widen an uncertain value by its error."""
        column = f"{self._over[place]}_error"
        if self._errors is None or column not in batch or column not in self._wished:
            return
        error = np.nan_to_num(batch[column])
        _refuse(error < 0, batch[column], column, "a number from 0", where)
        with np.errstate(over="ignore"):
            reach = error * (REACH if self._errors == "normal" else 1.0)
            spans.above[:, place] -= reach
            spans.below[:, place] += reach
        far = np.isinf(spans.above[:, place]) | np.isinf(spans.below[:, place])
        _refuse(far, batch[column], column, "an error within what a float64 holds", where)

    # Wanting

    def wants(self, batch: Batch, spans: Spans, slots: Slots, held: Said, *, where: str) -> Wants | None:
        """Wishes of events and conditions of subscriptions besides boxes; None if there are none."""
        given = [name for name in self._wished if name in batch]
        limited = self._per_owner is not None and held.owners.code.size > 0
        shifted = self._overlap != "any" and spans.above is not spans.below
        if not (given or self._boosts or shifted or limited or held.sets.loose or held.groups.active):
            return None
        asks = held.sets.loose > 0
        first, excluded = self._excluded(batch, slots, held.groups, where)
        boost, factor = self._factors(batch, where)
        value, error = self._uncertain(batch)
        entries = held.sets.arrays() if asks else (NO_LONGS, NO_ROWS, np.empty((0, 4), np.int32))
        active = held.groups.active
        return Wants(
            k=self._counts(batch),
            least=self._least(batch),
            boost=boost,
            factor=factor,
            value=value,
            error=error,
            first=first,
            excluded=excluded,
            tie=held.groups.tie if active else slots.label,
            name=held.groups.code if active else NO_ROWS,
            owner=held.owners.code if limited else NO_ROWS,
            set_first=entries[0],
            set_size=entries[1],
            entries=entries[2],
            category=self._kinds(batch, held.sets.category if asks else None),
            rule=self._rule,
        )

    def _kinds(self, batch: Batch, category: Ints | None) -> Ints:
        """For each attribute its category, if sets are used, or whether events have an interval."""
        spans = [name not in self._categories and name not in batch for name in self._over]
        plain = np.where(spans, SPAN, VALUE)
        return plain if category is None else np.where(category >= 0, category, plain)

    def _counts(self, batch: Batch) -> Ints:
        if "k" in self._wished and "k" in batch:
            return np.where(batch["k"] > 0, batch["k"], self._k)
        return np.full(batch.size, self._k, np.int64)

    def _least(self, batch: Batch) -> Floats:
        if "min_score" in self._wished and "min_score" in batch:
            least = batch["min_score"]
            return np.where(np.isnan(least), -np.inf, least)
        return np.full(batch.size, -np.inf)

    def _factors(self, batch: Batch, where: str) -> tuple[Floats, Floats]:
        """The factor of each event, and in relaxed matching those of its weights."""
        boost, d = np.ones(batch.size), len(self._over)
        if "boost" in self._wished and "boost" in batch:
            given = batch["boost"]
            _refuse(given <= 0, given, "boost", "a number above 0", where)
            boost = np.where(np.isnan(given), 1.0, given)
        factor = np.ones((batch.size, d if self._relaxed and self._boosts else 0))
        for name, factors in self._boosts.items():
            if name in batch:
                found = factors.of(batch[name], where)
                if self._relaxed:
                    factor[:, self._over.index(name)] = found
                else:
                    boost = boost * found
        _refuse(~np.isfinite(boost), boost, "boost", "a product of factors that a float64 holds", where)
        return boost, factor

    def _uncertain(self, batch: Batch) -> tuple[Floats, Floats]:
        """Values and errors (n, d), of width 0 if no error is given."""
        given = [name for name in self._over if self._errors and f"{name}_error" in self._wished]
        given = [name for name in given if f"{name}_error" in batch and name in batch]
        shape = batch.size, len(self._over) if given else 0
        value, error = np.zeros(shape), np.zeros(shape)
        for name in given:
            place = self._over.index(name)
            value[:, place] = np.nan_to_num(batch[name])
            error[:, place] = np.where(np.isnan(batch[name]), 0.0, np.nan_to_num(batch[f"{name}_error"]))
        return value, error

    def _excluded(self, batch: Batch, slots: Slots, groups: Groups, where: str) -> tuple[Ints, Ints]:
        """What each event excludes, ascending: rows, and names as complements of their codes."""
        if "exclude" not in self._wished or "exclude" not in batch:
            return np.zeros(batch.size + 1, np.int64), NO_LONGS
        lists: NameLists = batch["exclude"]
        event = np.repeat(np.arange(batch.size), np.diff(lists.starts))
        keys = [slots.find(lists.ids, where=where, column="exclude").astype(np.int64)]
        if groups.active:
            keys.append(~groups.names.find(lists.ids, where=where, column="exclude").astype(np.int64))
        key, of = np.concatenate(keys), np.tile(event, len(keys))
        # A row that is not there is -1, a name that is not there 0, which may also be a row.
        there = np.concatenate([keys[0] >= 0, *(each < 0 for each in keys[1:])])
        key, of = key[there], of[there]
        order = np.lexsort((key, of))
        return np.searchsorted(of[order], np.arange(batch.size + 1)), key[order]


class _Factors:
    """The factors of the values of one category."""

    def __init__(self, name: str, table: Any) -> None:
        try:
            pairs = (
                list(table.items()) if isinstance(table, Mapping) else [(key, value) for key, value in table]
            )
        except (TypeError, ValueError) as error:
            raise SettingError(
                f'boosts["{name}"] is {shown(table)}', expected="a dict of categories with a factor each"
            ) from error
        self.pairs = [
            [key, schema.number(f'boosts["{name}"]', value, low=0.0, high=1e300, above=True)]
            for key, value in pairs
        ]
        column = Column(name, Kind.CATEGORY, nullable=False)
        rows = {name: [key for key, _ in pairs]}
        found: Names = read.read(rows, [column], where=f'boosts["{name}"]')[name] if pairs else _no_names()
        self._values, self._factor = Slots(), np.array([factor for _, factor in self.pairs])
        self._values.require_new(found.ids, where=f'boosts["{name}"]')
        self._values.add(found.ids)
        self._name = name

    def of(self, values: Names, where: str) -> Floats:
        """The factor of each value, 1 where it has none."""
        factor = np.ones(values.known.size)
        if values.known.any() and self._factor.size:
            rows = self._values.find(values.ids, where=where, column=self._name)
            found = (rows >= 0) & values.known
            factor[found] = self._factor[rows[found]]
        return factor


def _no_names() -> Names:
    return Names(schema.integer_ids(NO_LONGS), np.zeros(0, np.bool_))


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


def _refuse(bad: Bools, values: Floats, column: str, expected: str, where: str) -> None:
    """Refuse the first value that is not as expected."""
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"is {values[row]:g}", where=where, column=column, row=row, expected=expected)
