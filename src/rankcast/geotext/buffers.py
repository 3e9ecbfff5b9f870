"""Result buffers of subscriptions: their k best messages, the candidates to replace them, and net changes.

`ResultBuffers` holds a buffer for each subscription and, for each message, the buffers that hold it (the
reverse lists by which an expiring message finds them). What enters and leaves the k best is logged;
`net_changes` makes the deltas of a batch from the log. See `rankcast.geotext.kernels.skyband` for the
invariant of a buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.kernels import checks, skyband
from rankcast.geotext.kernels.changes import CurrentLists, write_changes, write_replaced
from rankcast.geotext.kernels.message_search import Ages, SearchResults
from rankcast.geotext.kernels.skyband import COST, KMAX, NONE, SKYBAND, Buffers, Links, ResultLog
from rankcast.structures import integrity
from rankcast.structures.arrays import grown, ranges
from rankcast.structures.diff import ChangeColumns, Entries
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Bools, Floats, Ints, Rows

BY_OWNER = ("begin", "size", "room", "keep", "threshold")
REFILLS = {"cost-skyband": COST, "skyband": SKYBAND, "kmax": KMAX, "none": NONE}
SKYBAND_SEARCH = 6  # times k messages are searched for a plain skyband; their scores tell how many it holds
FIRST_SEARCH_COST = 4000  # the estimated work of a search, before there was one
SPARE = 64


class BufferLimits(NamedTuple):
    """How many times k a buffer keeps with kmax, and what share of the k-th score a plain skyband ends at."""

    kmax: int = 3
    share: float = 0.95


class Offers(NamedTuple):
    """Messages offered to subscriptions, in order of arrival; `late`: a newer one arrived before it."""

    owner: Rows
    item: Rows
    score: Floats
    late: Bools


class ResultBuffers:
    """The buffer of each subscription: its k best messages and candidates to follow them.

    - Changing: `expire`, `offer`, `fill`, `trim`, `clear`.
    - Reading: `lists`, `now`, `short`, `keeps`, `wanted`, `seed`, `threshold`.
    - Snapshots: `state`, `restore`, `check_restored`.

    Memory: 28 bytes a subscription and 14 an entry, for a third more entries than are kept; 8 bytes a
    message and 8 a link, of which there are at most twice as many as entries before they are rebuilt.
    """

    def __init__(self, refill: str, limits: BufferLimits) -> None:
        self._refill, self._limits = REFILLS[refill], limits
        none, nothing = np.zeros(0, np.int32), np.zeros(0)
        counts = np.zeros(0, np.uint16)
        self._held = Buffers(np.zeros(0, np.int64), none, none, none, nothing, none, nothing, counts)
        self._links = Links(none, none, none, none, np.array([-1, 0]))
        self._used = 0
        self._searches = self._work = 0

    @property
    def threshold(self) -> Floats:
        """By subscription: the score of the best message that it does not hold."""
        return self._held.threshold

    def make_rows(self, subscriptions: int, messages: int) -> None:
        """Grow the arrays by subscription and by message to at least so many rows."""
        if subscriptions > self._held.begin.size:
            length = max(subscriptions, self._held.begin.size * 9 // 8)
            larger = {name: grown(getattr(self._held, name), length, 0) for name in BY_OWNER}
            self._held = self._held._replace(**larger)
        if messages > self._links.head.size:
            length = max(messages, self._links.head.size * 9 // 8)
            head, count = grown(self._links.head, length, -1), grown(self._links.length, length, 0)
            self._links = self._links._replace(head=head, length=count)

    def buffered(self) -> int:
        """How many entries there are."""
        return int(self._held.size.sum())

    def expire(self, items: Rows, k: Ints, ages: Ages) -> ResultLog:
        """Remove messages that leave the window, the oldest first; returns the log of results."""
        holding = np.sort(skyband.holders(self._links, items))
        log: ResultLog = skyband.expire(self._held, holding, items, k, ages)
        return log

    def offer(self, offers: Offers, k: Ints, ages: Ages, unsure: Bools) -> ResultLog:
        """Offer messages in order; marks in `unsure` which buffers must be refilled. Returns the log."""
        self._reserve_links(offers.owner.size)
        hits = (offers.owner, offers.item, offers.score)
        log: ResultLog = skyband.offer_all(
            self._held, self._links, hits, k, self._refill, ages, offers.late, unsure
        )
        return log

    def rescale(self, factor: float) -> None:
        """Multiply all scores by a factor that is exact; by 0 only thresholds, since all messages leave."""
        if factor:
            self._held.score[:] *= factor
        known = self._held.threshold > -np.inf
        self._held.threshold[known] *= factor

    def short(self, rows: Rows, k: Ints) -> Bools:
        """Which subscriptions hold fewer than k though there may be more [Geo Alg 2]."""
        held = self._held
        return (held.size[rows] < k[rows]) & (held.threshold[rows] > -np.inf)

    def keeps(self, k: Ints, window: int) -> Rows:
        """How many messages buffers are to keep over a window of so many, by what searches cost so far."""
        search = (self._work + FIRST_SEARCH_COST) / (self._searches + 1)
        keep: Rows = skyband.sizes_to_keep(k, self._refill, self._limits.kmax, float(window), search)
        return keep

    def wanted(self, keep: Rows, k: Ints, window: int) -> Rows:
        """How many messages a search must find for buffers that keep `keep`: one more, for the threshold."""
        reach = SKYBAND_SEARCH * k if self._refill == SKYBAND else keep
        return np.minimum(reach, window).astype(np.int32) + np.int32(1)

    def seed(self, rows: Rows, seeded: Bools, wanted: Rows, found: SearchResults) -> None:
        """Write what buffers hold into `found`, where `seeded`, to start a search for `wanted` messages."""
        found.size[:] = np.minimum(self._held.size[rows], wanted) * seeded
        sizes = found.size.astype(np.int64)
        rank = ranges(np.zeros_like(sizes), sizes)
        found.item[np.repeat(np.arange(rows.size), sizes), rank] = self._held.item[
            np.repeat(self._held.begin[rows], sizes) + rank
        ]

    def fill(self, rows: Rows, found: SearchResults, keep: Rows, k: Ints, ages: Ages) -> None:
        """Fill buffers that keep so many with the best messages that a search found for them."""
        self._searches, self._work = self._searches + rows.size, self._work + int(found.work.sum())
        room, share = self._held.room[rows], self._limits.share
        held, threshold, rooms = skyband.plan_fill(found, keep, k, self._refill, share, room)
        self._held.size[rows] = 0
        moved = rooms > 0
        if np.count_nonzero(moved):
            self.clear(rows[moved])
            self._reserve(rows[moved], rooms[moved])
        self._reserve_links(int(held.sum()))
        self._held.keep[rows], self._held.threshold[rows] = keep, threshold
        skyband.fill(self._held, self._links, rows, found, held, k, self._refill, ages)

    def trim(self, rows: Rows, k: Ints, window: int) -> None:
        """Let buffers serve a smaller k: without what k dominate, and cut if that leaves too many."""
        if not rows.size:
            return
        held, sizes, keep = self._held, self._held.size[rows].astype(np.int64), self.keeps(k, window)
        begin, owner = held.begin[rows], np.repeat(np.arange(rows.size), sizes)
        place = ranges(begin, sizes)
        if self._refill >= SKYBAND:
            stays = held.dominators[place] < k[owner]
            place, sizes = place[stays], np.bincount(owner[stays], minlength=rows.size)
        for column in (held.item, held.score, held.dominators):
            column[ranges(begin, sizes)] = column[place]
        long = sizes > self._most(keep)
        held.threshold[rows[long]] = held.score[begin[long] + keep[long]]
        held.size[rows], held.keep[rows] = np.where(long, keep, sizes), keep

    def clear(self, rows: Rows) -> None:
        """Empty buffers and give up their room."""
        self._held.size[rows] = self._held.room[rows] = 0

    def lists(self, rows: Rows, k: Ints) -> Lists:
        """The k best of some subscriptions, in that order."""
        held = self._held
        return Lists(*skyband.gather(rows, held.begin, held.size, k, held.item, held.score))

    def now(self, rows: Rows) -> CurrentLists:
        """Where the results of some subscriptions are."""
        return CurrentLists(self._held.begin[rows], self._held.item)

    def held_by(self, row: int) -> tuple[Rows, Floats]:
        """All entries of one buffer, and their scores."""
        begin = self._held.begin[row]
        part = slice(begin, begin + self._held.size[row])
        return self._held.item[part], self._held.score[part]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How much is used, and the arrays."""
        links = {f"link_{name}": array for name, array in self._links._asdict().items()}
        header = {"used": self._used, "searches": self._searches, "work": self._work}
        return header, {**self._held._asdict(), **links}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        mine = dict(arrays)
        former = mine.get("dominators")
        if former is not None and former.dtype == np.int32:  # as they once were
            mine["dominators"] = np.clip(former, 0, skyband.MAX_DOMINATORS).astype(np.uint16)
        sizes = {
            name: mine[name].size if name in mine else 0
            for name in ("begin", "item", "link_head", "link_owner")
        }
        lengths = dict.fromkeys(BY_OWNER, sizes["begin"]) | dict.fromkeys(
            ("link_head", "link_length"), sizes["link_head"]
        )
        lengths |= dict.fromkeys(("link_owner", "link_next"), sizes["link_owner"]) | {"link_free": 2}
        known = self.state()[1]
        wanted = {
            n: integrity.like(array, length=lengths.get(n, sizes["item"])) for n, array in known.items()
        }
        integrity.forms(mine, wanted)
        self._held = Buffers(**{name: mine[name] for name in Buffers._fields})
        self._links = Links(**{name: mine[f"link_{name}"] for name in Links._fields})
        self._used = integrity.whole(header, "used", 0, sizes["item"])
        counted = {"searches": 0, "work": 0, **header}
        self._searches, self._work = (integrity.whole(counted, name) for name in ("searches", "work"))
        return self

    def check_restored(self, live: Bools, messages: Bools, k: Ints) -> None:
        """Refuse buffers from a snapshot that are not of `live` subscriptions or hold what is no message."""
        held, owners, used = self._held, np.flatnonzero(live), self._used
        integrity.need(owners.max(initial=-1) < held.begin.size, "buffers_begin", "is too short")
        integrity.need(
            np.flatnonzero(messages).max(initial=-1) < self._links.head.size,
            "buffers_link_head",
            "is too short",
        )
        integrity.within(held.keep, 0, 1 << 31, "buffers_keep")
        integrity.need((held.keep[owners] >= k[owners]).all(), "buffers_keep", "is below k")
        integrity.within(held.room, 0, used + 1, "buffers_room")
        integrity.need(
            ((held.size >= 0) & (held.size <= held.room)).all(), "buffers_size", "exceeds the room"
        )
        gone = np.ones(held.size.size, np.bool_)
        gone[owners] = False
        integrity.need(not held.room[gone].any(), "buffers_room", "is of subscriptions that are gone")
        integrity.need(int(held.room.sum()) <= used, "buffers_room", f"adds up to more than {used}")
        integrity.within(held.begin[owners], 0, used + 1, "buffers_begin")
        integrity.within(held.begin[owners] + held.room[owners], 0, used + 1, "buffers_begin")
        place = ranges(held.begin[owners], held.size[owners].astype(np.int64))
        items = held.item[place]
        integrity.within(items, 0, messages.size, "buffers_item")
        integrity.need(messages[items].all(), "buffers_item", "holds messages that are gone")
        integrity.no_nan(held.score[place], "buffers_score")
        integrity.no_nan(held.threshold, "buffers_threshold")
        found = checks.check_links(self._links, live)
        integrity.need(found == checks.FITS, "buffers_link_next", "does not link messages to buffers")

    def _most(self, keep: Rows) -> Rows:
        """How many entries buffers may have before they are cut."""
        return keep if self._refill <= KMAX else keep + keep // 4 + 1

    def _reserve(self, rows: Rows, rooms: Rows) -> None:
        """Give empty buffers of `rows` stretches with so much room."""
        total = int(rooms.sum())
        if self._used + total > self._held.item.size:
            capacity = (int(self._held.room.sum()) + total) * 17 // 16 + SPARE
            entries = (np.zeros(capacity, np.int32), np.zeros(capacity), np.zeros(capacity, np.uint16))
            packed = self._held._replace(item=entries[0], score=entries[1], dominators=entries[2])
            self._used = int(skyband.pack(self._held, packed))
            self._held = packed
        self._held.begin[rows] = self._used + np.cumsum(rooms) - rooms
        self._held.room[rows] = rooms
        self._used += total

    def _reserve_links(self, more: int) -> None:
        """Make room for `more` links."""
        links = self._links
        if links.owner.size - links.free[1] >= more:
            return
        needed = self.buffered() + more
        length = max(links.owner.size, needed * 9 // 8 + SPARE)
        if length > links.owner.size:
            empty = np.zeros(length, np.int32)
            self._links = links = links._replace(owner=empty, next=empty.copy())
        skyband.relink(links, self._held)


def list_changes(rows: Rows, before: Lists, after: Lists) -> Changes:
    """What turns the results of rows into others; all in the order of registration."""
    size = before.item.size + after.item.size + 1
    columns = ChangeColumns(*(np.empty(size, kind) for kind in ("i4", "i1", "i4", "f8", "i8", "f8")))
    size = write_replaced(rows, Entries(*before), Entries(*after), columns)
    return Changes._make(column[:size] for column in columns)


def log_of(lists: Lists, op: int, ages: Ages) -> ResultLog:
    """Lines for all entries of some lists."""
    item = lists.item
    ops = np.full(item.size, op, np.int8)
    return ResultLog(
        lists.subscription, ops, item, lists.score, ages.time[item], ages.arrival[item], lists.score
    )


def net_changes(log: ResultLog, sequence: Ints, buffers: ResultBuffers, ages: Ages) -> Changes:
    """The net change of results of a log, in the order of registration."""
    lines = np.argsort(log.owner, kind="stable").astype(np.int32)
    ends = (
        np.append(np.flatnonzero(np.diff(log.owner[lines])) + 1, lines.size)
        if lines.size
        else np.zeros(0, np.int64)
    )
    owners = log.owner[lines[ends - 1]]
    registered = sequence[owners]
    if (registered[1:] < registered[:-1]).any():
        order = np.argsort(registered)
        sizes = np.diff(ends, prepend=0)[order]
        lines = lines[ranges(ends[order] - sizes, sizes)]
        owners, ends = owners[order], np.cumsum(sizes)
    columns = ChangeColumns(*(np.empty(lines.size, kind) for kind in ("i4", "i1", "i4", "f8", "i8", "f8")))
    size = write_changes(log, lines, ends, owners, buffers.now(owners), ages, columns)
    return Changes._make(column[:size] for column in columns)
