"""Conditions of subscriptions besides boxes and scores, stored by row: sets of categories, groups, owners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rankcast.matching.names import GROUP, OWNER, Groups, Owners, refuse_mixed
from rankcast.structures.ids import Slots
from rankcast.tables.boxes import Hierarchy
from rankcast.tables.categories import CategorySets, Given
from rankcast.tables.schema import Batch, Bools, Column, Names, Rows


class Saying(NamedTuple):
    """The conditions in a batch of subscriptions; None for a column that is not given."""

    sets: list[Given]
    group: Names | None
    owner: Names | None


class Said:
    """All conditions of live subscriptions; `per_owner` None: owners are not stored."""

    def __init__(
        self, over: list[str], hierarchies: Mapping[str, Hierarchy | None], per_owner: int | None
    ) -> None:
        self.sets, self.groups, self.owners = CategorySets(over, hierarchies), Groups(), Owners()
        self._parts = (self.sets, self.groups, self.owners)
        self._limited = per_owner is not None

    def columns(self) -> list[Column]:
        """The columns of subscriptions."""
        return [*self.sets.columns(), GROUP, OWNER]

    def read(self, slots: Slots, batch: Batch, rows: Rows | None) -> Saying:
        """The conditions of new subscriptions, or of live `rows`; refuses what does not fit."""
        group = batch.apart.get("group")
        owner = batch.apart.get("owner") if self._limited else None
        if group is not None:
            self.groups.read(group, batch.ids)
        if owner is not None:
            self.owners.check(owner, column="owner")
        if self._limited:
            refuse_mixed(slots, self.groups, self.owners, batch.ids, rows, group, owner)
        sets = self.sets.read(batch, where="subscriptions") if self.sets.names else []
        return Saying(sets, group, owner)

    def write(self, slots: Slots, rows: Rows, said: Saying, *, fresh: bool) -> None:
        """Store the conditions of new (`fresh`) or live rows, and give them the boxes of their sets."""
        capacity = slots["code"].size
        if said.sets:
            self.sets.write(rows, said.sets, capacity=capacity)
            place = rows[:, None], np.array(self.sets.places)
            slots["lo"][place], slots["hi"][place] = self.sets.hulls(rows)
        if said.owner is not None:
            self.owners.write(rows, said.owner, capacity)
        grouped = self.groups.active
        self.groups.follow(slots, rows, said.group, fresh=fresh)
        if self._limited:  # the first group names all that are live, and so do their owners
            self.groups.note(rows if grouped else slots.live(), self.owners)

    def remove(self, rows: Rows) -> None:
        """Delete the conditions of rows."""
        if self._anything:
            for part in self._parts:
                part.remove(rows)

    def settle(self) -> None:
        """End a call: unused codes may be reused."""
        if self._anything:
            for part in self._parts:
                part.settle()

    @property
    def _anything(self) -> bool:
        """Whether any subscription may have such a condition."""
        return self.groups.active or self._limited or bool(self.sets.names)

    def parts(self) -> dict[str, Any]:
        """The stored parts."""
        owners = self.owners.parts("owner") if self._limited else {}
        return {**self.groups.parts("group"), **owners, **(self.sets.parts() if self.sets.names else {})}

    def check_restored(self, wanted: Bools) -> None:
        """Refuse what does not belong to the `wanted` rows; see `integrity`."""
        for part in self._parts:
            part.check_restored(wanted)
