"""Ranges for more than plain intervals: everything near a value, and everything below a category."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rankcast.errors import InputError, shown


class Range(NamedTuple):
    """A closed range, or many: numbers or arrays."""

    lo: Any
    hi: Any

    def columns(self, attribute: str) -> dict[str, Any]:
        """The two columns of a table of subscriptions over that attribute."""
        return {f"{attribute}_lo": self.lo, f"{attribute}_hi": self.hi}


def near(x: Any, r: Any) -> Range:
    """The values at most r away from x, as a range; x and r may be arrays.

    One range an attribute gives everything near a place by the largest of the distances.

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
    """A hierarchy of categories as numbers: an object carries the code of its category, a subscription to a
    category is the range of its codes, which holds those of everything below it.

    Args:
        parent_of: each category's parent; roots are parents that have none themselves, or have None.

    Codes follow a walk through the trees, parents first, children by name; so they depend on the set of
    categories alone. Cost: O(n log n) once.

    >>> goods = Hierarchy({"fruit": "food", "bread": "food", "apple": "fruit", "pear": "fruit"})
    >>> goods.range("fruit")
    Range(lo=2.0, hi=4.0)
    >>> goods.code("pear"), goods.range("food").hi
    (4.0, 4.0)
    """  # noqa: D205

    def __init__(self, parent_of: Mapping[str, str | None]) -> None:
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
        """The number of a category: what its objects carry."""
        return float(self._first[self._known(category)])

    def range(self, category: str) -> Range:
        """The range of a category and of everything below it."""
        return Range(self.code(category), float(self._last[category]))

    def _known(self, category: str) -> str:
        if category not in self._first:
            raise InputError.unknown(category, self._first, where="hierarchy", word="category")
        return category
