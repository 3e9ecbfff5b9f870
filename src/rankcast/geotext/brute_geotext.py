"""Geo-text top-k by scoring every message for every subscription."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rankcast.geotext.places import Space
from rankcast.geotext.vectors import Entries
from rankcast.structures import distance
from rankcast.tables.schema import Floats, Ints, Rows


class Messages(NamedTuple):
    """Messages of the window, the newest first: rows, places, gains, and their vectors, joined."""

    row: Rows
    x: Floats
    y: Floats
    gain: Floats
    vectors: Entries


class Interests(NamedTuple):
    """Subscriptions: places, how much the place counts, how many messages they want, their vectors."""

    x: Floats
    y: Floats
    alpha: Floats
    k: Ints
    vectors: Entries


class Similarity(NamedTuple):
    """One subscription against every message. Without a common term, `cosine` is 0 and the score is void."""

    distance: Floats
    cosine: Floats
    score: Floats


def similarities(interests: Interests, messages: Messages, space: Space) -> Iterator[Similarity]:
    """Score every message for each subscription. Cost: O(m t) for m subscriptions and t terms of messages.

    score = alpha * (1 - distance / scale) + (1 - alpha) * cosine, in this order. The cosine adds the products
    of the weights of common terms, in code point order of the terms (`bincount` adds one after
    the other, and a term that is not common adds 0). Weights are positive: a cosine of 0 is no common term.
    """
    vectors = interests.vectors
    weight = np.zeros(1 + max(vectors.term.max(initial=0), messages.vectors.term.max(initial=0)))
    ends = np.searchsorted(vectors.owner, np.arange(interests.x.size + 1))
    for i, alpha in enumerate(interests.alpha):
        mine = slice(ends[i], ends[i + 1])
        weight[vectors.term[mine]] = vectors.weight[mine]
        products = weight[messages.vectors.term] * messages.vectors.weight
        weight[vectors.term[mine]] = 0.0
        sums = np.bincount(messages.vectors.owner, products, minlength=messages.row.size)
        cosine = sums.astype(np.float64, copy=False)
        away = distance.distances(space.metric, interests.x[i], interests.y[i], messages.x, messages.y)
        yield Similarity(away, cosine, alpha * (1.0 - away / space.scale) + (1.0 - alpha) * cosine)


def ranked(similarity: Similarity, gain: Floats) -> Rows:
    """The places of all messages with a common term by score times gain; of equal ones the newer first."""
    common = np.flatnonzero(similarity.cosine > 0)
    return common[np.argsort(-(similarity.score[common] * gain[common]), kind="stable")].astype(np.int32)


def top_k(interests: Interests, messages: Messages, space: Space) -> tuple[list[Rows], list[Floats]]:
    """For each subscription the rows of its k best messages, and their scores."""
    rows, scores = [], []
    for similarity, k in zip(similarities(interests, messages, space), interests.k, strict=True):
        best = ranked(similarity, messages.gain)[:k]
        rows.append(messages.row[best])
        scores.append(similarity.score[best])
    return rows, scores
