"""The receiving side of dissemination: one subscriber's list, kept by the protocol of [Range §II-A]."""

from __future__ import annotations

from typing import Any

from rankcast.tables import schema


class SubscriberList:
    """A ranked list of at most k items that follows messages.

    A message about an item in the list replaces its score; one about another item is a bid for a place. A
    score of None removes the item. Ties go to the smaller id. Cost: O(k log k) a message.

    >>> mine = SubscriberList(k=2)
    >>> for item, score in [("a", 3.0), ("b", 1.0), ("c", 2.0), ("b", None)]:
    ...     mine.receive(item, score)
    >>> mine.items()
    [('c', 2.0)]
    """

    def __init__(self, k: int, order: str = "asc") -> None:
        self._k = schema.whole("k", k)
        self._sign = 1.0 if schema.one_of("order", order, ["asc", "desc"]) == "asc" else -1.0
        self._scores: dict[Any, float] = {}

    def __len__(self) -> int:
        return len(self._scores)

    def receive(self, item: Any, score: float | None) -> None:
        """Take one message."""
        if score is None:
            self._scores.pop(item, None)
            return
        self._scores[item] = score
        if len(self._scores) > self._k:
            del self._scores[self._ranked()[-1]]

    def items(self) -> list[tuple[Any, float]]:
        """The list as (item, score), best first."""
        return [(item, self._scores[item]) for item in self._ranked()]

    def _ranked(self) -> list[Any]:
        return sorted(self._scores, key=lambda item: (self._sign * self._scores[item], item))
