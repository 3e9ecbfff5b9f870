"""Batches of one row, of a few and of many, in every form, keep all lists; each example mixes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import InputError, RangeTopK
from rankcast.tables.deltas import replay

OBJECTS, SUBSCRIPTIONS, K = 60, 300, 3
SIZES = (1, 1, 1, 2, 10, 1000)

Rows = dict[str, list[Any]]
FORMS: dict[str, Callable[[Rows], Any]] = {
    "dict of lists": lambda rows: rows,
    "list of dicts": lambda rows: pa.table(rows).to_pylist(),
    "table": pa.table,
    "encoded": lambda rows: pa.table({**rows, "y": pa.array(rows["y"], pa.float64()).dictionary_encode()}),
}
NAMES: dict[str, Callable[[int], Any]] = {
    "integers": lambda row: 7 * row - 40,
    "strings": lambda row: f"o{row}",
}


class Model:
    """What objects are after each row: x (and z), y by id."""

    def __init__(self, over: list[str], name: Callable[[int], Any], rng: np.random.Generator) -> None:
        self.over, self.name, self.rng = over, name, rng
        self.live: dict[Any, list[float]] = {}

    def drawn(self, size: int) -> Rows:
        """Rows that are valid one after the other: inserts, updates, moves and deletions, with many ties."""
        rows: Rows = {name: [] for name in ["id", *self.over, "y"]}
        for _ in range(size):
            key = self.name(int(self.rng.integers(OBJECTS)))
            values: list[Any] = [float(self.rng.integers(40)) for _ in self.over]
            values.append(float(self.rng.integers(12)))
            held = self.live.get(key)
            if held is not None and self.rng.random() < 0.2:
                values = [None, *values[1:-1], None]
                del self.live[key]
            elif held is not None and self.rng.random() < 0.4:
                values[0] = None
                self.live[key] = [held[0], *values[1:]]
            else:
                self.live[key] = values
            for column, value in zip(rows.values(), [key, *values], strict=True):
                column.append(value)
        return rows

    def whole(self) -> Rows:
        """All objects as rows."""
        columns = zip(*self.live.values(), strict=True) if self.live else [()] * (len(self.over) + 1)
        return {"id": [*self.live], **dict(zip([*self.over, "y"], map(list, columns), strict=True))}


def ranges(over: list[str], rng: np.random.Generator, *, own_k: bool) -> Rows:
    rows: Rows = {"id": list(range(SUBSCRIPTIONS))}
    for name in over:
        ends = np.sort(rng.integers(0, 40, (SUBSCRIPTIONS, 2)), axis=1)
        rows |= {f"{name}_lo": ends[:, 0].tolist(), f"{name}_hi": ends[:, 1].tolist()}
    return rows | ({"k": rng.integers(1, 9, SUBSCRIPTIONS).tolist()} if own_k else {})


@settings(max_examples=20)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([["x"], ["x"], ["x", "z"]]),
    st.sampled_from(sorted(NAMES)),
    st.permutations(SIZES),
    st.sampled_from(["asc", "desc"]),
    st.booleans(),
)
def test_every_size_and_form_keeps_the_lists(
    seed: int, over: list[str], names: str, sizes: list[int], order: str, own_k: bool
) -> None:
    rng = np.random.default_rng(seed)
    model, subscriptions = Model(over, NAMES[names], rng), ranges(over, rng, own_k=own_k)
    engine = RangeTopK(over=over, k=K, order=order)
    engine.publish(model.drawn(30))
    engine.subscribe(subscriptions)
    for size in sizes:
        before, rows = engine.results(), model.drawn(size)
        form = FORMS[sorted(FORMS)[int(rng.integers(len(FORMS)))]]
        told = engine.publish(form(rows))
        scan = RangeTopK(over=over, k=K, order=order, method="scan")
        scan.publish(model.whole())
        scan.subscribe(subscriptions)
        now = scan.results()
        assert engine.results().equals(now)
        assert replay(before, told) == replay(now, told.slice(0, 0))


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(NAMES)), st.sampled_from([1, 2, 10]))
def test_a_refused_batch_of_any_size_changes_nothing(seed: int, names: str, size: int) -> None:
    rng = np.random.default_rng(seed)
    model = Model(["x"], NAMES[names], rng)
    engine = RangeTopK(k=K, nulls="delete")
    engine.publish(model.drawn(30))
    engine.subscribe(ranges(["x"], rng, own_k=False))
    results, counts = engine.results(), engine.stats()
    held = dict(model.live)
    rows, stranger = model.drawn(size), model.name(OBJECTS)
    model.live = held
    place = int(rng.integers(size))
    wrong = {"id": stranger, "x": None, "y": None if rng.random() < 0.5 else 1.0}
    told = "is not there" if wrong["y"] is None else "is new"
    for name, values in rows.items():
        values.insert(place, wrong[name])
    for make in FORMS.values():
        with pytest.raises(InputError, match=told) as caught:
            engine.publish(make(rows))
        assert caught.value.row == place
        assert engine.results().equals(results)
        assert engine.stats() == counts
