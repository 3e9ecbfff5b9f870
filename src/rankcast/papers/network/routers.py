"""An acyclic network of content-based routers: subscriptions travel, with or without covering, events return.

Brokers form a tree. For each link, in each direction, a broker keeps a `CoveringTable` of the subscriptions
that came from anywhere else; the neighbour hears of those the table forwards, and of their withdrawal. An
event crosses a link if one of the subscriptions that came over it contains the event. [Covering §I]

A sequence of commands is followed as if each had reached every broker before the next. In a tree all that
comes of one command reaches a broker over one link, so each link, in each direction, may take the whole
sequence at once, after the links that lead to it. Cost: that of the tables; no Python loop over commands.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from rankcast.covering.engine import CoveringTable
from rankcast.papers.network.kernels.network_graph import causes, spread
from rankcast.papers.network.topology import rows_of
from rankcast.papers.network.workload import with_nulls
from rankcast.tables.schema import Bools, Floats, Ints, Rows


class Commands(NamedTuple):
    """Subscribes and unsubscribes in turn; a subscription is named by its number and has one life."""

    time: Ints  # rising
    subscription: Ints
    goes: Bools


class Sent(NamedTuple):
    """What events came to: whom they reached, over how many links each."""

    reached: Bools  # (events, brokers)
    crossed: Ints


class AcyclicNetwork:
    """Brokers in a tree, and the subscriptions that they know.

    Args:
        parent: of each broker, an earlier or a later one; -1 for the one root.
        over: the attributes of subscriptions and events.
        low: lower ends of all subscriptions that will ever come, (n, attributes); -inf for none.
        high: upper ends.
        home: the broker that each of them belongs to.
        covering: whether what another one contains is kept back.
    """

    def __init__(
        self, parent: Rows, over: list[str], low: Floats, high: Floats, home: Rows, *, covering: bool
    ) -> None:
        self.covering, self._over = covering, over
        self._low, self._high, self._home = low, high, home
        child = np.flatnonzero(parent >= 0)
        links = np.column_stack([parent[child], child])
        self.start, self.neighbour = rows_of(links, len(parent))
        self._tables = [CoveringTable(over=over) for _ in self.neighbour] if covering else []
        self.live: Bools = np.zeros(len(home), np.bool_)
        self.messages = 0
        self.root = int(np.flatnonzero(parent < 0)[0])
        self._sides = self._farther()

    @property
    def brokers(self) -> int:
        """How many brokers there are."""
        return len(self.start) - 1

    def entries(self) -> Ints:
        """How many subscriptions of its neighbours each broker knows."""
        known = np.zeros(self.brokers, np.int64)
        for link in range(len(self.neighbour)):
            if self.covering:
                known[self.neighbour[link]] += len(self._tables[link].forwarded())
            else:
                known[self.neighbour[link]] += np.count_nonzero(self.live & ~self._sides[link, self._home])
        return known

    def follow(self, subscription: Ints, goes: Bools) -> None:
        """Let clients subscribe and unsubscribe in turn, each until nobody has anything more to say."""
        self.live[subscription[~goes]] = True
        self.live[subscription[goes]] = False
        if not self.covering:
            self.messages += len(subscription) * (self.brokers - 1)
            return
        told = Commands(np.arange(len(subscription)), subscription, goes)
        heard: dict[int, Commands] = {}
        for link in self._outwards():
            here, there = self._ends(link)
            own = _at(told, self._home[subscription] == here)
            before = [
                heard[self._back(each)] for each in self._links_of(here) if self.neighbour[each] != there
            ]
            heard[link] = self._pass_on(link, _joined([own, *before]))
            self.messages += len(heard[link].time)

    def publish(self, broker: Rows, points: Floats) -> Sent:
        """Publish events at brokers; points (n, attributes)."""
        wanted = np.zeros((len(self.neighbour), len(points)), np.bool_)
        own = None if self.covering else self._own_matches(points)
        for link in range(len(self.neighbour)):
            if own is None:
                wanted[link] = self._asked(self._back(link), points)
            else:
                wanted[link] = own[self._sides[link]].any(axis=0)
        reached: Bools = spread(self.start, self.neighbour, wanted, broker.astype(np.int32))
        return Sent(reached, np.count_nonzero(reached, axis=1) - 1)

    def served(self, points: Floats, sent: Sent) -> Bools:
        """Who is served by his broker: (events, subscriptions)."""
        return self.matches(points) & sent.reached[:, self._home]

    def matches(self, points: Floats) -> Bools:
        """Which live subscriptions contain each event, wherever they are."""
        inside = (self._low[None] <= points[:, None]) & (points[:, None] <= self._high[None])
        return inside.all(axis=2) & self.live

    def _own_matches(self, points: Floats) -> Bools:
        """Whether a subscription of each broker's own contains an event: (brokers, events)."""
        matches, own = self.matches(points), np.zeros((self.brokers, len(points)), np.bool_)
        for broker in range(self.brokers):
            own[broker] = matches[:, self._home == broker].any(axis=1)
        return own

    def _asked(self, link: int, points: Floats) -> Bools:
        """Whether something that was sent over a link contains each event."""
        events = {"id": np.arange(len(points))} | dict(zip(self._over, points.T, strict=True))
        found = np.zeros(len(points), np.bool_)
        found[self._tables[link].publish(events)["event"].to_numpy()] = True
        return found

    def _pass_on(self, link: int, commands: Commands) -> Commands:
        """Let the table of a link follow commands; what the neighbour hears, forwards before withdrawals."""
        names, goes = commands.subscription, commands.goes
        if not len(names):
            return commands
        ends = {
            f"{name}_{end}": values[names, place]
            for place, name in enumerate(self._over)
            for end, values in (("lo", self._low), ("hi", self._high))
        }
        op = np.where(goes, "unsubscribe", "subscribe")
        answer = self._tables[link].follow({"op": op, "id": names, **with_nulls(ends)})
        told = answer["subscription"].to_numpy().astype(np.int64)
        forward, withdraw, drop = (
            pc.equal(answer["action"], word).to_numpy() for word in ("forward", "withdraw", "drop")
        )
        by = causes(told, withdraw | drop, np.where(goes, -1 - names, names))
        heard = _at(Commands(commands.time[by], told, withdraw), forward | withdraw)
        return _at(heard, np.lexsort((heard.goes, heard.time)))

    def _ends(self, link: int) -> tuple[int, int]:
        """From which broker to which a link leads."""
        return int(np.searchsorted(self.start, link, side="right")) - 1, int(self.neighbour[link])

    def _links_of(self, broker: int) -> range:
        return range(int(self.start[broker]), int(self.start[broker + 1]))

    def _back(self, link: int) -> int:
        """The same link the other way."""
        here, there = self._ends(link)
        return next(each for each in self._links_of(there) if self.neighbour[each] == here)

    def _outwards(self) -> list[int]:
        """All links, each after those that lead to it: from the leaves to the root, then back."""
        order, before = [self.root], {self.root: -1}
        for here in order:
            fresh = [
                int(self.neighbour[e]) for e in self._links_of(here) if self.neighbour[e] != before[here]
            ]
            before |= dict.fromkeys(fresh, here)
            order += fresh
        up = [
            next(e for e in self._links_of(here) if self.neighbour[e] == before[here])
            for here in reversed(order[1:])
        ]
        return up + [self._back(link) for link in reversed(up)]

    def _farther(self) -> Bools:
        """The brokers beyond each link: (links, brokers)."""
        sides = np.zeros((len(self.neighbour), self.brokers), np.bool_)
        for link in self._outwards():
            here, _ = self._ends(link)
            back = self._back(link)
            sides[back, here] = True
            for each in self._links_of(here):
                if each != link:
                    sides[back] |= sides[each]
        return sides


def _at(commands: Commands, which: Any) -> Commands:
    return Commands(commands.time[which], commands.subscription[which], commands.goes[which])


def _joined(parts: list[Commands]) -> Commands:
    """Several sequences as one, in the order of time."""
    whole = Commands._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    return _at(whole, np.argsort(whole.time, kind="stable"))
