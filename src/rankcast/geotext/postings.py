"""Posting lists by term in shared arrays: those of subscriptions, and those of the messages of the window.

`PostingLists` has what both have in common: lists grow, lose entries by their stamps, and move. What an
entry knows is in `rankcast.geotext.kernels.postings`, how a list is ordered in `arrange` beside it.
`RowColumns` has what lists and buffers need to know of a row beside the slots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.brute_force import GeoTextState
from rankcast.geotext.kernels import checks, match, postings
from rankcast.geotext.kernels.arrange import Shape, arrange_messages, arrange_subscriptions
from rankcast.geotext.kernels.match import Prunings
from rankcast.geotext.kernels.message_search import SearchResults, best_messages
from rankcast.geotext.kernels.pair_scores import Hits
from rankcast.geotext.kernels.phrases import Phrases
from rankcast.geotext.kernels.postings import (
    BLOCK,
    FACTS,
    FULL,
    MESSAGE_FACTS,
    MESSAGE_NODE,
    NODE,
    STAMP,
    STEP,
    VOID,
    Ages,
    ListedColumns,
    PlaceColumns,
    Postings,
)
from rankcast.geotext.kernels.score import (
    LIFT_SLACK,
    Bits,
    Frame,
    MessageColumns,
    Plain,
    Scratch,
    SubscriptionColumns,
    TermVectors,
)
from rankcast.geotext.limits import Interests
from rankcast.geotext.vectors import NO_MEANING
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Bools, Floats, Ints, Rows

BY_TERM = ("begin", "main", "joint", "size", "room", "dead")
KINDS = {"row": np.int32, "fact": np.uint16, "node": np.float32}
SPARE = 64
CELL, NEED_GROUPS = 960, 30  # owners in a cell and groups in it [Geo §7.1], in whole blocks
BY_SUBSCRIPTION = ("alpha", "k", "listed", "stamp")
BY_MESSAGE = ("time", "arrival", "stamp")
NO_TIMES, NO_ROWS = np.empty(0, np.int64), np.empty(0, np.int32)
NO_GAINS = np.empty(0)
TIDY = 8  # when all lists are moved, those of which more than one in `TIDY` entries is void lose these first


class RowColumns:
    """Columns by row beside those of the slots, under the same row numbers.

    - Changing: `make_rows`, `follow`; `LiveResults` writes to the columns directly.
    - For kernels: `subscriptions`, `listed_columns`, `messages`, `places`, `gains`, `top`.
    - Snapshots: `state`, `restore`, `check_restored`.

    Attributes:
        alpha, k: by subscription, with the defaults of the engine filled in.
        listed: by subscription: the threshold in its postings.
        stamp: by subscription: a posting is void unless it has this stamp.
        ages: by message: time and arrival, which order messages by age, and the stamp of its postings.
        arrivals: how many messages have arrived so far.
    """

    def __init__(self, state: GeoTextState) -> None:
        self._state = state
        self.alpha, self.k = np.zeros(0), np.zeros(0, np.int64)
        self.listed = np.zeros(0)
        self.stamp: Bits = np.zeros(0, np.uint16)
        none, stamps = np.zeros(0, np.int64), np.zeros(0, np.uint16)
        self.ages = Ages(none, none, stamps, NO_TIMES, NO_ROWS, NO_TIMES, state.per_source)
        self.arrivals = 0
        self._needed = np.zeros((2, 0))  # follows from alpha, listed and floor

    def make_rows(self, subscriptions: int, messages: int) -> None:
        """Grow the columns to so many rows."""
        if subscriptions > self.stamp.size:
            length = max(subscriptions, self.stamp.size * 9 // 8 + 8)
            for name in BY_SUBSCRIPTION:
                setattr(self, name, grown(getattr(self, name), length, 0))
        if messages > self.ages.stamp.size:
            length = max(messages, self.ages.stamp.size * 9 // 8 + 8)
            more: dict[str, Any] = {name: grown(getattr(self.ages, name), length, 0) for name in BY_MESSAGE}
            self.ages = self.ages._replace(**more)

    def follow(self) -> None:
        """Take over the ends that messages have of their own, and their sources."""
        state = self._state
        if self.ages.until is not state.window.until:
            self.ages = self.ages._replace(until=state.window.until)
        if state.sources is not None:
            self.ages = self.ages._replace(
                source=state.messages["source"], alive=state.sources.slots["alive"]
            )

    def subscriptions(self, threshold: Floats) -> SubscriptionColumns:
        """All subscriptions, with the thresholds given."""
        slots, interests, said = self._state.subscriptions, self._state.interests, self._state.said
        limits = interests.limits
        if said is not None and interests.phrases is not None and limits.radius.size:
            limits = limits._replace(phrases=Phrases(interests.phrases.columns(), said.columns()))
        return SubscriptionColumns(
            slots["x"], slots["y"], self.alpha, threshold, self.stamp, interests.texts, limits,
            NO_MEANING if self._state.meanings is None else self._state.meanings.columns(),
        )  # fmt: skip

    def listed_columns(self, rows: Rows) -> ListedColumns:
        """All subscriptions, with the thresholds in their postings; those of `rows` are up to date.

        Where vectors count beside terms, alpha and threshold are those that bounds by terms and place need.
        """
        slots, floor, listed = self._state.subscriptions, self._state.interests.floor, self.listed
        alpha, meanings = self.alpha, self._state.meanings
        if meanings is not None and not meanings.alone:
            if self._needed.shape[1] < self.stamp.size:
                self._needed = np.zeros((2, self.stamp.size))
                rows = self._state.subscriptions._live()
            mine, bar = alpha[rows], listed[rows]
            share = mine + (1.0 - mine) * (1.0 - meanings.beta)
            if floor.size:
                bar = np.maximum(bar, floor[rows])
            self._needed[0, rows] = mine / share
            self._needed[1, rows] = (bar - (1.0 - mine) * meanings.beta - LIFT_SLACK) / share
            (alpha, listed), floor = self._needed, NO_GAINS
        radius = self._state.interests.limits.radius
        return ListedColumns(slots["x"], slots["y"], alpha, listed, self.stamp, floor, radius)

    def messages(self, rows: Rows) -> MessageColumns:
        """All messages, and which rows of them arrive."""
        slots = self._state.messages
        texts, time = self._state.texts.texts, self.ages.time
        return MessageColumns(rows, slots["x"], slots["y"], texts, self.gains(), self.top(), time)

    def places(self) -> PlaceColumns:
        """The places and stamps of all messages."""
        slots = self._state.messages
        return PlaceColumns(slots["x"], slots["y"], self.ages.stamp)

    def gains(self) -> Floats:
        """The gains of messages by row, empty if scores do not decay."""
        return self._state.messages["gain"] if self._state.decays else NO_GAINS

    def top(self) -> float:
        """The largest gain in the window."""
        if not self._state.decays or not len(self._state.window):
            return 1.0
        return float(self._state.messages["gain"][self._state.window.rows()[-1]])

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How many messages have arrived, and the columns."""
        by_row: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in BY_SUBSCRIPTION}
        by_row |= {f"age_{name}": getattr(self.ages, name) for name in BY_MESSAGE}
        return {"arrivals": self.arrivals}, by_row

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        _, mine = self.state()
        given = {name: arrays[name] for name in mine}
        lengths = {name: given["age_stamp" if name.startswith("age_") else "stamp"].size for name in mine}
        integrity.forms(given, {n: integrity.like(array, length=lengths[n]) for n, array in mine.items()})
        self.arrivals = integrity.whole(header, "arrivals")
        self.alpha, self.k, self.listed, self.stamp = (arrays[name] for name in BY_SUBSCRIPTION)
        by_message: dict[str, Any] = {name: arrays[f"age_{name}"] for name in BY_MESSAGE}
        self.ages = self.ages._replace(**by_message)
        self.follow()
        return self

    def check_restored(self, subscriptions: Rows, messages: Rows, most: int) -> None:
        """Refuse columns from a snapshot that are too short for the live rows, or have impossible values."""
        integrity.need(subscriptions.max(initial=-1) < self.stamp.size, "stamp", "is too short")
        integrity.need(messages.max(initial=-1) < self.ages.stamp.size, "age_stamp", "is too short")
        alpha = self.alpha[subscriptions]
        integrity.need(((alpha >= 0) & (alpha <= 1)).all(), "alpha", "is not from 0 to 1")
        integrity.within(self.k[subscriptions], 1, most + 1, "k")
        integrity.no_nan(self.listed, "listed")


class PostingLists(ABC):
    """Lists that grow, lose entries and move together; how a list is ordered is left to subclasses.

    - Changing: `know`, `drop` (after which an owner's entries are void: its stamp changes).
    - Snapshots: `state`, `restore`, `check_restored`.

    Attributes:
        facts: how many numbers an entry has, beside its owner.
        node: how many bounds a tile of entries has.
        slack: sixteenths of its size that a list has as room to grow.
        tail: sixteenths of all rooms that are kept free for lists that move.
        worth: a list that is full is first arranged anew if more than one in so many of its entries is void.
    """

    facts: int
    node: int
    slack: int
    tail: int
    worth: int

    def __init__(self) -> None:
        main, joint, size, room, dead = (np.zeros(8, np.int32) for _ in BY_TERM[1:])
        self.lists = Postings(np.zeros(8, np.int64), main, joint, size, room, dead, **self._entries(SPARE))
        self._used = 0
        # Not part of the state: by term, 0 between calls.
        self._seen = np.zeros(8, np.int32)

    def know(self, terms: int) -> None:
        """Grow the arrays by term to at least `terms`; to be called before kernels meet a new term."""
        if terms > self.lists.begin.size:
            length = max(terms, self.lists.begin.size * 9 // 8)
            self._seen = np.zeros(length, np.int32)
            larger = {name: grown(getattr(self.lists, name), length, 0) for name in BY_TERM}
            self.lists = self.lists._replace(**larger)

    def drop(self, rows: Rows, texts: TermVectors, stamps: Bits) -> None:
        """Owners go; their texts are still what they were when they were added. Cost: O(1) an entry.

        Stamps begin again after the last one; before that no entry may be left that has an old one.
        """
        if not postings.drop(self.lists.dead, rows, tuple(texts), stamps):
            self.renew(rows, stamps)

    def renew(self, rows: Rows, stamps: Bits) -> None:
        """Give the next stamps to owners one of which has the last: see `drop`."""
        self._tidy(stamps)
        stamps[rows] += 1

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How much is used, and the arrays."""
        return {"used": self._used}, self.lists._asdict()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        terms, entries = (arrays[name].size if name in arrays else 0 for name in ("begin", "row"))
        wanted: dict[str, integrity.Form] = {
            name: (getattr(self.lists, name).dtype, (terms,)) for name in BY_TERM
        }
        wanted |= {name: (KINDS[name], shape) for name, shape in self._shapes(entries).items()}
        integrity.forms(arrays, wanted)
        integrity.need(entries % STEP == 0, "row", f"is not tiles of {STEP} entries")
        self._used = integrity.whole(header, "used", 0, entries)
        integrity.need(self._used % STEP == 0, "used", f"is not a multiple of {STEP}")
        self.lists = Postings(**{name: arrays[name] for name in Postings._fields})
        self._seen = np.zeros(terms, np.int32)
        return self

    def check_restored(self, texts: TermVectors, stamps: Bits, live: Bools) -> None:
        """Refuse lists from a snapshot that do not hang together or hold just the terms of `live` owners."""
        found = checks.check_postings(self.lists, self._used, STAMP, texts, stamps, live)
        integrity.need(found == checks.FITS, "row", "does not list the terms of those who are there")

    @abstractmethod
    def _arrange(self, terms: Rows, firsts: Ints, stamps: Bits) -> None:
        """Put the lists of terms in order, each from some entry on, without void entries."""

    def _arrange_all_of(self, terms: Rows, stamps: Bits) -> None:
        self._arrange(terms, np.zeros(terms.size, np.int64), stamps)

    def _tidy(self, stamps: Bits) -> None:
        """Remove all void entries from all lists."""
        self._arrange_all_of(np.flatnonzero(self.lists.dead).astype(np.int32), stamps)

    def _append(self, due: int, append: Callable[[], int], rows: Rows, texts: Plain, stamps: Bits) -> None:
        """Make room for a kernel that adds owners if there was none, and put lists in order that are due.

        `due` is what the kernel has returned.
        """
        while due == FULL:
            self._reserve(rows, texts, stamps)
            due = append()
        if due:
            terms, _ = postings.distinct_terms(texts, rows, self._seen)
            self._arrange(*self._due(terms), stamps)

    @abstractmethod
    def _due(self, terms: Rows) -> tuple[Rows, Ints]:
        """Which lists should be put in order, and from which entry on."""

    def _reserve(self, rows: Rows, texts: Plain, stamps: Bits) -> None:
        """Make room for the entries of owners; lists with many void entries are arranged first."""
        given = (rows, texts, self._seen, self.worth, self.slack)
        used, terms = postings.reserve(tuple(self.lists), *given, self._used)
        if used == VOID:
            self._arrange_all_of(terms, stamps)
            used, _ = postings.reserve(tuple(self.lists), *given, self._used)
        if used == FULL:
            terms, counts = postings.distinct_terms(texts, rows, self._seen)
            self._compact(terms, counts, stamps)
        else:
            self._used = int(used)

    def _compact(self, terms: Rows, counts: Ints, stamps: Bits) -> None:
        """Move all lists together, without most of what is void, with room for `counts` more of `terms`."""
        worth = self.lists.dead > self.lists.size // TIDY
        self._arrange_all_of(np.flatnonzero(worth).astype(np.int32), stamps)
        size = self.lists.size.astype(np.int64)
        size[terms] += counts
        held = np.flatnonzero(size).astype(np.int32)
        rooms = postings.rooms_for(size[held], self.slack)
        capacity = int(rooms.sum()) * (16 + self.tail) // 16 // STEP * STEP + SPARE
        packed = self.lists._replace(**self._entries(capacity))
        packed.room[:] = 0
        self._used = int(postings.move(self.lists, packed, held, rooms, 0))
        packed.begin[packed.room == 0] = 0  # lists without entries are nowhere
        self.lists = packed

    def _shapes(self, room: int) -> dict[str, tuple[int, ...]]:
        """The shapes of arrays for so many entries."""
        tiles = room // STEP
        return {"row": (room,), "fact": (tiles, self.facts, STEP), "node": (tiles, self.node)}

    def _entries(self, room: int) -> dict[str, NDArray[Any]]:
        """Empty arrays for so many entries."""
        return {name: np.zeros(shape, KINDS[name]) for name, shape in self._shapes(room).items()}


MAX_CANDIDATES = 1 << 19  # candidates of several messages at a time


class SubscriptionPostings(PostingLists):
    """Inverted lists by term; see the kernel for what is in them.

    - Changing: `add`, `update`.
    - Reading: `disseminate`; `lists`, for kernels.

    Memory: 24 bytes an entry and 5 for its node, 28 a term, and up to a quarter as much again for growth.
    """

    facts, node, slack, tail, worth = FACTS, NODE, 2, 2, 64

    def __init__(self, frame: Frame, shape: Shape, interests: Interests) -> None:
        super().__init__()
        self._plain_frame, self._shape, self._scale, self._interests = (
            tuple(frame), shape, frame.scale, interests,
        )  # fmt: skip

    def add(self, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns) -> None:
        """Add owners that are not in the lists, by texts of known terms. Cost: O(1) an entry."""
        given = self._given(rows, texts, idf, owners)
        self._added(postings.add_subscriptions(tuple(self.lists), *given), given, owners.stamp)

    def update(self, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns) -> None:
        """Replace the entries of owners whose thresholds have moved."""
        given = self._given(rows, texts, idf, owners)
        due = postings.update_subscriptions(tuple(self.lists), *given)
        if due == VOID:
            self.renew(rows, owners.stamp)
            due = postings.add_subscriptions(tuple(self.lists), *given)
        self._added(due, given, owners.stamp)

    def _given(self, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns) -> Plain:
        """What kernels need of owners, beside the lists."""
        return rows, tuple(texts), idf, tuple(owners), self._plain_frame, self._seen, self._shape.cell

    def _added(self, due: int, given: Plain, stamps: Bits) -> None:
        """Go on where a kernel stopped that adds owners."""
        self._append(
            due, lambda: postings.add_subscriptions(tuple(self.lists), *given), given[0], given[1], stamps
        )

    def disseminate(
        self, subscriptions: SubscriptionColumns, messages: MessageColumns, idf: Floats, scratch: Scratch,
        on: Prunings, counters: Ints, listed: Floats,
    ) -> Hits | None:  # fmt: skip
        """The hits of messages; None if they are too many to be taken together."""
        most = MAX_CANDIDATES if messages.rows.size > 1 else self._used + BLOCK
        rows, x, y, texts, gain, top, time = messages
        *readers, interests, limits, meaning = subscriptions
        fits, *hits = match.disseminate(
            tuple(self.lists), rows, (*readers, *meaning), tuple(interests),
            (*limits[:3], *limits.terms, *limits.phrases.wanted, *limits.phrases.said),
            (x, y, gain, top, time), tuple(texts), idf, scratch.place, self._plain_frame, tuple(on), most,
            counters,
        )  # fmt: skip
        return Hits(*hits) if fits else None

    def _due(self, terms: Rows) -> tuple[Rows, Ints]:
        found: tuple[Rows, Ints] = postings.due_subscriptions(tuple(self.lists), terms, self._shape.cell)
        return found

    def _arrange(self, terms: Rows, firsts: Ints, stamps: Bits) -> None:
        if terms.size:
            radius = self._interests.limits.radius
            arrange_subscriptions(self.lists, terms, firsts, stamps, self._shape, radius, self._scale)


class MessagePostings(PostingLists):
    """Inverted lists by term; see the kernel for what is in them. `add` adds, `lists` is for kernels.

    Memory: 20 bytes an entry and 2 for its node, 28 a term, and up to half as much again for growth.
    """

    facts, node, slack, tail, worth = MESSAGE_FACTS, MESSAGE_NODE, 3, 1, 16

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self._frame, self._plain_frame = frame, tuple(frame)

    def add(self, rows: Rows, texts: TermVectors, idf: Floats, places: PlaceColumns) -> None:
        """Add messages that are not in the lists, by texts of known terms. Cost: O(1) an entry."""
        given = (rows, tuple(texts), idf, tuple(places), self._plain_frame, self._seen)

        def append() -> int:
            return int(postings.add_messages(tuple(self.lists), *given))

        self._append(append(), append, rows, tuple(texts), places.stamp)

    def arrive(
        self, ages: Plain, rows: Rows, times: Ints, arrivals: int, newest: int, overtaken: Bools,
        texts: Plain, idf: Floats, x: Floats, y: Floats,
    ) -> None:  # fmt: skip
        """Add messages that arrive and write their ages; see the kernel."""
        before, after = (ages, rows, times, arrivals, newest, overtaken), (texts, idf, x, y)
        frame, seen = self._plain_frame, self._seen

        def append() -> int:
            return int(postings.arrive(*before, tuple(self.lists), *after, frame, seen))

        self._append(append(), append, rows, texts, ages[2])

    def forget(self, rows: Rows) -> None:
        """Messages go: their entries are void by their stamps."""

    def search(
        self, rows: Rows, wanted: Rows, subscriptions: SubscriptionColumns, messages: MessageColumns,
        ages: Ages, idf: Floats, scratch: Scratch, found: SearchResults,
    ) -> None:  # fmt: skip
        """Find the `wanted` best messages for subscriptions of `rows`; see the kernel."""
        best_messages(
            self.lists, rows, wanted, subscriptions, messages, ages, idf, scratch, self._frame, found
        )

    def _due(self, terms: Rows) -> tuple[Rows, Ints]:
        found: tuple[Rows, Ints] = postings.due_messages(tuple(self.lists), terms)
        return found

    def _arrange(self, terms: Rows, firsts: Ints, stamps: Bits) -> None:
        if terms.size:
            arrange_messages(self.lists, terms, firsts, stamps)


def outdated(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Whether arrays are posting lists of an older version: without signatures, or radii in nodes."""
    if "fact" not in arrays or "node" not in arrays:
        return False
    return arrays["fact"].shape[1:] == (8, STEP) or arrays["node"].shape[1:] == (17,)
