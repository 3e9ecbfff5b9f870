"""The city, and what happens in it minute by minute: all drawn from the seed, before any engine sees it.

The city has named districts on a plane of 12 x 8 km, and restaurants in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.demo.scenes import PEOPLE

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
