"""Lists of a large k keep the laws while they grow from shelf to shelf and back: see `indexes.widths`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import RangeTopK
from rankcast.core import contract
from rankcast.core.contract import Reference
from rankcast.range_topk import interval, size_classes
from tests.laws.range_topk import LARGE, workloads
from tests.laws.test_laws import MEMORY

KS = [1, 3, 80, 129, 300, 10**6, 2**31 - 1]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Widths so small that a handful of objects goes through all of them."""
    with monkeypatch.context() as patch:
        for name, value in (("NARROW", 1), ("LEAST", 2), ("LONG", 4)):
            patch.setattr(size_classes, name, value)
        patch.setattr(interval, "PAINTED", 1)
        yield


def _make(configuration: dict[str, Any]) -> RangeTopK:
    return RangeTopK(**configuration)


@pytest.mark.usefixtures("narrow")
def test_the_laws_with_narrow_widths() -> None:
    @settings(max_examples=60)
    @given(workloads(), st.data())
    def laws(workload: contract.Workload, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(workload.steps) - 1))
        scan = Reference(RangeTopK(**workload.settings, method="scan"))
        contract.follow(_make, scan, workload, tolerance=0.0, plain=None)
        whole = contract.run(_make, workload)
        contract.cut(_make, workload, whole)
        contract.apart(_make, workload, whole)
        contract.net(_make, workload, whole, at)
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            contract.reload(_make, workload, whole, Path(folder) / "snapshot", at)

    laws()


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("method", ["sparse", "dense", "unicast", "relax"])
def test_what_is_sent_is_the_same_for_every_k_beyond_all_objects(method: str, batch: bool) -> None:
    @settings(max_examples=settings().max_examples // 5)
    @given(workloads(), st.sampled_from([None, 0.3, 1.0]), st.booleans())
    def law(workload: contract.Workload, epsilon: float | None, small: bool) -> None:
        approximate = epsilon if method in ("sparse", "dense") else None
        told = []
        for k in (20, LARGE[-1]):  # there are 17 objects at most
            with pytest.MonkeyPatch.context() as patch:
                if small and k > 20:
                    patch.setattr(size_classes, "NARROW", 1)
                    patch.setattr(size_classes, "LEAST", 2)
                told.append(
                    _sent(RangeTopK(**{**workload.settings, "k": k}), workload, method, approximate, batch)
                )
        assert told[0] == told[1]

    law()


def _sent(
    engine: RangeTopK, workload: contract.Workload, method: str, epsilon: float | None, batch: bool
) -> list[Any]:
    """What an engine sends and tells over a workload whose subscriptions have its k."""
    told: list[Any] = []
    for call, rows in workload.steps:
        if call == "publish":
            try:
                tiles = engine.disseminate(rows, method=method, epsilon=epsilon, batch=batch)
            except ValueError as error:
                told.append(str(error))
                tiles = engine.publish(rows)
            told.append(_by_event(tiles.to_pylist()))
        else:
            columns = isinstance(rows, dict)
            own = {name: values for name, values in rows.items() if name != "k"} if columns else rows
            told.append(getattr(engine, call)(own).to_pylist())
    return [*told, engine.results().to_pylist(), engine.stats()["affected"]]


def _by_event(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Rows in runs of one item and score: who of them hears first follows the layout of a tree."""
    runs = groupby(rows, key=lambda row: (row["item"], row.get("y")))
    return [sorted(map(str, run)) for _, run in runs]


class Lists:
    """All lists by brute force over arrays: objects at places, boxes with a k."""

    def __init__(self, width: int, rng: np.random.Generator) -> None:
        self.names = ["x", "z", "w"][:width]
        self.rng, self.place, self.value = rng, np.zeros((0, width)), np.zeros(0)
        self.live: list[int] = []
        self.boxes: dict[int, tuple[Any, Any, int]] = {}

    def come(self, count: int) -> dict[str, Any]:
        """So many new objects."""
        first = len(self.value)
        place = self.rng.integers(0, 100, (count, len(self.names))).astype(float)
        self.place = np.vstack([self.place, place])
        self.value = np.append(self.value, self.rng.integers(0, 50, count).astype(float))
        fresh = list(range(first, first + count))
        self.live += fresh
        return self.rows(fresh)

    def go(self, count: int) -> dict[str, Any]:
        """So many objects leave."""
        gone = [
            self.live.pop(int(self.rng.integers(len(self.live)))) for _ in range(min(count, len(self.live)))
        ]
        return {"id": gone, "y": [None] * len(gone)}

    def stir(self, count: int) -> dict[str, Any]:
        """So many objects get other places and values."""
        some = self.rng.choice(self.live, min(count, len(self.live)), replace=False).tolist()
        self.place[some] = self.rng.integers(0, 100, (len(some), len(self.names)))
        self.value[some] = self.rng.integers(0, 50, len(some))
        return self.rows(some)

    def rows(self, ids: list[int]) -> dict[str, Any]:
        places = {name: self.place[ids, axis] for axis, name in enumerate(self.names)}
        return {"id": ids, **places, "y": self.value[ids]}

    def subscribe(self, ids: list[int]) -> dict[str, Any]:
        """Boxes for subscriptions, new or other ones, with k of all sizes."""
        ends = np.sort(self.rng.integers(0, 100, (2, len(ids), len(self.names))), axis=0).astype(float)
        k = [int(self.rng.choice(KS)) for _ in ids]
        self.boxes |= {name: (ends[0, i], ends[1, i], k[i]) for i, name in enumerate(ids)}
        columns = {
            f"{name}_{end}": ends[side, :, axis]
            for axis, name in enumerate(self.names)
            for side, end in enumerate(("lo", "hi"))
        }
        return {"id": ids, **columns, "k": k}

    def results(self) -> list[tuple[int, int]]:
        """Subscription and item, in the order of results."""
        live = np.array(sorted(self.live), np.int64)
        found = []
        for name, (lo, hi, k) in self.boxes.items():
            inside = live[((lo <= self.place[live]) & (self.place[live] <= hi)).all(axis=1)]
            best = inside[np.lexsort((inside, self.value[inside]))][:k]
            found += [(name, int(item)) for item in best]
        return found


@pytest.mark.parametrize("width", [1, 2, 3])
def test_lists_follow_thousands_of_objects_that_come_and_go(width: int, tmp_path: Path) -> None:
    world = Lists(width, np.random.default_rng(width))
    engine = RangeTopK(over=world.names, by="y", k=2**31 - 1)
    replayed: dict[int, set[int]] = {}

    def hear(table: Any) -> None:
        for row in table.to_pylist():
            items = replayed.setdefault(row["subscription"], set())
            if row["op"] == "enter":
                items.add(row["item"])
            elif row["op"] == "leave":
                items.remove(row["item"])

    for step in range(26):
        if step % 5 == 0:
            hear(engine.subscribe(world.subscribe(list(range(10 * step, 10 * step + 8)))))
        if step % 5 == 3:
            some = world.rng.choice(list(world.boxes), 4, replace=False).tolist()
            hear(engine.amend(world.subscribe(some)))
        hear(engine.publish(world.come(1 if step % 2 else 120) if step < 14 else world.go(110)))
        if step % 4 == 2:
            hear(engine.publish(world.stir(20)))
        if step % 9 == 8:
            engine.save(tmp_path / "snapshot")
            engine = RangeTopK.load(tmp_path / "snapshot")
        found = engine.results()
        told = list(zip(found["subscription"].to_pylist(), found["item"].to_pylist(), strict=True))
        assert told == world.results(), step
        assert {(name, item) for name, items in replayed.items() for item in items} == set(told)


@pytest.mark.parametrize("k", [10**6, 2**31 - 1])
@pytest.mark.parametrize("width", [1, 2])
def test_a_list_costs_what_it_holds(width: int, k: int) -> None:
    """200 short lists of a large k take at most as much as they would with room for 64 objects each."""
    sizes = []
    for each in (64, k):
        world = Lists(width, np.random.default_rng(5))
        engine = RangeTopK(over=world.names, by="y", k=each)
        engine.publish(world.come(3000))
        low = {f"{name}_lo": np.arange(200) / 2.0 for name in world.names}
        high = {f"{name}_hi": np.arange(200) / 2.0 + (0.5 if width == 1 else 9) for name in world.names}
        engine.subscribe({"id": np.arange(200), **low, **high})
        for _ in range(20):
            engine.publish(world.come(5))
            engine.publish(world.stir(5))
        sizes.append(sum(array.nbytes for array in engine.state()[1].values()))
    assert sizes[1] <= 1.5 * sizes[0]
