"""Which subscriptions a message may enter, and which messages are best for one, if vectors count alone.

Both are found by sketches of all rows (see `rankcast.geotext.kernels.vectors`): `VectorReaders` has those of
subscriptions, `VectorMessages` those of messages. Both share one `Projection`, the directions that the
vectors of late have most of. It is learned from a sample of them, anew when as many have come as there were
the last time, and taken over if it is better by some; that costs no more than the sketches of what came.
Where vectors have no such directions, a projection rules out nothing. They are multiplied as a whole then, by
BLAS, in float32, and the products are the bounds.

Sketches follow from the vectors and the projection: a snapshot has neither of them but the latter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.brute_force import GeoTextState
from rankcast.geotext.kernels import vectors as kernel
from rankcast.geotext.kernels.match import Prunings
from rankcast.geotext.kernels.message_search import SearchResults
from rankcast.geotext.kernels.pair_scores import ARRIVAL, GROUPS, Hits, score_pairs, sort_keys
from rankcast.geotext.kernels.postings import Ages, ListedColumns
from rankcast.geotext.kernels.score import (
    Bits,
    Floats32,
    MessageColumns,
    Plain,
    Scratch,
    SubscriptionColumns,
    TermVectors,
)
from rankcast.geotext.kernels.vector_search import best_by_bounds
from rankcast.geotext.kernels.vectors import ALPHA, BAR, FACTS, NOBODY
from rankcast.geotext.postings import MAX_CANDIDATES, MessagePostings
from rankcast.geotext.vectors import Meanings, UnitVectors
from rankcast.structures import integrity
from rankcast.structures.ids import Slots
from rankcast.tables.schema import Bools, Floats, Ints, Rows

SKETCH = 32  # coordinates of a sketch, at most
SAMPLE = 1024  # vectors of each kind that a projection is learned from
ROUNDS = 4  # of finding the directions that a sample has most of
FIRST_LEARNED = 256  # vectors after which a projection is learned first
BETTER = 0.02  # how much more of the squares of a sample a new projection has to show
WEAK = 0.45  # a projection that shows less of them rules out too little
PASSING = 8  # sketches that let more than one pair in so many pass rule out too little, too
BLOCK_ROWS, BLOCK_PRODUCTS = 4096, 1 << 18  # rows that are multiplied at a time; products, as a cache holds
FEW = 16  # vectors that are multiplied without rounding
BLOCK_BOUNDS = 1 << 22  # bounds that are kept at a time
EPSILON = 2.0**-23  # of float32, with room for the products of rounded numbers


class Lists(NamedTuple):
    """What `PostingLists.lists` is for those who count its bytes."""

    coordinates: Floats32
    facts: Floats32


class Projection:
    """Orthonormal directions, as lines of `basis`; the first ones have most of the vectors."""

    def __init__(self, meanings: Meanings) -> None:
        self.size = min(SKETCH, meanings.width)
        self.basis = np.eye(self.size, meanings.width)
        self.exact = meanings.width <= SKETCH  # the directions are all there are
        self.shown = 1.0  # the share of the squares of a sample that the directions have
        self.learned, self.since = 0, 0  # vectors when it was learned, and how many have come since

    @property
    def weak(self) -> bool:
        """Whether it rules out so little that whole vectors are better multiplied."""
        return self.shown < WEAK

    def due(self, added: int) -> bool:
        """Note that vectors have come; whether it is time to learn."""
        self.since += added
        return not self.exact and self.since >= max(FIRST_LEARNED, self.learned)

    def learn(self, sample: Floats, live: int) -> bool:
        """Learn from a sample; whether the projection is another one then.

        The directions are found by iterating a subspace: multiplied by the sample and its transpose they turn
        to those of the largest squares.
        """
        first, self.learned, self.since = self.learned == 0, live, 0
        squares = float(np.square(sample).sum())
        self.shown = float(np.square(sample @ self.basis.T).sum()) / squares if squares else 1.0
        turned = np.random.default_rng(7).normal(size=(sample.shape[1], self.size))
        for _ in range(ROUNDS):
            turned = np.linalg.qr(sample.T @ (sample @ np.linalg.qr(turned)[0]))[0]
        order = np.linalg.svd(sample @ turned, full_matrices=False)[2]
        basis = np.ascontiguousarray(np.linalg.qr(turned @ order.T)[0].T)
        shown = float(np.square(sample @ basis.T).sum()) / squares if squares else 1.0
        if shown <= self.shown + BETTER and not first:
            return False
        self.basis, self.shown = basis, shown
        return True

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What it has learned, and when."""
        return {"shown": self.shown, "learned": self.learned, "since": self.since}, {"basis": self.basis}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` gave; refuses directions that are not orthonormal."""
        integrity.forms(arrays, {"basis": (np.float64, self.basis.shape)})
        basis = arrays["basis"]
        integrity.finite(basis.reshape(-1), "readers_basis")
        fits = np.abs(basis @ basis.T - np.eye(self.size)).max() < 1e-9
        integrity.need(bool(fits), "readers_basis", "is not orthonormal")
        shown = header["shown"]
        plain = type(shown) in (int, float) and 0 <= shown < 2
        integrity.need(plain, "shown", f"is {shown!r:.40}, expected a share")
        self.basis, self.shown = basis, float(shown)
        self.learned, self.since = (integrity.whole(header, name) for name in ("learned", "since"))
        return self


class Sketches:
    """The sketches of rows: coordinates by line, and facts, each by row."""

    def __init__(self, vectors: UnitVectors, slots: Slots, projection: Projection, frame: Plain) -> None:
        self.vectors, self._slots, self._projection, self._frame = vectors, slots, projection, frame
        self.coordinates = np.zeros((0, projection.size), np.float32)
        self.facts = np.zeros((FACTS, 0), np.float32)

    @property
    def used(self) -> int:
        """How many rows the slots have; arrays are made as long."""
        count, held = self._slots.used, self.facts.shape[1]
        if count > held:
            length = max(count, held * 9 // 8 + 8)
            coordinates, facts = self.coordinates, self.facts
            self.coordinates = np.zeros((length, self._projection.size), np.float32)
            self.facts = np.zeros((FACTS, length), np.float32)
            self.coordinates[:held], self.facts[:, :held] = coordinates, facts
            self.facts[BAR, held:] = NOBODY
        return count

    def of(self, rows: Rows) -> tuple[Floats32, Floats32]:
        """The sketches of some rows, one behind the other."""
        lines, facts = (
            np.empty((rows.size, self._projection.size), np.float32),
            np.zeros((FACTS, rows.size), np.float32),
        )
        self._sketch(rows, lines, facts, np.arange(rows.size))
        return lines, facts

    def add(self, rows: Rows) -> None:
        """Sketch rows; those of subscriptions need alpha and what is to beat besides."""
        assert self.used > rows.max(initial=-1)
        self._sketch(rows, self.coordinates, self.facts, rows.astype(np.int64))

    def again(self) -> None:
        """Sketch all rows that are there anew, by another projection."""
        bars = self.facts[BAR].copy()
        self.add(np.flatnonzero(bars < NOBODY).astype(np.int32))
        self.facts[BAR] = bars

    def forget(self, rows: Rows) -> None:
        """Rows go."""
        self.facts[BAR, rows] = NOBODY

    def products(self, others: NDArray[Any], *, whole: bool) -> Iterator[tuple[int, Floats32]]:
        """The products of coordinates, or of whole vectors, of all rows with others of their kind.

        A block of rows at a time, and its first row. Few whole vectors are multiplied as they are: it would
        take longer to round all the others.
        """
        count, mine = self.used, self.vectors.unit if whole else self.coordinates
        kind = np.float64 if whole and others.shape[0] < FEW else np.float32
        turned = np.ascontiguousarray(others.astype(kind, copy=False).T)
        step = min(BLOCK_ROWS, max(64, BLOCK_PRODUCTS // max(1, turned.shape[1])))
        for first in range(0, count, step):
            product = mine[first : min(first + step, count)].astype(kind, copy=False) @ turned
            yield first, product.astype(np.float32, copy=False)

    def _sketch(self, rows: Rows, lines: Floats32, facts: Floats32, at: Ints) -> None:
        slots, basis = self._slots, self._projection.basis
        kernel.sketch(self.vectors.unit, rows, basis, slots["x"], slots["y"], self._frame, lines, facts, at)


def sketches_of(state: GeoTextState) -> tuple[Sketches, Sketches, Projection]:
    """Empty sketches of subscriptions and of messages, and the projection that they share."""
    meanings, frame = state.meanings, tuple(state.frame)
    assert meanings is not None
    projection = Projection(meanings)
    return (
        Sketches(meanings.mine, state.subscriptions, projection, frame),
        Sketches(meanings.theirs, state.messages, projection, frame),
        projection,
    )


def learn(state: GeoTextState, kinds: tuple[Sketches, Sketches], projection: Projection) -> None:
    """Learn a projection from the vectors that are live, and sketch all rows anew if it is better."""
    meanings = state.meanings
    assert meanings is not None
    sample, live = [], 0
    for vectors, slots in ((meanings.mine, state.subscriptions), (meanings.theirs, state.messages)):
        rows = slots._live()
        rows = rows[rows < vectors.given.size]
        live += rows.size
        sample.append(vectors.unit[rows[:: max(1, rows.size // SAMPLE)]])
    if projection.learn(np.concatenate(sample), live):
        for sketches in kinds:
            sketches.again()


class VectorReaders:
    """Which subscriptions a message may enter, by sketches; a `SubscriptionIndex`.

    Memory: 152 bytes a subscription, for vectors of 32 numbers or more.
    """

    def __init__(self, state: GeoTextState, kinds: tuple[Sketches, Sketches], projection: Projection) -> None:
        self._state, self._kinds, self._projection = state, kinds, projection
        self._mine, self._theirs = kinds

    @property
    def lists(self) -> Any:
        """The arrays that it holds."""
        return Lists(self._mine.coordinates, self._mine.facts)

    def know(self, terms: int) -> None:
        """Terms have no arrays here."""

    def add(self, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns) -> None:
        """Sketch subscriptions."""
        if rows.size:
            self._mine.add(rows)
            self.update(rows, texts, idf, owners)
            if self._projection.due(rows.size):
                learn(self._state, self._kinds, self._projection)

    def drop(self, rows: Rows, texts: TermVectors, stamps: Bits) -> None:
        """Subscriptions go."""
        self._mine.forget(rows)

    def update(self, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns) -> None:
        """Take over what subscriptions have to be beaten by."""
        kernel.set_bars(self._mine.facts, rows, owners.alpha, owners.threshold, owners.floor)

    def disseminate(
        self, subscriptions: SubscriptionColumns, messages: MessageColumns, idf: Floats, scratch: Scratch,
        on: Prunings, counters: Ints, listed: Floats,
    ) -> Hits | None:  # fmt: skip
        """The hits of messages; None if they are too many to be taken together."""
        rows, pairs = messages.rows, self._mine.used * messages.rows.size
        keys, count = np.empty(0, np.int64), -1
        if not self._projection.weak:
            most = max(BLOCK_ROWS, min(MAX_CANDIDATES, pairs // PASSING))
            keys, count = self._pairs(rows, most, whole=False)
        if count < 0:
            keys, count = self._pairs(rows, MAX_CANDIDATES if rows.size > 1 else pairs, whole=True)
        if count < 0:
            return None
        counters[GROUPS] += pairs - count
        ordered = sort_keys(keys[:count], ARRIVAL, rows.size, self._mine.used) >> ARRIVAL
        return Hits(*score_pairs(ordered, subscriptions, messages, self._state.frame, on.current, counters))

    def _pairs(self, rows: Rows, most: int, *, whole: bool) -> tuple[Ints, int]:
        """Keys of the pairs with messages of `rows` that may pass, and how many; -1: more than `most`."""
        facts, slack, reach = (
            self._theirs.facts.take(rows, axis=1),
            _slack(self._state),
            self._state.frame.reach,
        )
        others = self._theirs.vectors.unit[rows] if whole else self._theirs.coordinates[rows]
        keys, count = np.empty(BLOCK_ROWS, np.int64), 0
        for first, product in self._mine.products(others, whole=whole):
            keys, count = kernel.find_pairs(
                product, first, self._mine.facts, facts, slack, whole, reach, keys, count, most
            )
            if count < 0:
                break
        return keys, count

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """That of the projection."""
        return self._projection.state()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a projection; sketches are made by `again`."""
        self._projection.restore(header, arrays)
        return self

    def again(self, rows: Rows, owners: ListedColumns) -> None:
        """Sketch all subscriptions, after a snapshot was loaded."""
        self._mine.add(rows)
        self.update(rows, NO_TEXTS, owners.alpha, owners)

    def check_restored(self, texts: TermVectors, stamps: Bits, live: Bools) -> None:
        """The projection is all there is, and was looked at."""


NO_TEXTS = TermVectors(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))


class VectorMessages(MessagePostings):
    """The messages of the window by sketches, too.

    Memory: 152 bytes a message more, for vectors of 32 numbers or more.
    """

    def __init__(self, state: GeoTextState, kinds: tuple[Sketches, Sketches], projection: Projection) -> None:
        super().__init__(state.frame)
        self._state, self._kinds, self._projection = state, kinds, projection
        self._mine, self._theirs = kinds

    def arrive(
        self, ages: Plain, rows: Rows, times: Ints, arrivals: int, newest: int, overtaken: Bools,
        texts: Plain, idf: Floats, x: Floats, y: Floats,
    ) -> None:  # fmt: skip
        """Add messages that arrive and write their ages."""
        super().arrive(ages, rows, times, arrivals, newest, overtaken, texts, idf, x, y)
        if rows.size:
            self._theirs.add(rows)
            if self._projection.due(rows.size):
                learn(self._state, self._kinds, self._projection)

    def again(self, rows: Rows) -> None:
        """Sketch messages, after a snapshot was loaded."""
        self._theirs.add(rows)

    def forget(self, rows: Rows) -> None:
        """Messages go."""
        self._theirs.forget(rows)

    def search(
        self, rows: Rows, wanted: Rows, subscriptions: SubscriptionColumns, messages: MessageColumns,
        ages: Ages, idf: Floats, scratch: Scratch, found: SearchResults,
    ) -> None:  # fmt: skip
        """Find the best messages for subscriptions, some at a time: bounds of all messages are kept."""
        count, reach, frame = self._theirs.used, self._state.frame.reach, self._state.frame
        step, slack = max(1, BLOCK_BOUNDS // max(1, count)), _slack(self._state)
        whole = self._projection.weak
        for start in range(0, rows.size, step):
            part = slice(start, start + step)
            some = rows[part]
            (lines, facts), bounds = self._mine.of(some), np.empty((some.size, count), np.float32)
            facts[ALPHA], facts[BAR] = subscriptions.alpha[some], 0.0
            others = self._mine.vectors.unit[some] if whole else lines
            for first, product in self._theirs.products(others, whole=whole):
                turned = np.ascontiguousarray(product.T)
                kernel.bounds_of_all(turned, first, facts, self._theirs.facts, slack, whole, reach, bounds)
            mine = SearchResults._make(column[part] for column in found)
            best_by_bounds(
                bounds, some, wanted[part], subscriptions, messages, ages, idf, scratch, frame, mine
            )


def _slack(state: GeoTextState) -> np.float32:
    """How far a product of two vectors in float32 may be from that in float64."""
    assert state.meanings is not None
    return np.float32((state.meanings.width + 8) * EPSILON)
