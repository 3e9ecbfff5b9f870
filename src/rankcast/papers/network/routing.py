"""A workload on an acyclic network: what covering saves, and that every list is exact all the same.

All subscriptions come in turn at the brokers of their clients, a share of them goes again, then objects are
updated at random brokers. The network knows nothing of ranking: whoever has the object in his range hears of
its update, and keeps all objects that he hears of. Who hears of every update of an object in his range knows
the best ones; so of everybody it is checked that nothing was missed, and some keep lists that are compared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.errors import SettingError
from rankcast.papers.network.kernels.network_listening import receive
from rankcast.papers.network.listening import Boards, Checked, Witness, chosen, spread_over
from rankcast.papers.network.routers import AcyclicNetwork
from rankcast.papers.network.topology import Topology
from rankcast.papers.network.traffic import EVENT_BYTES
from rankcast.papers.network.workload import Workload
from rankcast.tables import schema
from rankcast.tables.schema import Bools, Floats, Ints

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
        asked = chosen(stay, listeners, rng)
        self.stay, self.listening = stay, asked[spread_over(len(asked), len(workload.objects["id"]))]

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

        An event reaches a part of the tree that hangs together: it crosses the links inside that part.
        """
        child = np.flatnonzero(self.parent >= 0)
        both = reached[:, child] & reached[:, self.parent[child]]
        away = self.topology.between_brokers()[child, self.parent[child]]
        return int((both @ away.astype(np.int64)).sum())


def _listen(boards: Boards, heard: Bools, items: Ints, scores: Floats) -> None:
    """Let listeners hear of updates in turn."""
    for event, line in zip(*np.nonzero(heard), strict=True):
        receive(boards.item[line], boards.score[line], np.int32(items[event]), float(scores[event]))
