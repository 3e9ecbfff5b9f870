"""Whatever is given to an engine, it takes it or says in an `InputError` what is wrong with it."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.core import hostile
from tests.core.hostile import CASES

ROOT = Path(__file__).parent.parent.parent
every_engine = pytest.mark.parametrize("family", CASES)


def attack_all(family: str, attacks: list[hostile.Attack]) -> int:
    """Give everything to one engine, made anew after whatever it takes; says how often it took something."""
    engine, taken = CASES[family].make(), 0
    for one in attacks:
        if one.call in CASES[family].engine.calls and not hasattr(type(one.given), "__next__"):
            hostile.journaled(CASES[family].engine, one)
        if hostile.attack(engine, one):
            engine, taken = CASES[family].make(), taken + 1
    return taken


@every_engine
def test_hostile_input_is_taken_or_refused_in_words(family: str) -> None:
    attacks = list(hostile.attacks(CASES[family]))
    some = random.Random(1).sample(attacks, 300)  # noqa: S311  the same ones every time
    assert 0 < attack_all(family, some) < len(some) / 2


@pytest.mark.deep
@every_engine
def test_all_hostile_input_is_taken_or_refused_in_words(family: str) -> None:
    attacks = list(hostile.attacks(CASES[family]))
    assert 0 < attack_all(family, attacks) < len(attacks) / 2


def assailed(seed: int, count: int) -> None:
    """Damaged Arrow in a process of its own, which must live to the end."""
    told: Any = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.core.hostile", str(seed), str(count)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    last = told.stdout.splitlines()[-1] if told.stdout else "nothing"
    assert told.returncode == 0, f"ended with {told.returncode} at {last}: {told.stderr[-4000:]}"
    assert last.startswith("taken: "), last
    assert 0 < int(last.removeprefix("taken: ")) < count, "a few changed bytes are other values"


def test_damaged_arrow_is_refused_and_kills_nobody() -> None:
    assailed(1, 300)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 12))
def test_much_damaged_arrow_is_refused_and_kills_nobody(seed: int) -> None:
    assailed(seed, 20_000)
