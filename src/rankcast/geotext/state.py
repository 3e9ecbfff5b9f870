"""What live results of `GeoTextTopK` know by row, and the engine's arrays as kernels take them.

The structures behind live results of `GeoTextTopK`, and what keeps them in step.

Three of them follow the window and the subscriptions: the lists of subscriptions by word (which of them
a message may enter), the buffers (what each holds), and the lists of messages by word (what a subscription
finds that is new or has run short). A ledger has what they need to know by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.buffers import Extent, ResultBuffers
from rankcast.geotext.kernels.bounds import Bits, frame_of
from rankcast.geotext.kernels.match import Posts, Readers
from rankcast.geotext.kernels.message_search import Ages, Found, best_messages
from rankcast.geotext.kernels.messages import Places
from rankcast.geotext.kernels.terms import Scratch
from rankcast.geotext.kernels.word_lists import STEP, Owners, Shape
from rankcast.geotext.places import Space
from rankcast.geotext.window import Window
from rankcast.geotext.words import LiveTerms, MessageIndex, Vectors, WordIndex
from rankcast.papers.geotext.ciq import CellIndex
from rankcast.range_topk.objects import grown
from rankcast.structures import integrity
from rankcast.structures.ids import Slots
from rankcast.tables.schema import Bools, Floats, Ints, Rows

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


class Ledger:
    """Columns by row beside those of the slots; rows are those of the slots.

    - Changing: `make_rows`, `arrive`; whoever changes results writes to the columns.
    - For kernels: `readers`, `owners`, `posts`, `places`, `gains`, `top`.
    - Keeping: `state`, `restore`.

    Attributes:
        alpha, k: by subscription, as they count.
        listed: by subscription: the threshold that the lists know.
        stamp: by subscription: the stamp of its entries in the lists.
        ages: by message: time and arrival, which say who is newer, and its stamp in the lists.
        arrivals: how many messages have come.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.alpha, self.k = np.zeros(0), np.zeros(0, np.int64)
        self.listed = np.zeros(0)
        self.stamp: Bits = np.zeros(0, np.uint16)
        self.ages = Ages(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint16))
        self.arrivals = 0

    def make_rows(self) -> None:
        """Have a row for every row of the slots."""
        subscriptions, messages = self._world.subscriptions.used, self._world.messages.used
        if subscriptions > self.stamp.size:
            length = max(subscriptions, self.stamp.size * 9 // 8)
            for name in OWN:
                setattr(self, name, grown(getattr(self, name), length, 0))
        if messages > self.ages.stamp.size:
            length = max(messages, self.ages.stamp.size * 9 // 8)
            self.ages = Ages(*(grown(array, length, 0) for array in self.ages))

    def arrive(self, rows: Rows, times: Ints) -> None:
        """Messages of some times come, in this order."""
        self.ages.time[rows] = times
        self.ages.arrival[rows] = np.arange(self.arrivals, self.arrivals + rows.size)
        self.arrivals += rows.size

    def readers(self, threshold: Floats) -> Readers:
        """All subscriptions, with the thresholds given."""
        slots, texts = self._world.subscriptions, self._world.interests.texts()
        return Readers(slots["x"], slots["y"], self.alpha, threshold, self.stamp, texts)

    def owners(self) -> Owners:
        """All subscriptions as lists by word know them."""
        slots = self._world.subscriptions
        return Owners(slots["x"], slots["y"], self.alpha, self.listed, self.stamp)

    def posts(self, rows: Rows) -> Posts:
        """All messages, and those at hand."""
        slots = self._world.messages
        return Posts(rows, slots["x"], slots["y"], self._world.texts.texts(), self.gains(), self.top())

    def places(self) -> Places:
        """All messages as lists by word know them."""
        slots = self._world.messages
        return Places(slots["x"], slots["y"], self.ages.stamp)

    def gains(self) -> Floats:
        """The gains of messages by row, none if scores do not fade."""
        return self._world.messages["gain"] if self._world.fading else np.zeros(0)

    def top(self) -> float:
        """The largest gain in the window."""
        gain, newest = self.gains(), self._world.window.rows()[-1:]
        return float(gain[newest[0]]) if gain.size and newest.size else 1.0

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """How many messages have come, and the columns."""
        own: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in OWN}
        return {"arrivals": self.arrivals}, own | {f"age_{n}": a for n, a in self.ages._asdict().items()}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        _, mine = self.state()
        given = {name: arrays[name] for name in mine}
        lengths = {name: given["age_stamp" if name.startswith("age_") else "stamp"].size for name in mine}
        integrity.forms(given, {n: integrity.like(array, length=lengths[n]) for n, array in mine.items()})
        self.arrivals = integrity.whole(header, "arrivals")
        self.alpha, self.k, self.listed, self.stamp = (arrays[name] for name in OWN)
        self.ages = Ages(**{name: arrays[f"age_{name}"] for name in Ages._fields})
        return self

    def check_restored(self, subscriptions: Rows, messages: Rows, most: int) -> None:
        """Refuse columns from a snapshot that are too short for the rows that are there, or odd."""
        integrity.need(subscriptions.max(initial=-1) < self.stamp.size, "stamp", "is too short")
        integrity.need(messages.max(initial=-1) < self.ages.stamp.size, "age_stamp", "is too short")
        alpha = self.alpha[subscriptions]
        integrity.need(((alpha >= 0) & (alpha <= 1)).all(), "alpha", "is not from 0 to 1")
        integrity.within(self.k[subscriptions], 1, most + 1, "k")
        integrity.no_nan(self.listed, "listed")


CELL, NEED_GROUPS = 960, 30  # [Geo §7.1], in whole blocks
MANY = 4096  # subscriptions searched for at a time
AHEAD = 1.05  # where scores fade, lists are made for gains up to so much more than there are
MOST_K = 2**28  # of a subscription, as it counts
RISE = 0.02  # a threshold that has risen by more is told to the lists


class Way(NamedTuple):
    """How subscriptions are found and results filled up; groups a cell of the lists, extent of buffers."""

    method: str
    refill: str
    groups: int
    extent: Extent


class Structures:
    """Lists of subscriptions and of messages, buffers, and the ledger."""

    def __init__(self, world: World, way: Way) -> None:
        self._world = world
        self._frame = frame_of(world.space.metric, world.space.bounds, world.space.scale)
        self._readers: WordIndex | CellIndex = (
            CellIndex(self._frame) if way.method == "ciq" else WordIndex(self._frame, Shape(CELL, way.groups))
        )
        self._messages = MessageIndex(self._frame)
        self._buffers = ResultBuffers(way.refill, way.extent)
        self._ledger = Ledger(world)
        # What lists know of thresholds holds for messages with gains up to this.
        self._horizon = 1.0
        self._missing: list[str] = []  # in a state that is being restored
        # Not part of the state: it means nothing between calls.
        self._scratch = Scratch(np.zeros(0), np.zeros(0, np.int32))

    def _make_rows(self) -> None:
        """Have a row for every row of the slots."""
        self._ledger.make_rows()
        self._buffers.make_rows(self._world.subscriptions.used, self._world.messages.used)

    def _idf(self) -> Floats:
        """The idf of every term; afterwards all structures know as many."""
        idf: Floats = self._world.terms.slots["idf"]
        self._readers.know(idf.size)
        self._messages.know(idf.size)
        if self._scratch.weight.size < idf.size:
            self._scratch = Scratch(np.zeros(idf.size), np.zeros(idf.size, np.int32))
        return idf

    # Buffers

    def _search(self, rows: Rows, begun: Bools | None = None) -> None:
        """Fill buffers from the messages of the window; those that are `begun` begin with what they hold."""
        if not rows.size:
            return
        if begun is not None and not np.count_nonzero(begun):
            begun = None
        ledger, window, idf, start = self._ledger, len(self._world.window), self._idf(), 0
        posts, readers = ledger.posts(np.zeros(0, np.int32)), ledger.readers(self._buffers.threshold)
        while start < rows.size:
            part = rows[start : start + MANY]
            keep = self._buffers.keeps(ledger.k[part], window)
            wanted = self._buffers.wanted(keep, ledger.k[part], window)
            part = part[: max(1, 64 * MANY // int(wanted.max()))]
            keep, wanted = keep[: part.size], wanted[: part.size]
            shape = (part.size, int(wanted.max()))
            found = Found(
                np.empty(shape, np.int32), np.empty(shape), *(np.zeros(part.size, t) for t in ("i4", "i8"))
            )
            if begun is not None:
                self._buffers.suggest(part, begun[start : start + part.size], wanted, found)
            best_messages(
                self._messages.lists, part, wanted, readers, posts, ledger.ages, idf, self._scratch,
                self._frame, found,
            )  # fmt: skip
            self._buffers.fill(part, found, keep, ledger.k[part], ledger.ages)
            start += part.size

    # Lists

    def _list(self, rows: Rows) -> None:
        """List subscriptions that are not listed, with the thresholds they have now."""
        self._ledger.listed[rows] = self._buffers.threshold[rows] / self._horizon
        texts = self._world.interests.texts()
        self._readers.add(rows, texts, self._idf(), self._ledger.owners())

    def _list_anew(self, rows: Rows) -> None:
        """List subscriptions anew that are listed, with the thresholds they have now."""
        self._ledger.listed[rows] = self._buffers.threshold[rows] / self._horizon
        texts = self._world.interests.texts()
        self._readers.update(rows, texts, self._idf(), self._ledger.owners())

    def _list_moved(self, rows: Rows) -> None:
        """List subscriptions anew whose threshold fell, or rose by enough to make a difference."""
        now, listed = self._buffers.threshold[rows] / self._horizon, self._ledger.listed[rows]
        moved = rows[(now < listed) | (now > listed + RISE)]
        if moved.size:
            self._list_anew(moved)

    def _look_ahead(self) -> None:
        """Where scores fade, list all subscriptions anew when the newest message has outrun the lists."""
        top = self._ledger.top()
        if top > self._horizon:
            self._horizon = AHEAD * top
            self._list_anew(self._world.subscriptions.live())

    # State

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The state of the structures, under their names."""
        header, arrays = self._ledger.state()
        header["horizon"] = self._horizon
        for name, part in self._structures().items():
            header[name], mine = part.state()
            arrays |= {f"{name}_{array}": values for array, values in mine.items()}
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        horizon = header["horizon"]
        plain = type(horizon) in (int, float) and 0 < horizon < 1e300
        integrity.need(plain, "horizon", f"is {horizon!r:.40}, expected a number above 0")
        self._horizon = float(horizon)
        self._ledger.restore(header, arrays)
        known = (*self._structures(), *self._ledger.state()[1])
        odd = [name for name in arrays if not name.startswith(known)]
        integrity.need(not odd, odd[0] if odd else "", "is not known")
        for name, part in self._structures().items():
            prefix = f"{name}_"
            held = {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}
            if (name == "readers" and _without_signs(held)) or (name == "messages" and name not in header):
                self._missing.append(name)  # lists of before are made anew
            else:
                part.restore(header[name], held)
        return self

    def complete(self) -> None:
        """Make lists that a state of before does not have."""
        if "messages" in self._missing:
            rows, texts = self._world.window.rows(), self._world.texts.texts()
            self._messages.add(rows, texts, self._idf(), self._ledger.places())
        if "readers" in self._missing:
            self._list(self._world.subscriptions.live())
        self._missing.clear()

    def check_restored(self) -> None:
        """Refuse structures from a snapshot that are not those of the world; see `integrity`."""
        world, ledger = self._world, self._ledger
        ledger.check_restored(world.subscriptions._live(), world.messages._live(), MOST_K)
        readers, posts = (
            slots["sequence"][: slots.used] >= 0 for slots in (world.subscriptions, world.messages)
        )
        self._buffers.check_restored(readers, posts, ledger.k)
        if "readers" not in self._missing:
            self._readers.check_restored(world.interests.texts(), ledger.stamp, readers)
        if "messages" not in self._missing:
            self._messages.check_restored(world.texts.texts(), ledger.ages.stamp, posts)

    def _structures(self) -> dict[str, WordIndex | CellIndex | MessageIndex | ResultBuffers]:
        return {"readers": self._readers, "messages": self._messages, "buffers": self._buffers}


def _without_signs(held: Mapping[str, NDArray[Any]]) -> bool:
    """Whether arrays are lists of subscriptions as they once were."""
    return "fact" in held and held["fact"].shape[1:] == (8, STEP)
