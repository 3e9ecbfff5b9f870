"""Lists after `disseminate`: stale until somebody asks, each by itself; and engines that keep none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import RangeTopK
from rankcast.errors import InputError, SettingError
from rankcast.range_topk.boxes import BoxLists
from rankcast.range_topk.interval import IntervalLists
from tests.laws.range_topk import workloads
from tests.range_topk.test_dissemination import Audience, calls_of

OVERS = pytest.mark.parametrize("over", [["x"], ["x", "z"]], ids=["one", "two"])


def _world(over: list[str], count: int, **given: Any) -> tuple[RangeTopK, RangeTopK, np.random.Generator]:
    """An engine and a scan with objects and so many subscriptions; the second of two is bounded above."""
    rng = np.random.default_rng(3)
    engines = RangeTopK(over=over, k=3, **given), RangeTopK(over=over, k=3, method="scan")
    place = {name: rng.random(60).tolist() for name in [*over, "y"]}
    ends = np.sort(rng.random((count, 2)), axis=1).T.tolist()
    bound = {"z_hi": rng.random(count).tolist()} if len(over) > 1 else {}
    own = [None, 5, 200, 10**6]
    ks = [own[i] for i in rng.integers(0, 4, count)]
    for engine in engines:
        if not given.get("lists", True):
            engine.disseminate({"id": list(range(60)), **place}, method="relax")
        else:
            engine.publish({"id": list(range(60)), **place})
        engine.subscribe({"id": list(range(count)), "x_lo": ends[0], "x_hi": ends[1], "k": ks, **bound})
    return *engines, rng


@OVERS
def test_a_subscription_does_not_fill_the_lists_of_others(
    over: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, scan, rng = _world(over, 80)
    rows = {"id": list(range(30)), "y": rng.random(30).tolist()}
    engine.disseminate(rows, method="dense" if len(over) == 1 else "sparse")
    scan.publish(rows)
    with monkeypatch.context() as patch:
        for store in (IntervalLists, BoxLists):
            patch.setattr(store, "refill", lambda *_: pytest.fail("all lists were filled"))
        for call, asked in (
            ("subscribe", {"id": [99, 98], "x_lo": [0.2, 0.1], "k": [None, 300]}),
            ("amend", {"id": [3, 99], "x_lo": [None, None], "k": [200, None]}),
            ("unsubscribe", [4]),
            ("results", [99, 5]),
            ("results", [5]),
        ):
            assert getattr(engine, call)(asked).equals(getattr(scan, call)(asked)), call
        assert engine.explain(7, 3) == scan.explain(7, 3)
    assert engine.results().equals(scan.results())
    more = {"id": [1, 2], "y": [0.0, 1.0]}
    assert engine.publish(more).equals(scan.publish(more))


@OVERS
def test_stale_lists_survive_saving(over: list[str], tmp_path: Path) -> None:
    engine, scan, rng = _world(over, 40)
    rows = {"id": list(range(30)), "y": [None, *rng.random(29).tolist()]}
    engine.disseminate(rows, method="relax")
    scan.publish(rows)
    engine.save(tmp_path / "state")
    again = RangeTopK.load(tmp_path / "state")
    assert getattr(again._kept, "stale", False)
    more = {"id": [1, 2], "y": [0.0, 1.0]}
    expected = scan.results(), scan.publish(more)
    for each in (engine, again):
        assert each.results([5]).equals(
            expected[0].filter([s == 5 for s in expected[0]["subscription"].to_pylist()])
        )
        assert each.publish(more).equals(expected[1])


@settings(max_examples=60)
@given(workloads(), st.data())
def test_stale_engines_answer_as_fresh_ones(workload: Any, data: st.DataObject) -> None:
    """Some batches are disseminated instead of published: whatever is asked next has the same answer."""
    engine, scan = RangeTopK(**workload.settings), RangeTopK(**workload.settings, method="scan")
    methods = st.sampled_from([None, None, "relax", "scan", "sparse"])
    for call, rows in calls_of(workload):
        method = data.draw(methods) if call == "publish" else None
        told = engine.disseminate(rows, method=method) if method else getattr(engine, call)(rows)
        expected = getattr(scan, call)(rows)
        assert method or told.equals(expected)
    assert engine.results().equals(scan.results())


@pytest.mark.parametrize("method", ["sparse", "dense", "unicast", "relax", "scan"])
@settings(max_examples=25)
@given(workload=workloads(narrow=True))
def test_an_engine_without_lists_tells_the_same(method: str, workload: Any) -> None:
    engines = [RangeTopK(**workload.settings, method=method, lists=lists) for lists in (True, False)]
    for call, rows in calls_of(workload):
        if call == "publish":
            told = [engine.disseminate(rows, batch=len(rows["id"]) > 3) for engine in engines]
            assert told[0].equals(told[1])
        else:
            getattr(engines[0], call)(rows)
            assert getattr(engines[1], call)(rows).num_rows == 0
    assert len(engines[0]) == len(engines[1])


@OVERS
def test_without_lists_what_needs_them_is_refused(over: list[str], tmp_path: Path) -> None:
    engine, _, _ = _world(over, 20, lists=False)
    assert engine.stats()["events"] == 60
    for call, given_ in (
        ("publish", {"id": [1], "y": [2]}),
        ("remove", [1]),
        ("results", None),
        ("explain", 1),
    ):
        with pytest.raises(InputError, match="keeps no lists"):
            getattr(engine, call)(*([1, 1] if call == "explain" else [given_]))
    with pytest.raises(InputError, match="keeps no lists"):
        engine.apply([("publish", {"id": [1], "y": [2]})])
    assert engine.apply([("subscribe", {"id": [77]}), ("unsubscribe", [77])]).num_rows == 0
    engine.save(tmp_path / "state")
    again = RangeTopK.load(tmp_path / "state")
    rows = {"id": [1, 2], "y": [0.0, None]}
    assert again.disseminate(rows).equals(engine.disseminate(rows))
    with pytest.raises(SettingError, match="lists"):
        RangeTopK(lists=None)  # type: ignore[arg-type]
    if len(over) > 1:
        for method, batch in (("unicast", False), ("sparse", True)):
            with pytest.raises(SettingError, match="needs lists"):
                engine.disseminate(rows, method=method, batch=batch)
        told = RangeTopK(over=over, lists=False, sides="upper", method="dense")
        assert told.disseminate({"id": [1], "x": [0], "z": [0], "y": [1]}).num_rows == 1


@OVERS
def test_receivers_of_an_engine_without_lists_are_right(over: list[str]) -> None:
    engine, scan, rng = _world(over, 50, lists=False)
    audience = Audience(over, 3, "asc")
    bounds = scan._state.subscriptions
    for i in range(50):
        low, high, k = bounds["lo"][i].tolist(), bounds["hi"][i].tolist(), int(bounds["k"][i]) or 3
        rows: dict[str, Any] = {"id": [i], "k": [k]}
        rows |= {f"{name}_lo": [low[j]] for j, name in enumerate(over)}
        rows |= {f"{name}_hi": [high[j]] for j, name in enumerate(over)}
        audience.register("subscribe", rows, scan)
    for method in ("sparse", "dense", "sparse"):
        rows = {"id": rng.integers(0, 70, 20).tolist(), "y": rng.random(20).tolist()}
        rows |= {name: rng.random(20).tolist() for name in over}
        audience.deliver(engine.disseminate(rows, method=method), "y", to_nobody=method == "dense")
        scan.publish(rows)
        for name, mine in audience.lists.items():
            expected = scan.results([name])
            assert mine.items() == list(
                zip(expected["item"].to_pylist(), expected["score"].to_pylist(), strict=True)
            )
