"""The five engines of the city, and their deltas, minute by minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankcast.covering.engine import CoveringTable
from rankcast.demo.city.evening import BOUNDS, NAMES, City, Minute
from rankcast.geotext.engine import GeoTextTopK
from rankcast.matching.engine import RankedMatcher
from rankcast.moving.scoring import weighted_sum
from rankcast.moving.skyline import MovingSkyline
from rankcast.moving.topk import MovingTopK
from rankcast.range_topk.engine import RangeTopK

TITLES = {
    "moving": "couriers and walkers: the best kitchens, on the move",
    "deals": "customers: deals near them they have a taste for",
    "offers": "visitors: offers that want them, by bid",
    "prices": "watchers: cheapest dish in a range of stars",
    "routers": "routers: wishes that neighbours must know",
}
ENGINES = {
    "moving": "MovingTopK, MovingSkyline",
    "deals": "GeoTextTopK",
    "offers": "RankedMatcher",
    "prices": "RangeTopK",
    "routers": "CoveringTable",
}
SCAN = {"moving": {"method": "scan"}, "deals": {"method": "scan", "refill": "none"}}
SCAN |= {"offers": {"index": "scan"}, "prices": {"method": "scan"}, "routers": {"index": "scan"}}


@dataclass
class Tally:
    """What one engine did: events in, rows out, seconds by minute; and its own measure of what it saved."""

    events: int = 0
    answers: int = 0
    seconds: list[float] = field(default_factory=list)
    by_minute: list[int] = field(default_factory=list)
    spared: int = 0
    all: int = 0

    @property
    def share(self) -> float:
        """Which part of all was spared."""
        return self.spared / self.all if self.all else 0.0


class Town:
    """All engines over one city.

    Args:
        city: the city.
        brute_force: let every engine look at everything: what the others must agree with.
    """

    def __init__(self, city: City, *, brute_force: bool = False) -> None:
        way: dict[str, dict[str, Any]] = SCAN if brute_force else {name: {} for name in SCAN}
        score = weighted_sum([0.08, 0.8, 1.0])
        self.city = city
        self.couriers = MovingTopK(over=["wait", "missing"], k=3, m=8, score=score, **way["moving"])
        self.walkers = MovingSkyline(over=["wait", "missing"], **way["moving"])
        self.deals = GeoTextTopK(bounds=BOUNDS, k=3, window=200, **way["deals"])
        self.offers = RankedMatcher(over=["x", "y", "hour", "budget"], k=3, **way["offers"])
        self.prices = RangeTopK(over="stars", by="price", k=3, **way["prices"])
        self.network = RangeTopK(over="stars", by="price", k=3, **way["prices"])
        over = ["x", "y", "price"]
        self.routers = {name: CoveringTable(over=over, **way["routers"]) for name in NAMES}
        self.tallies = {name: Tally() for name in TITLES}
        self.tiles = self.reached = self.areas = self.forwarded = 0
        self.history: list[tuple[int, int, int, int]] = []
        self._settle()

    def _settle(self) -> None:
        """Everybody and everything that is there at six o'clock."""
        for engine in (self.couriers, self.walkers):
            engine.upsert(self.city.kitchens())
        self.couriers.subscribe(self.city.couriers)
        self.walkers.subscribe(self.city.walkers)
        self.deals.subscribe(self.city.customers)
        self.offers.subscribe(self.city.offers)
        for table in (self.prices, self.network):
            table.publish(self.city.menu())
            table.subscribe(self.city.watchers)

    def live(self, minute: Minute) -> dict[str, list[dict[str, Any]]]:
        """Let half a minute pass; returns what each engine told."""
        calls: dict[str, Callable[[Minute], tuple[int, list[pa.Table]]]] = {
            "moving": self._move,
            "deals": self._deal,
            "offers": self._offer,
            "prices": self._price,
            "routers": self._route,
        }
        answers = {}
        for name, call in calls.items():
            began, tally = time.perf_counter(), self.tallies[name]
            events, tables = call(minute)
            tally.seconds.append(time.perf_counter() - began)
            tally.events += events
            tally.by_minute.append(sum(table.num_rows for table in tables))
            tally.answers += tally.by_minute[-1]
            answers[name] = [row for table in tables for row in table.to_pylist()]
        self._spread(minute)
        self.history.append((self.tiles, self.reached, self.areas, self.forwarded))
        return answers

    def _move(self, minute: Minute) -> tuple[int, list[pa.Table]]:
        tables = [
            self.couriers.upsert(minute.waits),
            self.walkers.upsert(minute.waits),
            self.couriers.publish(minute.couriers),
            self.walkers.publish(minute.walkers),
        ]
        tally = self.tallies["moving"]
        tally.all = self.couriers.stats()["events"] + self.walkers.stats()["events"]
        tally.spared = tally.all - self.couriers.stats()["recomputed"] - self.walkers.stats()["recomputed"]
        return len(minute.couriers["id"]) + len(minute.walkers["id"]) + 2 * len(minute.waits["id"]), tables

    def _deal(self, minute: Minute) -> tuple[int, list[pa.Table]]:
        rows = {name: column for name, column in minute.deals.items() if name != "price"}
        deltas = self.deals.publish(rows)
        tally = self.tallies["deals"]
        tally.all += len(rows["id"]) * len(self.deals)
        tally.spared += len(rows["id"]) * len(self.deals) - _entered(deltas)
        return len(rows["id"]), [deltas]

    def _offer(self, minute: Minute) -> tuple[int, list[pa.Table]]:
        matches = self.offers.publish(minute.visitors)
        tally, size = self.tallies["offers"], len(minute.visitors["id"])
        tally.all += size * len(self.offers)
        tally.spared = tally.all - self.offers.stats()["candidates"]
        return size, [matches]

    def _price(self, minute: Minute) -> tuple[int, list[pa.Table]]:
        return len(minute.prices["id"]), [self.prices.publish(minute.prices)]

    def _route(self, minute: Minute) -> tuple[int, list[pa.Table]]:
        answers = [(name, self.routers[name].unsubscribe(gone)) for name, gone in minute.closed.items()]
        answers += [(name, self.routers[name].subscribe(rows)) for name, rows in minute.areas.items()]
        tables = [each.append_column("router", pa.array([name] * each.num_rows)) for name, each in answers]
        point = {name: minute.deals[name] for name in ("id", "x", "y", "price")}
        tally, size = self.tallies["routers"], len(point["id"])
        for router in self.routers.values():
            wanted = len(pc.unique(router.publish(point)["event"]))
            tally.all += size
            tally.spared += size - wanted
        self.areas = sum(map(len, self.routers.values()))
        self.forwarded = sum(len(router.forwarded()) for router in self.routers.values())
        return sum(len(rows["id"]) for rows in minute.areas.values()) + size, tables

    def _spread(self, minute: Minute) -> None:
        """Send the same prices into a network: a message is a tile, however many watchers it reaches."""
        before = self.network.stats()["affected"]
        self.tiles += self.network.disseminate(minute.prices).num_rows
        tally = self.tallies["prices"]
        self.reached += self.network.stats()["affected"] - before
        tally.all, tally.spared = self.reached, max(0, self.reached - self.tiles)

    def results(self) -> dict[str, pa.Table]:
        """All current results, by engine; of routers what they forward."""
        names = ("couriers", "walkers", "deals", "prices", "network")
        tables: dict[str, pa.Table] = {name: getattr(self, name).results() for name in names}
        known = [{"router": name, "wish": sorted(each.forwarded())} for name, each in self.routers.items()]
        return {**tables, "routers": pa.Table.from_pylist(known)}


def _entered(deltas: pa.Table) -> int:
    return int(np.count_nonzero(pc.equal(deltas["op"], "enter").to_numpy()))
