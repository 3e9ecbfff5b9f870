"""Ids to rows and back, against a dict; order labels against sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.errors import InputError, SnapshotError
from rankcast.structures.ids import Slots, select
from rankcast.tables.read import read_ids
from rankcast.tables.schema import Ids

WORDS = st.text(alphabet="ab\x00é\U0001f600", max_size=3)
NUMBERS = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])


def ids_of(values: list[Any], kind: pa.DataType) -> Ids:
    return read_ids(pa.array(values, kind), where="test")


def batches(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(
        st.tuples(st.lists(one, unique=True, max_size=6), st.lists(one, unique=True, max_size=6)), max_size=12
    )


@pytest.mark.parametrize(("one", "kind"), [(NUMBERS, pa.int64()), (WORDS, pa.string())], ids=["int", "str"])
def test_slots_behave_like_a_dict_in_order_of_registration(one: Any, kind: Any) -> None:
    @given(batches(one))
    def law(plan: Any) -> None:
        slots = Slots({"value": np.int64}, ordered=True)
        model: dict[Any, tuple[int, int]] = {}
        for count, (wanted, unwanted) in enumerate(plan):
            fresh = [value for value in wanted if value not in model]
            rows = slots.add(ids_of(fresh, kind))
            slots["value"][rows] = count
            model |= {value: (int(row), count) for value, row in zip(fresh, rows, strict=True)}
            gone = [value for value in unwanted if value in model]
            slots.release(slots.require(ids_of(gone, kind), where="test"))
            for value in gone:
                del model[value]
            slots.settle()
            _same(slots, model, kind)

    law()


def _same(slots: Slots, model: dict[Any, tuple[int, int]], kind: Any) -> None:
    assert len(slots) == len(model)
    assert slots.take(slots.live()).to_pylist() == list(model)
    rows = slots.find(ids_of(list(model), kind), where="test")
    assert rows.tolist() == [row for row, _ in model.values()]
    assert slots["value"][rows].tolist() == [count for _, count in model.values()]
    by_text = slots.find(ids_of(sorted(model), kind), where="test")
    labels = slots.label[by_text]
    assert (labels[1:] > labels[:-1]).all()


def test_a_row_released_in_a_batch_is_not_given_out_in_it() -> None:
    slots = Slots()
    first = slots.add(ids_of(["a"], pa.string()))
    slots.release(first)
    second = slots.add(ids_of(["b"], pa.string()))
    assert slots.take([*first, *second]).to_pylist() == ["a", "b"]
    slots.settle()
    assert slots.add(ids_of(["c"], pa.string())).tolist() == first.tolist()


def test_labels_are_spread_anew_when_a_gap_is_used_up() -> None:
    slots = Slots(ordered=True)
    slots.add(ids_of(["a", "z"], pa.string()))
    for step in range(70):  # each lands right behind "a": the gap halves every time
        slots.add(ids_of(["b" + "a" * (70 - step)], pa.string()))
    rows = slots.find(ids_of(sorted(slots.take(slots.live()).to_pylist()), pa.string()), where="test")
    assert (np.diff(slots.label[rows]) > 0).all()


def test_what_somebody_still_looks_at_is_not_moved_by_growth() -> None:
    slots = Slots({"value": np.int64, "pair": (np.float64, 2)})
    slots["value"][slots.add(ids_of(list(range(8)), pa.int64()))] = np.arange(8)
    seen, kept = slots["value"][2:5], slots["pair"]
    slots.add(ids_of(list(range(8, 9000)), pa.int64()))
    assert seen.tolist() == [2, 3, 4]
    assert kept.shape == (8, 2)
    assert slots["value"][:8].tolist() == list(range(8))
    assert (slots["value"][8:9000] == 0).all()


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_unknown_rows_have_no_id(kind: pa.DataType) -> None:
    slots = Slots()
    nobody = np.array([-1], np.int32)
    assert slots.take_known(nobody).to_pylist() == [None]
    rows = slots.add(ids_of(pa.array([5, 7]).cast(kind).to_pylist(), kind))
    found = slots.take_known(np.concatenate([nobody, rows[1:], nobody, rows[:1]]))
    assert found.to_pylist() == [
        None,
        *pa.array([7]).cast(kind).to_pylist(),
        None,
        *pa.array([5]).cast(kind).to_pylist(),
    ]


def test_another_kind_of_id_is_refused() -> None:
    slots = Slots()
    slots.add(ids_of([1], pa.int64()))
    with pytest.raises(InputError, match="expected integers"):
        slots.find(ids_of(["a"], pa.string()), where="test")


def test_removed_text_is_given_back() -> None:
    slots = Slots()
    for step in range(50):
        rows = slots.add(ids_of([f"{step}-{i}" * 20 for i in range(50)], pa.string()))
        slots.release(rows)
        slots.settle()
    assert slots["text"].nbytes < 50_000


@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(st.integers(0, 5), max_size=6))
def test_select_takes_ids_by_place(words: list[str], places: list[int]) -> None:
    places = [place % len(words) for place in places]
    chosen = select(ids_of(words, pa.string()), places)
    found = [
        bytes(chosen.data[a:b]).decode() for a, b in zip(chosen.offsets, chosen.offsets[1:], strict=False)
    ]
    assert found == [words[place] for place in places]


def test_a_state_that_does_not_fit_is_refused() -> None:
    slots = Slots()
    slots.add(ids_of([1, 2], pa.int64()))
    header, arrays = slots.state()
    with pytest.raises(SnapshotError, match='"code" has 8 entries'):
        Slots().restore({**header, "used": 10**9}, arrays)
    with pytest.raises(SnapshotError, match="expected"):
        Slots().restore(header, {**arrays, "code": arrays["code"].astype(np.int32)})
