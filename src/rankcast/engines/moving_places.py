"""Places of objects and of moving queries: their columns, and what is wrong with a bad one."""

from __future__ import annotations

import numpy as np

from rankcast.columns import Column, Floats
from rankcast.errors import InputError

PLACE = [Column("x"), Column("y")]


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
