"""Ranked matching by NumPy: every event against every subscription, then the best of the matches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankcast.bench.workloads import Columns, Floats, Integers


class NumpyMatching:
    """Answers exact matching if the subscriptions have a `score`, relaxed matching (sum) otherwise."""

    def __init__(self, subscriptions: Columns, over: Sequence[str], k: int) -> None:
        self._rows, self._over, self._k = subscriptions, list(over), k

    def publish(self, events: Columns) -> list[tuple[Integers, Floats]]:
        """Give ids and scores of the best subscriptions for each event."""
        points = np.stack([events[name] for name in self._over], axis=1)
        return [self._best(point) for point in points]

    def _best(self, point: Floats) -> tuple[Integers, Floats]:
        """Give the k best for one event, ties to the smaller id."""
        rows = self._rows
        inside = [
            (rows[f"{name}_lo"] <= value) & (value <= rows[f"{name}_hi"])
            for name, value in zip(self._over, point, strict=True)
        ]
        if "score" in rows:
            score = np.where(np.all(inside, axis=0), rows["score"], -np.inf)
            matches = np.flatnonzero(score > -np.inf)
        else:
            score = np.zeros(len(rows["id"]))
            for name, within in zip(self._over, inside, strict=True):
                score += np.where(within, rows[f"{name}_weight"], 0.0)
            matches = np.flatnonzero(score > 0.0)
        if len(matches) > self._k:
            bound = np.partition(score[matches], -self._k)[-self._k]
            matches = matches[score[matches] >= bound]
        best = matches[np.lexsort((rows["id"][matches], -score[matches]))][: self._k]
        return rows["id"][best], score[best]
