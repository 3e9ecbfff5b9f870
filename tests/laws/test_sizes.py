"""An answer depends on its rows alone: not on how many of them a call has, nor on the form they come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import CoveringTable, MovingSkyline, MovingTopK, RankedMatcher
from rankcast.core.contract import results_of

Row = dict[str, Any]
MANY = 1000
FEW = st.lists(st.sampled_from([1, 1, 2, 10]), min_size=1, max_size=3)
SIZES = st.builds(list[int].__add__, FEW, st.sampled_from([[], [MANY]])).flatmap(st.permutations)
HALVES = 2  # values are halves of small numbers: many are equal


def columns(rows: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def arrays(rows: list[Row]) -> dict[str, Any]:
    """As NumPy has them where it can: strings and unknown values stay in lists."""
    given = columns(rows)
    plain = {name: not any(v is None or isinstance(v, str) for v in each) for name, each in given.items()}
    return {name: np.array(each) if plain[name] else each for name, each in given.items()}


def encoded(rows: list[Row]) -> pa.Table:
    """A table in which one column of numbers is of another type than the others."""
    table = pa.Table.from_pylist(rows)
    last = table.num_columns - 1
    return table.set_column(last, table.column_names[last], table[last].combine_chunks().dictionary_encode())


FORMS: list[Callable[[list[Row]], Any]] = [
    list,
    columns,
    arrays,
    pa.Table.from_pylist,
    pa.RecordBatch.from_pylist,
    encoded,
    lambda rows: [{name: row[name] for name in reversed(row)} for row in rows],
]


class Rows:
    """Draws rows: ids of one kind, values from few, by a seed, because a thousand draws take too long."""

    def __init__(self, seed: int, named: bool) -> None:
        self.rng, self._named = np.random.default_rng(seed), named

    def ids(self, numbers: Any) -> list[Any]:
        return [f"s{number:05}" if self._named else int(number) for number in numbers]

    def values(self, size: int, most: int = 20) -> list[float]:
        found: list[float] = (self.rng.integers(0, HALVES * most, size) / HALVES).tolist()
        return found

    def rows(self, numbers: Any, **most: int) -> list[Row]:
        given = {name: self.values(len(numbers), each) for name, each in most.items()}
        return [
            dict(zip(["id", *given], row, strict=True))
            for row in zip(self.ids(numbers), *given.values(), strict=True)
        ]

    def boxes(self, numbers: Any, over: list[str]) -> list[Row]:
        rows = self.rows(numbers, **{f"{name}_lo": 20 for name in over}, score=3)
        for row in rows:
            for name in over:
                row[f"{name}_hi"] = row[f"{name}_lo"] + float(self.rng.integers(0, 6))
        return rows


def same(one: pa.Table, other: pa.Table) -> None:
    assert one.schema == other.schema
    assert one.to_pylist() == other.to_pylist()


def one_by_one(call: Callable[[Any], pa.Table], rows: list[Row]) -> pa.Table:
    return pa.concat_tables([call([row]) for row in rows])


def sized(examples: int) -> Callable[[Any], Any]:
    """A property of streams whose batches have many sizes and forms."""

    def wrapped(check: Any) -> Any:
        drawn = given(st.integers(0, 2**32 - 1), st.booleans(), SIZES, st.data())
        return settings(max_examples=examples, deadline=None)(drawn(check))

    return wrapped


@pytest.mark.parametrize("over", [["x"], ["x", "y"]], ids=len)
@pytest.mark.parametrize("mode", ["exact", "relaxed"])
@sized(6)
def test_matches(over: list[str], mode: str, seed: int, named: bool, sizes: list[int], data: Any) -> None:
    made, given_ = Rows(seed, named), dict[str, Any](over=over, k=3, mode=mode)
    whole, single, plain = (RankedMatcher(**given_, index=index) for index in ("auto", "auto", "scan"))
    held = made.boxes(range(60), over)
    if mode == "relaxed":
        held = [row | {f"{name}_weight": row["score"] for name in over} for row in held]
        for row in held:
            del row["score"]
    for row in held:
        single.subscribe([row])
    for engine in (whole, plain):
        engine.subscribe(held)
    for size in sizes:
        events = made.rows(range(size), **dict.fromkeys(over, 26))
        if data.draw(st.booleans()):
            events[-1][over[0]] = None
        told = whole.publish(data.draw(st.sampled_from(FORMS))(events))
        same(told, one_by_one(single.publish, events))
        same(told, plain.publish(events))


@pytest.mark.parametrize("graph", [1, 2])
@sized(6)
def test_covers(graph: int, seed: int, named: bool, sizes: list[int], data: Any) -> None:
    made, first = Rows(seed, named), 0
    whole, single = (CoveringTable(over=["x", "y"], graph=graph) for _ in range(2))
    plain = CoveringTable(over=["x", "y"], index="scan")
    for size in sizes:
        boxes = made.boxes(range(first, first + size), ["x", "y"])
        for row in boxes:
            del row["score"]
        first += size
        told = whole.subscribe(data.draw(st.sampled_from(FORMS))(boxes))
        same(told, one_by_one(single.subscribe, boxes))
        plain.subscribe(boxes)
        events = made.rows(range(size), x=26, y=26)
        told = whole.publish(data.draw(st.sampled_from(FORMS))(events))
        same(told, one_by_one(single.publish, events))
        same(told, plain.publish(events))
    gone = made.ids(range(0, first, 3))
    for number, row in enumerate(gone):
        single.unsubscribe([row] if number % 2 else [{"id": row}])
    for engine in (whole, plain):
        engine.unsubscribe(gone)
    same(whole.publish(events), plain.publish(events))
    assert len(whole) == len(single) == len(plain)


MOVING: list[Callable[[str], Any]] = [
    lambda method: MovingTopK(over=["a"], k=2, method=method),
    lambda method: MovingTopK(over=["a"], k=2, m=4, ordered=False, method=method),
    lambda method: MovingSkyline(over=["a"], method=method),
    lambda method: MovingSkyline(over=["a"], metric="manhattan", method=method),
]


@pytest.mark.parametrize("make", MOVING, ids=["topk", "topk-members", "skyline", "skyline-circles"])
@sized(5)
def test_moves(make: Callable[[str], Any], seed: int, named: bool, sizes: list[int], data: Any) -> None:
    made, live = Rows(seed, named), MANY if MANY in sizes else 20
    whole, single, plain = make("zone"), make("zone"), make("scan")
    objects, queries = made.rows(range(15), x=20, y=20, a=4), made.rows(range(live), x=20, y=20)
    for engine in (whole, single, plain):
        engine.upsert(objects)
        engine.subscribe(queries)
    for size in sizes:
        form = data.draw(st.sampled_from(FORMS))
        chosen = np.sort(made.rng.permutation(live)[:size])  # each once, and as registered
        moved = made.rows(chosen, x=20, y=20)
        if data.draw(st.booleans()):  # back to where they began
            held = {row["id"]: row for row in queries}
            moved = [held[row["id"]] for row in moved]
        told = whole.publish(form(moved))
        same(told, one_by_one(single.publish, moved))
        same(told, plain.publish(moved))
        if live == MANY:  # objects would change most of the results, again and again
            continue
        changed = made.rows(made.rng.integers(0, 18, size), x=20, y=20, a=4)
        same(whole.upsert(form(changed)), plain.upsert(changed))
        one_by_one(single.upsert, changed)
        again = changed[-1:]  # as it was: nobody hears of it
        assert whole.upsert(again).num_rows == single.upsert(again).num_rows == 0
    assert results_of(whole) == results_of(single) == results_of(plain)


@pytest.mark.parametrize("make", MOVING[::2], ids=["topk", "skyline"])
@pytest.mark.parametrize("form", FORMS[:4])
def test_a_refused_position_changes_nothing(make: Callable[[str], Any], form: Callable[[Any], Any]) -> None:
    engine = make("zone")
    engine.upsert([{"id": 1, "x": 0.0, "y": 0.0, "a": 1.0}])
    engine.subscribe([{"id": 7, "x": 1.0, "y": 0.0}])
    before = engine.state()
    held = {name: array.copy() for name, array in before[1].items()}
    for bad, told in [
        ({"id": 8, "x": 1.0, "y": 0.0}, "is 8, which is not known"),
        ({"id": 7, "x": 1.0, "y": -1e200}, "y, row 0: is -1e+200"),
        ({"id": 7, "x": 1e300, "y": 1e300}, "x, row 0: is 1e+300"),
    ]:
        with pytest.raises(ValueError, match=r".") as raised:
            engine.publish(form([bad]))
        assert told.split(": ")[-1] in str(raised.value)
        header, after = engine.state()
        assert header == before[0]
        assert all(np.array_equal(held[name], array) for name, array in after.items())
