"""Results of `GeoTextTopK` kept live: dissemination by bounds, buffers for expiry, search to fill them anew.

A batch lets expired messages go first, then takes arrivals in, and fills at its end what has fewer than k
left; what enters and leaves results meanwhile is logged, and its net told.

What is told of live results of `GeoTextTopK`: net changes, what keeps a message out, bytes by part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.buffers import Offers, ResultBuffers
from rankcast.geotext.kernels.bounds import Frame, alikeness, best_score
from rankcast.geotext.kernels.buffers import write_changes, write_replaced
from rankcast.geotext.kernels.match import CANDIDATES, CELLS, GROUPS, VERIFIED, Switches
from rankcast.geotext.kernels.message_search import Ages
from rankcast.geotext.kernels.skyband import Log
from rankcast.geotext.kernels.terms import rarest_first
from rankcast.geotext.kernels.verify import own_scores
from rankcast.geotext.state import MOST_K, Structures, Way, World
from rankcast.geotext.vocabulary import positions
from rankcast.geotext.words import Replaced
from rankcast.structures.boards import ENTER, LEAVE
from rankcast.structures.diff import ChangeColumns, Entries
from rankcast.structures.distance import distance
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Bools, Floats, Ints, Rows

PARTS = {  # arrays of the state by the beginnings of their names, the first that fits
    "reverse lists": ("live.buffers_link_",),
    "buffers": ("live.buffers_",),
    "postings": ("live.readers_",),
    "window": ("message.", "window.", "text.", "live.messages_", "live.age_"),
    "subscriptions": ("subscription.", "interest.", "live."),
    "words": ("term.",),
}


def difference(rows: Rows, before: Lists, after: Lists) -> Changes:
    """What turns the results of rows into others; all in the order of registration."""
    size = before.item.size + after.item.size + 1
    told = ChangeColumns(*(np.empty(size, kind) for kind in ("i4", "i1", "i4", "f8", "i8", "f8")))
    size = write_replaced(rows, Entries(*before), Entries(*after), told)
    return Changes._make(column[:size] for column in told)


def log_of(lists: Lists, op: int, ages: Ages) -> Log:
    """Lines for all entries of some lists."""
    item = lists.item
    ops = np.full(item.size, op, np.int8)
    return Log(lists.subscription, ops, item, lists.score, ages.time[item], ages.arrival[item], lists.score)


def net_changes(log: Log, sequence: Ints, buffers: ResultBuffers, ages: Ages) -> Changes:
    """The net change of results that a log tells of, in the order of registration."""
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
        lines = lines[positions(ends[order] - sizes, sizes)]
        owners, ends = owners[order], np.cumsum(sizes)
    told = ChangeColumns(*(np.empty(lines.size, kind) for kind in ("i4", "i1", "i4", "f8", "i8", "f8")))
    size = write_changes(log, lines, ends, owners, buffers.now(owners), ages, told)
    return Changes._make(column[:size] for column in told)


def pruned_by(
    world: World, frame: Frame, idf: Floats, row: int, item: int, alpha: float, threshold: float
) -> str | None:
    """Which bound keeps a message from being scored for a subscription, if any does."""
    interest = rarest_first(world.interests.texts(), row, idf)
    text = rarest_first(world.texts.texts(), item, idf)
    common = [i for i in range(interest[0].size) if interest[0][i] in text[0]]
    if not common:
        return "words"
    i, j = common[0], int(np.flatnonzero(text[0] == interest[0][common[0]])[0])
    parts = np.array([interest[1][i], interest[2][i], text[1][j], text[2][j]], np.float32)
    alike, one = np.float32(alikeness(parts[0], parts[1], parts[2], parts[3])), np.float32(1.0)
    x, y = (float(world.subscriptions[name][row]) for name in "xy")
    there = (float(world.messages[name][item]) for name in "xy")
    near = np.float32(1.0 - distance(frame.metric, x, y, *there) / frame.scale)
    tried = {"words": (one, alike), "place": (near, one), "words and place": (near, alike)}
    short = [name for name, (a, b) in tried.items() if best_score(np.float32(alpha), a, b) < threshold]
    return short[0] if short else None


def bytes_by_part(arrays: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """How many bytes the parts of a state take."""
    told = dict.fromkeys(PARTS, 0)
    for name, array in arrays.items():
        part = next((part for part, names in PARTS.items() if name.startswith(names)), None)
        if part is not None:
            told[part] += array.nbytes
    return told


CHUNK = 1024  # messages disseminated at a time, if not too many subscriptions may want them
SHORT = 0.02  # of the bounds: a step
PRUNINGS = Switches._fields
COUNTED = {"cells_pruned": CELLS, "groups_pruned": GROUPS, "candidates": CANDIDATES, "verified": VERIFIED}


class Live(Structures):
    """Current results of all subscriptions; the engine tells it what comes and goes."""

    def __init__(self, world: World, way: Way, prune: Switches, counted: dict[str, int]) -> None:
        super().__init__(world, way)
        self.method, self._prune, self._counted = way.method, prune, counted
        # Not part of the state: marks that are all off between calls.
        self._doubtful = np.zeros(0, np.bool_)

    # Subscriptions

    def enter(self, rows: Rows, alpha: Floats, k: Ints) -> None:
        """Subscriptions are in the slots: find their first results and list them."""
        self._make_rows()
        self._ledger.alpha[rows], self._ledger.k[rows] = alpha, np.minimum(k, MOST_K)
        self._search(rows)
        self._list(rows)

    def unlist(self, rows: Rows) -> None:
        """Subscriptions are about to change or to go: no message finds them. Cost: O(1) a term."""
        self._readers.drop(rows, self._world.interests.texts(), self._ledger.stamp)

    def amended(self, rows: Rows, alpha: Floats, k: Ints, moved: Floats, words: Replaced | None) -> None:
        """Subscriptions have changed in the slots, maybe their words: let results follow, and list them.

        Who only wants fewer messages than before has them all. After a short step, or for more messages, a
        search begins with what is held, which shows how good others must be; further away that tells too
        little.
        """
        ledger, sought, begun, k = self._ledger, rows, None, np.minimum(k, MOST_K)
        same = np.ones(rows.size, np.bool_) if words is None else words.same
        if np.count_nonzero(same):
            same = same & (alpha == ledger.alpha[rows])
            served = same & (moved == 0) & (k <= ledger.k[rows])
            self._buffers.trim(rows[served], k[served], len(self._world.window))
            sought, begun = rows[~served], (same & (moved < SHORT))[~served]
        ledger.alpha[rows], ledger.k[rows] = alpha, k
        self._search(sought, begun)
        self._list(rows)

    def leave(self, rows: Rows) -> None:
        """Subscriptions are about to go. Cost: O(1) a term."""
        self.unlist(rows)
        self._buffers.clear(rows)

    def lists(self, rows: Rows) -> Lists:
        """The current results of subscriptions, in that order."""
        lists = self._buffers.lists(rows, self._ledger.k)
        if not self._world.fading:
            return lists
        return lists._replace(score=self._own_scores(lists.subscription, lists.item, lists.score))

    def rescale(self, factor: float) -> None:
        """Gains are multiplied by a factor; 0: all messages are about to leave."""
        self._buffers.rescale(factor)
        self._horizon *= factor

    def threshold(self, row: int) -> float:
        """The score that a message must have to be looked at for a subscription."""
        return float(self._buffers.threshold[row])

    def held_by(self, row: int) -> tuple[Rows, Floats]:
        """All messages in the buffer of a subscription, best first, and their scores."""
        return self._buffers.held_by(row)

    def bounds(self, row: int, item: int) -> dict[str, Any]:
        """The threshold of a subscription, and which bound keeps a message from being scored for it."""
        gain, alpha = self._ledger.gains(), float(self._ledger.alpha[row])
        threshold = self.threshold(row) / (float(gain[item]) if gain.size else 1.0)
        bound = pruned_by(self._world, self._frame, self._idf(), row, item, alpha, threshold)
        return {"threshold": threshold, "pruned_by": bound}

    def list_bytes(self) -> int:
        """How many bytes the lists of subscriptions take."""
        return sum(array.nbytes for array in self._readers.lists)

    def buffered(self) -> int:
        """How many messages all buffers hold together."""
        return self._buffers.buffered()

    # Messages

    def turn(self, leaving: Rows, move: Callable[[], Rows], times: Ints) -> Changes:
        """A batch: `leaving` go, then `move` brings in those of `times` and says their rows.

        Returns the net change of every result.
        """
        self._make_rows()
        ledger = self._ledger
        log = [self._told(self._buffers.expire(leaving, ledger.k, ledger.ages))]
        self._messages.drop(leaving, self._world.texts.texts(), ledger.ages.stamp)
        newest = self._world.window.times()[-1:].copy()
        rows = move()
        clock = np.maximum.accumulate(np.concatenate([newest, times]))
        late = clock[newest.size :] > times
        self._take_in(rows, times)
        self._look_ahead()
        unsure = [log[0].owner]
        self._disseminate(rows, late, log, unsure)
        self._refill(np.concatenate(unsure), log)
        joined = Log(*(np.concatenate(lines) for lines in zip(*log, strict=True)))
        sequence = self._world.subscriptions["sequence"]
        return net_changes(joined, sequence, self._buffers, ledger.ages)

    def _take_in(self, rows: Rows, times: Ints) -> None:
        """Messages are in the slots: note their age and list them."""
        self._make_rows()
        self._ledger.arrive(rows, times)
        self._messages.add(rows, self._world.texts.texts(), self._idf(), self._ledger.places())

    def _disseminate(self, rows: Rows, late: Bools, log: list[Log], unsure: list[Rows]) -> None:
        """Offer arrivals to the subscriptions that they may concern, as many at a time as can be had."""
        idf, start, step, counters = self._idf(), 0, CHUNK, np.zeros(4, np.int64)
        ledger, buffers = self._ledger, self._buffers
        while start < rows.size:
            part, lag = rows[start : start + step], late[start : start + step]
            hits = self._readers.disseminate(
                ledger.readers(buffers.threshold), ledger.posts(part), idf, self._scratch, self._prune,
                counters, ledger.listed,
            )  # fmt: skip
            if hits is None:
                step = (part.size + 1) // 2
                continue
            start += part.size
            offers = Offers(hits.subscription, part[hits.arrival], hits.score, lag[hits.arrival])
            log.append(self._told(buffers.offer(offers, ledger.k, ledger.ages, self._doubtful)))
            touched = hits.subscription[np.diff(hits.subscription, prepend=-1) > 0]
            unsure.append(touched[self._doubtful[touched]])
            self._list_moved(touched)
        for name, place in COUNTED.items():
            self._counted[name] += int(counters[place])

    def _refill(self, rows: Rows, log: list[Log]) -> None:
        """Fill the buffers anew that have fewer than k left or may have missed something [Geo Alg 2].

        A row may come twice.
        """
        ledger, buffers = self._ledger, self._buffers
        short = np.unique(rows[self._doubtful[rows] | buffers.short(rows, ledger.k)])
        if not short.size:
            return
        self._doubtful[short] = False
        log.append(self._told(log_of(buffers.lists(short, ledger.k), LEAVE, ledger.ages)))
        self._search(short)
        log.append(self._told(log_of(buffers.lists(short, ledger.k), ENTER, ledger.ages)))
        self._counted["reevaluations"] += short.size
        self._list_moved(short)

    def _told(self, log: Log) -> Log:
        """A log with the scores that are told, as long as all its messages are there."""
        return log._replace(own=self._own_scores(log.owner, log.item, log.score))

    def _own_scores(self, rows: Rows, items: Rows, scores: Floats) -> Floats:
        """The scores of messages at their own times; the ones given, if scores do not fade."""
        if not self._world.fading:
            return scores
        readers, posts = self._ledger.readers(self._buffers.threshold), self._ledger.posts(rows[:0])
        own: Floats = own_scores(rows, items, readers, posts, self._frame)
        return own

    def _make_rows(self) -> None:
        super()._make_rows()
        if self._doubtful.size < self._ledger.stamp.size:
            self._doubtful = np.zeros(self._ledger.stamp.size, np.bool_)
