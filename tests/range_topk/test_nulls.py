"""What a null does to an object of `RangeTopK`: in every form of rows the same, and never by accident."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import InputError, RangeTopK
from rankcast.core import contract
from rankcast.core.contract import Workload
from rankcast.state import Shard
from tests.laws.range_topk import Naive, framed, workloads

Rows = dict[str, list[Any]]
NUMBERS = ("x", "z", "w", "y")


def column(values: list[Any]) -> pa.Array:
    """Numbers as they are, NaN apart from null."""
    return pa.array([None if each is None else float(each) for each in values], pa.float64())


def table(rows: Rows) -> pa.Table:
    return pa.table({name: column(v) if name in NUMBERS else pa.array(v) for name, v in rows.items()})


def masked(rows: Rows) -> pd.DataFrame:
    """A frame of pandas' own nullable types, which can hold NaN beside null."""
    frame = framed({name: values for name, values in rows.items() if name not in NUMBERS}, {})
    for name in rows.keys() & set(NUMBERS):
        null = np.array([each is None for each in rows[name]], np.bool_)
        values = np.array([0.0 if each is None else each for each in rows[name]], np.float64)
        frame[name] = pd.arrays.FloatingArray(values, null)
    return frame


def objects(rows: Rows) -> pd.DataFrame:
    return framed(rows, dict.fromkeys(rows, "object"))


FORMS: dict[str, Callable[[Rows], Any]] = {
    "lists": lambda rows: rows,
    "Arrow": table,
    "Arrow arrays": lambda rows: {name: table(rows)[name] for name in rows},
    "a record batch": lambda rows: pa.record_batch(table(rows).to_pydict(), table(rows).schema),
    "polars": lambda rows: pl.DataFrame(table(rows)),
    "pandas, nullable": masked,
    "pandas, Arrow's types": lambda rows: table(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, objects": objects,
    "series of pandas'": lambda rows: dict(objects(rows).items()),
}


def kept_in(rows: Rows) -> list[int]:
    """The rows that remove nothing by word."""
    words = rows.get("op", ["upsert"] * len(rows["id"]))
    return [place for place, word in enumerate(words) if word == "upsert"]


def spoilt(rows: Rows, name: str, place: int) -> Rows:
    return {**rows, name: [*rows[name][:place], math.nan, *rows[name][place + 1 :]]}


@settings(max_examples=20)
@given(workloads(), st.data())
def test_every_form_of_events_means_the_same(workload: Workload, data: st.DataObject) -> None:
    """The same answers, and for a NaN the same refusal, unless it stands beside what is removed."""
    engines = {form: RangeTopK(**workload.settings) for form in FORMS}
    for call, rows in workload.steps:
        if call != "publish":
            for engine in engines.values():
                getattr(engine, call)(rows)
            continue
        kept = kept_in(rows)
        names = [name for name in NUMBERS if name in rows]
        if kept and names:
            name, place = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(kept))
            refusals = {
                form: refusal(engines[form], make(spoilt(rows, name, place))) for form, make in FORMS.items()
            }
            assert set(refusals.values()) == {("is NaN", name, place)}, refusals
        answers = [engines[form].publish(make(rows)).to_pylist() for form, make in FORMS.items()]
        assert all(answer == answers[0] for answer in answers)
    first, *others = engines.values()
    for engine in others:
        contract.same_state(engine, first, "in the end")


def refusal(engine: RangeTopK, rows: Any) -> tuple[str, str | None, int | None]:
    with pytest.raises(InputError) as caught:
        engine.publish(rows)
    return (
        "is NaN" if "is NaN" in caught.value.what else caught.value.what,
        caught.value.column,
        caught.value.row,
    )


@settings(max_examples=20)
@given(workloads())
def test_a_frame_of_plain_floats_deletes_and_keeps_nothing(workload: Workload) -> None:
    """There a null is a NaN: refused, whatever nulls do, but beside what is removed."""
    engine, twin = RangeTopK(**workload.settings), RangeTopK(**workload.settings)
    for call, rows in workload.steps:
        getattr(twin, call)(rows)
        if call != "publish":
            getattr(engine, call)(rows)
            continue
        frame = framed(rows, dict.fromkeys(NUMBERS, "float64"))
        if any(rows[name][place] is None for name in rows for place in kept_in(rows)):
            assert refusal(engine, frame)[0] == "is NaN"
            engine.publish(rows)
        else:
            engine.publish(frame)
    contract.same_state(engine, twin, "in the end")


@settings(max_examples=150)
@given(workloads())
def test_events_do_what_the_plain_model_says(workload: Workload) -> None:
    """The brute force reads events as every method does, so it cannot tell a row that is misread by all."""
    contract.follow(lambda given: RangeTopK(**given), Naive(**workload.settings), workload)


def stocks(**given: Any) -> RangeTopK:
    engine = RangeTopK(k=2, **given)
    engine.publish({"id": ["a", "b", "c"], "x": [1, 2, 3], "y": [30, 20, 10]})
    engine.subscribe({"id": [1]})
    return engine


def items(engine: RangeTopK) -> list[Any]:
    return list(engine.results()["item"].to_pylist())


@pytest.mark.parametrize("where", ["engine", "shard"])
@pytest.mark.parametrize("nulls", ["delete", "keep", "refuse"])
def test_partial_updates_in_one_frame_delete_nothing(nulls: str, where: str, tmp_path: Path) -> None:
    engine = stocks(nulls=nulls)
    partial = pd.DataFrame([{"id": "a", "x": 5.0}, {"id": "b", "y": 1.0}])
    with Shard.open(tmp_path / "shard", engine) as shard:
        publish = engine.publish if where == "engine" else lambda rows: shard.apply(rows, after=shard.token)
        with pytest.raises(InputError, match=r'"x" of "events" is NaN(.|\n)*row: 1\.\n.*pd\.NA.*Float64'):
            publish(partial)
        with pytest.raises(InputError, match=r'"y" of "events" is NaN(.|\n)*row: 0'):
            publish({"id": ["a", "b"], "y": partial["y"]})
        removed = pd.DataFrame({"id": ["c", "b"], "op": ["remove", "upsert"], "y": [math.nan, 25.0]})
        publish(removed)
        assert items(engine if where == "engine" else shard.engine) == ["b", "a"]


@pytest.mark.parametrize(
    ("nulls", "events", "listed"),
    [
        ("delete", {"id": ["c", "b"], "x": [7, None], "y": [None, 5]}, ["b", "a"]),
        ("keep", {"id": ["c", "b"], "x": [7, None], "y": [None, 5]}, ["b", "c"]),
        ("delete", {"id": ["c", "b"], "op": ["upsert"] * 2, "x": [7, None], "y": [None, 5]}, ["b", "c"]),
        ("delete", {"id": ["c"], "op": ["remove"]}, ["b", "a"]),
        ("keep", {"id": ["c"], "op": ["remove"], "y": [None]}, ["b", "a"]),
        ("refuse", {"id": ["c"], "op": ["remove"], "x": [math.inf], "y": [math.nan]}, ["b", "a"]),
        (
            "refuse",
            {"id": ["c", "c"], "op": ["remove", "upsert"], "x": [None, 1], "y": [None, 40]},
            ["b", "a"],
        ),
        ("refuse", {"id": ["c"], "x": [7]}, ["c", "b"]),
    ],
)
@pytest.mark.parametrize("call", ["publish", "disseminate"])
def test_what_a_null_and_a_word_do(nulls: str, events: Rows, listed: list[str], call: str) -> None:
    engine = stocks(nulls=nulls)
    getattr(engine, call)(events)
    assert items(engine) == listed


@pytest.mark.parametrize(
    ("nulls", "events", "told"),
    [
        ("refuse", {"id": ["a", "c"], "y": [1, None]}, r'"y".*is null for object \'c\'(.|\n)*row: 1'),
        ("refuse", {"id": ["c"], "op": ["upsert"], "y": [None]}, r'"y".*is null(.|\n)*op "remove"'),
        ("keep", {"id": ["z"], "x": [1], "y": [None]}, '"y".*no value for object .*, which is new'),
        ("delete", {"id": ["z"], "op": ["upsert"], "x": [1], "y": [None]}, '"y".*no value .* which is new'),
        ("delete", {"id": ["c", "z"], "op": ["remove"] * 2}, r'"op".*"remove".*not there(.|\n)*row: 1'),
        ("delete", {"id": ["c", "c"], "op": ["remove"] * 2}, r"not there(.|\n)*row: 1"),
        ("delete", {"id": ["c"], "op": ["delete"]}, 'is "delete", expected one of: upsert, remove'),
        ("delete", {"id": ["c"], "op": [None]}, '"op".*is null, expected one of'),
        ("delete", {"id": [], "op": pa.array([], pa.int64())}, '"op".*has the type int64'),
        ("delete", {"id": ["c"], "op": [1]}, '"op".*has the type int64'),
    ],
)
@pytest.mark.parametrize("call", ["publish", "disseminate"])
def test_what_is_refused(nulls: str, events: Rows, told: str, call: str) -> None:
    engine = stocks(nulls=nulls)
    with pytest.raises(InputError, match=told):
        getattr(engine, call)(events)
    contract.same_state(engine, stocks(nulls=nulls), "after the refusal")


def test_remove_answers_with_deltas_and_takes_ids_in_every_form() -> None:
    engine = stocks()
    told = engine.remove(["c"]).select(["op", "item", "rank"]).to_pylist()
    assert told == [{"op": "leave", "item": "c", "rank": None}, {"op": "enter", "item": "a", "rank": 2}]
    engine.remove(pa.array(["a"]))
    engine.apply([("remove", {"id": ["b"]}), ("publish", {"id": ["b"], "x": [0], "y": [1]})])
    assert items(engine) == ["b"]
    with pytest.raises(InputError, match=r"'a', which is not known(.|\n)*row: 1"):
        engine.remove(["b", "a"])
    assert items(engine) == ["b"]
    assert engine.remove([]).num_rows == 0


@pytest.mark.parametrize("nulls", ["delete", "keep", "refuse"])
def test_a_snapshot_knows_what_nulls_do(nulls: str, tmp_path: Path) -> None:
    engine = stocks(nulls=nulls)
    engine.save(tmp_path / "saved")
    loaded = RangeTopK.load(tmp_path / "saved")
    event = {"id": ["c"], "y": [None]}
    if nulls == "refuse":
        with pytest.raises(InputError, match="is null"):
            loaded.publish(event)
    else:
        loaded.publish(event)
    assert ("c" in items(loaded)) == (nulls != "delete")
    said = engine.state()[0]["settings"].get("nulls")  # as before there was a choice, if there was none
    assert said == (None if nulls == "delete" else nulls)


def test_a_nan_of_pandas_is_still_no_bound() -> None:
    engine = stocks()
    engine.unsubscribe([1])
    engine.subscribe(pd.DataFrame({"id": [1, 2], "x_lo": [math.nan, 3.0]}))
    assert engine.results([2])["item"].to_pylist() == ["c"]
    assert engine.results([1])["item"].to_pylist() == ["c", "b"]
