"""Forwarded boxes that are told as one: several replaced by a box that contains them (`merge`).

Rows that neighbours must know are divided into groups. A group is told under the id of one of its rows, its
leader, with its hull, the smallest box that contains all of its boxes; a group of one is told as it is. At
most a share `bound` of a hull may lie in no box of its group. That share is bounded from above: the boxes of
two groups fill at least what each fills, less what their hulls have in common. So it is never larger than
said, and often smaller.

Shares are products of the ratios of lengths over attributes in which two hulls differ, so no unit of measure
counts, and attributes in which they are alike do not, bounded or not. Hulls that differ in an attribute in
which one of them is unbounded are merged only if one contains the other. Of a category a hull accepts what
any of its boxes accepts, and its length is the number of codes (`hull_sets`).

A box that becomes known joins the group whose hull it fills up best, as long as the bound allows, and the
hull that results looks for further ones in the same way. A group that loses a box is taken apart, and its
other boxes look for groups as if they were new.

Cost: a pass over all hulls for each box that becomes known or is left by its group; two indexes to publish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.covering.hull_sets import EVERYTHING, HullSets, common_codes, entries_of
from rankcast.covering.index import ContainmentIndex
from rankcast.covering.kernels import index as index_kernels
from rankcast.covering.kernels.calls import COVER, DROP, FORWARD, WITHDRAW
from rankcast.covering.kernels.containment import FORWARDED, QueryBoxes, Subscriptions
from rankcast.covering.table_boxes import TableBoxes
from rankcast.errors import SettingError, shown
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.structures.code_sets import NO_SETS, CodeSets
from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import Floats, Ints, Rows

NONE = -1
ROUNDING = 1e-12  # of shares


def known_merge(merge: object) -> float | None:
    """The setting `merge`: a share, or None."""
    if merge is None:
        return None
    if isinstance(merge, bool) or not isinstance(merge, int | float) or not 0 <= merge < 1:
        raise SettingError(
            f"merge is {shown(merge)}",
            expected="a number from 0, below 1, or None",
            detail="The share of a merged box that none of the boxes in it fills, at most.",
        )
    return float(merge)


class Told(NamedTuple):
    """How what neighbours know has changed: rows to tell with their hull, and rows to withdraw."""

    forward: list[int]
    withdraw: list[int]


class Hull(NamedTuple):
    """The box of a group, what it accepts of categories, and the share of it that is filled, at least."""

    lo: Floats
    hi: Floats
    entries: Rows
    fill: float

    def copied(self) -> Hull:
        """The hull in its current form."""
        return Hull(self.lo.copy(), self.hi.copy(), self.entries.copy(), self.fill)

    def same(self, other: Hull) -> bool:
        """Whether another one contains the same."""
        ends = np.array_equal(self.lo, other.lo) and np.array_equal(self.hi, other.hi)
        return bool(ends and np.array_equal(self.entries, other.entries))


class Merging:
    """The groups.

    - Changing: `update` after every change of what is forwarded, `actions` with what that comes to.
    - Asking: `leaders`, `leader_of`, `hulls`, `members`, `stab`.
    - Keeping: `state`, `restore`, `check_restored`, `complete`.
    """

    def __init__(self, bound: float, held: TableBoxes) -> None:
        self._bound, self._numbers, attributes = bound, held.places, held.width
        self._sets = HullSets(held.hierarchies)  # by leader
        self.false_traffic = 0
        self._group = np.full(0, NONE, np.int32)  # by row: the leader of its group
        self._fill = np.zeros(0)  # by leader: the share of its hull that is filled, at least
        self._lo, self._hi = np.zeros((2, 0, attributes))  # by leader: its hull
        self._members: dict[int, list[int]] = {}
        self._index = ContainmentIndex("kdtree", attributes)
        self._saved: Mapping[str, NDArray[Any]] = {}
        self._before: dict[int, Hull | None] = {}  # in a call: the hulls that have changed

    def update(self, subs: Subscriptions, touched: Iterable[int], moved: Iterable[int] = ()) -> Told:
        """Bring the groups up to date: `touched` rows have another status, or are `moved` to another box."""
        self._reserve(subs.status.size)
        self._before, known = {}, subs.status >= FORWARDED
        changed, again = list(dict.fromkeys([*touched, *moved])), set(moved)
        waiting: set[int] = set()
        for row in changed:
            if self._group[row] != NONE and (not known[row] or row in again):
                waiting.update(self._take_apart(subs, int(self._group[row])))
        waiting.update(changed)
        for row in sorted(waiting, key=lambda row: int(subs.sequence[row])):
            if known[row] and self._group[row] == NONE:
                self._add(subs, row)
        return self._told(subs)

    def actions(
        self, subs: Subscriptions, given: Rows, touched: Rows, moved: Rows, covered_by: Rows | None
    ) -> tuple[Rows, NDArray[np.int8], Rows]:
        """Update, and what that comes to: rows, their actions, and who covers each or -1.

        First the rows that were given, of which `covered_by` names who covers them, or which go; then others.
        """
        was_told = np.isin(given, self.leaders(given))
        told = self.update(subs, touched.tolist(), moved.tolist())
        leader = self.leader_of(given)
        if covered_by is None:
            action, above = np.where(was_told, WITHDRAW, DROP), np.full(given.size, NONE)
        else:
            action = np.where(leader == given, FORWARD, np.where(was_told, WITHDRAW, COVER))
            above = np.where(leader == given, NONE, np.where(leader >= 0, leader, covered_by))
        mine, forward, withdraw = set(given.tolist()), *told
        more = [(row, FORWARD) for row in forward] + [(row, WITHDRAW) for row in withdraw]
        others = np.array([each for each in more if each[0] not in mine], np.int32).reshape(-1, 2)
        by = self.leader_of(others[:, 0])
        return (
            np.concatenate([given, others[:, 0]]),
            np.concatenate([action, others[:, 1]]).astype(np.int8),
            np.concatenate([above, np.where(by == others[:, 0], NONE, by)]).astype(np.int32),
        )

    def leaders(self, rows: Rows) -> Rows:
        """Those of rows that are told."""
        found: Rows = rows[self.leader_of(rows) == rows]
        return found

    def leader_of(self, rows: Rows) -> Rows:
        """The leaders of the groups of rows, -1 where a row is in none."""
        found, there = np.full(rows.size, NONE, np.int32), rows < self._group.size
        found[there] = self._group[rows[there]]
        return found

    def hulls(self, rows: Rows) -> tuple[Boxes, CodeSets]:
        """The hulls of the groups of leaders, and by row what they accept of categories."""
        return Boxes(self._lo[rows], self._hi[rows]), self._told_sets()

    def members(self, row: int) -> list[int]:
        """The rows of the group of a leader."""
        return self._members[row]

    def stab(
        self, subs: Subscriptions, boxes: QueryBoxes, rows: Rows, ends: Ints
    ) -> tuple[Rows, NDArray[np.int64]]:
        """Leaders whose hulls contain each box, as registered, and where each list ends.

        `rows` and `ends` are the same of the known rows themselves: a hull that contains an event which none
        of its boxes contains is false traffic, and counted.
        """
        told, told_ends = index_kernels.stab(self._index.index, self._told_as(subs), boxes)
        wanted = _keys(self._group[rows], ends, subs.status.size)
        self.false_traffic += told.size - int(np.isin(_keys(told, told_ends, subs.status.size), wanted).sum())
        return told, told_ends

    def _told_as(self, subs: Subscriptions) -> Subscriptions:
        return Subscriptions(self._lo, self._hi, subs.status, subs.sequence, self._told_sets())

    def _told_sets(self) -> CodeSets:
        return self._sets.arrays() if len(self._sets) else NO_SETS

    def _add(self, subs: Subscriptions, row: int) -> None:
        """Let a row found a group, and that group join others as long as the bound allows."""
        hull, members, leader = self._alone(subs, row), [row], row
        while self._members:
            others = np.fromiter(self._members, np.int64, len(self._members))
            fills = self._fill_with(others, hull)
            best = fills.max()
            ties = others[fills == best]
            other = int(ties[np.argmin(subs.sequence[ties])])
            wider = self._joined(self._hull(other), hull, float(best))
            if 1.0 - wider.fill > self._bound + ROUNDING:
                break
            hull = wider
            # A row that neighbours know already leads on, of two such the one registered first.
            if leader == row or subs.sequence[other] < subs.sequence[leader]:
                leader = other
            members = self._take_apart(subs, other) + members
        self._lead(leader, hull, members)
        self._note(leader, None)
        self._index.insert_rows(self._told_as(subs), np.array([leader], np.int32))

    def _alone(self, subs: Subscriptions, row: int) -> Hull:
        """The hull of a row that is in no group."""
        entries = entries_of(subs.sets, row) if len(self._sets) else NO_SETS.entries
        return Hull(subs.lo[row].copy(), subs.hi[row].copy(), entries, 1.0)

    def _hull(self, leader: int) -> Hull:
        entries = self._sets.of(leader) if len(self._sets) else NO_SETS.entries
        return Hull(self._lo[leader], self._hi[leader], entries, float(self._fill[leader]))

    def _joined(self, one: Hull, other: Hull, fill: float) -> Hull:
        """The hull of two hulls, if boxes fill so much of it, or less for what names cannot leave out."""
        lo, hi = np.minimum(one.lo, other.lo), np.maximum(one.hi, other.hi)
        if not len(self._sets):
            return Hull(lo, hi, one.entries, fill)
        entries = self._sets.joined(one.entries, other.entries)
        number = self._sets.ends(entries)[2]
        common = common_codes(one.entries, other.entries, len(self._sets))
        counts = [np.minimum(each.hi[-number.size :], EVERYTHING) for each in (one, other)]
        hi[-number.size :] = number
        with np.errstate(invalid="ignore"):
            parts = (counts[0] + counts[1] - common) / np.minimum(number, EVERYTHING)
        return Hull(lo, hi, entries, fill * float(np.nan_to_num(parts, nan=1.0).prod()))

    def _lead(self, leader: int, hull: Hull, members: list[int]) -> None:
        """Let rows be a group."""
        self._lo[leader], self._hi[leader], self._fill[leader] = hull.lo, hull.hi, hull.fill
        if len(self._sets):
            self._sets.put(leader, hull.entries)
        self._members[leader], self._group[members] = members, leader

    def _fill_with(self, others: Ints, hull: Hull) -> Floats:
        """The share that would be filled, at least, of the hull of each other group and of a hull."""
        lo, hi, fill = hull.lo[self._numbers], hull.hi[self._numbers], hull.fill
        low, high = self._lo[others][:, self._numbers], self._hi[others][:, self._numbers]
        shared = np.maximum(np.minimum(high, hi) - np.maximum(low, lo), 0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            lengths = [high - low, np.broadcast_to(hi - lo, low.shape), shared]
            whole = np.maximum(high, hi) - np.minimum(low, lo)
        alike = (low == lo) & (high == hi)
        inside = ((low <= lo) & (hi <= high)).all(axis=1)
        around = ((lo <= low) & (high <= hi)).all(axis=1)
        if len(self._sets):
            their, own = (
                np.minimum(each[..., -len(self._sets) :], EVERYTHING) for each in (self._hi[others], hull.hi)
            )
            common = self._sets.common(others, hull.entries)
            counts = their, np.broadcast_to(own, their.shape), common
            lengths = [np.hstack(pair) for pair in zip(lengths, counts, strict=True)]
            whole = np.hstack([whole, their + own - common])
            alike = np.hstack([alike, (their == own) & (own == common)])
            inside &= (common == own).all(axis=1)
            around &= (common == their).all(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = [np.where(alike, 1.0, each / whole).prod(axis=1) for each in lengths]
            filled = self._fill[others] * shares[0] + fill * shares[1] - shares[2]
        # A box in a hull, or a hull in a box, leaves what was filled as it is, whatever rounding says.
        filled = np.where(inside, np.fmax(filled, self._fill[others]), filled)
        filled = np.where(around, np.fmax(filled, fill), filled)
        share: Floats = np.nan_to_num(np.minimum(filled, 1.0), nan=0.0, neginf=0.0)
        return share

    def _take_apart(self, subs: Subscriptions, leader: int) -> list[int]:
        """End a group; returns its rows, which are in none then."""
        index_kernels.remove(self._index.index, self._told_as(subs), leader)
        self._note(leader, self._hull(leader).copied())
        members = self._members.pop(leader)
        self._group[members] = NONE
        return members

    def _note(self, leader: int, hull: Hull | None) -> None:
        """Remember the hull that neighbours knew of a leader when the call began; None: they knew none."""
        self._before.setdefault(leader, hull)

    def _told(self, subs: Subscriptions) -> Told:
        """What must be told after a call, as registered."""
        forward, withdraw = [], []
        for row in sorted(self._before, key=lambda row: int(subs.sequence[row])):
            was = self._before[row]
            if row not in self._members:
                if was is not None:
                    withdraw.append(row)
            elif was is None or not was.same(self._hull(row)):
                forward.append(row)
        return Told(forward, withdraw)

    def _reserve(self, rows: int) -> None:
        if rows > self._group.size:
            self._group, self._fill = grown(self._group, rows, NONE), grown(self._fill, rows)
            self._lo, self._hi = grown(self._lo, rows), grown(self._hi, rows)
            self._sets.reserve(rows)

    # Keeping

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The groups, in the order in which boxes have joined them."""
        leaders = np.fromiter(self._members, np.int32, len(self._members))
        sizes = np.fromiter((len(each) for each in self._members.values()), np.int32, len(self._members))
        rows = np.fromiter((row for each in self._members.values() for row in each), np.int32)
        arrays: dict[str, NDArray[Any]] = {
            "leader": leaders,
            "size": sizes,
            "member": rows,
            "fill": self._fill[leaders],
        }
        return {"false_traffic": self.false_traffic}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned; `complete` makes groups of it."""
        self.false_traffic = integrity.whole(header, "false_traffic")
        groups = len(arrays["leader"]) if "leader" in arrays and arrays["leader"].ndim else 0
        whole, share = np.dtype(np.int32), np.dtype(np.float64)
        forms: dict[str, integrity.Form] = {"leader": (whole, (groups,)), "size": (whole, (groups,))}
        integrity.forms(arrays, {**forms, "member": (whole, (None,)), "fill": (share, (groups,))})
        self._saved = arrays
        return self

    def check_restored(self, subs: Subscriptions) -> None:
        """Refuse groups from a snapshot that are not those of the known rows."""
        leader, size, member, fill = (self._saved[name] for name in ("leader", "size", "member", "fill"))
        integrity.within(size, 1, member.size + 1, "size")
        integrity.need(int(size.sum(dtype=np.int64)) == member.size, "size", "is not that of groups")
        known = np.flatnonzero(subs.status >= FORWARDED)
        integrity.need(np.array_equal(np.sort(member), known), "member", "is not what is forwarded")
        group = np.full(subs.status.size, NONE)
        group[member] = np.repeat(np.arange(size.size), size)
        integrity.within(leader, 0, group.size, "leader")
        own = np.array_equal(group[leader], np.arange(size.size))
        integrity.need(own, "leader", "is not one of each group")
        integrity.need(
            ((1.0 - fill <= self._bound + ROUNDING) & (fill <= 1.0)).all(), "fill", "is out of bounds"
        )

    def complete(self, subs: Subscriptions) -> None:
        """Make the groups, and what follows from them, of what `restore` was given."""
        saved = self._saved
        self._reserve(subs.status.size)
        parts = np.split(saved["member"], np.cumsum(saved["size"])[:-1]) if saved["leader"].size else []
        for leader, part, fill in zip(saved["leader"].tolist(), parts, saved["fill"], strict=True):
            hull = self._around(subs, part.tolist())
            self._lead(leader, hull._replace(fill=float(fill)), part.tolist())
        self._saved = {}
        self._index.insert_rows(self._told_as(subs), np.fromiter(self._members, np.int32, len(self._members)))

    def _around(self, subs: Subscriptions, members: list[int]) -> Hull:
        """The hull of rows."""
        hull = self._alone(subs, members[0])
        for row in members[1:]:
            hull = self._joined(hull, self._alone(subs, row), 1.0)
        return hull

    def check(self, subs: Subscriptions) -> None:
        """Assert that groups are those of the known rows, and hulls are tight and told once."""
        for leader, members in self._members.items():
            assert leader in members
            assert (self._group[members] == leader).all()
            assert self._hull(leader).same(self._around(subs, members))
        rows = sorted(row for members in self._members.values() for row in members)
        assert rows == np.flatnonzero(subs.status >= FORWARDED).tolist()
        self._index.check(self._told_as(subs))
        assert self._index.rows().tolist() == sorted(self._members)


def _keys(rows: Rows, ends: Ints, size: int) -> Ints:
    """A number for each pair of a box and a row, of lists as `stab` gives them."""
    places = np.repeat(np.arange(ends.size), np.diff(ends, prepend=0))
    keys: Ints = places * size + rows
    return keys
