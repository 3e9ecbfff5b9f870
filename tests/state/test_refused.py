"""`Engine.apply` with commands that are refused: told, left out, and offered again by a generator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rankcast import CoveringTable, RangeTopK, RankedMatcher
from rankcast.core.engine import Command
from rankcast.errors import InputError, SettingError


def test_a_batch_goes_on_without_a_refused_command() -> None:
    engine, twin = RangeTopK(k=1), RangeTopK(k=1)
    good: list[Any] = [("subscribe", {"id": ["a"]}), ("publish", {"id": [1], "x": [0.0], "y": [2.0]})]
    bad: list[Any] = [("amend", {"id": ["b"], "k": [1]}), ("publish", {"id": [2], "x": [0.0], "y": [None]})]
    told: list[tuple[Command, InputError]] = []
    answer = engine.apply(
        [bad[0], good[0], bad[1], good[1]], refused=lambda command, error: told.append((command, error))
    )
    assert answer.equals(twin.apply(good))
    assert engine.results().equals(twin.results())
    assert [command for command, _ in told] == bad
    assert [error.row for _, error in told] == [0, 0]


def test_a_generator_offers_what_is_left() -> None:
    engine = RankedMatcher(over=["x"], k=1)
    wrong: list[InputError] = []

    def commands() -> Iterator[Command]:
        yield Command("subscribe", {"id": [1, 2, 2], "score": [1.0, 2.0, 3.0]})
        assert [error.row for error in wrong] == [2]
        yield Command("subscribe", {"id": [1, 2], "score": [1.0, 2.0]})
        assert len(engine) == 2
        yield Command("publish", {"id": ["e"], "x": [0.0]})

    answer = engine.apply(commands(), refused=lambda _, error: wrong.append(error))
    assert answer["subscription"].to_pylist() == [2]


def test_without_it_a_refused_command_raises() -> None:
    for engine in (RangeTopK(), RankedMatcher(over=["x"]), CoveringTable(over=["x"])):
        with pytest.raises(InputError, match="not known"):
            engine.apply(
                [
                    (
                        "subscribe",
                        {"id": [1]} if not isinstance(engine, RankedMatcher) else {"id": [1], "score": [1.0]},
                    ),
                    ("unsubscribe", [2]),
                ]
            )
        assert len(engine) == 1


def test_a_call_that_does_not_exist_is_no_refused_command() -> None:
    with pytest.raises(SettingError):
        RangeTopK().apply([("destroy", {})], refused=lambda *_: None)
