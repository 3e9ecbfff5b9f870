"""The geo-text score by its definition, one pair at a time: what a sample of answers is compared with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any


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
