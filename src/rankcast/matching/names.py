"""Names that subscriptions share: their `Owners`, and the `Groups` that match as one.

Both store a code of a `Dictionary` by row. A row has an owner or none (-1). Once a row has had a group, every
row has a name: its group, or its own id if it has none; rows of one name are alternatives. Until then groups
cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import InputError
from rankcast.structures import hashing, integrity
from rankcast.structures.dictionary import Dictionary
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.tables.schema import Bools, Column, Ids, Kind, Names, Rows

OWNER = Column("owner", Kind.CATEGORY, required=False, nullable=True)
GROUP = Column("group", Kind.NAME, required=False, nullable=True)
NONE = -1


class Owners:
    """A name by row, or none; unused names are forgotten."""

    def __init__(self, *, ordered: bool = False) -> None:
        self.names = Dictionary(ordered=ordered)
        self.code = np.empty(0, np.int32)

    def check(self, names: Names, *, column: str) -> None:
        """Refuse names of another kind than the existing ones."""
        if names.known.any():
            self.names.find(names.ids, where="subscriptions", column=column)

    def write(self, rows: Rows, names: Names, capacity: int) -> None:
        """Give rows their names; rows without a name lose their old one."""
        self._reserve(capacity)
        before = self.code[rows]
        known = np.flatnonzero(names.known)
        self.code[rows] = NONE
        if known.size:
            self.code[rows[known]] = self.names.intern(select(names.ids, known))
        self.names.drop(before[before >= 0])

    def remove(self, rows: Rows) -> None:
        """Forget the names of rows."""
        rows = rows[rows < self.code.size]
        before = self.code[rows]
        self.names.drop(before[before >= 0])
        self.code[rows] = NONE

    def settle(self) -> None:
        """End a call: unused codes may be reused."""
        self.names.settle()

    def parts(self, name: str) -> dict[str, Any]:
        """What is kept."""
        return {name: self, f"{name}_names": self.names}

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state (none) and the arrays."""
        return {}, {"code": self.code}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        integrity.forms(arrays, {"code": (np.int32, (None,))})
        self.code = arrays["code"]
        return self

    def check_restored(self, wanted: Bools) -> None:
        """Refuse names from a snapshot that do not belong to the `wanted` rows."""
        has = np.zeros(self.code.size, np.bool_)
        has[: wanted.size] = wanted[: self.code.size]
        integrity.within(self.code, NONE, self.names.values["uses"].size, "code")
        integrity.need((self.code[~has] == NONE).all(), "code", "is of rows that are not live")
        self.names.check_restored(self.code[self.code >= 0], "code")

    def _reserve(self, rows: int) -> None:
        if rows > self.code.size:
            longer = np.full(rows, NONE, np.int32)
            longer[: self.code.size] = self.code
            self.code = longer


class Groups(Owners):
    """The name of every row, its group or its id, and its order among names for ties (`tie`).

    `active` from the first group on.
    """

    def __init__(self) -> None:
        super().__init__(ordered=True)
        self.active = False
        self.tie = np.empty(0, np.int64)
        self.owner = np.empty(0, np.int32)  # by name, what all its rows have; made anew from them

    def read(self, names: Names, ids: Ids) -> None:
        """Refuse groups of another kind than the ids of subscriptions."""
        if names.known.any() and ids.kind != names.ids.kind:
            words = {"int": "integers", "str": "strings"}
            raise InputError(
                f"holds {words[names.ids.kind]}",
                where="subscriptions",
                column=GROUP.name,
                row=int(np.argmax(names.known)),
                expected=f"{words[ids.kind]}, as ids are",
            )

    def follow(self, slots: Slots, rows: Rows, names: Names | None, *, fresh: bool) -> None:
        """Name rows that are new (`fresh`) or live; without `names` live ones keep theirs."""
        if not self.active:
            if names is None or not names.known.any():
                return
            self.active = True
            live = slots.live()
            self._name(slots, live, slots.ids_at(live))
        if names is not None or fresh:
            own = slots.ids_at(rows)
            self._name(slots, rows, own if names is None else _filled(names, own))

    def _name(self, slots: Slots, rows: Rows, ids: Ids) -> None:
        before = self.names.values.relabelled
        self.write(rows, Names(ids, np.ones(rows.size, np.bool_)), slots["code"].size)
        if self.names.values.relabelled != before:
            rows = np.flatnonzero(self.code >= 0).astype(np.int32)
        self.tie[rows] = self.names.values.label[self.code[rows]]

    def _reserve(self, rows: int) -> None:
        super()._reserve(rows)
        if rows > self.tie.size:
            longer = np.zeros(rows, np.int64)
            longer[: self.tie.size] = self.tie
            self.tie = longer

    def note(self, rows: Rows, owners: Owners) -> None:
        """Remember the owner of each name."""
        if self.active:
            size = self.names.values["uses"].size
            if size > self.owner.size:
                self.owner = np.concatenate([self.owner, np.full(size - self.owner.size, NONE, np.int32)])
            mine = np.full(rows.size, NONE, np.int32)
            inside = rows < owners.code.size
            mine[inside] = owners.code[rows[inside]]
            self.owner[self.code[rows]] = mine

    def take(self, rows: Rows) -> Any:
        """The names of rows as an Arrow array."""
        return self.names.values.take(self.code[rows])

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        return {"active": self.active}, {"code": self.code, "tie": self.tie}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        integrity.need(type(header["active"]) is bool, "active", "is no truth")
        size = len(arrays["code"]) if "code" in arrays and arrays["code"].ndim else 0
        integrity.forms(arrays, {"code": (np.int32, (size,)), "tie": (np.int64, (size,))})
        self.active, self.code, self.tie = header["active"], arrays["code"], arrays["tie"]
        return self

    def check_restored(self, wanted: Bools) -> None:
        """Refuse names from a snapshot that do not belong to the `wanted` rows."""
        super().check_restored(wanted)
        there = self.code >= 0
        if self.active:
            fits = there.size >= wanted.size or not wanted[there.size :].any()
            integrity.need(fits and there[wanted[: there.size]].all(), "code", "leaves a live row out")
            label = self.names.values.label[self.code[there]]
            integrity.need(np.array_equal(self.tie[there], label), "tie", "is not in the order of names")
        else:
            integrity.need(not there.any(), "code", "names groups where there are none")


def _filled(names: Names, own: Ids) -> Ids:
    """Names, or ids where there is no name."""
    if not names.known.any():
        return own
    one, other = names.ids, own
    both = Ids(
        own.kind,
        np.concatenate([one.values, other.values]),
        np.concatenate([one.offsets, other.offsets[1:] + one.offsets[-1]]),
        np.concatenate([one.data, other.data]),
    )
    return select(both, np.arange(own.size) + np.where(names.known, 0, own.size))


def refuse_mixed(
    slots: Slots,
    groups: Groups,
    owners: Owners,
    ids: Ids,
    rows: Rows | None,
    group: Names | None,
    owner: Names | None,
) -> None:
    """Refuse rows that would give one group two owners: then the limit per owner would be ambiguous.

    `rows` are those of live subscriptions, None for new ones; `group` and `owner` are None if they stay.
    """
    known = group is not None and bool(group.known.any())
    if not (groups.active or known) or not ids.size:
        return
    held = np.full(ids.size, NONE, np.int32) if rows is None else rows
    if group is None and rows is not None:
        named = groups.names.values.ids_at(groups.code[rows])
    else:
        named = ids if group is None else _filled(group, ids)
    number, first = hashing.distinct(keys_of(named))
    mine = _owners_of(owners, held, owner)
    other = _elsewhere(slots, groups, owners, named, held)
    wrong = (mine != mine[first[number]]) | ((other != _NOBODY) & (mine != other))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"is not that of the other rows of group {show(named, row)}",
            where="subscriptions",
            column=OWNER.name,
            row=row,
            expected="one owner a group",
        )


_NOBODY = np.iinfo(np.int64).min


def _owners_of(owners: Owners, rows: Rows, given: Names | None) -> NDArray[np.int64]:
    """The owner of each row as a number: its code, -1 for none, below that for a new one."""
    if given is None:
        found = np.full(rows.size, NONE, np.int64)
        inside = (rows >= 0) & (rows < owners.code.size)
        found[inside] = owners.code[rows[inside]]
        return found
    if not given.known.any():
        return np.full(given.known.size, NONE, np.int64)
    codes = owners.names.find(given.ids, where="subscriptions", column=OWNER.name).astype(np.int64)
    fresh = hashing.distinct(keys_of(given.ids))[0].astype(np.int64)
    return np.where(given.known, np.where(codes >= 0, codes, -2 - fresh), NONE)


def _elsewhere(slots: Slots, groups: Groups, owners: Owners, named: Ids, held: Rows) -> NDArray[np.int64]:
    """The owner of the live rows of each name that are not among `held`, if there are any."""
    found = np.full(named.size, _NOBODY, np.int64)
    if not groups.active:
        rows = slots.find(named, where="")
        there = (rows >= 0) & ~np.isin(rows, held)
        found[there] = _owners_of(owners, rows[there], None)
        return found
    codes = groups.names.values.find(named, where="")
    moving, times = np.unique(groups.code[held[held >= 0]], return_counts=True)
    uses = groups.names.values["uses"].copy() if moving.size else groups.names.values["uses"]
    uses[moving] -= times
    there = (codes >= 0) & (uses[codes] > 0)
    found[there] = groups.owner[codes[there]]
    return found
