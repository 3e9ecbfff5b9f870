"""An acyclic network of content-based routers: subscriptions travel, with or without covering, events return.

Brokers form a tree. For each link, in each direction, a broker keeps a `CoveringTable` of the subscriptions
that came from anywhere else; the neighbour hears of those the table forwards, and of their withdrawal. An
event crosses a link if one of the subscriptions that came over it contains the event. [Covering §I]

A sequence of commands is followed as if each had reached every broker before the next. In a tree all that
comes of one command reaches a broker over one link, so each link, in each direction, may take the whole
sequence at once, after the links that lead to it. Cost: that of the tables; no Python loop over commands.

`Routing` plays a workload: all subscriptions come in turn at the brokers of their clients, a share of them
goes again, then objects are updated at random brokers. The network knows nothing of ranking: subscribers hear
of every update of an object in their range and keep all these objects, so they know the best ones. It is
checked of everybody that nothing was missed; some keep lists that are compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from rankcast.covering.engine import CoveringTable
from rankcast.errors import SettingError
from rankcast.papers.network.delivery import receive
from rankcast.papers.network.topology import Topology, Workload, rows_of, with_nulls
from rankcast.papers.network.traffic import EVENT_BYTES, Boards, Checked, Witness, chosen, spread_over
from rankcast.papers.network.zones import causes, spread
from rankcast.tables import schema
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
        commands = Commands(np.arange(len(subscription)), subscription, goes)
        heard: dict[int, Commands] = {}
        for link in self._outwards():
            here, there = self._ends(link)
            own = _at(commands, self._home[subscription] == here)
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
        answered = answer["subscription"].to_numpy().astype(np.int64)
        forward, withdraw, drop = (
            pc.equal(answer["action"], word).to_numpy() for word in ("forward", "withdraw", "drop")
        )
        by = causes(answered, withdraw | drop, np.where(goes, -1 - names, names))
        heard = _at(Commands(commands.time[by], answered, withdraw), forward | withdraw)
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


PORTION = 4_000_000  # pairs of event and subscription that are compared at once


class Routed(NamedTuple):
    """What a network of routers did with a workload."""

    covering: bool
    checked: Checked
    missed: int  # pairs of an event and a subscription that contains it and did not hear of it
    figures: dict[str, float]

    @property
    def exact_lists(self) -> bool:
        """Whether nobody missed anything, and the lists that were kept were exact at the end."""
        return self.checked.exact


class Routing:
    """Subscriptions that come and go on a smallest tree over the brokers, and updates of objects.

    Args:
        workload: objects, ranges and updates of y.
        topology: where brokers stand.
        gone: the share of subscriptions that go again before the updates; some must stay.
        listeners: how many of those that stay may keep a list, at random; None: as many as may.
        rng: draws homes of subscriptions and of updates, who goes, who listens.

    Attributes:
        parent: of each broker in the tree.
        home: the broker of each subscription.
        gone: the subscriptions that go again, and `stay`, the others.
        at: the broker where each update is published.
    """

    def __init__(
        self,
        workload: Workload,
        topology: Topology,
        *,
        gone: float = 0.25,
        listeners: int | None = None,
        rng: np.random.Generator,
    ) -> None:
        self.workload, self.topology, self.parent = workload, topology, topology.joined()
        self.over = [name.removesuffix("_lo") for name in workload.ranges if name.endswith("_lo")]
        self._low, self._high = (
            np.column_stack([workload.ranges[f"{name}_{end}"] for name in self.over]) for end in ("lo", "hi")
        )
        count, brokers = len(self._low), len(self.parent)
        share = schema.number("gone", gone, low=0, high=1)
        self.home = rng.integers(0, brokers, count).astype(np.int32)
        order = rng.permutation(count)
        self.gone, stay = np.sort(order[: int(share * count)]), np.sort(order[int(share * count) :])
        if not len(stay):
            raise SettingError(
                f"gone is {gone}", expected="a share below 1, so that somebody is there to tell"
            )
        self.at = rng.integers(0, brokers, len(workload.events["id"])).astype(np.int32)
        picked = chosen(stay, listeners, rng)
        self.stay, self.listening = stay, picked[spread_over(len(picked), len(workload.objects["id"]))]

    def run(self, k: int, *, covering: bool) -> Routed:
        """Play all of it on a network with or without covering."""
        network = AcyclicNetwork(self.parent, self.over, self._low, self._high, self.home, covering=covering)
        coming = np.arange(len(self._low))
        network.follow(coming, np.zeros(len(coming), np.bool_))
        came = network.messages
        network.follow(self.gone, np.ones(len(self.gone), np.bool_))
        objects, events = self.workload.objects, self.workload.events
        points = np.column_stack([objects[name][events["id"]] for name in self.over])
        boards, witness = self._boards(k)
        crossed, missed, served, size = 0, 0, 0, max(1, PORTION // max(1, len(self._low)))
        links = 0
        for begin in range(0, len(points), size):
            part = slice(begin, begin + size)
            sent = network.publish(self.at[part], points[part])
            heard, wanted = network.served(points[part], sent), network.matches(points[part])
            crossed += int(sent.crossed.sum())
            links += self._links(sent.reached)
            missed += int(np.count_nonzero(wanted & ~heard))
            served += int(np.count_nonzero(heard))
            _listen(boards, heard[:, self.listening], events["id"][part], events["y"][part])
        entries, each = network.entries(), max(1, len(points))
        figures = {
            "subscribe_messages": float(came),
            "unsubscribe_messages": float(network.messages - came),
            "table_entries": float(entries.mean()),
            "table_entries_most": float(entries.max(initial=0)),
            "event_hops": crossed / each,
            "overlay_bytes": crossed * EVENT_BYTES / each,
            "ip_bytes": links * EVENT_BYTES / each,
            "received": served / each,
        }
        exact = witness.agrees(boards) and not missed
        return Routed(covering, Checked(exact, len(self.stay), len(self.listening)), missed, figures)

    def _boards(self, k: int) -> tuple[Boards, Witness]:
        """What listeners know before the updates, and what their lists must become."""
        theirs = {name: ends[self.listening] for name, ends in self.workload.ranges.items()}
        witness = Witness(self.over, k, self.workload.objects, theirs)
        known = witness.everything()
        witness.follow(self.workload.events)
        return known, witness

    def _links(self, reached: Bools) -> int:
        """Links of the IP network under the tree's links that events crossed.

        An event reaches a connected part of the tree: it crosses the links inside that part.
        """
        child = np.flatnonzero(self.parent >= 0)
        both = reached[:, child] & reached[:, self.parent[child]]
        away = self.topology.between_brokers()[child, self.parent[child]]
        return int((both @ away.astype(np.int64)).sum())


def _listen(boards: Boards, heard: Bools, items: Ints, scores: Floats) -> None:
    """Let listeners hear of updates in turn."""
    for event, line in zip(*np.nonzero(heard), strict=True):
        receive(boards.item[line], boards.score[line], np.int32(items[event]), float(scores[event]))
