"""Subscriptions of one engine for another: what dividing and joining shards needs of geo-text.

Terms have other rows in every engine, so they go by name, each once. How often each was named and its weight
are taken over as they are: weights stay the same to the last bit, and another vocabulary weighs them alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast.geotext.limits import NAMES
from rankcast.geotext.phrases import PHRASES, WantedPhrases
from rankcast.geotext.vectors import VECTOR
from rankcast.geotext.vocabulary import VectorEntries, Vectors
from rankcast.structures.arrays import ranges
from rankcast.tables.schema import Batch, Floats, Ints, Rows, Terms


def copy(engine: Any, other: Any, fresh: Rows, rows: Rows) -> None:
    """Give the new rows of an engine what subscriptions of another have."""
    theirs = other._interests.entries(rows)
    fields: dict[str, Any] = {name: other._slots[name][rows] for name in other._slots.columns}
    fields["terms"] = _terms(other, theirs.owner, theirs.term, rows.size)
    fields["limits"] = Batch(rows.size, _limits(other, rows))
    if other._meanings is not None:
        fields[VECTOR] = other._meanings.mine.unit[rows]
    engine._write(fresh, fields)
    renamed = theirs._replace(term=_renamed(engine, other, theirs.term))
    _weigh(engine._interests, fresh, renamed, other._interests.frequency[_places(other._interests, rows)])


def _terms(other: Any, owner: Any, term: Rows, size: int) -> Terms:
    """Terms by name, each once, of so many subscriptions."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))]).astype(np.int64)
    return Terms(starts, other._terms.slots.ids_at(term))


def _renamed(engine: Any, other: Any, term: Rows) -> Rows:
    """The rows that terms of another engine have in this one."""
    distinct, back = np.unique(term, return_inverse=True)
    found: Rows = engine._terms.slots.find(other._terms.slots.ids_at(distinct.astype(np.int32)), where="")
    return found[back]


def _weigh(interests: Vectors, fresh: Rows, given: VectorEntries, frequency: Ints) -> None:
    """Set weights and frequencies of vectors whose terms are there already."""
    mine, place = interests.entries(fresh), _places(interests, fresh)
    here, there = (np.lexsort((each.term, each.owner)) for each in (mine, given))
    interests.texts.weight[place[here]] = given.weight[there]
    interests.frequency[place[here]] = frequency[there]


def _places(interests: Vectors, rows: Rows) -> Ints:
    """Where the entries of some vectors are, one vector behind the other."""
    return ranges(interests.texts.begin[rows], interests.texts.size[rows].astype(np.int64))


def _limits(other: Any, rows: Rows) -> dict[str, Any]:
    """What `Interests.limit` takes of subscriptions; nothing if none ever had a limit."""
    interests = other._interests
    if not interests.limits.radius.size:
        return {}
    limits, conditions = interests.limits, interests._conditions.entries(rows)
    radius: Floats = limits.radius[rows]
    kept = [
        _terms(other, conditions.owner[chosen], conditions.term[chosen], rows.size)
        for chosen in (conditions.weight > 0, conditions.weight < 0)
    ]
    values = [np.where(np.isinf(radius), np.nan, radius), limits.score[rows], *kept, limits.since[rows]]
    found = dict(zip(NAMES, values, strict=False))
    return found if interests.phrases is None else {**found, PHRASES.name: _phrases(other, rows)}


def _phrases(other: Any, rows: Rows) -> WantedPhrases:
    """The phrases of subscriptions, by the names of their words."""
    words, ends = list[int](), list[list[int]]()
    for row in rows.tolist():
        ends.append([])
        for phrase in other._interests.phrases.phrases_of(row):
            words += phrase
            ends[-1].append(len(words))
    return WantedPhrases(other._terms.slots.ids_at(np.array(words, np.int32)), ends)
