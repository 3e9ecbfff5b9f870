"""Objects shared by several servers along the diagonal of subscription space, and the walks that takes.

Every server holds as many objects as the others, those of one stretch of x, and may publish messages of its
own: an update goes to the server of its object, which asks its neighbours, and they theirs, only where
the answer to `firstk` or `miny` may lie beyond its own objects. [Range App. C]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.errors import SettingError
from rankcast.papers.network import network_diagonal as walking
from rankcast.tables import schema
from rankcast.tables.schema import Floats, Ints


class Walks(NamedTuple):
    """What updates asked, a line each."""

    firstk: Ints  # questions
    miny: Ints
    firstk_steps: Ints  # neighbours asked for them
    miny_steps: Ints
    exposed: Ints  # objects that an update exposed
    crossed: Ints  # (updates, servers - 1): how often a question crossed each border


class Diagonal:
    """Servers with their objects; ids are 0, 1, ... Equal x are walked in the order of ids.

    >>> servers = Diagonal(np.array([0.1, 0.2, 0.3, 0.4]), np.array([4.0, 1.0, 2.0, 3.0]), 2)
    >>> walks = servers.follow(np.array([1]), np.array([5.0]), k=1)
    >>> walks.exposed.tolist(), walks.firstk_steps.tolist(), walks.miny_steps.tolist()
    ([2], [1], [1])
    """

    def __init__(self, x: Floats, y: Floats, servers: int) -> None:
        count = schema.whole("servers", servers)
        if count > len(x):
            raise SettingError(f"servers is {count}", expected=f"at most the {len(x)} objects")
        order = np.argsort(x, kind="stable")
        self._label = order.astype(np.int64)
        self._place = np.empty(len(x), np.int64)
        self._place[order] = np.arange(len(x))
        self._y = y[order].astype(np.float64)
        self.start: Ints = np.linspace(0, len(x), count + 1).astype(np.int64)
        self.middle: Floats = x[order][(self.start[:-1] + self.start[1:]) // 2]

    def server_of(self, ids: Ints) -> Ints:
        """Which server holds each object."""
        return np.searchsorted(self.start, self._place[ids], side="right") - 1

    def follow(self, ids: Ints, values: Floats, k: int) -> Walks:
        """Apply updates of y in turn; what they asked."""
        tally = np.zeros((len(ids), walking.TALLIES), np.int64)
        crossed = np.zeros((len(ids), len(self.start) - 2), np.int64)
        places = self._place[ids]
        walking.follow(self.start, self._y, self._label, places, values.astype(np.float64), k, tally, crossed)
        firstk, miny, firstk_steps, miny_steps, exposed = tally.T
        return Walks(firstk, miny, firstk_steps, miny_steps, exposed, crossed)
