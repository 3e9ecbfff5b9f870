"""A tree of brokers: subscriptions travel with and without covering, events come back on the reverse paths.

Every broker keeps one `CoveringTable` for each neighbour: the subscriptions that came from anywhere else, of
which that neighbour hears the forwarded ones. An event goes to a neighbour if one of the subscriptions that
the neighbour has sent contains it, and to the clients of a broker whose own subscriptions contain it.

    python examples/broker_tree.py
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankcast import CoveringTable

OVER = ["price", "size"]
Box = tuple[tuple[float, float], ...]
Message = tuple[int, int, str, int]  # from broker, to broker, "subscribe" or "unsubscribe", subscription


@dataclass
class Broker:
    """What a broker knows: neighbours, its clients' subscriptions, what each neighbour sent and may get."""

    neighbours: list[int] = field(default_factory=list)
    own: set[int] = field(default_factory=set)
    heard: dict[int, set[int]] = field(default_factory=dict)  # by neighbour: what it sent
    tables: dict[int, CoveringTable] = field(default_factory=dict)  # by neighbour: what may be sent to it


class Network:
    """Brokers in a tree. `covering=False` sends every subscription everywhere."""

    def __init__(self, links: Iterable[tuple[int, int]], *, covering: bool) -> None:
        self._covering = covering
        self._boxes: dict[int, Box] = {}
        self._brokers: dict[int, Broker] = {}
        self.messages = 0
        for one, other in links:
            for here, there in ((one, other), (other, one)):
                broker = self._brokers.setdefault(here, Broker())
                broker.neighbours.append(there)
                broker.heard[there] = set()
                broker.tables[there] = CoveringTable(over=OVER)

    @property
    def entries(self) -> int:
        """How many subscriptions of neighbours all brokers together know."""
        return sum(len(sent) for broker in self._brokers.values() for sent in broker.heard.values())

    def subscribe(self, at: int, subscription: int, box: Box) -> None:
        """A client of a broker subscribes."""
        self._boxes[subscription] = box
        self._brokers[at].own.add(subscription)
        self._deliver(self._spread(at, None, "subscribe", subscription))

    def unsubscribe(self, at: int, subscription: int) -> None:
        """A client of a broker takes its subscription back."""
        self._brokers[at].own.discard(subscription)
        self._deliver(self._spread(at, None, "unsubscribe", subscription))
        del self._boxes[subscription]

    def publish(self, at: int, point: tuple[float, ...]) -> list[int]:
        """Publish at a broker; returns the subscriptions that were served, as often as they were."""
        served: list[int] = []
        queue: deque[tuple[int, int | None]] = deque([(at, None)])
        while queue:
            here, came_from = queue.popleft()
            broker = self._brokers[here]
            served += [each for each in broker.own if _inside(point, self._boxes[each])]
            for there in broker.neighbours:
                if there != came_from and any(_inside(point, self._boxes[s]) for s in broker.heard[there]):
                    queue.append((there, here))
        return served

    def _deliver(self, messages: Iterable[Message]) -> None:
        """Let messages travel until nobody has anything to say."""
        queue = deque(messages)
        while queue:
            sender, here, call, subscription = queue.popleft()
            self.messages += 1
            heard = self._brokers[here].heard[sender]
            if call == "subscribe":
                heard.add(subscription)
            else:
                heard.discard(subscription)
            queue.extend(self._spread(here, sender, call, subscription))

    def _spread(self, here: int, came_from: int | None, call: str, subscription: int) -> Iterator[Message]:
        """What a broker tells its other neighbours about one subscription that came or went."""
        for there, table in self._brokers[here].tables.items():
            if there != came_from:
                for action, name in self._actions(table, call, subscription):
                    yield here, there, action, name

    def _actions(self, table: CoveringTable, call: str, subscription: int) -> list[tuple[str, int]]:
        if not self._covering:
            return [(call, subscription)]
        given: Any = [subscription]
        if call == "subscribe":
            given = {"id": given}
            for name, (low, high) in zip(OVER, self._boxes[subscription], strict=True):
                given |= {f"{name}_lo": [low], f"{name}_hi": [high]}
        answer = getattr(table, call)(given).to_pylist()
        calls = {"forward": "subscribe", "withdraw": "unsubscribe"}
        told = [(calls[row["action"]], row["subscription"]) for row in answer if row["action"] in calls]
        return sorted(told)  # "subscribe" comes before "unsubscribe": nothing is uncovered meanwhile


def _inside(point: tuple[float, ...], box: Box) -> bool:
    return all(low <= value <= high for value, (low, high) in zip(point, box, strict=True))


def random_tree(brokers: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Links of a random tree."""
    return [(int(rng.integers(broker)), broker) for broker in range(1, brokers)]


def random_box(rng: np.random.Generator) -> Box:
    """A box of any size, small ones more often."""
    side = 100 * 0.02 ** rng.random()
    low = rng.uniform(0, 100 - side, len(OVER))
    return tuple((float(each), float(each + side)) for each in low)


def main(brokers: int = 12, subscriptions: int = 300, events: int = 200) -> None:
    """Play the same life with and without covering and print what covering saves."""
    rng = np.random.default_rng(5)
    links = random_tree(brokers, rng)
    with_covering, without = Network(links, covering=True), Network(links, covering=False)
    homes = {each: int(rng.integers(brokers)) for each in range(subscriptions)}
    boxes = {each: random_box(rng) for each in homes}
    gone = set(rng.choice(subscriptions, subscriptions // 4, replace=False).tolist())
    for network in (with_covering, without):
        for each, home in homes.items():
            network.subscribe(home, each, boxes[each])
        for each in sorted(gone):
            network.unsubscribe(homes[each], each)
    missed = doubled = 0
    for _ in range(events):
        point = tuple(float(value) for value in rng.uniform(0, 100, len(OVER)))
        served = with_covering.publish(int(rng.integers(brokers)), point)
        wanted = {each for each in homes if each not in gone and _inside(point, boxes[each])}
        missed += len(wanted - set(served))
        doubled += len(served) - len(set(served))
    write = sys.stdout.write
    write(f"{brokers} brokers, {subscriptions} subscriptions, {len(gone)} taken back, {events} events\n")
    write(f"missed: {missed}, delivered twice: {doubled}\n")
    for word in ("messages", "entries"):
        ours, theirs = getattr(with_covering, word), getattr(without, word)
        write(f"{word}: {ours} with covering, {theirs} without: {1 - ours / theirs:.0%} saved\n")


if __name__ == "__main__":
    main()
