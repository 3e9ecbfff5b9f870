"""Places of objects and of moving queries: their columns, what is wrong with a bad one, how far they are."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import InputError
from rankcast.moving.kernels.scores import far_distance
from rankcast.structures.distance import HALF_CIRCUMFERENCE, HAVERSINE
from rankcast.tables.schema import Column, Floats

Kind = TypeVar("Kind", bound=np.generic)
PLACE = [Column("x"), Column("y")]


def fixed(array: NDArray[Kind]) -> NDArray[Kind]:
    """The same array, read-only as one from Arrow is, so that kernels are compiled for one kind of it."""
    found = array.view()
    found.flags.writeable = False
    return found


def check_globe(x: Floats, y: Floats, where: str) -> None:
    """Refuse longitudes x and latitudes y that are not on the globe."""
    for name, values, word, most in (("x", x, "longitude", 180), ("y", y, "latitude", 90)):
        outside = np.abs(values) > most
        if outside.any():
            row = int(np.argmax(outside))
            expected = f"a {word} in [{-most}, {most}]"
            raise InputError(f"is {values[row]:g}", where=where, column=name, row=row, expected=expected)


def unscored(what: str, where: str, row: int) -> InputError:
    """The error for a place from which something has no finite score."""
    return InputError(
        f"leaves {what} without a finite score",
        where=where,
        column="x",
        row=int(row),
        expected="a place near enough, and a score that is finite there",
    )


def box_of(x: Floats, y: Floats) -> Floats:
    """The box (2, 2) of places."""
    return np.array([[x.min(), y.min()], [x.max(), y.max()]])


def farthest(metric: int, objects: Floats, queries: Floats) -> float:
    """How far an object in a box (2, 2 or more) may be from a place in another."""
    if metric == HAVERSINE:
        return HALF_CIRCUMFERENCE
    with np.errstate(all="ignore"):
        sides = np.maximum(np.abs(objects[1, :2] - queries[0]), np.abs(queries[1] - objects[0, :2]))
        return float(far_distance(metric, 0.0, 0.0, 0.0, sides[0], 0.0, sides[1]))
