"""A move event by event: exactly the affected hear of it, and of no exposed object that does not stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankcast import RangeTopK, SubscriberList

from .test_dissemination import reaches

OBJECTS, RANGES, STEPS = 12, 40, 6
WAYS = [
    (["x"], "sparse"),
    (["x"], "dense"),
    (["x"], "unicast"),
    (["x"], "scan"),
    (["x", "z"], "sparse"),
    (["x", "z"], "unicast"),
    (["x", "z"], "dense"),
    (["x", "z"], "painted"),  # "sparse", the second bounded on one side
    (["x", "z", "w"], "sparse"),
]
Entry = tuple[int, list[float], float]


class Places:
    """Objects and ranges on a small grid, with lists by brute force."""

    def __init__(self, over: list[str], random: np.random.Generator, *, owned: bool, one_sided: bool) -> None:
        self.over, self.random, self.k = over, random, int(random.integers(1, 5))
        self.objects = {i: (self.place(), float(random.integers(0, 8))) for i in range(OBJECTS)}
        self.ranges: list[dict[str, Any]] = []
        for name in range(RANGES):
            row: dict[str, Any] = {"id": name, "k": int(random.integers(1, 5)) if owned else self.k}
            for axis, attribute in enumerate(over):
                low = float(random.integers(0, 8))
                row[f"{attribute}_lo"] = None if one_sided and axis == 1 else low
                row[f"{attribute}_hi"] = low + float(random.integers(0, 6))
            self.ranges.append(row)

    def place(self) -> list[float]:
        return [float(each) for each in self.random.integers(0, 8, len(self.over))]

    def event(self, item: int, place: list[float], y: float) -> dict[str, list[Any]]:
        return {"id": [item], **{n: [v] for n, v in zip(self.over, place, strict=True)}, "y": [y]}

    def holds(self, row: dict[str, Any], place: list[float]) -> bool:
        ends = [(row[f"{n}_lo"], at, row[f"{n}_hi"]) for n, at in zip(self.over, place, strict=True)]
        return all((low is None or low <= at) and at <= high for low, at, high in ends)

    def top(self, row: dict[str, Any]) -> list[Entry]:
        inside = [(y, item) for item, (place, y) in self.objects.items() if self.holds(row, place)]
        return [(item, self.objects[item][0], y) for y, item in sorted(inside)[: row["k"]]]


@pytest.mark.parametrize("owned", [False, True], ids=["one k", "own k"])
@pytest.mark.parametrize(("over", "method"), WAYS, ids="".join)
def test_no_exposed_object_is_told_that_does_not_stay(over: list[str], method: str, owned: bool) -> None:
    for seed in range(6):
        random = np.random.default_rng(seed)
        world = Places(over, random, owned=owned, one_sided=method in ("dense", "painted"))
        engine = RangeTopK(over=over, k=world.k, method="sparse" if method == "painted" else method)
        for item, (place, y) in world.objects.items():
            engine.publish(world.event(item, place, y))
        engine.subscribe(world.ranges if owned else [{**row, "k": None} for row in world.ranges])
        lists = [SubscriberList(row["k"]) for row in world.ranges]
        for row, mine in zip(world.ranges, lists, strict=True):
            for item, _, y in world.top(row):
                mine.receive(item, y)
        for _ in range(STEPS):
            moved, before = int(random.integers(0, OBJECTS)), [world.top(row) for row in world.ranges]
            y = world.objects[moved][1] if random.random() < 0.5 else float(random.integers(0, 8))
            place = world.place()
            tiles = engine.disseminate(world.event(moved, place, y)).to_pylist()
            world.objects[moved] = (place, y)
            for row, mine, was in zip(world.ranges, lists, before, strict=True):
                heard = []
                for tile in tiles:
                    if reaches(tile, row, over):
                        heard.append(tile["item"])
                        mine.receive(tile["item"], tile["y"])
                now = world.top(row)
                assert mine.items() == [(item, score) for item, _, score in now], f"seed {seed}: {row}"
                assert bool(heard) == (was != now), f"seed {seed}: {row} hears {heard}"
                stays = {item for item, _, _ in now} | {moved}
                assert set(heard) <= stays, f"seed {seed}: {row} hears of {set(heard) - stays}"
                assert all(heard.count(item) <= (2 if item == moved else 1) for item in heard)
