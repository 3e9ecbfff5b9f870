"""A tree of brokers: subscriptions travel with and without covering, events come back on the reverse paths.

Every broker keeps one `CoveringTable` for each neighbour: the subscriptions that came from anywhere else, of
which that neighbour hears the forwarded ones. An event goes to a neighbour if one of the boxes that the
neighbour has sent contains it, and to the clients of a broker whose own subscriptions contain it. With
`merge` neighbours hear of several subscriptions as one box; an event that lies in none of them is false
traffic.

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
Message = tuple[int, int, int, Box | None]  # from broker, to broker, subscription, its box; None: it goes


@dataclass
class Broker:
    """What a broker knows: neighbours, its clients' subscriptions, what each neighbour sent and may get."""

    neighbours: list[int] = field(default_factory=list)
    own: set[int] = field(default_factory=set)
    heard: dict[int, dict[int, Box]] = field(default_factory=dict)  # by neighbour: what it sent
    tables: dict[int, CoveringTable] = field(default_factory=dict)  # by neighbour: what may be sent to it


class Network:
    """Brokers in a tree. `covering=False` sends every subscription everywhere."""

    def __init__(
        self, links: Iterable[tuple[int, int]], *, covering: bool, merge: float | None = None
    ) -> None:
        self._covering = covering
        self._boxes: dict[int, Box] = {}
        self._brokers: dict[int, Broker] = {}
        self.messages = self.false_traffic = 0
        for one, other in links:
            for here, there in ((one, other), (other, one)):
                broker = self._brokers.setdefault(here, Broker())
                broker.neighbours.append(there)
                broker.heard[there] = {}
                broker.tables[there] = CoveringTable(over=OVER, merge=merge)

    @property
    def entries(self) -> int:
        """How many subscriptions of neighbours all brokers together know."""
        return sum(len(sent) for broker in self._brokers.values() for sent in broker.heard.values())

    def subscribe(self, at: int, subscription: int, box: Box) -> None:
        """A client of a broker subscribes."""
        self._boxes[subscription] = box
        self._brokers[at].own.add(subscription)
        self._deliver(self._spread(at, None, subscription, None, box))

    def unsubscribe(self, at: int, subscription: int) -> None:
        """A client of a broker takes its subscription back."""
        self._brokers[at].own.discard(subscription)
        self._deliver(self._spread(at, None, subscription, self._boxes.pop(subscription), None))

    def publish(self, at: int, point: tuple[float, ...]) -> list[int]:
        """Publish at a broker; returns the subscriptions that were served, as often as they were."""
        served: list[int] = []
        queue: deque[tuple[int, int | None]] = deque([(at, None)])
        while queue:
            here, came_from = queue.popleft()
            broker = self._brokers[here]
            served += [each for each in broker.own if _inside(point, self._boxes[each])]
            for there in broker.neighbours:
                boxes = broker.heard[there].values()
                if there != came_from and any(_inside(point, box) for box in boxes):
                    queue.append((there, here))
                    wanted = self._behind(there, here)
                    self.false_traffic += not any(_inside(point, self._boxes[each]) for each in wanted)
        return served

    def _behind(self, here: int, came_from: int) -> Iterator[int]:
        """The subscriptions at a broker and beyond it."""
        yield from self._brokers[here].own
        for there in self._brokers[here].neighbours:
            if there != came_from:
                yield from self._behind(there, here)

    def _deliver(self, messages: Iterable[Message]) -> None:
        """Let messages travel until nobody has anything to say."""
        queue = deque(messages)
        while queue:
            sender, here, subscription, box = queue.popleft()
            self.messages += 1
            heard = self._brokers[here].heard[sender]
            before = heard.pop(subscription, None)
            if box is not None:
                heard[subscription] = box
            queue.extend(self._spread(here, sender, subscription, before, box))

    def _spread(
        self, here: int, came_from: int | None, subscription: int, before: Box | None, box: Box | None
    ) -> Iterator[Message]:
        """What a broker tells its other neighbours about one that came, changed its box or went."""
        for there, table in self._brokers[here].tables.items():
            if there != came_from:
                for name, told in self._told(table, subscription, before, box):
                    yield here, there, name, told

    def _told(
        self, table: CoveringTable, subscription: int, before: Box | None, box: Box | None
    ) -> list[tuple[int, Box | None]]:
        if not self._covering:
            return [(subscription, box)]
        if box is None:
            answer = table.unsubscribe([subscription])
        else:
            rows: dict[str, Any] = {"id": [subscription]}
            for name, (low, high) in zip(OVER, box, strict=True):
                rows |= {f"{name}_lo": [low], f"{name}_hi": [high]}
            answer = table.subscribe(rows) if before is None else table.amend(rows)
        known = {
            row["subscription"]: tuple((row[f"{name}_lo"], row[f"{name}_hi"]) for name in OVER)
            for row in table.forwarded_boxes().to_pylist()
        }
        actions = {row["subscription"]: row["action"] for row in answer.to_pylist()}
        # What comes before what goes: nothing is uncovered meanwhile.
        forward = [(name, known[name]) for name, action in sorted(actions.items()) if action == "forward"]
        return forward + [(name, None) for name, action in sorted(actions.items()) if action == "withdraw"]


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
    merging = Network(links, covering=True, merge=0.2)
    homes = {each: int(rng.integers(brokers)) for each in range(subscriptions)}
    boxes = {each: random_box(rng) for each in homes}
    gone = set(rng.choice(subscriptions, subscriptions // 4, replace=False).tolist())
    for network in (with_covering, without, merging):
        for each, home in homes.items():
            network.subscribe(home, each, boxes[each])
        for each in sorted(gone):
            network.unsubscribe(homes[each], each)
    missed = doubled = 0
    for _ in range(events):
        point = tuple(float(value) for value in rng.uniform(0, 100, len(OVER)))
        at = int(rng.integers(brokers))
        wanted = {each for each in homes if each not in gone and _inside(point, boxes[each])}
        for served in (with_covering.publish(at, point), merging.publish(at, point)):
            missed += len(wanted - set(served))
            doubled += len(served) - len(set(served))
    write = sys.stdout.write
    write(f"{brokers} brokers, {subscriptions} subscriptions, {len(gone)} taken back, {events} events\n")
    write(f"missed: {missed}, delivered twice: {doubled}\n")
    for word in ("messages", "entries"):
        ours, theirs = getattr(with_covering, word), getattr(without, word)
        write(f"{word}: {ours} with covering, {theirs} without: {1 - ours / theirs:.0%} saved\n")
    write(f"merging by 20%: {merging.entries} entries, {merging.false_traffic} events sent to nobody\n")


if __name__ == "__main__":
    main()
