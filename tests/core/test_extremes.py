"""Every setting and every number of a row at its extremes: fine and small, or refused by name."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from rankcast import (
    CoveringTable,
    GeoTextTopK,
    InputError,
    MovingSkyline,
    MovingTopK,
    RangeTopK,
    RankedMatcher,
)

MOST = 2**31 - 1
MEGABYTES = 60


def _range(**given: Any) -> None:
    own, over = given.pop("own", None), given.pop("over", "x")
    engine = RangeTopK(over=over, by="y", **given)
    names = [over] if isinstance(over, str) else over
    places = {name: [1, 2, 3] for name in names}
    engine.publish({"id": [1, 2, 3], "y": [1, 2, 3], **places})
    k = {} if own is None else {"k": [own, None]}
    engine.subscribe({"id": [1, 2], "x_lo": [0, 2], **k})
    if own is None:
        for batch in (False, True):
            engine.disseminate({"id": [4, 1], "y": [0, 5], **{name: [2, 2] for name in names}}, batch=batch)
    else:
        engine.amend({"id": [2, 1], "k": [own, 1]})
        engine.amend({"id": [1], "k": [own]})
    engine.publish({"id": [3, 1], "y": [None, 9]})
    engine.explain(1, 1)
    if over == "x":
        engine.influence(1)
    engine.results()


def _matches(**given: Any) -> None:
    mode = given.setdefault("mode", "exact")
    engine = RankedMatcher(over=["p", "q"], **given)
    worth = {"score": [1.0] * 5} if mode == "exact" else {"p_weight": [1.0] * 5}
    engine.subscribe({"id": list(range(5)), "p_lo": [0] * 5, "p_hi": [5] * 5, **worth})
    engine.publish({"id": list(range(500)), "p": [1.0] * 500, "q": [1.0] * 500})


def _messages(**given: Any) -> None:
    own = given.pop("own", None)
    engine = GeoTextTopK(bounds=(0, 0, 10, 10), **given)
    engine.publish({"id": [10], "x": [1], "y": [1], "terms": [["a"]]})
    k = {} if own is None else {"k": [own, None]}
    engine.subscribe({"id": [1, 2], "x": [1, 2], "y": [1, 2], "terms": [["a"], ["b", "a"]], **k})
    for at in range(5):
        engine.publish({"id": [at], "x": [at], "y": [at], "terms": [["a", "b"]]})
    if own is not None:
        engine.amend({"id": [2, 1], "k": [own, 1]})
        engine.amend({"id": [1], "k": [own]})
    engine.results()


def _moving(**given: Any) -> None:
    own = given.pop("own", None)
    engine = MovingTopK(over=["price"], **given)
    engine.upsert({"id": list(range(6)), "x": list(range(6)), "y": [0] * 6, "price": [1.0] * 6})
    k = {} if own is None else {"k": [own, None]}
    engine.subscribe({"id": [1, 2], "x": [1, 2], "y": [1, 2], **k})
    for at in range(4):
        engine.publish({"id": [1], "x": [at], "y": [3]})
    engine.upsert({"id": [20], "x": [2], "y": [0], "price": [0.0]})
    engine.remove([3])
    if own is not None:
        engine.amend({"id": [2], "k": [own]})
    engine.zones()
    engine.results()


def _skyline(**given: Any) -> None:
    engine = MovingSkyline(over=["price"], **given)
    engine.upsert({"id": list(range(6)), "x": list(range(6)), "y": [0] * 6, "price": [1.0] * 6})
    engine.subscribe({"id": [1], "x": [1], "y": [1]})
    engine.publish({"id": [1], "x": [3], "y": [3]})
    engine.results()


def _covering(**given: Any) -> None:
    k = given.pop("k", 1)
    engine = CoveringTable(over=["p"], **given)
    engine.subscribe({"id": list(range(5)), "p_lo": [0, 1, 2, 3, 4], "p_hi": [9, 8, 7, 6, 5]})
    engine.covers({"id": [1], "p_lo": [4], "p_hi": [5]}, k=k)


CASES: dict[str, Callable[[int], None]] = {
    "range k": lambda n: _range(k=n),
    "range k dense": lambda n: _range(k=n, method="dense"),
    "range k unicast": lambda n: _range(k=n, method="unicast"),
    "range k scan": lambda n: _range(k=n, method="scan"),
    "range k epsilon": lambda n: _range(k=n, epsilon=1.0),
    "range k 1.5-d": lambda n: _range(k=n, over=["x", "z"]),
    "range k 1.5-d dense": lambda n: _range(k=n, over=["x", "z"], method="dense"),
    "range k boxes": lambda n: _range(k=n, over=["x", "z", "w"]),
    "range own k": lambda n: _range(own=n),
    "range own k boxes": lambda n: _range(own=n, over=["x", "z"]),
    "range max_k": lambda n: _range(max_k=n),
    "matching k": lambda n: _matches(k=n),
    "matching k relaxed": lambda n: _matches(k=n, mode="relaxed"),
    "matching k scan": lambda n: _matches(k=n, index="scan"),
    "matching k inverted": lambda n: _matches(k=n, index="inverted"),
    "matching k box-tree": lambda n: _matches(k=n, index="box-tree"),
    "matching branching": lambda n: _matches(index="ir-tree", tuning={"branching": n}),
    "matching threads": lambda n: _matches(tuning={"threads": n}),
    "messages k": lambda n: _messages(k=n),
    "messages k skyband": lambda n: _messages(k=n, refill="skyband"),
    "messages k kmax": lambda n: _messages(k=n, refill="kmax"),
    "messages k and kmax": lambda n: _messages(k=n, refill="kmax", tuning={"kmax": n}),
    "messages k none": lambda n: _messages(k=n, refill="none"),
    "messages k ciq": lambda n: _messages(k=n, method="ciq", refill="kmax"),
    "messages k scan": lambda n: _messages(k=n, method="scan"),
    "messages k of a small window": lambda n: _messages(k=n, window=3),
    "messages own k": lambda n: _messages(own=n),
    "messages window": lambda n: _messages(window=n),
    "messages groups": lambda n: _messages(tuning={"groups": n}),
    "moving k": lambda n: _moving(k=n),
    "moving m": lambda n: _moving(m=n),
    "moving k and m": lambda n: _moving(k=n, m=n),
    "moving own k": lambda n: _moving(own=n, m=n),
    "moving k of a function": lambda n: _moving(k=n, m=n, score=lambda a, d: a.sum(axis=1) + d),
    "moving n": lambda n: _moving(tuning={"n": n, "circle": "trim"}),
    "moving threads": lambda n: _moving(tuning={"threads": n}),
    "skyline m": lambda n: _skyline(tuning={"m": n}),
    "skyline m of circles": lambda n: _skyline(metric="manhattan", tuning={"m": n}),
    "covering graph": lambda n: _covering(graph=n),
    "covering graph zcurve": lambda n: _covering(graph=n, index="zcurve"),
    "covers k": lambda n: _covering(k=n),
}
REFUSING = ("graph", "branching")  # those with a ceiling of their own


@pytest.mark.parametrize("case", CASES)
def test_a_large_number_is_fine_and_small_or_refused_by_name(case: str) -> None:
    for number in (10**6, MOST):
        if any(word in case for word in REFUSING):
            with pytest.raises(InputError, match=rf"is {number}, expected a whole number .*65536"):
                CASES[case](number)
            continue
        CASES[case](number)  # compiling takes memory, too
        tracemalloc.start()
        try:
            CASES[case](number)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < MEGABYTES * 2**20


@pytest.mark.parametrize("case", CASES)
def test_what_is_too_large_or_too_small_is_refused_by_name(case: str) -> None:
    for number in (MOST + 1, 2**63 - 1, 2**63, 10**30, 0, -1, -(2**31), -(2**63)):
        if number > 0 and case == "messages window":
            continue
        with pytest.raises(InputError) as refused:
            CASES[case](number)
        told = str(refused.value)
        ceiling = str(MOST) in told or "65536" in told
        beyond = 'column "k"' in told and not -(2**63) <= number < 2**63  # no column holds such a number
        assert ceiling or beyond or (case == "messages window" and "window" in told)


def test_a_ceiling_for_k() -> None:
    with pytest.raises(InputError, match="k is 10, expected at most max_k, which is 5"):
        RangeTopK(max_k=5)
    engine = RangeTopK(k=3, max_k=5)
    engine.subscribe({"id": [1, 2], "k": [None, 5]})
    refused = r'column "k" of "subscriptions" is 6, expected at most max_k, which is 5'
    before = engine.state()
    for call, rows in (("subscribe", {"id": [3, 4], "k": [5, 6]}), ("amend", {"id": [1, 2], "k": [1, 6]})):
        with pytest.raises(InputError, match=refused) as told:
            getattr(engine, call)(rows)
        assert told.value.row == 1
    assert str(engine.state()) == str(before)
    assert type(engine).restore(*engine.state())._max_k == 5
