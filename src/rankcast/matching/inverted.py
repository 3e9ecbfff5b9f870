"""Subscriptions that bound a few of many attributes, live: `InvertedIndex` keeps entries by attribute.

See `rankcast.matching.kernels.inverted` for the structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.matching.boxes import MARGIN, SMALL, BoxTreeIndex, check_cuts, outside, quantiles
from rankcast.matching.kernels import filtered_search, inverted
from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.kernels.candidate_filter import Wants
from rankcast.matching.kernels.inverted import Filed
from rankcast.matching.kernels.matches import ALL
from rankcast.matching.search import MODES, Found, KernelIndex
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Bools, Floats, Rows

CUTS = 1024
SAMPLED = 20_000


class InvertedIndex(KernelIndex):
    """The best subscriptions for an event, filed by attribute; the caller owns the columns by row.

    Everything is filed again, with new cuts, when the number of rows has doubled or halved, when half as many
    have arrived with ends beyond the cuts, or when a row needs more attributes than any before it. Memory:
    about 90 bytes per row in exact matching, in relaxed matching 70 for each attribute that counts (as for
    the row with the most of them), and 8 KiB per attribute.
    """

    _kernels = inverted.search, filtered_search.search_entries

    def __init__(self, dimensions: int, *, combine: str | None = None) -> None:
        self._mode, self._dimensions = MODES[combine], dimensions
        self._tree: BoxTreeIndex
        self._cuts: Floats
        self._clear(rows=0, width=1)
        self._built = self._outside = 0
        self._guarded = True  # False: guards, which no snapshot has, are yet to be made

    def __len__(self) -> int:
        return int(np.count_nonzero(self._present))

    def present(self) -> Rows:
        """The present rows, in ascending order."""
        return np.flatnonzero(self._present).astype(np.int32)

    def _arrays(self) -> tuple[Any, ...]:
        return tuple(self._tree.tree), tuple(self._filed), self._cuts

    def search(
        self,
        columns: Columns,
        below: Floats,
        above: Floats,
        k: int,
        threads: int = 1,
        wants: Wants | None = None,
    ) -> Found:
        """The k best rows for each event with the ends `above` to `below`, or as many as it wants."""
        if not self._guarded:
            self._guard(columns)
        return super().search(columns, below, above, k, threads, wants)

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Add absent rows."""
        most = int(inverted.count_attributes(columns, rows, self._relaxed).max(initial=1))
        total, size = columns.lo.shape[0], len(self) + rows.size
        self._outside += outside(self._cuts, columns, rows)
        moved = 2 * self._outside > max(SMALL, size) and rows.size > 0
        if moved or most > self._filed.attribute.shape[1] or size > 2 * self._built:
            self._rebuild(columns, np.concatenate([self.present(), rows]), most)
            return
        if total > self._present.size:
            self._grow(total)
        entries = inverted.file_rows(self._filed, self._cuts, columns, rows, self._relaxed)
        self._tree.insert(self._entry_columns(), entries)
        self._present[rows] = True

    def remove(self, columns: Columns, rows: Rows) -> None:
        """Remove present rows."""
        self._tree.remove(self._entry_columns(), inverted.entries_of(self._filed, rows, self._relaxed))
        self._present[rows] = False
        if self._built > max(SMALL, 2 * len(self)):
            self._rebuild(columns, self.present(), 1)

    def rescore(self, columns: Columns, rows: Rows) -> None:
        """Update after scores or weights have changed."""
        if self._relaxed:
            self.remove(columns, rows)
            self.insert(columns, rows)
        else:
            self._filed.score[rows] = columns.score[rows]
            self._tree.rescore(self._entry_columns(), rows)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        header, arrays = self._tree.state()
        tree = {f"tree_{name}": array for name, array in arrays.items()}
        filed = {f"filed_{name}": array for name, array in self._filed._asdict().items() if name != "guard"}
        mine = {"built": self._built, "outside": self._outside, "tree": header}
        return mine, {**tree, **filed, "cuts": self._cuts, "present": self._present}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        self._built = integrity.whole(header, "built")
        self._outside = integrity.whole({"outside": 0, **header}, "outside")
        held = {name[5:]: array for name, array in arrays.items() if name.startswith("tree_")}
        own = {name: array for name, array in arrays.items() if not name.startswith("tree_")}
        rows = len(own["present"]) if "present" in own and own["present"].ndim else 0
        shape = own["filed_attribute"].shape if "filed_attribute" in own else ()
        width = int(shape[1]) if len(shape) == 2 else 1
        entries = rows * (width if self._relaxed else 1)
        integrity.forms(
            own,
            {
                "cuts": (np.float64, (self._dimensions, None)),
                "present": (np.bool_, (rows,)),
                "filed_number": (np.int16, (rows,)),
                "filed_attribute": (np.int16, (rows, width)),
                "filed_always": (np.bool_, (rows,)),
                "filed_lo": (np.float64, (entries, 1)),
                "filed_hi": (np.float64, (entries, 1)),
                "filed_score": (np.float64, (entries,)),
            },
        )
        integrity.need(width > 0, "filed_attribute", "has no columns")
        self._tree.restore(header.get("tree", {}), held)
        self._cuts, self._present = own["cuts"], own["present"]
        kept = {name: own[f"filed_{name}"] for name in Filed._fields if name != "guard"}
        self._filed = Filed(**kept, guard=self._no_guards(rows))
        self._guarded = False
        return self

    def check_restored(self, columns: Columns, wanted: Bools) -> None:
        """Refuse a state from a snapshot that does not belong to the `wanted` rows; see `integrity`."""
        integrity.need(self._cuts.shape[1] >= MARGIN, "cuts", "are too few")
        check_cuts(self._cuts)
        rows, total = self.present(), self._present.size
        integrity.need(total <= wanted.size, "present", "has rows that are not there")
        integrity.need(np.array_equal(rows, np.flatnonzero(wanted)), "present", "is not of the live rows")
        held, width = self._filed, self._filed.attribute.shape[1]
        integrity.within(held.number, 0, width + 1, "filed_number")
        integrity.within(held.attribute, 0, self._dimensions, "filed_attribute")
        for name in ("lo", "hi", "score"):
            integrity.no_nan(getattr(held, name), f"filed_{name}")
        entries = inverted.entries_of(held, rows, self._relaxed) if total else rows
        filed = np.zeros(self._filed.score.size, np.bool_)
        filed[entries] = True
        self._tree.check_restored(self._entry_columns(), filed)
        self._guard(columns)

    def check(self, columns: Columns) -> None:
        """Assert the invariants."""
        self._tree.check(self._entry_columns())
        entries = inverted.entries_of(self._filed, self.present(), self._relaxed)
        before = self._filed.lo[entries].copy(), self._filed.hi[entries].copy()
        guards = self._filed.guard.copy()
        again = inverted.file_rows(self._filed, self._cuts, columns, self.present(), self._relaxed)
        assert np.array_equal(entries, again)
        assert len(self._tree) == entries.size
        assert np.array_equal(before[0], self._filed.lo[entries])
        assert np.array_equal(before[1], self._filed.hi[entries])
        assert not self._guarded or np.array_equal(guards, self._filed.guard)

    @property
    def _relaxed(self) -> bool:
        return self._mode != ALL

    def _entry_columns(self) -> Columns:
        """The columns of entries for the tree; equal scores are not ordered there."""
        filed, size = self._filed, self._filed.lo.shape[0]
        return Columns(filed.lo, filed.hi, filed.score, np.empty((size, 0)), np.zeros(size, np.int64))

    def _no_guards(self, rows: int) -> NDArray[np.uint64]:
        return np.zeros((0 if self._relaxed else rows, inverted.GUARDS), np.uint64)

    def _guard(self, columns: Columns) -> None:
        if not self._relaxed:
            inverted.guard_rows(self._filed, self._cuts, columns, self.present())
        self._guarded = True

    def _clear(self, *, rows: int, width: int) -> None:
        entries = rows * (width if self._relaxed else 1)
        self._present = np.zeros(rows, np.bool_)
        self._tree, self._cuts = BoxTreeIndex(1), np.zeros((self._dimensions, CUTS))
        self._filed = Filed(
            np.zeros(rows, np.int16),
            np.zeros((rows, width), np.int16),
            np.zeros(rows, np.bool_),
            np.zeros((entries, 1)),
            np.zeros((entries, 1)),
            np.zeros(entries),
            self._no_guards(rows),
        )

    def _grow(self, rows: int) -> None:
        each = self._filed.attribute.shape[1] if self._relaxed else 1
        lengths = dict.fromkeys(("lo", "hi", "score"), rows * each)
        lengths["guard"] = 0 if self._relaxed else rows
        self._filed = Filed(
            *(grown(array, lengths.get(name, rows)) for name, array in self._filed._asdict().items())
        )
        self._present = grown(self._present, rows)

    def _rebuild(self, columns: Columns, rows: Rows, width: int) -> None:
        """File everything again."""
        most = inverted.count_attributes(columns, rows, self._relaxed).max(initial=width)
        self._clear(rows=columns.lo.shape[0], width=int(most))
        sample = rows[:: rows.size // SAMPLED + 1]
        self._cuts[:] = quantiles(columns.lo[sample], columns.hi[sample], CUTS)
        self._built, self._outside = rows.size, 0
        entries = inverted.file_rows(self._filed, self._cuts, columns, rows, self._relaxed)
        self._tree.insert(self._entry_columns(), entries)
        self._present[rows] = True
