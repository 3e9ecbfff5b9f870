"""Receivers keep the lists of the engine, whatever gets lost on the way; and need nothing but Python."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast import Gateway, InputError, RangeTopK, SettingError, SubscriberList
from rankcast.gateway import BehindError, Lists, answer
from rankcast.range_topk.engine import METHODS
from tests.laws.range_topk import Naive, records, workloads
from tests.range_topk.test_dissemination import calls_of


def source(engine: RangeTopK) -> Any:
    """What a gateway asks an engine in the same process."""

    def ask(ranges: list[dict[str, Any]]) -> Lists:
        return answer(ranges, lambda rows: engine.preview(rows).to_pylist(), engine.stats()["messages"])

    return ask


def gateway_to(engine: RangeTopK, settings: dict[str, Any]) -> Gateway:
    names = ("over", "k", "order")
    return Gateway(source(engine), **{name: settings[name] for name in names if name in settings})


@pytest.mark.parametrize("module", ["Gateway", "SubscriberList"])
def test_receivers_need_no_numpy(module: str) -> None:
    heavy = ("numpy", "pyarrow", "numba", "httpx", "pandas")
    code = f"import sys\nfrom rankcast import {module}\nprint([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("lists", [True, False])
def test_a_preview_is_what_subscribers_would_have_and_changes_nothing(method: str, lists: bool) -> None:
    @given(workloads(), st.booleans())
    def law(workload: Any, stale: bool) -> None:
        narrow = isinstance(workload.settings["over"], str)
        engine = RangeTopK(**workload.settings, method=method if narrow else "scan", lists=lists)
        model = Naive(**workload.settings)
        for call, rows in calls_of(workload):
            if call == "publish" and (stale or not lists):
                engine.disseminate(rows, method="relax")
            else:
                getattr(engine, call)(rows)
            model.call(call, rows)
            before = engine.stats()
            asked = list(model.subscriptions.values())
            assert engine.preview(asked).to_pylist() == model.results()
            assert engine.stats() == before
            if lists:
                assert engine.results().to_pylist() == model.results()

    law()


def test_a_preview_of_boxes() -> None:
    rng = np.random.default_rng(5)
    engine = RangeTopK(over=["x", "z"], k=3)
    engine.publish({"id": range(300), "x": rng.random(300), "z": rng.random(300), "y": rng.random(300)})
    lo, hi = np.sort(rng.random((2, 50, 2)), axis=0)
    boxes = {"id": [f"b{i}" for i in range(50)], "k": rng.choice([1, 3, 40, 500], 50)}
    boxes |= {f"{name}_lo": lo[:, i] for i, name in enumerate("xz")}
    boxes |= {f"{name}_hi": hi[:, i] for i, name in enumerate("xz")}
    found = engine.preview(boxes)
    assert len(engine) == 0
    assert engine.preview({"id": []}).num_rows == 0
    engine.subscribe(boxes)
    assert found.equals(engine.results())
    assert engine.preview(boxes).equals(found)
    with pytest.raises(InputError, match="a second time"):
        engine.preview({"id": [1, 1]})


def test_objects_are_those_that_are_live() -> None:
    engine = RangeTopK(over=["x", "z"], by="v", lists=False)
    assert engine.objects().column_names == ["id", "x", "z", "v"]
    engine.disseminate({"id": [3, 1, 2], "x": [1, 2, 3], "z": [4, 5, 6], "v": [7, 8, 9]}, method="relax")
    engine.disseminate({"id": [1, 3], "x": [None, 7], "v": [None, 1]}, method="relax")
    found = sorted(engine.objects().to_pylist(), key=lambda row: row["id"])
    assert found == [{"id": 2, "x": 3, "z": 6, "v": 9}, {"id": 3, "x": 7, "z": 4, "v": 1}]


WAYS = st.sampled_from(["comes", "comes", "is lost", "comes twice", "comes late", "half of it is lost"])


@given(workloads(narrow=True), st.data())
def test_lists_are_right_whatever_happens_on_the_way(workload: Any, data: st.DataObject) -> None:
    settings = workload.settings
    engine, model = RangeTopK(**settings, lists=False), Naive(**settings)
    gateway = gateway_to(engine, settings)
    late: list[list[Any]] = []
    for call, rows in calls_of(workload):
        model.call(call, rows)
        if call == "unsubscribe":
            gateway.unsubscribe(rows)
        elif call == "subscribe":
            gateway.subscribe(_within(records(rows), settings["k"], model))
        elif call == "amend":
            gateway.unsubscribe(rows["id"])
            gateway.subscribe(_within([model.subscriptions[n] for n in rows["id"]], settings["k"], model))
        else:
            batch: bool = data.draw(st.booleans())
            part = engine.disseminate(rows, method="dense", batch=batch, numbered=True).to_pylist()
            how = data.draw(WAYS)
            middle = len(part) // 2
            ways = {"comes": [part], "comes twice": [part, part], "half of it is lost": [part[middle:]]}
            for each in ways.get(how, []):
                gateway.receive(each)
            late = [*late, part] if how == "comes late" else late
            if how == "comes" and not late and gateway.sequence == engine.stats()["messages"]:
                _agree(gateway, model)
        now: bool = data.draw(st.booleans())
        if late and now:
            gateway.receive(late.pop())
    last = engine.stats()["messages"]
    gateway.receive([], sequence=last, after=last)
    _agree(gateway, model)
    assert gateway.check() == []


def _within(rows: list[dict[str, Any]], k: int, model: Naive) -> list[dict[str, Any]]:
    """Subscribers that want no more than the server sends tiles for; the model wants the same."""
    for row in rows:
        row["k"] = min(row.get("k") or k, k)
        model.subscriptions[row["id"]]["k"] = row["k"]
    return rows


def _agree(gateway: Gateway, model: Naive) -> None:
    assert len(gateway) == len(model.subscriptions)
    for name in model.subscriptions:
        assert gateway.items(name) == model.top(name)


def test_a_gateway_of_one_and_a_half_dimensions_follows() -> None:
    rng = np.random.default_rng(3)
    settings: dict[str, Any] = {"over": ["x", "z"], "k": 3}
    engine = RangeTopK(**settings, sides="lower", lists=False)
    gateway = gateway_to(engine, settings)
    low, high = np.sort(rng.random((2, 60)), axis=0).round(1)
    boxes = [
        {"id": i, "x_lo": low[i].item(), "x_hi": high[i].item(), "z_lo": rng.random()} for i in range(60)
    ]
    gateway.subscribe(boxes)
    for step in range(40):
        ids = rng.integers(0, 30, 5)
        rows = {"id": ids, "x": rng.random(5).round(1), "z": rng.random(5), "y": rng.integers(0, 9, 5)}
        part = engine.disseminate(rows, method="dense", batch=True, numbered=True).to_pylist()
        if step % 7 != 3:
            gateway.receive(part)
    found = engine.preview(boxes).to_pylist()
    for box in boxes:
        mine = [(row["item"], row["score"]) for row in found if row["subscription"] == box["id"]]
        assert gateway.items(box["id"]) == mine
    assert gateway.stats()["gaps"] > 3


def stocks() -> tuple[RangeTopK, Gateway]:
    engine = RangeTopK(k=2, lists=False)
    engine.disseminate({"id": ["a", "b", "c"], "x": [1, 2, 3], "y": [30, 20, 10]}, method="relax")
    gateway = gateway_to(engine, {"k": 2})
    gateway.subscribe([{"id": "ada", "x_lo": 1, "x_hi": 2}, {"id": "bob", "k": 1}])
    gateway.resynchronise(engine.stats()["messages"])
    return engine, gateway


def tell(engine: RangeTopK, **columns: Any) -> list[dict[str, Any]]:
    rows = {name: [value] for name, value in columns.items()}
    return list(engine.disseminate(rows, method="dense", batch=True, numbered=True).to_pylist())


def test_messages_have_numbers_that_survive_a_restart(tmp_path: Path) -> None:
    engine, _ = stocks()
    before = engine.stats()["messages"]
    first = tell(engine, id="d", x=2, y=5)
    engine.save(tmp_path / "saved")
    second = tell(RangeTopK.load(tmp_path / "saved"), id="d", x=2, y=6)
    numbers = [row["sequence"] for row in first + second]
    assert numbers == list(range(before + 1, before + 1 + len(numbers)))
    assert first
    assert second
    assert "sequence" not in engine.disseminate({"id": ["d"], "y": [7]}, method="dense").column_names
    named = RangeTopK(by="sequence", lists=False)
    with pytest.raises(InputError, match="attribute called sequence"):
        named.disseminate({"id": [1], "x": [1], "sequence": [1]}, method="dense", numbered=True)
    assert named.objects().num_rows == 0


def test_only_those_whose_lists_change_are_named() -> None:
    engine, gateway = stocks()
    assert gateway.receive(tell(engine, id="a", x=1, y=29)) == ["ada"]
    part = tell(engine, id="c", x=3, y=11)
    assert gateway.receive(part) == ["bob"]
    assert gateway.receive(part) == []
    assert gateway.stats()["doubled"] == 1
    assert (gateway.items("ada"), gateway.items("bob")) == ([("b", 20), ("a", 29)], [("c", 11)])


def test_whoever_comes_late_asks_for_the_own_list_alone() -> None:
    engine, gateway = stocks()
    asked = gateway.stats()["asked"]
    unheard = tell(engine, id="a", x=1, y=5)
    gateway.subscribe([{"id": "eve", "x_hi": 1}, {"id": "fay", "x_lo": 1, "x_hi": 2}])
    assert gateway.stats()["asked"] == asked + 1  # fay's range is ada's
    assert (gateway.items("eve"), gateway.items("ada")) == ([("a", 5)], [("b", 20), ("a", 30)])
    assert sorted(gateway.receive(unheard)) == ["ada", "bob", "fay"]
    assert gateway.receive(tell(engine, id="a", x=1, y=None)) == ["bob", "eve", "ada", "fay"]
    gateway.unsubscribe(["ada"])
    assert gateway.items("fay") == [("b", 20)]
    assert len(gateway) == 3


def test_a_list_that_became_wrong_is_found_by_its_digest() -> None:
    engine, gateway = stocks()
    part = tell(engine, id="a", x=1, y=29)
    forged = [{**row, "y": 1.0} for row in part]
    gateway.receive(forged)
    assert gateway.items("ada") == [("a", 1.0), ("b", 20)]
    assert gateway.check() == ["ada"]
    assert gateway.stats()["mended"] == 1
    assert gateway.items("ada") == [("b", 20), ("a", 29)]
    assert gateway.check() == []
    one, other = SubscriberList(2), SubscriberList(2)
    one.receive("a", 1.0)
    assert one.digest() != other.digest()
    other.receive("a", 1)
    assert one.digest() == other.digest()


def test_a_source_that_cannot_answer_is_asked_again() -> None:
    engine, gateway = stocks()
    ask, broken = gateway._ask, [True]

    def sometimes(ranges: list[dict[str, Any]]) -> Lists:
        if broken[0]:
            raise OSError("no answer")
        assert ask is not None
        return ask(ranges)

    gateway._ask = sometimes
    tell(engine, id="a", x=1, y=5)
    with pytest.raises(OSError, match="no answer"):
        gateway.receive(tell(engine, id="a", x=1, y=6))
    assert gateway.sequence is None
    assert gateway.items("ada") == [("b", 20), ("a", 30)]
    gateway.subscribe([{"id": "eve"}])  # gets its list with the others
    broken[0] = False
    gateway.receive(tell(engine, id="a", x=1, y=7))
    assert gateway.items("ada") == [("a", 7), ("b", 20)]
    assert gateway.items("eve") == [("a", 7), ("c", 10)]
    broken[0] = True
    with pytest.raises(OSError, match="no answer"):
        gateway.subscribe([{"id": "new", "x_lo": 3}])
    assert len(gateway) == 3


def test_old_lists_are_refused() -> None:
    gateway = Gateway(lambda ranges: Lists(3, []), k=1)
    gateway.subscribe([{"id": 1}])
    with pytest.raises(BehindError, match="too old"):
        gateway.receive([], sequence=5, after=4)
    assert gateway.sequence is None


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"id": "ada"}, "there already"),
        ({"id": None}, "an integer or a text"),
        ({"id": True}, "an integer or a text"),
        ({"id": 1, "x_lo": 3, "x_hi": 2}, "lo <= hi"),
        ({"id": 1, "x_lo": float("nan")}, "a number or nothing"),
        ({"id": 1, "x_hi": "9"}, "a number or nothing"),
        ({"id": 1, "k": 3}, "from 1 to 2, the k that the server"),
        ({"id": 1, "k": 0}, "from 1 to 2"),
        ({"id": 1, "x_low": 3}, 'Did you mean "x_lo"'),
    ],
)
def test_bad_subscribers_are_refused_and_change_nothing(row: dict[str, Any], told: str) -> None:
    _, gateway = stocks()
    with pytest.raises(InputError, match=told):
        gateway.subscribe([{"id": "good"}, row])
    assert len(gateway) == 2


def test_other_mistakes_are_refused() -> None:
    _, gateway = stocks()
    for wrong in (0, True, 1.5, 2**31, None):
        with pytest.raises(SettingError, match="k is"):
            SubscriberList(wrong)  # type: ignore[arg-type]
    assert SubscriberList(np.int64(3)).items() == []  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="asc, desc"):
        SubscriberList(1, "up")
    with pytest.raises(InputError, match="a subscriber's id"):
        gateway.items("nobody")
    with pytest.raises(InputError, match="a subscriber's id"):
        gateway.unsubscribe(["ada", "nobody"])
    assert len(gateway) == 2
    with pytest.raises(InputError, match="numbered=True"):
        gateway.receive([{"item": "a"}])
    with pytest.raises(InputError, match="is missing"):
        gateway.receive([{"item": "a", "sequence": 4}])
    assert gateway.sequence is None  # nobody knows what of it was taken


def test_threads_may_come_and_go_while_messages_come() -> None:
    engine, gateway = stocks()

    def join(first: int) -> None:
        for i in range(first, first + 50):
            gateway.subscribe([{"id": i, "x_lo": i % 3}])
            if i % 3 == 0:
                gateway.unsubscribe([i])

    threads = [threading.Thread(target=join, args=(first,)) for first in (0, 1000)]
    for thread in threads:
        thread.start()
    rng = np.random.default_rng(1)
    for _ in range(100):
        gateway.receive(tell(engine, id=str(rng.integers(9)), x=int(rng.integers(4)), y=int(rng.integers(9))))
    for thread in threads:
        thread.join()
    last = engine.stats()["messages"]
    gateway.receive([], sequence=last, after=last)
    assert gateway.check() == []
    assert len(gateway) > 60


def test_messages_that_come_again_and_go_on_are_no_gap() -> None:
    """A queue that writes at least once: the last micro-batch again, then the next."""
    server = RangeTopK(k=2, method="dense", lists=False)
    rows = [
        row
        for place in range(6)
        for row in server.disseminate(
            {"id": [place], "x": [1.0], "y": [float(9 - place)]}, numbered=True
        ).to_pylist()
    ]
    for first, again in ((4, 2), (3, 0), (6, 5)):
        gateway = Gateway(None, k=2)
        gateway.subscribe([{"id": 1}])
        gateway.receive(rows[:first])
        assert gateway.receive(rows[again:]) == ([1] if first < 6 else [])
        assert gateway.items(1) == [(5, 4.0), (4, 5.0)]
        assert gateway.stats()["doubled"] == 1
        assert gateway.stats()["gaps"] == 0


def test_without_anybody_to_ask_lists_come_among_the_messages() -> None:
    ends = {"x_lo_outer": None, "x_lo_inner": 1.0, "x_hi_inner": 2.0, "x_hi_outer": None}
    gateway = Gateway(None, k=2)
    gateway.subscribe([{"id": "a", "x_lo": 1, "x_hi": 2}])
    gateway.receive([{**ends, "item": 7, "x": 1.0, "y": 3.0, "sequence": 1}])
    assert gateway.items("a") == [(7, 3.0)]
    gateway.subscribe([{"id": "b", "x_lo": 0, "x_hi": 3}])  # comes late
    assert gateway.awaited() == ["b"]
    tile = {**ends, "item": 8, "x": 1.0, "y": 1.0, "sequence": 2}
    assert gateway.receive([tile]) == ["a"]
    assert gateway.items("b") == []
    exact = {"x_lo_outer": -0.1, "x_lo_inner": 0.0, "x_hi_inner": 3.0, "x_hi_outer": 3.1}
    empty = {"item": None, "x": None, "y": None}
    gateway.receive([{**exact, **empty, "sequence": 3}])
    assert gateway.awaited() == []
    assert gateway.receive([{**exact, "item": 8, "x": 1.0, "y": 1.0, "sequence": 4}]) == ["b"]
    assert gateway.items("a") == [(8, 1.0), (7, 3.0)]
    assert gateway.check() == []
    gateway.receive([{**tile, "sequence": 9}])  # what was between is lost
    assert sorted(gateway.awaited()) == ["a", "b"]
    assert gateway.items("a") == gateway.items("b") == []
    assert gateway.sequence == 9
