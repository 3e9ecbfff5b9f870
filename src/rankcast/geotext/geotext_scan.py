"""Subscriptions and messages of `GeoTextTopK` as brute force takes them: scanned results, explanations."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast.geotext import brute_geotext as brute_force
from rankcast.geotext.brute_geotext import Interests, Messages, Similarity
from rankcast.geotext.geotext_ledger import World
from rankcast.tables import deltas
from rankcast.tables.deltas import Lists
from rankcast.tables.schema import Floats, Ints, Rows


class Scan:
    """Scores every message of the window. Alpha and k are given as they count, by subscription."""

    def __init__(self, world: World) -> None:
        self._world = world

    def lists(self, rows: Rows, alpha: Floats, k: Ints) -> Lists:
        """The results of subscriptions, in that order."""
        interests, messages = self.interests(rows, alpha, k), self.messages()
        items, scores = brute_force.top_k(interests, messages, self._world.space)
        return deltas.gather_lists(rows, items, scores)

    def explain(self, mine: Rows, row: int, alpha: Floats, k: Ints) -> dict[str, Any]:
        """Why a message is or is not in the result of one subscription."""
        interests, messages = self.interests(mine, alpha, k), self.messages()
        (similarity,) = brute_force.similarities(interests, messages, self._world.space)
        order = brute_force.ranked(similarity, messages.gain)
        at, last = int(np.flatnonzero(messages.row == row)[0]), int(k[0]) - 1
        place = np.flatnonzero(order == at)
        rank = int(place[0]) + 1 if place.size else None
        inside = rank is not None and rank <= last + 1
        theirs = self._world.texts.entries(np.array([row], np.int32)).term
        common = np.intersect1d(interests.vectors.term, theirs)
        kept_out = f"{last + 1} messages are better" if rank else "no common term"
        return {
            "in_result": inside,
            "score": float(similarity.score[at]),
            "rank": rank,
            "score_to_beat": float(similarity.score[order[last]]) if order.size > last else None,
            **self._faded(similarity, messages, at, order[last : last + 1]),
            "distance": float(similarity.distance[at]),
            "cosine": float(similarity.cosine[at]),
            "alpha": float(alpha[0]),
            "common_terms": sorted(self._world.terms.slots.take(common).to_pylist()),
            "reason": "in the result" if inside else kept_out,
        }

    def _faded(self, similarity: Similarity, messages: Messages, at: int, last: Rows) -> dict[str, Any]:
        """What a score and the one to beat have become by the time of the newest message, if scores fade."""
        if not self._world.fading:
            return {}
        faded = similarity.score * (messages.gain / messages.gain[0])
        return {
            "decayed_score": float(faded[at]),
            "decayed_score_to_beat": float(faded[last[0]]) if last.size else None,
        }

    def interests(self, rows: Rows, alpha: Floats, k: Ints) -> Interests:
        """Subscriptions, in that order."""
        slots, vectors = self._world.subscriptions, self._world.interests.entries(rows)
        return Interests(slots["x"][rows], slots["y"][rows], alpha, k, vectors)

    def messages(self) -> Messages:
        """All messages of the window."""
        slots, rows = self._world.messages, np.ascontiguousarray(self._world.window.rows()[::-1])
        gain = slots["gain"][rows] if self._world.fading else np.ones(rows.size)
        return Messages(rows, slots["x"][rows], slots["y"][rows], gain, self._world.texts.entries(rows))
