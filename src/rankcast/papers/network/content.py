"""A content-driven network: messages for boxes of subscription space, carried by brokers that own zones.

Broker i owns zone i and is the gateway of all subscriptions in it. The network is a black box to those who
use it: `multicast` takes messages and a source, and everybody in a message's box hears it; `unicast` sends
to the gateway of each range. What that costs is counted an event: hops between brokers, links of the
IP network under them (shortest paths), receipts at the end. [Range §V]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.papers.network import delivery
from rankcast.papers.network.delivery import NO_LIST, Listeners, Messages, Subscribers, words
from rankcast.papers.network.topology import Topology
from rankcast.papers.network.zones import Zones
from rankcast.tables.schema import Bools, Floats, Ints, Rows


class Tiles(NamedTuple):
    """Messages as `RangeTopK.disseminate` gives them, in arrays: closed boxes, item, score, event, own."""

    low: Floats
    high: Floats
    item: Rows
    score: Floats
    event: Rows
    own: Bools


class ContentNetwork:
    """Brokers with zones, and subscriptions in them.

    Args:
        topology: where brokers stand.
        zones: as many as brokers.
        points: subscriptions (n, axes): lo and hi of each attribute.
        nodes: where each subscription's owner stands.
        listening: the numbers of those who listen.

    Attributes:
        listening: the same by zone, and in a zone by their first coordinate.
        heard_at: their points.
        server: the zone that holds the centre of space.
    """

    def __init__(
        self, topology: Topology, zones: Zones, points: Floats, nodes: Rows, listening: Ints
    ) -> None:
        self.topology, self.zones = topology, zones
        self.links = topology.between_brokers()
        zone = zones.owners(points)
        order = np.lexsort((points[:, 0], zone))
        self.subscribers = _subscribers(
            points[order], zone[order], topology.hops[zone[order], nodes[order]], len(zones)
        )
        listens = np.zeros(len(points), np.bool_)
        listens[listening] = True
        self.listening = order[listens[order]]
        self._start_of_listeners = _starts(zone[self.listening], len(zones))
        self.heard_at = points[self.listening]
        self.server = int(zones.owners(((zones.frame[0] + zones.frame[1]) / 2)[None])[0])

    def listeners(self, keeping: Ints, items: Rows, scores: Floats) -> Listeners:
        """All listeners; those at rising places of `listening` keep a list, which is given to begin with."""
        slot = np.full(len(self.listening), NO_LIST, np.int32)
        slot[keeping] = np.arange(len(keeping))
        digest = np.zeros(len(slot), np.uint64)
        return Listeners(self._start_of_listeners, self.heard_at, slot, items.copy(), scores.copy(), digest)

    def multicast(self, tiles: Tiles, listeners: Listeners, source: Rows, events: int) -> Ints:
        """Send tiles to all they touch; `source` is a zone an event. Sums a line an event (see SUMS)."""
        sums = np.zeros((events, delivery.SUMS), np.int64)
        messages = self._messages(tiles, source)
        delivery.multicast(self.zones.space, self.links, self.subscribers, listeners, messages, source, sums)
        return sums

    def unicast(self, tiles: Tiles, listeners: Listeners, source: Rows, events: int, *, direct: bool) -> Ints:
        """Send tiles of one range each to the gateway of that range, broker by broker or `direct`."""
        sums = np.zeros((events, delivery.SUMS), np.int64)
        messages, ways = self._messages(tiles, source), self.ways(np.unique(source), direct=direct)
        delivery.unicast(self.zones.space, ways, self.subscribers, listeners, messages, source, sums)
        return sums

    def ways(self, sources: Rows, *, direct: bool = False) -> Rows:
        """Hops and links from some zones to the middle of every zone (source, zone, 2); 0 for others."""
        zones = len(self.zones)
        if direct:
            return np.stack([1 - np.eye(zones, dtype=np.int32), self.links], axis=2)
        ways = np.zeros((zones, zones, 2), np.int32)
        for source in sources:
            ways[source] = self.walk(np.full(zones, source, np.int32), np.arange(zones, dtype=np.int32))
        return ways

    def arrivals(self, origin: Rows, goal: Rows) -> tuple[Rows, Rows]:
        """The zones where events from some nodes enter, and hops and links to the middle of a zone each.

        An event enters at the broker nearest to its origin, so many links away, and goes on greedily.
        """
        enters = self.topology.nearest_broker(origin)
        return enters, self.entries(enters, origin) + self.walk(enters, goal)

    def entries(self, enters: Rows, origin: Rows) -> Rows:
        """Hops (none) and links from the nodes where events come from to the brokers where they enter."""
        away: Rows = self.topology.hops[enters, origin]
        return np.column_stack([np.zeros_like(away), away])

    def shrunk(self, tiles: Tiles) -> Tiles:
        """The same tiles without those that reach nobody, each as small as those it reaches allow."""
        messages = self._messages(tiles, np.zeros(int(tiles.event.max(initial=0)) + 1, np.int32))
        kept = delivery.shrink(self.zones.space, self.subscribers, messages)
        small = tiles._replace(low=messages.low, high=messages.high)
        return Tiles(*(column[kept] for column in small))

    def walk(self, source: Rows, goal: Rows) -> Rows:
        """Hops and links of the greedy ways from zones to the middle of others."""
        centres = self.zones.centres()[goal]
        aim, cell = self.zones.scaled(centres), self.zones.cells(centres)
        ways: Rows = delivery.find_ways(self.zones.space, self.links, source, aim, cell)
        return ways

    def _messages(self, tiles: Tiles, source: Rows) -> Messages:
        aim = np.clip(self.zones.centres()[source[tiles.event]], tiles.low, tiles.high)
        aim = np.clip(aim, *self.zones.frame)
        return Messages(
            tiles.low.copy(),
            tiles.high.copy(),
            self.zones.cells(tiles.low),
            self.zones.cells(tiles.high),
            tiles.item,
            tiles.score,
            tiles.event,
            tiles.own,
            words(tiles.item, tiles.score),
            self.zones.scaled(aim),
            self.zones.cells(aim),
        )


def _starts(zone: Rows, zones: int) -> Ints:
    """Where the subscriptions of each zone begin, if they stand by zone."""
    return np.searchsorted(zone, np.arange(zones + 1)).astype(np.int64)


def _subscribers(points: Floats, zone: Rows, links: Rows, zones: int) -> Subscribers:
    """Subscriptions that stand by zone."""
    low, high = np.full((zones, points.shape[1]), np.inf), np.full((zones, points.shape[1]), -np.inf)
    np.minimum.at(low, zone, points)
    np.maximum.at(high, zone, points)
    sums = np.bincount(zone, weights=links, minlength=zones).astype(np.int64)
    return Subscribers(
        _starts(zone, zones), np.ascontiguousarray(points), links.astype(np.int32), sums, low, high
    )
