"""What the contract says of all engines alike and no law can say."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rankcast import InputError, contract
from rankcast.contract import Subject

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
