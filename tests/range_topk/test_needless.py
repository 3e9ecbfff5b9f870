"""A budget of needless receipts: it holds in every call, nobody is missed, and messages become fewer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import RangeTopK, SettingError
from rankcast.range_topk.dissemination.needless import Merged, groups_of, merge_within
from tests.laws.range_topk import workloads

from .test_dissemination import Audience, calls_of, lists_of, one_by_one, register

SHARES = [0.0, 0.1, 0.2, 0.5, 0.99]


class Listeners(Audience):
    """An audience that counts receipts, and those that changed no list."""

    receipts = 0

    def deliver(self, tiles: pa.Table, by: str, *, to_nobody: bool = False) -> None:
        super().deliver(tiles, by, to_nobody=to_nobody)
        self.receipts = sum(len(items) for items in self.heard.values())


@pytest.mark.parametrize("share", SHARES)
def test_the_share_holds_in_every_call_and_lists_stay_right(share: float) -> None:
    @settings(max_examples=40)
    @given(workloads())
    def law(workload: Any) -> None:
        over = workload.settings["over"]
        names = [over] if isinstance(over, str) else over
        exact = RangeTopK(**workload.settings)
        engine = RangeTopK(**workload.settings, needless=share)
        needing = Listeners(names, workload.settings["k"], workload.settings["order"])
        hearing = Listeners(names, workload.settings["k"], workload.settings["order"])
        for call, rows in calls_of(workload):
            if call != "publish":
                register(exact, needing, call, rows)
                register(engine, hearing, call, rows)
                continue
            before = engine.stats()
            told = engine.disseminate(rows)
            count = {name: value - before[name] for name, value in engine.stats().items()}
            needing.deliver(exact.disseminate(rows), "y")
            hearing.deliver(told, "y")
            # receivers agree with what the engine counts, and the share is that of the contract
            assert count["received"] == hearing.receipts
            assert count["needless"] == hearing.receipts - needing.receipts
            assert count["needless"] <= share * count["received"]
            assert count["needless_updated"] <= count["received_updated"] <= count["received"]
            after = lists_of(engine, dict.fromkeys(engine.results()["item"].to_pylist()))
            for name, mine in hearing.lists.items():
                assert mine.items() == [(item, score) for item, _, score in after.get(name, [])]
                assert set(needing.heard[name]) <= set(hearing.heard[name])

    law()


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_receipts_with_epsilon_are_counted_both_ways(epsilon: float) -> None:
    """Exact messages are made beside: nothing else depends on it, and questions are counted once."""

    @settings(max_examples=40)
    @given(workloads())
    def law(workload: Any) -> None:
        if not isinstance(workload.settings["over"], str):
            return
        given = {**workload.settings, "epsilon": epsilon}
        names, k, order = [given["over"]], given["k"], given["order"]
        exact, plain = RangeTopK(**workload.settings), RangeTopK(**given)
        engine = RangeTopK(**given, tuning={"receipts": True})
        needing, hearing = Listeners(names, k, order), Listeners(names, k, order)
        for call, rows in calls_of(workload):
            if call != "publish":
                register(exact, needing, call, rows)
                register(engine, hearing, call, rows)
                getattr(plain, call)(rows)
                continue
            for one in one_by_one(rows):
                before = engine.stats()
                told = engine.disseminate(one)
                assert told.equals(plain.disseminate(one))
                needed = exact.disseminate(one)
                count = {name: value - before[name] for name, value in engine.stats().items()}
                needing.deliver(needed, "y")
                hearing.deliver(told, "y")
                assert count["received"] == hearing.receipts
                assert count["needless"] == hearing.receipts - needing.receipts >= 0
                got, due = (
                    sum(list(items).count(one["id"][0]) for items in each.heard.values())
                    for each in (hearing, needing)
                )
                assert count["received_updated"] == got
                assert count["needless_updated"] == got - due
        left = ("received", "needless", "received_updated", "needless_updated")
        assert {**engine.stats(), **dict.fromkeys(left, 0)} == plain.stats()

    law()


def ranges(kind: str, size: int, random: np.random.Generator) -> dict[str, Any]:
    """Ranges of one kind of world."""
    if kind == "uniform":
        ends = np.sort(random.random((size, 2)), axis=1)
    elif kind == "narrow":
        lo = random.random(size)
        ends = np.column_stack([lo, lo + 0.05])
    else:  # a few popular ones, blurred, and one that half of all have
        popular = np.sort(random.random((8, 2)), axis=1)
        ends = np.sort(popular[random.zipf(1.6, size) % 8] + random.normal(0, 0.01, (size, 2)), axis=1)
        ends[::2] = ends[0]
    return {"id": list(range(size)), "x_lo": ends[:, 0], "x_hi": ends[:, 1]}


@pytest.mark.parametrize("kind", ["uniform", "narrow", "popular"])
@pytest.mark.parametrize("k", [1, 7])
def test_a_larger_share_takes_fewer_messages(kind: str, k: int) -> None:
    sent, needless = [], []
    for share in SHARES:
        random = np.random.default_rng(3)
        engine = RangeTopK(k=k, lists=False)
        x, y = random.random((2, 300))
        engine.disseminate({"id": list(range(300)), "x": x, "y": y}, method="relax", batch=True)
        engine.subscribe(ranges(kind, 2000, random))
        for _ in range(5):
            rows = {"id": random.integers(0, 300, 40), "x": random.random(40), "y": random.random(40)}
            before = engine.stats()
            engine.disseminate(rows, needless=share)
            count = {name: value - before[name] for name, value in engine.stats().items()}
            assert count["needless"] <= share * count["received"]
        sent.append(engine.stats()["messages"])
        needless.append(engine.stats()["needless"])
    assert sent == sorted(sent, reverse=True)
    assert needless[0] == 0
    assert sent[0] > sent[3] or k == 1, f"{sent} messages, {needless} needless receipts"


def test_only_sparse_has_a_budget() -> None:
    engine = RangeTopK()
    for method in ("dense", "unicast", "relax", "scan"):
        with pytest.raises(SettingError, match="needless is not for"):
            engine.disseminate({"id": [1], "x": [1.0], "y": [1.0]}, method=method, needless=0.2)
    assert engine.objects().num_rows == 0
    RangeTopK(needless=0.2).disseminate({"id": [1], "x": [1.0], "y": [1.0]}, method="dense")


def test_an_engine_keeps_its_budget_and_counts_across_a_snapshot() -> None:
    engine = RangeTopK(k=2, needless=0.5)
    engine.subscribe(ranges("uniform", 200, np.random.default_rng(1)))
    engine.disseminate({"id": list(range(50)), "x": np.linspace(0, 1, 50), "y": np.arange(50.0)})
    header, arrays = engine.state()
    arrays = {name: array.copy() for name, array in arrays.items()}
    again = RangeTopK.restore(header, {name: array.copy() for name, array in arrays.items()})
    assert again.stats() == engine.stats()
    assert again.stats()["received"] > 0
    rows = {"id": list(range(50)), "y": np.arange(50.0)[::-1]}
    assert again.disseminate(rows).equals(engine.disseminate(rows))
    former = {**header, "counters": {n: v for n, v in header["counters"].items() if "need" not in n}}
    assert RangeTopK.restore(former, arrays).stats()["needless"] == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)), max_size=12), st.data())
def test_merging_never_spends_more_and_loses_no_tile(tiles: Any, data: st.DataObject) -> None:
    """Over intervals on a line: `count` counts integers, so prices are plain."""
    group = groups_of(np.array([g for g, _, _ in tiles], np.int64))
    low = np.array([[float(min(a, b))] for _, a, b in tiles]).reshape(-1, 1)
    high = np.array([[float(max(a, b))] for _, a, b in tiles]).reshape(-1, 1)
    share = data.draw(st.sampled_from(SHARES))

    def count(one: Any, two: Any) -> Any:
        return (two[:, 0] - one[:, 0] + 1).astype(np.int64)

    merged: Merged = merge_within(low, high, group, share, count)
    assert merged.received.sum() - merged.needed.sum() <= share * merged.received.sum()
    assert (merged.received == count(merged.low, merged.high)).all()
    ends = [*merged.tile[1:], len(tiles)][: len(merged.tile)]
    for box, (first, end) in enumerate(zip(merged.tile, ends, strict=True)):
        assert len(set(group[first:end].tolist())) == 1
        assert merged.low[box, 0] == low[first:end].min()
        assert merged.high[box, 0] == high[first:end].max()
        assert merged.needed[box] == count(low[first:end], high[first:end]).sum()
