"""Gateways that follow the tiles of a story, and the lists that they are to have."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from rankcast import Gateway, RangeTopK
from tests.spark.stories import Row, Story

KS = (1, 3, 4)  # of the subscriptions of a story: their own, and the engine's


def subscribers(batch: dict[str, list[Row]]) -> Iterator[Row]:
    yield from sorted(batch.get("subscriptions", []), key=lambda row: row["seq"])


class Receivers:
    """A gateway for each k, which hear of subscribers as the server does, and of nothing but its messages."""

    def __init__(self, order: str = "asc") -> None:
        self.gateways = {k: Gateway(None, k=k, order=order) for k in KS}
        self._k: dict[Any, int] = {}

    def subscribe(self, row: Row) -> None:
        op, name = row.get("op", "subscribe"), row["id"]
        if op != "subscribe":
            self.gateways[self._k.pop(name)].unsubscribe([name])
        if op != "unsubscribe":
            k = self._k[name] = row["k"] or 3
            self.gateways[k].subscribe([{key: row[key] for key in ("id", "x_lo", "x_hi")}])

    def receive(self, rows: list[Row]) -> None:
        for gateway in self.gateways.values():
            gateway.receive(rows)

    def lists(self) -> dict[Any, list[tuple[Any, float]]]:
        return {name: self.gateways[k].items(name) for name, k in self._k.items()}

    def awaited(self) -> list[Any]:
        return [name for gateway in self.gateways.values() for name in gateway.awaited()]


def lists_of(story: Story, upto: int) -> dict[Any, list[tuple[Any, float]]]:
    """The lists of a plain engine after so many micro-batches, which are those of the brute force."""
    found = []
    for method in ("sparse", "scan"):
        order = story.make().state()[0]["settings"]["order"]
        plain = Story(partial(RangeTopK, k=3, method=method, order=order), story.columns)
        plain.tables, plain.batches = story.tables, story.batches[:upto]
        engine: Any = plain.expected()[1]
        lists: dict[Any, list[tuple[Any, float]]] = {name: [] for name in _live(story, upto)}
        for row in engine.results().to_pylist():
            lists[row["subscription"]].append((row["item"], row["score"]))
        found.append(lists)
    assert found[0] == found[1]
    return found[0]


def _live(story: Story, upto: int) -> set[Any]:
    live = {row["id"] for row in story.tables.get("subscriptions", [])}
    for batch in story.batches[:upto]:
        for row in subscribers(batch):
            (live.discard if row["op"] == "unsubscribe" else live.add)(row["id"])
    return live
