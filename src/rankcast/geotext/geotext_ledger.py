"""What live results of `GeoTextTopK` know by row, and the engine's arrays as kernels take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.kernels.geo_bounds import Bits
from rankcast.geotext.kernels.igpt import Posts, Readers
from rankcast.geotext.kernels.message_lists import Places
from rankcast.geotext.kernels.message_search import Ages
from rankcast.geotext.kernels.word_lists import Owners
from rankcast.geotext.places import Space
from rankcast.geotext.vectors import LiveTerms, Vectors
from rankcast.geotext.windows import Window
from rankcast.range_topk.objects import grown
from rankcast.structures import integrity
from rankcast.structures.ids import Slots
from rankcast.tables.schema import Floats, Ints, Rows

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
