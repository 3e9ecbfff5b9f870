"""Subscriptions found by the distance of their ids: the same rows as by the hash table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.range_topk import state
from rankcast.range_topk.state import Subscriptions
from rankcast.tables.schema import integer_ids

IDS = st.integers(-3, 12)
LAST = 2**63 - 1


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "FEW", 0)


@given(
    st.lists(st.tuples(st.booleans(), st.lists(IDS, unique=True))),
    st.lists(IDS),
    st.integers(-2, 2),
    st.data(),
)
def test_rows_are_those_of_the_hash_table(
    steps: list[tuple[bool, list[int]]], asked: list[int], shift: int, data: st.DataObject
) -> None:
    slots, live = Subscriptions(), dict[int, int]()
    for come, ids in steps:
        some = [each for each in ids if (each in live) != come]
        if come:
            live |= dict(zip(some, slots.add(integer_ids(some)).tolist(), strict=True))
        else:
            slots.release(np.array([live.pop(each) for each in some], np.int32))
            if data.draw(st.booleans()):
                slots.settle()
    for ids in (asked, list(live), sorted(live), [each + shift for each in live]):
        found = slots.find(integer_ids(ids), where="ids") if slots.kind else np.full(len(ids), -1)
        assert found.tolist() == [live.get(each, -1) for each in ids]


def test_ids_from_one_end_of_the_integers_to_the_other() -> None:
    slots = Subscriptions()
    rows = slots.add(integer_ids([LAST, -LAST - 1, 0, 1]))
    found = slots.find(integer_ids([LAST, -LAST - 1, 0, 1, -LAST]), where="ids")
    assert found.tolist() == [*rows.tolist(), -1]


def test_ids_in_order_need_no_hash_table() -> None:
    slots = Subscriptions()
    slots.add(integer_ids(np.arange(5, 25)))
    slots["table"][:] = 3  # whatever is looked up first, it is the id 8
    asked = np.array([8, 5, 24, 9])
    assert slots.find(integer_ids(asked), where="ids").tolist() == [3, 0, 19, 4]
