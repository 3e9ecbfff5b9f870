"""What subscriptions ask for beyond a place and terms: a radius, a least score, terms a message must have.

All of it is by row, beside the vectors of terms, and there only once a subscription asks for something: an
engine whose subscriptions do not pays nothing. Limits do not change with time, so a message that fails one
for a subscription is never in its result, and buffers hold what passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import InputError
from rankcast.geotext.kernels.score import Frame, Limits, TermVectors
from rankcast.geotext.phrases import NO_PHRASES, OrderedTerms, WantedPhrases, read_phrases, saying
from rankcast.geotext.text import Analyzer, analyzed, read_terms
from rankcast.geotext.vocabulary import LiveTerms, TextVectors, Vectors
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.structures.ids import Slots
from rankcast.tables.schema import NO_TIME, Batch, Bools, Column, Floats, Ints, Kind, Rows, Terms

RADIUS = Column("radius", required=False, nullable=True)
MIN_SCORE = Column("min_score", required=False, nullable=True)
MUST = Column("must", Kind.TERMS, required=False, nullable=True)
MUST_NOT = Column("must_not", Kind.TERMS, required=False, nullable=True)
SINCE = Column("since", Kind.TIME, required=False, nullable=True)
COLUMNS = (RADIUS, MIN_SCORE, MUST, MUST_NOT)
NAMES = ("radius", "min_score", "must", "must_not", "since", "phrases")
NONE = {"radius": np.inf, "score": 0.0, "since": NO_TIME}  # by column: no limit
NO_LIMITS = Limits(
    np.empty(0),
    np.empty(0),
    np.empty(0, np.int64),
    TermVectors(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0)),
    NO_PHRASES,
)


def given(batch: Batch) -> bool:
    """Whether a batch of subscriptions says anything of limits."""
    return any(name in batch for name in NAMES)


def read_words(batch: Batch, analyzer: Analyzer | None) -> None:
    """Analyse what a batch of subscriptions has of words, if there is an analyzer, and read its phrases."""
    where = "subscriptions"
    if analyzer is not None and "text" in batch:
        batch.apart["terms"] = read_terms(batch, analyzer, where)
    for name in ("must", "must_not"):
        if analyzer is not None and name in batch:
            batch.apart[name] = analyzed(batch[name], analyzer, where)
    if "phrases" in batch:
        batch.apart["phrases"] = read_phrases(batch["phrases"], analyzer, where)


def refuse(batch: Batch) -> None:
    """Refuse a radius below 0."""
    if "radius" in batch and (batch["radius"] < 0).any():
        row = int(np.argmax(batch["radius"] < 0))
        raise InputError(
            f"is {batch['radius'][row]:g}",
            where="subscriptions",
            column="radius",
            row=row,
            expected="a number that is not below 0",
        )


def check_subscriptions(slots: Slots, live: Rows) -> None:
    """Refuse live subscriptions from a snapshot whose places, alphas or k are impossible."""
    for column in ("x", "y"):
        integrity.finite(slots[column][live], f"subscription.{column}")
    alpha = slots["alpha"][live]
    integrity.need(
        not (np.isinf(alpha) | (alpha < 0) | (alpha > 1)).any(), "subscription.alpha", "is not from 0 to 1"
    )
    integrity.within(slots["k"][live], 0, integrity.MOST, "subscription.k")


class Interests(Vectors):
    """The terms of subscriptions by row, and their limits.

    Attributes:
        limits: for kernels; empty as long as no subscription has any.
        floor: by row, a score that no message is below which the subscription takes; empty likewise.
        phrases: by row, if there are any.
    """

    def __init__(self, frame: Frame, *, phrases: bool = False) -> None:
        super().__init__()
        self.phrases = OrderedTerms() if phrases else None
        self._frame = frame
        self._conditions = Vectors()
        self.limits, self.floor = NO_LIMITS, np.empty(0)

    def limit(self, rows: Rows, batch: Batch, alpha: Floats, terms: LiveTerms, *, whole: bool) -> None:
        """Take over the limits that a batch gives; `whole`: what it does not give is no limit."""
        if not self.limits.radius.size and not given(batch):
            return
        self._make_limits(max(self.texts.begin.size, int(rows.max(initial=-1)) + 1))  # of those without, too
        limits = self.limits
        plain = {"radius": limits.radius, "min_score": limits.score}
        for (name, column), none in zip(plain.items(), (np.inf, 0.0), strict=True):
            if name in batch:
                column[rows] = np.where(np.isnan(batch[name]), none, batch[name])
            elif whole:
                column[rows] = none
        if "since" in batch:
            limits.since[rows] = batch["since"]  # a null is the earliest time
        elif whole:
            limits.since[rows] = NO_TIME
        if whole or "must" in batch or "must_not" in batch:
            self._set_conditions(rows, batch, terms, whole=whole)
        if self.phrases is not None and "phrases" in batch:
            wanted: WantedPhrases = batch["phrases"]
            words = Terms(np.arange(wanted.words.size + 1), wanted.words)  # a reference to each
            found, former = terms.acquire(words).term, self.phrases.clear(rows)
            self.phrases.want(rows, wanted, found)
            terms.drop(former)
        self.weigh(rows, alpha)

    def weigh(self, rows: Rows, alpha: Floats) -> None:
        """Work out what no message is below that subscriptions with these alphas take."""
        if self.limits.radius.size:
            near = np.maximum(0.0, 1.0 - self.limits.radius[rows] / self._frame.scale)
            self.floor[rows] = np.maximum(alpha * near - 1e-9, self.limits.score[rows])

    def drop_limits(self, rows: Rows) -> Rows:
        """Subscriptions go; returns the terms that they had conditions on."""
        if not self.limits.radius.size:
            return np.empty(0, np.int32)
        held = rows[rows < self._conditions.texts.size.size]
        dropped = self._conditions.clear(held)
        return dropped if self.phrases is None else np.concatenate([dropped, self.phrases.clear(rows)])

    def uses(self, terms: int) -> Ints:
        """How often vectors, conditions and phrases use each of so many terms."""
        found = super().uses(terms) + self._conditions.uses(terms)
        return found if self.phrases is None else found + self.phrases.uses(terms)

    def conditions(self, row: int) -> tuple[Rows, Rows]:
        """The terms that a message must have, and those that it must not."""
        if not self.limits.radius.size:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        entries = self._conditions.entries(np.array([row], np.int32))
        return entries.term[entries.weight > 0], entries.term[entries.weight < 0]

    def _set_conditions(self, rows: Rows, batch: Batch, terms: LiveTerms, *, whole: bool) -> None:
        """Set the terms that must be there and must not; a column that is absent keeps its own."""
        old = self._conditions.entries(rows)
        parts: list[tuple[Ints, Rows, Floats]] = []
        for name, sign in (("must", 1.0), ("must_not", -1.0)):
            if name in batch:
                found = terms.acquire(batch[name])
                owner = np.repeat(np.arange(rows.size), found.counts)
                parts.append((owner, found.term, np.full(found.term.size, sign)))
            elif not whole:
                kept = old.weight * sign > 0
                parts.append((old.owner[kept], old.term[kept], old.weight[kept]))
                terms.slots["references"][:] += np.bincount(
                    old.term[kept], minlength=terms.slots["references"].size
                )
        owner, term, sign_of = (
            (np.concatenate(each) for each in zip(*parts, strict=True))
            if parts
            else (np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0))
        )
        order = np.argsort(owner, kind="stable")
        counts = np.bincount(owner, minlength=rows.size).astype(np.int64)
        once = np.ones(term.size, np.int64)
        given_now = TextVectors(counts, term[order].astype(np.int32), sign_of[order], once)
        replaced = self._conditions.store(rows, given_now)
        terms.drop(replaced.term)
        self.limits = self.limits._replace(terms=self._conditions.texts)

    def _make_limits(self, rows: int) -> None:
        """Grow the arrays by row to at least so many."""
        held = self.limits.radius.size
        if rows > held or not held:
            length = max(rows, held * 9 // 8 + 8)
            arrays = {name: grown(getattr(self.limits, name), length, none) for name, none in NONE.items()}
            self._conditions.make_rows(length)
            self.limits = Limits(**arrays, terms=self._conditions.texts, phrases=NO_PHRASES)
            self.floor = grown(self.floor, length, 0.0)
            if self.phrases is not None:
                self.phrases.make_rows(length)

    def make_rows(self, rows: int) -> None:
        """Grow the arrays by row to at least `rows`."""
        super().make_rows(rows)
        if self.limits.radius.size:
            self._make_limits(self.texts.begin.size)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """That of the vectors, and limits if there are any."""
        header, arrays = super().state()
        if not self.limits.radius.size:
            return header, arrays
        limits, conditions = self.limits, self._conditions.texts._asdict()
        own = {"radius": limits.radius, "score": limits.score, "since": limits.since, "floor": self.floor}
        arrays = {**arrays, **own, **{f"condition_{name}": array for name, array in conditions.items()}}
        return {**header, "conditions": self._conditions.used}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` gave."""
        vectors = {name: arrays[name] for name in (*TermVectors._fields, "frequency") if name in arrays}
        super().restore(header, vectors if "conditions" in header else arrays)
        if "conditions" not in header:
            return self
        others = {name: array for name, array in arrays.items() if name not in vectors}
        conditions = {
            name.removeprefix("condition_"): others.pop(name)
            for name in list(others)
            if name.startswith("condition_")
        }
        size = others["radius"].size if "radius" in others else 0
        numbers: dict[str, integrity.Form] = dict.fromkeys(
            ("radius", "score", "floor"), (np.float64, (size,))
        )
        integrity.forms(others, {**numbers, "since": (np.int64, (size,))})
        self._conditions.restore({"used": header["conditions"]}, conditions)
        columns = others["radius"], others["score"], others["since"]
        self.limits = Limits(*columns, self._conditions.texts, NO_PHRASES)
        self.floor = others["floor"]
        return self

    def check_restored(self, live: Rows, terms: int) -> Ints:
        """Refuse vectors and limits from a snapshot that are not of `live` rows; how often terms are used."""
        uses = super().check_restored(live, terms)
        if self.limits.radius.size:
            integrity.need(live.max(initial=-1) < self.limits.radius.size, "radius", "is too short")
            for name in ("radius", "score"):
                integrity.no_nan(getattr(self.limits, name), name)
            integrity.no_nan(self.floor, "floor")
            uses = uses + self._conditions.check_restored(live, terms)
        if self.phrases is not None:
            self.phrases.check_restored(live, terms, phrases=True)
            rows = self.phrases.columns().begin.size
            integrity.need(rows >= self.limits.radius.size, "phrase.begin", "is too short")
            uses = uses + self.phrases.uses(terms)
        return uses


class Permitted(NamedTuple):
    """Whether each message of the window passes the limits of one subscription, and which limit it fails."""

    all: Bools
    failed: dict[str, Bools]


def permitted(
    interests: Interests, row: int, distance: Floats, score: Floats, times: Ints, has: Any,
    said: list[list[int]],
) -> Permitted:  # fmt: skip
    """Compare messages with the limits of a subscription; `has` says which of them have a term.

    `said` are their words in order, if these are kept.
    """
    limits, size = interests.limits, distance.size
    if not limits.radius.size:
        return Permitted(np.ones(size, np.bool_), {})
    must, must_not = interests.conditions(row)
    lacking, having = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    for term in must:
        lacking |= ~has(term)
    for term in must_not:
        having |= has(term)
    failed = {
        "radius": distance > limits.radius[row],
        "min_score": score < limits.score[row],
        "since": times < limits.since[row],
        "must": lacking,
        "must_not": having,
    }
    if interests.phrases is not None:
        failed["phrases"] = ~saying(said, interests.phrases.phrases_of(row))
    return Permitted(~np.any(list(failed.values()), axis=0), failed)
