"""Dense vectors of subscriptions and messages, by row, as they count in the score.

No model is here: vectors come from the user, of one size, and are taken to unit length. The part of the score
that a text has is `beta * max(0, cosine of vectors) + (1 - beta) * cosine of terms`, in this order. With a
beta of 1 vectors count alone: no common term is needed, and terms are only for what limits say of them.

Memory: 8 bytes a number, of a size rounded up to a multiple of eight, and up to an eighth more for growth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import InputError, SettingError
from rankcast.geotext.kernels import vectors as kernel
from rankcast.geotext.kernels.score import Meaning
from rankcast.structures import integrity
from rankcast.tables import schema
from rankcast.tables.schema import Batch, Bools, Column, Floats, Kind, Rows

VECTOR = "vector"
MOST = 1 << 16  # numbers of a vector
STEP = 8  # sizes are multiples of this
LENGTH_FUZZ = 1e-6  # how far the length of a vector from a snapshot may be from 1
NO_MEANING = Meaning(0.0, np.empty((0, 0)), np.empty((0, 0)))


class UnitVectors:
    """Vectors of unit length by row.

    Attributes:
        unit: the vectors, for kernels; zeros for a row that has none.
        given: by row, whether it has one.
    """

    def __init__(self, width: int) -> None:
        self.unit, self.given = np.zeros((8, width)), np.zeros(8, np.bool_)

    def write(self, rows: Rows, vectors: Floats, given: Bools) -> None:
        """Set the vectors of rows."""
        most, held = int(rows.max(initial=-1)) + 1, self.given.size
        if most > held:
            length = max(most, held * 9 // 8 + 8)
            unit = np.zeros((length, self.unit.shape[1]))
            unit[:held] = self.unit
            self.unit, self.given = unit, np.concatenate([self.given, np.zeros(length - held, np.bool_)])
        self.unit[rows], self.given[rows] = vectors, given

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The arrays."""
        return {}, {"unit": self.unit, "given": self.given}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` gave."""
        rows = arrays["given"].size if "given" in arrays else 0
        shape = (rows, self.unit.shape[1])
        integrity.forms(arrays, {"unit": (np.float64, shape), "given": (np.bool_, (rows,))})
        self.unit, self.given = arrays["unit"], arrays["given"]
        return self

    def check_restored(self, live: Rows, part: str, *, blank: bool) -> None:
        """Refuse vectors from a snapshot that are not of unit length; `blank`: a row may have none."""
        integrity.need(live.max(initial=-1) < self.given.size, f"{part}.given", "is too short")
        integrity.finite(self.unit.reshape(-1), f"{part}.unit")
        squares = np.einsum("ij,ij->i", self.unit[live], self.unit[live])
        given = self.given[live]
        fits = np.where(given, np.abs(squares - 1.0) < LENGTH_FUZZ, squares == 0.0)
        integrity.need(bool(fits.all()), f"{part}.unit", "is not of unit length")
        integrity.need(blank or bool(given.all()), f"{part}.given", "lacks some")


class Meanings:
    """The vectors of subscriptions (`mine`) and of messages (`theirs`), and how much they count.

    Args:
        size: how many numbers a vector has.
        beta: how much vectors count against terms.
    """

    def __init__(self, size: int, beta: float) -> None:
        self.size, self.beta = schema.whole("vectors", size), beta
        if self.size > MOST:
            raise SettingError(f"vectors is {size}", expected=f"at most {MOST}")
        self.width = (self.size + STEP - 1) // STEP * STEP
        self.mine, self.theirs = UnitVectors(self.width), UnitVectors(self.width)

    @property
    def alone(self) -> bool:
        """Whether vectors count alone."""
        return self.beta == 1.0

    def column(self, *, nullable: bool = False) -> Column:
        """The column of vectors."""
        return Column(VECTOR, Kind.VECTOR, nullable=nullable, size=self.size)

    def columns(self) -> Meaning:
        """For kernels."""
        return Meaning(self.beta, self.mine.unit, self.theirs.unit)

    def read(self, batch: Batch, where: str) -> None:
        """Take the vectors of a batch to unit length; those that are null become 0."""
        raw: Floats = batch[VECTOR]
        found, known = np.zeros((batch.size, self.width)), ~np.isnan(raw[:, 0])
        zero = kernel.to_unit(raw, known, found)
        if zero >= 0:
            raise InputError(
                "has the length 0", where=where, column=VECTOR, row=zero, expected="a vector with a direction"
            )
        batch.apart[VECTOR] = found
