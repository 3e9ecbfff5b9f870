"""Boxes from tables: a closed interval per attribute, in columns `<attribute>_lo` and `<attribute>_hi`.

A null or an absent column means no bound; inside, that is an infinity. `near` and `Hierarchy` make bounds
from other conditions: everything near a value, and everything below a category.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from rankcast.errors import InputError, shown
from rankcast.structures import arrays, integrity
from rankcast.tables.schema import Batch, Bools, Column, Floats, Ints, Rows


class Boxes(NamedTuple):
    """Lower and upper ends, both of shape (n, d), in any memory layout."""

    lo: Floats
    hi: Floats

    def at(self, index: Any) -> Boxes:
        """The boxes at the given positions."""
        return Boxes(self.lo[index], self.hi[index])


def columns(over: Sequence[str], *, times: bool = False) -> list[Column]:
    """The columns of a box over some attributes; with `times` an end may be a timestamp."""
    return [Column(end, required=False, nullable=True, times=times) for end in _ends(tuple(over))]


@lru_cache(maxsize=64)
def _ends(over: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}_{end}" for name in over for end in ("lo", "hi"))


def read(batch: Batch, over: Sequence[str], held: Boxes | None = None, *, where: str) -> Boxes:
    """The boxes of a batch; `held` are the previous boxes, which an absent column keeps."""
    names = _ends(tuple(over))
    found = _lines(batch, names)
    if found is not None:
        return Boxes(found[0::2].T, found[1::2].T)
    shape = (batch.size, len(over))
    lo = np.full(shape, -np.inf) if held is None else held.lo.copy()
    hi = np.full(shape, np.inf) if held is None else held.hi.copy()
    for place, name in enumerate(names):
        if name in batch:
            (lo, hi)[place % 2][:, place // 2] = batch[name]
    if not (lo <= hi).all():  # as where an end is NaN, which is none
        lo[np.isnan(lo)], hi[np.isnan(hi)] = -np.inf, np.inf
    crossed = lo > hi
    if crossed.any():
        row, place = np.argwhere(crossed)[0]
        raise InputError(
            f"is {lo[row, place]:g}, above the upper end {hi[row, place]:g}",
            where=where,
            column=f"{over[place]}_lo",
            row=int(row),
            expected="lo <= hi",
        )
    return Boxes(lo, hi)


def read_ends(batch: Batch, over: Sequence[str], *, where: str) -> Floats:
    """The ends of the boxes of a batch as lines (2 d, n): lower and upper, attribute by attribute.

    They may share memory with the batch, and lower ends may exceed upper ends: the caller must check that.
    """
    if batch.numbers is not None and len(batch.lines) == 2 * len(over):
        return batch.numbers
    lo, hi = read(batch, over, where=where)
    found = np.empty((2 * len(over), batch.size))
    found[0::2], found[1::2] = lo.T, hi.T
    return found


def _lines(batch: Batch, names: tuple[str, ...]) -> Floats | None:
    """The columns of those names if they are adjacent in that order and no box is inverted."""
    if batch.numbers is None or tuple(islice(batch.lines, len(names))) != names:
        return None
    found = batch.numbers[: len(names)]
    return found if arrays.are_ordered(found) else None


def check_boxes(lo: Floats, hi: Floats) -> None:
    """Refuse boxes of subscriptions (n, d) from a snapshot that `read` could not have returned."""
    ordered = (lo <= hi) & (lo < np.inf) & (hi > -np.inf)
    integrity.need(ordered.all(), "lo", "is above hi, or one of them is NaN")


def inside(boxes: Boxes, point: Floats) -> Bools:
    """Which intervals (n, d) contain the coordinates of a point (d,).

    An unknown coordinate (NaN) lies only in an interval that is unbounded on both sides.
    """
    free = np.isnan(point) & (boxes.lo == -np.inf) & (boxes.hi == np.inf)
    within: Bools = ((boxes.lo <= point) & (point <= boxes.hi)) | free
    return within


def contains(boxes: Boxes, point: Floats) -> Rows:
    """The boxes that contain a point (d,) by the rule of `inside` in each attribute."""
    return np.flatnonzero(inside(boxes, point).all(axis=1)).astype(np.int32)


class Range(NamedTuple):
    """A closed range, or many: numbers or arrays."""

    lo: Any
    hi: Any

    def columns(self, attribute: str) -> dict[str, Any]:
        """The two columns of a table of subscriptions over that attribute."""
        return {f"{attribute}_lo": self.lo, f"{attribute}_hi": self.hi}


def near(x: Any, r: Any) -> Range:
    """The values at most r away from x, as a range; x and r may be arrays.

    One such range per attribute selects everything near a place by the maximum of the distances.

    >>> near(5.0, 0.5)
    Range(lo=4.5, hi=5.5)
    >>> near([1.0, 2.0], 1.0).columns("risk")
    {'risk_lo': array([0., 1.]), 'risk_hi': array([2., 3.])}
    """
    centre, radius = np.asarray(x, np.float64), np.asarray(r, np.float64)
    if not (np.isfinite(centre).all() and np.isfinite(radius).all() and (radius >= 0).all()):
        raise InputError("x or r is not a number", where="near", expected="finite numbers, r not negative")
    lo, hi = centre - radius, centre + radius
    return Range(lo, hi) if lo.ndim else Range(float(lo), float(hi))


class Hierarchy:
    """A hierarchy of categories as numbers.

    An object carries the code of its category. A subscription to a category is the range of its codes, which
    includes the codes of everything below it.

    Args:
        parent_of: each category's parent; roots are parents that have no parent, or None.

    Codes follow a walk through the trees, parents first, children by name; so they depend only on the set of
    categories. `RankedMatcher` and `CoveringTable` take a hierarchy directly, in `categories`.
    Cost: O(n log n) once.

    >>> goods = Hierarchy({"fruit": "food", "bread": "food", "apple": "fruit", "pear": "fruit"})
    >>> goods.range("fruit")
    Range(lo=2.0, hi=4.0)
    >>> goods.code("pear"), goods.range("food").hi
    (4.0, 4.0)
    """

    def __init__(self, parent_of: Mapping[str, str | None]) -> None:
        self.parents = dict(parent_of)
        children: dict[str | None, list[str]] = {}
        for category in sorted(
            {*parent_of, *(parent for parent in parent_of.values() if parent is not None)}
        ):
            children.setdefault(parent_of.get(category), []).append(category)
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}
        stack = [(category, False) for category in reversed(children.get(None, []))]
        while stack:
            category, done = stack.pop()
            if done:
                self._last[category] = len(self._first) - 1
                continue
            self._first[category] = len(self._first)
            stack.append((category, True))
            stack.extend((child, False) for child in reversed(children.get(category, [])))
        for category in parent_of:
            if category not in self._first:
                raise InputError(f"category {shown(category)} is its own ancestor", where="parent_of")

    def __len__(self) -> int:
        return len(self._first)

    def code(self, category: str) -> float:
        """The number of a category, which its objects carry."""
        return float(self._first[self._known(category)])

    def range(self, category: str) -> Range:
        """The range of a category and of everything below it."""
        return Range(self.code(category), float(self._last[category]))

    def ranges(self, names: Sequence[str]) -> tuple[Ints, Ints]:
        """The first and the last code below each of some categories; -1 for unknown names."""
        first, last = self._first, self._last
        found = [(first.get(name, -1), last.get(name, -1)) for name in names]
        lows, highs = np.array(found, np.int64).reshape(-1, 2).T
        return lows, highs

    def ends(self) -> Ints:
        """For each code, the last code below its category."""
        return np.array([self._last[name] for name in self._first], np.int64)

    def names(self, low: int, high: int) -> list[str]:
        """The categories with the codes from low to high; they must include everything below one of them."""
        walk, found = list(self._first), []  # in the order of codes
        while low <= high:
            found.append(walk[low])
            low = self._last[walk[low]] + 1
        return found

    def _known(self, category: str) -> str:
        if category not in self._first:
            raise InputError.unknown(category, self._first, where="hierarchy", word="category")
        return category
