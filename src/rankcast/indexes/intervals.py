"""One scored interval index a dimension, live: the five of [Ranked §2, §3] behind one interface.

| kind | what stands in a list | which lists an event reads |
| --- | --- | --- |
| `r-tree` | all intervals by score, under a b-way R-tree | the only one |
| `sopt-r-tree` | all intervals as `interval_arrangement` says, under a b-way R-tree | the only one |
| `interval-tree` | the intervals around one centre by score | a path of centres |
| `ir-tree` | the same, each list under a b-way R-tree | a path of centres |
| `segment-tree` | the intervals that cover one node by score | a path of nodes |

What is built is static. Rows that come later, or with another score, stand in a box tree beside it (`fresh`),
which is live; of what is built they and removed ones are passed over. When both together are more than a 64th
of all, everything is built anew: O(64 log n) amortised a change. A batch with events that are intervals makes
the SOPT-R-tree sort all rows by score first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.columns import Floats, Rows
from rankcast.indexes.boxes import BoxIndex, grown
from rankcast.indexes.scored_matches import MODES, Found, merged, search_all
from rankcast.kernels import interval_arrangement, interval_routes, scored_lists, threshold
from rankcast.kernels.box_tree_pack import Columns
from rankcast.kernels.matches import ALL
from rankcast.kernels.scored_lists import Lists
from rankcast.kernels.threshold import CENTRES, ONE_LIST, SEGMENTS, Forest, Limits

KINDS = {
    "r-tree": ONE_LIST,
    "sopt-r-tree": ONE_LIST,
    "interval-tree": CENTRES,
    "ir-tree": CENTRES,
    "segment-tree": SEGMENTS,
}
SMALL = 64
UNGROUPED = 2**40  # a branching factor under which every list is one group


class IntervalIndex:
    """The best boxes for an event, by one index of intervals in each dimension.

    `combine` is None for exact matching, "sum" or "max" for relaxed matching by the Threshold Algorithm.
    """

    def __init__(self, kind: str, dimensions: int, *, combine: str | None, branching: int) -> None:
        self._kind, self._dimensions = kind, dimensions
        self._mode, self._combine = MODES[combine], combine
        self._branching = UNGROUPED if kind in ("interval-tree", "segment-tree") else branching
        self._packed: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._removed = 0  # rows that were built and count there no more
        self._fresh = BoxIndex(dimensions, combine=combine)
        self._routes: dict[str, NDArray[Any]] = {}
        nothing = np.empty((0, dimensions))
        self._build(
            Columns(nothing, nothing, np.empty(0), nothing, np.empty(0, np.int64)), np.empty(0, np.int32)
        )

    def __len__(self) -> int:
        return int(np.count_nonzero(self._packed)) + len(self._fresh)

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Add absent rows."""
        if columns.lo.shape[0] > self._packed.size:
            self._packed = grown(self._packed, columns.lo.shape[0])
        if self._too_many(rows.size):
            self._rebuild(columns, np.concatenate([self._present(), rows]))
        else:
            self._fresh.insert(columns, rows)

    def remove(self, columns: Columns, rows: Rows) -> None:
        """Take present rows out."""
        built = self._packed[rows]
        self._packed[rows] = False
        self._removed += int(np.count_nonzero(built))
        self._fresh.remove(columns, rows[~built])
        if self._too_many(0):
            self._rebuild(columns, self._present())

    def rescore(self, columns: Columns, rows: Rows) -> None:
        """Follow scores or weights that have changed."""
        built = self._packed[rows]
        self._packed[rows] = False
        self._removed += int(np.count_nonzero(built))
        self._fresh.rescore(columns, rows[~built])
        self._fresh.insert(columns, rows[built])
        if self._too_many(0):
            self._rebuild(columns, self._present())

    def search(self, columns: Columns, below: Floats, above: Floats, k: int, threads: int = 1) -> Found:
        """The k best rows for each event with the ends `above` to `below`."""
        points = bool(np.all(above >= below))
        forest = self._forest() if points or self._kind != "sopt-r-tree" else self._forest_by_score(columns)
        room = 128 if points else self._lists.first.size + 1
        most = max(1, min(k, len(self)))
        limits = Limits(most, room, self._mode)
        order = np.argsort(below[:, 0], kind="stable")
        found = search_all(
            lambda part: threshold.search(forest, columns, below, above, part, limits), order, threads
        )
        if len(self._fresh) == 0:
            return found
        return merged(columns.label, found, self._fresh.search(columns, below, above, k, threads), most)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        lists = {f"lists_{name}": array for name, array in self._lists._asdict().items()}
        fresh = {f"fresh_{name}": array for name, array in self._fresh.state()[1].items()}
        return {"removed": self._removed}, {**lists, **fresh, "packed": self._packed, **self._routes}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        self._removed, self._packed = int(header["removed"]), arrays["packed"]
        self._lists = Lists(**{name: arrays[f"lists_{name}"] for name in Lists._fields})
        self._fresh.restore({}, {name: arrays[f"fresh_{name}"] for name in self._fresh.state()[1]})
        self._routes = {name: arrays[name] for name in self._routes}
        return self

    def entries(self) -> int:
        """How many entries the lists and the R-trees over them hold."""
        return int(self._lists.row.size + self._lists.extent_lo.size)

    # Building

    def _too_many(self, coming: int) -> bool:
        """Whether too much stands beside what is built, with so many rows that come."""
        beside = self._removed + len(self._fresh) + coming
        return 64 * beside > len(self) + coming + 64 * SMALL

    def _present(self) -> Rows:
        return np.concatenate([np.flatnonzero(self._packed).astype(np.int32), self._fresh.present()])

    def _rebuild(self, columns: Columns, rows: Rows) -> None:
        """Build everything anew from the rows that are there."""
        self._packed[rows] = True
        self._removed, self._fresh = 0, BoxIndex(self._dimensions, combine=self._combine)
        self._build(columns, np.sort(rows))

    def _keys(self, columns: Columns, j: int) -> Floats:
        """What ranks the rows of dimension j."""
        return columns.weight[:, j] if self._mode != ALL else columns.score

    def _build(self, columns: Columns, rows: Rows) -> None:
        """Build the lists of every dimension from all rows."""
        parts = [self._build_one(columns, rows, j) for j in range(self._dimensions)]
        self._lists = _join([part[0] for part in parts], self._branching)
        routes = [part[1] for part in parts]
        lists = [part[0][0].size - 1 for part in parts]
        base = np.concatenate([[0], np.cumsum(lists)]).astype(np.int64)
        self._routes = {
            "base": base,
            "centre": np.concatenate([route.get("centre", np.empty(0)) for route in routes]),
            "child": np.concatenate(
                [
                    np.where(each >= 0, each + start, -1).astype(np.int32)
                    for start, route in zip(base, routes, strict=False)
                    for each in [route.get("child", np.empty((0, 2), np.int32))]
                ]
            ),
            "ends": np.concatenate([route["ends"] for route in routes]),
            "end_first": np.concatenate([[0], np.cumsum([route["ends"].size for route in routes])]).astype(
                np.int64
            ),
            "leaves": np.array([route["leaves"] for route in routes], np.int64),
        }

    def _build_one(self, columns: Columns, rows: Rows, j: int) -> tuple[Any, dict[str, Any]]:
        """The lists (first, row, key, lo, hi) of one dimension, and the way to them."""
        key = self._keys(columns, j)
        ranked = rows[np.lexsort((columns.label[rows], -key[rows]))]
        lo, hi = columns.lo[ranked, j], columns.hi[ranked, j]
        route: dict[str, Any] = {"ends": np.empty(0), "leaves": 0}
        if rows.size == 0:
            first, listed = np.zeros(1, np.int64), np.empty(0, np.int64)
        elif KINDS[self._kind] == CENTRES:
            route["centre"], route["child"], first, listed = interval_routes.centre_tree(lo, hi)
        elif KINDS[self._kind] == SEGMENTS:
            route["ends"], route["leaves"] = ends_of(lo, hi)
            first, listed = interval_routes.segment_tree(lo, hi, route["ends"], route["leaves"])
        else:
            first, listed = np.array([0, rows.size]), np.arange(rows.size)
            if self._kind == "sopt-r-tree":
                listed = arrangement(lo, hi)
        row = ranked[listed]
        if KINDS[self._kind] == SEGMENTS:
            return (first, row, key[row], np.empty(0), np.empty(0)), route
        return (first, row, key[row], lo[listed], hi[listed]), route

    def _forest(self) -> Forest:
        return Forest(
            self._lists,
            self._packed,
            **self._routes,
            kind=KINDS[self._kind],
            branching=self._branching,
        )

    def _forest_by_score(self, columns: Columns) -> Forest:
        """For events that are intervals: they meet ones that lie apart, which are in any order."""
        rows = np.flatnonzero(self._packed).astype(np.int32)
        parts = [self._by_score(columns, rows, j) for j in range(self._dimensions)]
        lists, base = _join(parts, self._branching), np.arange(self._dimensions + 1)
        return self._forest()._replace(lists=lists, base=base)

    def _by_score(self, columns: Columns, rows: Rows, j: int) -> tuple[Any, ...]:
        """Some rows as one list of dimension j."""
        key = self._keys(columns, j)
        ranked = rows[np.lexsort((columns.label[rows], -key[rows]))]
        ends = columns.lo[ranked, j], columns.hi[ranked, j]
        return (np.array([0, rows.size]), ranked, key[ranked], *ends)


def ends_of(lo: Floats, hi: Floats) -> tuple[Floats, int]:
    """The distinct finite ends, and a power of two of leaves for their slots."""
    ends = np.unique(np.concatenate([lo, hi]))
    ends = ends[np.isfinite(ends)]
    return ends, 1 << int(2 * ends.size + 1).bit_length()


def arrangement(lo: Floats, hi: Floats) -> NDArray[np.int64]:
    """The arrangement of the SOPT-R-tree for intervals that come best first."""
    ends, _ = ends_of(lo, hi)
    slots = 2 * ends.size + 1
    first, last = slots_of(ends, lo), slots_of(ends, hi)
    source, target = interval_arrangement.constraint_graph(first, last, slots)
    return np.asarray(interval_arrangement.arrange(lo, source, target), np.int64)


def slots_of(ends: Floats, values: Floats) -> NDArray[np.int64]:
    """The slots of values that are ends or infinite."""
    place = 2 * np.searchsorted(ends, values).astype(np.int64)
    return np.where(np.isinf(values), place, place + 1)


def _join(parts: list[Any], branching: int) -> Lists:
    """The lists of all dimensions one after the other, under R-trees."""
    firsts, rows, keys, los, his = zip(*parts, strict=True)
    starts = np.cumsum([0, *(row.size for row in rows)])
    first = np.concatenate(
        [*(each[:-1] + start for each, start in zip(firsts, starts, strict=False)), starts[-1:]]
    )
    lo, hi = np.concatenate(los), np.concatenate(his)
    first = first.astype(np.int64)
    if lo.size == 0:
        group, extent_lo, extent_hi = np.empty((first.size - 1, 0), np.int64), np.empty(0), np.empty(0)
    else:
        group, extent_lo, extent_hi = scored_lists.group_lists(first, lo, hi, branching)
    return Lists(first, np.concatenate(rows), np.concatenate(keys), lo, hi, group, extent_lo, extent_hi)
