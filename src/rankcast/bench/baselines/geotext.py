"""Geo-text top-k by inverted files without any bound: what one writes with Numba before reading a paper.

A message walks the postings of its terms, adds up what each subscription has in common with it, and is scored
for every one of them. An expired message walks the same postings to find the lists it was in; these are
computed again from the postings of their words among the messages of the window. Messages to come are in the
inverted file from the start, cut off by position, so that nothing is charged for keeping it up.

`score` is the score by its definition, one pair at a time: what a sample of answers is compared with.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from rankcast.bench.workloads import Floats, Integers
from rankcast.geotext.text import TERMS
from rankcast.geotext.vocabulary import Bags, Vocabulary, bags_of, unit_weights
from rankcast.structures.jit import EXACT
from rankcast.tables import read

# mypy: disallow-untyped-decorators=False


Rows = NDArray[np.int32]


class Texts(NamedTuple):
    """Vectors one after the other, and the same entries by term: owners in order, and weights."""

    start: Integers
    term: Rows
    weight: Floats
    first: Integers
    owner: Rows
    share: Floats


class Places(NamedTuple):
    """Places of subscriptions and messages, alphas, and the distance that counts as 1."""

    x: Floats
    y: Floats
    alpha: Floats
    message_x: Floats
    message_y: Floats
    diagonal: float


class Boards(NamedTuple):
    """The k best of each subscription: messages by position, best first, then -1; scores; score to beat."""

    item: Rows
    score: Floats
    size: Rows
    bar: Floats


class Scratch(NamedTuple):
    """What an owner has in common with the text at hand, 0 between texts; and who has anything."""

    alike: Floats
    seen: Rows


class TermAtATime:
    """Keeps every result current. All messages are given at once; the first `held` are in the window.

    Args:
        messages: with ids 0, 1, ...
        held: how many of them are in the window at first.
        subscriptions: with ids 0, 1, ...
        results: the results over that window, since computing them here takes its time.
        k: how many messages a subscription wants.
        vocabulary: for the weights of terms.
        diagonal: the distance that counts as 1.
    """

    def __init__(
        self, messages: pa.Table, held: int, subscriptions: pa.Table, results: pa.Table, k: int,
        vocabulary: Vocabulary, diagonal: float,
    ) -> None:  # fmt: skip
        both = pa.concat_tables([messages.select(["terms"]), subscriptions.select(["terms"])])
        bags = bags_of(read.read(both, [TERMS], where="texts", extra="ignore")["terms"])
        self._idf = np.array([vocabulary.idf(word) for word in _words(bags)])
        weight = unit_weights(bags, self._idf)
        self._messages = _texts(bags, weight, 0, messages.num_rows)
        self._interests = _texts(bags, weight, messages.num_rows, both.num_rows)
        x, y, alpha = (subscriptions[name].to_numpy() for name in ("x", "y", "alpha"))
        there = messages["x"].to_numpy(), messages["y"].to_numpy()
        self._places = Places(x, y, alpha, there[0], there[1], diagonal)
        count = subscriptions.num_rows
        self.boards = Boards(
            np.full((count, k), -1, np.int32),
            np.zeros((count, k)),
            np.zeros(count, np.int32),
            np.full(count, -np.inf),
        )
        row, rank = results["subscription"].to_numpy(), results["rank"].to_numpy()
        self.boards.item[row, rank - 1] = results["item"].to_numpy()
        self.boards.score[row, rank - 1] = results["score"].to_numpy()
        self.boards.size[:] = np.bincount(row, minlength=count)
        full = self.boards.size == k
        self.boards.bar[full] = self.boards.score[full, k - 1]
        self._oldest, self._next = 0, held
        self._readers = Scratch(np.zeros(count), np.empty(count, np.int32))
        self._window = Scratch(np.zeros(messages.num_rows), np.empty(messages.num_rows, np.int32))

    def again(self) -> TermAtATime:
        """Another one in the same state; only what changes is copied."""
        twin = copy.copy(self)
        twin.boards = Boards._make(array.copy() for array in self.boards)
        return twin

    def first_results(self, rows: Rows) -> None:
        """Compute lists from the postings of the window."""
        self.boards.size[rows], self.boards.bar[rows] = 0, -np.inf
        window = (self._oldest, self._next)
        evaluate(self._messages, self._interests, self._places, self.boards, rows, *window, self._window)

    def arrive(self, count: int) -> None:
        """Let the next so many messages in."""
        for position in range(self._next, self._next + count):
            _arrive(self._messages, self._interests, self._places, self.boards, position, self._readers)
        self._next += count

    def scan(self, count: int) -> None:
        """Let the next so many messages in, each after a look at every subscription."""
        for position in range(self._next, self._next + count):
            _look_at_all(self._messages, self._interests, self._places, self.boards, position)
        self._next += count

    def expire(self, count: int) -> None:
        """Let the oldest so many messages go, one after the other."""
        for _ in range(count):
            rows = _holders(self._messages, self._interests, self.boards, self._oldest, self._readers)
            self._oldest += 1
            self.first_results(rows)


def _words(bags: Bags) -> list[str]:
    offsets, data = bags.words.offsets, bags.words.data
    return [bytes(data[offsets[i] : offsets[i + 1]]).decode() for i in range(bags.words.size)]


def _texts(bags: Bags, weight: Floats, low: int, high: int) -> Texts:
    """The vectors from `low` to `high`, and their inverted file."""
    part = slice(*np.searchsorted(bags.owner, [low, high]))
    owner, term, share = (
        (bags.owner[part] - low).astype(np.int32),
        bags.word[part].astype(np.int32),
        weight[part],
    )
    order = np.argsort(term, kind="stable")
    first = np.searchsorted(term[order], np.arange(bags.words.size + 1))
    start = np.searchsorted(owner, np.arange(high - low + 1))
    return Texts(start, term, share, first, owner[order], share[order])


@njit(**EXACT)
def keep(boards: Boards, row: int, item: int, score: float) -> None:
    """Put a message in its place in a list; of equal scores the newer comes first."""
    items, scores, size, bar = boards
    k, at = items.shape[1], size[row]
    if at == k:
        at -= 1
        if score < scores[row, at] or (score == scores[row, at] and item < items[row, at]):
            return
    else:
        size[row] += 1
    while at > 0 and (
        scores[row, at - 1] < score or (scores[row, at - 1] == score and items[row, at - 1] < item)
    ):
        items[row, at], scores[row, at] = items[row, at - 1], scores[row, at - 1]
        at -= 1
    items[row, at], scores[row, at] = item, score
    if size[row] == k:
        bar[row] = scores[row, k - 1]


@njit(**EXACT)
def score_of(alpha: float, east: float, north: float, diagonal: float, alike: float) -> float:
    """The score of a message so far away that has so much in common."""
    return alpha * (1.0 - math.sqrt(east * east + north * north) / diagonal) + (1.0 - alpha) * alike


@njit(**EXACT)
def _arrive(
    messages: Texts, interests: Texts, places: Places, boards: Boards, item: int, scratch: Scratch
) -> None:
    """Score a message for everybody who shares a term with it."""
    start, terms, weights, _, _, _ = messages
    _, _, _, first, owner, share = interests
    x, y, alpha, there_x, there_y, diagonal = places
    bar = boards.bar
    alike, seen = scratch
    count = 0
    for at in range(start[item], start[item + 1]):
        term, weight = terms[at], weights[at]
        for posting in range(first[term], first[term + 1]):
            row = owner[posting]
            if alike[row] == 0.0:
                seen[count] = row
                count += 1
            alike[row] += weight * share[posting]
    for i in range(count):
        row = seen[i]
        score = score_of(alpha[row], x[row] - there_x[item], y[row] - there_y[item], diagonal, alike[row])
        alike[row] = 0.0
        if score >= bar[row]:
            keep(boards, row, item, score)


@njit(**EXACT)
def _look_at_all(messages: Texts, interests: Texts, places: Places, boards: Boards, item: int) -> None:
    """Score a message for every subscription."""
    starts, their_terms, their_weights, first, _, _ = messages
    start, terms, weights, _, _, _ = interests
    x, y, alpha, there_x, there_y, diagonal = places
    weight = np.zeros(first.size)
    for at in range(starts[item], starts[item + 1]):
        weight[their_terms[at]] = their_weights[at]
    for row in range(x.size):
        alike = 0.0
        for at in range(start[row], start[row + 1]):
            alike += weights[at] * weight[terms[at]]
        if alike > 0.0:
            score = score_of(alpha[row], x[row] - there_x[item], y[row] - there_y[item], diagonal, alike)
            if score >= boards.bar[row]:
                keep(boards, row, item, score)


@njit(**EXACT)
def _holders(messages: Texts, interests: Texts, boards: Boards, item: int, scratch: Scratch) -> Rows:
    """Who has a message in the list, each once."""
    start, terms, _, _, _, _ = messages
    _, _, _, first, owner, _ = interests
    items, _, size, _ = boards
    marks, found = scratch
    count = 0
    for at in range(start[item], start[item + 1]):
        for posting in range(first[terms[at]], first[terms[at] + 1]):
            row = owner[posting]
            for place in range(size[row]):
                if items[row, place] == item and marks[row] == 0.0:
                    marks[row] = 1.0
                    found[count] = row
                    count += 1
    for i in range(count):
        marks[found[i]] = 0.0
    return found[:count].copy()


@njit(**EXACT)
def evaluate(
    messages: Texts, interests: Texts, places: Places, boards: Boards, rows: Rows, oldest: int, after: int,
    scratch: Scratch,
) -> None:  # fmt: skip
    """Score all messages of the window that share a term with a subscription."""
    _, _, _, first, owner, share = messages
    start, terms, weights, _, _, _ = interests
    x, y, alpha, there_x, there_y, diagonal = places
    bar = boards.bar
    alike, seen = scratch
    for row in rows:
        count = 0
        for at in range(start[row], start[row + 1]):
            low, high = first[terms[at]], first[terms[at] + 1]
            low += np.searchsorted(owner[low:high], oldest)
            for posting in range(low, high):
                item = owner[posting]
                if item >= after:
                    break
                if alike[item] == 0.0:
                    seen[count] = item
                    count += 1
                alike[item] += weights[at] * share[posting]
        for i in range(count):
            item = seen[i]
            east, north = x[row] - there_x[item], y[row] - there_y[item]
            score = score_of(alpha[row], east, north, diagonal, alike[item])
            alike[item] = 0.0
            if score >= bar[row]:
                keep(boards, row, item, score)


def cosine(one: Sequence[str], other: Sequence[str]) -> float:
    """Give the cosine of two texts by term frequency alone (every idf is 1)."""
    a, b = Counter(one), Counter(other)
    dot = sum(count * b[term] for term, count in a.items())
    lengths = math.hypot(*a.values()) * math.hypot(*b.values())
    return dot / lengths if lengths else 0.0


def score(subscription: Mapping[str, Any], message: Mapping[str, Any], diagonal: float) -> float | None:
    """Give the score of a message for a subscription, None if they have no term in common."""
    alike = cosine(subscription["terms"], message["terms"])
    if alike == 0.0:
        return None
    distance = math.hypot(subscription["x"] - message["x"], subscription["y"] - message["y"])
    alpha = float(subscription["alpha"])
    return alpha * (1.0 - distance / diagonal) + (1.0 - alpha) * alike


def best_scores(
    subscription: Mapping[str, Any], window: Sequence[Mapping[str, Any]], k: int, diagonal: float
) -> list[float]:
    """Give the k best scores of a window, best first."""
    found = [score(subscription, message, diagonal) for message in window]
    return sorted((each for each in found if each is not None), reverse=True)[:k]
