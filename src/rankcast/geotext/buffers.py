"""Result buffers of subscriptions: their k best messages, the candidates to replace them, and net changes.

`ResultBuffers` holds a buffer for each subscription and, for each message, the buffers that hold it (the
reverse lists by which an expiring message finds them). Kernels in `rankcast.geotext.kernels.results` change
them as messages come and go; here they grow, are filled and saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.costs import SearchCosts
from rankcast.geotext.kernels import checks, skyband
from rankcast.geotext.kernels.costs import sizes_to_keep
from rankcast.geotext.kernels.message_search import SearchResults
from rankcast.geotext.kernels.pair_scores import CHUNK, Links
from rankcast.geotext.kernels.postings import Ages
from rankcast.geotext.kernels.results import (
    COST,
    KMAX,
    MAX_DOMINATORS,
    NONE,
    SKYBAND,
    Buffers,
    ResultLog,
)
from rankcast.structures import integrity
from rankcast.structures.arrays import grown, ranges
from rankcast.structures.diff import ChangeColumns, Entries
from rankcast.tables import schema
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Bools, Floats, Ints, Rows

BY_OWNER = ("begin", "size", "room", "keep", "threshold")
REFILLS = {"cost-skyband": COST, "skyband": SKYBAND, "kmax": KMAX, "none": NONE}
SKYBAND_SEARCH = 6  # times k messages are searched for a plain skyband; their scores tell how many it holds
SPARE = 64


class BufferLimits(NamedTuple):
    """How many times k a buffer keeps with kmax, and what share of the k-th score a plain skyband ends at.

    And the price of a search's work, where the cost decides, relative to that of `rankcast.geotext.costs`.
    """

    kmax: int = 3
    share: float = 0.95
    search: float = 1.0


def buffer_limits(tuning: Mapping[str, Any]) -> BufferLimits:
    """The limits that an engine's tuning asks for, checked."""
    return BufferLimits(
        schema.whole("kmax", tuning["kmax"]),
        schema.number("share", tuning["share"], low=0, high=1),
        schema.number("search", tuning["search"], low=0, high=1e6),
    )


class ResultBuffers:
    """The buffer of each subscription: its k best messages and candidates to follow them.

    - Changing: `make_rows`, `reserve_links`, `rescale`, `follow`, `fill`, `trim`, `clear`, `forget`.
    - Reading: `lists`, `keeps`, `wanted`, `seed`, `held_by`.
    - Snapshots: `state`, `restore`, `check_restored`, `complete`.

    Attributes:
        refill: the code of what is kept beyond the k best.
        held, links: for kernels.
        costs: of searches.

    Memory: 32 bytes a subscription and 14 an entry, for a third more entries than are kept; 8 bytes a
    message and 64 for 15 links, of which there are at most twice as many as entries before they are rebuilt.
    """

    def __init__(self, refill: str, limits: BufferLimits, *, plain: bool = False) -> None:
        self.refill, self._limits = REFILLS[refill], limits
        if plain:  # what is dominated stays
            self.refill = min(self.refill, KMAX)
        none, nothing = np.zeros(0, np.int32), np.zeros(0)
        counts = np.zeros(0, np.uint16)
        self.held = Buffers(np.zeros(0, np.int64), none, none, none, nothing, none, nothing, counts)
        self.links = Links(none, none, np.zeros((0, CHUNK + 1), np.int32), np.array([-1, 0]))
        self._unlinked = False  # links of a snapshot of an older version are made anew
        self._used = 0
        self.costs = SearchCosts(limits.search)

    def make_rows(self, subscriptions: int, messages: int) -> None:
        """Grow the arrays by subscription and by message to at least so many rows."""
        if subscriptions > self.held.begin.size:
            length = max(subscriptions, self.held.begin.size * 9 // 8 + 8)
            larger = {name: grown(getattr(self.held, name), length, 0) for name in BY_OWNER}
            self.held = self.held._replace(**larger)
            self.costs.make_rows(length)
        if messages > self.links.head.size:
            length = max(messages, self.links.head.size * 9 // 8 + 8)
            head, count = grown(self.links.head, length, -1), grown(self.links.length, length, 0)
            self.links = self.links._replace(head=head, length=count)

    def follow(self, window: int, k: Ints, used: int) -> None:
        """Let buffers follow what searches cost, after messages have left; see `SearchCosts`."""
        self.costs.follow(window, self.held, k, used)

    def buffered(self) -> int:
        """How many entries there are."""
        return int(self.held.size.sum())

    def rescale(self, factor: float) -> None:
        """Multiply all scores by a factor that is exact; by 0 only thresholds, since all messages leave."""
        if factor:
            self.held.score[:] *= factor
        known = self.held.threshold > -np.inf
        self.held.threshold[known] *= factor

    def keeps(self, rows: Rows, k: Ints) -> Rows:
        """How many messages buffers are to keep, by what a search for them costs."""
        keep: Rows = sizes_to_keep(k, self.refill, self._limits.kmax, self.costs.of(rows))
        return keep

    def wanted(self, keep: Rows, k: Ints, window: int) -> Rows:
        """How many messages a search must find for buffers that keep `keep`: one more, for the threshold."""
        reach = SKYBAND_SEARCH * k if self.refill == SKYBAND else keep
        return np.minimum(reach, window).astype(np.int32) + np.int32(1)

    def seed(self, rows: Rows, seeded: Bools, wanted: Rows, found: SearchResults) -> None:
        """Write what buffers hold into `found`, where `seeded`, to start a search for `wanted` messages."""
        found.size[:] = np.minimum(self.held.size[rows], wanted) * seeded
        sizes = found.size.astype(np.int64)
        rank = ranges(np.zeros_like(sizes), sizes)
        found.item[np.repeat(np.arange(rows.size), sizes), rank] = self.held.item[
            np.repeat(self.held.begin[rows], sizes) + rank
        ]

    def fill(self, rows: Rows, wanted: Rows, found: SearchResults, keep: Rows, k: Ints, ages: Ages) -> None:
        """Fill buffers that keep so many with the best messages that a search for `wanted` found."""
        self.costs.searched(rows, wanted, found)
        room, share = self.held.room[rows], self._limits.share
        held, threshold, rooms = skyband.plan_fill(found, keep, k, self.refill, share, room)
        self.held.size[rows] = 0
        moved = rooms > 0
        if np.count_nonzero(moved):
            self.clear(rows[moved])
            self._reserve(rows[moved], rooms[moved])
        self.reserve_links(int(held.sum()), self.links.head.size)
        self.held.keep[rows], self.held.threshold[rows] = keep, threshold
        skyband.fill(self.held, self.links, rows, found, held, k, self.refill, ages)

    def trim(self, rows: Rows, k: Ints) -> None:
        """Let buffers serve a smaller k: without what k dominate, and cut if that leaves too many."""
        if not rows.size:
            return
        held, sizes, keep = self.held, self.held.size[rows].astype(np.int64), self.keeps(rows, k)
        begin, owner = held.begin[rows], np.repeat(np.arange(rows.size), sizes)
        place = ranges(begin, sizes)
        if self.refill >= SKYBAND:
            stays = held.dominators[place] < k[owner]
            place, sizes = place[stays], np.bincount(owner[stays], minlength=rows.size)
        for column in (held.item, held.score, held.dominators):
            column[ranges(begin, sizes)] = column[place]
        cut, most = skyband.cuts(keep, k, self.refill)
        long = sizes > most
        held.threshold[rows[long]] = held.score[begin[long] + cut[long]]
        held.size[rows], held.keep[rows] = np.where(long, cut, sizes), keep

    def clear(self, rows: Rows) -> None:
        """Empty buffers and give up their room."""
        self.held.size[rows] = self.held.room[rows] = 0

    def forget(self, rows: Rows) -> None:
        """Subscriptions leave: clear their buffers, and what searches for them cost."""
        self.clear(rows)
        self.costs.forget(rows)

    def lists(self, rows: Rows, k: Ints) -> Lists:
        """The k best of some subscriptions, in that order."""
        held = self.held
        return Lists(*skyband.gather(rows, held.begin, held.size, k, held.item, held.score))

    def held_by(self, row: int) -> tuple[Rows, Floats]:
        """All entries of one buffer, and their scores."""
        begin = self.held.begin[row]
        part = slice(begin, begin + self.held.size[row])
        return self.held.item[part], self.held.score[part]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How much is used, and the arrays."""
        links = {f"link_{name}": array for name, array in self.links._asdict().items()}
        return {"used": self._used, **self.costs.header()}, {
            **self.held._asdict(),
            **links,
            "work": self.costs.work,
        }

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        mine = dict(arrays)
        former = mine.get("dominators")
        if former is not None and former.dtype == np.int32:  # as they once were
            mine["dominators"] = np.clip(former, 0, MAX_DOMINATORS).astype(np.uint16)
        mine.setdefault(
            "work", np.zeros_like(mine["keep"]) if "keep" in mine else self.costs.work
        )  # once none
        sizes = {name: mine[name].size if name in mine else 0 for name in ("begin", "item", "link_head")}
        lengths = dict.fromkeys((*BY_OWNER, "work"), sizes["begin"]) | dict.fromkeys(
            ("link_head", "link_length"), sizes["link_head"]
        )
        self._unlinked = mine.pop("link_next", None) is not None  # once each was a link of a chain
        if self._unlinked:
            mine |= {"link_owner": np.zeros((0, CHUNK + 1), np.int32), "link_free": np.array([-1, 0])}
        lengths["link_free"] = 2
        known = self.state()[1]
        wanted = {
            n: integrity.like(array, length=lengths.get(n, sizes["item"])) for n, array in known.items()
        }
        integrity.forms(mine, {**wanted, "link_owner": integrity.like(known["link_owner"])})
        self.held = Buffers(**{name: mine[name] for name in Buffers._fields})
        self.links = Links(**{name: mine[f"link_{name}"] for name in Links._fields})
        self._used = integrity.whole(header, "used", 0, sizes["item"])
        self.costs.restore(header, mine["work"])
        return self

    def check_restored(self, live: Bools, messages: Bools, k: Ints) -> None:
        """Refuse buffers from a snapshot that are not of `live` subscriptions or hold what is no message."""
        held, owners, used = self.held, np.flatnonzero(live), self._used
        integrity.need(owners.max(initial=-1) < held.begin.size, "buffers_begin", "is too short")
        integrity.need(
            np.flatnonzero(messages).max(initial=-1) < self.links.head.size,
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
        found = checks.FITS if self._unlinked else checks.check_links(self.links, live)
        integrity.need(found == checks.FITS, "buffers_link_owner", "does not link messages to buffers")

    def _reserve(self, rows: Rows, rooms: Rows) -> None:
        """Give empty buffers of `rows` stretches with so much room."""
        total = int(rooms.sum())
        if self._used + total > self.held.item.size:
            capacity = (int(self.held.room.sum()) + total) * 17 // 16 + SPARE
            entries = (np.zeros(capacity, np.int32), np.zeros(capacity), np.zeros(capacity, np.uint16))
            packed = self.held._replace(item=entries[0], score=entries[1], dominators=entries[2])
            self._used = int(skyband.pack(self.held, packed))
            self.held = packed
        self.held.begin[rows] = self._used + np.cumsum(rooms) - rooms
        self.held.room[rows] = rooms
        self._used += total

    def reserve_links(self, more: int, items: int) -> None:
        """Make room for `more` links of so many items at most."""
        links, more = self.links, more // CHUNK + min(more, items)
        used, room = int(links.free[1]), links.owner.shape[0]
        if room - used >= more:
            return
        needed = skyband.count_chunks(links.head.size, self.held)
        anew = not used or used > 2 * needed  # the first time, too: no kernel is left to be compiled later
        length = max(room, ((needed if anew else used) + more) * 9 // 8 + SPARE)
        if length > room:
            self.links = links = links._replace(owner=grown(links.owner, length, 0))
            skyband.free_chunks(links.owner, links.free, room)
        if anew:
            skyband.relink(links, self.held)

    def complete(self) -> None:
        """Make links that a snapshot of an older version has in another form."""
        if self._unlinked:
            length = skyband.count_chunks(self.links.head.size, self.held) + SPARE
            self.links = self.links._replace(owner=np.zeros((length, CHUNK + 1), np.int32))
            skyband.relink(self.links, self.held)
            self._unlinked = False


def list_changes(rows: Rows, before: Lists, after: Lists) -> Changes:
    """What turns the results of rows into others; all in the order of registration."""
    size = before.item.size + after.item.size + 1
    columns = ChangeColumns(*(np.empty(size, kind) for kind in ("i4", "i1", "i4", "f8", "i8", "f8")))
    size = skyband.write_replaced(rows, Entries(*before), Entries(*after), columns)
    return Changes._make(column[:size] for column in columns)


def empty_log(room: int, decays: bool) -> ResultLog:
    """A log with room for so many lines; scores are what is reported, unless they decay."""
    owner, item, score = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room)
    time, arrival = np.empty(room, np.int64), np.empty(room, np.int64)
    return ResultLog(
        owner, np.empty(room, np.int8), item, score, time, arrival, np.empty(room) if decays else score
    )


def longer_log(log: ResultLog, used: int, more: int, decays: bool) -> ResultLog:
    """A log with the lines that are used, and room for more."""
    longer = empty_log((used + more) * 5 // 4 + SPARE, decays)
    for name in ResultLog._fields:
        getattr(longer, name)[:used] = getattr(log, name)[:used]
    return longer
