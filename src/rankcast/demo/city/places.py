"""The city itself: named districts on a plane of 12 x 8 km, and restaurants in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
