"""The city, and what happens in it minute by minute: all drawn from the seed, before any engine sees it.

The city has named districts on a plane of 12 x 8 km, and restaurants in them.

`Town` is the five engines of the city, and their deltas, minute by minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankcast.core.engine import Engine
from rankcast.covering.engine import CoveringTable
from rankcast.demo.scenes import PEOPLE
from rankcast.geotext.engine import GeoTextTopK
from rankcast.matching.engine import RankedMatcher
from rankcast.moving.scoring import weighted_sum
from rankcast.moving.skyline import MovingSkyline
from rankcast.moving.topk import MovingTopK
from rankcast.range_topk.engine import RangeTopK

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WIDTH, HEIGHT = 12.0, 8.0
BOUNDS = (0.0, 0.0, WIDTH, HEIGHT)
DISTRICTS = {
    "Harbour": (1.6, 6.5),
    "Old Town": (4.6, 5.9),
    "Market": (6.4, 3.9),
    "University": (8.4, 6.4),
    "Hill Park": (10.7, 5.3),
    "Station": (3.5, 3.2),
    "Docks": (1.3, 1.7),
    "Gardens": (5.2, 1.2),
    "Airfield": (9.8, 1.9),
}
NAMES = tuple(DISTRICTS)
CENTRES: Floats = np.array(list(DISTRICTS.values()))
LIVELY = np.array([5, 9, 8, 6, 3, 6, 3, 4, 2], float)  # how many restaurants and people there are
FIRST = [
    "Golden",
    "Little",
    "Blue",
    "Corner",
    "Lucky",
    "Old",
    "Green",
    "Red",
    "Sunny",
    "Silver",
    "Quiet",
    "Copper",
]
SECOND = [
    "Ladle",
    "Table",
    "Lantern",
    "Spoon",
    "Kitchen",
    "Oven",
    "Garden",
    "Anchor",
    "Pepper",
    "Kettle",
    "Basil",
    "Plate",
]
CUISINES = [
    "ramen",
    "pizza",
    "tacos",
    "curry",
    "sushi",
    "falafel",
    "burger",
    "pho",
    "pasta",
    "kebab",
    "salad",
]
RESTAURANTS = 144


@dataclass(frozen=True)
class Restaurants:
    """All restaurants, by number: names, places, what they cook, and stars; what a dish costs at first."""

    name: list[str]
    x: Floats
    y: Floats
    cuisine: list[str]
    stars: Floats
    price: Floats
    wait: Floats


def scatter(rng: np.random.Generator, size: int, spread: float = 0.75) -> Floats:
    """Places (size, 2) around the centres of districts, more where it is lively."""
    home = rng.choice(len(NAMES), size, p=LIVELY / LIVELY.sum())
    place: Floats = CENTRES[home] + rng.normal(0, spread, (size, 2))
    return np.clip(place, [0.1, 0.1], [WIDTH - 0.1, HEIGHT - 0.1])


def district_of(x: Any, y: Any) -> Ints:
    """The number of the district with the nearest centre, for each place."""
    away = np.hypot(np.asarray(x)[..., None] - CENTRES[:, 0], np.asarray(y)[..., None] - CENTRES[:, 1])
    found: Ints = np.argmin(away, axis=-1)
    return found


def open_restaurants(rng: np.random.Generator) -> Restaurants:
    """Restaurants with a name each."""
    names = [f"{first} {second}" for first in FIRST for second in SECOND][:RESTAURANTS]
    place = scatter(rng, RESTAURANTS)
    stars = rng.beta(5, 2, RESTAURANTS).round(2) * 4 + 1
    price = (rng.lognormal(2.3, 0.3, RESTAURANTS) + stars).round(2)
    return Restaurants(
        [names[number] for number in rng.permutation(RESTAURANTS)],
        place[:, 0],
        place[:, 1],
        [CUISINES[number] for number in rng.integers(0, len(CUISINES), RESTAURANTS)],
        stars.round(1),
        price,
        rng.integers(2, 25, RESTAURANTS).astype(float),
    )


Rows = dict[str, Any]
COURIERS, WALKERS, CUSTOMERS, WATCHERS, OFFERS = 40, 16, 300, 300, 1_500
OPENS = 18  # o'clock
KINDS = ("half price", "2 for 1", "free drink", "new menu", "last tables")
RIDERS = ("Max", "Noor", "Olga", "Pim", "Quinn", "Rosa")
SPEED = 0.09  # km of a courier in half a minute


@dataclass(frozen=True)
class Minute:
    """What comes in half a minute, by engine; rows as engines take them."""

    clock: str
    couriers: Rows
    walkers: Rows
    waits: Rows
    prices: Rows
    deals: Rows
    visitors: Rows
    areas: dict[str, Rows]
    closed: dict[str, list[str]]


@dataclass
class City:
    """The city and its people; `minutes` lets time pass, always the same way for a seed.

    Attributes:
        seed: where everything is drawn from.
        restaurants: all restaurants.
        customers: `id, x, y, terms`, of whom those with a name are shown.
        watchers: `id, stars_lo, stars_hi`.
        offers: `id`, a box of place, hour and budget, and a bid.
    """

    seed: int
    restaurants: Restaurants = field(init=False)
    customers: Rows = field(init=False)
    watchers: Rows = field(init=False)
    offers: Rows = field(init=False)
    couriers: Rows = field(init=False)
    walkers: Rows = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, 0])
        self.restaurants = open_restaurants(rng)
        chosen = [rng.choice(len(CUISINES), 2, replace=False) for _ in range(CUSTOMERS)]
        self.customers = {"id": people("customer", CUSTOMERS), **_xy(scatter(rng, CUSTOMERS))}
        self.customers["terms"] = [[CUISINES[at] for at in each] for each in chosen]
        ends = np.sort(rng.uniform(1, 5, (WATCHERS, 2)).round(1), axis=1)
        self.watchers = {"id": people("watcher", WATCHERS), "stars_lo": ends[:, 0], "stars_hi": ends[:, 1]}
        self.offers = _offers(rng, self.restaurants)
        self.couriers = {"id": people("courier", COURIERS, RIDERS), **_xy(scatter(rng, COURIERS, 1.2))}
        self.walkers = {"id": people("walker", WALKERS, ()), **_xy(scatter(rng, WALKERS, 0.6))}

    def menu(self) -> Rows:
        """Restaurants as `RangeTopK` takes them: stars and what a dish costs."""
        found = self.restaurants
        return {"id": found.name, "stars": found.stars, "price": found.price}

    def kitchens(self) -> Rows:
        """Restaurants as moving queries take them: the wait, and how many stars are missing to five."""
        found = self.restaurants
        missing = (5 - found.stars).round(1)
        return {"id": found.name, "x": found.x, "y": found.y, "wait": found.wait, "missing": missing}

    def minutes(self, count: int) -> Iterator[Minute]:
        """So many half minutes from six o'clock on."""
        rng = np.random.default_rng([self.seed, 1])
        riders, strollers = Walk(rng, self.couriers, SPEED), Walk(rng, self.walkers, SPEED / 3)
        price, live = self.restaurants.price.copy(), Areas(rng)
        for number in range(count):
            hour = OPENS + number / 120
            areas, closed = live.turn(number)
            yield Minute(
                f"{int(hour):02d}:{int(hour * 60) % 60:02d}",
                riders.step(),
                strollers.step(),
                self._waits(rng),
                self._prices(rng, price),
                self._deals(rng, number, price),
                _visitors(rng, number, hour),
                areas,
                closed,
            )

    def _waits(self, rng: np.random.Generator) -> Rows:
        kitchens = self.kitchens()
        some = rng.choice(len(kitchens["id"]), 2, replace=False)
        rows = {name: [column[at] for at in some] for name, column in kitchens.items()}
        return {**rows, "wait": rng.integers(2, 25, 2).astype(float)}

    def _prices(self, rng: np.random.Generator, price: Floats) -> Rows:
        some = rng.choice(len(price), 6, replace=False)
        price[some] = np.clip(price[some] * rng.lognormal(0, 0.08, 6), 4, 60).round(2)
        return {"id": [self.restaurants.name[at] for at in some], "price": price[some]}

    def _deals(self, rng: np.random.Generator, number: int, price: Floats) -> Rows:
        found = self.restaurants
        size = 1 + int(rng.integers(0, 4))
        some = rng.choice(len(found.name), size, replace=False)
        kinds = [KINDS[at] for at in rng.integers(0, len(KINDS), size)]
        return {
            "id": [
                f"{kind}: {found.cuisine[at]} at {found.name[at]} ({4 * number + place})"
                for place, (kind, at) in enumerate(zip(kinds, some, strict=True))
            ],
            "x": found.x[some],
            "y": found.y[some],
            "terms": [[found.cuisine[at], *kind.split()] for kind, at in zip(kinds, some, strict=True)],
            "price": price[some].round(2),
        }


class Walk:
    """People on their way to a place, a little crooked; once there they go on to another."""

    def __init__(self, rng: np.random.Generator, rows: Rows, speed: float) -> None:
        self._rng, self._rows, self._speed = rng, rows, speed
        self._place = np.column_stack([rows["x"], rows["y"]])
        self._goal = scatter(rng, len(self._place))

    def step(self) -> Rows:
        """Where everybody is next."""
        there = np.hypot(*(self._goal - self._place).T) < 2 * self._speed
        self._goal[there] = scatter(self._rng, len(there))[there]
        way = self._goal - self._place
        heading = np.arctan2(way[:, 1], way[:, 0]) + self._rng.normal(0, 0.6, len(way))
        ahead = self._place + self._speed * np.column_stack([np.cos(heading), np.sin(heading)])
        self._place = np.clip(ahead, 0.05, [WIDTH - 0.05, HEIGHT - 0.05])
        return {"id": self._rows["id"], **_xy(self._place)}


class Areas:
    """Standing wishes of people for a part of the city and a budget: they come, and some go."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._live: list[tuple[str, str]] = []

    def turn(self, number: int) -> tuple[dict[str, Rows], dict[str, list[str]]]:
        """New ones by the district they come from, and those that go."""
        rng, size = self._rng, 5
        middle, half = scatter(rng, size, 0.5), 0.1 * 25.0 ** rng.random((size, 1)) * np.ones(2)
        low, high = (middle - half).round(2), (middle + half).round(2)
        rows = {"x_lo": low[:, 0], "x_hi": high[:, 0], "y_lo": low[:, 1], "y_hi": high[:, 1]}
        rows |= {"price_lo": np.zeros(size), "price_hi": rng.choice([15.0, 25.0, 60.0], size)}
        home = [NAMES[at] for at in district_of(middle[:, 0], middle[:, 1])]
        ids = np.array([f"area {size * number + place}" for place in range(size)])
        areas = {
            name: {"id": ids[mine].tolist(), **{key: column[mine] for key, column in rows.items()}}
            for name in NAMES
            if (mine := np.array([each == name for each in home])).any()
        }
        closed: dict[str, list[str]] = {}
        if len(self._live) > 40:
            for _ in range(2):
                name, gone = self._live.pop(int(rng.integers(0, len(self._live))))
                closed.setdefault(name, []).append(gone)
        self._live.extend(zip(home, ids.tolist(), strict=True))
        return areas, closed


def people(word: str, size: int, named: Sequence[str] = PEOPLE) -> list[str]:
    """Names: a few people, then numbered ones."""
    return [*named, *(f"{word} {place}" for place in range(len(named), size))]


def _xy(place: Floats) -> Rows:
    return {"x": place[:, 0].copy(), "y": place[:, 1].copy()}


def _visitors(rng: np.random.Generator, number: int, hour: float) -> Rows:
    size = 1 + int(rng.integers(0, 3))
    place = scatter(rng, size)
    names = [f"visitor {3 * number + at}" for at in range(size)]
    budget = rng.lognormal(2.9, 0.4, size).round()
    return {"id": names, **_xy(place), "hour": np.full(size, round(hour, 3)), "budget": budget}


def _offers(rng: np.random.Generator, found: Restaurants) -> Rows:
    at = rng.integers(0, len(found.name), OFFERS)
    reach = rng.uniform(0.3, 2.5, OFFERS)
    starts = rng.uniform(17, 23, OFFERS).round(1)
    cheap = rng.uniform(5, 25, OFFERS).round()
    names = [f"{found.name[place]}, offer {number}" for number, place in enumerate(at)]
    ends = {"x_lo": found.x[at] - reach, "x_hi": found.x[at] + reach}
    ends |= {"y_lo": found.y[at] - reach, "y_hi": found.y[at] + reach}
    ends |= {"hour_lo": starts, "hour_hi": starts + rng.uniform(0.5, 4, OFFERS).round(1)}
    ends |= {"budget_lo": cheap, "budget_hi": cheap + rng.uniform(5, 40, OFFERS).round()}
    return {"id": names, **ends, "score": rng.gamma(2, 0.5, OFFERS).round(2)}


TITLES = {
    "moving": "couriers and walkers: the best kitchens, on the move",
    "deals": "customers: deals near them they have a taste for",
    "offers": "visitors: offers that want them, by bid",
    "prices": "watchers: cheapest dish in a range of stars",
    "routers": "routers: wishes that neighbours must know",
}
CAST: dict[str, tuple[type[Engine], ...]] = {
    "moving": (MovingTopK, MovingSkyline),
    "deals": (GeoTextTopK,),
    "offers": (RankedMatcher,),
    "prices": (RangeTopK,),
    "routers": (CoveringTable,),
}
ENGINES = {name: ", ".join(each.__name__ for each in engines) for name, engines in CAST.items()}
SCAN = {
    name: next(variant for variant in engines[0].variants if "scan" in variant.values())
    for name, engines in CAST.items()
}


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
