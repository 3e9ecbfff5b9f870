"""A small engine for testing shards: keyed counters, with deltas as every engine gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import InputError


class ToyCounter:
    """Counters by id. An event multiplies and adds, so that order, loss and repetition all show.

    `ballast` is a number of bytes of state beside the counters, so that a snapshot takes a while to write.
    """

    calls: ClassVar[tuple[str, ...]] = ("subscribe", "unsubscribe", "publish")

    def __init__(self, *, factor: int = 31, ballast: int = 0) -> None:
        self._settings = {"factor": factor, "ballast": ballast}
        self._keys: NDArray[np.int64] = np.empty(0, np.int64)
        self._values: NDArray[np.int64] = np.empty(0, np.int64)
        self._ballast: NDArray[np.int64] = np.zeros(ballast // 8, np.int64)
        self._events = 0

    def check_rows(self, call: str, rows: Any) -> None:
        """Nothing is lost."""

    def apply(self, commands: Iterable[tuple[str, Any]], /) -> pa.Table:
        before = self._listed()
        for call, rows in commands:
            getattr(self, f"_{call}")(rows)
        return _difference(before, self._listed())

    def _subscribe(self, rows: pa.Table) -> None:
        ids = np.asarray(rows.column("id"))
        taken = np.isin(ids, self._keys)
        if taken.any():
            raise InputError("is taken", column="id", row=int(np.argmax(taken)))
        if np.unique(ids).size < ids.size:
            raise InputError("is there twice", column="id")
        self._keys = np.append(self._keys, ids)
        self._values = np.append(self._values, np.zeros(ids.size, np.int64))

    def _unsubscribe(self, rows: pa.Table) -> None:
        places = self._places(rows)
        self._keys, self._values = np.delete(self._keys, places), np.delete(self._values, places)

    def _publish(self, rows: pa.Table) -> None:
        places = self._places(rows)
        for place, amount in zip(places, np.asarray(rows.column("add")), strict=True):
            self._values[place] = (self._values[place] * self._settings["factor"] + amount + 1) % 1_000_003
            self._events += 1
            if self._ballast.size:
                self._ballast[self._events * 7919 % self._ballast.size] += self._values[place]

    def _places(self, rows: pa.Table) -> list[int]:
        found = []
        for row, key in enumerate(rows.column("id").to_pylist()):
            place = np.flatnonzero(self._keys == key)
            if place.size == 0:
                raise InputError("is unknown", column="id", row=row)
            found.append(int(place[0]))
        return found

    def _listed(self) -> dict[int, int]:
        return dict(zip(self._keys.tolist(), self._values.tolist(), strict=True))

    def results(self) -> dict[int, int]:
        return self._listed()

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays = {"keys": self._keys, "values": self._values, "ballast": self._ballast}
        return {"settings": self._settings, "events": self._events}, arrays

    @classmethod
    def restore(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], **given: Any) -> Self:
        engine = cls(**header["settings"], **given)
        engine._keys, engine._values = arrays["keys"], arrays["values"]
        engine._ballast, engine._events = arrays["ballast"], header["events"]
        return engine

    def fingerprint(self) -> tuple[Any, ...]:
        """The whole state in a form that compares."""
        header, arrays = self.state()
        return header, {name: array.tolist() for name, array in arrays.items()}


def _difference(before: dict[int, int], after: dict[int, int]) -> pa.Table:
    """The net deltas between two results."""
    rows: list[tuple[int, str, int, float | None, int | None]] = []
    rows += [(key, "leave", key, None, None) for key in before if key not in after]
    for key, value in after.items():
        if before.get(key) != value:
            rows.append((key, "update" if key in before else "enter", key, float(value), 1))
    schema = pa.schema(
        [
            ("subscription", pa.int64()),
            ("op", pa.string()),
            ("item", pa.int64()),
            ("score", pa.float64()),
            ("rank", pa.int64()),
        ]
    )
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[]] * 5, schema=schema)
