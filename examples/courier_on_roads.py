"""A courier on roads: the three best restaurants by driving and waiting time, as he rides and roads jam.

A town with a river and two bridges is a `RoadGraph` whose lengths are seconds. `MovingTopK` with
`metric="network"` ranks restaurants by the time to drive there plus the time that food takes. As the crow
flies the other bank is near; by road it is not. A jam on a bridge changes the lists of those it concerns, and
they alone are told.

    python examples/courier_on_roads.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast import MovingTopK, RoadGraph
from rankcast.scoring import weighted_sum

WIDTH, HEIGHT, RIVER = 13, 8, 3  # crossings; the river runs between the streets y = 3 and y = 4
BRIDGES = {2: "West Bridge", 10: "East Bridge"}
BLOCK = 60.0  # seconds from one crossing to the next


def town(rng: np.random.Generator) -> RoadGraph:
    """Streets in a grid, slower ones among them, and two bridges over the river."""
    nodes = [{"id": f"{x}/{y}", "x": x, "y": y} for x in range(WIDTH) for y in range(HEIGHT)]
    roads: list[dict[str, Any]] = []
    for x in range(WIDTH):
        for y in range(HEIGHT):
            seconds = BLOCK * rng.uniform(0.8, 1.5, 2)
            if x + 1 < WIDTH:
                road = {"id": f"street {x}/{y}", "start": f"{x}/{y}", "end": f"{x + 1}/{y}"}
                roads.append(road | {"length": seconds[0]})
            if y + 1 < HEIGHT and (y != RIVER or x in BRIDGES):
                name = BRIDGES[x] if y == RIVER else f"lane {x}/{y}"
                roads.append({"id": name, "start": f"{x}/{y}", "end": f"{x}/{y + 1}", "length": seconds[1]})
    return RoadGraph.from_edges(roads, nodes=nodes)


def restaurants(rng: np.random.Generator, size: int = 12) -> list[dict[str, Any]]:
    """Restaurants at crossings, and how many seconds their food takes."""
    spots = rng.choice(WIDTH * HEIGHT, size, replace=False)
    return [
        {"id": chr(65 + place), "x": int(spot) % WIDTH, "y": int(spot) // WIDTH, "wait": float(wait)}
        for place, (spot, wait) in enumerate(zip(spots, rng.integers(60, 400, size), strict=True))
    ]


def picture(kitchens: list[dict[str, Any]], at: tuple[float, float], best: list[str]) -> str:
    """The town: @ the courier, letters the restaurants, in brackets the best, ~ the river, = its bridges."""
    cells = {(x, y): " . " for x in range(WIDTH) for y in range(HEIGHT)}
    for each in kitchens:
        cells[each["x"], each["y"]] = f"[{each['id']}]" if each["id"] in best else f" {each['id']} "
    here = round(at[0]), round(at[1])
    cells[here] = cells[here][:2] + "@"
    streets = ["".join(cells[x, y] for x in range(WIDTH)) for y in reversed(range(HEIGHT))]
    river = "".join(" = " if x in BRIDGES else "~~~" for x in range(WIDTH))
    streets.insert(HEIGHT - 1 - RIVER, river)
    return "\n".join(f"  {street}" for street in streets)


def told(deltas: Any) -> str:
    """Deltas as words."""
    came = [row["item"] for row in deltas.to_pylist() if row["op"] == "enter"]
    went = [row["item"] for row in deltas.to_pylist() if row["op"] == "leave"]
    return " ".join([*(f"+{name}" for name in came), *(f"-{name}" for name in went)])


def main(seed: int = 8) -> MovingTopK:
    """Ride through the town; returns the engine as it stands at the end."""
    rng = np.random.default_rng(seed)
    graph, kitchens = town(rng), restaurants(rng)
    engine = MovingTopK(over=["wait"], k=3, score=weighted_sum([1.0, 1.0]), metric="network", graph=graph)
    engine.upsert(kitchens)
    engine.subscribe([{"id": "courier", "x": 0.0, "y": 2.0}])

    def show(at: tuple[float, float]) -> None:
        best = engine.results().to_pylist()
        print(picture(kitchens, at, [row["item"] for row in best]))
        minutes = ", ".join(f"{row['item']} {row['score'] / 60:.1f}" for row in best)
        print(f"  minutes until food is in the bag: {minutes}\n")

    print("The courier starts on the south bank.")
    show((0.0, 2.0))

    ride = np.arange(0.25, 10.01, 0.25)
    for x in ride:
        news = told(engine.publish([{"id": "courier", "x": float(x), "y": 2.0}]))
        if news:
            print(f"  at {x:5.2f} east: {news}")
    print(f"\n{len(ride)} positions later, near East Bridge:")
    show((10.0, 2.0))

    print("An accident: East Bridge takes half an hour.")
    print(f"  {told(engine.update_roads([{'id': 'East Bridge', 'length': 1800.0}]))}")
    show((10.0, 2.0))
    print("The bridge is free again, and the courier crosses it. Then the best kitchen closes.")
    engine.update_roads([{"id": "East Bridge", "length": BLOCK}])
    print(f"  across: {told(engine.publish([{'id': 'courier', 'x': 10.0, 'y': 5.0}]))}")
    best = engine.results()["item"][0].as_py()
    kitchens[:] = [each for each in kitchens if each["id"] != best]
    print(f"  {best} closes: {told(engine.remove([best]))}")
    show((10.0, 5.0))
    return engine


if __name__ == "__main__":
    main()
