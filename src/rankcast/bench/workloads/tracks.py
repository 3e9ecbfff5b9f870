"""Places to stay in a city and tracks through it, in metres: real ones if they are here, else their likeness.

With `RANKCAST_DATA`, a folder, in the environment the listings are New York's (`airbnb_nyc_2019.parquet`),
the tracks are of people in Beijing (`geolife_beijing_trajectories.parquet`), carried over to a listing.
Otherwise listings gather around centres, prices are lognormal, and people walk, drive, wait and turn as those
do: a third of the time they stand, the others go at 1 to 15 metres a second.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankcast.bench.workloads import Columns, Floats

METRES = 111_195.0  # a degree of latitude
LISTINGS, TRACES = "airbnb_nyc_2019.parquet", "geolife_beijing_trajectories.parquet"
STANDING, TURNS = 0.33, 0.02


def _data() -> Path | None:
    """Where real data is, if it is."""
    folder = os.environ.get("RANKCAST_DATA")
    found = Path(folder) if folder else None
    return found if found and (found / LISTINGS).exists() and (found / TRACES).exists() else None


def listings(rng: np.random.Generator, count: int) -> Columns:
    """Listings `id, x, y, price, nights`; attributes from 0 to 1, small ones are good."""
    folder = _data()
    if folder is not None:
        table = pq.read_table(folder / LISTINGS, columns=["lat", "lon", "price", "minimum_nights"])
        lat, lon, price, nights = (column.to_numpy().astype(np.float64) for column in table.columns)
        picked = rng.permutation(len(lat))[:count]
        place = np.column_stack([lon, lat])[picked] - [lon.mean(), lat.mean()]
        place *= METRES * np.array([np.cos(np.radians(lat.mean())), 1.0])
        price, nights = price[picked], nights[picked]
    else:
        centres = rng.normal(0, 8_000, (40, 2))
        place = centres[rng.integers(0, 40, count)] + rng.normal(0, 1_500, (count, 2))
        price, nights = rng.lognormal(4.6, 0.7, count), rng.geometric(0.3, count)
    return {
        "id": np.arange(len(place)),
        "x": place[:, 0].copy(),
        "y": place[:, 1].copy(),
        "price": np.clip(price / 500.0, 0.0, 1.0),
        "nights": np.clip(nights / 30.0, 0.0, 1.0),
    }


def steps(
    rng: np.random.Generator, objects: Columns, people: int, count: int, seconds: float
) -> list[Columns]:
    """Positions `id, x, y` of everybody, a step of so many seconds after the other."""
    ways = _traces(rng, people, count, seconds)
    begin = rng.integers(0, len(objects["id"]), people)
    ways += np.column_stack([objects["x"][begin], objects["y"][begin]])[:, None, :]
    ids = np.arange(people)
    return [{"id": ids, "x": ways[:, at, 0].copy(), "y": ways[:, at, 1].copy()} for at in range(count)]


def _traces(rng: np.random.Generator, people: int, count: int, seconds: float) -> Floats:
    """Ways (people, count, 2) from 0."""
    folder, length = _data(), count * seconds
    if folder is None:
        return _walks(rng, people, count, seconds)
    table = pq.read_table(folder / TRACES, columns=["traj_id", "ts", "lat", "lon"])
    track, time = (
        table["traj_id"].to_numpy(),
        pc.cast(table["ts"], "timestamp[ms]").cast("int64").to_numpy() / 1e3,
    )
    east = table["lon"].to_numpy() * METRES * np.cos(np.radians(39.9))
    north = table["lat"].to_numpy() * METRES
    bounds = np.flatnonzero(np.r_[True, track[1:] != track[:-1], True])
    spans = [(a, b) for a, b in itertools.pairwise(bounds) if time[b - 1] - time[a] > length]
    found = np.empty((people, count, 2))
    for person, pick in enumerate(rng.integers(0, len(spans), people)):
        a, b = spans[pick]
        at = time[a] + rng.uniform(0, time[b - 1] - time[a] - length) + seconds * np.arange(count)
        for axis, line in enumerate((east, north)):
            way = np.interp(at, time[a:b], line[a:b])
            found[person, :, axis] = way - way[0]
    return found


def _walks(rng: np.random.Generator, people: int, count: int, seconds: float) -> Floats:
    """Ways of those who wait, go on and turn."""
    speed, angle = rng.uniform(1, 15, people), rng.uniform(0, 2 * np.pi, people)
    stands, at = rng.random(people) < STANDING, np.zeros((people, 2))
    found = np.empty((people, count, 2))
    for step in range(count):
        found[:, step] = at
        change = rng.random(people) < 1 - (1 - TURNS) ** seconds
        stands = np.where(change, rng.random(people) < STANDING, stands)
        angle = np.where(change, rng.uniform(0, 2 * np.pi, people), angle + rng.normal(0, 0.05, people))
        way = np.where(stands, 0.0, speed * seconds)
        at = at + way[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return found
