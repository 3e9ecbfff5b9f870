"""The example of a broker tree: no event is missed, none is delivered twice, and covering saves messages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

EXAMPLE = Path(__file__).parents[2] / "examples" / "broker_tree.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("broker_tree", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["broker_tree"] = module
    spec.loader.exec_module(module)
    return module


broker_tree = load()
END = st.integers(0, 4)
BOX = st.tuples(*[st.tuples(END, END).map(lambda ends: tuple(sorted(ends)))] * 2)


def test_it_prints_what_covering_saves(capsys: pytest.CaptureFixture[str]) -> None:
    broker_tree.main(brokers=6, subscriptions=60, events=40)
    printed = capsys.readouterr().out.splitlines()
    assert printed[1] == "missed: 0, delivered twice: 0"
    assert all(line.endswith("% saved") and int(line.split()[-2][:-1]) > 20 for line in printed[2:4])
    assert printed[4].startswith("merging by 20%: ")


@settings(max_examples=50)
@given(
    seed=st.integers(0, 99),
    brokers=st.integers(2, 6),
    subscriptions=st.lists(st.tuples(st.integers(0, 5), BOX, st.booleans()), max_size=8),
    covering=st.booleans(),
    merge=st.sampled_from([None, 0.0, 0.3, 0.8]),
)
def test_nothing_is_missed_and_nothing_comes_twice(
    seed: int,
    brokers: int,
    subscriptions: list[tuple[int, tuple[tuple[int, int], ...], bool]],
    covering: bool,
    merge: float | None,
) -> None:
    network = broker_tree.Network(
        broker_tree.random_tree(brokers, np.random.default_rng(seed)), covering=covering, merge=merge
    )
    live = {}
    for name, (home, box, _) in enumerate(subscriptions):
        network.subscribe(home % brokers, name, box)
        live[name] = box
        assert_served(network, live, brokers)
    for name, (home, _, leaves) in enumerate(subscriptions):
        if leaves:
            network.unsubscribe(home % brokers, name)
            del live[name]
            assert_served(network, live, brokers)
    if not live:
        assert network.entries == 0
    if not covering or merge is None or merge == 0.0:
        assert network.false_traffic == 0


def assert_served(
    network: broker_tree.Network,  # type: ignore[name-defined]
    live: dict[int, tuple[tuple[int, int], ...]],
    brokers: int,
) -> None:
    for point in ((0, 0), (1, 3), (4, 2), (2, 2)):
        wanted = [
            name
            for name, box in live.items()
            if all(low <= value <= high for value, (low, high) in zip(point, box, strict=True))
        ]
        for at in range(brokers):
            assert sorted(network.publish(at, point)) == wanted


def test_merging_tells_less_and_counts_what_it_sends_in_vain() -> None:
    links = [(0, 1)]
    plain, merged = (broker_tree.Network(links, covering=True, merge=merge) for merge in (None, 0.4))
    for network in (plain, merged):
        network.subscribe(1, 1, ((0, 2), (0, 4)))
        network.subscribe(1, 2, ((3, 5), (0, 4)))
        assert network.publish(0, (1, 1)) == [1]
        assert network.publish(0, (2.5, 1)) == []
        assert network.publish(0, (9, 9)) == []
    assert (plain.entries, plain.false_traffic) == (2, 0)
    assert (merged.entries, merged.false_traffic) == (1, 1)
