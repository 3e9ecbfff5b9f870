"""`GeoTextTopK`: the k best recent messages for a place and some terms, kept current.

The engine owns the slots of subscriptions and their term vectors; `rankcast.geotext.messages` owns those of
messages and the window. `publish` works out what a batch does (which rows are late, which messages leave),
writes it, and updates the results: `rankcast.geotext.live` keeps them current, or with method="scan"
`rankcast.geotext.brute_force` computes them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from rankcast.core import locking
from rankcast.core.engine import ID, Part
from rankcast.core.list_engine import ListEngine
from rankcast.core.spec import Clock, Late, Reading
from rankcast.errors import InputError, SettingError
from rankcast.geotext import limits
from rankcast.geotext.brute_force import GeoTextState, Scan
from rankcast.geotext.buffers import REFILLS, BufferLimits, list_changes
from rankcast.geotext.indexes import PRUNINGS, live_settings
from rankcast.geotext.limits import Interests
from rankcast.geotext.live import LiveResults
from rankcast.geotext.messages import CLOCK, Incoming, Messages
from rankcast.geotext.phrases import PHRASES
from rankcast.geotext.places import (
    METRICS,
    PLACE,
    former_scale,
    frame_of_settings,
    moves,
    read_places,
    refuse_outside,
)
from rankcast.geotext.postings import NEED_GROUPS
from rankcast.geotext.settings import SPEC, bytes_by_part, from_json, truth, window_to_json
from rankcast.geotext.sources import Sources
from rankcast.geotext.text import Analyzer, no_terms, word_column
from rankcast.geotext.vectors import VECTOR, Meanings
from rankcast.geotext.vocabulary import FORM as VOCABULARY
from rankcast.geotext.vocabulary import LiveTerms, Replaced, Vocabulary, with_every
from rankcast.geotext.window import LATEST, decay_of, window_of
from rankcast.structures.ids import Slots
from rankcast.tables import deltas, schema
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Batch, Column, Floats, Form, Rows, Terms

METHODS = ("igpt", "ciq", "scan")
ALPHA = Column("alpha", required=False, nullable=True)


class GeoTextTopK(ListEngine):
    """The k messages of a sliding window that fit each subscription's place and terms best.

    The score of a message is `alpha * max(0, 1 - distance / scale) + (1 - alpha) * cosine`, computed in this
    order; the cosine is that of tf x idf vectors (see `rankcast.geotext.vocabulary`). A message without a
    common term is never in a result. Equal scores: the newer message first (later time, then later arrival).

    Optional columns of a subscription limit its result: `radius` (nothing farther), `min_score` (nothing
    below), `must` and `must_not` (lists of terms: a message must have all of the first and none of the
    second), and in a time window `since` (nothing older). A null means no limit.

    In a time window a message may have its own end, `until`: it leaves when the clock, the newest time
    so far, reaches it. `retract` takes messages back, `advance` moves the clock without a message. In a
    batch of messages the optional column `op` does the same: "publish", "retract" (uses only `id`), "advance"
    (uses only `time`), "reweigh" (`vocabulary`, words, and `documents`: of all, then with each word). A
    message that comes too late for its window or its `until` is ignored.

    A message may reuse the id of one that has left: if both are in a result before and
    after one batch, that is an `update` (or nothing, if the score is the same).

    Args:
        bounds: `(xmin, ymin, xmax, ymax)`; places outside are refused. Optional with "haversine".
        k: how many messages a subscription gets, unless it has its own k.
        alpha: the weight of the place against the terms, in [0, 1], unless a subscription has its own.
        window: how many messages are kept, or for how long (a `timedelta`; messages then have a `time`).
        metric: "euclidean", or "haversine" (x longitude, y latitude, distances in metres).
        scale: the distance beyond which a place counts nothing: a number, or with "haversine" a text such as
            "5 km" or "800 m". By default the diagonal of the bounds, on the globe its length there; without
            bounds half the Earth's circumference.
        vocabulary: document frequencies; None: every idf is 1.
        analyzer: splits texts into terms (`rankcast.text.Analyzer`, or its settings): messages and
            subscriptions then have a column `text` instead of `terms`; `must` and `must_not` are analysed,
            too.
        method: how to find the subscriptions that a message may concern.
        refill: what is kept beyond the k best, for when one of them expires.
        half_life: the time after which a score counts half as much (a `timedelta`; needs a time window).
            Messages are ranked by score times 0.5 to the power of age / half_life, an order that does not
            change as they grow older. The `score` of results and deltas is that at the message's own time.
        duplicates: what to do with a message that has the id of a live one: "refuse" it, or "edit": it
            replaces the live one.
        place_only: whether a subscription may have no terms (null or an empty list): it lists the nearest
            messages whatever their words, the newer first among equals, and its score is nearness alone.
        per_source: the most messages of one source in a result, by an optional column `source` of messages
            (integers or strings; a message without one is its own source). The best ones of each are listed.
            None: any number, and there is no such column.
        distinct: whether only the newest of messages with the same terms, each as often, at one place counts.
            When it is taken back or ends, the previous one counts again. Vectors must be equal, too.
        phrases: whether subscriptions may have a column `phrases`, lists of texts: a message is in the result
            only if it contains the words of each text (split at blanks, or analysed) one after the other. The
            engine then remembers the order of terms.
        vectors: the length of vectors: messages and subscriptions then have a column `vector`, a list of that
            many numbers from your own model, which is scaled to unit length. The text part of the score is
            then `beta * max(0, cosine of vectors) + (1 - beta) * cosine of terms`. All methods other than
            "scan" are then the same.
        beta: the weight of vectors against terms, in [0, 1]. With 1 no common term is needed, and terms (or
            texts) may be left out; with `place_only` a subscription may then have no vector (null).
        extra: "forbid" or "ignore" unknown columns.
        tuning: "groups" per cell of the word lists, by what is needed of words (default: 30); "kmax": how
            many times k a buffer keeps with that refill (3); "share": of the k-th score, where a plain
            skyband ends (0.95); "search": the price of a search against upkeep, relative to our measurement
            (1); "prune": which prunings are on (all), to measure what each is worth.

    >>> engine = GeoTextTopK(bounds=(0, 0, 4, 3), k=1, window=2)
    >>> engine.subscribe({"id": ["ann"], "x": [0], "y": [0], "terms": [["pizza"]]}).num_rows
    0
    >>> engine.publish({"id": [1, 2], "x": [0, 4], "y": [0, 3], "terms": [["pizza"], ["pizza"]]}).to_pylist()
    [{'subscription': 'ann', 'op': 'enter', 'item': 1, 'score': 1.0, 'rank': 1}]
    >>> changes = engine.publish({"id": [3], "x": [0], "y": [0], "terms": [["sushi"]]})
    >>> changes.select(["op", "item", "score"]).to_pylist()
    [{'op': 'leave', 'item': 1, 'score': None}, {'op': 'enter', 'item': 2, 'score': 0.5}]
    """

    spec = SPEC
    variants = (
        *({"method": "igpt", "refill": refill} for refill in REFILLS),
        {"method": "ciq", "refill": "kmax"},
        {"method": "scan", "refill": "none"},
    )
    known_tuning: ClassVar[dict[str, Any]] = {
        "prune": PRUNINGS,
        "groups": NEED_GROUPS,
    } | BufferLimits()._asdict()
    calls = (*ListEngine.calls, "retract", "advance", "reweigh")
    counters = ("expired", "late", "buffered", "cells_pruned", "groups_pruned", "verified", "reevaluations")

    def __init__(
        self,
        *,
        bounds: Sequence[float] | None = None,
        k: int = 20,
        alpha: float = 0.5,
        window: int | timedelta = 1_000_000,
        metric: str = "euclidean",
        scale: float | str | None = None,
        vocabulary: Vocabulary | None = None,
        analyzer: Analyzer | Mapping[str, Any] | None = None,
        method: str = "igpt",
        refill: str = "cost-skyband",
        half_life: timedelta | None = None,
        duplicates: str = "refuse",
        place_only: bool = False,
        per_source: int | None = None,
        distinct: bool = False,
        phrases: bool = False,
        vectors: int | None = None,
        beta: float = 1.0,
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        schema.one_of("metric", metric, METRICS)
        self._frame = frame_of_settings(bounds, metric, scale)
        self._plain_frame = tuple(self._frame)
        self._k = schema.whole("k", k)
        self._alpha = schema.number("alpha", alpha, low=0, high=1)
        self._timed = window_of(window).span > 0
        decay_of(half_life, window_of(window))  # refuses what does not fit
        schema.one_of("method", method, METHODS)
        schema.one_of("refill", refill, REFILLS)
        schema.one_of("duplicates", duplicates, ["refuse", "edit"])
        self._place_only = truth("place_only", place_only)
        self._analyzer = Analyzer.of(analyzer)
        share = schema.number("beta", beta, low=0, high=1)
        self._meanings = None if vectors is None else Meanings(vectors, share)
        self._alone = self._meanings is not None and self._meanings.alone
        everywhere = self._place_only and not self._alone
        self._sources = None if per_source is None else Sources(schema.whole("per_source", per_source))
        if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
            raise SettingError(
                f"vocabulary is a {type(vocabulary).__name__}", expected="a Vocabulary or None"
            )
        super().__init__(
            {
                "bounds": [self._frame.west, self._frame.south, self._frame.east, self._frame.north],
                "k": self._k,
                "alpha": self._alpha,
                "window": window_to_json(window),
                "metric": metric,
                # left out where it is what it was before there was a choice
                **({} if self._frame.scale == former_scale(self._frame) else {"scale": self._frame.scale}),
                "vocabulary": None if vocabulary is None else vocabulary.digest(),
                "method": method,
                "refill": refill,
                **({} if half_life is None else {"half_life": window_to_json(half_life)}),
                **({} if duplicates == "refuse" else {"duplicates": duplicates}),
                **({"place_only": True} if self._place_only else {}),
                **({} if self._sources is None else {"per_source": self._sources.most}),
                **({"distinct": True} if truth("distinct", distinct) else {}),
                **({"phrases": True} if truth("phrases", phrases) else {}),
                **({} if self._analyzer is None else {"analyzer": self._analyzer.settings()}),
                **({} if self._meanings is None else {"vectors": self._meanings.size, "beta": share}),
            },
            extra=extra,
            tuning=tuning,
        )
        _, *columns = self._known_columns()
        self._amendments = Form([ID, *(replace(column, required=False) for column in columns)])
        self._slots = Slots({"x": np.float64, "y": np.float64, "alpha": np.float64, "k": np.int64})
        self._terms = LiveTerms(vocabulary or Vocabulary.empty(), everywhere=everywhere)
        self._interests = Interests(self._frame, phrases=bool(phrases))
        self._messages = messages = Messages(
            self._frame, window, half_life, self._terms, self._read,
            edits=duplicates == "edit", everywhere=everywhere, analyzer=self._analyzer,
            sources=self._sources, distinct=bool(distinct), meanings=self._meanings, ordered=bool(phrases),
        )  # fmt: skip
        self._all_slots = [self._slots, messages.slots, self._terms.slots]
        self._all_slots += [each.slots for each in (self._sources, messages.copies) if each is not None]
        state = GeoTextState(
            self._slots, messages.slots, self._interests, messages.texts, self._terms, messages.window,
            self._frame, messages.decay is not None, self._sources, messages.copies, self._meanings,
            messages.said,
        )  # fmt: skip
        self._scan = Scan(state)
        self._live = None
        if method != "scan":
            self._live = LiveResults(state, live_settings(method, refill, self._tuning), self._count)

    @locking.inside
    def reads(self, call: str) -> Reading:
        """The columns that a call takes with these settings, and how errors name its rows."""
        known = {
            "amend": Reading(self._amendments, "subscriptions"),
            "publish": Reading(self._messages.form, "messages"),
            "advance": Reading(CLOCK, "advance"),
            "reweigh": Reading(VOCABULARY, "vocabulary"),
        }
        return known.get(call) or super().reads(call)

    @locking.inside
    def late(self, call: str, rows: pa.Table) -> Late | None:
        """Messages that come too late for the window, judged by their own times and those before them."""
        if call != "publish" or not self._messages.window.span:
            return None
        reason = InputError("is too late for the window", where="messages", column="time")
        return Late(self._messages.late(rows).tolist(), reason)

    def clock(self) -> Clock | None:
        """The newest time so far, and when the next message leaves by its age or `until`."""
        window = self._messages.window
        due = window.next_end()
        return Clock(window.clock, due) if due < LATEST else None

    # What `ListEngine` needs

    @property
    def _subscriptions(self) -> Slots:
        return self._slots

    @property
    def _items(self) -> Slots:
        return self._messages.slots

    def _parts(self) -> dict[str, Part]:
        parts: dict[str, Part] = {
            "subscription": self._slots,
            "term": self._terms,
            "interest": self._interests,
            **self._messages.parts(),
        }
        if self._meanings is not None:
            parts["subscription_vector"] = self._meanings.mine
        if self._interests.phrases is not None:
            parts["phrase"] = self._interests.phrases
        return parts if self._live is None else {**parts, "live": self._live}

    def _check_restored(self) -> None:
        subscriptions, messages = self._slots._live(), self._messages.slots._live()
        limits.check_subscriptions(self._slots, subscriptions)
        self._messages.check_restored(messages)
        if self._meanings is not None:
            self._meanings.mine.check_restored(subscriptions, "subscription_vector", blank=self._place_only)
        terms = self._terms.slots.used
        uses = self._interests.check_restored(subscriptions, terms)
        uses = uses + self._messages.texts.check_restored(messages, terms)
        self._terms.check_restored(uses)
        if self._live is not None:
            self._live.check_restored()

    def _complete(self) -> None:
        for vectors in (self._interests, self._messages.texts):
            vectors.recover(self._terms.slots["idf"])
        if self._live is not None:
            self._live.complete()

    @classmethod
    def _configured(cls, configuration: dict[str, Any], **given: Any) -> Self:
        engine = cls(**{**from_json(configuration), "vocabulary": None}, **given)
        engine._configuration["vocabulary"] = configuration["vocabulary"]
        return engine

    def _columns(self) -> list[Column]:
        blank = self._place_only or self._alone
        terms = word_column(self._analyzer, blank=blank, required=not self._alone)
        dense = []
        if self._meanings is not None:
            dense = [self._meanings.column(nullable=self._place_only)]
        more = [PHRASES] if self._configuration.get("phrases") else []
        more += [limits.SINCE] if self._timed else []
        return [*PLACE, terms, *dense, ALPHA, *limits.COLUMNS, *more]

    def _slot_values(self, batch: Batch, rows: Rows | None) -> dict[str, Any]:
        fields: dict[str, Any] = read_places(batch, self._plain_frame, "subscriptions")
        limits.read_words(batch, self._analyzer)
        if "terms" not in batch and rows is None:
            batch.apart["terms"] = no_terms(batch.size)
        if "terms" in batch:
            terms: Terms = batch["terms"]
            everywhere = self._place_only and not self._alone
            fields["terms"] = with_every(terms, np.diff(terms.starts) == 0) if everywhere else terms
        if self._meanings is not None and VECTOR in batch:
            self._meanings.read(batch, "subscriptions")
            fields[VECTOR] = batch[VECTOR]
        if limits.given(batch):
            limits.refuse(batch)
        fields["limits"] = batch
        if "alpha" in batch:
            refuse_outside(batch["alpha"], 0.0, 1.0, "alpha", "subscriptions")
            fields["alpha"] = batch["alpha"]
        elif rows is None:
            fields["alpha"] = np.full(batch.size, np.nan)
        return fields

    def _write(self, rows: Rows, fields: Mapping[str, Any]) -> None:
        apart = ("terms", "limits", VECTOR)
        super()._write(rows, {name: values for name, values in fields.items() if name not in apart})
        if self._meanings is not None and VECTOR in fields:
            self._meanings.mine.write(rows, fields[VECTOR], fields[VECTOR].any(axis=1))
        if "terms" in fields:
            self._set_terms(rows, fields["terms"])
        if "limits" in fields:
            alpha = self._alpha_of(rows)
            self._interests.limit(rows, fields["limits"], alpha, self._terms, whole=True)

    def _set_terms(self, rows: Rows, terms: Terms) -> Replaced:
        """Set the terms of subscriptions; returns those they had.

        References to terms are taken before any is given back, so that a shared term keeps its row.
        """
        replaced = self._interests.store(rows, self._terms.acquire(terms))
        self._terms.drop(replaced.term)
        return replaced

    def _entered(self, rows: Rows) -> None:
        if self._live is not None:
            self._live.enter(rows, self._alpha_of(rows), self._k_of(rows))

    def _amend(self, rows: Any) -> Changes:
        batch = self._read(rows, self._amendments, "subscriptions")
        changed = np.ascontiguousarray(self._slots.require(batch.ids, where="subscriptions"))
        fields, live = self._slot_values(batch, changed), self._live
        if "k" in batch:
            fields["k"] = batch["k"]
        registered = self._in_order(changed) if changed.size > 1 else changed
        before = self._lists(registered)
        self._begin()
        if live is not None:
            live.unlist(changed)
        replaced = self._set_terms(changed, fields.pop("terms")) if "terms" in fields else None
        moved = moves(self._frame, fields, self._slots["x"][changed], self._slots["y"][changed])
        given = fields.pop("limits")
        self._write(changed, fields)
        alpha, limited = self._alpha_of(changed), limits.given(given) or VECTOR in fields
        self._interests.limit(changed, given, alpha, self._terms, whole=False)
        if live is not None:
            live.amended(changed, alpha, self._k_of(changed), moved, replaced, limited=limited)
        return list_changes(registered, before, self._lists(registered))

    def _leaving(self, rows: Rows) -> None:
        if self._live is not None:
            self._live.leave(rows)
        self._terms.drop(self._interests.clear(rows))
        self._terms.drop(self._interests.drop_limits(rows))

    def _lists(self, rows: Rows) -> Lists:
        if self._live is not None:
            return self._live.lists(rows)
        return self._scan.lists(rows, self._alpha_of(rows), self._k_of(rows))

    def _settle(self) -> None:
        for slots in self._all_slots:
            if slots._pending:  # else nothing has become free
                slots.settle()

    def stats(self) -> dict[str, Any]:
        """Counters since the start, and how many messages are `buffered` now."""
        if self._live is None:
            return super().stats()
        return {**super().stats(), "buffered": self._live.buffered()}

    def memory(self) -> dict[str, int]:
        """Bytes of the state by part: buffers and reverse lists, subscriptions, postings, window, words."""
        return bytes_by_part(self._own("state")[1])

    # Messages

    def retract(self, ids: Any) -> pa.Table:
        """Take messages back; returns the changes of results. Each message is an event in `stats()`."""
        return self._answer(self._retract(ids))

    def advance(self, time: Any) -> pa.Table:
        """Move the clock of a time window; returns the changes of results. A past time does nothing.

        Args:
            time: a `datetime`, or a table with a column `time`, whose latest value counts.
        """
        return self._answer(self._advance(time))

    def reweigh(self, vocabulary: Any) -> pa.Table:
        """Replace the vocabulary for all messages and subscriptions; returns the changes of results.

        Cost: that of indexing and searching everything again.

        Args:
            vocabulary: a `Vocabulary`, one as a table (`Vocabulary.read`), or None: every idf is 1.
        """
        return self._answer(self._reweigh(vocabulary))

    def _reweigh(self, vocabulary: Any) -> Changes:
        found = Vocabulary.empty() if vocabulary is None else Vocabulary.read(vocabulary)
        before = self._lists(self._slots.live())
        self._begin()
        self._let_count(found)
        return list_changes(self._slots.live(), before, self._lists(self._slots.live()))

    def _let_count(self, vocabulary: Vocabulary) -> None:
        """Weigh all terms by another vocabulary, and let results follow."""
        self._terms.reweigh(vocabulary, (self._interests, self._messages.texts))
        if self._live is not None and not self._alone:
            self._live.reweighed()

    def _publish(self, rows: Any) -> Changes:
        incoming = self._messages.publish(rows)
        before = None if incoming.vocabulary is None else self._lists(self._slots.live())
        self._begin()
        self._count["events"] += incoming.batch.size
        changes = self._follow(incoming)
        if incoming.vocabulary is None or before is None:
            return changes
        self._let_count(incoming.vocabulary)  # messages do not depend on it: the last one counts at the end
        return list_changes(self._slots.live(), before, self._lists(self._slots.live()))

    def _retract(self, ids: Any) -> Changes:
        incoming = self._messages.retract(self._ids(ids))
        self._begin()
        self._count["events"] += incoming.plan.taken.size
        return self._follow(incoming)

    def _advance(self, time: Any) -> Changes:
        incoming = self._messages.advance(time)
        self._begin()
        return self._follow(incoming)

    def _follow(self, incoming: Incoming) -> Changes:
        """Carry out what was worked out, and let results follow."""
        messages, plan, size = self._messages, incoming.plan, incoming.batch.size
        leaving, arrived = messages.begin(incoming)
        self._count["late"] += plan.late
        self._count["expired"] += plan.expired
        gone = np.concatenate([leaving, plan.taken]) if plan.taken.size else leaving
        if not gone.size and not size:
            return deltas.no_changes()
        factor = messages.rescale(arrived)
        if factor != 1.0 and self._live is not None:
            self._live.rescale(factor)
        shown = messages.show(incoming, gone, arrived)
        if self._live is not None:
            return self._live.publish(
                leaving, plan.taken, lambda: messages.write(incoming, gone, arrived, shown), arrived, shown
            )
        live = self._slots.live()
        before = self._lists(live)
        messages.write(incoming, gone, arrived, shown)
        pairs = (size - plan.late) * live.size  # a scan scores every pair and evaluates every result
        self._count["candidates"] += pairs
        self._count["verified"] += pairs
        self._count["reevaluations"] += live.size if size > plan.late else 0
        return deltas.difference(before, self._lists(live), self._slots.place)

    # Explanation

    def explain(self, subscription: Any, item: Any) -> dict[str, Any]:
        """Why a message is or is not in a result: its score and the score's parts, rank, score to beat."""
        mine = np.array([self._find_one(self._slots, subscription, "subscription")], np.int32)
        row = self._find_one(self._messages.slots, item, "item")
        explanation = self._scan.explain(mine, row, self._alpha_of(mine), self._k_of(mine))
        bounds = {}
        if self._live is not None:
            reader, alpha = int(mine[0]), float(self._alpha_of(mine)[0])
            bounds = self._scan.bounds(reader, row, alpha, self._live.threshold(reader))
        return {"subscription": subscription, "item": item, **explanation, **bounds}

    def _alpha_of(self, rows: Rows) -> Floats:
        """The alpha of subscriptions; that of the engine for those without one."""
        alpha: Floats = self._slots["alpha"][rows]
        alpha = np.where(np.isnan(alpha), self._alpha, alpha)
        if self._place_only and self._alone and self._meanings is not None:
            alpha[~self._meanings.mine.given[rows]] = 1.0
        elif self._place_only:
            vectors, idf = self._interests.texts, self._terms.slots["idf"]
            alpha[(vectors.size[rows] == 1) & (idf[vectors.term[vectors.begin[rows]]] == 0)] = 1.0
        return alpha
