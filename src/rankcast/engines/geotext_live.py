"""Results of `GeoTextTopK` kept live: dissemination by bounds, buffers for expiry, search to fill them anew.

Three structures follow the window and the subscriptions: the lists of subscriptions by word (which of them
a message may enter), the buffers (what each holds), and the lists of messages by word (what a subscription
finds that is new or has run short). A batch lets expired messages go first, then takes arrivals in, and fills
at its end what has fewer than k left; what enters and leaves results meanwhile is logged, and its net told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.columns import Bools, Floats, Ints, Rows
from rankcast.deltas import Changes, Lists
from rankcast.engines.geotext_places import Space
from rankcast.errors import SnapshotError
from rankcast.indexes.cell_lists import CellIndex
from rankcast.indexes.message_lists import MessageIndex
from rankcast.indexes.objects import grown
from rankcast.indexes.result_buffers import Offers, ResultBuffers
from rankcast.indexes.slots import Slots
from rankcast.indexes.vectors import LiveTerms, Vectors
from rankcast.indexes.word_lists import WordIndex
from rankcast.kernels.board import ENTER, LEAVE
from rankcast.kernels.buffer_changes import write_changes
from rankcast.kernels.difference import Told
from rankcast.kernels.distance import distance
from rankcast.kernels.geo_bounds import Bits, alikeness, best_score, frame_of
from rankcast.kernels.igpt import CANDIDATES, CELLS, GROUPS, VERIFIED, Posts, Readers, Switches
from rankcast.kernels.message_lists import Places
from rankcast.kernels.message_search import Ages, Found, best_messages
from rankcast.kernels.skyband import Log
from rankcast.kernels.term_order import Scratch, rarest_first
from rankcast.kernels.verify import own_scores
from rankcast.kernels.word_lists import STEP, Owners, Shape
from rankcast.vocabulary import positions
from rankcast.windows import Window

CELL, NEED_GROUPS = 960, 30  # [Geo §7.1], in whole blocks
CHUNK = 1024  # messages disseminated at a time, if not too many subscriptions may want them
MANY = 4096  # subscriptions searched for at a time
AHEAD = 1.05  # where scores fade, lists are made for gains up to so much more than there are
RISE = 0.02  # a threshold that has risen by more is told to the lists
MOST_K = 2**28
PRUNINGS = Switches._fields
OWN = ("alpha", "k", "listed", "stamp")


class World(NamedTuple):
    """What the engine keeps: subscriptions and messages by row, their vectors, terms, the window; fading."""

    subscriptions: Slots
    messages: Slots
    interests: Vectors
    texts: Vectors
    terms: LiveTerms
    window: Window
    space: Space
    fading: bool


class Way(NamedTuple):
    """How subscriptions are found, and how their results are filled up."""

    method: str
    refill: str


class Live:
    """Current results of all subscriptions; the engine tells it what comes and goes."""

    def __init__(self, world: World, way: Way, prune: Switches, groups: int, counted: dict[str, int]) -> None:
        self._world, self._prune, self._counted = world, prune, counted
        self.method = way.method
        space = world.space
        self._frame = frame_of(space.metric, space.bounds, space.scale)
        self._readers: WordIndex | CellIndex = (
            CellIndex(self._frame) if way.method == "ciq" else WordIndex(self._frame, Shape(CELL, groups))
        )
        self._messages = MessageIndex(self._frame)
        self._buffers = ResultBuffers(way.refill)
        # By subscription: alpha and k as they count, what the lists know of it, its stamp there.
        self._alpha, self._k = np.zeros(0), np.zeros(0, np.int64)
        self._listed = np.zeros(0)
        self._stamp: Bits = np.zeros(0, np.uint16)
        # By message: time and arrival, which say who is newer, and its stamp in the lists.
        self._ages = Ages(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint16))
        self._arrivals = 0
        # What lists know of thresholds holds for messages with gains up to this.
        self._horizon = 1.0
        # Not part of the state: what follows from it, and marks that are all off between calls.
        self._doubtful = np.zeros(0, np.bool_)
        self._scratch = Scratch(np.zeros(0), np.zeros(0, np.int32))

    # Subscriptions

    def enter(self, rows: Rows, alpha: Floats, k: Ints) -> None:
        """Subscriptions are in the slots: find their first results and list them."""
        self._make_rows()
        self._alpha[rows], self._k[rows] = alpha, np.minimum(k, MOST_K)
        self._search(rows)
        self._list(rows)

    def leave(self, rows: Rows) -> None:
        """Subscriptions are about to change or to go. Cost: O(1) a term."""
        self._readers.drop(rows, self._world.interests.texts(), self._stamp)
        self._buffers.clear(rows)

    def lists(self, rows: Rows) -> Lists:
        """The current results of subscriptions, in that order."""
        lists = self._buffers.lists(rows, self._k)
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
        world, alpha = self._world, float(self._alpha[row])
        gain = self._gains()
        threshold = float(self._buffers.threshold[row]) / (float(gain[item]) if gain.size else 1.0)
        one = np.float32(1.0)
        interest = rarest_first(world.interests.texts(), row, self._idf())
        text = rarest_first(world.texts.texts(), item, self._idf())
        common = [i for i in range(interest[0].size) if interest[0][i] in text[0]]
        if not common:
            return {"threshold": threshold, "pruned_by": "words"}
        i, j = common[0], int(np.flatnonzero(text[0] == interest[0][common[0]])[0])
        parts = np.array([interest[1][i], interest[2][i], text[1][j], text[2][j]], np.float32)
        alike = alikeness(parts[0], parts[1], parts[2], parts[3])
        x, y = (float(world.subscriptions[name][row]) for name in "xy")
        there = (float(world.messages[name][item]) for name in "xy")
        near = np.float32(1.0 - distance(self._frame.metric, x, y, *there) / self._frame.scale)
        tried = {"words": (one, alike), "place": (near, one), "words and place": (near, alike)}
        short = [name for name, (a, b) in tried.items() if best_score(np.float32(alpha), a, b) < threshold]
        return {"threshold": threshold, "pruned_by": short[0] if short else None}

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
        log = [self._told(self._buffers.expire(leaving, self._k, self._ages))]
        self._messages.drop(leaving, self._world.texts.texts(), self._ages.stamp)
        newest = self._world.window.times()[-1:].copy()
        rows = move()
        clock = np.maximum.accumulate(np.concatenate([newest, times]))
        late = clock[newest.size :] > times
        self._take_in(rows, times)
        self._look_ahead()
        unsure = [log[0].owner]
        self._disseminate(rows, late, log, unsure)
        self._refill(np.unique(np.concatenate(unsure)), log)
        return self._changes(Log(*(np.concatenate(lines) for lines in zip(*log, strict=True))))

    def _refill(self, rows: Rows, log: list[Log]) -> None:
        """Fill the buffers anew that have fewer than k left or may have missed something [Geo Alg 2]."""
        short = rows[self._doubtful[rows] | self._buffers.short(rows, self._k)]
        if not short.size:
            return
        self._doubtful[short] = False
        log.append(self._told(self._log_of(self._buffers.lists(short, self._k), LEAVE)))
        self._search(short)
        log.append(self._told(self._log_of(self._buffers.lists(short, self._k), ENTER)))
        self._counted["reevaluations"] += short.size
        self._list_moved(short)

    def _log_of(self, lists: Lists, op: int) -> Log:
        """Lines for all entries of some lists."""
        item, ages = lists.item, self._ages
        ops = np.full(item.size, op, np.int8)
        age = (ages.time[item], ages.arrival[item])
        return Log(lists.subscription, ops, item, lists.score, *age, lists.score)

    def _told(self, log: Log) -> Log:
        """A log with the scores that are told, as long as all its messages are there."""
        return log._replace(own=self._own_scores(log.owner, log.item, log.score))

    def _own_scores(self, rows: Rows, items: Rows, scores: Floats) -> Floats:
        """The scores of messages at their own times; the ones given, if scores do not fade."""
        if not self._gains().size:
            return scores
        readers, posts = self._as_readers(), self._as_posts(np.zeros(0, np.int32))
        own: Floats = own_scores(rows, items, readers, posts, self._frame)
        return own

    def _look_ahead(self) -> None:
        """Where scores fade, list all subscriptions anew when the newest message has outrun the lists."""
        top = self._top()
        if top > self._horizon:
            self._horizon = AHEAD * top
            rows = self._world.subscriptions.live()
            self._listed[rows] = self._buffers.threshold[rows] / self._horizon
            self._readers.update(rows, self._world.interests.texts(), self._idf(), self._reader_owners())

    def _changes(self, log: Log) -> Changes:
        """The net change of results that a log tells of."""
        lines = np.argsort(log.owner, kind="stable").astype(np.int32)
        ends = (
            np.append(np.flatnonzero(np.diff(log.owner[lines])) + 1, lines.size)
            if lines.size
            else np.zeros(0, np.int64)
        )
        owners = log.owner[lines[ends - 1]]
        sequence = self._world.subscriptions["sequence"][owners]
        if (sequence[1:] < sequence[:-1]).any():
            order = np.argsort(sequence)
            sizes = np.diff(ends, prepend=0)[order]
            lines = lines[positions(ends[order] - sizes, sizes)]
            owners, ends = owners[order], np.cumsum(sizes)
        told = Told(*(np.empty(lines.size, kind) for kind in ("i4", "i1", "i4", "f8", "i8", "f8")))
        now = self._buffers.now(owners)
        size = write_changes(log, lines, ends, owners, now, self._ages, told)
        return Changes._make(column[:size] for column in told)

    def _take_in(self, rows: Rows, times: Ints) -> None:
        """Messages are in the slots: note their age and list them."""
        self._make_rows()
        self._ages.time[rows] = times
        self._ages.arrival[rows] = np.arange(self._arrivals, self._arrivals + rows.size)
        self._arrivals += rows.size
        self._messages.add(rows, self._world.texts.texts(), self._idf(), self._places())

    def _disseminate(self, rows: Rows, late: Bools, log: list[Log], unsure: list[Rows]) -> None:
        """Offer arrivals to the subscriptions that they may concern, as many at a time as can be had."""
        idf, start, step, counters = self._idf(), 0, CHUNK, np.zeros(4, np.int64)
        while start < rows.size:
            part, lag = rows[start : start + step], late[start : start + step]
            hits = self._readers.disseminate(
                self._as_readers(), self._as_posts(part), idf, self._scratch, self._prune, counters,
                self._listed,
            )  # fmt: skip
            if hits is None:
                step = (part.size + 1) // 2
                continue
            start += part.size
            offers = Offers(hits.subscription, part[hits.arrival], hits.score, lag[hits.arrival])
            log.append(self._told(self._buffers.offer(offers, self._k, self._ages, self._doubtful)))
            touched = hits.subscription[np.diff(hits.subscription, prepend=-1) > 0]
            unsure.append(touched[self._doubtful[touched]])
            self._list_moved(touched)
        self._tally(counters)

    def _tally(self, counters: Ints) -> None:
        names = {
            "cells_pruned": CELLS,
            "groups_pruned": GROUPS,
            "candidates": CANDIDATES,
            "verified": VERIFIED,
        }
        for name, place in names.items():
            self._counted[name] += int(counters[place])

    # Lists and buffers

    def _search(self, rows: Rows) -> None:
        """Fill buffers from the messages of the window."""
        window = len(self._world.window)
        posts, readers, idf = self._as_posts(np.zeros(0, np.int32)), self._as_readers(), self._idf()
        start = 0
        while start < rows.size:
            part = rows[start : start + MANY]
            keep = self._buffers.keeps(self._k[part], window)
            wanted = self._buffers.wanted(keep, self._k[part], window)
            part = part[: max(1, 64 * MANY // int(wanted.max()))]
            keep, wanted = keep[: part.size], wanted[: part.size]
            shape = (part.size, int(wanted.max()))
            found = Found(
                np.empty(shape, np.int32), np.empty(shape), *(np.zeros(part.size, t) for t in ("i4", "i8"))
            )
            best_messages(
                self._messages.lists, part, wanted, readers, posts, self._ages, idf, self._scratch,
                self._frame, found,
            )  # fmt: skip
            self._buffers.fill(part, found, keep, self._k[part], self._ages)
            start += part.size

    def _list(self, rows: Rows) -> None:
        """List subscriptions that are not listed, with the thresholds they have now."""
        self._listed[rows] = self._buffers.threshold[rows] / self._horizon
        texts = self._world.interests.texts()
        self._readers.add(rows, texts, self._idf(), self._reader_owners())

    def _list_moved(self, rows: Rows) -> None:
        """List subscriptions anew whose threshold fell, or rose by enough to make a difference."""
        now, listed = self._buffers.threshold[rows] / self._horizon, self._listed[rows]
        moved = rows[(now < listed) | (now > listed + RISE)]
        if not moved.size:
            return
        self._listed[moved] = self._buffers.threshold[moved] / self._horizon
        self._readers.update(moved, self._world.interests.texts(), self._idf(), self._reader_owners())

    # Views of the engine's arrays

    def _idf(self) -> Floats:
        """The idf of every term; afterwards all structures know as many."""
        idf: Floats = self._world.terms.slots["idf"]
        self._readers.know(idf.size)
        self._messages.know(idf.size)
        if self._scratch.weight.size < idf.size:
            self._scratch = Scratch(np.zeros(idf.size), np.zeros(idf.size, np.int32))
        return idf

    def _as_readers(self) -> Readers:
        slots = self._world.subscriptions
        threshold, texts = self._buffers.threshold, self._world.interests.texts()
        return Readers(slots["x"], slots["y"], self._alpha, threshold, self._stamp, texts)

    def _as_posts(self, rows: Rows) -> Posts:
        slots = self._world.messages
        return Posts(rows, slots["x"], slots["y"], self._world.texts.texts(), self._gains(), self._top())

    def _gains(self) -> Floats:
        """The gains of messages by row, none if scores do not fade."""
        return self._world.messages["gain"] if self._world.fading else np.zeros(0)

    def _top(self) -> float:
        """The largest gain in the window."""
        gain, newest = self._gains(), self._world.window.rows()[-1:]
        return float(gain[newest[0]]) if gain.size and newest.size else 1.0

    def _reader_owners(self) -> Owners:
        slots = self._world.subscriptions
        return Owners(slots["x"], slots["y"], self._alpha, self._listed, self._stamp)

    def _places(self) -> Places:
        slots = self._world.messages
        return Places(slots["x"], slots["y"], self._ages.stamp)

    def _make_rows(self) -> None:
        """Have a row for every row of the slots."""
        subscriptions, messages = self._world.subscriptions.used, self._world.messages.used
        self._buffers.make_rows(subscriptions, messages)
        if subscriptions > self._stamp.size:
            length = max(subscriptions, self._stamp.size * 9 // 8)
            self._alpha, self._k = grown(self._alpha, length, 0), grown(self._k, length, 0)
            self._listed, self._stamp = grown(self._listed, length, 0), grown(self._stamp, length, 0)
        if messages > self._ages.stamp.size:
            length = max(messages, self._ages.stamp.size * 9 // 8)
            self._ages = Ages(*(grown(array, length, 0) for array in self._ages))
        if self._doubtful.size < self._stamp.size:
            self._doubtful = np.zeros(self._stamp.size, np.bool_)

    # State

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The state of the structures, under their names."""
        header: dict[str, Any] = {"arrivals": self._arrivals, "horizon": self._horizon}
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, f"_{name}") for name in OWN}
        arrays |= {f"age_{name}": array for name, array in self._ages._asdict().items()}
        for name, part in self._structures().items():
            header[name], mine = part.state()
            arrays |= {f"{name}_{array}": values for array, values in mine.items()}
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        self._arrivals, self._horizon = int(header["arrivals"]), float(header["horizon"])
        own = [arrays[name] for name in OWN]
        ages = Ages(**{name: arrays[f"age_{name}"] for name in Ages._fields})
        mine = (*(getattr(self, f"_{name}") for name in OWN), *self._ages)
        if [array.dtype for array in (*own, *ages)] != [array.dtype for array in mine]:
            raise SnapshotError("the arrays of live results have other types")
        self._alpha, self._k, self._listed, self._stamp = own
        self._ages = ages
        relist = False  # lists of before are made anew
        for name, part in self._structures().items():
            prefix = f"{name}_"
            held = {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}
            if name == "readers" and _without_signs(held):
                relist = True
            elif name in header:
                part.restore(header[name], held)
        if "messages" not in header:
            rows, texts = self._world.window.rows(), self._world.texts.texts()
            self._messages.add(rows, texts, self._idf(), self._places())
        if relist:
            self._list(self._world.subscriptions.live())
        return self

    def _structures(self) -> dict[str, WordIndex | CellIndex | MessageIndex | ResultBuffers]:
        return {"readers": self._readers, "messages": self._messages, "buffers": self._buffers}


def _without_signs(held: Mapping[str, NDArray[Any]]) -> bool:
    """Whether arrays are lists of subscriptions as they once were."""
    return "fact" in held and held["fact"].shape[1:] == (8, STEP)
