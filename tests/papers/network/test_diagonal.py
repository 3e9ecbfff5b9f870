"""Servers along the diagonal: questions that walk give the answers of one server that holds everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import RangeTopK
from rankcast.errors import SettingError
from rankcast.papers.network import diagonal as walking
from rankcast.papers.network.diagonal import Diagonal

Y = st.integers(0, 5)


@st.composite
def lines(draw: Any) -> tuple[Any, Any, int]:
    """Values of objects in the order of x, their labels, and how many servers share them."""
    y = np.array(draw(st.lists(Y, min_size=1, max_size=14)), np.float64)
    label = np.array(draw(st.permutations(range(len(y)))), np.int64)
    return y, label, draw(st.integers(1, len(y)))


def starts(count: int, servers: int) -> Any:
    return np.linspace(0, count, servers + 1).astype(np.int64)


@settings(max_examples=80)
@given(lines(), st.integers(1, 4), Y, st.data())
def test_firstk_walks_until_it_knows(line: tuple[Any, Any, int], k: int, value: int, data: Any) -> None:
    y, label, servers = line
    place, step = data.draw(st.integers(0, len(y) - 1)), data.draw(st.sampled_from([-1, 1]))
    start, found = starts(len(y), servers), np.full(k, -1, np.int64)
    crossed = np.zeros(servers, np.int64)
    size, asked = walking.firstk(start, y, label, place, float(value), step, found, crossed)
    side = range(place - 1, -1, -1) if step < 0 else range(place + 1, len(y))
    expected = [at for at in side if (y[at], label[at]) < (value, label[place])]
    assert found[:size].tolist() == expected[:k]
    home = np.searchsorted(start, place, side="right") - 1
    end = (0 if step < 0 else len(y) - 1) if len(expected) < k else expected[k - 1]
    assert asked == abs(int(np.searchsorted(start, end, side="right")) - 1 - int(home)) == crossed.sum()


@settings(max_examples=80)
@given(lines(), st.data())
def test_miny_asks_every_server_of_the_stretch(line: tuple[Any, Any, int], data: Any) -> None:
    y, label, servers = line
    place = data.draw(st.integers(0, len(y) - 1))
    after, before = data.draw(st.integers(-1, place - 1)), data.draw(st.integers(place + 1, len(y)))
    start, crossed = starts(len(y), servers), np.zeros(servers, np.int64)
    best, asked = walking.miny(start, y, label, place, after, before, place, crossed)
    worse = [at for at in range(after + 1, before) if (y[at], label[at]) > (y[place], label[place])]
    assert best == min(worse, key=lambda at: (y[at], label[at]), default=-1)
    first, last = (np.searchsorted(start, at, side="right") - 1 for at in (after + 1, before - 1))
    assert asked == int(last) - int(first) == crossed.sum()


@settings(max_examples=30)
@given(st.integers(2, 20), st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**20))
def test_servers_ask_what_one_server_asks(count: int, servers: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.permutation(count) / 2, rng.permutation(count).astype(np.float64)
    ids, values = rng.integers(0, count, 12), rng.random(12) * count
    one = RangeTopK(k=k)
    one.publish({"id": np.arange(count), "x": x, "y": y})
    before = one.stats()
    one.disseminate({"id": ids, "y": values}, method="dense")
    asked = {name: one.stats()[name] - before[name] for name in ("firstk", "miny")}
    walks = Diagonal(x, y, min(servers, count)).follow(ids, values, k)
    assert walks.firstk.sum() == asked["firstk"]
    assert walks.miny.sum() == asked["miny"]
    assert (walks.crossed.sum(axis=1) == walks.firstk_steps + walks.miny_steps).all()


def test_one_server_never_walks_and_too_many_are_refused() -> None:
    x, y = np.arange(4.0), np.arange(4.0)
    walks = Diagonal(x, y, 1).follow(np.array([0]), np.array([9.0]), 2)
    assert walks.firstk_steps.tolist() == walks.miny_steps.tolist() == [0]
    assert Diagonal(x, y, 2).server_of(np.arange(4)).tolist() == [0, 0, 1, 1]
    with pytest.raises(SettingError, match="at most the 4 objects"):
        Diagonal(x, y, 5)
