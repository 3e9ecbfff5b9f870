"""An engine written outside the package keeps the laws, and is known by what it says of itself alone."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from examples.similar_vectors import SimilarVectors
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import RangeTopK, SnapshotError
from rankcast.core import contract, spec
from rankcast.core.contract import Bad, Workload
from rankcast.core.engine import Engine
from rankcast.errors import InputError
from rankcast.state import Shard
from rankcast.state.batches import TIME_CALLS
from tests.laws.range_topk import change_rows, records

ROOT = Path(__file__).parent.parent.parent
SIZE = 3
VECTORS = st.lists(st.integers(-2, 2), min_size=SIZE, max_size=SIZE).filter(any)
HOME = "examples.similar_vectors:SimilarVectors"


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Steps that are valid one after the other."""
    live: set[str] = set()
    steps: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 8))):
        call = draw(st.sampled_from(["subscribe", "publish", "publish", "publish", "amend", "unsubscribe"]))
        if call == "publish":
            ids = draw(st.lists(st.integers(0, 6), max_size=6))
            steps.append((call, {"id": ids, "vector": [draw(VECTORS) for _ in ids]}))
            continue
        known = [f"s{number}" for number in range(5)]
        names = [name for name in known if (name in live) != (call == "subscribe")]
        some = draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if names else []
        live = live - set(some) if call == "unsubscribe" else live | set(some)
        if call == "unsubscribe":
            steps.append((call, some))
            continue
        rows: dict[str, list[Any]] = {"id": some}
        if call == "subscribe" or draw(st.booleans()):
            rows["vector"] = [draw(VECTORS) for _ in some]
        if draw(st.booleans()):
            rows["k"] = [draw(st.sampled_from([None, 1, 4])) for _ in some]
        steps.append((call, rows))
    return Workload(
        {"size": SIZE, "k": draw(st.integers(1, 3)), "window": draw(st.integers(1, 5))}, tuple(steps)
    )


class Naive:
    """All of it in dicts: the window is a dict in the order of arrival."""

    def __init__(self, *, size: int, k: int, window: int) -> None:
        self.k, self.window = k, window
        self.subscriptions: dict[Any, dict[str, Any]] = {}
        self.recent: dict[Any, list[float]] = {}

    def call(self, name: str, rows: Any) -> list[dict[str, Any]]:
        before = {each: self.top(each) for each in self.subscriptions}
        if name == "unsubscribe":
            for each in rows:
                del self.subscriptions[each]
        else:
            for values in records(rows):
                if name == "publish":
                    self.recent.pop(values["id"], None)
                    self.recent[values["id"]] = unit(values["vector"])
                    if len(self.recent) > self.window:
                        del self.recent[next(iter(self.recent))]
                else:
                    self.subscriptions.setdefault(values["id"], {}).update(values)
        order = [*before, *(each for each in self.subscriptions if each not in before)]
        after = {each: self.top(each) for each in self.subscriptions}
        return [row for each in order for row in change_rows(each, before.get(each, []), after.get(each, []))]

    def top(self, subscription: Any) -> list[tuple[Any, float]]:
        wanted = self.subscriptions[subscription]
        mine = unit(wanted["vector"])
        newest = list(reversed(self.recent.items()))
        scored = [(sum(map(float.__mul__, mine, other)), name) for name, other in newest]
        best = sorted(scored, key=lambda each: -each[0])  # stable: of equal ones the newer first
        return [(name, score) for score, name in best[: wanted.get("k") or self.k]]

    def results(self) -> list[dict[str, Any]]:
        return [
            {"subscription": subscription, "rank": rank, "item": item, "score": score}
            for subscription in self.subscriptions
            for rank, (item, score) in enumerate(self.top(subscription), 1)
        ]


def unit(vector: list[float]) -> list[float]:
    largest = max(map(abs, vector))
    scaled = [each / largest for each in vector]
    length = math.sqrt(sum(each * each for each in scaled))
    return [each / length for each in scaled]


def make(given: dict[str, Any]) -> Engine:
    return SimilarVectors(**given)


def odd_vector(value: list[Any] | None) -> contract.Spoiler:
    """Another vector in the last row."""

    def spoiled(call: str, rows: Any) -> Bad | None:
        if not isinstance(rows, dict) or not rows.get("vector"):
            return None
        last = len(rows["id"]) - 1
        return Bad({**rows, "vector": [*rows["vector"][:-1], value]}, "vector", last)

    return spoiled


ODD: tuple[Any, ...] = (
    [1, 2],
    [1, 2, 3, 4],
    [],
    None,
    [1.0, None, 2.0],
    [1.0, math.nan, 2.0],
    [math.inf, 0.0, 1.0],
    [0, 0, 0],
)
SPOILERS = (*contract.SPOILERS, *map(odd_vector, ODD))


@given(workloads(), st.data())
def test_it_keeps_the_laws(workload: Workload, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(workload.steps) - 1))
    contract.follow(make, Naive(**workload.settings), workload)
    whole = contract.run(make, workload)
    contract.cut(make, workload, whole)
    contract.apart(make, workload, whole)
    contract.refuse(make, workload, SPOILERS, at)
    contract.net(make, workload, whole, at)
    with tempfile.TemporaryDirectory() as folder:
        contract.reload(make, workload, whole, Path(folder) / "snapshot", at)


@settings(max_examples=4)
@given(workloads())
def test_it_takes_calls_of_several_threads(workload: Workload) -> None:
    contract.threads(make, workload, writers=2, readers=1)


def test_its_memory_follows_what_is_live() -> None:
    def churn(engine: Engine, number: int) -> None:
        names = [f"s{number}-{place}" for place in range(10)]
        vectors = [[place + 1.0, 1.0, 0.0] for place in range(10)]
        assert isinstance(engine, SimilarVectors)
        engine.subscribe({"id": names, "vector": vectors})
        engine.publish({"id": [number * 100 + place for place in range(10)], "vector": vectors})
        engine.unsubscribe(names)

    contract.bounded(SimilarVectors(size=3, window=20), churn)


def test_a_shard_holds_it(tmp_path: Path) -> None:
    rows = {"id": [1, 2], "vector": [[1.0, 0.0], [0.0, 1.0]]}
    first = [("publish", rows), ("subscribe", {"id": ["a"], "vector": [[1.0, 0.5]]})]
    second = [("publish", {"id": [3], "vector": [[2.0, 1.0]]})]
    with Shard.open(tmp_path / "shard", SimilarVectors(size=2, k=1)) as shard:
        token, _ = shard.append(first)
        assert shard.results()["item"].to_pylist() == [1]
    with Shard.open(tmp_path / "shard", SimilarVectors(size=2, k=1)) as shard:
        _, answer = shard.apply(second, after=token)
        assert answer.select(["op", "item"]).to_pylist() == [
            {"op": "leave", "item": 1},
            {"op": "enter", "item": 3},
        ]


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    engine = SimilarVectors(size=2, window=3)
    engine.publish({"id": [1, 2], "vector": [[1.0, 0.0], [0.0, 1.0]]})
    header, arrays = engine.state()
    arrays = {name: array.copy() for name, array in arrays.items()}
    arrays["vector.arrival"][:] = 0
    with pytest.raises(SnapshotError, match="comes twice"):
        SimilarVectors.restore(header, arrays)


def test_it_is_found_by_its_name() -> None:
    assert spec.name_of(SimilarVectors) == HOME
    assert spec.engine_type(HOME) is SimilarVectors
    assert spec.name_of(RangeTopK) == "RangeTopK"
    assert spec.engine_type("RangeTopK") is RangeTopK
    with pytest.raises(InputError, match="unknown engine"):
        spec.engine_type("SimilarVectors")
    spec.register(SimilarVectors)
    try:
        assert spec.engine_type("SimilarVectors") is SimilarVectors
        assert "SimilarVectors" in spec.known_names()
    finally:
        del spec._REGISTERED["SimilarVectors"]
    for bad in ("examples.similar_vectors:units", "no.such.module:Engine", f"{__name__}:ROOT"):
        with pytest.raises(InputError, match="engine"):
            spec.engine_type(bad)


class Cheaper(RangeTopK):
    """An engine of the package, as somebody else goes on with it."""


def test_a_subclass_is_what_it_is() -> None:
    assert spec.name_of(Cheaper) == f"{__name__}:Cheaper"
    assert spec.divided_spec(Cheaper) is RangeTopK.spec

    class Local(RangeTopK):
        pass

    with pytest.raises(InputError, match="cannot import"):
        spec.name_of(Local)


@pytest.mark.parametrize("name", spec.ENGINES)
def test_every_engine_describes_all_its_calls(name: str) -> None:
    cls = spec.engine_type(spec.ENGINES[name])
    needs: dict[str, Any] = {"geotext": {"bounds": (0, 0, 1, 1)}, "range_topk": {}}
    engine = cls(**needs.get(name, {"over": ["x1"]}))
    told = [call for each in cls.spec.inputs for call in each.calls]
    assert set(told) <= set(cls.calls)
    for call in cls.calls:
        form, where = engine.reads(call)
        assert form.known
        assert "id" in form.known or call not in told or call in TIME_CALLS  # the clock has no id
        assert where
    assert cls.spec.title


def test_the_package_does_not_know_it() -> None:
    for path in (ROOT / "src" / "rankcast").rglob("*.py"):
        text = path.read_text().lower()
        assert "similar_vectors" not in text, path
        assert "similarvectors" not in text, path
