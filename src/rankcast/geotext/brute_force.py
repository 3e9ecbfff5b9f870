"""Geo-text top-k by brute force: every message of the window is scored for every subscription.

The reference that the other methods are tested against, method="scan" of `GeoTextTopK`, and the source of its
explanations (`Scan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from rankcast.geotext.copies import Copies
from rankcast.geotext.kernels.score import (
    Frame,
    Meaning,
    alikeness,
    best_score,
    nearness_of,
    rarest_first,
    without_vectors,
)
from rankcast.geotext.kernels.vectors import cosines
from rankcast.geotext.limits import Interests, Permitted, permitted
from rankcast.geotext.phrases import OrderedTerms
from rankcast.geotext.sources import NONE, Sources
from rankcast.geotext.vectors import NO_MEANING, Meanings
from rankcast.geotext.vocabulary import LiveTerms, VectorEntries, Vectors
from rankcast.geotext.window import Window
from rankcast.structures import distance
from rankcast.structures.ids import Slots
from rankcast.tables import deltas
from rankcast.tables.deltas import Lists
from rankcast.tables.schema import Bools, Floats, Ints, Rows


class GeoTextState(NamedTuple):
    """What the engine and its helpers share: subscriptions and messages by row, their vectors, the window.

    `decays` is whether scores decay with age; messages then have a `gain`.
    """

    subscriptions: Slots
    messages: Slots
    interests: Interests
    texts: Vectors
    terms: LiveTerms
    window: Window
    frame: Frame
    decays: bool
    sources: Sources | None = None
    copies: Copies | None = None
    meanings: Meanings | None = None
    said: OrderedTerms | None = None

    def meaning(self) -> Meaning:
        """Dense vectors for kernels."""
        return NO_MEANING if self.meanings is None else self.meanings.columns()

    @property
    def per_source(self) -> int:
        """How many messages of one source a result may have; 0: any number."""
        return 0 if self.sources is None else self.sources.most


class WindowMessages(NamedTuple):
    """Messages of the window, the newest first: rows, places, gains, times, sources, and vectors, joined.

    `shown`: no newer one has the same text and place, if that counts. `said`: words in order, if kept.
    """

    row: Rows
    x: Floats
    y: Floats
    gain: Floats
    time: Ints
    source: Rows
    shown: Bools
    vectors: VectorEntries
    said: list[list[int]]


class SubscriptionVectors(NamedTuple):
    """Subscriptions: rows, places, alphas, k, and their vectors, joined; who has no words."""

    row: Rows
    x: Floats
    y: Floats
    alpha: Floats
    k: Ints
    vectors: VectorEntries
    everywhere: Bools


class Similarity(NamedTuple):
    """One subscription against every message, and which of them may be in its result.

    Without a common term, `cosine` is 0 and the score is void, unless the subscription has no words.
    """

    distance: Floats
    cosine: Floats
    score: Floats
    permitted: Permitted
    fits: Bools
    meaning: Floats  # the cosines of dense vectors; empty if there are none


def similarities(
    interests: SubscriptionVectors, messages: WindowMessages, frame: Frame, limits: Interests,
    meaning: Meaning = NO_MEANING,
) -> Iterator[Similarity]:  # fmt: skip
    """Score every message for each subscription. Cost: O(m t) for m subscriptions and t terms of messages.

    score = alpha * max(0, 1 - distance / scale) + (1 - alpha) * cosine, in this order. The cosine adds the
    products of the weights of common terms, in code point order of the terms (`bincount` adds one after the
    other, and a term that is not common adds 0). Weights are positive: a cosine of 0 is no common term.
    With dense vectors it is `beta * max(0, theirs) + (1 - beta) * that of terms` instead, in this order.
    """
    dense = meaning.mine.shape[0] > 0
    alone = dense and meaning.beta == 1.0
    vectors = interests.vectors
    weight = np.zeros(1 + max(vectors.term.max(initial=0), messages.vectors.term.max(initial=0)))
    ends = np.searchsorted(vectors.owner, np.arange(interests.x.size + 1))

    def having(term: int) -> Bools:
        """Which messages have a term."""
        found = np.zeros(messages.row.size, np.bool_)
        found[messages.vectors.owner[messages.vectors.term == term]] = True
        return found

    for i, alpha in enumerate(interests.alpha):
        mine = slice(ends[i], ends[i + 1])
        weight[vectors.term[mine]] = vectors.weight[mine]
        products = weight[messages.vectors.term] * messages.vectors.weight
        weight[vectors.term[mine]] = 0.0
        sums = np.bincount(messages.vectors.owner, products, minlength=messages.row.size)
        cosine = sums.astype(np.float64, copy=False)
        away = distance.distances(frame.metric, interests.x[i], interests.y[i], messages.x, messages.y)
        near = np.maximum(0.0, 1.0 - away / frame.scale)
        row, text, theirs = int(interests.row[i]), cosine, np.empty(0)
        if dense:
            theirs = cosines(meaning.mine, row, meaning.theirs, messages.row)
            text = meaning.beta * np.maximum(0.0, theirs) + (1.0 - meaning.beta) * cosine
        score = alpha * near + (1.0 - alpha) * text
        passes = permitted(limits, row, away, score, messages.time, having, messages.said)
        fits = passes.all & (cosine > 0) if not (interests.everywhere[i] or alone) else passes.all
        yield Similarity(away, cosine, score, passes, fits, theirs)


def ranked(similarity: Similarity, messages: WindowMessages, per_source: int) -> Rows:
    """The places of all messages that fit, by score times gain; of equal ones the newer first.

    With a limit only the best of each source.
    """
    common = np.flatnonzero(similarity.fits & messages.shown)
    order = np.argsort(-(similarity.score[common] * messages.gain[common]), kind="stable")
    best = common[order].astype(np.int32)
    return best[_among_first(messages.source[best], per_source)] if per_source else best


def _among_first(source: Rows, most: int) -> Bools:
    """Which places have fewer than `most` of their source before them; -1 is no source."""
    by_source = np.argsort(source, kind="stable")
    first = np.searchsorted(source[by_source], source[by_source])
    found = np.ones(source.size, np.bool_)
    found[by_source] = np.arange(source.size) - first < most
    return found | (source < 0)


def top_k(
    interests: SubscriptionVectors,
    messages: WindowMessages,
    frame: Frame,
    limits: Interests,
    per_source: int = 0,
    meaning: Meaning = NO_MEANING,
) -> tuple[list[Rows], list[Floats]]:
    """For each subscription the rows of its k best messages, and their scores."""
    rows, scores = [], []
    found = similarities(interests, messages, frame, limits, meaning)
    for similarity, k in zip(found, interests.k, strict=True):
        best = ranked(similarity, messages, per_source)[:k]
        rows.append(messages.row[best])
        scores.append(similarity.score[best])
    return rows, scores


class Scan:
    """Scores every message of the window. Alpha and k are given as they count, by subscription."""

    def __init__(self, state: GeoTextState) -> None:
        self._state = state

    def lists(self, rows: Rows, alpha: Floats, k: Ints) -> Lists:
        """The results of subscriptions, in that order."""
        interests, messages = self.interests(rows, alpha, k), self.messages()
        state = self._state
        items, scores = top_k(
            interests, messages, state.frame, state.interests, state.per_source, state.meaning()
        )
        return deltas.gather_lists(rows, items, scores)

    def explain(self, mine: Rows, row: int, alpha: Floats, k: Ints) -> dict[str, Any]:
        """Why a message is or is not in the result of one subscription."""
        interests, messages = self.interests(mine, alpha, k), self.messages()
        state = self._state
        (similarity,) = similarities(interests, messages, state.frame, state.interests, state.meaning())
        order = ranked(similarity, messages, state.per_source)
        at, last = int(np.flatnonzero(messages.row == row)[0]), int(k[0]) - 1
        place = np.flatnonzero(order == at)
        rank = int(place[0]) + 1 if place.size else None
        inside = rank is not None and rank <= last + 1
        theirs = self._state.texts.entries(np.array([row], np.int32)).term
        common = np.intersect1d(interests.vectors.term, theirs)
        common = common[state.terms.slots["idf"][common] > 0]  # without the one of all messages
        failed = [name for name, fails in similarity.permitted.failed.items() if fails[at]]
        kept_out = f"{last + 1} messages are better" if rank else f"fails {' and '.join(failed)}"
        if not rank and not failed:
            kept_out = "no common term"
            if similarity.fits[at] and not messages.shown[at]:
                kept_out = "a newer one has its text and place"
            elif similarity.fits[at]:
                kept_out = f"its source has {state.per_source} better"
        return {
            "in_result": inside,
            "score": float(similarity.score[at]),
            "rank": rank,
            "score_to_beat": float(similarity.score[order[last]]) if order.size > last else None,
            **self._decayed(similarity, messages, at, order[last : last + 1]),
            "distance": float(similarity.distance[at]),
            "cosine": float(similarity.cosine[at]),
            **({"vector_cosine": float(similarity.meaning[at])} if similarity.meaning.size else {}),
            "alpha": float(alpha[0]),
            **({"fails": failed} if similarity.permitted.failed else {}),
            "common_terms": sorted(self._state.terms.slots.take(common).to_pylist()),
            "reason": "in the result" if inside else kept_out,
        }

    def _decayed(
        self, similarity: Similarity, messages: WindowMessages, at: int, last: Rows
    ) -> dict[str, Any]:
        """The score and the one to beat at the time of the newest message, if scores decay."""
        if not self._state.decays:
            return {}
        decayed = similarity.score * (messages.gain / messages.gain[0])
        return {
            "decayed_score": float(decayed[at]),
            "decayed_score_to_beat": float(decayed[last[0]]) if last.size else None,
        }

    def bounds(self, row: int, item: int, alpha: float, threshold: float) -> dict[str, Any]:
        """The threshold of a subscription at the message's own time, and which bound is below it.

        That bound keeps the message from being scored for the subscription; None if none does.
        """
        if self._state.decays:
            threshold /= float(self._state.messages["gain"][item])
        return {"threshold": threshold, "pruned_by": _pruned_by(self._state, row, item, alpha, threshold)}

    def interests(self, rows: Rows, alpha: Floats, k: Ints) -> SubscriptionVectors:
        """Subscriptions, in that order."""
        slots, vectors = self._state.subscriptions, self._state.interests.entries(rows)
        everywhere = np.zeros(rows.size, np.bool_)
        everywhere[vectors.owner[self._state.terms.slots["idf"][vectors.term] == 0]] = True
        return SubscriptionVectors(rows, slots["x"][rows], slots["y"][rows], alpha, k, vectors, everywhere)

    def messages(self) -> WindowMessages:
        """All messages of the window."""
        slots, rows = self._state.messages, np.ascontiguousarray(self._state.window.rows()[::-1])
        gain = slots["gain"][rows] if self._state.decays else np.ones(rows.size)
        texts, time = self._state.texts.entries(rows), self._state.window.times()[::-1]
        source = slots["source"][rows] if self._state.sources is not None else np.full(rows.size, NONE)
        copies = self._state.copies
        shown = np.ones(rows.size, np.bool_) if copies is None else copies.shows(rows)
        said = [] if self._state.said is None else self._state.said.said_by(rows)
        x, y = slots["x"][rows], slots["y"][rows]
        return WindowMessages(rows, x, y, gain, time, source, shown, texts, said)


def _pruned_by(state: GeoTextState, row: int, item: int, alpha: float, threshold: float) -> str | None:
    """Which upper bound is below the threshold of a subscription for a message; None if none is."""
    idf, frame, meanings = state.terms.slots["idf"], state.frame, state.meanings
    x, y = (float(state.subscriptions[name][row]) for name in "xy")
    there = (float(state.messages[name][item]) for name in "xy")
    near = np.float32(nearness_of(distance.distance(frame.metric, x, y, *there), frame.scale))
    if meanings is not None and meanings.alone:
        return "place" if best_score(np.float32(alpha), near, np.float32(1.0)) < threshold else None
    share, lift = without_vectors(state.meaning(), alpha)
    alpha, threshold = alpha / share, (threshold - lift) / share
    interest = rarest_first(state.interests.texts, row, idf)
    text = rarest_first(state.texts.texts, item, idf)
    common = [i for i in range(interest[0].size) if interest[0][i] in text[0]]
    if not common:
        return "words"
    i, j = common[0], int(np.flatnonzero(text[0] == interest[0][common[0]])[0])
    parts = np.array([interest[1][i], interest[2][i], text[1][j], text[2][j]], np.float32)
    alike, one = np.float32(alikeness(parts[0], parts[1], parts[2], parts[3])), np.float32(1.0)
    tried = {"words": (one, alike), "place": (near, one), "words and place": (near, alike)}
    short = [name for name, (a, b) in tried.items() if best_score(np.float32(alpha), a, b) < threshold]
    return short[0] if short else None
