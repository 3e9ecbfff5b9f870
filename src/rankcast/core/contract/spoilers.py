"""Bad input: each spoiler turns good rows into rows that must be refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Bad:
    """Rows that must be refused, and what the error must name."""

    rows: Any
    column: str | None = None
    row: int | None = None


Spoiler = Callable[[str, Any], Bad | None]


def unknown_column(call: str, rows: Any) -> Bad | None:
    """A column nobody knows."""
    if not isinstance(rows, dict):
        return None
    return Bad({**rows, "no_such_column": [0] * len(rows["id"])}, "no_such_column")


def missing_id(call: str, rows: Any) -> Bad | None:
    """No column `id`."""
    if not isinstance(rows, dict):
        return None
    return Bad({name: values for name, values in rows.items() if name != "id"}, "id")


def null_id(call: str, rows: Any) -> Bad | None:
    """A null in the last id."""
    ids = rows["id"] if isinstance(rows, dict) else rows
    if not ids:
        return None
    spoiled = [*ids[:-1], None]
    return Bad({**rows, "id": spoiled} if isinstance(rows, dict) else spoiled, "id", len(ids) - 1)


def id_twice(call: str, rows: Any) -> Bad | None:
    """A subscription that is named twice in a batch."""
    if call not in ("subscribe", "amend", "unsubscribe", "remove", "retract", "rescore"):
        return None
    ids = rows["id"] if isinstance(rows, dict) else rows
    if not ids:
        return None
    if not isinstance(rows, dict):
        return Bad([*ids, ids[0]], "id", len(ids))
    return Bad({name: [*values, values[0]] for name, values in rows.items()}, "id", len(ids))


def other_kind_of_id(call: str, rows: Any) -> Bad | None:
    """Ids that mix integers and strings."""
    ids = rows["id"] if isinstance(rows, dict) else rows
    if len(ids) < 2:
        return None
    spoiled = [*ids[:-1], 0 if isinstance(ids[0], str) else "zero"]
    return Bad({**rows, "id": spoiled} if isinstance(rows, dict) else spoiled, "id", len(ids) - 1)


def not_a_number(call: str, rows: Any) -> Bad | None:
    """A NaN among the numbers of a column."""
    return _in_a_number(rows, math.nan)


def infinite(call: str, rows: Any) -> Bad | None:
    """An infinity among the numbers of a column."""
    return _in_a_number(rows, math.inf)


def text_for_number(call: str, rows: Any) -> Bad | None:
    """Strings in a column of numbers."""
    column = _number_column(rows)
    if column is None:
        return None
    ignored = [
        word in ("remove", "retract", "advance") for word in rows.get("op", [None] * len(rows[column]))
    ]
    if all(ignored):
        return None
    return Bad({**rows, column: ["1"] * len(ignored)}, column, ignored.index(False))


def truth_among_numbers(call: str, rows: Any) -> Bad | None:
    """A boolean among the numbers of a column."""
    column = _number_column(rows)
    if column is None or rows[column][0] is None or len(rows[column]) < 2:
        return None
    return Bad({**rows, column: [*rows[column][:-1], True]}, column, len(rows[column]) - 1)


def no_row(call: str, rows: Any) -> Bad | None:
    """A list of dicts whose last element is not a dict."""
    if not isinstance(rows, dict) or not rows["id"]:
        return None
    records = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    return Bad([*records, None], row=len(records))


def damaged_id(call: str, rows: Any) -> Bad | None:
    """Arrow strings of which the last is not valid text."""
    ids = rows["id"] if isinstance(rows, dict) else rows
    if not ids or not isinstance(ids[0], str):
        return None
    raw = pa.array([*(one.encode() for one in ids[:-1]), b"\xff"], pa.binary())
    spoiled = pa.Array.from_buffers(pa.string(), len(ids), raw.buffers())
    return Bad({**rows, "id": spoiled} if isinstance(rows, dict) else spoiled, "id", len(ids) - 1)


def _number_column(rows: Any) -> str | None:
    if not isinstance(rows, dict):
        return None
    numeric = (int, float)
    return next(
        (
            name
            for name, values in rows.items()
            if name != "id" and any(isinstance(v, numeric) for v in values)
        ),
        None,
    )


def _in_a_number(rows: Any, value: float) -> Bad | None:
    """The value in the last row that is checked: a row that removes an object may hold anything."""
    column = _number_column(rows)
    if column is None:
        return None
    words = rows.get("op", [None] * len(rows[column]))
    removed = [word in ("remove", "retract", "advance") for word in words]
    if all(removed):
        return None
    row = len(removed) - 1 - removed[::-1].index(False)
    spoiled = [value if place == row else _float(each) for place, each in enumerate(rows[column])]
    return Bad({**rows, column: spoiled}, column, row)


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


SPOILERS: tuple[Spoiler, ...] = (
    unknown_column,
    missing_id,
    null_id,
    id_twice,
    other_kind_of_id,
    not_a_number,
    infinite,
    text_for_number,
    truth_among_numbers,
    no_row,
    damaged_id,
)
