"""A map of the city in characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from rankcast.demo.city.evening import RIDERS, Minute
from rankcast.demo.city.places import DISTRICTS, HEIGHT, WIDTH, district_of
from rankcast.demo.city.town import Town

TINTS = ("#10283a", "#33241a", "#3a1f26", "#241f3a", "#173023", "#2e2e14", "#12302f", "#20331a", "#2a2a2a")
FOLLOWED = RIDERS[0]
MARKS = {
    "restaurant": ("·", "#8a8a8a"),
    "listed": ("◆", "bold #ff9f43"),
    "walker": ("○", "cyan"),
    "courier": ("●", "yellow"),
    "followed": ("◉", "bold white"),
    "deal": ("✦", "bold magenta"),
    "visitor": ("▲", "bold green"),
}
ZONE = "#5a4a20"


def draw(town: Town, minute: Minute, deals: Sequence[tuple[float, float]], columns: int, rows: int) -> Text:
    """The map with districts, restaurants, who is on the way, deals, and one courier with his zone."""
    y, x = np.mgrid[rows - 1 : -1 : -1, 0:columns].astype(float)
    x, y = (x + 0.5) * WIDTH / columns, (y + 0.5) * HEIGHT / rows
    tint = np.array(TINTS, object)[district_of(x, y)]
    zone = town.couriers.zones().slice(0, 1).to_pylist()[0]
    tint[np.hypot(x - zone["x"], y - zone["y"]) <= zone["radius"]] = ZONE
    cells = [[(" ", f"on {tint[row, column]}") for column in range(columns)] for row in range(rows)]

    def put(mark: tuple[str, str], at_x: float, at_y: float) -> None:
        column, row = int(at_x / WIDTH * columns), rows - 1 - int(at_y / HEIGHT * rows)
        if 0 <= column < columns and 0 <= row < rows:
            cells[row][column] = mark[0], f"{mark[1]} on {tint[row, column]}"

    found = town.city.restaurants
    listed = set(town.couriers.results([FOLLOWED])["item"].to_pylist())
    for at_x, at_y in zip(found.x, found.y, strict=True):
        put(MARKS["restaurant"], at_x, at_y)
    _names(cells, tint, columns, rows)
    for mark, people in (
        ("walker", minute.walkers),
        ("courier", minute.couriers),
        ("visitor", minute.visitors),
    ):
        for at_x, at_y in zip(people["x"], people["y"], strict=True):
            put(MARKS[mark], at_x, at_y)
    for at_x, at_y in deals:
        put(MARKS["deal"], at_x, at_y)
    for name, at_x, at_y in zip(found.name, found.x, found.y, strict=True):
        if name in listed:
            put(MARKS["listed"], at_x, at_y)
    put(MARKS["followed"], minute.couriers["x"][0], minute.couriers["y"][0])
    text = Text(no_wrap=True)
    for row in cells:
        for character, style in row:
            text.append(character, style)
        text.append("\n")
    text.right_crop(1)
    return text


def legend() -> Text:
    """What the marks mean."""
    words = {
        "courier": "courier",
        "followed": f"{FOLLOWED}, zone",
        "listed": "his list",
        "walker": "walker",
        "deal": "deal",
        "visitor": "visitor",
    }
    text = Text(no_wrap=True, overflow="ellipsis")
    for name, word in words.items():
        text.append(*MARKS[name])
        text.append(f" {word}  ", "dim")
    return text


def _names(cells: list[list[tuple[str, str]]], tint: NDArray[Any], columns: int, rows: int) -> None:
    """Write the names of districts where their centres are."""
    for name, (x, y) in DISTRICTS.items():
        row = rows - 1 - int(y / HEIGHT * rows)
        first = max(0, min(columns - len(name), int(x / WIDTH * columns) - len(name) // 2))
        for place, letter in enumerate(name):
            cells[row][first + place] = letter, f"italic #b8b8b8 on {tint[row, first + place]}"
