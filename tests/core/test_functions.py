"""Functions of one's own that fail at their n-th call: the call has changed nothing, and a shard goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import MovingTopK, RankedMatcher
from rankcast.errors import FunctionError, InputError
from rankcast.state import Shard


def _raise(error: Exception) -> Any:
    raise error


FAULTS: dict[str, Callable[[Any], Any]] = {
    "raises": lambda scores: _raise(ZeroDivisionError("no")),
    "refuses": lambda scores: _raise(InputError("is not to my taste", column="p", row=0)),
    "short": lambda scores: scores[1:],
    "deep": lambda scores: scores[:, None],
    "nan": lambda scores: np.full_like(scores, np.nan),
    "one nan": lambda scores: np.where(np.arange(scores.size) == scores.size // 2, np.nan, scores),
    "text": lambda scores: scores.astype(str),
    "complex": lambda scores: scores * 1j,
    "truth": lambda scores: scores > 0,
    "nothing": lambda scores: None,
    "ragged": lambda scores: [[1.0], [1.0, 2.0]],
}


class Fickle:
    """A function that has a fault at one of its calls, counted from when it was told so."""

    def __init__(self) -> None:
        self.left, self.fault = 0, ""

    def fail_at(self, call: int, fault: str) -> None:
        self.left, self.fault = call, fault

    def behave(self) -> bool:
        """Have no fault; whether there was none since it was told to."""
        left, self.left = self.left, 0
        return left > 0

    def __call__(self, values: Any, distance: Any = None) -> Any:
        scores = np.sqrt(values[:, 0]) + distance if distance is not None else values.sum(axis=1)
        self.left -= self.left > 0
        if self.left == 0 and self.fault:
            fault, self.fault = self.fault, ""
            return FAULTS[fault](scores)
        return scores


Call = tuple[str, Any]
MOVING: dict[str, dict[str, Any]] = {
    "zone": {},
    "zone-m": {"m": 3, "ordered": False},
    "zone-globe": {"metric": "haversine", "tuning": {"circle": "lemma"}},
    "scan": {"method": "scan"},
}
MATCHING: dict[str, dict[str, Any]] = {"match": {}, "match-scan": {"index": "scan"}}


def made(name: str, function: Any) -> Any:
    if name in MOVING:
        return MovingTopK(over=["p"], k=2, score=function, **MOVING[name])
    return RankedMatcher(over=["a", "b"], k=3, mode="relaxed", combine=function, **MATCHING[name])


def given(name: str, function: Any) -> dict[str, Any]:
    return {"score": function} if name in MOVING else {"combine": function}


def history(name: str, seed: int, size: int) -> Iterator[Call]:
    rng = np.random.default_rng(seed)
    return _moving(rng, size) if name in MOVING else _matching(rng, size)


def _moving(rng: np.random.Generator, size: int) -> Iterator[Call]:
    """Objects and queries that come, change and go; ties in places and attributes."""
    objects: set[str] = set()
    queries: set[int] = set()
    for number in range(size):
        some = [f"o{each}" for each in rng.choice(24, 6, replace=False)]
        places = {"x": rng.integers(0, 9, 6).astype(float), "y": rng.integers(0, 9, 6).astype(float)}
        call = rng.choice(["subscribe", "amend", "publish", "publish", "upsert", "remove", "unsubscribe"])
        if number < 2:
            call = ["upsert", "subscribe"][(number + int(rng.integers(2))) % 2] if number else "upsert"
        known = sorted(queries)
        if call == "upsert":
            objects |= set(some)
            yield call, {"id": some, **places, "p": rng.integers(0, 4, 6).astype(float)}
        elif call == "remove" and len(objects) > 4:
            gone = [str(each) for each in rng.choice(sorted(objects), 2, replace=False)]
            objects -= set(gone)
            yield call, gone
        elif call == "subscribe" or not known:
            fresh = [100 * number + each for each in range(2)]
            queries |= set(fresh)
            yield (
                "subscribe",
                {
                    "id": fresh,
                    "x": places["x"][:2],
                    "y": places["y"][:2],
                    "k": [None, 3],
                    "p_hi": [None, 2.0],
                },
            )
        elif call == "unsubscribe":
            queries.discard(known[0])
            yield call, known[:1]
        else:
            some_queries = [int(each) for each in rng.choice(known, min(3, len(known)), replace=False)]
            rows: dict[str, Any] = {"id": some_queries, "x": places["x"][: len(some_queries)]}
            if call == "amend":
                rows["k"] = [int(each) for each in rng.integers(1, 4, len(some_queries))]
            else:
                call, rows["y"] = "publish", places["y"][: len(some_queries)]
            yield str(call), rows


def _matching(rng: np.random.Generator, size: int) -> Iterator[Call]:
    known: list[int] = []
    for number in range(size):
        call = str(rng.choice(["subscribe", "amend", "rescore", "unsubscribe", "publish", "publish"]))
        weights = {"a_weight": rng.integers(0, 3, 3), "b_weight": rng.integers(0, 3, 3)}
        if call == "subscribe" or len(known) < 4:
            fresh = [10 * number + each for each in range(3)]
            known += fresh
            low = rng.integers(0, 5, 3)
            yield "subscribe", {"id": fresh, "a_lo": low, "a_hi": low + 2, "b_lo": low, **weights}
        elif call == "unsubscribe":
            yield call, [known.pop(0)]
        elif call == "publish":
            yield call, {"id": ["e", "f"], "a": rng.integers(0, 7, 2), "b": rng.integers(0, 7, 2)}
        else:
            yield call, {"id": known[:3], **weights}


def seen(name: str, engine: Any) -> list[Any]:
    """All that a user can see of an engine."""
    told: list[Any] = [len(engine), engine.stats()]
    if name in MOVING:
        told += [engine.results().to_pylist(), engine.zones().to_pylist()]
    return told


def same(one: pa.Table | None, other: pa.Table | None) -> bool:
    return one is None and other is None if one is None or other is None else bool(one.equals(other))


def calls_to_try(rng: np.random.Generator, *, every: bool) -> Iterator[int]:
    """At which of its calls the function fails: all of them, or the first and then ever fewer."""
    call = 1
    while True:
        yield call
        call += 1 if every or call < 2 else 1 + int(rng.integers(2 * call))


def misbehave(name: str, seed: int, *, size: int, every: bool) -> None:
    """Run a history on an engine whose function fails again and again, and on a twin whose does not."""
    rng, function = np.random.default_rng(seed), Fickle()
    engine, twin = made(name, function), made(name, Fickle())
    tried = 0
    for call, rows in history(name, seed, size):
        expected = getattr(twin, call)(rows)
        for number in calls_to_try(rng, every=every):
            before = seen(name, engine)
            fault = str(rng.choice(list(FAULTS)))
            function.fail_at(number, fault)
            try:
                answer = getattr(engine, call)(rows)
            except InputError:
                function.behave()
                assert seen(name, engine) == before, (call, number, fault)
                tried += 1
                continue
            was_good = function.behave()
            function.fault = ""
            assert same(answer, expected), (call, number, fault)  # NaN for a bound bounds nothing
            assert was_good or "nan" in fault
            break
        if name in MOVING:
            assert engine.results().equals(twin.results())
    assert tried > size // 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [*MOVING, *MATCHING])
def test_a_call_whose_function_fails_has_changed_nothing(name: str, seed: int) -> None:
    misbehave(name, seed, size=12, every=False)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 150))
@pytest.mark.parametrize("name", [*MOVING, *MATCHING])
def test_a_call_whose_function_fails_at_any_call_has_changed_nothing(name: str, seed: int) -> None:
    misbehave(name, seed, size=30, every=True)


def misbehave_in_a_shard(name: str, seed: int, path: Path, *, size: int, every: bool) -> None:
    """The same on a shard, which is opened again after every call that went through."""
    rng, function = np.random.default_rng(seed), Fickle()
    twin = made(name, Fickle())
    for call, rows in history(name, seed, size):
        expected = twin.apply([(call, rows)])
        with Shard.open(path, made(name, function), given=given(name, function), snapshot_batches=5) as shard:
            before = shard.number, shard.token
            for number in calls_to_try(rng, every=every):
                function.fail_at(number, str(rng.choice(list(FAULTS))))
                try:
                    _, answer = shard.append([(call, rows)])
                except InputError:
                    function.behave()
                    function.fault = ""
                    assert (shard.number, shard.token) == before
                    continue
                function.behave()
                function.fault = ""
                assert answer.equals(expected)
                break
            if name in MOVING:
                assert shard.results().equals(twin.results())
    with Shard.open(path, made(name, function), given=given(name, function)) as shard:
        assert shard.number == size
        if name in MOVING:
            assert shard.results().equals(twin.results())


@pytest.mark.parametrize("name", ["zone", "scan", "match"])
def test_a_shard_whose_function_fails_goes_on_and_opens_again(name: str, tmp_path: Path) -> None:
    misbehave_in_a_shard(name, 5, tmp_path, size=8, every=False)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", [*MOVING, *MATCHING])
def test_a_shard_whose_function_fails_at_any_call_goes_on(name: str, seed: int, tmp_path: Path) -> None:
    misbehave_in_a_shard(name, seed, tmp_path, size=15, every=False)


def test_the_first_ids_of_a_call_that_failed_fix_nothing() -> None:
    function = Fickle()
    engine = made("zone", function)
    engine.upsert({"id": [1], "x": [0.0], "y": [0.0], "p": [1.0]})
    function.fail_at(3, "short")
    with pytest.raises(FunctionError, match=r'"score": returned float64 of shape \(0,\) for 1 objects'):
        engine.subscribe({"id": [1], "x": [0.0], "y": [0.0]})
    assert engine.subscribe({"id": ["text"], "x": [0.0], "y": [0.0]})["subscription"].to_pylist() == ["text"]
