"""What the contract says of all engines alike and no law can say."""

from __future__ import annotations

import inspect
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rankcast import InputError
from rankcast.core import contract
from rankcast.core.contract import Subject

DEFAULTS = [subject for subject in contract.subjects() if subject.default]
NEEDED: dict[str, dict[str, Any]] = {
    "covering": {"over": ["x"]},
    "matching": {"over": ["x"]},
    "geotext": {"bounds": (0, 0, 1, 1)},
    "moving_topk": {"over": ["price"]},
    "moving_skyline": {"over": ["price"]},
}
WATCHED = {"open", "os.mkdir", "socket.__new__", "_thread.start_new_thread"}

every_engine = pytest.mark.parametrize("subject", DEFAULTS, ids=lambda subject: subject.family)


def make(subject: Subject, **settings: Any) -> Any:
    return subject.engine(**NEEDED.get(subject.family, {}), **settings)


@contextmanager
def watching() -> Iterator[list[str]]:
    """What is opened meanwhile in this thread. An audit hook stays for good, so it stops listening."""
    opened: list[str] = []
    here, listening = threading.get_ident(), True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if listening and threading.get_ident() == here and event in WATCHED:
            opened.append(event)

    sys.addaudithook(hook)
    yield opened
    listening = False


@every_engine
def test_making_one_opens_no_thread_file_or_socket(subject: Subject) -> None:
    make(subject)
    with watching() as opened:
        make(subject)
        Path(__file__).open().close()
    assert opened == ["open"], "only what the test itself opened"


@every_engine
def test_settings_are_keyword_only(subject: Subject) -> None:
    parameters = inspect.signature(subject.engine).parameters.values()
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in parameters)
    assert {"extra", "tuning"} <= {one.name for one in parameters}


@every_engine
def test_unknown_tuning_and_wrong_extra_are_refused_at_once(subject: Subject) -> None:
    with pytest.raises(InputError, match="no_such"):
        make(subject, tuning={"no_such": 1})
    with pytest.raises(InputError, match="extra"):
        make(subject, extra="perhaps")
    assert issubclass(InputError, ValueError)


@every_engine
def test_counters_start_at_nothing(subject: Subject) -> None:
    engine = make(subject)
    told = engine.stats()
    assert {told["events"], told["candidates"], told["deltas"]} == {0}
    assert len(engine) == 0


@every_engine
def test_an_unknown_id_is_refused_by_column_and_row(subject: Subject) -> None:
    engine = make(subject)
    with pytest.raises(InputError, match="row: 0"):
        engine.unsubscribe([7])
    if hasattr(engine, "results"):
        with pytest.raises(InputError, match="row: 0"):
            engine.results([7])


@every_engine
def test_an_engine_is_true_also_when_it_is_empty(subject: Subject) -> None:
    engine = make(subject)
    assert (len(engine), bool(engine)) == (0, True)


HOSTILE = [
    None, True, -1, 0, 1, 3, 2**31, 10**5000, 0.5, float("nan"), float("inf"), 1j, Decimal(1), Fraction(1, 2),
    np.int64(2), np.uint8(1), np.float32(0.5), np.float64(0.25), np.bool_(True), np.timedelta64(1, "h"),
    np.array(2), np.array([1, 2]), np.array([0.0, 0.0, 1.0, 1.0]), "", "x", np.str_("x"), "\ud800", b"x",
    [], ["a", "b"], ["a", "a"], ["a", 5], [["a"]], ("a",), {"a"}, {}, {"a": 1}, {5: 5}, object(), int,
    {"threads": np.int64(1)}, {"m": np.int16(3)}, {"groups": np.int32(4)}, {"prune": 5}, {"branching": 1j},
    {"universe": np.array([0, 0, 1, 1])}, {"universe": 5},
    {"share": np.float32(0.5)}, timedelta(hours=1), timedelta(0), pd.Timedelta(hours=1),
]  # fmt: skip


@every_engine
def test_any_setting_is_taken_as_plain_values_or_refused_in_words(subject: Subject) -> None:
    for name in inspect.signature(subject.engine).parameters:
        for value in HOSTILE:
            if callable(value) and name in ("score", "combine"):
                continue
            settings = {**NEEDED.get(subject.family, {}), name: value}
            try:
                engine = subject.engine(**settings)
            except InputError as error:
                text = str(error)
                assert len(text) < 2000
                assert all(c.isprintable() or c == "\n" for c in text), text
            else:
                held = json.loads(json.dumps(engine.state()[0]))
                assert subject.engine.configured(held["settings"]).state()[0] == held, (name, value)
