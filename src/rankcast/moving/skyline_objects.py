"""The objects of `MovingSkyline` in an R-tree of places and attributes; zones of queries over them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from rankcast.moving.index import ObjectIndex
from rankcast.moving.kernels.skyline_admit import FoundSkylineZones, find_zones
from rankcast.moving.kernels.skyline_search import PLACE, Seekers
from rankcast.tables.schema import Bools, Floats, Ints

PER_THREAD = 16


class SkylineSettings(NamedTuple):
    """What zones depend on: metric, sign of each attribute, members beside the skyline, threads, universe."""

    metric: str
    sign: Floats
    m: int
    threads: int
    universe: list[float] | None


class SkylineObjects(ObjectIndex):
    """Objects with x, y and attributes, of which small ones are good; `zones` finds those of skylines."""

    def __init__(self, attributes: int) -> None:
        columns = PLACE + attributes
        super().__init__([None] * columns, columns)

    def zones(
        self,
        metric: int,
        seekers: Seekers,
        universe: Floats,
        m: int,
        threads: int,
        bare: Bools | None = None,
    ) -> tuple[FoundSkylineZones, Ints]:
        """The zones of queries, points where `bare`, on several cores; and blocks opened, objects tried."""
        many, most = seekers.x.size, min(m, max(len(self), 1))
        bare = np.zeros(many, np.bool_) if bare is None else bare
        parts = np.array_split(np.arange(many), max(1, min(threads, many // PER_THREAD)))

        def search(part: Ints) -> tuple[FoundSkylineZones, Ints]:
            found: tuple[FoundSkylineZones, Ints] = find_zones(
                metric, self.tree, seekers, part, universe, most, bare
            )
            return found

        if len(parts) == 1:
            return search(parts[0])
        with ThreadPoolExecutor(len(parts)) as pool:
            found = list(pool.map(search, parts))
        joined = FoundSkylineZones._make(
            np.concatenate(columns) for columns in zip(*(z for z, _ in found), strict=True)
        )
        return joined, np.sum([work for _, work in found], axis=0)
